//! Graphs of hipDNN's clients, as far as cuDNN takes them for a device that is only described: heuristics, plans, and plans as bytes.
//! Nothing is executed, and kernels that would have to be compiled first have no engine here: cuDNN wants the driver for that.
//!
//! Where there is no cuDNN, each test says so and ends: the library comes with Python's package `nvidia-cudnn-cu13`.

#[path = "../../reference-hipdnn/tests/common/mod.rs"]
mod common;
mod engines;

use std::sync::LazyLock;

use common::{
    fused::Fused,
    numbers::{channel_last, strides},
    *,
};
use engines::proposals;
use hipdnn_abi::{attribute as a, behavior_note, data_type, descriptor_type as k, status};
use hipdnn_backend::executor::fnv1a;

/// A handle for the described device, or nothing where there is no cuDNN.
fn handle() -> Option<Handle> {
    static READY: LazyLock<bool> = LazyLock::new(|| {
        let properties = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/h200.json");
        // SAFETY: every test waits here before it does anything else.
        unsafe { std::env::set_var("HIPDNN_ON_CUDNN_DEVICE_PROPERTIES", properties) };
        hipdnn_on_cudnn::compute_with_cudnn();
        let found = hipdnn_on_cudnn::cudnn::Library::get();
        found.inspect_err(|error| eprintln!("not tested: there is no cuDNN ({error})")).is_ok()
    });
    READY.then(Handle::new)
}

/// 8 × 16 × 14 × 14, 32 filters of 3 × 3.
fn convolution() -> Convolution {
    Convolution::new(&[8, 16, 14, 14], &[32, 16, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]])
}

/// In a type of 16 bits, channels last, as tensor cores want it.
fn half(mut case: Convolution, data_type: i32) -> Convolution {
    for tensor in [&mut case.x, &mut case.w, &mut case.y] {
        tensor.0 = data_type;
        tensor.2 = strides(&tensor.1, &channel_last(tensor.1.len()), 1, 0);
    }
    case
}

#[test]
fn every_direction_and_type_has_engines_that_make_plans() {
    let Some(handle) = handle() else { return };
    let types = [data_type::HALF, data_type::BFLOAT16].map(|data_type| half(convolution(), data_type));
    for case in types.into_iter().chain([convolution()]) {
        for direction in DIRECTIONS {
            let case = case.clone().towards(direction);
            let graph = case.graph(&handle);
            let proposals = proposals(&graph);
            assert!(proposals.len() > 1, "{case:?}");
            let plans = proposals.iter().filter(|proposal| unfinalized_plan(&proposal.configuration).finalize() == OK);
            assert!(plans.count() > 0, "{case:?}");
        }
    }
}

#[test]
fn convolutions_of_every_rank_and_form_have_engines() {
    let Some(handle) = handle() else { return };
    let form = |x: &[i64], w: &[i64], parameters: [&[i64]; 4]| Convolution::new(x, w, parameters);
    for case in [
        form(&[4, 16, 40], &[8, 16, 3], [&[1], &[1], &[2], &[1]]),
        form(&[2, 8, 9, 10, 11], &[4, 8, 3, 3, 3], [&[1; 3], &[1; 3], &[1; 3], &[1; 3]]),
        form(&[2, 16, 12, 12], &[16, 4, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
        form(&[2, 16, 12, 12], &[16, 1, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
        form(&[2, 16, 12, 12], &[8, 16, 3, 3], [&[2, 2], &[2, 2], &[1, 1], &[2, 2]]),
        form(&[1, 3, 224, 224], &[64, 3, 7, 7], [&[3, 3], &[3, 3], &[2, 2], &[1, 1]]),
    ] {
        for direction in DIRECTIONS {
            assert!(!proposals(&case.clone().towards(direction).graph(&handle)).is_empty(), "{direction:?} {case:?}");
        }
    }
}

#[test]
fn what_cudnn_does_not_know_has_no_engine() {
    let Some(handle) = handle() else { return };
    let mut foreign = convolution();
    (foreign.x.0, foreign.w.0, foreign.y.0) = (data_type::FP8_E4M3_FNUZ, data_type::FP8_E4M3_FNUZ, data_type::FLOAT);
    let mut contradiction = convolution();
    contradiction.y.1[2] += 1;
    for case in [foreign, contradiction] {
        assert!(proposals(&case.graph(&handle)).is_empty(), "{case:?}");
    }
}

#[test]
fn engines_are_told_apart_by_name_and_their_ids_are_hashes_of_it() {
    let Some(handle) = handle() else { return };
    let graph = convolution().graph(&handle);
    let first = proposals(&graph);
    for proposal in &first {
        assert_eq!(proposal.id, fnv1a(proposal.engine.as_bytes()));
        assert!(proposal.engine.starts_with("CUDNN_ENGINE_"), "{}", proposal.engine);
        for note in [behavior_note::SUPPORTS_EXECUTION_PLAN_SERIALIZATION, behavior_note::SUPPORTS_GRAPH_CAPTURE] {
            assert!(proposal.notes.contains(&note), "{}: {:?}", proposal.engine, proposal.notes);
        }
    }
    let names = |proposals: &[engines::Proposal]| proposals.iter().map(|proposal| proposal.engine.clone()).collect::<Vec<_>>();
    let mut unique = names(&first);
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), first.len(), "{:?}", names(&first));
    assert!(names(&first).iter().any(|name| name.contains('=')), "with knobs: {:?}", names(&first));
    assert_eq!(names(&proposals(&graph)), names(&first), "asked again");
}

#[test]
fn an_engine_can_be_asked_for_by_its_id() {
    let Some(handle) = handle() else { return };
    let graph = convolution().graph(&handle);
    let proposals = proposals(&graph);
    let engine = |id: i64| {
        let engine = D::new(k::BACKEND_ENGINE_DESCRIPTOR);
        assert_eq!(engine.child(a::ENGINE_OPERATION_GRAPH, &graph), OK);
        assert_eq!(engine.int64s(a::ENGINE_GLOBAL_INDEX, &[id]), OK);
        engine
    };
    let last = proposals.last().expect("an engine");
    for id in [last.id, fnv1a(b"CUDNN")] {
        let configuration = D::new(k::BACKEND_ENGINECFG_DESCRIPTOR);
        assert_eq!(configuration.child(a::ENGINECFG_ENGINE, &engine(id).finalized()), OK, "{}", last_error());
        unfinalized_plan(&configuration.finalized()).finalized();
    }
    assert_eq!(engine(7).finalize(), BAD);
}

#[test]
fn a_saved_plan_is_loaded_with_its_engine_and_workspace() {
    let Some(handle) = handle() else { return };
    for case in [convolution(), half(convolution(), data_type::HALF)] {
        let plan = case.plan(&handle);
        let bytes = save(&plan).unwrap_or_else(|status| panic!("{status}: {}", last_error()));
        let loaded = load(&Handle::new(), &bytes).unwrap_or_else(|status| panic!("{status}: {}", last_error()));
        for number in [a::EXECUTION_PLAN_WORKSPACE_SIZE, a::EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT] {
            assert_eq!(loaded.get_int64(number), plan.get_int64(number));
        }
        assert_eq!(save(&loaded), Err(status::PLUGIN_ERROR), "as the engines known to serialize");
    }
}

#[test]
fn a_scaled_result_needs_no_engine_that_fuses() {
    let Some(handle) = handle() else { return };
    for direction in DIRECTIONS {
        let case = convolution().towards(direction);
        let plain = proposals(&case.graph(&handle));
        let scaled = proposals(&Fused::scaled(&case, data_type::FLOAT, 0.5, 0.25).graph(&handle));
        let names = |list: &[engines::Proposal]| list.iter().map(|proposal| proposal.engine.clone()).collect::<Vec<_>>();
        assert!(!scaled.is_empty(), "{direction:?}");
        assert!(scaled.iter().all(|proposal| names(&plain).contains(&proposal.engine)), "{:?} {:?}", names(&scaled), names(&plain));
    }
}

#[test]
fn a_bias_and_an_activation_are_fused_where_cudnn_fuses_them() {
    let Some(handle) = handle() else { return };
    let case = half(convolution(), data_type::HALF);
    let fused = Fused::biased(&case, &[]);
    let plan = unfinalized_plan(&proposals(&fused.graph(&handle)).first().expect("an engine").configuration).finalized();
    assert!(save(&plan).is_ok(), "{}", last_error());
}

#[test]
fn the_handle_lists_what_stands_for_all_engines() {
    let Some(handle) = handle() else { return };
    let mut count = 0;
    // SAFETY: the count is a local.
    assert_eq!(unsafe { hipdnn_backend::abi::hipdnnGetEngineCount_ext(handle.0, &mut count) }, OK);
    assert_eq!(count, 1);
}
