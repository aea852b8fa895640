//! A problem to the rules, natively: they answer, by a rule of their manifest or with a graph that the validator passes.
#![no_main]

use std::sync::LazyLock;

use fuzz_targets::{counters::Counters, native};
use hipdnn_host::{
    capabilities::Capabilities,
    judge::arguments,
    offline::{choices::Choices, problems::generate},
    validate::validate,
};
use libfuzzer_sys::fuzz_target;

static COUNTERS: Counters = Counters::new();
static ABI: LazyLock<Capabilities> = LazyLock::new(Capabilities::whole_abi);
static RULES: LazyLock<Vec<String>> = LazyLock::new(|| translator::manifest::describe().rules.into_iter().map(|rule| rule.id).collect());

fuzz_target!(|data: &[u8]| {
    COUNTERS.input();
    let problem = generate::any(&mut Choices::of_bytes(data));
    problem.with(|problem| match native::translate(problem, &ABI) {
        Err(decline) => {
            assert!(RULES.contains(&decline.rule), "{decline:?}");
        }
        Ok(graph) => {
            COUNTERS.past();
            // More tensors than a call may have: the host declines them, whatever the rules say.
            let Some(_) = problem.operands() else { return };
            let arguments = arguments(problem).expect("what is translated has extents");
            validate(graph, &arguments).expect("the rules give graphs that can be lowered");
        }
    });
});
