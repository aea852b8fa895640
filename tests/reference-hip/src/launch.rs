//! Everything that needs a GPU to run: code objects and kernel launches. They all refuse, audibly.
//! What programs with kernels do before that, on being loaded, is in `registration`.

use crate::error::{Code, NOT_SUPPORTED, guard};

fn refuse(function: &str) -> Code {
    guard(|| {
        eprintln!("reference HIP: {function} refused: there is no device that could run kernels");
        Err(NOT_SUPPORTED)
    })
}

/// Defines functions that ignore their arguments, which the C calling convention of the platform allows.
macro_rules! refusing {
    ($($name:ident)*) => {
        $(pub extern "C" fn $name() -> Code {
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
