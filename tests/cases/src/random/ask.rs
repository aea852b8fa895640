//! Asking: the calls of each style, one after the other up to the first that fails, with what each returned. What the answers are worth is
//! not known here.

use anyhow::{Context as _, Result, ensure};
use miopen_api::convolution_mode;

use super::{
    arena::Arena,
    asked::{Asked, Style},
};
use crate::{
    edge::{Memory, MiOpen, Status},
    memory::Scratch,
    session::{Descriptors, Session, describe_tensor},
    trace::{Event, Trace},
};

/// A call and the number of the status that it returned.
pub type Step = (String, i32);

/// An executing call that was made.
pub struct Executed {
    /// Values of x, w, y and the bias before it, in logical order.
    pub before: [Vec<f64>; 4],
    /// Values of the result after it.
    pub after: Vec<f64>,
    /// A number for all memory after it.
    pub digest: String,
}

/// What came of asking.
pub struct Answer {
    /// All calls that set something or execute.
    pub steps: Vec<Step>,
    /// What the executing call found in memory, and left there; none if it was not reached.
    pub executed: Option<Executed>,
    /// The executing call in the shim's trace.
    pub event: Option<Event>,
}

impl Answer {
    /// Whether the executing call was made, and succeeded.
    pub fn succeeded(&self) -> bool {
        self.executed.is_some() && self.steps.last().is_some_and(|(_, status)| *status == 0)
    }
}

/// A problem that is being asked for.
struct Asking<'a> {
    asked: &'a Asked,
    session: &'a Session,
    descriptors: Descriptors,
    arena: Arena,
    trace: &'a Trace,
    answer: Answer,
}

/// Asks for a problem on a handle.
pub fn ask(asked: &Asked, session: &Session, trace: &Trace) -> Result<Answer> {
    let mut steps = Vec::new();
    let descriptors = describe(asked, session.miopen(), &mut steps)?;
    let arena = Arena::new(&session.libraries.hip, asked)?;
    let answer = Answer { steps, executed: None, event: None };
    let mut asking = Asking { asked, session, descriptors, arena, trace, answer };
    match asked.style {
        Style::Unfound => asking.execute_classic(0, &Scratch::new(&session.libraries.hip, 0)?, 0)?,
        Style::Found { requested } => asking.found(requested)?,
        Style::Immediate => asking.immediate()?,
        Style::FindTwo { reloaded } => asking.find_two(reloaded)?,
        Style::Plan => asking.plan()?,
    }
    session.libraries.hip.synchronize()?;
    Ok(asking.answer)
}

/// Descriptors, by setters that may refuse. A negative number reaches MIOpen as one.
fn describe(asked: &Asked, miopen: &MiOpen, steps: &mut Vec<Step>) -> Result<Descriptors> {
    let mut note = |call: &str, status: Status| steps.push((call.to_string(), status.0));
    let tensors = [miopen.tensor()?, miopen.tensor()?, miopen.tensor()?];
    for (descriptor, tensor) in tensors.iter().zip(&asked.tensors) {
        let status = miopen.set_tensor(descriptor, tensor.kind.number(), &tensor.dims, Some(&tensor.strides));
        note("miopenSetTensorDescriptor", status);
    }
    let (convolution, geometry) = (miopen.convolution()?, &asked.geometry);
    let list = |values: &[i64]| values.iter().map(|&value| usize::try_from(value).unwrap_or(usize::MAX)).collect::<Vec<_>>();
    let [pads, strides, dilations] = [&geometry.pads, &geometry.strides, &geometry.dilations].map(|values| list(values));
    let mode = if geometry.transposed { convolution_mode::TRANSPOSE } else { convolution_mode::CONVOLUTION };
    note("miopenInitConvolutionNdDescriptor", miopen.init_convolution(&convolution, [&pads, &strides, &dilations], mode));
    note("miopenSetConvolutionGroupCount", miopen.set_groups(&convolution, asked.groups));
    if geometry.transposed {
        let status = miopen.set_output_padding(&convolution, &list(&geometry.output_pads));
        note("miopenSetTransposeConvNdOutputPadding", status);
    }
    for &(attribute, value) in &asked.attributes {
        note("miopenSetConvolutionAttribute", miopen.set_attribute(&convolution, attribute, value));
    }
    Ok(Descriptors { tensors, convolution })
}

impl Asking<'_> {
    /// Notes a call. True if it succeeded.
    fn went(&mut self, call: &str, status: Status) -> bool {
        self.answer.steps.push((call.to_string(), status.0));
        status.is_success()
    }

    fn direction(&self, what: &str) -> String {
        format!("miopenConvolution{}{what}", self.asked.direction.name())
    }

    fn memory(&self) -> [Option<(&Memory, usize)>; 3] {
        [0, 1, 2].map(|i| (self.asked.null != Some(i)).then(|| self.arena.place(i)))
    }

    fn call(&self) -> crate::edge::Call<'_> {
        self.descriptors.call(self.session, self.asked.direction, self.memory())
    }

    fn scratch(&self, size: usize) -> Result<Scratch> {
        Scratch::new(&self.session.libraries.hip, size)
    }

    /// Makes the executing call, and looks at what it did to memory and to the trace.
    fn execute(&mut self, make: impl FnOnce(&Self) -> Status) -> Result<()> {
        let (before, mark, name) = (self.arena.prepare()?, self.trace.mark(), self.asked.entry_point());
        let status = make(self);
        self.session.libraries.hip.synchronize()?;
        self.went(&name, status);
        let events = self.trace.since(mark)?;
        self.answer.event = events.into_iter().find(|event| event.call == name);
        let after = self.arena.after(&before)?;
        ensure!(status.is_success() || after == before, "{name} returned {status}, and wrote");
        self.answer.executed = Some(Executed {
            before: [0, 1, 2, 3].map(|i| self.arena.values(&before, i)),
            after: self.arena.values(&after, self.asked.direction.result()),
            digest: after.digest(),
        });
        Ok(())
    }

    /// Makes a call that looks for solutions on the problem's memory: it may overwrite the result.
    fn search<T>(&self, make: impl FnOnce(&Self) -> T) -> Result<T> {
        let before = self.arena.prepare()?;
        let found = make(self);
        self.session.libraries.hip.synchronize()?;
        self.arena.after(&before).context("in a search")?;
        Ok(found)
    }

    fn execute_classic(&mut self, algorithm: i32, scratch: &Scratch, bytes: usize) -> Result<()> {
        let scalars = (self.asked.alpha, self.asked.beta);
        self.execute(|asking| asking.call().execute(algorithm, scalars, scratch.told(bytes)))?;
        scratch.check(bytes)
    }

    fn found(&mut self, requested: usize) -> Result<()> {
        let (status, size) = self.call().workspace_size();
        if !self.went(&self.direction("GetWorkSpaceSize"), status) {
            return Ok(());
        }
        let scratch = self.scratch(size)?;
        let (status, found) = self.search(|asking| asking.call().find(requested, scratch.workspace()))?;
        scratch.check(size)?;
        if !self.went(&format!("miopenFindConvolution{}Algorithm", self.asked.direction.name()), status) {
            return Ok(());
        }
        let best = *found.first().context("Find succeeded and found nothing")?;
        ensure!(found.len() <= requested, "{} results for {requested}", found.len());
        ensure!(best.memory <= size, "Find's best needs {} bytes of workspace, the query said {size}", best.memory);
        self.execute_classic(best.algorithm, &scratch, best.memory)
    }

    fn immediate(&mut self) -> Result<()> {
        let (status, count) = self.call().solution_count();
        if !self.went(&self.direction("GetSolutionCount"), status) {
            return Ok(());
        }
        let (status, solutions) = self.call().solutions(count);
        if !self.went(&self.direction("GetSolution"), status) {
            return Ok(());
        }
        let first = *solutions.first().context("a count, and no solution")?;
        ensure!(solutions.len() <= count, "{} solutions, {count} counted", solutions.len());
        let (status, size) = self.call().solution_workspace(first.solution_id);
        ensure!(size <= first.workspace_size, "the solution asks for {size} bytes, its description for {}", first.workspace_size);
        let compiled = self.call().compile(first.solution_id);
        if !self.went(&self.direction("GetSolutionWorkspaceSize"), status) || !self.went(&self.direction("CompileSolution"), compiled) {
            return Ok(());
        }
        let scratch = self.scratch(size)?;
        self.execute(|asking| asking.call().immediate(first.solution_id, scratch.workspace()))?;
        scratch.check(size)
    }

    fn find_two(&mut self, reloaded: bool) -> Result<()> {
        let (miopen, session) = (self.session.miopen(), self.session);
        let (status, found) = self.search(|asking| {
            let Descriptors { tensors: [x, w, y], convolution } = &asking.descriptors;
            let places = [0, 1, 2].map(|i| asking.arena.place(i));
            miopen.find_solutions(&session.handle, (convolution, asking.asked.direction), [x, w, y], places, 1)
        })??;
        if !self.went("miopenFindSolutions", status) {
            return Ok(());
        }
        let found = found.into_iter().next().context("FindSolutions succeeded and found nothing")?;
        let solution = if reloaded { miopen.reload(&found)? } else { found };
        let (status, size) = miopen.solution_workspace(&solution);
        if !self.went("miopenGetSolutionWorkspaceSize", status) {
            return Ok(());
        }
        let scratch = self.scratch(size)?;
        self.execute(|asking| {
            let arguments = [0, 1, 2].map(|i| {
                let (memory, offset) = asking.arena.place(i);
                (i, memory, offset)
            });
            miopen.run_solution(&session.handle, &solution, arguments, scratch.workspace())
        })?;
        scratch.check(size)
    }

    fn plan(&mut self) -> Result<()> {
        let (miopen, session) = (self.session.miopen(), self.session);
        let (status, Some(plan)) = miopen.fusion_plan(&self.descriptors.tensors[0]) else { anyhow::bail!("no fusion plan was made") };
        status.check("miopenCreateFusionPlan")?;
        let (status, convolution) = plan.convolution(&self.descriptors.convolution, &self.descriptors.tensors[1]);
        if !self.went("miopenCreateOpConvForward", status) {
            return Ok(());
        }
        let arguments = miopen.fusion_arguments()?;
        let (w, w_offset) = self.arena.place(1);
        arguments.convolution(&convolution, w, w_offset).check("miopenSetOpArgsConvForward")?;
        // The plan keeps what the descriptor says, not the descriptor.
        if self.asked.chain.bias {
            let (status, bias) = plan.bias(&describe_tensor(miopen, &self.asked.bias())?);
            status.check("miopenCreateOpBiasForward")?;
            let (memory, offset) = self.arena.place(3);
            arguments.bias(&bias, memory, offset).check("miopenSetOpArgsBiasForward")?;
        }
        if let Some((mode, parameters)) = self.asked.chain.activation {
            let (status, activation) = plan.activation(mode);
            status.check("miopenCreateOpActivationForward")?;
            arguments.activation(&activation, parameters).check("miopenSetOpArgsActivForward")?;
        }
        let status = plan.compile(&session.handle);
        if !self.went("miopenCompileFusionPlan", status) {
            return Ok(());
        }
        self.execute(|asking| {
            let ([x, _, y], [x_place, y_place]) = (&asking.descriptors.tensors, [0, 2].map(|i| asking.arena.place(i)));
            plan.execute(&session.handle, (x, x_place.0, x_place.1), (y, y_place.0, y_place.1), &arguments)
        })
    }
}
