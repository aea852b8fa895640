//! A convolution with another tensor, a bias and an activation, asked for in one call or as a fusion plan, and judged like a trial.

use anyhow::{Context as _, Result, ensure};
use miopen_api::activation_mode;

use crate::{
    case::Context,
    definition::{self, Expected},
    edge::{Direction, Other, Scalar, Status, Workspace},
    memory::Buffer,
    problem::{Problem, Tensor, small_integers},
    session::{Session, describe_tensor},
    trial::{Run, Trial},
};

/// Alpha, beta and gamma of every activation here.
const PARAMETERS: [f64; 3] = [0.5, 0.25, 1.0];

/// What an activation does to a value; none for those that no case asks for. None of them spreads values further apart.
fn activated(mode: i32, value: f64) -> Option<f64> {
    let [alpha, beta, _] = PARAMETERS;
    match mode {
        activation_mode::RELU => Some(value.max(0.0)),
        activation_mode::LEAKYRELU => Some(if value > 0.0 { value } else { alpha * value }),
        activation_mode::LOGISTIC => Some(1.0 / (1.0 + (-value).exp())),
        activation_mode::TANH => Some(beta * (alpha * value).tanh()),
        _ => None,
    }
}

/// How the other tensor is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Z {
    /// Ones.
    Ones,
    /// Poison, which may only be given where it is not read.
    Poison,
    /// A null pointer, likewise.
    Null,
}

/// A fused convolution.
#[derive(Clone, Debug)]
pub struct Fused {
    /// The convolution.
    pub problem: Problem,
    /// `miopenActivationMode_t`
    pub activation: i32,
    /// Factor of the convolution.
    pub alpha1: Scalar,
    /// Factor of z.
    pub alpha2: Scalar,
    /// z.
    pub z: Z,
}

impl Fused {
    /// ReLU, and no z.
    pub fn relu(problem: Problem) -> Self {
        let (one, zero) = (Scalar::Float(1.0), Scalar::Float(0.0));
        Self { problem, activation: activation_mode::RELU, alpha1: one, alpha2: zero, z: Z::Ones }
    }

    fn bias(&self) -> (Tensor, Vec<f64>) {
        let mut dims = vec![1; self.problem.y.dims.len()];
        dims[1] = self.problem.y.dims[1];
        let values = small_integers(dims[1], 11);
        (Tensor::packed(self.problem.y.kind, &dims), values)
    }

    fn expected(&self, trial: &Trial, bias: &[f64]) -> Vec<Expected> {
        let [x, w, _] = trial.values();
        let mut sums = definition::convolution(&self.problem, Direction::Forward, [&x, &w, &[]]);
        let (alpha, other) = (self.alpha1.value(), self.alpha2.value());
        sums.iter_mut().for_each(|sum| *sum = sum.scaled(alpha, other));
        definition::add_bias(&mut sums, &self.problem.y.dims, bias);
        sums.into_iter().map(|sum| sum.through(|value| activated(self.activation, value).unwrap_or(f64::NAN))).collect()
    }

    /// `miopenConvolutionBiasActivationForward`. A refusal is an answer; a success must be right.
    pub fn one_call(&self, cx: &mut Context, session: &Session, label: &str) -> Result<Status> {
        self.run(cx, session, label, |fused, run, bias| {
            let miopen = session.miopen();
            let z = match fused.z {
                Z::Ones => Some(Buffer::with(&session.libraries.hip, &fused.problem.y, &vec![1.0; fused.problem.y.elements()])?),
                Z::Poison => Some(Buffer::poisoned(&session.libraries.hip, &fused.problem.y)?),
                Z::Null => None,
            };
            let (z_descriptor, bias_descriptor) = (describe_tensor(miopen, &fused.problem.y)?, describe_tensor(miopen, &fused.bias().0)?);
            let activation = miopen.activation(fused.activation, PARAMETERS)?;
            let (bias, offset) = bias.place();
            let other = Other {
                alpha1: fused.alpha1,
                alpha2: fused.alpha2,
                z: (&z_descriptor, z.as_ref().map(Buffer::place)),
                bias: (&bias_descriptor, bias, offset),
                activation: &activation,
            };
            let status = miopen.bias_activation(&run.call(), &other, Workspace::default());
            session.libraries.hip.synchronize()?;
            Ok(status)
        })
    }

    /// A plan of convolution, bias and activation. A refusal is an answer; a success must be right.
    pub fn plan(&self, cx: &mut Context, session: &Session, label: &str) -> Result<Status> {
        self.run(cx, session, label, |fused, run, bias| {
            let (miopen, handle) = (session.miopen(), &session.handle);
            let [x, w, y] = &run.descriptors.tensors;
            let (status, Some(plan)) = miopen.fusion_plan(x) else { anyhow::bail!("no fusion plan was made") };
            status.check("miopenCreateFusionPlan")?;
            let bias_descriptor = describe_tensor(miopen, &fused.bias().0)?;
            let (status, convolution) = plan.convolution(&run.descriptors.convolution, w);
            status.check("miopenCreateOpConvForward")?;
            let (status, add) = plan.bias(&bias_descriptor);
            status.check("miopenCreateOpBiasForward")?;
            let (status, activation) = plan.activation(fused.activation);
            status.check("miopenCreateOpActivationForward")?;
            let status = plan.compile(handle);
            if !status.is_success() {
                return Ok(status);
            }
            let arguments = miopen.fusion_arguments()?;
            let [x_place, w_place, y_place] = [0, 1, 2].map(|i| run.buffers[i].place());
            arguments.convolution(&convolution, w_place.0, w_place.1).check("miopenSetOpArgsConvForward")?;
            arguments.bias(&add, bias.place().0, bias.place().1).check("miopenSetOpArgsBiasForward")?;
            arguments.activation(&activation, PARAMETERS).check("miopenSetOpArgsActivForward")?;
            session.libraries.hip.synchronize()?;
            run.prepare()?;
            let status = plan.execute(handle, (x, x_place.0, x_place.1), (y, y_place.0, y_place.1), &arguments);
            session.libraries.hip.synchronize()?;
            Ok(status)
        })
    }

    fn run(
        &self,
        cx: &mut Context,
        session: &Session,
        label: &str,
        ask: impl Fn(&Self, &Run<'_>, &Buffer) -> Result<Status>,
    ) -> Result<Status> {
        let trial = Trial::of(self.problem.clone());
        let run = Run::new(&trial, session)?;
        let (bias_tensor, bias) = self.bias();
        let bias_buffer = Buffer::with(&session.libraries.hip, &bias_tensor, &bias)?;
        let mark = cx.mark();
        let status = ask(self, &run, &bias_buffer).with_context(|| label.to_string())?;
        cx.nothing_failed(mark).with_context(|| label.to_string())?;
        cx.status(label, status)?;
        run.untouched_inputs().with_context(|| label.to_string())?;
        ensure!(bias_buffer.values()? == bias, "{label}: the bias was written");
        if status.is_success() {
            let compared = definition::compare(self.problem.y.kind, &self.expected(&trial, &bias), &run.result().values()?);
            cx.correct(label, compared.is_ok());
            compared.with_context(|| label.to_string())?;
        }
        Ok(status)
    }
}
