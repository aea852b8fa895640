//! The lock of this crate: the standard library's, without poisoning. A panic under it ends one call, at the C ABI; the state behind it is
//! as good as before, and other calls go on.
//!
//! Nothing of it is shared between locks. (Locks that keep their waiters in one table of the process lock that table too, and a forked child
//! could find it locked for ever.)

pub use std::sync::MutexGuard;
use std::sync::{PoisonError, TryLockError};

/// A mutex.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Around a value.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Waits for it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes it if nobody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_leaves_it_usable() {
        let mutex = Mutex::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = mutex.lock();
            panic!("as a test");
        }));
        assert!(panicked.is_err());
        *mutex.lock() += 1;
        assert_eq!(mutex.try_lock().map(|guard| *guard), Some(2));
        let _guard = mutex.lock();
        assert!(mutex.try_lock().is_none());
    }
}
