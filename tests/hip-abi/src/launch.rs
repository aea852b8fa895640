//! Code objects and kernel launches: no runtime of the tests runs the kernels of a program built for ROCm. They all refuse, audibly.
//! What programs with kernels do before that, on being loaded, is in `registration`.

use crate::error::{Code, NOT_SUPPORTED, guard};

fn refuse(function: &str) -> Code {
    guard(|| {
        eprintln!("{function} refused: this HIP runtime runs no kernels of programs");
        Err(NOT_SUPPORTED)
    })
}

/// Defines functions that ignore their arguments, which the C calling convention of the platform allows.
macro_rules! refusing {
    ($($name:ident)*) => {
        $(#[doc = concat!("`", stringify!($name), "`")]
        pub extern "C" fn $name() -> Code {
            refuse(stringify!($name))
        })*
    };
}

refusing! {
    hipModuleLoad hipModuleLoadData hipModuleLoadDataEx hipModuleUnload hipModuleGetFunction hipModuleGetGlobal
    hipModuleLaunchKernel hipExtModuleLaunchKernel hipHccModuleLaunchKernel hipModuleLaunchCooperativeKernel
    hipLaunchKernel hipExtLaunchKernel hipLaunchCooperativeKernel hipLaunchKernelExC hipLaunchByPtr
    hipFuncGetAttributes hipFuncGetAttribute hipFuncSetAttribute
    hipModuleOccupancyMaxPotentialBlockSize hipModuleOccupancyMaxActiveBlocksPerMultiprocessor
    hipOccupancyMaxPotentialBlockSize hipOccupancyMaxActiveBlocksPerMultiprocessor
}
