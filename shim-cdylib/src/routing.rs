//! Which entry points are routed or recorded, and by what. One table; everything that is not in it is a jump to native.

use std::{ffi::CStr, ptr::null_mut};

use hipdnn_host::{
    environment::{Family, Settings},
    forward::Host,
};

use crate::{
    callers, errors, forwarding,
    frame::{Frame, Route},
    native::Native,
    recording,
    records::Records,
    stubs,
};

/// What happens to a routed entry point.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Decided before native would be called.
    Route(Route),
    /// Native first; then its arguments are recorded if it succeeded (the last parameter).
    Record(fn(&Frame, &Forwarding, bool)),
    /// A record goes, then native.
    Forget(fn(&Frame, &Forwarding)),
}

/// Everything that exists only while something is forwarded.
pub struct Forwarding {
    /// The host: translation, plans, execution.
    pub host: Host,
    /// Recorded descriptors.
    pub records: Records,
}

impl Forwarding {
    /// Prepares; loads nothing.
    pub fn new(settings: Settings, native: &Native) -> Self {
        if let Some(address) = native.symbol(c"miopenCreate") {
            callers::add_module_of(address);
        }
        if settings.stats.is_some() {
            // SAFETY: the function is ours, and the library is never unloaded.
            unsafe { libc::atexit(write_stats_at_exit) };
        }
        Self { host: Host::new(settings, Box::new(callers::around_load)), records: Records::default() }
    }
}

extern "C" fn write_stats_at_exit() {
    let written = std::panic::catch_unwind(|| {
        if let Some(forwarding) = stubs::bound().and_then(|bound| bound.forwarding.as_ref()) {
            forwarding.host.write_stats_at_exit();
        }
    });
    drop(written);
}

/// The handler of an export, if it is routed under these settings.
pub fn handler(forwarding: &Forwarding, name: &CStr) -> Option<Handler> {
    let name = name.to_str().ok()?;
    if let Some((_, family, route)) = ROUTES.iter().find(|(routed, _, _)| *routed == name) {
        return forwarding.host.settings().forwards(*family, name).then_some(Handler::Route(*route));
    }
    HANDLERS.iter().find(|(handled, _)| *handled == name).map(|(_, handler)| *handler)
}

/// Entry points that may be forwarded, with the family whose switch they obey.
const ROUTES: &[(&str, Family, Route)] = &[
    ("miopenConvolutionForward", Family::Conv, forwarding::convolution_forward),
    ("miopenConvolutionBackwardData", Family::Conv, forwarding::convolution_backward_data),
    ("miopenConvolutionBackwardWeights", Family::Conv, forwarding::convolution_backward_weights),
];

/// Entry points that are watched, and the one whose answer may be marked.
const HANDLERS: &[(&str, Handler)] = &[
    ("miopenGetErrorString", Handler::Route(errors::marked_error_string)),
    ("miopenCreate", Handler::Record(|frame, f, ok| recording::create_handle(frame, f, ok, null_mut()))),
    ("miopenCreateWithStream", Handler::Record(|frame, f, ok| recording::create_handle(frame, f, ok, frame.pointer(1)))),
    ("miopenSetStream", Handler::Record(recording::set_stream)),
    ("miopenEnableProfiling", Handler::Record(recording::enable_profiling)),
    ("miopenGetKernelTime", Handler::Route(forwarding::kernel_time)),
    ("miopenDestroy", Handler::Forget(recording::destroy_handle)),
    ("miopenSet4dTensorDescriptor", Handler::Record(recording::set_4d_tensor)),
    ("miopenSet4dTensorDescriptorEx", Handler::Record(recording::set_4d_tensor_ex)),
    ("miopenSetTensorDescriptor", Handler::Record(recording::set_tensor)),
    ("miopenSetTensorDescriptorV2", Handler::Record(recording::set_tensor_v2)),
    ("miopenSetNdTensorDescriptorWithLayout", Handler::Record(recording::set_tensor_with_layout)),
    ("miopenSetTensorCastType", Handler::Record(recording::set_tensor_cast_type)),
    ("miopenDestroyTensorDescriptor", Handler::Forget(|frame, f| recording::forget_tensor(f, frame.integer(0)))),
    // These write a tensor descriptor without saying what into it.
    ("miopenDeriveBNTensorDescriptor", Handler::Forget(|frame, f| recording::forget_tensor(f, frame.integer(0)))),
    ("miopenGetRNNParamsDescriptor", Handler::Forget(|frame, f| recording::forget_tensor(f, frame.integer(3)))),
    ("miopenGetRNNLayerParam", Handler::Forget(|frame, f| recording::forget_tensor(f, frame.integer(7)))),
    ("miopenGetRNNLayerBias", Handler::Forget(|frame, f| recording::forget_tensor(f, frame.integer(7)))),
    ("miopenGetRNNLayerParamOffset", Handler::Forget(|frame, f| recording::forget_tensor(f, frame.integer(4)))),
    ("miopenGetRNNLayerBiasOffset", Handler::Forget(|frame, f| recording::forget_tensor(f, frame.integer(4)))),
    ("miopenInitConvolutionDescriptor", Handler::Record(recording::init_convolution)),
    ("miopenInitConvolutionNdDescriptor", Handler::Record(recording::init_convolution_nd)),
    ("miopenSetConvolutionGroupCount", Handler::Record(recording::set_group_count)),
    ("miopenSetTransposeConvOutputPadding", Handler::Record(recording::set_output_padding)),
    ("miopenSetTransposeConvNdOutputPadding", Handler::Record(recording::set_output_padding_nd)),
    ("miopenSetConvolutionAttribute", Handler::Record(recording::set_attribute)),
    ("miopenDestroyConvolutionDescriptor", Handler::Forget(recording::forget_convolution)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_handled_name_is_an_export() {
        for name in ROUTES.iter().map(|(n, _, _)| *n).chain(HANDLERS.iter().map(|(n, _)| *n)) {
            assert!(stubs::NAMES.iter().any(|export| export.to_bytes() == name.as_bytes()), "{name}");
        }
    }
}
