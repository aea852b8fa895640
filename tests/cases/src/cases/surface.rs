//! The parity surface: every way in which programs ask for a convolution, every kind of tensor that is translated, what is known to be
//! missing, and each reason for a decline. All small.

use anyhow::{Result, ensure};
use miopen_api::{activation_mode, convolution_attribute, tensor_layout};

use crate::{
    case::{Case, Context, Needs::Nothing},
    edge::{Direction, Owned, Scalar, Workspace},
    fused::Fused,
    problem::{
        Kind::{BFloat16, Float, Half, Int8, Int32},
        Problem, Tensor,
    },
    session::Session,
    trial::{Flow, Run, Trial},
};

/// The cases of this file.
pub const CASES: &[Case] = &[
    case("P01", "find-and-forward", |cx| directions(cx, Flow::Classic, &[Direction::Forward])),
    case("P02", "find-and-backward-data", |cx| directions(cx, Flow::Classic, &[Direction::BackwardData])),
    case("P03", "find-and-backward-weights", |cx| directions(cx, Flow::Classic, &[Direction::BackwardWeights])),
    case("P04", "solutions-in-immediate-mode", |cx| directions(cx, Flow::Immediate, &Direction::ALL)),
    case("P05", "saved-solutions-of-find-two", |cx| directions(cx, Flow::FindTwo, &Direction::ALL)),
    case("P06", "convolution-bias-and-relu-in-one-call", fused_call),
    case("P07", "convolution-bias-and-relu-as-a-plan", fused_plan),
    case("P08", "int8-gives-int32", |cx| forward(cx, square_of(Int8).output_kind(Int32))),
    case("P10", "a-volume", |cx| forward(cx, Problem::new(Float, &[1, 4, 6, 8, 8], &[4, 4, 3, 3, 3]).pads(&[1]))),
    case("P11", "a-strided-volume", |cx| forward(cx, strided_volume())),
    case("P12", "geometry-by-axis", |cx| forward(cx, by_axis())),
    case("P13", "an-innermost-stride-of-two", |cx| forward(cx, square().x_strides(&[512, 128, 16, 2]))),
    case("P14", "padded-rows", |cx| forward(cx, square().x_strides(&[512, 128, 16, 1]))),
    case("P15", "a-pointwise-filter-with-stride-two", |cx| forward(cx, pointwise())),
    case("P16", "gradients-of-large-windows", window_gradients),
    case("P17", "channels-last-with-one-channel", |cx| forward(cx, one_channel())),
    case("P18", "half-and-bfloat16", narrow_types),
    case("P19", "channels-last-in-all-directions", channels_last),
    case("P20", "groups-and-depthwise", groups),
    case("P21", "transposed-with-output-padding", transposed),
    case("P22", "other-activations-are-natives", other_activations),
    case("P23", "plans-with-other-activations", other_plans),
    case("P30", "declined-for-determinism", |cx| {
        attribute(cx, Float, convolution_attribute::DETERMINISTIC, "conv.attribute.deterministic")
    }),
    case("P31", "declined-for-alternative-half", |cx| {
        attribute(cx, Half, convolution_attribute::FP16_ALT_IMPL, "conv.attribute.fp16-alternative")
    }),
    case("P32", "declined-for-vectors", vectors),
    case("P33", "declined-for-ranks", ranks),
    case("P34", "declined-for-an-output-on-itself", |cx| refused(cx, square().y_strides(&[64, 64, 8, 1]), "tensor.strides.overlap")),
    case("P35", "declined-for-scaled-integers", scaled_integers),
    case("P36", "declined-for-group-channels", group_channels),
    case("P37", "declined-for-the-outputs-lengths", wrong_output),
    case("P38", "declined-for-a-missing-input", missing_input),
    case("P39", "declined-for-shared-memory", shared_memory),
];

const fn case(number: &'static str, name: &'static str, run: fn(&mut Context) -> Result<()>) -> Case {
    Case { number, name, needs: Nothing, run }
}

fn square_of(kind: crate::problem::Kind) -> Problem {
    Problem::new(kind, &[2, 4, 8, 8], &[4, 4, 3, 3]).pads(&[1])
}

fn square() -> Problem {
    square_of(Float)
}

fn strided_volume() -> Problem {
    let problem = Problem::new(Float, &[4, 4, 16, 9, 16], &[8, 4, 3, 3, 3]).pads(&[1, 0, 1]).strides(&[2]);
    problem.x_strides(&[10240, 2560, 160, 16, 1])
}

fn by_axis() -> Problem {
    Problem::new(Float, &[2, 4, 9, 13], &[4, 4, 3, 5]).pads(&[1, 2]).strides(&[2, 1]).dilations(&[1, 2])
}

fn pointwise() -> Problem {
    Problem::new(Float, &[1, 16, 8, 8], &[16, 16, 1, 1]).strides(&[2])
}

fn one_channel() -> Problem {
    Problem::new(Float, &[2, 1, 8, 8], &[4, 1, 3, 3]).pads(&[1]).channels_last()
}

fn forward(cx: &mut Context, problem: Problem) -> Result<()> {
    let session = cx.session()?;
    Trial::of(problem).right(cx, &session, "forward").map(drop)
}

/// A flow in some directions, each asked for twice: new and known.
fn directions(cx: &mut Context, flow: Flow, directions: &[Direction]) -> Result<()> {
    let session = cx.session()?;
    for direction in directions {
        for seed in 1..=2 {
            let trial = Trial::of(square()).direction(*direction).flow(flow).seed(seed);
            trial.right(cx, &session, &format!("{}_{seed}", direction.name()))?;
        }
    }
    Ok(())
}

fn fused_problems() -> [(&'static str, Problem); 3] {
    [
        ("half", square_of(Half)),
        ("volume", Problem::new(Float, &[1, 4, 14, 11, 1], &[4, 4, 3, 3, 3]).pads(&[1]).channels_last()),
        ("plane", Problem::new(Float, &[1, 16, 8, 8], &[16, 16, 3, 3]).pads(&[1])),
    ]
}

fn fused_call(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    for (label, problem) in fused_problems() {
        let status = Fused::relu(problem).one_call(cx, &session, label)?;
        ensure!(cx.gpu || status.is_success(), "{label}: status {status}");
    }
    Ok(())
}

fn fused_plan(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    for (label, problem) in fused_problems() {
        let status = Fused::relu(problem).plan(cx, &session, label)?;
        ensure!(cx.gpu || status.is_success(), "{label}: status {status}");
    }
    Ok(())
}

fn window_gradients(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let x = [2, 4, 12, 12];
    for (label, w, pads) in [("five", [4, 4, 5, 5], [2, 2]), ("column", [4, 4, 7, 1], [3, 0])] {
        let trial = Trial::of(Problem::new(Float, &x, &w).pads(&pads)).direction(Direction::BackwardWeights);
        trial.right(cx, &session, label)?;
    }
    Ok(())
}

fn narrow_types(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let problem = |kind| Problem::new(kind, &[2, 16, 16, 16], &[16, 16, 3, 3]).pads(&[1]);
    for (label, problem) in [("half_nchw", problem(Half)), ("bfloat16_nhwc", problem(BFloat16).channels_last())] {
        for direction in Direction::ALL {
            let trial = Trial::of(problem.clone()).direction(direction);
            trial.right(cx, &session, &format!("{label}_{}", direction.name()))?;
        }
    }
    Ok(())
}

fn channels_last(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    for direction in Direction::ALL {
        let trial = Trial::of(square().channels_last()).direction(direction);
        trial.right(cx, &session, direction.name())?;
    }
    Ok(())
}

fn groups(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    for count in [2, 4] {
        let problem = Problem::new(Float, &[2, 4, 8, 8], &[4, 4 / count, 3, 3]).pads(&[1]).groups(count);
        for direction in Direction::ALL {
            let trial = Trial::of(problem.clone()).direction(direction);
            trial.right(cx, &session, &format!("{count}_{}", direction.name()))?;
        }
    }
    Ok(())
}

fn transposed(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let problem = square().strides(&[2]);
    for padding in [0, 1] {
        for direction in Direction::ALL {
            let trial = Trial::of(problem.clone().transposed(&[padding])).direction(direction);
            trial.right(cx, &session, &format!("{padding}_{}", direction.name()))?;
        }
    }
    let grouped = Problem::new(Float, &[2, 4, 8, 8], &[4, 2, 3, 3]).pads(&[1]).strides(&[2]).groups(2).transposed(&[1]);
    Trial::of(grouped).right(cx, &session, "grouped").map(drop)
}

const OTHERS: [(&str, i32); 3] =
    [("tanh", activation_mode::TANH), ("leaky", activation_mode::LEAKYRELU), ("logistic", activation_mode::LOGISTIC)];

/// Only ReLU is fused by the one call; for all others the status is native's.
fn other_activations(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    for (name, activation) in OTHERS {
        let fused = Fused { activation, ..Fused::relu(square()) };
        fused.one_call(cx, &session, name)?;
    }
    Ok(())
}

/// A plan takes them, or refuses; what it computes is right.
fn other_plans(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    for (name, activation) in OTHERS {
        let fused = Fused { activation, ..Fused::relu(square()) };
        fused.plan(cx, &session, name)?;
    }
    Ok(())
}

/// What an attribute asks for is computed by native, rightly.
fn attribute(cx: &mut Context, kind: crate::problem::Kind, attribute: i32, rule: &str) -> Result<()> {
    let (session, mark) = (cx.session()?, cx.mark());
    let answer = Trial::of(square_of(kind)).attribute(attribute, 1).right(cx, &session, "forward");
    cx.declined(mark, rule)?;
    answer.map(drop)
}

/// A call whose result no definition gives: the reason, and the status.
fn refused(cx: &mut Context, problem: Problem, rule: &str) -> Result<()> {
    let session = cx.session()?;
    let trial = Trial::of(problem);
    let run = Run::new(&trial, &session)?;
    execute(cx, &session, &run, rule)
}

fn execute(cx: &mut Context, session: &Session, run: &Run<'_>, rule: &str) -> Result<()> {
    let mark = cx.mark();
    let status = run.execute(0, Workspace::default());
    session.libraries.hip.synchronize()?;
    cx.declined(mark, rule)?;
    run.untouched_inputs()?;
    cx.status("executed", status)
}

fn vectors(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let trial = Trial::of(Problem::new(Half, &[1, 8, 8, 8], &[8, 8, 3, 3]).pads(&[1]));
    let run = Run::new(&trial, &session)?;
    for (descriptor, tensor) in run.descriptors.tensors.iter().zip(trial.problem.tensors()) {
        let layout = tensor_layout::NCHWC4;
        let status = session.miopen().set_tensor_with_layout(descriptor, Half.number(), layout, &tensor.dims);
        status.check("miopenSetNdTensorDescriptorWithLayout")?;
    }
    execute(cx, &session, &run, "tensor.layout.vectorized")
}

/// Redescribes one of a run's tensors: fewer elements than its buffer has.
fn redescribe(session: &Session, descriptor: &Owned, tensor: &Tensor) -> Result<()> {
    let status = session.miopen().set_tensor(descriptor, tensor.kind.number(), &tensor.dims, Some(&tensor.strides));
    status.check("miopenSetTensorDescriptor")
}

fn ranks(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let trial = Trial::of(square());
    let run = Run::new(&trial, &session)?;
    redescribe(&session, &run.descriptors.tensors[1], &Tensor::packed(Float, &[4, 4, 3, 3, 1]))?;
    execute(cx, &session, &run, "conv.rank.mismatch")
}

fn scaled_integers(cx: &mut Context) -> Result<()> {
    let (session, mark) = (cx.session()?, cx.mark());
    // Without Find, which knows no scalars and is declined, or not, for itself.
    let trial = Trial::of(square_of(Int8).output_kind(Int32)).scaled(Scalar::Float(2.0), Scalar::Float(0.0)).flow(Flow::Unfound);
    let answer = trial.right_or_refused(cx, &session, "doubled");
    cx.declined(mark, "conv.scaling.alpha")?;
    answer.map(drop)
}

fn group_channels(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let trial = Trial::of(square());
    let run = Run::new(&trial, &session)?;
    session.miopen().set_groups(&run.descriptors.convolution, 2).check("miopenSetConvolutionGroupCount")?;
    execute(cx, &session, &run, "conv.groups.channels")
}

fn wrong_output(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let trial = Trial::of(square());
    let run = Run::new(&trial, &session)?;
    redescribe(&session, &run.descriptors.tensors[2], &Tensor::packed(Float, &[2, 4, 7, 8]))?;
    execute(cx, &session, &run, "conv.output.geometry")
}

fn missing_input(cx: &mut Context) -> Result<()> {
    let (session, trial) = (cx.session()?, Trial::of(square()));
    let run = Run::new(&trial, &session)?;
    let memory = [None, Some(run.buffers[1].place()), Some(run.buffers[2].place())];
    let mark = cx.mark();
    let call = run.descriptors.call(&session, Direction::Forward, memory);
    let status = call.execute(0, (Scalar::Float(1.0), Scalar::Float(0.0)), Workspace::default());
    session.libraries.hip.synchronize()?;
    cx.declined(mark, "host.pointer.null")?;
    ensure!(run.result().is_untouched()?, "the output was written");
    cx.status("executed", status)
}

/// x and y on the same memory: what comes out depends on who computes, so only the status counts.
fn shared_memory(cx: &mut Context) -> Result<()> {
    let (session, trial) = (cx.session()?, Trial::of(square()));
    let run = Run::new(&trial, &session)?;
    let memory = [Some(run.buffers[0].place()), Some(run.buffers[1].place()), Some(run.buffers[0].place())];
    let mark = cx.mark();
    let call = run.descriptors.call(&session, Direction::Forward, memory);
    let status = call.execute(0, (Scalar::Float(1.0), Scalar::Float(0.0)), Workspace::default());
    session.libraries.hip.synchronize()?;
    cx.declined(mark, "host.aliasing")?;
    cx.status("executed", status)
}
