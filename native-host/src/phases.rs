//! How long the phases of calls take: of one call, and of many as histograms. Times are host times. Measures; neither counts calls nor writes.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

macro_rules! phases {
    ($($name:ident $text:literal $meaning:literal;)*) => {
        /// A phase of a call, in the order in which they happen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Phase {
            $(#[doc = $meaning] $name,)*
        }

        impl Phase {
            /// All there are.
            pub const ALL: &[Phase] = &[$(Phase::$name,)*];
            const COUNT: usize = Self::ALL.len();

            /// The name in traces and files.
            pub fn name(self) -> &'static str {
                match self { $(Phase::$name => $text,)* }
            }

            /// What happens in it, for tables.
            pub fn meaning(self) -> &'static str {
                match self { $(Phase::$name => $meaning,)* }
            }
        }
    };
}

phases! {
    Libraries "libraries" "loading HIP and hipDNN, once";
    Translator "translator" "loading the translator, once";
    Handle "handle" "making a hipDNN handle, once for each MIOpen handle";
    CacheRead "cache_read" "looking into the disk cache";
    Translate "translate" "the translator, on a problem";
    Validate "validate" "checking what the translator says";
    Lower "lower" "making the backend's graph";
    Heuristics "heuristics" "asking the backend which engines there are";
    Plan "plan" "building the execution plan";
    CacheWrite "cache_write" "writing into the disk cache";
    FirstExecute "first_execute" "the first execution of a plan: engines may search or compile in it";
    Measure "measure" "in Find: until the device has done what is measured";
    Execute "execute" "every other execution: until the backend has taken the work";
}

/// How long the phases of one call took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phases([Option<Duration>; Phase::COUNT]);

impl Phases {
    /// Notes how long a phase took.
    pub fn set(&mut self, phase: Phase, time: Duration) {
        self.0[phase as usize] = Some(time);
    }

    /// Runs a phase and notes how long it took. What is done more than once in a call counts together.
    pub fn time<T>(&mut self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        let before = self.0[phase as usize].unwrap_or_default();
        self.set(phase, before + start.elapsed());
        result
    }

    /// The phases that there were, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (Phase, Duration)> {
        Phase::ALL.iter().zip(self.0).filter_map(|(phase, time)| Some((*phase, time?)))
    }

    /// Microseconds by name.
    pub fn microseconds(&self) -> BTreeMap<&'static str, f64> {
        self.iter().map(|(phase, time)| (phase.name(), microseconds(time))).collect()
    }
}

/// A duration as people read it.
pub fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

/// Saturates after 584 years.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Buckets of a histogram: below 1 µs, then each twice as wide as the one before; the last is open.
pub const BUCKETS: usize = 32;

/// Durations, by powers of two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// How many in each bucket: bucket 0 is below 1 µs, bucket b from 2^(b-1) µs on.
    pub buckets: [u64; BUCKETS],
}

impl Histogram {
    /// Adds a duration. Allocates nothing.
    pub fn add(&mut self, time: Duration) {
        let ns = nanoseconds(time);
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        self.buckets[bucket(ns)] += 1;
    }

    /// Adds all durations of another.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        for (own, others) in self.buckets.iter_mut().zip(other.buckets) {
            *own = own.saturating_add(others);
        }
    }
}

fn bucket(ns: u64) -> usize {
    let us = ns / 1000;
    ((u64::BITS - us.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// The form in files: empty buckets at the end are left out.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    count: u64,
    total_ns: u64,
    max_ns: u64,
    buckets: Vec<u64>,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let used = self.buckets.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let Self { count, total_ns, max_ns, .. } = *self;
        Written { count, total_ns, max_ns, buckets: self.buckets[..used].to_vec() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { count, total_ns, max_ns, buckets: written } = Written::deserialize(deserializer)?;
        let mut buckets = [0; BUCKETS];
        buckets.get_mut(..written.len()).ok_or_else(|| D::Error::custom("too many buckets"))?.copy_from_slice(&written);
        if written.iter().try_fold(0u64, |sum, count| sum.checked_add(*count)) != Some(count) {
            return Err(D::Error::custom("the buckets do not add up to the count"));
        }
        Ok(Self { count, total_ns, max_ns, buckets })
    }
}

/// A histogram for each phase. A phase that never happened takes no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseHistograms([Option<Box<Histogram>>; Phase::COUNT]);

impl PhaseHistograms {
    /// Adds the phases of a call. Allocates only the first time that a phase is seen.
    pub fn add(&mut self, phases: &Phases) {
        for (phase, time) in phases.iter() {
            self.0[phase as usize].get_or_insert_default().add(time);
        }
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &Self) {
        for (phase, histogram) in other.iter() {
            self.0[phase as usize].get_or_insert_default().merge(histogram);
        }
    }

    /// The phases that there were, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (Phase, &Histogram)> {
        Phase::ALL.iter().zip(&self.0).filter_map(|(phase, histogram)| Some((*phase, histogram.as_deref()?)))
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl Serialize for PhaseHistograms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(phase, histogram)| (phase.name(), histogram)))
    }
}

impl<'de> Deserialize<'de> for PhaseHistograms {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut histograms = Self::default();
        for (name, histogram) in BTreeMap::<String, Box<Histogram>>::deserialize(deserializer)? {
            let phase = Phase::ALL.iter().find(|phase| phase.name() == name);
            let phase = phase.ok_or_else(|| D::Error::custom(format!("{name:?} is no phase")))?;
            histograms.0[*phase as usize] = Some(histogram);
        }
        Ok(histograms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two_of_microseconds() {
        let cases = [(0, 0), (999, 0), (1000, 1), (1999, 1), (2000, 2), (3999, 2), (4000, 3), (1_000_000, 10), (u64::MAX, BUCKETS - 1)];
        for (ns, expected) in cases {
            assert_eq!(bucket(ns), expected, "{ns}");
        }
    }

    #[test]
    fn histograms_add_up_and_come_back() {
        let mut phases = Phases::default();
        phases.set(Phase::Plan, Duration::from_micros(5));
        let (mut one, mut other) = (PhaseHistograms::default(), PhaseHistograms::default());
        one.add(&phases);
        phases.set(Phase::Plan, Duration::from_millis(7));
        phases.set(Phase::Execute, Duration::from_nanos(10));
        other.add(&phases);
        other.add(&phases);
        one.merge(&other);
        let seen: Vec<_> = one.iter().map(|(phase, h)| (phase, h.count, h.total_ns, h.max_ns)).collect();
        assert_eq!(seen, [(Phase::Plan, 3, 14_005_000, 7_000_000), (Phase::Execute, 2, 20, 10)]);
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<PhaseHistograms>(&text).unwrap(), one);
        assert!(text.contains(r#""execute":{"count":2,"total_ns":20,"max_ns":10,"buckets":[2]}"#), "{text}");
        for wrong in [
            text.replace("execute", "other"),
            text.replace("[2]", "[1]"),
            text.replace("[2]", &format!("{:?}", [0; BUCKETS + 1])),
            text.replace("[2]", "[2,18446744073709551615]"),
        ] {
            assert!(serde_json::from_str::<PhaseHistograms>(&wrong).is_err(), "{wrong}");
        }
    }
}
