//! Translations in a warm instance, and the same rules natively, in turns so that both see the same machine.

use std::{hint::black_box, time::Instant};

use anyhow::{Result, ensure};
use hipdnn_host::{capabilities::Capabilities, component::Translator, problem::Problem};
use translator::{contract::graph, conv};

use super::problems;
use crate::{median, print};

/// Turns, and calls in each.
const TURNS: usize = 201;
const CALLS: u32 = 100;

/// Measures and prints.
pub fn report() -> Result<()> {
    let translator = Translator::embedded()?;
    let capabilities = Capabilities::whole_abi();
    let native_capabilities = graph::Capabilities {
        backend_version: String::new(),
        operations: capabilities.operations.clone(),
        data_types: vec![graph::DataType::Float, graph::DataType::Half, graph::DataType::Bfloat16, graph::DataType::Double],
        plan_serialization: true,
    };
    for (name, recorded, problem) in problems::all()? {
        let problem_recorded = recorded.problem();
        ensure!(translator.translate(&Problem::Convolution(problem_recorded), &capabilities)?.is_ok(), "{name} is declined");
        ensure!(conv::translate(&problem, &native_capabilities).is_ok(), "{name} is declined natively");
        let (mut sandboxed, mut native) = (Vec::with_capacity(TURNS), Vec::with_capacity(TURNS));
        for _ in 0..TURNS {
            sandboxed
                .push(time(|| drop(black_box(translator.translate(&Problem::Convolution(black_box(problem_recorded)), &capabilities)))));
            native.push(time(|| drop(black_box(conv::translate(black_box(&problem), &native_capabilities)))));
        }
        print(&format!("translate.warm.{name}"), (median(sandboxed), "us"), (median(native), "the same rules natively"));
    }
    Ok(())
}

/// Microseconds of one call.
fn time(call: impl Fn()) -> f64 {
    let start = Instant::now();
    (0..CALLS).for_each(|_| call());
    start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
}
