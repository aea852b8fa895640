//! Host time of a warm call. Programs take turns: through the shim; hipDNN itself, and cuDNN itself, each with a new variant pack for each call
//! and with one pack for all. The device is waited for between turns, outside of the time.

use std::{ffi::c_void, sync::Barrier, thread, time::Instant};

use anyhow::Result;
use field_cases::{
    edge::{Libraries, Memory},
    problem::{Kind, Problem},
    session::Session,
};
use hipdnn_on_cudnn::{
    cuda::Cuda,
    cudnn::{Handle, Library},
};

use crate::{
    direct::Direct,
    hipdnn::HipDnn,
    memory::{Buffers, bytes},
    report::{Report, median},
    shim::Shim,
};

const TURNS: usize = 101;
/// Fewer than a stream takes before it makes its caller wait.
const CALLS: usize = 100;
const THREADS: [usize; 4] = [1, 2, 4, 8];
/// More outputs than the shim keeps packs for one plan (`native-host/src/plan/packs.rs`): every call of the shim makes one too.
const OUTPUTS: usize = 80;

/// Microseconds of a call, by turn.
#[derive(Default)]
struct Figures {
    shim: Vec<f64>,
    shim_rotating: Vec<f64>,
    fresh: Vec<f64>,
    reused: Vec<f64>,
    hipdnn_fresh: Vec<f64>,
    hipdnn_reused: Vec<f64>,
}

/// Measures.
pub fn run(report: &mut Report) -> Result<()> {
    let libraries = Libraries::load()?;
    for threads in THREADS {
        let start = Barrier::new(threads);
        let measured: Result<Vec<Figures>> = thread::scope(|scope| {
            let spawned: Vec<_> = (0..threads).map(|_| scope.spawn(|| measure(libraries, &start))).collect();
            spawned.into_iter().map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?).collect()
        });
        let measured = measured?;
        let all =
            |of: fn(&Figures) -> &Vec<f64>| median(&measured.iter().flat_map(|figures| of(figures).iter().copied()).collect::<Vec<_>>());
        let (fresh, reused) = (all(|f| &f.fresh), all(|f| &f.reused));
        let name = |what: &str| format!("gpu.call.{what}.{threads}");
        report.figure(&name("shim"), all(|f| &f.shim), "us", (fresh, "cuDNN itself, a new pack for each call"))?;
        report.figure(&name("shim_same_pack"), all(|f| &f.shim), "us", (reused, "cuDNN itself, one pack for all calls"))?;
        report.figure(&name("shim_new_pack"), all(|f| &f.shim_rotating), "us", (fresh, "cuDNN itself, a new pack for each call"))?;
        // What of that is not the shim's: the rules of hipDNN's ABI in the backend under test.
        report.figure(&name("hipdnn_same_pack"), all(|f| &f.hipdnn_reused), "us", (reused, "cuDNN itself, one pack for all calls"))?;
        report.figure(&name("hipdnn_new_pack"), all(|f| &f.hipdnn_fresh), "us", (fresh, "cuDNN itself, a new pack for each call"))?;
    }
    Ok(())
}

fn measure(libraries: &'static Libraries, start: &Barrier) -> Result<Figures> {
    let problem = Problem::new(Kind::Float, &[16, 16, 16, 16], &[16, 16, 3, 3]).pads(&[1]);
    let buffers = Buffers::new(&libraries.hip, &problem)?;
    let [x, w, y] = buffers.all.each_ref();
    let others = (1..OUTPUTS).map(|_| libraries.hip.allocate(bytes(&problem.y))).collect::<Result<Vec<_>>>()?;
    let outputs: Vec<&Memory> = std::iter::once(y).chain(&others).collect();
    let hip_stream = libraries.hip.stream()?;
    let session = Session::on(libraries, &hip_stream)?;
    let shim = Shim::new(&session, &problem)?;

    let cuda = Cuda::get().map_err(anyhow::Error::msg)?;
    let handle = Handle::new(Library::get().map_err(anyhow::Error::msg)?)?;
    let stream = cuda.stream()?;
    handle.set_stream(stream.raw().expose_provenance())?;
    let direct = Direct::build(cuda, &handle, &problem)?;
    let addresses: [*mut c_void; 3] = [x.at(0), w.at(0), y.at(0)];
    let reused = direct.pack(&handle, &addresses)?;

    let hipdnn = HipDnn::new(cuda, stream.raw(), &problem)?;
    let hipdnn_reused = hipdnn.pack(&addresses)?;

    let by_shim = |_| shim.execute(&session, [x, w, y]);
    let by_shim_rotating = |i: usize| shim.execute(&session, [x, w, outputs[i % OUTPUTS]]);
    // SAFETY: the addresses are memory of the problem's tensors.
    let with_fresh = |_| unsafe { direct.execute(&handle, &direct.pack(&handle, &addresses)?) };
    // SAFETY: as above.
    let with_reused = |_| unsafe { direct.execute(&handle, &reused) };
    // SAFETY: as above.
    let hipdnn_with_fresh = |_| unsafe { hipdnn.execute(&hipdnn.pack(&addresses)?) };
    // SAFETY: as above.
    let hipdnn_with_reused = |_| unsafe { hipdnn.execute(&hipdnn_reused) };
    let wait = || libraries.hip.synchronize();

    let mut figures = Figures::default();
    for turn in 0..=TURNS {
        let times = [
            timed(start, by_shim, wait)?,
            timed(start, with_fresh, wait)?,
            timed(start, with_reused, wait)?,
            timed(start, by_shim_rotating, wait)?,
            timed(start, hipdnn_with_fresh, wait)?,
            timed(start, hipdnn_with_reused, wait)?,
        ];
        // The first turn loads and compiles.
        if turn > 0 {
            figures.shim.push(times[0]);
            figures.fresh.push(times[1]);
            figures.reused.push(times[2]);
            figures.shim_rotating.push(times[3]);
            figures.hipdnn_fresh.push(times[4]);
            figures.hipdnn_reused.push(times[5]);
        }
    }
    Ok(figures)
}

/// Microseconds of a call. All threads begin together.
fn timed(start: &Barrier, call: impl Fn(usize) -> Result<()>, wait: impl Fn() -> Result<()>) -> Result<f64> {
    start.wait();
    let begin = Instant::now();
    let called = (0..CALLS).try_for_each(call);
    let time = begin.elapsed();
    // Nobody waits for the device while others are still measured; nor for a thread that failed.
    start.wait();
    called?;
    wait()?;
    Ok(time.as_secs_f64() * 1e6 / CALLS as f64)
}
