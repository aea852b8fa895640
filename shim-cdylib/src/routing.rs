//! Which entry points are routed or recorded, and by what. One table; everything that is not in it is a jump to native.

use std::{
    ffi::CStr,
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use arrayvec::ArrayVec;
use hipdnn_host::{
    component,
    environment::{Family, Settings},
    forward::Host,
    identity,
};

use crate::{
    callers, ending, errors,
    forwarding::{
        self, activation, classic,
        directions::{self, Direction},
        find, find2, fusion, immediate,
    },
    frame::{Frame, Route, Step},
    recording::{activations, convolutions, find2 as recorded_find2, fusion as plans, handles, tensors},
    records::Records,
    stubs,
};

/// What happens to a routed entry point.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Decided before native would be called.
    Route(Route),
    /// The same for the function of one direction of convolution.
    Convolution(&'static Direction, ConvolutionRoute),
    /// Native first; then its arguments are recorded if it succeeded (the last parameter).
    Record(fn(&Frame, &Forwarding, bool)),
    /// A record goes, then native.
    Forget(fn(&Frame, &Forwarding)),
}

/// Type of a handler that serves all directions.
pub type ConvolutionRoute = fn(&'static Direction, &Frame, &'static Forwarding) -> Step;

/// Everything that exists only while something is forwarded.
pub struct Forwarding {
    /// The host: translation, plans, execution.
    pub host: Host,
    /// Recorded descriptors.
    pub records: Records,
}

impl Forwarding {
    /// Prepares; loads nothing.
    pub fn new(settings: Settings) -> Self {
        // A forked child comes here again, with what its parent registered.
        static REGISTERED: AtomicBool = AtomicBool::new(false);
        if settings.stats.is_some() && !REGISTERED.swap(true, Ordering::Relaxed) {
            // SAFETY: the function is ours, and the library is never unloaded.
            unsafe { libc::atexit(write_stats_at_exit) };
        }
        component::prepare();
        Self { host: Host::new(settings, Box::new(around_load), Box::new(native_identity)), records: Records::default() }
    }
}

/// Remembers which modules a load brings; and prepares for forks and for the end of the process again, since they may have done so too.
fn around_load(load: &mut dyn FnMut()) {
    callers::around_load(load);
    // The first load brings the libraries, the second one the first handle and what it loads.
    static LOADS: AtomicUsize = AtomicUsize::new(0);
    if LOADS.fetch_add(1, Ordering::Relaxed) < 2 {
        stubs::prepare_for_forks();
        ending::watch_process();
    }
}

/// Which native MIOpen is bound: by its contents, so that it is not called for this.
fn native_identity() -> Option<String> {
    identity::module_at(stubs::native_by_name("miopenCreate"))
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
    let routed = ROUTES
        .iter()
        .map(|&(routed, family, needs, route)| (routed, family, Needs::from_iter(needs.iter().copied()), Handler::Route(route)));
    let directions = directions::ALL.iter().flat_map(|direction| {
        convolution_routes(direction)
            .map(|(routed, executes, route)| (routed, Family::Conv, executes, Handler::Convolution(direction, route)))
    });
    if let Some((_, family, needs, handler)) = routed.chain(directions).find(|(routed, ..)| *routed == name) {
        let settings = forwarding.host.settings();
        let forwards = |entry_point: &&str| settings.forwards(family, entry_point);
        return (forwards(&name) && needs.iter().all(forwards)).then_some(handler);
    }
    HANDLERS.iter().find(|(handled, _)| *handled == name).map(|(_, handler)| *handler)
}

/// Says which algorithm a solution is.
const ALGORITHM_OF: &str = "miopenGetSolverIdConvAlgorithm";

/// Entry points that must be forwarded too: those that then meet what a query answered.
type Needs = ArrayVec<&'static str, 5>;

/// The entry points of one direction that may be forwarded: the function, what it needs, the handler.
fn convolution_routes(direction: &Direction) -> [(&'static str, Needs, ConvolutionRoute); 8] {
    let names = &direction.names;
    let classic = Needs::from_iter([names.classic]);
    // Whoever was told hipDNN's id may ask for any of these.
    let solutions = Needs::from([names.list, names.solution_workspace, names.compile, names.immediate, ALGORITHM_OF]);
    [
        (names.classic, Needs::new(), classic::execute),
        (names.workspace, classic.clone(), find::workspace_size),
        (names.find, classic, find::find),
        (names.count, solutions.clone(), immediate::count),
        (names.list, solutions.clone(), immediate::list),
        (names.solution_workspace, solutions.clone(), immediate::solution_workspace),
        (names.compile, solutions, immediate::compile),
        (names.immediate, Needs::new(), immediate::execute),
    ]
}

/// The other entry points that may be forwarded, with the family whose switch they obey and what they need.
const ROUTES: &[(&str, Family, &[&str], Route)] = &[
    (ALGORITHM_OF, Family::Conv, &[], immediate::algorithm_of),
    ("miopenRunSolution", Family::Conv, &[], find2::run),
    ("miopenGetSolutionWorkspaceSize", Family::Conv, &["miopenRunSolution"], find2::workspace_size),
    ("miopenSaveSolution", Family::Conv, &["miopenRunSolution"], find2::save),
    ("miopenExecuteFusionPlan", Family::Fusion, &[], fusion::execute_plan),
    ("miopenExecuteFusionPlan_v2", Family::Fusion, &[], fusion::execute_plan_v2),
    ("miopenConvolutionBiasActivationForward", Family::Fusion, &[], fusion::convolution_bias_activation),
    ("miopenActivationForward", Family::Activation, &[], activation::forward),
];

/// Entry points that are watched, and the one whose answer may be marked.
const HANDLERS: &[(&str, Handler)] = &[
    ("miopenGetErrorString", Handler::Route(errors::marked_error_string)),
    ("miopenCreate", Handler::Record(|frame, f, ok| handles::create(frame, f, ok, null_mut()))),
    ("miopenCreateWithStream", Handler::Record(|frame, f, ok| handles::create(frame, f, ok, frame.pointer(1)))),
    ("miopenSetStream", Handler::Record(handles::set_stream)),
    ("miopenEnableProfiling", Handler::Record(handles::enable_profiling)),
    ("miopenGetKernelTime", Handler::Route(forwarding::kernel_time)),
    ("miopenDestroy", Handler::Forget(handles::destroy)),
    ("miopenSet4dTensorDescriptor", Handler::Record(tensors::set_4d)),
    ("miopenSet4dTensorDescriptorEx", Handler::Record(tensors::set_4d_ex)),
    ("miopenSetTensorDescriptor", Handler::Record(tensors::set)),
    ("miopenSetTensorDescriptorV2", Handler::Record(tensors::set_v2)),
    ("miopenSetNdTensorDescriptorWithLayout", Handler::Record(tensors::set_with_layout)),
    ("miopenSetTensorCastType", Handler::Record(tensors::set_cast_type)),
    ("miopenDestroyTensorDescriptor", Handler::Forget(|frame, f| tensors::forget(f, frame.integer(0)))),
    // These write a tensor descriptor without saying what into it.
    ("miopenDeriveBNTensorDescriptor", Handler::Forget(|frame, f| tensors::forget(f, frame.integer(0)))),
    ("miopenGetRNNParamsDescriptor", Handler::Forget(|frame, f| tensors::forget(f, frame.integer(3)))),
    ("miopenGetRNNLayerParam", Handler::Forget(|frame, f| tensors::forget(f, frame.integer(7)))),
    ("miopenGetRNNLayerBias", Handler::Forget(|frame, f| tensors::forget(f, frame.integer(7)))),
    ("miopenGetRNNLayerParamOffset", Handler::Forget(|frame, f| tensors::forget(f, frame.integer(4)))),
    ("miopenGetRNNLayerBiasOffset", Handler::Forget(|frame, f| tensors::forget(f, frame.integer(4)))),
    ("miopenInitConvolutionDescriptor", Handler::Record(convolutions::init)),
    ("miopenInitConvolutionNdDescriptor", Handler::Record(convolutions::init_nd)),
    ("miopenSetConvolutionGroupCount", Handler::Record(convolutions::set_group_count)),
    ("miopenSetTransposeConvOutputPadding", Handler::Record(convolutions::set_output_padding)),
    ("miopenSetTransposeConvNdOutputPadding", Handler::Record(convolutions::set_output_padding_nd)),
    ("miopenSetConvolutionAttribute", Handler::Record(convolutions::set_attribute)),
    ("miopenDestroyConvolutionDescriptor", Handler::Forget(convolutions::forget)),
    ("miopenSetActivationDescriptor", Handler::Record(activations::set)),
    ("miopenDestroyActivationDescriptor", Handler::Forget(activations::forget)),
    ("miopenCreateConvProblem", Handler::Record(recorded_find2::create_problem)),
    ("miopenCreateMhaProblem", Handler::Record(recorded_find2::create_other_problem)),
    ("miopenCreateActivationProblem", Handler::Record(recorded_find2::create_other_problem)),
    ("miopenCreateBiasProblem", Handler::Record(recorded_find2::create_other_problem)),
    ("miopenCreateBatchnormProblem", Handler::Record(recorded_find2::create_other_problem)),
    ("miopenCreateSoftmaxProblem", Handler::Record(recorded_find2::create_other_problem)),
    // The first problem becomes another one.
    ("miopenFuseProblems", Handler::Forget(recorded_find2::forget_problem)),
    ("miopenSetProblemTensorDescriptor", Handler::Record(recorded_find2::set_tensor)),
    ("miopenDestroyProblem", Handler::Forget(recorded_find2::forget_problem)),
    ("miopenCreateFindOptions", Handler::Record(recorded_find2::create_options)),
    ("miopenSetFindOptionWorkspaceLimit", Handler::Record(recorded_find2::set_workspace_limit)),
    ("miopenDestroyFindOptions", Handler::Forget(recorded_find2::forget_options)),
    ("miopenFindSolutions", Handler::Record(recorded_find2::find_solutions)),
    ("miopenLoadSolution", Handler::Record(find2::loaded)),
    ("miopenDestroySolution", Handler::Forget(recorded_find2::forget_solution)),
    ("miopenCreateFusionPlan", Handler::Record(plans::create_plan)),
    ("miopenDestroyFusionPlan", Handler::Forget(plans::forget_plan)),
    ("miopenCompileFusionPlan", Handler::Record(plans::compile)),
    ("miopenFusionPlanConvolutionSetAlgo", Handler::Record(plans::set_algorithm)),
    ("miopenCreateOpConvForward", Handler::Record(plans::add_convolution)),
    ("miopenCreateOpBiasForward", Handler::Record(plans::add_bias)),
    ("miopenCreateOpActivationForward", Handler::Record(plans::add_activation)),
    ("miopenCreateOpBatchNormInference", Handler::Record(plans::add_normalization)),
    (
        "miopenCreateOpActivationBackward",
        Handler::Record(|frame, f, ok| plans::add_other(frame, f, ok, "miopenCreateOpActivationBackward")),
    ),
    ("miopenCreateOpBatchNormForward", Handler::Record(|frame, f, ok| plans::add_other(frame, f, ok, "miopenCreateOpBatchNormForward"))),
    ("miopenCreateOpBatchNormBackward", Handler::Record(|frame, f, ok| plans::add_other(frame, f, ok, "miopenCreateOpBatchNormBackward"))),
    ("miopenCreateOperatorArgs", Handler::Record(plans::create_arguments)),
    ("miopenDestroyOperatorArgs", Handler::Forget(plans::forget_arguments)),
    ("miopenSetOpArgsConvForward", Handler::Record(plans::set_convolution)),
    ("miopenSetOpArgsBiasForward", Handler::Record(plans::set_bias)),
    ("miopenSetOpArgsActivForward", Handler::Record(plans::set_activation)),
    ("miopenSetOpArgsBatchNormInference", Handler::Record(plans::set_normalization)),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hipdnn_host::entry_points;

    use super::*;

    fn handled() -> Vec<&'static str> {
        let of = |direction| convolution_routes(direction).into_iter().flat_map(|(name, needs, _)| needs.into_iter().chain([name]));
        let directions = directions::ALL.iter().flat_map(of);
        let routes = ROUTES.iter().flat_map(|(name, _, needs, _)| needs.iter().chain([name]).copied());
        directions.chain(routes).chain(HANDLERS.iter().map(|(name, _)| *name)).collect()
    }

    #[test]
    fn every_handled_name_is_an_export_whose_arguments_a_frame_holds() {
        for name in handled() {
            let index = stubs::NAMES.iter().position(|export| export.to_bytes() == name.as_bytes());
            assert!(index.is_some_and(|index| stubs::integers(index) <= crate::frame::MAX_INTEGERS), "{name}");
        }
    }
    #[test]
    fn what_may_be_forwarded_is_what_lists_may_name() {
        let directions = directions::ALL.iter().flat_map(|d| convolution_routes(d).into_iter().map(|(name, ..)| (name, Family::Conv)));
        let routed: BTreeSet<_> = directions.chain(ROUTES.iter().map(|(name, family, ..)| (*name, *family))).map(sortable).collect();
        let named: BTreeSet<_> = entry_points::all().map(|(family, name)| sortable((name, family))).collect();
        assert_eq!(routed, named);
    }

    fn sortable((name, family): (&'static str, Family)) -> (&'static str, &'static str) {
        (name, family.name())
    }
}
