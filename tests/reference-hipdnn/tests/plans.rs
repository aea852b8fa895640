//! Plans as bytes: saving, loading, and everything that bytes can have suffered in between.

mod common;

use std::ptr::{null, null_mut};

use common::{fused::Fused, *};
use hipdnn_abi::{attribute as a, attribute_type as t, data_type, descriptor_type as k, status};
use hipdnn_backend::{abi::*, executor::fnv1a};

/// Where the envelope keeps its fields.
const VERSION: std::ops::Range<usize> = 8..12;
const ENGINE: std::ops::Range<usize> = 12..20;
const CHECKSUM: std::ops::Range<usize> = 28..36;

/// Makes the checksum fit whatever the rest says.
fn seal(bytes: &mut [u8]) {
    let covered = [&bytes[..CHECKSUM.start], &bytes[CHECKSUM.end..]].concat();
    bytes[CHECKSUM].copy_from_slice(&fnv1a(&covered).to_le_bytes());
}

/// The memory of x, w and y after an execution on numbers that are the same every time.
fn run(handle: &Handle, plan: &D) -> [Vec<u8>; 3] {
    let mut memory = tensors();
    let mut workspace = Buffer::new(1 << 16, 0);
    assert!(plan.get_int64(a::EXECUTION_PLAN_WORKSPACE_SIZE) <= 1 << 16);
    let [x, w, y] = memory.each_mut().map(Buffer::pointer);
    assert_eq!(execute(handle, plan, &pack(&[(1, x), (2, w), (3, y)], workspace.pointer())), OK, "{}", last_error());
    memory.map(|buffer| buffer.bytes().to_vec())
}

fn tensors() -> [Buffer; 3] {
    [0, 1, 2].map(|i| {
        let mut buffer = Buffer::new(4096, 0);
        for (j, element) in buffer.bytes_mut().chunks_exact_mut(4).enumerate() {
            element.copy_from_slice(&(((i + j) % 7) as f32).to_ne_bytes());
        }
        buffer
    })
}

#[test]
fn a_loaded_plan_computes_the_same() {
    for direction in DIRECTIONS {
        loaded_plan_computes_the_same(&Convolution::small().towards(direction));
    }
}

fn loaded_plan_computes_the_same(case: &Convolution) {
    let handle = Handle::new();
    let plan = case.plan(&handle);
    let bytes = save(&plan).expect("saved");
    assert_eq!(save(&plan).expect("saved again"), bytes, "saving is deterministic");
    let other = Handle::new();
    let loaded = load(&other, &bytes).expect("loaded");
    let results = run(&handle, &plan);
    assert_eq!(run(&other, &loaded), results);
    let changed = tensors().iter().zip(&results).map(|(before, after)| before.bytes() != after).collect::<Vec<_>>();
    let output = [2, 0, 1][case.direction as usize];
    assert!((0..3).all(|i| changed[i] == (i == output)), "only the output changes: {changed:?}");
    for number in [a::EXECUTION_PLAN_WORKSPACE_SIZE, a::EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT] {
        assert_eq!(loaded.get_int64(number), plan.get_int64(number));
    }
    assert_eq!(loaded.count(a::EXECUTION_PLAN_ENGINE_CONFIG, t::BACKEND_DESCRIPTOR).0, NULL, "no configuration behind it");
    assert_eq!(loaded.finalize(), BAD, "it is finalized");
    assert_eq!(save(&loaded).err(), Some(status::PLUGIN_ERROR), "it cannot be saved again");
}

#[test]
fn every_flipped_bit_is_found() {
    let handle = Handle::new();
    let bytes = save(&Convolution::small().plan(&handle)).expect("saved");
    for i in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[i] ^= 1 << bit;
            assert_eq!(load(&handle, &flipped).err(), Some(BAD), "bit {bit} of byte {i}");
        }
    }
}

#[test]
fn every_other_length_is_found() {
    let handle = Handle::new();
    let bytes = save(&Convolution::small().plan(&handle)).expect("saved");
    for length in 0..bytes.len() {
        assert_eq!(load(&handle, &bytes[..length]).err(), Some(BAD), "{length} bytes");
    }
    assert_eq!(load(&handle, &[&bytes[..], &[0]].concat()).err(), Some(BAD), "a byte too many");
}

#[test]
fn a_fitting_checksum_is_no_reason_to_believe() {
    let handle = Handle::new();
    let fused = Fused::scaled(&Convolution::small(), data_type::FLOAT, 2.0, 3.0);
    for graph in [Convolution::small().graph(&handle), fused.graph(&handle)] {
        let bytes = save(&plan(&graph)).expect("saved");
        for i in CHECKSUM.end..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[i] = value;
                seal(&mut changed);
                // What is still a graph that the engine takes is loaded; what is not is refused. Neither crashes.
                assert!(matches!(load(&handle, &changed).err(), None | Some(BAD)), "byte {i} = {value}");
            }
        }
        for length in CHECKSUM.end..bytes.len() {
            let mut cut = bytes[..length].to_vec();
            let body = (length - CHECKSUM.end) as i64;
            cut[20..28].copy_from_slice(&body.to_le_bytes());
            seal(&mut cut);
            assert_eq!(load(&handle, &cut).err(), Some(BAD), "{length} bytes");
        }
    }
}

#[test]
fn foreign_engines_and_versions() {
    let handle = Handle::new();
    let bytes = save(&Convolution::small().plan(&handle)).expect("saved");
    let changed = |range: std::ops::Range<usize>, with: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[range].copy_from_slice(with);
        seal(&mut bytes);
        load(&handle, &bytes).err()
    };
    assert_eq!(changed(ENGINE, &fnv1a(b"MIOPEN_ENGINE").to_le_bytes()), Some(UNSUPPORTED), "an engine that is not loaded");
    assert_eq!(changed(VERSION, &3i32.to_le_bytes()), Some(UNSUPPORTED), "newer");
    assert_eq!(changed(VERSION, &0i32.to_le_bytes()), Some(BAD));
    assert_eq!(changed(VERSION, &2i32.to_le_bytes()), None, "unchanged");
}

#[test]
fn arguments() {
    let handle = Handle::new();
    let plan = Convolution::small().plan(&handle);
    let bytes = save(&plan).expect("saved");
    let (mut size, mut raw) = (0usize, null_mut());
    let mut buffer = vec![0u8; bytes.len()];
    // SAFETY: every pointer is null or a local of the size that is passed.
    unsafe {
        assert_eq!(hipdnnBackendGetSerializedExecutionPlan_ext(null_mut(), 0, &mut size, null_mut()), NULL);
        assert_eq!(hipdnnBackendGetSerializedExecutionPlan_ext(plan.0, 0, null_mut(), null_mut()), NULL);
        let small = hipdnnBackendGetSerializedExecutionPlan_ext(plan.0, bytes.len() - 1, &mut size, buffer.as_mut_ptr());
        assert_eq!((small, size), (SMALL, bytes.len()));
        let unfinalized = D::new(k::BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        assert_eq!(hipdnnBackendGetSerializedExecutionPlan_ext(unfinalized.0, 0, &mut size, null_mut()), NOT_FINALIZED);
        let graph = Convolution::small().graph(&handle);
        assert_eq!(hipdnnBackendGetSerializedExecutionPlan_ext(graph.0, 0, &mut size, null_mut()), BAD);
        let load =
            |handle: &Handle, raw, bytes: *const u8, size| hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle.0, raw, bytes, size);
        assert_eq!(load(&handle, null_mut(), bytes.as_ptr(), bytes.len()), NULL);
        assert_eq!(load(&handle, &mut raw, null(), 0), NULL);
        assert_eq!(load(&Handle(null_mut()), &mut raw, bytes.as_ptr(), bytes.len()), NULL);
        assert_eq!(load(&Handle(somewhere()), &mut raw, bytes.as_ptr(), bytes.len()), BAD);
    }
    assert!(raw.is_null());
}
