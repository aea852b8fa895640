//! The translator of this process, decided on and loaded by the first call that needs it, and its faults.

use std::{cell::RefCell, sync::Arc};

use super::{Host, Stop};
use crate::{
    component::{Description, Translator},
    environment::TRANSLATOR,
    phases::{Phase, Phases},
    rules::HostRule,
    trace::say,
    translations::Declined,
    translator::{Source, Wanted, self_check},
};

impl Host {
    /// Which translator serves. The operator's, if it can; else one line, and the built-in one or none.
    pub(super) fn source(&self, phases: &mut Phases) -> Result<&Source, Stop> {
        let decide = || match &self.settings.translator {
            None => Ok(Source::built_in()),
            Some(wanted) => self.accept(wanted, phases).or_else(|reason| {
                let instead = if wanted.required { "every call goes to native MIOpen" } else { "the built-in translator serves" };
                say(&format!("{TRANSLATOR}={} is refused: {reason}; {instead}", wanted.path.display()));
                if wanted.required { Err(reason) } else { Ok(Source::built_in()) }
            }),
        };
        self.source.get_or_init(decide).as_ref().map_err(|error| unavailable(error))
    }

    /// Which translator serves, if that was decided.
    pub(super) fn chosen(&self) -> Option<&Source> {
        self.source.get()?.as_ref().ok()
    }

    /// Reads the operator's translator. Unless another process has found that it is one, it is loaded and tried now: later it would be too
    /// late to choose another.
    fn accept(&self, wanted: &Wanted, phases: &mut Phases) -> Result<Source, String> {
        let source = Source::read(wanted)?;
        let try_out = |phases: &mut Phases| {
            let translator = phases.time(Phase::Translator, || self.load(&source))?;
            self_check(&translator)?;
            let description = translator.description().clone();
            // Nobody else can have made one: this is the first decision.
            let _ = self.translator.set(Ok(translator));
            Ok::<_, String>(description)
        };
        self.caches.manifest(source.digest(), try_out, phases)?;
        Ok(source)
    }

    /// The translator, loaded; loading it, once, is a phase.
    pub(super) fn translator(&self, phases: &mut Phases) -> Result<&Translator, Stop> {
        let source = self.source(phases)?;
        let load = || self.load(source).inspect_err(|error| say(&format!("{error}; what is not known yet goes to native MIOpen")));
        let loaded = match self.translator.get() {
            Some(loaded) => loaded,
            None => phases.time(Phase::Translator, || self.translator.get_or_init(load)),
        };
        loaded.as_ref().map_err(|error| unavailable(error))
    }

    fn load(&self, source: &Source) -> Result<Translator, String> {
        // What the cache takes is part of loading.
        let unseen = RefCell::new(Phases::default());
        let remembered = || self.caches.compiled(source.digest(), &mut unseen.borrow_mut());
        // SAFETY: the cache's folders are such that nobody but this user and root can write to them, and what is read has its digest: it is
        // what a shim of theirs compiled.
        let translator =
            unsafe { source.load(remembered, |code| self.caches.keep_compiled(source.digest(), code, &mut unseen.borrow_mut())) };
        translator.map_err(|error| error.to_string())
    }

    /// What the translator says about itself.
    pub(super) fn manifest(&self, phases: &mut Phases) -> Result<&Description, Stop> {
        let digest = *self.source(phases)?.digest();
        let ask = |phases: &mut Phases| Ok(self.translator(phases)?.description().clone());
        self.caches.manifest(&digest, ask, phases)
    }

    /// Counts a fault of the translator: the last one that is forgiven is said.
    pub(super) fn note_fault(&self, fault: &Declined) {
        if self.faults.note() {
            let (count, Declined { rule, message }) = (self.faults.count(), fault);
            say(&format!("the translator failed {count} times, the last time by {rule}: {message}; it is not asked any more"));
        }
    }

    /// The answer instead of that of a translator which failed too often.
    pub(super) fn quarantined(&self) -> Option<Arc<Declined>> {
        let rule = HostRule::TranslatorQuarantined;
        let message = || format!("{} faults", self.faults.count());
        self.faults.too_many().then(|| Arc::new(Declined { rule: rule.id().into(), message: message() }))
    }
}

fn unavailable(error: &str) -> Stop {
    Stop::Host(HostRule::TranslatorUnavailable, error.to_string())
}
