//! The circuit breaker: an entry point whose calls hipDNN fails one after another is not tried any more. What failed stays failed; what comes
//! afterwards is declined before anything is done, and goes to native.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::lock::Mutex;

/// Failures in a row, by entry point.
pub struct Breaker {
    /// So many open it; none if 0.
    limit: u32,
    /// Some call failed, ever: until then nobody looks at the counts.
    disturbed: AtomicBool,
    failures: Mutex<HashMap<&'static str, u32>>,
}

impl Breaker {
    /// Opens after so many failures in a row; never if that is 0.
    pub fn new(limit: u32) -> Self {
        Self { limit, disturbed: AtomicBool::new(false), failures: Mutex::default() }
    }

    /// Whether calls of an entry point are not tried any more.
    pub fn is_open(&self, entry_point: &'static str) -> bool {
        self.is_disturbed() && self.failures.lock().get(entry_point).is_some_and(|failures| *failures >= self.limit)
    }

    /// Counts a failure; true if it was the last that was waited for.
    pub fn failed(&self, entry_point: &'static str) -> bool {
        if self.limit == 0 {
            return false;
        }
        self.disturbed.store(true, Ordering::Relaxed);
        let mut failures = self.failures.lock();
        let count = failures.entry(entry_point).or_default();
        *count = count.saturating_add(1);
        *count == self.limit
    }

    /// Counts a success: failures so far were not in a row.
    pub fn served(&self, entry_point: &'static str) {
        if self.is_disturbed()
            && let Some(count) = self.failures.lock().get_mut(entry_point)
            // Open stays open: another thread may have been under way.
            && *count < self.limit
        {
            *count = 0;
        }
    }

    fn is_disturbed(&self) -> bool {
        self.disturbed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_in_a_row_open_it_and_it_stays_open() {
        let breaker = Breaker::new(3);
        assert!(!breaker.failed("a") && !breaker.failed("a"));
        breaker.served("a");
        assert!(!breaker.failed("a") && !breaker.failed("a") && !breaker.is_open("a"));
        assert!(breaker.failed("a") && !breaker.failed("a") && breaker.is_open("a"));
        breaker.served("a");
        assert!(breaker.is_open("a") && !breaker.is_open("b"));
    }

    #[test]
    fn without_a_limit_it_never_opens() {
        let breaker = Breaker::new(0);
        assert!((0..1000).all(|_| !breaker.failed("a") && !breaker.is_open("a")));
    }
}
