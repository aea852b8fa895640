//! The public MIOpen C API: what every crate here may know about MIOpen's interface, and nothing about what it does.
//! Constants and structs have no dependency; the whole API as data, and the C headers made from it, need the feature `table`.
//! No translation, no routing, no calls into MIOpen belong here.

mod types;
pub use types::{ConvAlgoPerf, ConvSolution, TensorArgument};

#[cfg(feature = "table")]
mod header;
#[cfg(feature = "table")]
mod private;
#[cfg(feature = "table")]
mod table;
#[cfg(feature = "table")]
pub use header::{c_header, conformance_program, shim_header};
#[cfg(feature = "table")]
pub use private::{RENAME_HEADER, private_cmake, private_pkg_config, rename_header};
#[cfg(feature = "table")]
pub use table::{Abi, Api, EnumType, EnumValue, Field, Function, FunctionPointer, Param, PointerParam, Struct, table};

include!(concat!(env!("OUT_DIR"), "/constants.rs"));

/// The one export that is ours, not MIOpen's: `int32_t miopenGetLastForwardedError(void)`.
pub const FORWARDED_ERROR_FUNCTION: &str = "miopenGetLastForwardedError";

/// The name by which programs ask the loader for MIOpen.
pub const SONAME: &str = "libMIOpen.so.1";

/// The name that `hipdnn-shim install` gives the native MIOpen. It exports what it always did; unlike [`SPLIT_SONAME`].
pub const PRIVATE_SONAME: &str = "libMIOpen_native.so.1";

/// The native library of upstream's split install, which exports `<name>_impl`.
pub const SPLIT_SONAME: &str = "libMIOpen_private.so.1";

/// The symbol version node that MIOpen's exports carry up to ROCm 7.2, and that released clients require.
pub const VERSION_NODE: &str = "MIOPEN_HIP_1";

/// What the functions of [`SPLIT_SONAME`] have behind their public names.
pub const IMPLEMENTATION_SUFFIX: &str = "_impl";

/// The package by which builds find [`SPLIT_SONAME`]: its folder of headers, its pkg-config and its CMake name.
pub const PRIVATE_PACKAGE: &str = "miopen_private";

/// The version that generated packages give out where no header of the native's says one: the newest whose API the table declares.
pub const API_VERSION: &str = "3.5.1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_have_the_names_people_expect() {
        assert_eq!(status::SUCCESS, 0);
        assert_eq!(status::BAD_PARM, 3);
        assert_eq!(status::GPU_OPERATIONS_SKIPPED, 9);
        assert_eq!((data_type::HALF, data_type::FLOAT, data_type::BFLOAT16, data_type::FLOAT8_FNUZ), (0, 1, 5, 7));
        assert_eq!((tensor_layout::NCHW, tensor_layout::NCHWC4, tensor_layout::NDHWC), (0, 3, 8));
        assert_eq!((convolution_mode::CONVOLUTION, convolution_mode::TRANSPOSE, convolution_mode::DEPTHWISE), (0, 1, 3));
        assert_eq!((convolution_attribute::FP16_ALT_IMPL, convolution_attribute::MATH_TYPE), (0, 3));
        assert_eq!((fwd_algorithm::GEMM, fwd_algorithm::DIRECT, fwd_algorithm::IMPLICIT_GEMM), (0, 1, 5));
        assert_eq!((bwd_data_algorithm::GEMM, bwd_data_algorithm::TRANSPOSE_GEMM, bwd_weights_algorithm::DIRECT), (0, 4, 1));
        assert_eq!(convolution_find_mode::DYNAMIC_HYBRID, convolution_find_mode::DEFAULT);
        assert_eq!((batch_norm_mode::PER_ACTIVATION, batch_norm_mode::SPATIAL), (0, 1));
        assert_eq!((rnn_input_mode::LINEAR, rnn_bias_mode::WITH_BIAS, rnn_gemm_algo_mode::GEMM), (0, 1, 0));
        assert_eq!((index_type::UINT8, f8_rounding_mode::STOCHASTIC, indices_type::_64BIT_INDICES), (0, 1, 1));
        assert_eq!((ctc_loss_algo::DETERMINISTIC, rng_type::PSEUDO_XORWOW), (0, 0));
        assert_eq!(status::ALL[3], ("miopenStatusBadParm", status::BAD_PARM));
    }
}
