//! A problem to the rules natively and through the component, twice: the same bytes.
#![no_main]

use std::sync::LazyLock;

use fuzz_targets::{counters::Counters, native};
use hipdnn_host::{
    cache::record::to_bytes,
    capabilities::Capabilities,
    component::Translator,
    offline::{choices::Choices, problems::generate},
};
use libfuzzer_sys::fuzz_target;

static COUNTERS: Counters = Counters::new();
static ABI: LazyLock<Capabilities> = LazyLock::new(Capabilities::whole_abi);
static TRANSLATOR: LazyLock<Translator> = LazyLock::new(|| Translator::embedded().expect("the embedded translator loads"));

fuzz_target!(|data: &[u8]| {
    COUNTERS.input();
    let problem = generate::any(&mut Choices::of_bytes(data));
    problem.with(|problem| {
        let native = native::translate(problem, &ABI);
        if native.is_ok() {
            COUNTERS.past();
        }
        let native = to_bytes(&native);
        for _ in 0..2 {
            let sandboxed = TRANSLATOR.translate(problem, &ABI).expect("the rules are total");
            assert!(to_bytes(&sandboxed) == native, "natively and through the component the answers differ: {sandboxed:?}");
        }
    });
});
