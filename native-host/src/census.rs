//! What became of calls, in numbers: counters, by entry point and by problem; of a handle while it lives, of the process in the end. Counts;
//! decides and writes nothing. The file that it becomes is in `stats`.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Index,
    time::Duration,
};

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use crate::{
    cache::Level,
    key::KeyBuffer,
    phases::{Histogram, PhaseHistograms, Phases, nanoseconds},
    problem::{OwnedProblem, Problem},
};

/// Problems that are told apart: on a handle, and in the process. The calls of all others are counted together.
pub const MAX_PROBLEMS: usize = 4096;

/// What a call needs before it can execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// The translator's answer.
    Translation,
    /// The execution plan, or that there is none.
    Plan,
}

/// Where what one call needed came from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources {
    translation: Option<Level>,
    plan: Option<Level>,
}

impl Sources {
    /// Where it came from; `None` if it was not needed.
    pub fn of(&self, needed: Needed) -> Option<Level> {
        match needed {
            Needed::Translation => self.translation,
            Needed::Plan => self.plan,
        }
    }

    /// Notes where it came from.
    pub fn note(&mut self, needed: Needed, level: Level) {
        match needed {
            Needed::Translation => self.translation = Some(level),
            Needed::Plan => self.plan = Some(level),
        }
    }
}

/// How often something came from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Levels {
    /// It was in memory.
    pub memory: u64,
    /// It was on disk.
    pub disk: u64,
    /// It was made.
    pub built: u64,
}

impl Levels {
    fn count(&mut self, level: Option<Level>) {
        match level {
            Some(Level::Memory) => self.memory += 1,
            Some(Level::Disk) => self.disk += 1,
            Some(Level::Built) => self.built += 1,
            None => {}
        }
    }

    fn add(&mut self, other: &Self) {
        sum(&mut self.memory, other.memory);
        sum(&mut self.disk, other.disk);
        sum(&mut self.built, other.built);
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.memory.saturating_add(self.disk).saturating_add(self.built)
    }
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending<'a> {
    /// hipDNN served it, or a query was answered with its plan.
    Served,
    /// hipDNN failed it.
    Failed,
    /// It went to native, by this rule.
    Declined(&'a str),
    /// It is native's because the caller chose what native offers, by this rule.
    Native(&'a str),
}

/// What is known about one call when it ends.
#[derive(Debug)]
pub struct Seen<'a> {
    /// What became of it.
    pub ending: Ending<'a>,
    /// Whether the problem was new to the handle.
    pub cold: bool,
    /// Where what it needed came from.
    pub sources: Sources,
    /// Its phases.
    pub phases: &'a Phases,
    /// How long it was with the shim and hipDNN; native's part is added when native is done. `None` if nobody measures.
    pub time: Option<Duration>,
}

/// Host time that calls took, in nanoseconds. Host time is what the caller waited: on a device that works on its own, less than the device
/// works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// Calls that hipDNN served.
    pub served: u64,
    /// Calls that hipDNN failed.
    pub failed: u64,
    /// Declined calls, until they were declined, by rule.
    pub declined: BTreeMap<String, u64>,
    /// Declined calls, from then on until native was done, by rule.
    pub declined_native: BTreeMap<String, u64>,
    /// Calls that are native's by policy, all of it, by rule.
    pub native: BTreeMap<String, u64>,
}

/// Counts of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Calls that hipDNN served; queries that were answered with its plan.
    pub served: u64,
    /// Calls that hipDNN failed.
    pub failed: u64,
    /// Calls that went to native, by rule.
    pub declined: BTreeMap<String, u64>,
    /// Calls that are native's because the caller chose what native offers, by rule.
    pub native: BTreeMap<String, u64>,
    /// Served calls that native computed too, for comparison.
    #[serde(default)]
    pub verified: u64,
    /// Those of them whose results differed by more than their type's tolerance.
    #[serde(default)]
    pub mismatched: u64,
    /// Calls whose problem was new to their handle.
    pub cold: u64,
    /// Where translations came from. A call whose plan is in memory needs none.
    pub translations: Levels,
    /// Where plans came from; that there is none is remembered like a plan.
    pub plans: Levels,
    /// Host time of the calls above, if it was measured.
    pub time_ns: Times,
    /// Host time of calls whose problem was new, until they were served, declined or failed.
    pub cold_calls: Histogram,
    /// The same of all other calls.
    pub warm_calls: Histogram,
    /// Phases.
    pub phases: PhaseHistograms,
}

/// Adds to what belongs to a rule. Allocates only the first time a rule is seen.
fn add_to(counts: &mut BTreeMap<String, u64>, rule: &str, more: u64) {
    match counts.get_mut(rule) {
        Some(count) => sum(count, more),
        None => drop(counts.insert(rule.to_string(), more)),
    }
}

/// Counts of files that somebody wrote may be of any size.
fn sum(own: &mut u64, other: u64) {
    *own = own.saturating_add(other);
}

impl Counters {
    /// Counts a call.
    pub fn count(&mut self, seen: &Seen<'_>) {
        let time = seen.time.map(nanoseconds);
        match seen.ending {
            Ending::Served => {
                self.served += 1;
                self.time_ns.served += time.unwrap_or(0);
            }
            Ending::Failed => {
                self.failed += 1;
                self.time_ns.failed += time.unwrap_or(0);
            }
            Ending::Declined(rule) => {
                add_to(&mut self.declined, rule, 1);
                time.into_iter().for_each(|time| add_to(&mut self.time_ns.declined, rule, time));
            }
            Ending::Native(rule) => {
                add_to(&mut self.native, rule, 1);
                time.into_iter().for_each(|time| add_to(&mut self.time_ns.native, rule, time));
            }
        }
        self.cold += u64::from(seen.cold);
        self.translations.count(seen.sources.translation);
        self.plans.count(seen.sources.plan);
        if let Some(time) = seen.time {
            let calls = if seen.cold { &mut self.cold_calls } else { &mut self.warm_calls };
            calls.add(time);
            self.phases.add(seen.phases);
        }
    }

    /// Native is done with a call that ended like this.
    pub fn native_took(&mut self, ending: Ending<'_>, time: Duration) {
        match ending {
            Ending::Declined(rule) => add_to(&mut self.time_ns.declined_native, rule, nanoseconds(time)),
            Ending::Native(rule) => add_to(&mut self.time_ns.native, rule, nanoseconds(time)),
            Ending::Served | Ending::Failed => {}
        }
    }

    /// A served call was compared with native's result.
    pub fn count_verified(&mut self, ok: bool) {
        self.verified += 1;
        self.mismatched += u64::from(!ok);
    }

    /// Adds other counts to these.
    pub fn add(&mut self, other: &Self) {
        let (time, others) = (&mut self.time_ns, &other.time_ns);
        for (own, other) in [
            (&mut self.served, other.served),
            (&mut self.failed, other.failed),
            (&mut self.verified, other.verified),
            (&mut self.mismatched, other.mismatched),
            (&mut self.cold, other.cold),
            (&mut time.served, others.served),
            (&mut time.failed, others.failed),
        ] {
            sum(own, other);
        }
        for (own, others) in [
            (&mut self.declined, &other.declined),
            (&mut self.native, &other.native),
            (&mut time.declined, &others.declined),
            (&mut time.declined_native, &others.declined_native),
            (&mut time.native, &others.native),
        ] {
            others.iter().for_each(|(rule, count)| add_to(own, rule, *count));
        }
        self.translations.add(&other.translations);
        self.plans.add(&other.plans);
        self.cold_calls.merge(&other.cold_calls);
        self.warm_calls.merge(&other.warm_calls);
        self.phases.merge(&other.phases);
    }

    /// All calls together.
    pub fn calls(&self) -> u64 {
        let rules = self.declined.values().chain(self.native.values());
        rules.fold(self.served.saturating_add(self.failed), |all, count| all.saturating_add(*count))
    }
}

/// Where a handle counts the calls of an entry point with a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// With others like it.
    Problem(usize),
    /// With all of its entry point that are not told apart.
    Others(usize),
}

/// The counters of a handle.
#[derive(Default)]
pub struct Tally {
    /// How many problems are told apart; none if nobody wants to know.
    capacity: usize,
    problems: Vec<Told>,
    table: HashTable<usize>,
    others: Vec<(&'static str, Counters)>,
}

/// The counters of an entry point with a problem.
struct Told {
    call: &'static str,
    words: Box<[u64]>,
    problem: OwnedProblem,
    counters: Counters,
}

/// What a tally has for an entry point with a problem.
enum LookedUp {
    /// Counters, at this index.
    Told(usize),
    /// None yet, and room for them.
    New { words: Box<[u64]>, hash: u64 },
    /// Neither.
    TooMany,
}

impl Tally {
    /// Tells so many problems apart.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// Where calls of an entry point with a problem are counted. Allocates only the first time that they are seen. Who declines for want of
    /// stack counts too: no step needs the stack of the one before.
    pub fn place(&mut self, call: &'static str, problem: &Problem<'_>) -> Place {
        if self.capacity == 0 {
            return self.others(call);
        }
        match self.look_up(call, problem) {
            LookedUp::Told(index) => Place::Problem(index),
            LookedUp::New { words, hash } => self.tell(call, words, problem, hash),
            LookedUp::TooMany => self.others(call),
        }
    }

    #[inline(never)]
    fn look_up(&self, call: &'static str, problem: &Problem<'_>) -> LookedUp {
        let mut key = KeyBuffer::default();
        if !key.fill(problem) {
            return LookedUp::TooMany;
        }
        let hash = hash(call, key.words());
        let same = |&index: &usize| self.problems[index].call == call && *self.problems[index].words == *key.words();
        match self.table.find(hash, same) {
            Some(&index) => LookedUp::Told(index),
            None if self.problems.len() < self.capacity => LookedUp::New { words: key.words().into(), hash },
            None => LookedUp::TooMany,
        }
    }

    #[cold]
    #[inline(never)]
    fn tell(&mut self, call: &'static str, words: Box<[u64]>, problem: &Problem<'_>, hash: u64) -> Place {
        let index = self.problems.len();
        self.problems.push(Told { call, words, problem: OwnedProblem::of(problem), counters: Counters::default() });
        let problems = &self.problems;
        self.table.insert_unique(hash, index, |&index| self::hash(problems[index].call, &problems[index].words));
        Place::Problem(index)
    }

    /// Where calls of an entry point are counted that are not told apart.
    pub fn others(&mut self, call: &'static str) -> Place {
        let known = self.others.iter().position(|(name, _)| std::ptr::eq(*name, call) || *name == call);
        Place::Others(known.unwrap_or_else(|| {
            self.others.push((call, Counters::default()));
            self.others.len() - 1
        }))
    }

    /// The counters at a place of this tally.
    pub fn at(&mut self, place: Place) -> &mut Counters {
        match place {
            Place::Problem(index) => &mut self.problems[index].counters,
            Place::Others(index) => &mut self.others[index].1,
        }
    }

    /// Forgets all counts, and the places.
    pub fn clear(&mut self) {
        *self = Self::new(self.capacity);
    }
}

fn hash(call: &str, words: &[u64]) -> u64 {
    crate::key::hash(words) ^ xxhash_rust::xxh3::xxh3_64(call.as_bytes())
}

/// An entry point and the words of a problem.
type Key = (&'static str, Box<[u64]>);

/// The counts of all handles, dead and alive.
#[derive(Clone, Debug, Default)]
pub struct Census {
    calls: BTreeMap<&'static str, Counters>,
    others: BTreeMap<&'static str, Counters>,
    problems: HashMap<Key, (OwnedProblem, Counters)>,
}

impl Census {
    /// Adds the counts of a handle.
    pub fn add(&mut self, tally: &Tally) {
        for (call, counters) in &tally.others {
            self.add_others(call, |own| own.add(counters));
        }
        for told in &tally.problems {
            let key = (told.call, told.words.clone());
            if self.problems.len() >= MAX_PROBLEMS && !self.problems.contains_key(&key) {
                self.add_others(told.call, |own| own.add(&told.counters));
                continue;
            }
            self.calls.entry(told.call).or_default().add(&told.counters);
            self.problems.entry(key).or_insert_with(|| (told.problem.clone(), Counters::default())).1.add(&told.counters);
        }
    }

    /// Adds counts of calls that are not told apart.
    pub fn add_others(&mut self, call: &'static str, add: impl Fn(&mut Counters)) {
        add(self.calls.entry(call).or_default());
        add(self.others.entry(call).or_default());
    }

    /// The counts of an entry point.
    pub fn get(&self, call: &str) -> Option<&Counters> {
        self.calls.get(call)
    }

    /// By entry point, all calls.
    pub fn calls(&self) -> &BTreeMap<&'static str, Counters> {
        &self.calls
    }

    /// By entry point, the calls that are not told apart by their problem.
    pub fn others(&self) -> &BTreeMap<&'static str, Counters> {
        &self.others
    }

    /// By entry point and problem.
    pub fn problems(&self) -> impl Iterator<Item = (&'static str, &OwnedProblem, &Counters)> {
        self.problems.iter().map(|((call, _), (problem, counters))| (*call, problem, counters))
    }
}

impl Index<&str> for Census {
    type Output = Counters;

    fn index(&self, call: &str) -> &Counters {
        &self.calls[call]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data_type::DataType,
        problem::{FusionProblem, TensorDescriptor},
    };

    fn seen<'a>(ending: Ending<'a>, phases: &'a Phases) -> Seen<'a> {
        Seen { ending, cold: false, sources: Sources::default(), phases, time: Some(Duration::from_nanos(10)) }
    }

    fn count(tally: &mut Tally, call: &'static str, length: i64, ending: Ending<'_>) {
        let tensor = TensorDescriptor::new(DataType::Float, None, &[length], &[1], 1, None).unwrap();
        let problem = Problem::Fusion(FusionProblem { input: &tensor, operations: &[], output: &tensor });
        let place = tally.place(call, &problem);
        tally.at(place).count(&seen(ending, &Phases::default()));
    }

    #[test]
    fn calls_are_counted_by_entry_point_and_problem() {
        let mut tally = Tally::new(2);
        for (call, length) in [("a", 1), ("a", 2), ("a", 1), ("a", 3), ("b", 1), ("b", 1)] {
            count(&mut tally, call, length, Ending::Served);
        }
        count(&mut tally, "a", 2, Ending::Declined("rule"));
        let mut census = Census::default();
        census.add(&tally);
        let mut problems: Vec<_> = census.problems().map(|(call, problem, c)| (call, problem.to_string(), c.served, c.calls())).collect();
        problems.sort();
        let text = |length: i64| format!("fusion float input {length} > output {length}");
        assert_eq!(problems, [("a", text(1), 2, 2), ("a", text(2), 1, 2)]);
        assert_eq!((census["a"].served, census["a"].declined["rule"], census["b"].served), (4, 1, 2));
        assert_eq!((census.others()["a"].served, census.others()["b"].served), (1, 2));
        assert_eq!((census["a"].time_ns.served, census["a"].time_ns.declined["rule"]), (40, 10));
        tally.clear();
        count(&mut tally, "a", 1, Ending::Failed);
        census.add(&tally);
        assert_eq!((census["a"].calls(), census["a"].failed, census.problems().count()), (6, 1, 2));
    }

    #[test]
    fn nobody_wants_to_know() {
        let mut tally = Tally::new(0);
        count(&mut tally, "a", 1, Ending::Served);
        count(&mut tally, "a", 2, Ending::Native("policy"));
        let mut census = Census::default();
        census.add(&tally);
        assert_eq!((census["a"].served, census["a"].native["policy"], census.problems().count()), (1, 1, 0));
    }

    #[test]
    fn the_process_is_bounded_too() {
        let mut census = Census::default();
        for handle in 0..3 {
            let mut tally = Tally::new(MAX_PROBLEMS);
            (0..3000).for_each(|n| count(&mut tally, "a", 1 + 3000 * handle + n, Ending::Served));
            census.add(&tally);
        }
        assert_eq!((census.problems().count(), census["a"].served), (MAX_PROBLEMS, 9000));
        assert_eq!(census.others()["a"].served, 9000 - MAX_PROBLEMS as u64);
    }

    #[test]
    fn counters_come_back() {
        let mut counters = Counters::default();
        let mut phases = Phases::default();
        phases.set(crate::phases::Phase::Plan, Duration::from_secs(4));
        counters.count(&seen(Ending::Declined("a \"rule\""), &phases));
        counters.native_took(Ending::Declined("a \"rule\""), Duration::from_nanos(7));
        let text = serde_json::to_string(&counters).unwrap();
        assert_eq!(serde_json::from_str::<Counters>(&text).unwrap(), counters);
        assert_eq!(counters.time_ns.declined_native["a \"rule\""], 7);
    }
}
