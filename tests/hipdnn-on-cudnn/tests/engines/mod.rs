//! What the tests of engines share: everything that the heuristic proposes for a graph, by name.
#![allow(dead_code, reason = "each test program uses its part")]

use hipdnn_abi::{attribute as a, attribute_type as t, descriptor_type as k};

use crate::common::*;

/// A configuration that was proposed.
pub struct Proposal {
    pub engine: String,
    pub id: i64,
    pub notes: Vec<i32>,
    pub configuration: D,
}

/// The engines that are proposed for a graph, best first; each configuration is finalized.
pub fn proposals(graph: &D) -> Vec<Proposal> {
    let heuristic = heuristic(graph);
    let (status, count) = heuristic.count(a::ENGINEHEUR_RESULTS, t::BACKEND_DESCRIPTOR);
    assert_eq!(status, OK, "{}", last_error());
    if count == 0 {
        return vec![];
    }
    let configurations: Vec<D> = (0..count).map(|_| D::new(k::BACKEND_ENGINECFG_DESCRIPTOR)).collect();
    let mut raw: Vec<_> = configurations.iter().map(|configuration| configuration.0).collect();
    let mut filled = 0;
    let status = heuristic.get_raw(a::ENGINEHEUR_RESULTS, t::BACKEND_DESCRIPTOR, count, &mut filled, raw.as_mut_ptr().cast());
    assert_eq!((status, filled), (OK, count), "{}", last_error());
    configurations.into_iter().map(|configuration| proposal(configuration.finalized())).collect()
}

fn proposal(configuration: D) -> Proposal {
    let mut raw = [std::ptr::null_mut::<std::ffi::c_void>()];
    let mut count = 0;
    let status = configuration.get_raw(a::ENGINECFG_ENGINE, t::BACKEND_DESCRIPTOR, 1, &mut count, raw.as_mut_ptr().cast());
    assert_eq!((status, count), (OK, 1), "{}", last_error());
    let engine = D(raw[0]);
    let (_, length, name) = engine.get::<u8>(a::ENGINE_NAME_EXT, t::CHAR, 256);
    let (_, known, notes) = engine.get::<i32>(a::ENGINE_BEHAVIOR_NOTE, t::BEHAVIOR_NOTE, 8);
    let engine_name = String::from_utf8_lossy(&name[..length as usize - 1]).into_owned();
    Proposal { engine: engine_name, id: engine.get_int64(a::ENGINE_GLOBAL_INDEX), notes: notes[..known as usize].to_vec(), configuration }
}
