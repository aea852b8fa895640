//! Numerics and flags: element types, scalars, determinism, what overflows.

use std::{env, process::Command};

use anyhow::{Context as _, Result, ensure};
use miopen_api::{convolution_attribute, tensor_layout};

use crate::{
    case::{Case, Context, Needs::Nothing},
    edge::{Direction, Scalar, Status},
    fused::{Fused, Z},
    problem::{
        Kind::{self, Double, Float, Half, Int8, Int32},
        Problem, small_integers,
    },
    session::Session,
    trial::Trial,
};

/// The cases of this file.
pub const CASES: &[Case] = &[
    Case { number: "V19", name: "mixed-element-types", needs: Nothing, run: mixed_types },
    Case { number: "V20", name: "determinism-is-asked-for-at-any-time", needs: Nothing, run: determinism },
    Case { number: "V20", name: "determinism-by-the-environment", needs: Nothing, run: determinism_by_environment },
    Case { number: "V22", name: "half-overflows-to-infinity", needs: Nothing, run: overflow },
    Case { number: "V23", name: "small-integers-in-half-are-exact", needs: Nothing, run: large_window },
    Case { number: "V24", name: "alpha-and-beta-null-and-typed", needs: Nothing, run: scalars },
    Case { number: "V24", name: "alphas-of-the-fused-call", needs: Nothing, run: fused_scalars },
    Case { number: "V29", name: "fusion-errors-stay-errors", needs: Nothing, run: fusion_errors },
];

/// Each tensor keeps its own type. A decline must come from the engine search, not from types that differ.
fn mixed_types(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let problem = Problem::new(Int8, &[2, 4, 8, 8], &[4, 4, 3, 3]).pads(&[1]);
    for (label, kind) in [("int32", Int32), ("float", Float)] {
        let mark = cx.mark();
        Trial::of(problem.clone().output_kind(kind)).right_or_refused(cx, &session, label)?;
        let by_type = |rule: &String| rule.starts_with("tensor.type");
        let events = cx.events(mark)?;
        ensure!(!events.iter().any(|event| event.rule.as_ref().is_some_and(by_type)), "{label}: declined because types differ");
    }
    Ok(())
}

/// Weights' gradients over many terms that do not sum exactly, so that another order of summation shows.
fn inexact(kind: Kind, batch: usize) -> Trial {
    let problem = Problem::new(kind, &[batch, 64, 28, 28], &[64, 64, 3, 3]).pads(&[1]);
    let inexact = |count: usize, seed: u64| small_integers(count, seed).iter().map(|v| kind.round(v * 0.1 + 0.013)).collect();
    let (x, dy) = (inexact(problem.x.elements(), 1), inexact(problem.y.elements(), 2));
    Trial::of(problem).direction(Direction::BackwardWeights).input(0, x).input(2, dy)
}

/// The attribute counts from the call on that follows it, whatever was planned before.
fn determinism(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    for (label, kind) in [("float", Float), ("half", Half)] {
        // A whole batch is a matter of seconds without a device.
        let trial = inexact(kind, if cx.gpu { 8 } else { 1 });
        trial.right(cx, &session, &format!("{label}_before"))?;
        same_bits(cx, &session, &trial.clone().attribute(convolution_attribute::DETERMINISTIC, 1), label)?;
        trial.attribute(convolution_attribute::DETERMINISTIC, 0).right(cx, &session, &format!("{label}_after"))?;
    }
    Ok(())
}

/// Runs ten times; each must have the same bits, and the route must be that of the first.
fn same_bits(cx: &mut Context, session: &Session, trial: &Trial, label: &str) -> Result<()> {
    let first = trial.right(cx, session, &format!("{label}_1"))?;
    for round in 2..=10 {
        let bytes = trial.clone().unjudged().right(cx, session, &format!("{label}_{round}"))?.bytes;
        ensure!(bytes == first.bytes, "{label}: run {round} has other bits than the first");
    }
    Ok(())
}

/// What MIOpen hears in its own environment, as if the attribute were set: the same route, and the same bits each time.
const VARIABLE: &str = "MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC";

/// The environment is read early, so the runs are in a process of their own, which runs this very case.
fn determinism_by_environment(cx: &mut Context) -> Result<()> {
    if env::var_os(VARIABLE).is_some() {
        return determinism_under_environment(cx);
    }
    let mut command = Command::new(env::current_exe()?);
    command.args(["run", "--only", "determinism-by-the-environment"]).env(VARIABLE, "1");
    if cx.gpu {
        command.arg("--gpu");
    }
    let output = command.output()?;
    let line = String::from_utf8_lossy(&output.stdout);
    let record: crate::case::Record = serde_json::from_str(line.trim()).with_context(|| format!("another process printed {line:?}"))?;
    cx.adopt(record)
}

fn determinism_under_environment(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let trial = Trial::of(Problem::new(Float, &[2, 8, 14, 14], &[8, 8, 3, 3]).pads(&[1])).direction(Direction::BackwardWeights);
    let mark = cx.mark();
    trial.clone().attribute(convolution_attribute::DETERMINISTIC, 1).right(cx, &session, "attribute")?;
    let by_attribute = cx.routes(mark)?;
    let mark = cx.mark();
    trial.right(cx, &session, "environment")?;
    let by_environment = cx.routes(mark)?;
    ensure!(by_attribute == by_environment, "the attribute leads to {by_attribute:?}, the variable to {by_environment:?}");
    same_bits(cx, &session, &trial, "repeated")
}

/// Sums beyond 65504 are infinite, those below are numbers, and what is no number stays none.
fn overflow(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let problem = Problem::new(Half, &[5, 1, 3, 3], &[3, 1, 1, 1]);
    let trial = |x: Vec<f64>, dy: f64| {
        let gradients = vec![dy; problem.y.elements()];
        Trial::of(problem.clone()).direction(Direction::BackwardWeights).input(0, x).input(2, gradients)
    };
    let filled = |value: f64| vec![value; problem.x.elements()];
    let with = |place: usize, value: f64| {
        let mut values = filled(1.0);
        values[place] = value;
        values
    };
    let cases = [
        ("beyond", trial(filled(60.0), 30.0)),
        ("below_zero", trial(filled(60.0), -30.0)),
        ("just_inside", trial(filled(40.0), 36.0)),
        ("nan", trial(with(7, f64::NAN), 1.0)),
        ("minus_infinity", trial(with(11, f64::NEG_INFINITY), 1.0)),
    ];
    for (label, trial) in cases {
        trial.right(cx, &session, label)?;
    }
    Ok(())
}

/// 529 terms, each a small integer: every sum fits into half's 11 bits.
fn large_window(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let answer = Trial::of(Problem::new(Half, &[1, 1, 48, 50], &[1, 1, 23, 23])).right(cx, &session, "window")?;
    ensure!(answer.values.iter().all(|value| value.fract() == 0.0 && value.abs() < 2048.0), "a sum is not a small integer");
    Ok(())
}

/// The classic calls' scalars. Whatever is taken must be honoured; what native refuses may be refused.
fn scalars(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let (one, zero, two) = (Scalar::Float(1.0), Scalar::Float(0.0), Scalar::Float(2.0));
    let plane = |kind| Problem::new(kind, &[2, 4, 8, 8], &[4, 4, 3, 3]).pads(&[1]);
    let volume = Problem::new(Float, &[1, 4, 6, 6, 6], &[4, 4, 3, 3, 3]).pads(&[1]);
    let cases = [
        ("alpha_2d", plane(Float), two, zero),
        ("alpha_3d", volume.clone(), two, zero),
        ("beta_2d", plane(Float), one, one),
        ("beta_3d", volume, one, one),
        ("half", plane(Half), Scalar::Float(0.5), one),
        ("double", plane(Double), Scalar::Double(0.25), Scalar::Double(3.0)),
        ("double_plain", plane(Double), Scalar::Double(1.0), Scalar::Double(0.0)),
        ("beta_nan", plane(Float), one, Scalar::Float(f32::NAN)),
        ("beta_minus_zero", plane(Float), one, Scalar::Float(-0.0)),
    ];
    for (label, problem, alpha, beta) in cases {
        for direction in Direction::ALL {
            let trial = Trial::of(problem.clone()).direction(direction).scaled(alpha, beta);
            trial.right_or_refused(cx, &session, &format!("{label}_{}", direction.name()))?;
        }
    }
    Ok(())
}

/// A missing alpha is 1. With an alpha2 of 0 the other tensor is not looked at, and may be missing.
fn fused_scalars(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let problem = || Problem::new(Float, &[2, 4, 8, 8], &[4, 4, 3, 3]).pads(&[1]);
    let scalars = |names: [(&'static str, Scalar); 3]| names;
    for (first, alpha1) in scalars([("null", Scalar::Null), ("one", Scalar::Float(1.0)), ("two", Scalar::Float(2.0))]) {
        for (second, alpha2) in scalars([("null", Scalar::Null), ("zero", Scalar::Float(0.0)), ("one", Scalar::Float(1.0))]) {
            let fused = Fused { alpha1, alpha2, ..Fused::relu(problem()) };
            fused.one_call(cx, &session, &format!("alpha1_{first}_alpha2_{second}"))?;
        }
    }
    for (label, z) in [("poison", Z::Poison), ("null", Z::Null)] {
        let fused = Fused { z, ..Fused::relu(problem()) };
        let status = fused.one_call(cx, &session, &format!("unread_z_{label}"))?;
        ensure!(cx.gpu || status.is_success(), "a z that is not read, {label}: status {status}");
    }
    Ok(())
}

/// A plan that an operation was refused for is compiled all the same: a status, and no crash.
fn fusion_errors(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let miopen = session.miopen();
    let (x, w) = (miopen.tensor()?, miopen.tensor()?);
    let vectors = miopen.set_tensor_with_layout(&x, Half.number(), tensor_layout::NCHWC4, &[1, 8, 8, 8]);
    cx.status("vectorised_x", vectors)?;
    miopen.set_tensor(&w, Half.number(), &[8, 8, 3, 3], None).check("miopenSetTensorDescriptor")?;
    let convolution = miopen.convolution()?;
    let (status, plan) = miopen.fusion_plan(&x);
    cx.status("plan", status)?;
    if let Some(plan) = plan {
        cx.status("empty_compile", plan.compile(&session.handle))?;
        let (status, _) = plan.convolution(&convolution, &w);
        cx.status("convolution", status)?;
        let status: Status = plan.compile(&session.handle);
        cx.status("compile", status)?;
    }
    Ok(())
}
