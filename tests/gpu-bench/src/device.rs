//! Device time of a model's convolutions, one behind the other on one stream, from the first to the end of the last; and that both programs
//! compute the same.

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
const TURNS: usize = 60;

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
    let hip_side = Side { raw: hip_stream.raw(), events: &events };
    let cuda_side = Side { raw: stream.raw(), events: &events };
    let (mut shim, mut direct, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..TURNS {
        // Nobody always goes first, and nobody always behind the same.
        for place in 0..3 {
            match (turn + if turn % 2 == 0 { place } else { 2 * place }) % 3 {
                0 => shim.push(hip_side.time(by_shim)?),
                1 => direct.push(cuda_side.time(by_direct)?),
                _ => again.push(cuda_side.time(by_direct)?),
            }
        }
    }
    let name = format!("gpu.device.{}", model.name);
    let baseline = (median(&direct), "cuDNN itself");
    report.figure(&name, median(&shim), "ms", baseline)?;
    // What two equal programs differ by.
    report.figure(&format!("{name}.noise"), median(&again), "ms", baseline)
}

/// A stream, and what time is taken with.
struct Side<'a> {
    raw: *mut c_void,
    events: &'a (Event, Event),
}

impl Side<'_> {
    /// Milliseconds of the device for what `work` queues.
    fn time(&self, work: impl Fn() -> Result<()>) -> Result<f64> {
        let (begin, end) = self.events;
        // SAFETY: the stream lives as long as its side is used.
        unsafe { begin.record(self.raw) }?;
        work()?;
        // SAFETY: as above.
        unsafe { end.record(self.raw) }?;
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
