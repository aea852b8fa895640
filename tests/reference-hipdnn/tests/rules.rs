//! The rules of the ABI: which status answers which mistake. Each table row is one mistake.

mod common;

use std::{ffi::c_void, ptr::null_mut};

use common::*;
use hipdnn_abi::{Count, Need, attribute as a, attribute_type as t, behavior_note, data_type, descriptor_type as k, status};
use hipdnn_backend::{abi::*, executor::fnv1a};

fn tensor_42() -> D {
    unfinalized_tensor(42, data_type::FLOAT, &[2, 3, 4], &[12, 4, 1])
}

/// Any value of a wire type that is accepted wherever the type is; tensors and numbers are enough for operations.
fn set_valid(descriptor: &D, number: i32, wire: i32, child: &D) -> i32 {
    match wire {
        t::INT64 => descriptor.int64s(number, &[1]),
        t::INT32 => descriptor.set(number, wire, &[1i32]),
        t::FLOAT => descriptor.set(number, wire, &[1f32]),
        t::DOUBLE => descriptor.set(number, wire, &[1f64]),
        t::BOOLEAN => descriptor.flag(number, true),
        t::CHAR => descriptor.text(number, "x"),
        t::BACKEND_DESCRIPTOR => descriptor.child(number, child),
        enumeration => descriptor.set(number, wire, &[hipdnn_abi::values_of(enumeration).expect("an enum")[0].0]),
    }
}

#[test]
fn unsupported_descriptor_types() {
    for &kind in hipdnn_abi::UNSUPPORTED_DESCRIPTOR_TYPES.iter().chain(&[-1, 99]) {
        assert_eq!(D::try_new(kind).err(), Some(UNSUPPORTED), "{kind}");
    }
    // SAFETY: null is refused.
    assert_eq!(unsafe { hipdnnBackendCreateDescriptor(k::BACKEND_TENSOR_DESCRIPTOR, null_mut()) }, NULL);
}

#[test]
fn pointers_that_are_no_descriptors() {
    let stale = tensor_42();
    // SAFETY: any number is safe.
    assert_eq!(unsafe { hipdnnBackendDestroyDescriptor(stale.0) }, OK);
    let local = 0u64;
    let foreign = D(std::ptr::from_ref(&local).cast_mut().cast());
    let handle = Handle::new();
    for (wrong, expected) in [(&stale, BAD), (&foreign, BAD), (&D(handle.0), BAD), (&D(null_mut()), NULL)] {
        assert_eq!(wrong.finalize(), expected);
        assert_eq!(wrong.int64s(a::TENSOR_UNIQUE_ID, &[1]), expected);
        assert_eq!(wrong.get::<i64>(a::TENSOR_UNIQUE_ID, t::INT64, 1).0, expected);
        // SAFETY: any number is safe.
        assert_eq!(unsafe { hipdnnBackendDestroyDescriptor(wrong.0) }, expected);
        // SAFETY: as above.
        assert_eq!(unsafe { hipdnnBackendExecute(handle.0, wrong.0, wrong.0) }, expected);
        assert_eq!(D::new(k::BACKEND_OPERATION_MATMUL_DESCRIPTOR).child(a::OPERATION_MATMUL_ADESC, wrong), expected);
    }
}

#[test]
fn mistakes_when_setting() {
    let tensor = tensor_42();
    let set = |number, wire, count| tensor.set_raw(number, wire, count, [1i64; 4].as_ptr().cast());
    assert_eq!(set(a::ENGINE_GLOBAL_INDEX, t::INT64, 1), UNSUPPORTED, "an attribute of another descriptor");
    assert_eq!(set(-1, t::INT64, 1), UNSUPPORTED, "no attribute");
    assert_eq!(set(a::TENSOR_UNIQUE_ID, t::DOUBLE, 1), BAD, "another type");
    assert_eq!(set(a::TENSOR_UNIQUE_ID, 12345, 1), BAD, "no type");
    for count in [-1, 0, 2, i64::MAX] {
        assert_eq!(set(a::TENSOR_UNIQUE_ID, t::INT64, count), BAD, "{count} for a scalar");
    }
    for count in [i64::MIN, -1, 0, i64::MAX] {
        assert_eq!(set(a::TENSOR_DIMENSIONS, t::INT64, count), BAD, "{count} for a vector");
    }
    assert_eq!(set(a::TENSOR_NAME_EXT, t::CHAR, -1), BAD);
    assert_eq!(set(a::TENSOR_NAME_EXT, t::CHAR, 0), OK, "empty text");
    assert_eq!(tensor.set_raw(a::TENSOR_UNIQUE_ID, t::INT64, 1, null_array()), NULL);
    assert_eq!(tensor.data_type(a::TENSOR_DATA_TYPE, 18), BAD, "an enum value that does not exist");
    assert_eq!(tensor.data_type(a::TENSOR_DATA_TYPE, data_type::FP8_E5M2_FNUZ), OK, "the probe for the newest numbering");
    assert_eq!(tensor.set(a::TENSOR_IS_VIRTUAL, t::BOOLEAN, &[2u8]), BAD);
    assert_eq!(tensor.flag(a::TENSOR_IS_BY_VALUE, true), UNSUPPORTED, "read only");
    for alignment in [0, -16, 3] {
        assert_eq!(tensor.int64s(a::TENSOR_BYTE_ALIGNMENT, &[alignment]), BAD);
    }
    assert_eq!(tensor.finalize(), OK);
    assert_eq!(tensor.int64s(a::TENSOR_UNIQUE_ID, &[1]), NOT_INITIALIZED, "set after finalize");
    assert_eq!(tensor.finalize(), OK, "tensors have no check for a second time");
}

#[test]
fn tensors_that_cannot_be_finalized() {
    let build = |attributes: &[i32]| {
        let tensor = D::new(k::BACKEND_TENSOR_DESCRIPTOR);
        for &number in attributes {
            let status = match number {
                a::TENSOR_DATA_TYPE => tensor.data_type(number, data_type::HALF),
                _ => tensor.int64s(number, &[2, 3]),
            };
            assert_eq!(status, OK);
        }
        tensor
    };
    let all = [a::TENSOR_DATA_TYPE, a::TENSOR_DIMENSIONS, a::TENSOR_STRIDES];
    assert_eq!(build(&all).finalize(), OK, "a unique id is not required");
    for missing in 0..all.len() {
        let rest: Vec<i32> = all.iter().copied().enumerate().filter(|(i, _)| *i != missing).map(|(_, number)| number).collect();
        assert_eq!(build(&rest).finalize(), BAD);
    }
    let tensor = build(&all);
    assert_eq!(tensor.int64s(a::TENSOR_STRIDES, &[1]), OK);
    assert_eq!(tensor.finalize(), BAD, "lengths that differ");
    assert_eq!(tensor.int64s(a::TENSOR_STRIDES, &[-1, 0]), OK, "values are not checked");
    assert_eq!(tensor.finalize(), OK);
}

#[test]
fn constants() {
    let tensor = D::new(k::BACKEND_TENSOR_DESCRIPTOR);
    assert_eq!(tensor.set(a::TENSOR_VALUE_EXT, t::CHAR, &[0u8; 4]), BAD, "the data type comes first");
    for (data_type, bytes) in [(data_type::FLOAT, 4), (data_type::HALF, 2), (data_type::INT64, 8), (data_type::FP8_E5M2, 1)] {
        assert_eq!(tensor.data_type(a::TENSOR_DATA_TYPE, data_type), OK);
        assert_eq!(tensor.set(a::TENSOR_VALUE_EXT, t::CHAR, &vec![7u8; bytes + 1]), BAD);
        assert_eq!(tensor.set(a::TENSOR_VALUE_EXT, t::CHAR, &vec![7u8; bytes]), OK);
    }
    for data_type in [data_type::INT4, data_type::FP4_E2M1, data_type::FP8_E8M0] {
        assert_eq!(tensor.data_type(a::TENSOR_DATA_TYPE, data_type), OK);
        assert_eq!(tensor.set(a::TENSOR_VALUE_EXT, t::CHAR, &[7u8]), BAD);
    }
    assert_eq!((tensor.int64s(a::TENSOR_DIMENSIONS, &[1]), tensor.int64s(a::TENSOR_STRIDES, &[1])), (OK, OK));
    assert_eq!(tensor.finalize(), BAD, "the data type was changed after the value was set");
    assert_eq!(tensor.data_type(a::TENSOR_DATA_TYPE, data_type::INT8), OK);
    assert_eq!(tensor.finalize(), OK);
    assert_eq!(tensor.get::<u8>(a::TENSOR_VALUE_EXT, t::CHAR, 4), (OK, 1, vec![7, 0, 0, 0]), "raw bytes, no NUL");
    assert_eq!(tensor.get::<u8>(a::TENSOR_IS_BY_VALUE, t::BOOLEAN, 1), (OK, 1, vec![1]));
}

#[test]
fn reading() {
    let tensor = tensor_42();
    assert_eq!(tensor.text(a::TENSOR_NAME_EXT, "name"), OK);
    assert_eq!(tensor.get::<i64>(a::TENSOR_UNIQUE_ID, t::INT64, 1).0, NOT_INITIALIZED, "before finalize");
    let tensor = tensor.finalized();
    assert_eq!(tensor.get::<i64>(a::TENSOR_UNIQUE_ID, t::INT64, 1), (OK, 1, vec![42]));
    assert_eq!(tensor.count(a::TENSOR_DIMENSIONS, t::INT64), (OK, 3));
    assert_eq!(tensor.get::<i64>(a::TENSOR_DIMENSIONS, t::INT64, 2), (OK, 2, vec![2, 3]), "cut");
    assert_eq!(tensor.get::<i64>(a::TENSOR_DIMENSIONS, t::INT64, 5), (OK, 3, vec![2, 3, 4, 0, 0]));
    assert_eq!(tensor.count(a::TENSOR_NAME_EXT, t::CHAR), (OK, 5), "with NUL");
    assert_eq!(tensor.get::<u8>(a::TENSOR_NAME_EXT, t::CHAR, 3), (OK, 3, b"na\0".to_vec()), "cut, but terminated");
    assert_eq!(tensor.get::<u8>(a::TENSOR_NAME_EXT, t::CHAR, 6), (OK, 5, b"name\0\0".to_vec()));
    assert_eq!(tensor.count(a::TENSOR_VALUE_EXT, t::CHAR), (OK, 0), "unset");
    assert_eq!(tensor.count(a::TENSOR_RAGGED_OFFSET_DESC, t::BACKEND_DESCRIPTOR), (OK, 0), "unset");
    assert_eq!(tensor.get_int64(a::TENSOR_BYTE_ALIGNMENT), 16, "a default");
    assert_eq!(tensor.get::<u8>(a::TENSOR_IS_VIRTUAL, t::BOOLEAN, 1), (OK, 1, vec![0]), "a default");
    assert_eq!(tensor.get::<i64>(a::TENSOR_UNIQUE_ID, t::DOUBLE, 1).0, BAD);
    assert_eq!(tensor.get::<i64>(a::TENSOR_UNIQUE_ID, t::INT64, 2).0, BAD, "more than one of a scalar");
    assert_eq!(tensor.get::<i64>(a::ENGINE_GLOBAL_INDEX, t::INT64, 1).0, UNSUPPORTED);
    assert_eq!(tensor.get_raw(a::TENSOR_UNIQUE_ID, t::INT64, -1, &mut 0, [0i64].as_mut_ptr().cast()), BAD);
    assert_eq!(tensor.get_raw(a::TENSOR_UNIQUE_ID, t::INT64, 0, null_mut(), null_mut()), NULL, "a query needs a count");
    assert_eq!(tensor.get_raw(a::TENSOR_UNIQUE_ID, t::INT64, 1, null_mut(), [0i64].as_mut_ptr().cast()), OK, "elements do not");
}

#[test]
fn every_operation_goes_by_the_table() {
    let child = tensor_42().finalized();
    for spec in hipdnn_abi::DESCRIPTORS.iter().filter(|spec| spec.is_operation) {
        let settable = || spec.attributes.iter().filter(|attribute| attribute.need != Need::ReadOnly);
        let full = D::new(spec.kind);
        for attribute in settable() {
            let (number, wire) = (attribute.number, attribute.types[0]);
            assert_eq!(full.set_raw(number, t::HANDLE, 1, [0i64].as_ptr().cast()), BAD, "{}: another type", attribute.name);
            assert_eq!(full.set_raw(number, wire, 1, null_array()), NULL, "{}: null", attribute.name);
            let too_few = if wire == t::CHAR { -1 } else { 0 };
            assert_eq!(full.set_raw(number, wire, too_few, [0i64].as_ptr().cast()), BAD, "{}: count", attribute.name);
            if attribute.count == Count::One {
                assert_eq!(full.set_raw(number, wire, 2, [0i64; 2].as_ptr().cast()), BAD, "{}: two", attribute.name);
            }
            if wire == t::BACKEND_DESCRIPTOR {
                assert_eq!(full.child(number, &tensor_42()), NOT_FINALIZED, "{}", attribute.name);
                assert_eq!(full.child(number, &D::new(k::BACKEND_VARIANT_PACK_DESCRIPTOR)), BAD, "{}", attribute.name);
                assert_eq!(full.set(number, wire, &[null_mut::<c_void>()]), NULL, "{}", attribute.name);
            }
            if hipdnn_abi::values_of(wire).is_some() {
                assert_eq!(full.set(number, wire, &[1000i32]), BAD, "{}: value", attribute.name);
            }
            assert_eq!(set_valid(&full, number, wire, &child), OK, "{}: {}", attribute.name, last_error());
        }
        assert_eq!(full.set(a::OPERATION_TYPE_EXT, t::OPERATION_TYPE_EXT, &[1i32]), UNSUPPORTED, "read only");
        assert_eq!(full.text(a::OPERATION_NAME_EXT, "op"), OK);
        assert_eq!(full.finalize(), OK, "{}: {}", spec.name, last_error());
        assert_eq!(full.finalize(), OK, "{}: no check for a second time", spec.name);
        for attribute in settable() {
            assert_eq!(set_valid(&full, attribute.number, attribute.types[0], &child), NOT_INITIALIZED, "{}", attribute.name);
            assert_eq!(full.count(attribute.number, attribute.types[0]).0, OK, "{}", attribute.name);
        }
        for missing in settable().filter(|attribute| attribute.need == Need::Required) {
            let partial = D::new(spec.kind);
            for attribute in settable().filter(|attribute| attribute.need == Need::Required && attribute.number != missing.number) {
                assert_eq!(set_valid(&partial, attribute.number, attribute.types[0], &child), OK);
            }
            assert_eq!(partial.finalize(), BAD, "without {}", missing.name);
            assert_eq!(set_valid(&partial, missing.number, missing.types[0], &child), OK);
            assert_eq!(partial.finalize(), OK, "with required attributes only: {}", last_error());
        }
        for conditional in settable().filter(|attribute| attribute.need == Need::Conditional) {
            let partial = D::new(spec.kind);
            for attribute in settable().filter(|attribute| attribute.need == Need::Required || attribute.number == conditional.number) {
                assert_eq!(set_valid(&partial, attribute.number, attribute.types[0], &child), OK);
            }
            assert_eq!(partial.finalize(), BAD, "{} without its group", conditional.name);
        }
        let (status, count, kind) = full.get::<i32>(a::OPERATION_TYPE_EXT, t::OPERATION_TYPE_EXT, 1);
        assert_eq!((status, count, kind[0] > 0), (OK, 1, true), "{}", spec.name);
    }
}

#[test]
fn children_are_shared_and_getters_make_new_handles() {
    let tensor = tensor_42().finalized();
    let operation = D::new(k::BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    for number in [a::OPERATION_MATMUL_ADESC, a::OPERATION_MATMUL_BDESC, a::OPERATION_MATMUL_CDESC] {
        assert_eq!(operation.child(number, &tensor), OK);
    }
    assert_eq!(operation.data_type(a::MATMUL_COMP_TYPE, data_type::FLOAT), OK);
    let operation = operation.finalized();
    let raw = tensor.0;
    drop(tensor);
    let read = || D(operation.get::<usize>(a::OPERATION_MATMUL_ADESC, t::BACKEND_DESCRIPTOR, 1).2[0] as *mut c_void);
    let (first, second) = (read(), read());
    assert!(first.0 != second.0 && first.0 != raw);
    drop(first);
    assert_eq!(second.get_int64(a::TENSOR_UNIQUE_ID), 42);
}

#[test]
fn graphs() {
    let handle = Handle::new();
    let case = Convolution::small();
    let tensors =
        [(1, &case.x), (2, &case.w), (3, &case.y)].map(|(uid, (data_type, dims, strides))| tensor(uid, *data_type, dims, strides));
    let operation = case.operation([&tensors[0], &tensors[1], &tensors[2]]);

    let graph = D::new(k::BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    assert_eq!(graph.finalize(), BAD, "neither handle nor operations");
    assert_eq!(graph.set(a::OPERATIONGRAPH_HANDLE, t::HANDLE, &[null_mut::<c_void>()]), NULL);
    assert_eq!(graph.set(a::OPERATIONGRAPH_HANDLE, t::HANDLE, &[operation.0]), BAD, "no handle");
    assert_eq!(graph.child(a::OPERATIONGRAPH_OPS, &operation), OK);
    assert_eq!(graph.finalize(), BAD, "no handle");
    assert_eq!(graph.set(a::OPERATIONGRAPH_HANDLE, t::HANDLE, &[handle.0]), OK);
    assert_eq!(graph.child(a::OPERATIONGRAPH_OPS, &D::new(k::BACKEND_OPERATION_MATMUL_DESCRIPTOR)), NOT_FINALIZED);
    assert_eq!(graph.child(a::OPERATIONGRAPH_OPS, &graph), NOT_FINALIZED, "itself");
    assert_eq!(graph.child(a::OPERATIONGRAPH_OPS, &tensors[0]), UNSUPPORTED, "no operation");
    for number in [a::OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, a::OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED] {
        assert_eq!(graph.int64s(number, &[1]), UNSUPPORTED);
    }
    assert_eq!(graph.count(a::OPERATIONGRAPH_OPS, t::BACKEND_DESCRIPTOR), (OK, 1), "can be read before finalize");
    assert_eq!(graph.child(a::OPERATIONGRAPH_OPS, &operation), OK);
    assert_eq!(graph.count(a::OPERATIONGRAPH_OPS, t::BACKEND_DESCRIPTOR), (OK, 2), "further sets append");
    let (status, count, handles) = graph.get::<usize>(a::OPERATIONGRAPH_OPS, t::BACKEND_DESCRIPTOR, 1);
    assert_eq!((status, count), (OK, 2), "reports the total");
    drop(D(handles[0] as *mut c_void));
    assert_eq!(graph.count(a::OPERATIONGRAPH_HANDLE, t::HANDLE).0, UNSUPPORTED, "write only");
    assert_eq!(graph.finalize(), OK, "one tensor object may occur twice");
    assert_eq!(graph.finalize(), OK);
    assert_eq!(graph.child(a::OPERATIONGRAPH_OPS, &operation), NOT_INITIALIZED);

    let twin = tensor(1, case.w.0, &case.w.1, &case.w.2);
    let graph = D::new(k::BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    assert_eq!(graph.set(a::OPERATIONGRAPH_HANDLE, t::HANDLE, &[handle.0]), OK);
    assert_eq!(graph.child(a::OPERATIONGRAPH_OPS, &case.operation([&tensors[0], &twin, &tensors[2]])), OK);
    assert_eq!(graph.finalize(), BAD, "two tensors with one unique id");
}

/// A finalized graph that no engine takes: a matrix product of integers.
fn matmul_graph(handle: &Handle) -> D {
    let operation = D::new(k::BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    for (i, number) in [a::OPERATION_MATMUL_ADESC, a::OPERATION_MATMUL_BDESC, a::OPERATION_MATMUL_CDESC].into_iter().enumerate() {
        assert_eq!(operation.child(number, &tensor(i as i64, data_type::INT32, &[1, 2, 2], &[4, 2, 1])), OK);
    }
    assert_eq!(operation.data_type(a::MATMUL_COMP_TYPE, data_type::FLOAT), OK);
    graph(handle, &[&operation.finalized()])
}

#[test]
fn heuristics() {
    let handle = Handle::new();
    let graph = Convolution::small().graph(&handle);
    let unfinished = D::new(k::BACKEND_ENGINEHEUR_DESCRIPTOR);
    assert_eq!(unfinished.finalize(), BAD);
    assert_eq!(unfinished.child(a::ENGINEHEUR_OPERATION_GRAPH, &D::new(k::BACKEND_OPERATIONGRAPH_DESCRIPTOR)), NOT_FINALIZED);
    assert_eq!(unfinished.child(a::ENGINEHEUR_OPERATION_GRAPH, &tensor_42().finalized()), BAD);
    assert_eq!(unfinished.child(a::ENGINEHEUR_OPERATION_GRAPH, &graph), OK);
    assert_eq!(unfinished.set(a::ENGINEHEUR_MODE, t::HEUR_MODE, &[1i32]), UNSUPPORTED);
    assert_eq!(unfinished.finalize(), BAD, "no mode");
    assert_eq!(unfinished.count(a::ENGINEHEUR_RESULTS, t::BACKEND_DESCRIPTOR).0, NOT_FINALIZED);

    let heuristic = heuristic(&graph);
    let results = |requested, array: &mut [*mut c_void], count: *mut i64| {
        let array = if array.is_empty() { null_mut() } else { array.as_mut_ptr().cast() };
        heuristic.get_raw(a::ENGINEHEUR_RESULTS, t::BACKEND_DESCRIPTOR, requested, count, array)
    };
    assert_eq!(heuristic.finalize(), BAD, "twice");
    assert_eq!(heuristic.count(a::ENGINEHEUR_RESULTS, t::BACKEND_DESCRIPTOR), (OK, 1));
    assert_eq!(heuristic.set(a::ENGINEHEUR_RESULTS, t::BACKEND_DESCRIPTOR, &[graph.0]), NOT_INITIALIZED);
    assert_eq!(results(0, &mut [], null_mut()), NULL, "the count is needed");
    assert_eq!(results(1, &mut [], &mut 0), NULL, "no array");
    assert_eq!(results(1, &mut [null_mut()], &mut 0), NULL, "a null entry");
    assert_eq!(results(-1, &mut [null_mut()], &mut 0), BAD);
    assert_eq!(results(1, &mut [graph.0], &mut 0), BAD, "no configuration");
    assert_eq!(results(1, &mut [somewhere()], &mut 0), BAD, "no descriptor");
    let finished = configuration(&graph);
    assert_eq!(results(1, &mut [finished.0], &mut 0), NOT_INITIALIZED, "a finalized configuration");
    let target = D::new(k::BACKEND_ENGINECFG_DESCRIPTOR);
    let mut count = 0;
    assert_eq!(results(2, &mut [target.0, null_mut()], &mut count), OK);
    assert_eq!(count, 1, "as many as were filled");
    assert_eq!(target.get::<i64>(a::ENGINECFG_WORKSPACE_SIZE, t::INT64, 1).0, NOT_INITIALIZED, "not finalized for the caller");
    assert_eq!(target.finalize(), OK);
    assert_eq!(heuristic.get::<i32>(a::ENGINEHEUR_MODE, t::HEUR_MODE, 1), (OK, 1, vec![0]));
    assert_eq!(heuristic.count(a::ENGINEHEUR_MODE, t::HEUR_MODE).0, BAD, "no query of the count");
    assert_eq!(heuristic.count(a::ENGINEHEUR_OPERATION_GRAPH, t::BACKEND_DESCRIPTOR).0, BAD);
}

#[test]
fn no_engine_is_success_without_results() {
    let handle = Handle::new();
    let graph = matmul_graph(&handle);
    assert_eq!(heuristic(&graph).count(a::ENGINEHEUR_RESULTS, t::BACKEND_DESCRIPTOR), (OK, 0));
    let engine = D::new(k::BACKEND_ENGINE_DESCRIPTOR);
    assert_eq!(engine.child(a::ENGINE_OPERATION_GRAPH, &graph), OK);
    assert_eq!(engine.int64s(a::ENGINE_GLOBAL_INDEX, &[fnv1a(b"REFERENCE_ENGINE")]), OK);
    assert_eq!(engine.finalize(), BAD, "an engine that cannot run the graph");
}

#[test]
fn heuristic_policies() {
    let handle = Handle::new();
    let graph = Convolution::small().graph(&handle);
    let with = |order: &[i64], find_first: bool| {
        let heuristic = unfinalized_heuristic(&graph);
        assert_eq!(heuristic.int64s(a::ENGINEHEUR_POLICY_ORDER_EXT, order), OK);
        assert_eq!(heuristic.flag(a::ENGINEHEUR_FIND_FIRST_EXT, find_first), OK);
        heuristic.finalize()
    };
    let known = fnv1a(b"SelectionHeuristic::StaticOrdering");
    assert_eq!(with(&[known], false), OK);
    assert_eq!(with(&[7, known], false), OK);
    assert_eq!(with(&[7], false), status::INTERNAL_ERROR, "every policy declines");
    assert_eq!(with(&[], false), status::INTERNAL_ERROR, "an empty list is stored as given");
    assert_eq!(with(&[], true), OK, "the first engine is taken without asking policies");
}

#[test]
fn engines_and_configurations() {
    let handle = Handle::new();
    let graph = Convolution::small().graph(&handle);
    let id = fnv1a(b"REFERENCE_ENGINE");
    let make = |id| {
        let engine = D::new(k::BACKEND_ENGINE_DESCRIPTOR);
        assert_eq!(engine.child(a::ENGINE_OPERATION_GRAPH, &graph), OK);
        assert_eq!(engine.int64s(a::ENGINE_GLOBAL_INDEX, &[id]), OK);
        engine
    };
    assert_eq!(D::new(k::BACKEND_ENGINE_DESCRIPTOR).finalize(), BAD);
    assert_eq!(make(7).finalize(), BAD, "no such engine");
    let engine = make(id).finalized();
    assert_eq!(engine.finalize(), BAD, "twice");
    assert_eq!(engine.get_int64(a::ENGINE_GLOBAL_INDEX), id);
    let notes = engine.get::<i32>(a::ENGINE_BEHAVIOR_NOTE, t::BEHAVIOR_NOTE, 3);
    let expected = vec![behavior_note::SUPPORTS_GRAPH_CAPTURE, behavior_note::SUPPORTS_EXECUTION_PLAN_SERIALIZATION, 0];
    assert_eq!(notes, (OK, 2, expected));
    assert_eq!(engine.get::<u8>(a::ENGINE_NAME_EXT, t::CHAR, 17), (OK, 17, b"REFERENCE_ENGINE\0".to_vec()));
    assert_eq!(engine.count(a::ENGINE_KNOB_INFO, t::BACKEND_DESCRIPTOR), (OK, 0));

    let configuration = D::new(k::BACKEND_ENGINECFG_DESCRIPTOR);
    assert_eq!(configuration.finalize(), BAD, "no engine");
    assert_eq!(configuration.child(a::ENGINECFG_ENGINE, &make(id)), NOT_FINALIZED);
    assert_eq!(configuration.child(a::ENGINECFG_ENGINE, &graph), BAD);
    assert_eq!(configuration.child(a::ENGINECFG_ENGINE, &engine), OK);
    assert_eq!(configuration.child(a::ENGINECFG_KNOB_CHOICES, &D::new(k::BACKEND_KNOB_CHOICE_DESCRIPTOR)), NOT_FINALIZED);
    let choice = knob_choice("no.such.knob").finalized();
    assert_eq!(configuration.set(a::ENGINECFG_KNOB_CHOICES, t::BACKEND_DESCRIPTOR, &[choice.0; 1025]), BAD);
    assert_eq!(configuration.finalize(), OK);
    assert_eq!(configuration.finalize(), BAD, "twice");
    assert_eq!(configuration.count(a::ENGINECFG_WORKSPACE_SIZE, t::INT64).0, BAD, "exactly one must be requested");
    assert_eq!(configuration.get::<i64>(a::ENGINECFG_WORKSPACE_SIZE, t::INT64, 2).0, BAD);
    assert!(configuration.get_int64(a::ENGINECFG_WORKSPACE_SIZE) > 0);
    assert_eq!(configuration.count(a::ENGINECFG_KNOB_CHOICES, t::BACKEND_DESCRIPTOR).0, UNSUPPORTED, "write only");
    assert_eq!(configuration.count(a::ENGINECFG_ENGINE, t::BACKEND_DESCRIPTOR), (OK, 1));
}

fn knob_choice(id: &str) -> D {
    let choice = D::new(k::BACKEND_KNOB_CHOICE_DESCRIPTOR);
    assert_eq!(choice.text(a::KNOB_CHOICE_KNOB_TYPE, id), OK);
    assert_eq!(choice.int64s(a::KNOB_CHOICE_KNOB_VALUE, &[1]), OK);
    choice
}

#[test]
fn knobs() {
    let choice = D::new(k::BACKEND_KNOB_CHOICE_DESCRIPTOR);
    assert_eq!(choice.text(a::KNOB_CHOICE_KNOB_TYPE, ""), BAD);
    assert_eq!(choice.text(a::KNOB_CHOICE_KNOB_TYPE, &"x".repeat(4097)), BAD);
    assert_eq!(choice.text(a::KNOB_CHOICE_KNOB_TYPE, &"x".repeat(4096)), OK);
    assert_eq!(choice.finalize(), BAD, "no value");
    assert_eq!(choice.text(a::KNOB_CHOICE_KNOB_VALUE, &"x".repeat(65537)), BAD);
    assert_eq!(choice.int64s(a::KNOB_CHOICE_KNOB_VALUE, &[1, 2]), BAD);
    assert_eq!(choice.set(a::KNOB_CHOICE_KNOB_VALUE, t::DOUBLE, &[0.5]), OK);
    assert_eq!(choice.finalize(), OK);
    assert_eq!(choice.finalize(), BAD, "twice");
    assert_eq!(choice.get::<f64>(a::KNOB_CHOICE_KNOB_VALUE, t::DOUBLE, 1), (OK, 1, vec![0.5]));
    assert_eq!(choice.get::<i64>(a::KNOB_CHOICE_KNOB_VALUE, t::INT64, 1).0, BAD, "set with another type");

    let info = D::new(k::BACKEND_KNOB_INFO_DESCRIPTOR);
    assert_eq!(info.text(a::KNOB_INFO_TYPE, "knob"), OK);
    assert_eq!(info.finalize(), BAD, "no default");
    assert_eq!(info.int64s(a::KNOB_INFO_DEFAULT_VALUE, &[3]), OK);
    assert_eq!(info.int64s(a::KNOB_INFO_STRIDE, &[0]), BAD);
    assert_eq!(info.set(a::KNOB_INFO_STRING_MAX_LENGTH, t::INT32, &[0i32]), BAD);
    assert_eq!(info.int64s(a::KNOB_INFO_MINIMUM_VALUE, &[0]), OK);
    assert_eq!(info.finalize(), BAD, "a minimum without a maximum");
    assert_eq!(info.int64s(a::KNOB_INFO_MAXIMUM_VALUE, &[9]), OK);
    assert_eq!(info.finalize(), OK);
    assert_eq!(info.get_int64(a::KNOB_INFO_DEFAULT_VALUE_TYPE), i64::from(t::INT64));
}

#[test]
fn plans() {
    let handle = Handle::new();
    let graph = Convolution::small().graph(&handle);
    let empty = D::new(k::BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    assert_eq!(empty.finalize(), BAD);
    assert_eq!(empty.child(a::EXECUTION_PLAN_ENGINE_CONFIG, &D::new(k::BACKEND_ENGINECFG_DESCRIPTOR)), NOT_FINALIZED);
    assert_eq!(empty.child(a::EXECUTION_PLAN_ENGINE_CONFIG, &graph), BAD);
    assert_eq!(empty.set(a::EXECUTION_PLAN_HANDLE, t::HANDLE, &[handle.0]), OK);
    assert_eq!(empty.get::<i64>(a::EXECUTION_PLAN_WORKSPACE_SIZE, t::INT64, 1).0, NOT_INITIALIZED);

    let plan = plan(&graph);
    assert_eq!(plan.finalize(), BAD, "twice");
    assert!(plan.get_int64(a::EXECUTION_PLAN_WORKSPACE_SIZE) > 0);
    assert_eq!(plan.get_int64(a::EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT), fnv1a(b"REFERENCE_ENGINE"));
    assert_eq!(plan.count(a::EXECUTION_PLAN_TENSOR_UIDS_EXT, t::INT64), (OK, 3));
    assert_eq!(plan.get::<i64>(a::EXECUTION_PLAN_TENSOR_UIDS_EXT, t::INT64, 2).0, BAD, "a small buffer");
    let (status, count, mut uids) = plan.get::<i64>(a::EXECUTION_PLAN_TENSOR_UIDS_EXT, t::INT64, 3);
    uids.sort_unstable();
    assert_eq!((status, count, uids), (OK, 3, vec![1, 2, 3]));
    assert_eq!(plan.get::<u8>(a::EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT, t::BOOLEAN, 1), (OK, 1, vec![0]));
    assert_eq!(plan.count(a::EXECUTION_PLAN_ENGINE_CONFIG, t::BACKEND_DESCRIPTOR), (OK, 1));
    assert_eq!(plan.count(a::EXECUTION_PLAN_HANDLE, t::HANDLE).0, UNSUPPORTED);

    let unknown = D::new(k::BACKEND_ENGINECFG_DESCRIPTOR);
    let (_, _, engine) = configuration(&graph).get::<usize>(a::ENGINECFG_ENGINE, t::BACKEND_DESCRIPTOR, 1);
    assert_eq!(unknown.child(a::ENGINECFG_ENGINE, &D(engine[0] as *mut c_void)), OK);
    assert_eq!(unknown.child(a::ENGINECFG_KNOB_CHOICES, &knob_choice("no.such.knob").finalized()), OK);
    assert_eq!(unfinalized_plan(&unknown.finalized()).finalize(), BAD, "a knob that the engine does not have");

    let short_lived = Handle::new();
    let graph = Convolution::small().graph(&short_lived);
    drop(short_lived);
    assert_eq!(unfinalized_heuristic(&graph).finalize(), BAD, "the graph's handle is gone");
}

#[test]
fn variant_packs() {
    let build = |uids: &[i64], pointers: usize| {
        let pack = D::new(k::BACKEND_VARIANT_PACK_DESCRIPTOR);
        assert!(uids.is_empty() || pack.int64s(a::VARIANT_PACK_UNIQUE_IDS, uids) == OK);
        assert!(pointers == 0 || pack.set(a::VARIANT_PACK_DATA_POINTERS, t::VOID_PTR, &vec![somewhere(); pointers]) == OK);
        pack
    };
    for (uids, pointers, expected) in
        [(&[][..], 0, BAD), (&[1], 0, BAD), (&[], 1, BAD), (&[1, 2], 1, BAD), (&[1, 1], 2, BAD), (&[1, 2], 2, OK)]
    {
        assert_eq!(build(uids, pointers).finalize(), expected, "{uids:?}, {pointers} pointers");
    }
    let pack = build(&[1, 2], 2);
    assert_eq!(pack.set_raw(a::VARIANT_PACK_DATA_POINTERS, t::VOID_PTR, -1, [0i64].as_ptr().cast()), BAD);
    assert_eq!(pack.set(a::VARIANT_PACK_INTERMEDIATES, t::VOID_PTR, &[somewhere()]), UNSUPPORTED);
    assert_eq!(pack.set(a::VARIANT_PACK_WORKSPACE, t::VOID_PTR, &[somewhere(); 2]), BAD);
    assert_eq!(pack.set(a::VARIANT_PACK_WORKSPACE, t::VOID_PTR, &[somewhere()]), OK);
    let pack = pack.finalized();
    assert_eq!(pack.int64s(a::VARIANT_PACK_UNIQUE_IDS, &[1, 2]), NOT_INITIALIZED);
    assert_eq!(pack.get_raw(a::VARIANT_PACK_DATA_POINTERS, t::VOID_PTR, 0, &mut 0, null_mut()), NULL, "no query of the count");
    assert_eq!(pack.get::<usize>(a::VARIANT_PACK_DATA_POINTERS, t::VOID_PTR, 2), (OK, 2, vec![somewhere().addr(); 2]));

    let overrides = |uids: &[i64], lengths: &[i64], shapes: usize, strides: usize| {
        let pack = build(&[1, 2], 2);
        assert_eq!(pack.int64s(a::VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, uids), OK);
        assert_eq!(pack.int64s(a::VARIANT_PACK_OVERRIDE_LENGTHS_EXT, lengths), OK);
        assert_eq!(pack.int64s(a::VARIANT_PACK_OVERRIDE_SHAPES_EXT, &vec![1; shapes]), OK);
        if strides > 0 {
            assert_eq!(pack.int64s(a::VARIANT_PACK_OVERRIDE_STRIDES_EXT, &vec![1; strides]), OK);
        }
        pack
    };
    for (uids, lengths, shapes, strides, expected) in [
        (&[1, 2][..], &[4, 3][..], 7, 7, OK),
        (&[1], &[4], 4, 0, BAD),
        (&[1, 1], &[4, 4], 8, 8, BAD),
        (&[3], &[4], 4, 4, BAD),
        (&[1, 2], &[4], 4, 4, BAD),
        (&[1], &[0], 1, 1, BAD),
        (&[1], &[4], 3, 4, BAD),
        (&[1], &[4], 4, 5, BAD),
        (&[1, 2], &[i64::MAX, i64::MAX], 1, 1, BAD),
    ] {
        assert_eq!(overrides(uids, lengths, shapes, strides).finalize(), expected, "{uids:?} {lengths:?} {shapes} {strides}");
    }
    let handle = Handle::new();
    let plan = Convolution::small().plan(&handle);
    assert_eq!(execute(&handle, &plan, &overrides(&[1], &[4], 4, 4).finalized()), UNSUPPORTED, "a plan built without overrides");
}

#[test]
fn executions_that_must_be_refused() {
    let handle = Handle::new();
    let case = Convolution::small();
    let plan = case.plan(&handle);
    let mut memory = [(); 4].map(|()| Buffer::new(1 << 16, 0));
    let [x, w, y, workspace] = memory.each_mut().map(Buffer::pointer);
    let run = |pointers: &[(i64, *mut c_void)], workspace| execute(&handle, &plan, &pack(pointers, workspace));
    assert_eq!(run(&[(1, x), (2, w), (3, y)], workspace), OK, "{}", last_error());
    assert_eq!(run(&[(1, x), (2, w)], workspace), BAD, "a tensor is missing");
    assert_eq!(run(&[(1, x), (2, w), (3, null_mut())], workspace), BAD, "a tensor is null");
    assert_eq!(run(&[(1, x), (2, w), (3, y), (4, y)], workspace), BAD, "a tensor too many");
    assert_eq!(run(&[(1, x.wrapping_byte_add(8)), (2, w), (3, y)], workspace), BAD, "alignment");
    assert_eq!(run(&[(1, x), (2, w), (3, y)], null_mut()), BAD, "the workspace is missing");

    let good = pack(&[(1, x), (2, w), (3, y)], workspace);
    assert_eq!(execute(&handle, &D::new(k::BACKEND_EXECUTION_PLAN_DESCRIPTOR), &good), BAD, "a plan that is not finalized");
    assert_eq!(execute(&handle, &plan, &D::new(k::BACKEND_VARIANT_PACK_DESCRIPTOR)), BAD, "a pack that is not finalized");
    assert_eq!(execute(&handle, &good, &plan), BAD, "the wrong way around");
    let gone = Handle::new();
    // SAFETY: any number is safe.
    assert_eq!(unsafe { hipdnnDestroy(gone.0) }, OK);
    assert_eq!(execute(&gone, &plan, &good), BAD, "a handle that is gone");
    assert_eq!(execute(&Handle(null_mut()), &plan, &good), NULL);
    assert_eq!(execute(&handle, &D(null_mut()), &good), NULL);
}

#[test]
fn a_declared_alignment_is_enough() {
    let handle = Handle::new();
    let case = Convolution::small();
    let tensors = [(1, &case.x), (2, &case.w), (3, &case.y)].map(|(uid, (data_type, dims, strides))| {
        let tensor = unfinalized_tensor(uid, *data_type, dims, strides);
        assert_eq!(tensor.int64s(a::TENSOR_BYTE_ALIGNMENT, &[1]), OK);
        tensor.finalized()
    });
    let plan = plan(&graph(&handle, &[&case.operation([&tensors[0], &tensors[1], &tensors[2]])]));
    let mut memory = [(); 4].map(|()| Buffer::new(1 << 16, 0));
    let [x, w, y, workspace] = memory.each_mut().map(|buffer| buffer.pointer().wrapping_byte_add(1));
    assert_eq!(execute(&handle, &plan, &pack(&[(1, x), (2, w), (3, y)], workspace)), OK, "{}", last_error());
}

#[test]
fn tensors_that_a_convolution_does_not_take() {
    let handle = Handle::new();
    let case = Convolution::small();
    for number in [a::TENSOR_IS_VIRTUAL, a::TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT] {
        let tensors = [(1, &case.x), (2, &case.w), (3, &case.y)].map(|(uid, (data_type, dims, strides))| {
            let tensor = unfinalized_tensor(uid, *data_type, dims, strides);
            assert_eq!(tensor.flag(number, uid == 3), OK);
            tensor.finalized()
        });
        let graph = graph(&handle, &[&case.operation([&tensors[0], &tensors[1], &tensors[2]])]);
        assert_eq!(heuristic(&graph).count(a::ENGINEHEUR_RESULTS, t::BACKEND_DESCRIPTOR), (OK, 0));
    }
}

#[test]
fn profiling() {
    let handle = Handle::new();
    let clock = D::new(k::BACKEND_PROFILING_CONTROL_EXT);
    assert_eq!(clock.set(a::PROFILING_HANDLE_EXT, t::HANDLE, &[handle.0]), OK);
    assert_eq!(clock.flag(a::PROFILING_START_EXT, true), OK);
    assert_eq!(clock.finalize(), BAD, "not stopped");
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_eq!(clock.flag(a::PROFILING_STOP_EXT, true), OK);
    assert_eq!(clock.finalize(), OK);
    assert_eq!(clock.finalize(), BAD, "twice");
    let elapsed = || clock.get::<f32>(a::PROFILING_ELAPSED_MS_EXT, t::FLOAT, 1).2[0];
    assert!(elapsed() >= 2.0, "{}", elapsed());
    assert_eq!(clock.flag(a::PROFILING_START_EXT, true), NOT_INITIALIZED);
    assert_eq!(clock.flag(a::PROFILING_RESET_EXT, true), OK, "even after finalize");
    assert_eq!(elapsed(), 0.0);
}

#[test]
fn handles_streams_and_engines() {
    let handle = Handle::new();
    let mut stream = null_mut();
    let name = c"REFERENCE_ENGINE";
    let id = fnv1a(name.to_bytes());
    let (mut count, mut found) = (0usize, 0i64);
    let (mut buffer, mut length) = ([0u8; 17], 0usize);
    // SAFETY: every pointer is null or a local of the right type and size.
    unsafe {
        assert_eq!(hipdnnCreate(null_mut()), NULL);
        assert_eq!(hipdnnDestroy(null_mut()), NULL);
        assert_eq!(hipdnnDestroy(somewhere()), BAD);
        assert_eq!(hipdnnSetStream(handle.0, somewhere()), OK);
        assert_eq!(hipdnnGetStream(handle.0, &mut stream), OK);
        assert_eq!(stream, somewhere());
        assert_eq!(hipdnnGetStream(handle.0, null_mut()), NULL);
        assert_eq!(hipdnnGetEngineCount_ext(handle.0, &mut count), OK);
        assert_eq!(count, 1);
        assert_eq!(hipdnnGetEngineIdByName_ext(handle.0, name.as_ptr(), &mut found), OK);
        assert_eq!(found, id);
        assert_eq!(hipdnnGetEngineIdByName_ext(handle.0, c"MIOPEN_ENGINE".as_ptr(), &mut found), BAD, "not loaded");
        assert_eq!(hipdnnGetEngineNameById_ext(handle.0, id, null_mut(), &mut length), OK);
        assert_eq!(length, 17);
        length = 16;
        assert_eq!(hipdnnGetEngineNameById_ext(handle.0, id, buffer.as_mut_ptr().cast(), &mut length), SMALL);
        length = 17;
        assert_eq!(hipdnnGetEngineNameById_ext(handle.0, id, buffer.as_mut_ptr().cast(), &mut length), OK);
        assert_eq!(&buffer, b"REFERENCE_ENGINE\0");
        assert_eq!(hipdnnGetEngineNameById_ext(handle.0, 7, null_mut(), &mut length), BAD);
        let mut lengths = [0usize; 4];
        let mut info = |index| {
            let [name, plugin, version, kind] = lengths.each_mut().map(std::ptr::from_mut);
            let none = null_mut();
            hipdnnGetEngineInfo_ext(handle.0, index, &mut found, none, name, none, plugin, none, version, none, kind)
        };
        assert_eq!(info(1), status::BAD_PARAM_OUT_OF_BOUND);
        assert_eq!(info(0), OK);
        assert_eq!(lengths[0], 17);
        let (mut plugins, mut longest) = (9usize, 9usize);
        assert_eq!(hipdnnGetLoadedEnginePluginPaths_ext(handle.0, &mut plugins, null_mut(), &mut longest), OK);
        assert_eq!((plugins, longest), (0, 0));
        assert_eq!(hipdnnSetEnginePluginPaths_ext(0, std::ptr::null(), 0), UNSUPPORTED, "a handle is live");
        let mut level = -1;
        assert_eq!(hipdnnBackendSetGlobalLogLevel_ext(5), BAD);
        assert_eq!(hipdnnBackendSetGlobalLogLevel_ext(1), OK);
        assert_eq!(hipdnnBackendGetGlobalLogLevel_ext(&mut level), OK);
        assert_eq!(level, 1);
        let mut version = std::ptr::null();
        assert_eq!(hipdnnGetVersion_ext(&mut version), OK);
        assert_eq!(std::ffi::CStr::from_ptr(version), c"0.4.0.reference");
        assert_eq!(version, hipdnnVersionString_ext());
        assert_eq!(std::ffi::CStr::from_ptr(hipdnnGetErrorString(BAD)), c"HIPDNN_STATUS_BAD_PARAM");
        assert_eq!(std::ffi::CStr::from_ptr(hipdnnGetErrorString(77)), c"HIPDNN_STATUS_UNKNOWN");
    }
}

#[test]
fn the_last_error_text_is_kept_until_it_is_taken() {
    let take = |size: usize| {
        let mut buffer = [b'#'; 64];
        // SAFETY: the buffer is at least as large as said.
        unsafe { hipdnnGetLastErrorString(buffer.as_mut_ptr().cast(), size) };
        String::from_utf8_lossy(&buffer).into_owned()
    };
    assert_eq!(D::new(k::BACKEND_TENSOR_DESCRIPTOR).finalize(), BAD);
    assert_eq!(tensor_42().finalize(), OK, "success keeps the text");
    assert!(last_error().starts_with("hipdnnBackendFinalize: HIPDNN_BACKEND_TENSOR_DESCRIPTOR needs "), "{}", last_error());
    assert!(std::thread::spawn(last_error).join().expect("thread").is_empty(), "another thread's text");
    assert!(take(7).starts_with("hipdnn\0##"), "cut and terminated");
    assert!(take(64).starts_with("\0###"), "taken");
    // SAFETY: null is ignored.
    unsafe { hipdnnGetLastErrorString(null_mut(), 10) };
}
