//! A translator that answers like the built-in one, except that it does one thing that a translator must not do. Which one is a number in its
//! bytes ([`BEHAVIOUR`]), which `cargo xtask components` writes there: every behaviour is a component of its own, with a digest of its own, out
//! of one build.
//!
//! One problem is answered honestly, so that it passes the check that a host makes before it takes a translator.

mod bend;
mod exhaust;

use std::{
    ptr::read_volatile,
    sync::atomic::{AtomicU32, Ordering},
};

use translator::{
    bindings,
    contract::{
        activation::{self, Guest as ActivationGuest},
        conv::{self, Guest as ConvGuest},
        fusion::{self, Guest as FusionGuest},
        graph::{Capabilities, Decline, Translation},
        manifest::{Description, Entry, Guest as ManifestGuest},
    },
};

/// The images of the problem that a host tries translators with.
const PLAIN: [i64; 4] = [1, 2, 4, 4];

/// What it does: six digits at the end, which are those of a name in [`NAMES`].
#[used]
static BEHAVIOUR: [u8; 32] = *b"hostile behaviour number: 000000";

/// What can be done, by number. The names are read from the bytes of the component.
macro_rules! behaviours {
    (
        manifests { $($manifest:ident = $manifest_number:literal $manifest_name:ident;)* }
        translations { $($number:literal $name:ident $does:expr;)* }
    ) => {
        $(const $manifest: u32 = $manifest_number;)*

        fn misbehave(number: u32, problem: conv::Problem, capabilities: &Capabilities) -> Answer {
            let honest = || translator::conv::translate(&problem, capabilities);
            let does: fn(&dyn Fn() -> Answer) -> Answer = match number {
                $($number => $does,)*
                _ => |honest| honest(),
            };
            does(&honest)
        }

        /// Number and name of each, one a line.
        #[used]
        static NAMES: &str = concat!(
            "hostile behaviours:\n0 honest\n",
            $(stringify!($number), " ", stringify!($name), "\n",)*
            $(stringify!($manifest_number), " ", stringify!($manifest_name), "\n",)*
            "end of behaviours\n"
        );
    };
}

type Answer = Result<Translation, Decline>;

behaviours! {
    manifests {
        SPINNING_MANIFEST = 100 spinning_manifest;
        ENDLESS_MANIFEST = 101 endless_manifest;
        UNLIKELY_MANIFEST = 102 unlikely_manifest;
    }
    translations {
        1 infinite_loop |_| exhaust::time();
        2 deep_recursion |_| exhaust::stack();
        3 memory_bomb |_| exhaust::memory();
        4 huge_reply |honest| bend::graph(honest, bend::huge_text);
        5 trap_on_every_third_call |honest| if every(3) { exhaust::trap() } else { honest() };
        6 two_answers |honest| if every(2) { bend::graph(honest, bend::other_types) } else { honest() };
        7 uid_not_bound |honest| bend::graph(honest, bend::unbound);
        8 bound_twice |honest| bend::graph(honest, bend::bound_twice);
        9 one_element_too_far |honest| bend::graph(honest, bend::one_too_far);
        10 negative_length |honest| bend::graph(honest, |graph| bend::length(graph, -1));
        11 no_length |honest| bend::graph(honest, |graph| bend::length(graph, 0));
        12 immense_length |honest| bend::graph(honest, |graph| bend::length(graph, 1 << 62));
        13 overlapping_output |honest| bend::graph(honest, bend::overlapping);
        14 cycle |honest| bend::graph(honest, bend::cycle);
        15 input_is_output |honest| bend::graph(honest, bend::input_is_output);
        16 wrong_type |honest| bend::graph(honest, bend::wrong_type);
        17 unknown_operation |honest| bend::graph(honest, bend::unknown_operation);
        18 wrong_attribute |honest| bend::graph(honest, bend::wrong_attribute);
        19 million_nodes |honest| bend::graph(honest, bend::million_nodes);
        20 no_text |_| Err(bend::no_text());
        21 something_else |honest| bend::graph(honest, bend::something_else);
        22 unlisted_rule |_| Err(Decline { rule: "conv.made-up".into(), message: String::new() });
        23 writes_an_input |honest| bend::graph(honest, bend::writes_an_input);
        24 argument_that_is_none |honest| bend::graph(honest, bend::argument_that_is_none);
    }
}

fn behaviour() -> u32 {
    // SAFETY: reads a static of ours; volatile, because its bytes are another's in every test.
    let text = unsafe { read_volatile(&raw const BEHAVIOUR) };
    text.iter().rev().take(6).rev().fold(0, |number, digit| number * 10 + u32::from(digit.wrapping_sub(b'0')))
}

/// Whether this call is the last of so many.
fn every(count: u32) -> bool {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    CALLS.fetch_add(1, Ordering::Relaxed) % count == count - 1
}

struct Hostile;

impl ManifestGuest for Hostile {
    fn describe() -> Description {
        let honest = translator::manifest::describe();
        match behaviour() {
            SPINNING_MANIFEST => exhaust::time().map(|_| honest.clone()).unwrap_or(honest),
            ENDLESS_MANIFEST => {
                let entry = Entry { id: "x".repeat(1000), reason: "y".repeat(1000) };
                Description { rules: vec![entry; 3000], ..honest }
            }
            UNLIKELY_MANIFEST => Description { version: "newest".into(), ..honest },
            _ => Description { name: "hostile".into(), ..honest },
        }
    }
}

impl ConvGuest for Hostile {
    fn translate(problem: conv::Problem, capabilities: Capabilities) -> Answer {
        let plain = problem.x.dims == PLAIN;
        misbehave(if plain { 0 } else { behaviour() }, problem, &capabilities)
    }
}

impl FusionGuest for Hostile {
    fn translate(problem: fusion::Problem, capabilities: Capabilities) -> Answer {
        translator::fusion::translate(&problem, &capabilities)
    }
}

impl ActivationGuest for Hostile {
    fn translate(problem: activation::Problem, capabilities: Capabilities) -> Answer {
        translator::activation::translate(problem, &capabilities)
    }
}

bindings::export!(Hostile with_types_in translator::bindings);
