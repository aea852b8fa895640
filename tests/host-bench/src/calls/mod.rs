//! What a warm call costs: through MIOpen's API and the shim, and by a program that calls hipDNN itself (`direct`), in turns, on one thread
//! and on two with handles of their own. The time that the backend itself takes to execute is measured too, and taken off both: what is left
//! is the shim's own, and what a variant pack costs.

mod direct;

use std::{
    hint::black_box,
    path::PathBuf,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use field_cases::{
    edge::{Direction, Libraries, Scalar, Workspace},
    memory::Buffer,
    problem::{Kind, Problem},
    session::Session,
};
use hipdnn_host::backend::Library;

use self::direct::Direct;
use crate::{median, print};

/// Times that one thread and two are measured, in turns: a machine's speed changes while it is measured.
const ROUNDS: usize = 15;
/// Turns of a round, and calls in each.
const TURNS: usize = 61;
const CALLS: u32 = 200;
/// What is written between two calls, in bytes: about what a driver touches to start a kernel, and more than the nearest caches hold.
const DISPLACED: usize = 256 << 10;
/// Bytes of a line of a cache.
const LINE: usize = 64;
/// Any algorithm: hipDNN chooses for itself.
const ALGORITHM: i32 = 1;

/// What was measured: nanoseconds of a call, by turn, of all threads.
#[derive(Default)]
struct Figures {
    shim: Vec<f64>,
    direct: Vec<f64>,
    execute: Vec<f64>,
    /// The same three, each call after something else was in the caches.
    displaced: [Vec<f64>; 3],
}

impl Figures {
    fn add(&mut self, other: Self) {
        self.shim.extend(other.shim);
        self.direct.extend(other.direct);
        self.execute.extend(other.execute);
        self.displaced.iter_mut().zip(other.displaced).for_each(|(all, more)| all.extend(more));
    }
}

/// Measures and prints.
pub fn run() -> Result<()> {
    let path = std::env::var_os("MIOPEN_HIPDNN_BACKEND_LIBRARY").map(PathBuf::from).context("MIOPEN_HIPDNN_BACKEND_LIBRARY")?;
    let libraries = Libraries::load()?;
    let library = Library::load(Some(&path), &[]).map_err(anyhow::Error::msg)?;
    let library: &'static Library = Box::leak(Box::new(library));
    let mut figures = [Figures::default(), Figures::default()];
    let mut scaling = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let (one, two) = (together(1, libraries, library)?, together(2, libraries, library)?);
        for (ratios, of) in scaling.iter_mut().zip([|f: &Figures| f.shim.clone(), |f: &Figures| f.direct.clone()]) {
            ratios.push(2.0 * median(of(&one)) / median(of(&two)));
        }
        figures[0].add(one);
        figures[1].add(two);
    }
    for (threads, Figures { shim, direct, execute, displaced }) in (1..).zip(figures) {
        let [shim, direct, execute] = [shim, direct, execute].map(median);
        let [far_shim, far_direct, far_execute] = displaced.map(median);
        let name = |what: &str| format!("warm.{what}.{threads}");
        print(&name("call"), (shim, "ns"), (direct, "a caller of hipDNN with a new pack for each call"));
        print(&name("own"), (shim - execute, "ns"), (direct - execute, "the same, both without the backend's execute"));
        let between = format!("the same, where {} KiB are written between two calls", DISPLACED >> 10);
        print(&name("own_displaced"), (far_shim - far_execute, "ns"), (far_direct - far_execute, &between));
        print(&name("execute"), (execute, "ns"), (direct, "a caller of hipDNN with a new pack for each call"));
    }
    let [shim, direct] = scaling.map(median);
    print("warm.scaling", (shim, "times"), (direct, "what the caller of hipDNN does with two threads, in calls of one"));
    Ok(())
}

/// So many threads at once, each with a handle of its own.
fn together(threads: usize, libraries: &'static Libraries, library: &'static Library) -> Result<Figures> {
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads).map(|_| scope.spawn(|| measure(libraries, library, &start))).collect();
        spawned.into_iter().try_fold(Figures::default(), |mut all, thread| {
            all.add(thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??);
            Ok(all)
        })
    })
}

fn measure(libraries: &'static Libraries, library: &'static Library, start: &Barrier) -> Result<Figures> {
    let problem = Problem::new(Kind::Float, &[1, 4, 8, 8], &[4, 4, 3, 3]).pads(&[1, 1]);
    let session = Session::new(libraries)?;
    let descriptors = session.describe(&problem)?;
    let buffers = problem.tensors().map(|tensor| Buffer::poisoned(&libraries.hip, tensor));
    let [x, w, y] = buffers;
    let (x, w, y) = (x?, w?, y?);
    let call = descriptors.call(&session, Direction::Forward, [Some(x.place()), Some(w.place()), Some(y.place())]);
    let scalars = (Scalar::Float(1.0), Scalar::Float(0.0));
    let shim = || call.execute(ALGORITHM, scalars, Workspace { memory: None, size: 0 }).check("miopenConvolutionForward");
    let addresses = [&x, &w, &y].map(|buffer| buffer.place().0.at(buffer.place().1));
    let direct = Direct::new(library, &libraries.hip, &problem, addresses)?;
    shim()?;
    direct.call()?;
    direct.execute()?;
    let mut figures = Figures::default();
    start.wait();
    for _ in 0..TURNS {
        figures.shim.push(turn(libraries, shim)?);
    }
    start.wait();
    for _ in 0..TURNS {
        figures.direct.push(turn(libraries, || direct.call())?);
    }
    start.wait();
    for _ in 0..TURNS {
        figures.execute.push(turn(libraries, || direct.execute())?);
    }
    start.wait();
    let mut elsewhere = vec![0u8; DISPLACED];
    for _ in 0..TURNS {
        figures.displaced[0].push(displaced(libraries, &mut elsewhere, shim)?);
        figures.displaced[1].push(displaced(libraries, &mut elsewhere, || direct.call())?);
        figures.displaced[2].push(displaced(libraries, &mut elsewhere, || direct.execute())?);
    }
    Ok(figures)
}

/// Nanoseconds of one call, when something else was written before each.
fn displaced(libraries: &Libraries, elsewhere: &mut [u8], call: impl Fn() -> Result<()>) -> Result<f64> {
    let mut time = Duration::ZERO;
    for _ in 0..CALLS {
        elsewhere.iter_mut().step_by(LINE).for_each(|byte| *byte = black_box(byte.wrapping_add(1)));
        let start = Instant::now();
        call()?;
        time += start.elapsed();
    }
    libraries.hip.synchronize()?;
    Ok(time.as_secs_f64() * 1e9 / f64::from(CALLS))
}

/// Nanoseconds of one call. What was queued is waited for outside of the time.
fn turn(libraries: &Libraries, call: impl Fn() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..CALLS {
        call()?;
    }
    let time = start.elapsed();
    libraries.hip.synchronize()?;
    Ok(time.as_secs_f64() * 1e9 / f64::from(CALLS))
}
