//! A graph to the validator and to a slow checker: they agree.
#![no_main]

use std::sync::LazyLock;

use fuzz_targets::{counters::Counters, native};
use hipdnn_host::{
    capabilities::Capabilities,
    judge::arguments,
    offline::{
        choices::Choices,
        graphs,
        problems::generate,
        proof::{self, Proof},
    },
};
use libfuzzer_sys::fuzz_target;

static COUNTERS: Counters = Counters::new();
static ABI: LazyLock<Capabilities> = LazyLock::new(Capabilities::whole_abi);

fuzz_target!(|data: &[u8]| {
    COUNTERS.input();
    let choices = &mut Choices::of_bytes(data);
    let problem = generate::sound(choices);
    problem.with(|problem| {
        let (Ok(mut graph), Some(arguments)) = (native::translate(problem, &ABI), arguments(problem)) else { return };
        for _ in 0..choices.below(6) {
            graphs::bend(&mut graph, choices);
        }
        match proof::compare(&graph, &arguments) {
            // Sizes come first, in both.
            Ok(Proof::Unsafe("sizes")) => {}
            Ok(_) => COUNTERS.past(),
            Err(difference) => panic!("{difference}: {graph:?}"),
        }
    });
});
