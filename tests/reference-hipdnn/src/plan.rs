//! Execution plans: a compiled graph, and its form as bytes.
//!
//! The bytes, little-endian: magic, version (i32), engine id (i64), length of the body (i64), checksum (i64, FNV-1a over everything
//! before it and the body), then the body: the graph, and what the engine adds. Nothing is believed before the checksum fits, and the
//! body is still read as if it came from a stranger, because a checksum is no signature.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use hipdnn_abi::{attribute_type, behavior_note, status};

use crate::{
    bytes::{Reader, Writer},
    descriptor::Configuration,
    engine::Session,
    error::{Error, Result},
    executor::{Executable, Executor, fnv1a},
    graph::Graph,
    value::Value,
};

const MAGIC: &[u8; 8] = b"RHIPDNNP";
/// The version that hipDNN 0.4 gives its own envelopes.
const VERSION: i32 = 2;

static SERIALS: AtomicU64 = AtomicU64::new(0);

/// An engine with a compiled graph.
pub(crate) struct Plan {
    serial: u64,
    engine: Arc<dyn Executor>,
    graph: Arc<Graph>,
    executable: Box<dyn Executable>,
    loaded: bool,
}

impl Plan {
    /// Compiles what a configuration describes.
    pub(crate) fn build(configuration: &Configuration) -> Result<Self> {
        let (engine, graph) = (configuration.choice.engine.clone(), configuration.choice.graph.graph.clone());
        configuration.knobs.iter().try_for_each(|(id, value)| check_knob(engine.as_ref(), id, value))?;
        let executable = engine.compile(&graph)?;
        Ok(Self::new(engine, graph, executable, false))
    }

    fn new(engine: Arc<dyn Executor>, graph: Arc<Graph>, executable: Box<dyn Executable>, loaded: bool) -> Self {
        Self { serial: SERIALS.fetch_add(1, Ordering::Relaxed), engine, graph, executable, loaded }
    }

    /// Tells it apart from every other plan of the process.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    pub(crate) fn engine(&self) -> &dyn Executor {
        self.engine.as_ref()
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(crate) fn executable(&self) -> &dyn Executable {
        self.executable.as_ref()
    }

    pub(crate) fn workspace(&self) -> usize {
        self.executable.workspace()
    }

    /// Whether it was made from bytes.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded
    }

    /// As bytes, if the engine can. A plan that was loaded cannot be saved again: the engines known to serialize refuse that.
    pub(crate) fn save(&self) -> Result<Vec<u8>> {
        if !self.engine.notes().contains(&behavior_note::SUPPORTS_EXECUTION_PLAN_SERIALIZATION) {
            return Err(Error::unsupported(format!("{} does not serialize plans", self.engine.name())));
        }
        if self.loaded {
            return Err(Error::new(status::PLUGIN_ERROR, "a loaded plan cannot be saved again"));
        }
        let mut body = Writer::default();
        self.graph.write(&mut body);
        body.bytes(&self.executable.payload()?);
        let mut out = Writer::default();
        out.0.extend(MAGIC);
        out.i32(VERSION);
        out.i64(self.engine.id());
        out.i64(body.0.len() as i64);
        out.i64(checksum(&out.0, &body.0));
        out.0.extend(body.0);
        Ok(out.0)
    }

    /// From bytes, with an engine of the handle. No simulated cost: that is what saving is for.
    pub(crate) fn load(session: &dyn Session, bytes: &[u8]) -> Result<Self> {
        let mut input = Reader(bytes);
        if input.slice(MAGIC.len())? != MAGIC {
            return Err(Error::bad("no execution plan"));
        }
        let version = input.i32()?;
        let id = input.i64()?;
        let length = input.i64()?;
        let head = &bytes[..bytes.len() - input.0.len()];
        let expected = input.i64()?;
        if i64::try_from(input.0.len()) != Ok(length) || checksum(head, input.0) != expected {
            return Err(Error::bad("a damaged execution plan"));
        }
        match version {
            VERSION => {}
            newer if newer > VERSION => return Err(Error::unsupported(format!("plan version {newer}, {VERSION} is the newest known"))),
            older => return Err(Error::bad(format!("plan version {older}"))),
        }

        let graph = Graph::read(&mut input)?;
        let payload = input.bytes()?;
        input.end()?;
        let (engine, executable) = session.restore(id, &graph, &payload)?;
        Ok(Self::new(engine, graph.into(), executable, true))
    }
}

fn checksum(head: &[u8], body: &[u8]) -> i64 {
    fnv1a(&[head, body].concat())
}

fn check_knob(engine: &dyn Executor, id: &str, value: &Value) -> Result<()> {
    let knob = engine.knobs().iter().find(|knob| knob.id == id).ok_or_else(|| Error::bad(format!("{} has no knob {id}", engine.name())))?;
    match value.int64s() {
        [value] if (knob.minimum..=knob.maximum).contains(value) => Ok(()),
        _ if !value.has_type(attribute_type::INT64) => Err(Error::bad(format!("knob {id} is an integer"))),
        _ => Err(Error::bad(format!("knob {id} is outside {}..={}", knob.minimum, knob.maximum))),
    }
}
