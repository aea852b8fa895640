//! What a translator owes for every problem, whatever it makes of it: the oracle of `check`, `fuzz` and the fuzz targets.
//!
//! Whether a graph computes the right thing is not seen here: that takes a backend, and a definition of the operation.

use thiserror::Error;

use crate::{
    cache::record::{TranslationRecord, to_bytes},
    capabilities::Capabilities,
    component::{ComponentError, Description, Translator},
    environment::Family,
    judge::judge,
    problem::{OwnedProblem, Problem},
    translations::Declined,
    translator::manifest,
    validate::ValidatedGraph,
};

/// The longest message of a decline, in bytes: it goes into a line of the trace.
const MAX_MESSAGE: usize = 4096;

macro_rules! duties {
    ($($name:ident $id:literal $sentence:literal;)*) => {
        /// Something that is owed for every problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Duty {
            $(#[doc = $sentence] $name,)*
        }

        impl Duty {
            /// All of them.
            pub const ALL: &[Duty] = &[$(Duty::$name,)*];

            /// A word for it.
            pub fn id(self) -> &'static str {
                match self { $(Duty::$name => $id,)* }
            }

            /// What is owed, in words.
            pub fn sentence(self) -> &'static str {
                match self { $(Duty::$name => $sentence,)* }
            }

            /// The duty of a word.
            pub fn of(id: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|duty| duty.id() == id)
            }
        }
    };
}

duties! {
    Manifest "manifest" "says what it is: families that it exports, ids that are unique, reasons of one line";
    Totality "totality" "answers every problem of its families: no trap, within fuel, stack, memory and size of reply";
    Rules "rules" "declines by rules, and notes with notes, that its manifest lists";
    Messages "messages" "says why it declines in one line that is not too long";
    Graphs "graphs" "gives graphs that the validator passes";
    Repeatable "repeatable" "gives the same bytes when it is asked again";
    Fresh "fresh" "gives the same bytes in a fresh instance, whatever was asked before";
    Numbers "numbers" "gives graphs that compute what the problem defines";
}

/// A duty that was not done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {detail}", duty.id())]
pub struct Fault {
    /// Which.
    pub duty: Duty,
    /// How.
    pub detail: String,
}

impl Fault {
    /// A fault.
    pub fn new(duty: Duty, detail: impl Into<String>) -> Self {
        Self { duty, detail: detail.into() }
    }
}

/// What came of a problem.
#[derive(Debug)]
pub struct Examined {
    /// What the host makes of the answer.
    pub decision: Result<ValidatedGraph, Declined>,
    /// The answer as bytes; none if there was no answer.
    pub bytes: Option<Vec<u8>>,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
}

/// What is wrong with what a translator says about itself.
pub fn examine_manifest(description: &Description) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut wrong = |detail: String| faults.push(Fault::new(Duty::Manifest, detail));
    for family in &description.families {
        if !Family::ALL.iter().any(|known| known.name() == family) {
            let known: Vec<&str> = Family::ALL.iter().map(|family| family.name()).collect();
            wrong(format!("family {family:?} is none of the contract's ({})", known.join(", ")));
        }
    }
    manifest::faults(description).into_iter().for_each(wrong);
    faults
}

/// Asks for a problem, twice and in a fresh instance, and looks at the answers.
pub fn examine(translator: &Translator, capabilities: &Capabilities, problem: &OwnedProblem) -> Examined {
    problem.with(|problem| {
        let ask = |translator: &Translator| translator.translate(problem, capabilities);
        let first = ask(translator);
        let mut faults = faults_of_reply(&first, translator.description(), problem);
        let bytes = bytes_of(&first);
        if let Some(bytes) = &bytes {
            if bytes_of(&ask(translator)).as_ref() != Some(bytes) {
                faults.push(Fault::new(Duty::Repeatable, "the second answer to the same question is another"));
            }
            if bytes_of(&ask(&translator.fresh())).as_ref() != Some(bytes) {
                faults.push(Fault::new(Duty::Fresh, "a fresh instance answers otherwise"));
            }
        }
        let decision = judge(first, translator.description(), problem);
        if let Err(declined) = &decision
            && declined.rule.starts_with("host.graph.")
        {
            faults.push(Fault::new(Duty::Graphs, format!("{}: {}", declined.rule, declined.message)));
        }
        Examined { decision, bytes, faults }
    })
}

/// The answer as bytes: equal if and only if the answers are.
pub fn bytes_of(reply: &Result<TranslationRecord, ComponentError>) -> Option<Vec<u8>> {
    reply.as_ref().ok().map(to_bytes)
}

fn faults_of_reply(reply: &Result<TranslationRecord, ComponentError>, manifest: &Description, problem: &Problem<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    match reply {
        Err(ComponentError::Family(family)) => {
            if manifest.families.iter().any(|listed| listed == family) {
                faults.push(Fault::new(Duty::Manifest, format!("family {family} is listed, but not exported")));
            }
        }
        Err(error) => faults.push(Fault::new(Duty::Totality, error.to_string())),
        Ok(answer) => {
            let family = problem.family().name();
            if !manifest.families.iter().any(|listed| listed == family) {
                faults.push(Fault::new(Duty::Manifest, format!("family {family} is exported, but not listed")));
            }
            match answer {
                Err(decline) => {
                    if !manifest.rules.iter().any(|entry| entry.id == decline.rule) {
                        faults.push(Fault::new(Duty::Rules, format!("rule {:?} is not in the manifest", decline.rule)));
                    }
                    if decline.message.len() > MAX_MESSAGE || decline.message.chars().any(char::is_control) {
                        faults.push(Fault::new(Duty::Messages, format!("rule {:?}: {:?}", decline.rule, decline.message)));
                    }
                }
                Ok(graph) => {
                    let unlisted = |note: &&String| !manifest.notes.iter().any(|entry| entry.id == **note);
                    faults.extend(
                        graph
                            .notes
                            .iter()
                            .find(unlisted)
                            .map(|note| Fault::new(Duty::Rules, format!("note {note:?} is not in the manifest"))),
                    );
                }
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        component::Entry,
        graph::{ReceivedDecline, ReceivedGraph},
        offline::problems::generate,
    };

    #[test]
    fn the_embedded_translator_does_its_duties() {
        let translator = Translator::embedded().unwrap();
        assert_eq!(examine_manifest(translator.description()), []);
        for number in 0..2000 {
            let problem = generate::numbered(6, number);
            let examined = examine(&translator, &Capabilities::whole_abi(), &problem);
            assert_eq!(examined.faults, [], "{number}: {problem}");
            assert!(examined.bytes.is_some());
        }
    }

    fn entry(id: &str, reason: &str) -> Entry {
        Entry { id: id.into(), reason: reason.into() }
    }

    fn manifest() -> Description {
        Description {
            name: "n".into(),
            version: "1.0.0".into(),
            families: vec!["conv".into()],
            rules: vec![entry("a.b", "why")],
            notes: vec![entry("a.note", "what")],
        }
    }

    #[test]
    fn manifests_that_make_no_sense_are_faults() {
        let details = |change: &dyn Fn(&mut Description)| {
            let mut changed = manifest();
            change(&mut changed);
            examine_manifest(&changed).into_iter().map(|fault| fault.detail).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(details(&|_| {}), "");
        assert!(details(&|m| m.families.push("pool".into())).contains("none of the contract's"));
        assert!(details(&|m| m.version.clear()).contains("no version"));
        assert!(details(&|m| m.rules.push(entry("a.b", "other"))).contains("listed twice"));
        assert!(details(&|m| m.rules.push(entry("host.x", "why"))).contains("of the host's"));
        assert!(details(&|m| m.notes.push(entry("a c", "why"))).contains("is no id"));
        assert!(details(&|m| m.notes.push(entry("c", "two\nlines"))).contains("one line"));
    }

    #[test]
    fn answers_that_break_the_contract_are_faults() {
        let problem = generate::sound(&mut crate::offline::choices::Choices::of_bytes(&[]));
        let duties = |reply: Result<TranslationRecord, ComponentError>| {
            problem.with(|problem| faults_of_reply(&reply, &manifest(), problem)).iter().map(|fault| fault.duty).collect::<Vec<_>>()
        };
        let decline = |rule: &str, message: &str| Ok(Err(ReceivedDecline { rule: rule.into(), message: message.into() }));
        let graph = |note: &str| {
            let notes = vec![note.to_string()];
            let (compute_type, intermediate_type, io_type) = (None, None, None);
            Ok(Ok(ReceivedGraph { tensors: vec![], nodes: vec![], compute_type, intermediate_type, io_type, bindings: vec![], notes }))
        };
        assert_eq!(family_of(&problem), "conv");
        assert_eq!(duties(decline("a.b", "c is 1")), []);
        assert_eq!(duties(decline("a.c", "c is 1")), [Duty::Rules]);
        assert_eq!(duties(decline("a.b", "two\nlines")), [Duty::Messages]);
        assert_eq!(duties(decline("a.b", &"x".repeat(5000))), [Duty::Messages]);
        assert_eq!(duties(graph("a.note")), []);
        assert_eq!(duties(graph("a.b")), [Duty::Rules]);
        assert_eq!(duties(Err(ComponentError::Trap("it trapped".into()))), [Duty::Totality]);
        assert_eq!(duties(Err(ComponentError::Family("conv"))), [Duty::Manifest]);
        assert_eq!(duties(Err(ComponentError::Family("fusion"))), []);
    }

    fn family_of(problem: &OwnedProblem) -> &'static str {
        problem.with(|problem| problem.family().name())
    }

    #[test]
    fn words_name_duties() {
        assert!(Duty::ALL.iter().all(|duty| Duty::of(duty.id()) == Some(*duty)));
    }
}
