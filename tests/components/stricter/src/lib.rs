//! The built-in translator with one more rule: convolutions with a stride are native's. What `cargo xtask demo swap` swaps in.

use translator::{
    activation, bindings,
    contract::{
        activation::{Guest as ActivationGuest, Problem as Activation},
        conv::{Guest as ConvGuest, Problem as Convolution},
        fusion::{Guest as FusionGuest, Problem as Chain},
        graph::{Capabilities, Decline, Translation},
        manifest::{Description, Entry, Guest as ManifestGuest},
    },
    conv, fusion, manifest,
};

const RULE: &str = "example.stride";

struct Stricter;

impl ManifestGuest for Stricter {
    fn describe() -> Description {
        let mut description = manifest::describe();
        description.name = "stricter".into();
        description.rules.insert(0, Entry { id: RULE.into(), reason: "a convolution with a stride".into() });
        description
    }
}

impl ConvGuest for Stricter {
    fn translate(problem: Convolution, capabilities: Capabilities) -> Result<Translation, Decline> {
        if problem.strides.iter().any(|stride| *stride != 1) {
            return Err(Decline { rule: RULE.into(), message: format!("strides {:?}", problem.strides) });
        }
        conv::translate(&problem, &capabilities)
    }
}

impl FusionGuest for Stricter {
    fn translate(problem: Chain, capabilities: Capabilities) -> Result<Translation, Decline> {
        fusion::translate(&problem, &capabilities)
    }
}

impl ActivationGuest for Stricter {
    fn translate(problem: Activation, capabilities: Capabilities) -> Result<Translation, Decline> {
        activation::translate(problem, &capabilities)
    }
}

bindings::export!(Stricter with_types_in translator::bindings);
