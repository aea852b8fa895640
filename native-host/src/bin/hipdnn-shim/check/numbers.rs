//! Executing graphs on a backend, and comparing with the definition: the reference executor beside this program, unless another is named.
//! The definition is `reference`'s, the backend is reached through the host's own binding, as the shim does it.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use hipdnn_host::{
    backend::{Handle, Library},
    lower::DEFAULT_ALIGNMENT,
    plan::{Plan, PlanError},
    problem::{MAX_ARGUMENTS, OwnedProblem},
    validate::ValidatedGraph,
};

use crate::{
    drive,
    libraries::{Buffer, Hip, beside, calls},
    problems::Drivable,
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
        let library: &'static Library = Box::leak(Box::new(library.context("no backend to execute graphs on (--no-numbers does without)")?));
        let handle = Handle::with_engines(library)?;
        Ok(Some(Self { hip, handle, most: (options.max_mmac * 1e6) as u64 }))
    }

    /// Executes a graph on inputs of its problem, and compares.
    pub fn judge(&self, graph: &ValidatedGraph, problem: &OwnedProblem) -> Outcome {
        if problem.with(|problem| problem.multiplications()).is_none_or(|work| work > self.most) {
            return Outcome::Not("too large (--max-mmac)".into());
        }
        let drivable = match Drivable::of(problem) {
            Ok(drivable) => drivable,
            Err(usage) => return Outcome::Not(usage.0),
        };
        if let Err(usage) = drive::drivable(&drivable.convolution, &drivable.line) {
            return Outcome::Not(usage.0);
        }
        match self.execute(graph, &drivable) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Wrong(format!("{error:#}")),
        }
    }

    fn execute(&self, graph: &ValidatedGraph, drivable: &Drivable) -> Result<Outcome> {
        let mut plan = match Plan::build(graph, &self.handle, DEFAULT_ALIGNMENT) {
            Ok((plan, ..)) => plan,
            Err(PlanError::NoEngine(_)) => return Ok(Outcome::Not("no engine of the backend takes it".into())),
            Err(error) => return Err(error).context("building a plan"),
        };
        let (c, result) = (&drivable.convolution, calls(drivable.direction).result());
        let tensors = [&c.x, &c.w, &c.y];
        let is_read = |position: usize| position != result || c.scaling.beta != 0.0;
        let values: [Values; 3] =
            std::array::from_fn(|i| if is_read(i) { Values::input(tensors[i], i as u64) } else { Values::default() });
        let mut bytes = [0, 1, 2].map(|i| if i == result { Vec::new() } else { values[i].encode(tensors[i].data_type) });
        bytes[result] = if is_read(result) { reference::filled(tensors[result], &values[result]) } else { reference::poison(tensors[result]) };
        let [x, w, y] = &bytes;
        let buffers = [self.upload(x)?, self.upload(w)?, self.upload(y)?];
        let workspace = self.hip.allocate(plan.workspace())?;
        let mut pointers = [std::ptr::null_mut(); MAX_ARGUMENTS];
        pointers.iter_mut().zip(&buffers).for_each(|(pointer, buffer)| *pointer = buffer.address());
        let slot = plan.pack(&self.handle, &pointers, workspace.address())?;
        plan.execute(&self.handle, slot).context("executing")?;
        self.hip.synchronize()?;
        for i in [0, 1, 2].into_iter().filter(|i| *i != result) {
            ensure!(buffers[i].read()? == bytes[i], "{} was written", ["x", "w", "y"][i]);
        }
        let verdict = Reference::new(c, drivable.direction, values.each_ref()).check(&[buffers[result].read()?]);
        Ok(verdict.failure.map_or(Outcome::Right, Outcome::Wrong))
    }

    fn upload(&self, bytes: &[u8]) -> Result<Buffer<'_>> {
        let buffer = self.hip.allocate(bytes.len())?;
        buffer.write(bytes)?;
        Ok(buffer)
    }
}
