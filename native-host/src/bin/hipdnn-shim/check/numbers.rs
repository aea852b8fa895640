//! Executing graphs on a backend, and comparing with the definition: the reference executor beside this program, unless another is named.
//! Definitions are `reference`'s (convolutions) and [`chain`](super::chain)'s; the backend is reached through the host's own binding, as
//! the shim does it.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use hipdnn_host::{
    backend::{Handle, Library},
    data_type::DataType,
    lower::DEFAULT_ALIGNMENT,
    plan::{Plan, PlanError},
    problem::OwnedProblem,
    validate::ValidatedGraph,
};

use super::chain::Chain;
use crate::{
    convolution::Tensor,
    drive,
    libraries::{Buffer, Hip, beside, calls},
    problems::{Drivable, ordinary},
    reference::{self, Reference, Values},
};

/// What the command line says about executing.
#[derive(Args, Clone)]
pub struct Options {
    /// Execute no graph: what they compute is not looked at
    #[arg(long)]
    no_numbers: bool,
    /// The hipDNN backend that executes graphs (default: the reference backend beside this program)
    #[arg(long, value_name = "LIB")]
    backend: Option<PathBuf>,
    /// The HIP runtime (default: the reference one beside this program)
    #[arg(long, value_name = "LIB")]
    hip: Option<PathBuf>,
    /// Graphs of at most so many millions of multiplications are executed
    #[arg(long, value_name = "MMAC", default_value_t = 2.0)]
    max_mmac: f64,
}

/// The most elements of a tensor that is filled.
const MAX_EXTENT: i64 = 1 << 22;

/// What came of a graph.
pub enum Outcome {
    /// It computes what is defined.
    Right,
    /// It does not, how.
    Wrong(String),
    /// It was not executed, why.
    Not(String),
}

/// A backend with a handle.
pub struct Executor {
    hip: Hip,
    handle: Handle,
    most: u64,
}

impl Executor {
    /// Loads the backend, unless no numbers are wanted.
    pub fn open(options: &Options) -> Result<Option<Self>> {
        if options.no_numbers {
            return Ok(None);
        }
        let hip = Hip::load(options.hip.as_deref())?;
        let named = options.backend.clone().or_else(|| beside(drive::BACKEND_BESIDE));
        let library = Library::load(named.as_deref(), &[]).map_err(anyhow::Error::msg);
        // A handle refers to its library for as long as the process lives.
        let library: &'static Library =
            Box::leak(Box::new(library.context("no backend to execute graphs on (--no-numbers does without)")?));
        let handle = Handle::with_engines(library)?;
        Ok(Some(Self { hip, handle, most: (options.max_mmac * 1e6) as u64 }))
    }

    /// Executes a graph on inputs of its problem, and compares.
    pub fn judge(&self, graph: &ValidatedGraph, problem: &OwnedProblem) -> Outcome {
        if problem.with(|problem| problem.multiplications()).is_none_or(|work| work > self.most) {
            return Outcome::Not("too large (--max-mmac)".into());
        }
        let judged = match problem {
            OwnedProblem::Convolution(recorded) if ![recorded.alpha, recorded.beta].into_iter().all(is_comparable) => {
                return Outcome::Not("scalars that are beyond single precision".into());
            }
            OwnedProblem::Convolution(recorded) => match Drivable::of(&ordinary(recorded)) {
                Ok(drivable) => self.convolution(graph, &drivable),
                Err(usage) => return Outcome::Not(usage.0),
            },
            OwnedProblem::Fusion(chain) => match Chain::of(chain) {
                Ok(chain) => self.chain(graph, &chain),
                Err(usage) => return Outcome::Not(usage.0),
            },
            OwnedProblem::Activation(activation) => match Chain::of(&activation.as_chain()) {
                Ok(chain) => self.chain(graph, &chain),
                Err(usage) => return Outcome::Not(usage.0),
            },
        };
        judged.unwrap_or_else(|error| Outcome::Wrong(format!("{error:#}")))
    }

    fn convolution(&self, graph: &ValidatedGraph, drivable: &Drivable) -> Result<Outcome> {
        let (c, result) = (&drivable.convolution, calls(drivable.direction).result());
        let tensors = [&c.x, &c.w, &c.y];
        if let Some(why) = not_filled(&[c.x.clone(), c.w.clone(), c.y.clone()]) {
            return Ok(Outcome::Not(why.into()));
        }
        let is_read = |position: usize| position != result || c.scaling.beta != 0.0;
        let values: [Values; 3] = std::array::from_fn(|i| if is_read(i) { Values::input(tensors[i], i as u64) } else { Values::default() });
        let before = if is_read(result) { reference::filled(tensors[result], &values[result]) } else { reference::poison(tensors[result]) };
        let places = Places { tensors: &tensors, values: &values.each_ref(), result, before };
        let Some(output) = self.execute(graph, &places)? else { return Ok(Outcome::Not(NO_ENGINE.into())) };
        let verdict = Reference::new(c, drivable.direction, values.each_ref()).check(&[output]);
        Ok(verdict.failure.map_or(Outcome::Right, Outcome::Wrong))
    }

    fn chain(&self, graph: &ValidatedGraph, chain: &Chain<'_>) -> Result<Outcome> {
        if let Some(why) = not_filled(&chain.tensors) {
            return Ok(Outcome::Not(why.into()));
        }
        const OUTPUT: usize = 1;
        let tensors: Vec<&Tensor> = chain.tensors.iter().collect();
        let values: Vec<&Values> = chain.values.iter().collect();
        let places = Places { tensors: &tensors, values: &values, result: OUTPUT, before: reference::poison(tensors[OUTPUT]) };
        let Some(output) = self.execute(graph, &places)? else { return Ok(Outcome::Not(NO_ENGINE.into())) };
        let verdict = reference::check(tensors[OUTPUT], &[output], chain.expected(), false);
        Ok(verdict.failure.map_or(Outcome::Right, Outcome::Wrong))
    }

    /// The bytes of the output, with its guard; nothing if no engine takes the graph.
    fn execute(&self, graph: &ValidatedGraph, places: &Places<'_>) -> Result<Option<Vec<u8>>> {
        let mut plan = match Plan::build(graph, &self.handle, DEFAULT_ALIGNMENT) {
            Ok((plan, ..)) => plan,
            Err(PlanError::NoEngine(_)) => return Ok(None),
            Err(error) => return Err(error).context("building a plan"),
        };
        let bytes: Vec<Vec<u8>> = (0..places.tensors.len()).map(|i| places.bytes(i)).collect();
        let buffers = bytes.iter().map(|bytes| self.upload(bytes)).collect::<Result<Vec<_>>>()?;
        let workspace = self.hip.allocate(plan.workspace())?;
        let pointers: Vec<_> = buffers.iter().map(|buffer| buffer.address()).collect();
        let slot = plan.pack(&self.handle, &pointers, workspace.address())?;
        plan.execute(&self.handle, slot).context("executing")?;
        self.hip.synchronize()?;
        for (i, (buffer, bytes)) in buffers.iter().zip(&bytes).enumerate().filter(|(i, _)| *i != places.result) {
            ensure!(buffer.read()? == *bytes, "argument {i}, which is only read, was written");
        }
        buffers[places.result].read().map(Some)
    }

    fn upload(&self, bytes: &[u8]) -> Result<Buffer<'_>> {
        let buffer = self.hip.allocate(bytes.len())?;
        buffer.write(bytes)?;
        Ok(buffer)
    }
}

/// Scalars of calls on other than doubles are floats; what overflows in the middle of a computation has no definition.
fn is_comparable(scalar: f64) -> bool {
    scalar == 0.0 || (1e-30..1e30).contains(&scalar.abs())
}

const NO_ENGINE: &str = "no engine of the backend takes it";

/// Why tensors are not filled, if they are not.
fn not_filled(tensors: &[Tensor]) -> Option<&'static str> {
    let known = |tensor: &Tensor| {
        matches!(tensor.data_type, DataType::Float | DataType::Half | DataType::BFloat16 | DataType::Int8 | DataType::Int32)
    };
    if tensors.iter().any(|tensor| tensor.cast_type.is_some() || !known(tensor)) {
        return Some("cast types, and other element types, are only translated");
    }
    tensors.iter().any(|tensor| tensor.extent() > MAX_EXTENT).then_some("too large (--max-mmac)")
}

/// What is in memory, in the order of the contract's arguments.
struct Places<'a> {
    tensors: &'a [&'a Tensor],
    values: &'a [&'a Values],
    result: usize,
    /// The output before.
    before: Vec<u8>,
}

impl Places<'_> {
    fn bytes(&self, i: usize) -> Vec<u8> {
        if i == self.result { self.before.clone() } else { self.values[i].encode(self.tensors[i].data_type) }
    }
}
