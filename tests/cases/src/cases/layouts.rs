//! Layouts, strides, shapes: the numbers must follow lengths and strides, whatever layout they might be taken for.

use anyhow::{Context as _, Result, ensure};
use miopen_api::fwd_algorithm;

use crate::{
    case::{Case, Context, Needs::Nothing},
    definition,
    edge::{Direction, Scalar, Status, Workspace},
    memory::{Buffer, Scratch},
    problem::{
        Kind::{BFloat16, Float, Half, Int8, Int32},
        Problem, Tensor, small_integers,
    },
    session::Session,
    trial::{Flow, Run, Trial},
};

/// The cases of this file.
pub const CASES: &[Case] = &[
    Case { number: "V01", name: "no-layout-is-read-off-strides", needs: Nothing, run: no_layout_is_guessed },
    Case { number: "V02", name: "strides-of-single-elements-do-not-matter", needs: Nothing, run: spellings_of_single_elements },
    Case { number: "V04", name: "a-strided-call-after-a-packed-one", needs: Nothing, run: strided_after_packed },
    Case { number: "V07", name: "strides-beyond-32-bits", needs: Nothing, run: beyond_int32 },
    Case { number: "V08", name: "two-to-the-31-elements", needs: Nothing, run: two_to_the_31_elements },
    Case { number: "V09", name: "a-failed-launch-poisons-nothing", needs: Nothing, run: a_failure_poisons_nothing },
    Case { number: "V10", name: "wide-workspace-and-int8-volumes", needs: Nothing, run: wide_workspace },
    Case { number: "V11", name: "invalid-group-counts-are-refused", needs: Nothing, run: invalid_groups },
    Case { number: "V14", name: "output-padding-is-part-of-the-problem", needs: Nothing, run: output_padding },
    Case { number: "V15", name: "same-lengths-other-attributes", needs: Nothing, run: same_lengths },
    Case { number: "V17", name: "same-input-other-filters", needs: Nothing, run: other_filters },
    Case { number: "V18", name: "one-and-four-spatial-dimensions", needs: Nothing, run: other_ranks },
];

/// A dimension of length 1 makes several layouts fit the same strides.
fn no_layout_is_guessed(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let depthwise = Problem::new(Float, &[1, 63, 8, 8], &[63, 1, 3, 3]).pads(&[1]).groups(63);
    let depthwise = depthwise.x_strides(&[4032, 1, 504, 63]).w_strides(&[9, 1, 3, 1]);
    let flat = Problem::new(Float, &[2, 1, 4, 6, 21], &[32, 1, 3, 5, 20]).w_strides(&[300, 1, 100, 20, 1]);
    let pointwise = Problem::new(Float, &[2, 3, 5, 5], &[32, 3, 1, 1]).w_strides(&[3, 1, 3, 3]);
    for (name, problem) in [("depthwise", depthwise), ("one_channel_3d", flat), ("pointwise", pointwise)] {
        for direction in Direction::ALL {
            Trial::of(problem.clone()).direction(direction).right(cx, &session, &format!("{name}_{}", direction.name()))?;
        }
    }
    Ok(())
}

/// The stride of a dimension of length 1 says nothing; every spelling is the same tensor.
fn spellings_of_single_elements(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let pixel = Problem::new(Float, &[8, 16, 1, 1], &[32, 16, 1, 1]);
    let spellings: [&[usize]; 3] = [&[16, 1, 16, 16], &[16, 1, 1, 1], &[16, 1, 128, 7]];
    let mut answers = Vec::new();
    for (i, x) in spellings.iter().enumerate() {
        for (j, w) in spellings.iter().enumerate() {
            let problem = pixel.clone().x_strides(x).w_strides(w);
            answers.push(Trial::of(problem).right(cx, &session, &format!("pixel_x{i}_w{j}"))?.bytes);
        }
    }
    ensure!(answers.windows(2).all(|pair| pair[0] == pair[1]), "the spellings of one pixel give different bits");
    // All strides alike: element (n, c) shares its place with all others of the same n + c. Legal for what is only read.
    let shared = (0..8 * 16).map(|i| ((i / 16 + i % 16) % 5) as f64 - 2.0).collect();
    Trial::of(pixel.x_strides(&[16, 16, 16, 16])).input(0, shared).right(cx, &session, "pixel_shared")?;
    let plane = Problem::new(Float, &[2, 1, 8, 8], &[4, 1, 3, 3]).pads(&[1]);
    let first = Trial::of(plane.clone().x_strides(&[64, 64, 8, 1])).right(cx, &session, "plane_nchw")?;
    let last = Trial::of(plane.x_strides(&[64, 1, 8, 1])).right(cx, &session, "plane_nhwc")?;
    ensure!(first.bytes == last.bytes, "the spellings of one channel give different bits");
    Ok(())
}

/// Strides are part of what a plan is for.
fn strided_after_packed(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let packed = Problem::new(Float, &[1, 8, 8, 8], &[8, 8, 3, 3]).pads(&[1]);
    let strided = packed.clone().x_strides(&[1024, 128, 16, 1]);
    Trial::of(packed.clone()).right(cx, &session, "packed")?;
    Trial::of(strided).flow(Flow::Unfound).seed(2).right(cx, &session, "strided")?;
    Trial::of(packed).flow(Flow::Unfound).seed(3).right(cx, &session, "packed_again")?;
    Ok(())
}

/// Strides and lengths beyond 32 bits: of a dimension of length 1 they cost no memory, and must not be cut.
fn beyond_int32(cx: &mut Context) -> Result<()> {
    const LARGE: usize = 6_553_600_000;
    let session = cx.session()?;
    let miopen = session.miopen();
    let volume = [1, 640, 100, 320, 320];
    let descriptor = miopen.tensor()?;
    let status = miopen.set_tensor(&descriptor, Int8.number(), &volume, None);
    cx.status("int_setter", status)?;
    let strides = Tensor::packed(Int8, &volume).strides;
    ensure!(strides[0] == LARGE, "the volume has a stride of {}", strides[0]);
    let status = miopen.set_tensor_v2(&descriptor, Int8.number(), &volume, Some(&strides));
    cx.status("wide_setter", status)?;
    let (status, [dims, cut]) = miopen.tensor_dims(&descriptor, volume.len());
    cx.status("int_getter", status)?;
    cx.note(format!("lengths read back {dims:?}, strides {cut:?}"));
    for (label, stride) in [("cut_to_negative", LARGE), ("cut_to_seven", (1 << 32) + 7), ("cut_to_zero", 1 << 40)] {
        wide_stride(cx, &session, label, stride)?;
    }
    Ok(())
}

/// A convolution whose x was described with a wide stride of its only image.
fn wide_stride(cx: &mut Context, session: &Session, label: &str, stride: usize) -> Result<()> {
    let trial = Trial::of(Problem::new(Float, &[1, 4, 8, 8], &[4, 4, 3, 3]).pads(&[1]));
    let run = Run::new(&trial, session)?;
    let x = &run.descriptors.tensors[0];
    session.miopen().set_tensor_v2(x, Float.number(), &[1, 4, 8, 8], Some(&[stride, 64, 8, 1])).check("miopenSetTensorDescriptorV2")?;
    let status = find_and_execute(cx, session, &run, label)?;
    session.libraries.hip.synchronize()?;
    cx.status(label, status)?;
    if status.is_success() {
        let compared = run.compare();
        cx.correct(label, compared.is_ok());
        compared?;
    }
    Ok(())
}

/// Find, then execution with what it found; the status of what failed first.
fn find_and_execute(cx: &mut Context, session: &Session, run: &Run<'_>, label: &str) -> Result<Status> {
    let (status, size) = run.call().workspace_size();
    cx.status(&format!("{label}_workspace"), status)?;
    let scratch = Scratch::new(&session.libraries.hip, if status.is_success() { size } else { 0 })?;
    let (status, found) = run.call().find(1, scratch.workspace());
    cx.status(&format!("{label}_find"), status)?;
    session.libraries.hip.synchronize()?;
    let Some(best) = found.first().filter(|_| status.is_success()) else { return Ok(status) };
    run.prepare()?;
    let status = run.execute(best.algorithm, scratch.told(best.memory));
    // The workspace lives until here.
    session.libraries.hip.synchronize()?;
    Ok(status)
}

/// x has about 2^31 elements, which all lie on a few thousand places: legal for what is only read, and no memory is needed.
fn two_to_the_31_elements(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    for channels in [511, 512, 513, 514] {
        let problem = Problem::new(Half, &[1, channels, 2048, 2048], &[1, channels, 3, 3]).pads(&[1]);
        let descriptors = session.describe(&problem)?;
        let call = descriptors.call(&session, Direction::Forward, [None, None, None]);
        cx.status(&format!("packed_{channels}_workspace"), call.workspace_size().0)?;
        cx.status(&format!("packed_{channels}_count"), call.solution_count().0)?;
        let [x, w, _] = &descriptors.tensors;
        let (status, dims) = session.miopen().output_dims(&descriptors.convolution, x, w);
        cx.status(&format!("packed_{channels}_output"), status)?;
        ensure!(dims == [1, 1, 2048, 2048], "the output of {channels} channels has lengths {dims:?}");
        shared_places(cx, &session, channels)?;
    }
    Ok(())
}

/// Ones everywhere, so that the expected sums are those of a small image whose windows meet its borders alike.
fn shared_places(cx: &mut Context, session: &Session, channels: usize) -> Result<()> {
    let large = Problem::new(Half, &[1, channels, 2048, 2048], &[1, channels, 3, 3]).pads(&[1]).strides(&[1023]);
    let large = large.x_strides(&[1, 1, 1, 1]);
    let small = Problem::new(Half, &[1, channels, 8, 8], &[1, channels, 3, 3]).pads(&[1]).strides(&[3]);
    ensure!(large.y.dims == [1, 1, 3, 3] && small.y.dims == large.y.dims, "the small image is no image of the large one");
    let weights = small_integers(channels * 9, 5);
    let hip = &session.libraries.hip;
    let places = Tensor::packed(Half, &[large.x.extent()]);
    let x = Buffer::with(hip, &places, &vec![1.0; places.elements()])?;
    let (w, y) = (Buffer::with(hip, &large.w, &weights)?, Buffer::poisoned(hip, &large.y)?);
    let descriptors = session.describe(&large)?;
    let call = descriptors.call(session, Direction::Forward, [Some(x.place()), Some(w.place()), Some(y.place())]);
    let status = call.execute(fwd_algorithm::DIRECT, (Scalar::Float(1.0), Scalar::Float(0.0)), Workspace::default());
    hip.synchronize()?;
    let label = format!("shared_{channels}");
    cx.status(&label, status)?;
    if status.is_success() {
        let ones = vec![1.0; small.x.elements()];
        let expected = definition::convolution(&small, Direction::Forward, [&ones, &weights, &[]]);
        let compared = definition::compare(Half, &expected, &y.values()?);
        cx.correct(&label, compared.is_ok());
        compared.context(label)?;
    }
    Ok(())
}

/// A call that fails at its execution leaves the handle as good as it was.
fn a_failure_poisons_nothing(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let small = Problem::new(BFloat16, &[2, 3, 2, 14, 14], &[20, 3, 2, 14, 14]).strides(&[2, 14, 14]);
    if cx.gpu {
        patch_embedding(cx, &session)?;
    }
    let failed = fail_once(cx, &session, &small)?;
    Trial::of(small.clone()).flow(Flow::Unfound).seed(2).right(cx, &session, "after_a_failure")?;
    let text = session.miopen().error_string(failed);
    ensure!(failed.is_success() || !text.contains("[hipDNN-forwarded]"), "the error text outlives the next success: {text}");
    Trial::of(small).seed(3).right(cx, &session, "small")?;
    Ok(())
}

/// One execution, which fails if the reference hipDNN is there to be told so; its status.
fn fail_once(cx: &mut Context, session: &Session, problem: &Problem) -> Result<Status> {
    let trial = Trial::of(problem.clone()).flow(Flow::Unfound);
    let run = Run::new(&trial, session)?;
    let (backend, mark) = (cx.backend(), cx.mark());
    let faults = backend.as_ref().map(|backend| backend.faults("hipdnnBackendExecute:1!=EXECUTION_FAILED")).transpose()?;
    let status = run.execute(fwd_algorithm::DIRECT, Workspace::default());
    drop(faults);
    let failed = cx.events(mark)?.iter().any(|event| event.route == "failed");
    let text = session.miopen().error_string(status);
    ensure!(!failed || !status.is_success(), "the execution failed, and the call succeeded");
    ensure!(!failed || text.contains("[hipDNN-forwarded]"), "the error text does not say whose it is: {text}");
    Ok(status)
}

/// The launch that a device may refuse: only a status is expected.
fn patch_embedding(cx: &mut Context, session: &Session) -> Result<()> {
    let problem = Problem::new(BFloat16, &[262_144, 3, 2, 14, 14], &[1280, 3, 2, 14, 14]).strides(&[2, 14, 14]);
    let descriptors = session.describe(&problem)?;
    let memory = problem.tensors().map(|tensor| session.libraries.hip.allocate(tensor.extent() * tensor.kind.width()));
    let [x, w, y] = memory;
    let (x, w, y) = (x?, w?, y?);
    let call = descriptors.call(session, Direction::Forward, [Some((&x, 0)), Some((&w, 0)), Some((&y, 0))]);
    let (status, size) = call.workspace_size();
    cx.status("patches_workspace", status)?;
    let scratch = Scratch::new(&session.libraries.hip, size)?;
    let (status, found) = call.find(1, scratch.workspace());
    cx.status("patches_find", status)?;
    let algorithm = found.first().map_or(fwd_algorithm::DIRECT, |best| best.algorithm);
    let status = call.execute(algorithm, (Scalar::Float(1.0), Scalar::Float(0.0)), scratch.workspace());
    cx.status("patches", status)?;
    session.libraries.hip.synchronize()
}

/// Sizes beyond 32 bits are passed on whole; int8 in three dimensions is exact or refused. That a native's answer of 2^32 + 8 bytes
/// arrives whole would need a native that answers it, which the reference one does not: that is not looked at here.
fn wide_workspace(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let problem = Problem::new(Int8, &[1, 64, 128, 128, 128], &[32, 64, 3, 3, 3]).pads(&[1]).output_kind(Int32);
    let descriptors = session.describe(&problem)?;
    let (status, size) = descriptors.call(&session, Direction::Forward, [None, None, None]).workspace_size();
    cx.status("volume_workspace", status)?;
    cx.note(format!("the volume's workspace is {size} bytes"));
    let small = Problem::new(Int8, &[1, 4, 6, 7, 5], &[8, 4, 3, 3, 3]).pads(&[1]).output_kind(Int32);
    Trial::of(small).right_or_refused(cx, &session, "small")?;
    if cx.gpu { volume_of_ones(cx, &session, &problem) } else { Ok(()) }
}

/// Ones everywhere: every output is the number of taps that meet the image.
fn volume_of_ones(cx: &mut Context, session: &Session, problem: &Problem) -> Result<()> {
    let trial = Trial::of(problem.clone())
        .input(0, vec![1.0; problem.x.elements()])
        .input(1, vec![1.0; problem.w.elements()])
        .input(2, vec![0.0; problem.y.elements()]);
    let run = Run::new(&trial, session)?;
    let status = find_and_execute(cx, session, &run, "volume")?;
    cx.status("volume", status)?;
    if status.is_success() {
        let inside = |i: usize| if i.is_multiple_of(127) { 2.0 } else { 3.0 };
        let expected = |n: usize| 64.0 * inside(n % 128) * inside(n / 128 % 128) * inside(n / (128 * 128) % 128);
        let wrong = run.result().values()?.iter().enumerate().position(|(n, value)| *value != expected(n));
        cx.correct("volume", wrong.is_none());
        ensure!(wrong.is_none(), "element {wrong:?} of the volume is wrong");
    }
    Ok(())
}

/// Group counts that the channels do not allow are refused before anything is written.
fn invalid_groups(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let invalid = [("too_many", 2, 4), ("none", 2, 0), ("negative", 2, -1), ("filters_do_not_divide", 3, 3)];
    for (label, channels, groups) in invalid {
        let problem = Problem::new(Float, &[3, channels, 8, 8], &[4, 1, 4, 4]);
        for direction in Direction::ALL {
            let trial = Trial::of(problem.clone()).direction(direction);
            let run = Run::new(&trial, &session)?;
            session.miopen().set_groups(&run.descriptors.convolution, groups).check("miopenSetConvolutionGroupCount")?;
            let label = format!("{label}_{}", direction.name());
            let (find, _) = run.call().find(1, Workspace::default());
            let status = run.execute(0, Workspace::default());
            session.libraries.hip.synchronize()?;
            ensure!(run.result().is_untouched()?, "{label}: the output was written");
            cx.status(&format!("{label}_find"), find)?;
            cx.status(&label, status)?;
            ensure!(!find.is_success() && !status.is_success(), "{label}: {groups} groups of {channels} channels succeeded");
        }
    }
    Ok(())
}

/// Output padding changes y and nothing else; two problems that differ only in it follow each other on one handle.
fn output_padding(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let problem = Problem::new(Float, &[2, 4, 8, 8], &[4, 4, 3, 3]).pads(&[1]).strides(&[2]);
    for direction in Direction::ALL {
        for padding in [0, 1] {
            let label = format!("padding{padding}_{}", direction.name());
            let mark = cx.mark();
            Trial::of(problem.clone().transposed(&[padding])).direction(direction).right(cx, &session, &label)?;
            ensure!(cx.was_new(mark)? != Some(false), "{label} had the plan of another problem");
        }
    }
    // x, w and y that no output padding makes fit.
    let mut wrong = problem.transposed(&[0]);
    wrong.y = Tensor::packed(Float, &[2, 4, 16, 16]);
    let trial = Trial::of(wrong).flow(Flow::Unfound);
    let run = Run::new(&trial, &session)?;
    let status = run.execute(fwd_algorithm::DIRECT, Workspace::default());
    session.libraries.hip.synchronize()?;
    ensure!(run.result().is_untouched()?, "an output that does not fit was written");
    cx.status("does_not_fit", status)?;
    ensure!(!status.is_success(), "an output that does not fit succeeded");
    Ok(())
}

/// Problems of the same lengths and other attributes: each has its own plan, and meeting one again needs no new one.
fn same_lengths(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let shape = || Problem::new(Float, &[2, 4, 8, 8], &[4, 4, 3, 3]);
    let (one, zero, two) = (Scalar::Float(1.0), Scalar::Float(0.0), Scalar::Float(2.0));
    let grouped = |groups: usize| Problem::new(Float, &[2, 4, 8, 8], &[4, 4 / groups, 3, 3]).pads(&[1]).groups(groups);
    let problems = [
        ("padded", Trial::of(shape().pads(&[1]))),
        ("dilated", Trial::of(shape().pads(&[2]).dilations(&[2]))),
        ("doubled", Trial::of(shape().pads(&[1])).scaled(two, zero)),
        ("added", Trial::of(shape().pads(&[1])).scaled(one, one)),
        ("grouped", Trial::of(grouped(2))),
    ];
    for seed in 1..=2 {
        for (label, trial) in &problems {
            let mark = cx.mark();
            let label = format!("{label}_{seed}");
            let answer = trial.clone().seed(seed).right_or_refused(cx, &session, &label)?;
            let scaled = (trial.alpha, trial.beta) != (one, zero);
            ensure!(scaled || answer.status.is_success(), "{label}: status {}", answer.status);
            let new = cx.was_new(mark)?;
            ensure!(new.is_none() || new == Some(seed == 1), "{label}: whether the problem was new is {new:?}");
        }
    }
    Ok(())
}

/// What a plan is for is not x alone.
fn other_filters(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let problem = |w: &[usize], pad: usize| Problem::new(Float, &[1, 8, 16, 16], w).pads(&[pad]);
    let problems = [("first", problem(&[8, 8, 3, 3], 1)), ("more", problem(&[16, 8, 3, 3], 1)), ("pointwise", problem(&[8, 8, 1, 1], 0))];
    for (label, problem) in &problems {
        Trial::of(problem.clone()).right(cx, &session, label)?;
    }
    for (label, problem) in &problems {
        Trial::of(problem.clone()).flow(Flow::Unfound).seed(2).right(cx, &session, &format!("{label}_again"))?;
    }
    Ok(())
}

/// One and four spatial dimensions: right, or refused.
fn other_ranks(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    let line = Problem::new(Float, &[2, 4, 8], &[4, 4, 3]).pads(&[1]);
    let four = Problem::new(Float, &[1, 2, 4, 4, 4, 4], &[2, 2, 3, 3, 3, 3]).pads(&[1]);
    for (label, problem) in [("line", line), ("four", four)] {
        let descriptors = session.describe(&problem)?;
        let [x, w, _] = &descriptors.tensors;
        let (status, _) = session.miopen().output_dims(&descriptors.convolution, x, w);
        cx.status(&format!("{label}_output"), status)?;
        for direction in Direction::ALL {
            let name = format!("{label}_{}", direction.name());
            Trial::of(problem.clone()).direction(direction).right_or_refused(cx, &session, &name)?;
            let executed = Trial::of(problem.clone()).direction(direction).flow(Flow::Unfound);
            executed.right_or_refused(cx, &session, &format!("{name}_executed"))?;
        }
    }
    Ok(())
}
