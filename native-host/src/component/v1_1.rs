//! What version 1.1.0 of the contract adds to 1.0.0: activations. Frozen, like the one before it, whose conversions it uses.

use wasmtime::Store;

use super::{
    State,
    bindings::exports::miopen_hipdnn::translator1_1_0 as wit,
    contract::{Found, guest},
    v1_0,
};
use crate::{
    capabilities::Capabilities,
    graph::{ReceivedDecline, ReceivedGraph},
    problem::{Activation, ActivationProblem},
};

/// The export that makes a component one of this version.
pub const ACTIVATION: &str = "miopen-hipdnn:translator/activation@1.1.0";

/// What a component has of this version, instantiated.
pub struct Instance {
    activation: wit::activation::Guest,
}

impl Instance {
    /// Finds the interfaces of a component that has [`ACTIVATION`].
    pub fn new(found: &mut Found<'_>) -> wasmtime::Result<Self> {
        Ok(Self { activation: guest!(wit::activation, found)? })
    }

    /// Asks for the graph of an activation.
    pub fn translate(
        &self,
        store: &mut Store<State>,
        problem: &ActivationProblem<'_>,
        capabilities: &Capabilities,
    ) -> wasmtime::Result<Result<ReceivedGraph, ReceivedDecline>> {
        let reply = self.activation.call_translate(store, &activation(problem), &v1_0::capability_record(capabilities))?;
        Ok(v1_0::answer(reply))
    }
}

fn activation(problem: &ActivationProblem<'_>) -> wit::activation::Problem {
    let Activation { mode, alpha, beta, gamma } = problem.activation;
    wit::activation::Problem {
        x: v1_0::tensor(problem.x),
        y: v1_0::tensor(problem.y),
        mode: v1_0::activation_mode(mode),
        alpha,
        beta,
        gamma,
        scaling: v1_0::scaling(problem.scaling),
    }
}
