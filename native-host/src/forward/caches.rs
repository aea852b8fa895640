//! The host's caches, put together: which key an answer has, which levels are asked for it, what is kept of it. What the answers mean
//! is decided in [`super::learn`].

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use super::Stop;
use crate::{
    backend::BackendError,
    cache::{
        Disk, EntryKey, Kind, Memory,
        disk::Options,
        record::{self, PlanRecord},
    },
    capabilities::Capabilities,
    component::{self, Code, Contract, Description},
    phases::{Phase, Phases},
    trace::say,
    translations::Translated,
    validate::ValidatedGraph,
};

/// Answers of each kind that are kept in memory, and the bytes that they may take.
const MAX_ENTRIES: usize = 4096;
const MAX_TRANSLATION_BYTES: usize = 32 << 20;
const MAX_PLAN_BYTES: usize = 64 << 20;

/// What a problem was translated to; that there is no translator is not kept.
pub(super) type TranslationAnswer = Result<Translated, Stop>;

/// How a plan is made, as far as the process knows; a failure is not kept.
pub type PlanAnswer = Result<Arc<PlanRecord>, BackendError>;

/// All caches beyond one handle.
pub struct Caches {
    /// Translations, by [`Caches::translation_key`].
    pub(super) translations: Memory<TranslationAnswer>,
    /// How plans are made, by [`Caches::plan_key`].
    pub plans: Memory<PlanAnswer>,
    options: Option<Result<Options, String>>,
    disk: OnceLock<Option<Disk>>,
    manifest: OnceLock<Description>,
    failure_said: AtomicBool,
}

/// What a plan depends on besides graph and alignment.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Equal for two handles, of whichever process, that may share plans.
    pub text: String,
    /// Whether that is known: else the text means something in this process only.
    pub shared: bool,
}

impl Caches {
    /// Opens nothing yet. `options` is where the disk cache is: nowhere, if it is off; or why nobody knows.
    pub fn new(options: Option<Result<Options, String>>) -> Self {
        Self {
            translations: Memory::new(MAX_ENTRIES, MAX_TRANSLATION_BYTES),
            plans: Memory::new(MAX_ENTRIES, MAX_PLAN_BYTES),
            options,
            disk: OnceLock::new(),
            manifest: OnceLock::new(),
            failure_said: AtomicBool::new(false),
        }
    }

    /// The disk cache, opened by the first call that needs it.
    pub fn disk(&self) -> Option<&Disk> {
        let open = || match self.options.as_ref()? {
            Ok(options) => Disk::open(options, |line| self.say_once(&line)),
            Err(error) => {
                self.say_once(error);
                None
            }
        };
        self.disk.get_or_init(open).as_ref()
    }

    /// The disk cache, if a call needed it yet and there is one.
    pub fn opened_disk(&self) -> Option<&Disk> {
        self.disk.get()?.as_ref()
    }

    /// The key of a problem's translation by the translator with a digest.
    pub fn translation_key(translator: &[u8; 32], capabilities: &Capabilities, words: &[u64]) -> EntryKey {
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        EntryKey::new(Kind::Translation, &[&spoken(), translator, &record::to_bytes(capabilities), &words])
    }

    /// The key of a graph's plan. Whichever problems and translators come to the same graph share it.
    pub fn plan_key(graph: &ValidatedGraph, alignment: usize, surroundings: &Surroundings) -> EntryKey {
        let graph = record::to_bytes(&(graph.tensors(), graph.nodes(), graph.types()));
        EntryKey::new(Kind::Plan, &[&graph, &(alignment as u64).to_le_bytes(), surroundings.text.as_bytes()])
    }

    /// What the translator with a digest says about itself, by way of the disk; `ask` asks it.
    pub fn manifest<E>(
        &self,
        translator: &[u8; 32],
        ask: impl FnOnce(&mut Phases) -> Result<Description, E>,
        phases: &mut Phases,
    ) -> Result<&Description, E> {
        if let Some(known) = self.manifest.get() {
            return Ok(known);
        }
        let remembered = self.load(&manifest_key(translator), phases).and_then(|bytes| record::from_bytes(&bytes));
        let description = match remembered {
            Some(description) => description,
            None => {
                let description = ask(phases)?;
                self.store(&manifest_key(translator), &record::to_bytes(&description), phases);
                description
            }
        };
        Ok(self.manifest.get_or_init(|| description))
    }

    /// What the translator says about itself, if anybody had to know yet.
    pub fn known_manifest(&self) -> Option<&Description> {
        self.manifest.get()
    }

    /// What the disk cache has for a key, if there is one.
    pub fn load(&self, key: &EntryKey, phases: &mut Phases) -> Option<Vec<u8>> {
        let disk = self.disk()?;
        phases.time(Phase::CacheRead, || disk.load(key))
    }

    /// Writes an entry, if there is a disk cache. One line, once, if that fails.
    pub fn store(&self, key: &EntryKey, payload: &[u8], phases: &mut Phases) {
        let Some(disk) = self.disk() else { return };
        if let Err(error) = phases.time(Phase::CacheWrite, || disk.store(key, payload)) {
            self.say_once(&format!("{error}; what is found out is remembered in this process only"));
        }
    }

    /// A translator's machine code, as another process compiled it.
    pub fn compiled(&self, translator: &[u8; 32], phases: &mut Phases) -> Option<Code> {
        self.load(&component::code_key(translator), phases).and_then(|bytes| Code::from_bytes(&bytes))
    }

    /// Keeps a translator's machine code for other processes.
    pub fn keep_compiled(&self, translator: &[u8; 32], code: &Code, phases: &mut Phases) {
        self.store(&component::code_key(translator), &code.to_bytes(), phases);
    }

    fn say_once(&self, line: &str) {
        if !self.failure_said.swap(true, Ordering::Relaxed) {
            say(line);
        }
    }
}

fn manifest_key(translator: &[u8; 32]) -> EntryKey {
    EntryKey::new(Kind::Manifest, &[&spoken(), translator])
}

/// The contracts that this host speaks: which one of them it speaks with a translator follows from that, and how much of a problem it says.
fn spoken() -> Vec<u8> {
    Contract::ALL.iter().map(|contract| contract.version()).collect::<Vec<_>>().join(" ").into_bytes()
}
