//! One convolution asked for as programs do, and judged: buffers poisoned, the call made, everything waited for, the result compared with
//! the definition, and everything around it looked at.

use anyhow::{Context as _, Result, ensure};

use crate::{
    case::Context,
    definition::{self, Expected},
    edge::{Call, Direction, Scalar, Status, Workspace},
    memory::{Buffer, Scratch},
    problem::{Kind, Problem, small_integers},
    session::{Descriptors, Session},
};

/// How a program asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Workspace query, Find, execution with what it found.
    Classic,
    /// Execution alone. The real MIOpen answers an error unless the handle knows the problem.
    Unfound,
    /// Solution queries, compilation, immediate execution.
    Immediate,
    /// A problem, its solutions, one of them saved, loaded and run.
    FindTwo,
}

/// A convolution to be asked for.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What.
    pub problem: Problem,
    /// Which direction.
    pub direction: Direction,
    /// How.
    pub flow: Flow,
    /// Only in classic flows.
    pub alpha: Scalar,
    /// Only in classic flows. The output is filled with small integers if it is not 0, else with poison.
    pub beta: Scalar,
    /// Which input values.
    pub seed: u64,
    /// Input values that take the place of small integers, of x, w and y.
    pub inputs: [Option<Vec<f64>>; 3],
    /// Set on the convolution descriptor before anything is asked.
    pub attributes: Vec<(i32, i32)>,
    /// Whether the result is compared with the definition.
    pub judged: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Of the execution, or of the call before it that failed.
    pub status: Status,
    /// The result in logical order, if there is one.
    pub values: Vec<f64>,
    /// Its bytes, in the same order.
    pub bytes: Vec<u8>,
}

impl Trial {
    /// Forward, classic, alpha 1 and beta 0.
    pub fn of(problem: Problem) -> Self {
        let double = problem.y.kind == Kind::Double;
        let scalar = |value: f32| if double { Scalar::Double(f64::from(value)) } else { Scalar::Float(value) };
        Self {
            problem,
            direction: Direction::Forward,
            flow: Flow::Classic,
            alpha: scalar(1.0),
            beta: scalar(0.0),
            seed: 1,
            inputs: [None, None, None],
            attributes: Vec::new(),
            judged: true,
        }
    }

    /// In a direction.
    pub fn direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// In a flow.
    pub fn flow(mut self, flow: Flow) -> Self {
        self.flow = flow;
        self
    }

    /// With scalars.
    pub fn scaled(mut self, alpha: Scalar, beta: Scalar) -> Self {
        (self.alpha, self.beta) = (alpha, beta);
        self
    }

    /// With other input values.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With given values of one of x, w and y (0, 1, 2).
    pub fn input(mut self, which: usize, values: Vec<f64>) -> Self {
        self.inputs[which] = Some(values);
        self
    }

    /// With an attribute of the convolution descriptor.
    pub fn attribute(mut self, attribute: i32, value: i32) -> Self {
        self.attributes.push((attribute, value));
        self
    }

    /// Not compared with the definition: for repetitions that are compared with a run that was.
    pub fn unjudged(mut self) -> Self {
        self.judged = false;
        self
    }

    /// Input values of x, w and y; of the result, what is there before.
    pub fn values(&self) -> [Vec<f64>; 3] {
        [0, 1, 2].map(|i| match &self.inputs[i] {
            Some(values) => values.clone(),
            None => small_integers(self.problem.tensors()[i].elements(), 3 * self.seed + i as u64),
        })
    }

    fn reads_output(&self) -> bool {
        self.beta.value() != 0.0
    }

    /// What the definition says.
    pub fn expected(&self) -> Vec<Expected> {
        let [x, w, y] = self.values();
        let given = [x.as_slice(), &w, &y];
        let sums = definition::convolution(&self.problem, self.direction, given);
        let before = given[self.direction.result()];
        let (alpha, beta) = (self.alpha.value(), self.beta.value());
        if (alpha, beta) == (1.0, 0.0) {
            return sums;
        }
        let old = |i: usize| if beta == 0.0 { 0.0 } else { beta * before[i] };
        sums.into_iter().enumerate().map(|(i, sum)| sum.scaled(alpha, old(i))).collect()
    }

    /// Asks, and fails unless the answer is right.
    pub fn right(&self, cx: &mut Context, session: &Session, label: &str) -> Result<Answer> {
        let answer = self.right_or_refused(cx, session, label)?;
        ensure!(answer.status.is_success(), "{label}: status {}", answer.status);
        Ok(answer)
    }

    /// Asks. A refusal is an answer; a success must be right.
    pub fn right_or_refused(&self, cx: &mut Context, session: &Session, label: &str) -> Result<Answer> {
        let run = Run::new(self, session)?;
        let mark = cx.mark();
        let status = run.go(cx, label)?;
        cx.nothing_failed(mark).with_context(|| label.to_string())?;
        session.libraries.hip.synchronize()?;
        run.untouched_inputs().with_context(|| label.to_string())?;
        cx.status(label, status)?;
        if !status.is_success() {
            run.result().values().with_context(|| label.to_string())?;
            return Ok(Answer { status, values: Vec::new(), bytes: Vec::new() });
        }
        if self.judged {
            let compared = run.compare();
            cx.correct(label, compared.is_ok());
            compared.with_context(|| label.to_string())?;
        }
        Ok(Answer { status, values: run.result().values()?, bytes: run.result().bytes()? })
    }
}

/// A trial with its descriptors and buffers: for cases that make the calls themselves.
pub struct Run<'a> {
    trial: &'a Trial,
    session: &'a Session,
    /// Descriptors.
    pub descriptors: Descriptors,
    /// x, w, y.
    pub buffers: [Buffer; 3],
    values: [Vec<f64>; 3],
}

impl<'a> Run<'a> {
    /// Describes and allocates; the output is prepared.
    pub fn new(trial: &'a Trial, session: &'a Session) -> Result<Self> {
        let descriptors = session.describe(&trial.problem)?;
        for (attribute, value) in &trial.attributes {
            session.miopen().set_attribute(&descriptors.convolution, *attribute, *value).check("miopenSetConvolutionAttribute")?;
        }
        let values = trial.values();
        let tensors = trial.problem.tensors();
        let buffer = |i: usize| Buffer::with(&session.libraries.hip, tensors[i], &values[i]);
        let run = Self { trial, session, descriptors, buffers: [buffer(0)?, buffer(1)?, buffer(2)?], values };
        run.prepare()?;
        Ok(run)
    }

    /// The computed buffer.
    pub fn result(&self) -> &Buffer {
        &self.buffers[self.trial.direction.result()]
    }

    /// Gives the output what must be there before the call.
    pub fn prepare(&self) -> Result<()> {
        let values = &self.values[self.trial.direction.result()];
        if self.trial.reads_output() { self.result().fill(values) } else { self.result().poison() }
    }

    /// The calls of the trial's direction.
    pub fn call(&self) -> Call<'_> {
        let memory = [0, 1, 2].map(|i| Some(self.buffers[i].place()));
        self.descriptors.call(self.session, self.trial.direction, memory)
    }

    /// Executes with an algorithm.
    pub fn execute(&self, algorithm: i32, workspace: Workspace<'_>) -> Status {
        self.call().execute(algorithm, (self.trial.alpha, self.trial.beta), workspace)
    }

    /// Whether the result is what the definition says, and nothing else was written.
    pub fn compare(&self) -> Result<()> {
        let kind = self.trial.problem.tensors()[self.trial.direction.result()].kind;
        definition::compare(kind, &self.trial.expected(), &self.result().values()?)
    }

    /// That nobody wrote into an input.
    pub fn untouched_inputs(&self) -> Result<()> {
        let tensors = self.trial.problem.tensors();
        for i in 0..3 {
            if i == self.trial.direction.result() {
                continue;
            }
            let same = |(a, b): (&f64, &f64)| tensors[i].kind.round(*a).to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            let values = self.buffers[i].values()?;
            ensure!(self.values[i].iter().zip(&values).all(same), "input {} was written", ["x", "w", "y"][i]);
        }
        Ok(())
    }

    /// Makes the calls of the trial's flow, up to the first that fails.
    fn go(&self, cx: &mut Context, label: &str) -> Result<Status> {
        match self.trial.flow {
            Flow::Classic => self.classic(cx, label),
            Flow::Unfound => Ok(self.execute(0, Workspace::default())),
            Flow::Immediate => self.immediate(cx, label),
            Flow::FindTwo => self.find_two(cx, label),
        }
    }

    fn classic(&self, cx: &mut Context, label: &str) -> Result<Status> {
        let call = self.call();
        let (status, size) = call.workspace_size();
        cx.status(&format!("{label}_workspace"), status)?;
        if !status.is_success() {
            return Ok(status);
        }
        let scratch = Scratch::new(&self.session.libraries.hip, size)?;
        let (status, found) = call.find(1, scratch.workspace());
        cx.status(&format!("{label}_find"), status)?;
        self.session.libraries.hip.synchronize()?;
        if !status.is_success() {
            return Ok(status);
        }
        let best = *found.first().context("Find succeeded and found nothing")?;
        ensure!(best.memory <= size, "Find's best needs {} bytes of workspace, the query said {size}", best.memory);
        self.prepare()?;
        let status = self.execute(best.algorithm, scratch.told(best.memory));
        self.session.libraries.hip.synchronize()?;
        scratch.check(best.memory)?;
        Ok(status)
    }

    fn immediate(&self, cx: &mut Context, label: &str) -> Result<Status> {
        let call = self.call();
        let (status, count) = call.solution_count();
        cx.status(&format!("{label}_count"), status)?;
        if !status.is_success() {
            return Ok(status);
        }
        let (status, solutions) = call.solutions(count);
        cx.status(&format!("{label}_solutions"), status)?;
        ensure!(solutions.len() <= count, "{} solutions for {count} asked", solutions.len());
        let first = *solutions.first().context("no solution")?;
        let (status, size) = call.solution_workspace(first.solution_id);
        cx.status(&format!("{label}_solution_workspace"), status)?;
        ensure!(size <= first.workspace_size, "the solution asks for {size} bytes, its description for {}", first.workspace_size);
        cx.status(&format!("{label}_compile"), call.compile(first.solution_id))?;
        let scratch = Scratch::new(&self.session.libraries.hip, first.workspace_size)?;
        let status = call.immediate(first.solution_id, scratch.workspace());
        self.session.libraries.hip.synchronize()?;
        scratch.check(first.workspace_size)?;
        Ok(status)
    }

    fn find_two(&self, cx: &mut Context, label: &str) -> Result<Status> {
        let (miopen, handle) = (self.session.miopen(), &self.session.handle);
        let places = [0, 1, 2].map(|i| self.buffers[i].place());
        let [x, w, y] = &self.descriptors.tensors;
        let what = (&self.descriptors.convolution, self.trial.direction);
        let (status, found) = miopen.find_solutions(handle, what, [x, w, y], places, 1)?;
        cx.status(&format!("{label}_find2"), status)?;
        if !status.is_success() {
            return Ok(status);
        }
        let solution = miopen.reload(found.first().context("FindSolutions succeeded and found nothing")?)?;
        let (status, size) = miopen.solution_workspace(&solution);
        cx.status(&format!("{label}_solution_workspace"), status)?;
        let scratch = Scratch::new(&self.session.libraries.hip, size)?;
        self.session.libraries.hip.synchronize()?;
        self.prepare()?;
        let arguments = [0, 1, 2].map(|i| (i, places[i].0, places[i].1));
        let status = miopen.run_solution(handle, &solution, arguments, scratch.workspace());
        self.session.libraries.hip.synchronize()?;
        scratch.check(size)?;
        Ok(status)
    }
}
