//! What a warm call costs: through MIOpen's API and the shim, and by a program that calls hipDNN itself (`direct`), in turns, on one thread
//! and on two with handles of their own. The time that the backend itself takes to execute is measured too, and taken off both: what is left
//! is the shim's own, and what a variant pack costs.

mod direct;

use std::{
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

/// Turns, and calls in each.
const TURNS: usize = 301;
const CALLS: u32 = 200;
/// Any algorithm: hipDNN chooses for itself.
const ALGORITHM: i32 = 1;

/// What one thread measured: nanoseconds of a call, by turn.
#[derive(Default)]
struct Figures {
    shim: Vec<f64>,
    direct: Vec<f64>,
    execute: Vec<f64>,
    /// Calls in a second of the first turn of the shim to its last, with all threads at it.
    shim_rate: f64,
    direct_rate: f64,
}

/// Measures and prints.
pub fn run() -> Result<()> {
    let path = std::env::var_os("MIOPEN_HIPDNN_BACKEND_LIBRARY").map(PathBuf::from).context("MIOPEN_HIPDNN_BACKEND_LIBRARY")?;
    let libraries = Libraries::load()?;
    let library = Library::load(Some(&path), &[]).map_err(anyhow::Error::msg)?;
    let library: &'static Library = Box::leak(Box::new(library));
    let mut rates = Vec::new();
    for threads in [1, 2] {
        let start = Barrier::new(threads);
        let measured: Result<Vec<Figures>> = thread::scope(|scope| {
            let spawned: Vec<_> = (0..threads).map(|_| scope.spawn(|| measure(libraries, library, &start))).collect();
            spawned.into_iter().map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?).collect()
        });
        let measured = measured?;
        let all = |of: fn(&Figures) -> &Vec<f64>| median(measured.iter().flat_map(|figures| of(figures).iter().copied()).collect());
        let (shim, direct, execute) = (all(|f| &f.shim), all(|f| &f.direct), all(|f| &f.execute));
        let name = |what: &str| format!("warm.{what}.{threads}");
        print(&name("call"), (shim, "ns"), (direct, "a caller of hipDNN with a new pack for each call"));
        print(&name("own"), (shim - execute, "ns"), (direct - execute, "the same, both without the backend's execute"));
        print(&name("execute"), (execute, "ns"), (direct, "a caller of hipDNN with a new pack for each call"));
        rates.push((measured.iter().map(|f| f.shim_rate).sum::<f64>(), measured.iter().map(|f| f.direct_rate).sum::<f64>()));
    }
    let [one, two] = rates.as_slice() else { return Ok(()) };
    print("warm.scaling.shim", (two.0 / one.0, "times"), (2.0, "two threads do twice what one does"));
    print("warm.scaling.direct", (two.1 / one.1, "times"), (2.0, "two threads do twice what one does"));
    Ok(())
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
    let begin = Instant::now();
    for _ in 0..TURNS {
        figures.shim.push(turn(libraries, shim)?);
    }
    figures.shim_rate = rate(begin.elapsed());
    start.wait();
    let begin = Instant::now();
    for _ in 0..TURNS {
        figures.direct.push(turn(libraries, || direct.call())?);
    }
    figures.direct_rate = rate(begin.elapsed());
    start.wait();
    for _ in 0..TURNS {
        figures.execute.push(turn(libraries, || direct.execute())?);
    }
    Ok(figures)
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

fn rate(time: Duration) -> f64 {
    TURNS as f64 * f64::from(CALLS) / time.as_secs_f64()
}
