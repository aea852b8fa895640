//! Operations that are not forwarded: nothing about them may change, and nothing of them is counted as hipDNN's.
//!
//! The reference MIOpen does not compute them; without a device only their statuses are compared between runs.

use anyhow::{Context as _, Result, ensure};
use miopen_api::{rnn_direction_mode, rnn_mode};

use crate::{
    case::{Case, Context, Needs::Gpu},
    definition::{self, Expected},
    edge::{BatchNormTensors, DropoutState, Memory, Owned, RnnDescriptors, RnnShape},
    memory::Buffer,
    problem::{
        Kind::{self, Float, Half},
        Tensor, small_integers,
    },
    session::{Session, describe_tensor},
    trace::Mark,
};

/// The cases of this file.
pub const CASES: &[Case] = &[
    Case { number: "V03", name: "softmax-of-padded-rows", needs: Gpu, run: softmax },
    Case { number: "V06", name: "a-broadcast-sum-in-channels-last", needs: Gpu, run: broadcast_sum },
    Case { number: "V26", name: "running-variance-of-a-batch", needs: Gpu, run: running_variance },
    Case { number: "V27", name: "rnn-passes-through", needs: Gpu, run: rnn },
    Case { number: "V28", name: "dropout-keeps-its-state", needs: Gpu, run: dropout },
];

/// That hipDNN served nothing since a moment.
fn not_forwarded(cx: &Context, mark: Mark) -> Result<()> {
    let events = cx.events(mark)?;
    ensure!(events.iter().all(|event| event.route == "native"), "something that is not forwarded was: {events:?}");
    Ok(())
}

/// Rows padded to 8: what lies between is neither read nor written.
fn softmax(cx: &mut Context) -> Result<()> {
    let (session, mark) = (cx.session()?, cx.mark());
    let hip = &session.libraries.hip;
    let x = Tensor::strided(Float, &[2, 3, 4, 5], &[96, 32, 8, 1]);
    let values = small_integers(x.elements(), 1);
    let places = [("packed", Tensor::packed(Float, &x.dims)), ("padded", x.clone())];
    for (label, y) in places {
        let (input, output) = (Buffer::with(hip, &x, &values)?, Buffer::poisoned(hip, &y)?);
        let (xd, yd) = (describe_tensor(session.miopen(), &x)?, describe_tensor(session.miopen(), &y)?);
        let ((xm, xo), (ym, yo)) = (input.place(), output.place());
        let status = session.miopen().softmax(&session.handle, (&xd, xm, xo), (&yd, ym, yo));
        hip.synchronize()?;
        let got = output.values()?;
        if cx.computes(label, status)? {
            judge(cx, label, Float, &softmax_of(&x.dims, &values), &got)?;
        }
    }
    not_forwarded(cx, mark)
}

/// Over the channels of each place.
fn softmax_of(dims: &[usize], values: &[f64]) -> Vec<Expected> {
    let plane: usize = dims[2..].iter().product();
    let exponential = |n: usize, c: usize, i: usize| values[(n * dims[1] + c) * plane + i].exp();
    let at = |element: usize| {
        let (n, c, i) = (element / plane / dims[1], element / plane % dims[1], element % plane);
        let sum: f64 = (0..dims[1]).map(|other| exponential(n, other, i)).sum();
        // Exponentials of a device err by a few units in the last place.
        Expected { value: exponential(n, c, i) / sum, magnitude: 1.0, terms: dims[1] }
    };
    (0..values.len()).map(at).collect()
}

fn judge(cx: &mut Context, label: &str, kind: Kind, expected: &[Expected], got: &[f64]) -> Result<()> {
    let compared = definition::compare(kind, expected, got);
    cx.correct(label, compared.is_ok());
    compared.map_err(|error| error.context(label.to_string()))
}

/// One value for each channel, added by logical index whatever the strides are; beta is honoured.
fn broadcast_sum(cx: &mut Context) -> Result<()> {
    let (session, mark) = (cx.session()?, cx.mark());
    let hip = &session.libraries.hip;
    let wide = Tensor::strided(Float, &[1, 2, 1, 5], &[10, 1, 10, 2]);
    let narrow = Tensor::packed(Float, &[1, 2, 1, 1]);
    let [a, b, before] = [(10, 1), (2, 2), (10, 3)].map(|(count, seed)| small_integers(count, seed));
    let (wide_descriptor, narrow_descriptor) = (describe_tensor(session.miopen(), &wide)?, describe_tensor(session.miopen(), &narrow)?);
    for (label, beta) in [("replaced", 0.0), ("added", 1.0)] {
        let (left, right) = (Buffer::with(hip, &wide, &a)?, Buffer::with(hip, &narrow, &b)?);
        let sum = if beta == 0.0 { Buffer::poisoned(hip, &wide)? } else { Buffer::with(hip, &wide, &before)? };
        let [(am, ao), (bm, bo), (cm, co)] = [left.place(), right.place(), sum.place()];
        let operands = ((&wide_descriptor, am, ao), (&narrow_descriptor, bm, bo), (&wide_descriptor, cm, co));
        let status = session.miopen().add_tensors(&session.handle, operands.0, operands.1, beta, operands.2);
        hip.synchronize()?;
        let got = sum.values()?;
        if cx.computes(label, status)? {
            let value = |i: usize| a[i] + b[i / 5] + f64::from(beta) * before[i];
            let expected: Vec<_> = (0..10).map(|i| Expected::exactly(value(i))).collect();
            judge(cx, label, Float, &expected, &got)?;
        }
    }
    not_forwarded(cx, mark)
}

/// The running variance is that of the sample, n / (n - 1) with n = N H W, and layouts agree.
fn running_variance(cx: &mut Context) -> Result<()> {
    let (session, mark) = (cx.session()?, cx.mark());
    let dims = [4, 8, 2, 2];
    for (layout, x) in [("nchw", Tensor::packed(Float, &dims)), ("nhwc", Tensor::channels_last(Float, &dims))] {
        for factor in [0.1, 1.0] {
            batch_norm(cx, &session, &format!("{layout}_{factor}"), &x, factor)?;
        }
    }
    not_forwarded(cx, mark)
}

const EPSILON: f64 = 1e-5;

fn batch_norm(cx: &mut Context, session: &Session, label: &str, x: &Tensor, factor: f64) -> Result<()> {
    let (hip, miopen) = (&session.libraries.hip, session.miopen());
    let (values, channels) = (small_integers(x.elements(), 1), x.dims[1]);
    let parameters = Tensor::packed(Float, &[1, channels, 1, 1]);
    let (input, output) = (Buffer::with(hip, x, &values)?, Buffer::poisoned(hip, x)?);
    let descriptor = describe_tensor(miopen, x)?;
    let derived = miopen.tensor()?;
    cx.status(&format!("{label}_derive"), miopen.derive_batch_norm(&derived, &descriptor))?;
    let filled = |value: f64| Buffer::with(hip, &parameters, &vec![value; channels]);
    let buffers = [filled(1.0)?, filled(0.0)?, filled(0.0)?, filled(1.0)?, filled(0.0)?, filled(0.0)?];
    let ((xm, xo), (ym, yo)) = (input.place(), output.place());
    let places = [0, 1, 2, 3, 4, 5].map(|i| buffers[i].place());
    let tensors = BatchNormTensors { x: (&descriptor, xm, xo), y: (&descriptor, ym, yo), derived: &derived, parameters: places };
    let status = miopen.batch_norm_training(&session.handle, &tensors, factor, EPSILON);
    hip.synchronize()?;
    if !cx.computes(label, status)? {
        return Ok(());
    }
    let statistics = statistics(&x.dims, &values);
    let n = (x.dims[0] * x.dims[2] * x.dims[3]) as f64;
    let of = |f: &dyn Fn(&[f64; 2]) -> f64| -> Vec<Expected> { statistics.iter().map(|s| Expected::exactly(f(s))).collect() };
    let checks = [
        ("mean", 2, of(&|[mean, _]| factor * mean)),
        ("variance", 3, of(&|[_, variance]| (1.0 - factor) + factor * variance * n / (n - 1.0))),
        ("saved_mean", 4, of(&|[mean, _]| *mean)),
        ("saved_variance", 5, of(&|[_, variance]| 1.0 / (variance + EPSILON).sqrt())),
    ];
    for (name, which, expected) in checks {
        judge(cx, &format!("{label}_{name}"), Float, &expected, &buffers[which].values()?)?;
    }
    let plane = x.dims[2] * x.dims[3];
    let normalised = values.iter().enumerate().map(|(i, value)| {
        let [mean, variance] = statistics[i / plane % channels];
        Expected { value: (value - mean) / (variance + EPSILON).sqrt(), magnitude: 4.0, terms: n as usize }
    });
    judge(cx, label, Float, &normalised.collect::<Vec<_>>(), &output.values()?)
}

/// Mean and variance of each channel.
fn statistics(dims: &[usize], values: &[f64]) -> Vec<[f64; 2]> {
    let plane = dims[2] * dims[3];
    let of = |channel: usize| -> Vec<f64> {
        values.iter().enumerate().filter(|(i, _)| i / plane % dims[1] == channel).map(|(_, value)| *value).collect()
    };
    (0..dims[1])
        .map(|channel| {
            let values = of(channel);
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            [mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n]
        })
        .collect()
}

/// A sequence: how many batches there are at each time, and the sizes.
struct Sequence {
    kind: Kind,
    batches: Vec<usize>,
    input: usize,
    shape: RnnShape,
}

/// The two of the field: a small bidirectional LSTM, and a large one in half.
fn rnn(cx: &mut Context) -> Result<()> {
    let (session, mark) = (cx.session()?, cx.mark());
    let (lstm, both) = (rnn_mode::LSTM, rnn_direction_mode::BIDIRECTION);
    let small = RnnShape { hidden: 5, layers: 2, mode: lstm, direction: both, data_type: Float.number() };
    let large = RnnShape { hidden: 128, layers: 4, mode: lstm, direction: both, data_type: Half.number() };
    let small = Sequence { kind: Float, batches: vec![3, 2, 1], input: 4, shape: small };
    let large = Sequence { kind: Half, batches: vec![110; 3], input: 60, shape: large };
    for (label, sequence) in [("small", small), ("large", large)] {
        let (status, rnn) = session.miopen().rnn(sequence.shape, None);
        if cx.computes(&format!("{label}_descriptor"), status)? {
            let rnn = rnn.context("a descriptor")?;
            forward_and_back(cx, &session, label, &sequence, &rnn)?;
        }
    }
    not_forwarded(cx, mark)
}

/// State in the caller's buffers, kept from the forward call to the backward one.
fn dropout(cx: &mut Context) -> Result<()> {
    let (session, mark) = (cx.session()?, cx.mark());
    let miopen = session.miopen();
    let (status, size) = miopen.dropout_states_size(&session.handle);
    if cx.computes("states_size", status)? {
        let one = rnn_direction_mode::UNIDIRECTION;
        let shape = RnnShape { hidden: 5, layers: 2, mode: rnn_mode::GRU, direction: one, data_type: Float.number() };
        let sequence = Sequence { kind: Float, batches: vec![3, 2, 1], input: 4, shape };
        let states = session.libraries.hip.allocate(size)?;
        for use_mask in [true, false] {
            let (label, descriptor) = (format!("mask_{use_mask}"), miopen.dropout()?);
            let state = DropoutState { probability: 0.5, states: &states, size, seed: 42, use_mask };
            cx.status(&format!("{label}_set"), miopen.set_dropout(&descriptor, &session.handle, state, false))?;
            cx.status(&format!("{label}_restore"), miopen.set_dropout(&descriptor, &session.handle, state, true))?;
            let (status, rnn) = miopen.rnn(shape, Some(&descriptor));
            if cx.computes(&format!("{label}_descriptor"), status)? {
                let rnn = rnn.context("a descriptor")?;
                forward_and_back(cx, &session, &label, &sequence, &rnn)?;
            }
        }
    }
    not_forwarded(cx, mark)
}

/// A training pass forward and back. What it gives is recorded by its digest: two runs on one device must agree to the bit.
fn forward_and_back(cx: &mut Context, session: &Session, label: &str, sequence: &Sequence, rnn: &Owned) -> Result<()> {
    let (miopen, hip) = (session.miopen(), &session.libraries.hip);
    let directions = if sequence.shape.direction == rnn_direction_mode::BIDIRECTION { 2 } else { 1 };
    let output = sequence.shape.hidden * directions;
    let steps = |width: usize| -> Result<Vec<Owned>> {
        sequence.batches.iter().map(|batch| describe_tensor(miopen, &Tensor::packed(sequence.kind, &[*batch, width]))).collect()
    };
    let (x, y) = (steps(sequence.input)?, steps(output)?);
    let state = Tensor::packed(sequence.kind, &[sequence.shape.layers * directions, sequence.batches[0], sequence.shape.hidden]);
    let (hidden, weights) = (describe_tensor(miopen, &state)?, miopen.tensor()?);
    let descriptors = RnnDescriptors { rnn, x: x.iter().collect(), y: y.iter().collect(), hidden: &hidden, weights: &weights };
    let sizes = miopen.rnn_sizes(&session.handle, &descriptors, sequence.shape.data_type).sizes;
    let mut known = true;
    for (name, (status, _)) in ["workspace", "reserve", "parameters"].iter().zip(&sizes) {
        known &= cx.computes(&format!("{label}_{name}_size"), *status)?;
    }
    if !known {
        return Ok(());
    }
    let width = sequence.kind.width();
    let [workspace, reserve, parameters] = sizes.map(|(_, size)| size);
    let elements = parameters / width;
    miopen.set_tensor(&weights, sequence.kind.number(), &[elements, 1], None).check("miopenSetTensorDescriptor")?;
    let total: usize = sequence.batches.iter().sum();
    let filled = |count: usize, seed: u64| -> Result<Memory> {
        let mut bytes = Vec::new();
        small_integers(count, seed).iter().for_each(|value| sequence.kind.encode(value * 0.125, &mut bytes));
        let memory = hip.allocate(bytes.len())?;
        memory.write(0, &bytes)?;
        Ok(memory)
    };
    let empty = |bytes: usize| -> Result<Memory> {
        let memory = hip.allocate(bytes)?;
        memory.write(0, &vec![0; bytes])?;
        Ok(memory)
    };
    let (image, states) = (total * sequence.input, state.elements());
    let (mx, mw, my) = (filled(image, 1)?, filled(elements, 2)?, empty(total * output * width)?);
    let (hx, c0, hy, cy) = (filled(states, 3)?, filled(states, 4)?, empty(states * width)?, empty(states * width)?);
    let (work, kept) = (empty(workspace)?, empty(reserve)?);
    let status = miopen.rnn_forward(&session.handle, &descriptors, [&mx, &hx, &c0, &mw, &my, &hy, &cy, &work, &kept], [workspace, reserve]);
    hip.synchronize()?;
    if !cx.computes(&format!("{label}_forward"), status)? {
        return Ok(());
    }
    [("y", &my), ("hy", &hy), ("reserve", &kept)].iter().try_for_each(|(name, memory)| digest(cx, &format!("{label}_{name}"), memory))?;
    let (dy, dhy, dcy) = (filled(total * output, 5)?, filled(states, 6)?, filled(states, 7)?);
    let (dx, dhx, dcx) = (empty(image * width)?, empty(states * width)?, empty(states * width)?);
    let memory = [&my, &dy, &dhy, &dcy, &mw, &hx, &c0, &dx, &dhx, &dcx, &work, &kept];
    let status = miopen.rnn_backward(&session.handle, &descriptors, memory, [workspace, reserve]);
    hip.synchronize()?;
    if cx.computes(&format!("{label}_backward"), status)? {
        [("dx", &dx), ("dhx", &dhx)].iter().try_for_each(|(name, memory)| digest(cx, &format!("{label}_{name}"), memory))?;
    }
    Ok(())
}

/// The bytes of memory as one number (FNV-1a), recorded so that runs are compared by it.
fn digest(cx: &mut Context, label: &str, memory: &Memory) -> Result<()> {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let digest = memory.read()?.iter().fold(0xcbf2_9ce4_8422_2325, step);
    cx.bits(label, digest);
    Ok(())
}
