//! Time of a model's convolutions, one behind the other on one stream, from the first to the end of the last, by the device's clock: with all of
//! them queued before the first begins (`device`), and while they are being queued (`model`), where the device may have to wait for its caller.
//! And that both programs compute the same.

use std::ffi::c_void;

use anyhow::{Result, ensure};
use field_cases::{
    edge::{Libraries, Memory},
    session::Session,
};
use hipdnn_on_cudnn::{
    cuda::{Cuda, Event},
    cudnn::{Descriptor, Handle, Library},
};

use crate::{
    direct::Direct,
    memory::Buffers,
    models::{Model, all},
    report::{Report, median},
    shim::Shim,
};

const BATCH: usize = 16;
const TURNS: usize = 42;

struct Layer {
    buffers: Buffers,
    shim: Shim,
    direct: Direct,
    pack: Descriptor,
}

/// Measures all models.
pub fn run(report: &mut Report) -> Result<()> {
    let libraries = Libraries::load()?;
    let cuda = Cuda::get().map_err(anyhow::Error::msg)?;
    all(BATCH)?.iter().try_for_each(|model| measure(report, libraries, cuda, model))
}

fn measure(report: &mut Report, libraries: &'static Libraries, cuda: &'static Cuda, model: &Model) -> Result<()> {
    let hip_stream = libraries.hip.stream()?;
    let session = Session::on(libraries, &hip_stream)?;
    let handle = Handle::new(Library::get().map_err(anyhow::Error::msg)?)?;
    let stream = cuda.stream()?;
    handle.set_stream(stream.raw().expose_provenance())?;
    let layer = |problem| -> Result<Layer> {
        let buffers = Buffers::new(&libraries.hip, problem)?;
        let direct = Direct::build(cuda, &handle, problem)?;
        let pack = direct.pack(&handle, &buffers.all.each_ref().map(|memory| memory.at(0)))?;
        Ok(Layer { buffers, shim: Shim::new(&session, problem)?, direct, pack })
    };
    let layers = model.layers.iter().map(layer).collect::<Result<Vec<_>>>()?;
    let by_shim = || layers.iter().try_for_each(|layer| layer.shim.execute(&session, layer.buffers.all.each_ref()));
    // SAFETY: the packs hold the memory of their layers.
    let by_direct = || layers.iter().try_for_each(|layer| unsafe { layer.direct.execute(&handle, &layer.pack) });
    same_results(model, &layers, &libraries.hip, (&by_shim, &by_direct))?;

    let events = (cuda.event()?, cuda.event()?);
    // The streams of the HIP library are CUDA's.
    let sides = [hip_stream.raw(), stream.raw(), stream.raw()].map(|raw| Side { cuda, raw, events: &events });
    let works: [Work<'_>; 3] = [&by_shim, &by_direct, &by_direct];
    for (sort, gated) in [("device", true), ("model", false)] {
        let mut times = [const { Vec::new() }; 3];
        for turn in 0..TURNS {
            // Nobody always goes first, and nobody always behind the same.
            for step in 0..3 {
                let who = (turn + if turn % 2 == 0 { step } else { 2 * step }) % 3;
                times[who].push(sides[who].time(works[who], gated)?);
            }
        }
        let [shim, direct, again] = times.map(|times| median(&times));
        let name = format!("gpu.{sort}.{}", model.name);
        report.figure(&name, shim, "ms", (direct, "cuDNN itself"))?;
        report.figure(&format!("{name}.noise"), again, "ms", (direct, "the same program once more"))?;
    }
    Ok(())
}

/// A stream, and what time is taken with.
struct Side<'a> {
    cuda: &'static Cuda,
    raw: *mut c_void,
    events: &'a (Event, Event),
}

impl Side<'_> {
    /// Milliseconds of the device for what `work` queues. Behind a gate, the device begins when all is queued, and waits for nobody.
    fn time(&self, work: Work<'_>, gated: bool) -> Result<f64> {
        let (begin, end) = self.events;
        // SAFETY: the stream lives as long as its side is used.
        let gate = if gated { Some(unsafe { self.cuda.gate(self.raw) }?) } else { None };
        // SAFETY: as above.
        unsafe { begin.record(self.raw) }?;
        let worked = work();
        // SAFETY: as above.
        unsafe { end.record(self.raw) }?;
        drop(gate);
        worked?;
        Ok(end.milliseconds_since(begin)?.into())
    }
}

type Work<'a> = &'a dyn Fn() -> Result<()>;

/// Every output is what the other program's output is, bit for bit: both asked cuDNN for the same.
fn same_results(model: &Model, layers: &[Layer], hip: &field_cases::edge::Hip, (one, other): (Work<'_>, Work<'_>)) -> Result<()> {
    let outputs = |work: Work<'_>| -> Result<Vec<Vec<u8>>> {
        work()?;
        hip.synchronize()?;
        layers.iter().map(|layer| layer.buffers.all[2].read()).collect()
    };
    let clear = |memory: &Memory, bytes: usize| memory.write(0, &vec![0x7b; bytes]);
    let first = outputs(one)?;
    layers.iter().zip(&first).try_for_each(|(layer, bytes)| clear(&layer.buffers.all[2], bytes.len()))?;
    let second = outputs(other)?;
    for (place, (a, b)) in first.iter().zip(&second).enumerate() {
        ensure!(a == b, "{}: layer {place} differs", model.name);
        ensure!(a.iter().any(|byte| *byte != 0x7b), "{}: layer {place} was not computed", model.name);
    }
    Ok(())
}
