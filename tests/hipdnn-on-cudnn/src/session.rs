//! A hipDNN handle: a cuDNN handle, and the engines that are known through it.

use std::{
    collections::BTreeMap,
    ffi::CStr,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use hipdnn_abi::status;
use hipdnn_backend::{
    Error, Result,
    engine::{Provider, Session},
    executor::{Executable, Executor, Refusal, fnv1a},
    graph::Graph,
};
use parking_lot::RwLock;

use crate::{
    cudnn::{
        Descriptor, Handle, Library,
        numbers::{attribute, kind},
    },
    engine::{Engine, Prepared, with_own},
    lower::lower,
    plan::{CudnnPlan, Saved},
    ranking::rank,
    realize::realize,
};

/// The variable that names a file with properties of a device.
const DEVICE_PROPERTIES: &str = "HIPDNN_ON_CUDNN_DEVICE_PROPERTIES";

/// Names of the engines that this process has seen, by id: cuDNN does not list its engines without a graph.
static NAMES: LazyLock<RwLock<BTreeMap<i64, String>>> = LazyLock::new(RwLock::default);

/// cuDNN.
pub(crate) struct Cudnn;

impl Provider for Cudnn {
    fn version(&self) -> &'static CStr {
        c"0.4.0.cudnn"
    }

    fn plugin(&self) -> (String, String) {
        ("cudnn".into(), Library::get().map_or_else(|_| String::new(), |library| library.version().to_string()))
    }

    fn open(&self) -> Result<Box<dyn Session>> {
        let library = Library::get().map_err(|error| Error::new(status::NOT_INITIALIZED, error))?;
        let device = match std::env::var_os(DEVICE_PROPERTIES).filter(|file| !file.is_empty()) {
            Some(file) => Device::described(library, file.as_ref())?,
            None => Device::Present(Arc::new(Handle::new(library)?)),
        };
        let best: Arc<dyn Executor> = Arc::new(Best { device: device.clone(), notes: with_own(Vec::new()) });
        Ok(Box::new(OnCudnn { device, engines: vec![best], stream: AtomicUsize::new(0) }))
    }
}

/// What plans are made for.
#[derive(Clone)]
pub(crate) enum Device {
    /// The device that a handle was made on.
    Present(Arc<Handle>),
    /// One that is only described.
    Described(Arc<Properties>),
}

/// A device's properties.
pub(crate) struct Properties {
    library: &'static Library,
    pub(crate) descriptor: Descriptor,
}

impl Device {
    fn described(library: &'static Library, file: &std::path::Path) -> Result<Self> {
        let unreadable = |error| Error::bad(format!("{DEVICE_PROPERTIES}: {}: {error}", file.display()));
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        let descriptor = Descriptor::new(library, kind::DEVICEPROP)?;
        descriptor.set_text(attribute::DEVICEPROP_JSON_REPRESENTATION, text.trim())?;
        descriptor.finalize()?;
        Ok(Self::Described(Arc::new(Properties { library, descriptor })))
    }

    pub(crate) fn library(&self) -> &'static Library {
        match self {
            Self::Present(handle) => handle.library(),
            Self::Described(properties) => properties.library,
        }
    }

    /// cuDNN's engines for a graph, best first. A graph that cuDNN does not know has none.
    fn candidates(&self, graph: &Graph) -> Result<Vec<Arc<dyn Executor>>> {
        let Ok(lowered) = lower(graph) else { return Ok(Vec::new()) };
        let descriptor = match realize(&lowered, self) {
            Ok(descriptor) => descriptor,
            Err(error) if error.is_refusal() => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let ranking = rank(&descriptor, &lowered, self)?;
        let (graph, lowered, device) = (graph.clone(), Arc::new(lowered), self.clone());
        let prepared = Arc::new(Prepared { graph, lowered, device, _descriptor: descriptor });
        let engine = |ranked| {
            let engine: Arc<dyn Executor> = Arc::new(Engine::new(ranked, prepared.clone()));
            remember(engine.name());
            engine
        };
        Ok(ranking.into_iter().map(engine).collect())
    }
}

fn remember(name: &str) {
    let id = fnv1a(name.as_bytes());
    if !NAMES.read().contains_key(&id) {
        NAMES.write().insert(id, name.to_string());
    }
}

struct OnCudnn {
    device: Device,
    engines: Vec<Arc<dyn Executor>>,
    stream: AtomicUsize,
}

impl Session for OnCudnn {
    /// Only the one that stands for all: cuDNN lists its engines for graphs.
    fn engines(&self) -> &[Arc<dyn Executor>] {
        &self.engines
    }

    fn candidates(&self, graph: &Graph) -> Result<Vec<Arc<dyn Executor>>> {
        self.device.candidates(graph)
    }

    fn engine(&self, id: i64, graph: &Graph) -> Result<Arc<dyn Executor>> {
        let candidates = self.candidates(graph)?;
        let found = candidates.into_iter().chain(self.engines.iter().cloned()).find(|engine| engine.id() == id);
        found.ok_or_else(|| Error::bad(format!("cuDNN proposes no engine {id} for the graph")))
    }

    fn engine_name(&self, id: i64) -> Option<String> {
        let listed = self.engines.iter().find(|engine| engine.id() == id).map(|engine| engine.name().to_string());
        listed.or_else(|| NAMES.read().get(&id).cloned())
    }

    /// All engines are cuDNN's.
    fn runs(&self, _engine: &dyn Executor) -> bool {
        true
    }

    fn restore(&self, id: i64, graph: &Graph, payload: &[u8]) -> Result<(Arc<dyn Executor>, Box<dyn Executable>)> {
        let saved: Saved = serde_json::from_slice(payload).map_err(|error| Error::bad(format!("a plan that is not cuDNN's: {error}")))?;
        // A plan of the listed engine is one of whichever was best.
        if fnv1a(saved.engine.as_bytes()) != id && self.engines.iter().all(|listed| listed.id() != id) {
            return Err(Error::bad(format!("a plan of {} under the id of another engine", saved.engine)));
        }
        let lowered = lower(graph).map_err(|refusal| Error::bad(format!("cuDNN does not know the plan's graph: {refusal}")))?;
        remember(&saved.engine);
        let engine = Arc::new(Restored { name: saved.engine.clone(), notes: with_own(Vec::new()) });
        let plan = CudnnPlan::restore(saved, Arc::new(lowered), &self.device)?;
        Ok((engine, Box::new(plan)))
    }

    fn set_stream(&self, stream: usize) -> Result<()> {
        if let Device::Present(handle) = &self.device {
            handle.set_stream(stream)?;
        }
        self.stream.store(stream, Ordering::Relaxed);
        Ok(())
    }

    fn stream(&self) -> usize {
        self.stream.load(Ordering::Relaxed)
    }

    fn library_handle(&self) -> usize {
        if let Device::Present(handle) = &self.device { handle.number() } else { 0 }
    }
}

/// The engine that is listed: whatever cuDNN thinks best.
struct Best {
    device: Device,
    notes: Vec<i32>,
}

impl Best {
    fn of(&self, graph: &Graph) -> std::result::Result<Arc<dyn Executor>, Refusal> {
        let best = self.device.candidates(graph).map_err(|error| error.to_string())?.into_iter().next();
        best.ok_or_else(|| "cuDNN has no engine for it".into())
    }
}

impl Executor for Best {
    fn name(&self) -> &str {
        "CUDNN"
    }

    fn notes(&self) -> &[i32] {
        &self.notes
    }

    fn check(&self, graph: &Graph) -> std::result::Result<usize, Refusal> {
        self.of(graph)?.check(graph)
    }

    fn compile(&self, graph: &Graph) -> Result<Box<dyn Executable>> {
        self.of(graph).map_err(Error::unsupported)?.compile(graph)
    }
}

/// The engine of a plan that was loaded: it made the plan in another process.
struct Restored {
    name: String,
    notes: Vec<i32>,
}

impl Executor for Restored {
    fn name(&self) -> &str {
        &self.name
    }

    fn notes(&self) -> &[i32] {
        &self.notes
    }

    fn check(&self, _graph: &Graph) -> std::result::Result<usize, Refusal> {
        Err("its configuration is not known any more, only its plan".into())
    }

    fn compile(&self, _graph: &Graph) -> Result<Box<dyn Executable>> {
        Err(Error::new(status::NOT_SUPPORTED, "its configuration is not known any more, only its plan"))
    }
}
