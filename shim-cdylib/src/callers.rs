//! Who calls: addresses inside the native library, or inside a module that came with hipDNN, are not the program's calls. Native
//! MIOpen calls its own exports through the PLT, and hipDNN's MIOpen provider is linked against the name that we have taken.
//!
//! Ranges of addresses, appended when libraries are loaded, read without a lock by every routed call.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use hipdnn_host::modules;

/// Modules that can be remembered: native, hipDNN, its plugins and what those bring.
const CAPACITY: usize = 256;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static STARTS: [AtomicUsize; CAPACITY] = [const { AtomicUsize::new(0) }; CAPACITY];
static ENDS: [AtomicUsize; CAPACITY] = [const { AtomicUsize::new(0) }; CAPACITY];

/// Whether an address lies in a module whose calls are native's.
pub fn is_internal(address: usize) -> bool {
    let count = COUNT.load(Ordering::Acquire).min(CAPACITY);
    (0..count).any(|i| address >= STARTS[i].load(Ordering::Relaxed) && address < ENDS[i].load(Ordering::Relaxed))
}

/// Remembers the module that contains an address.
pub fn add_module_of(address: usize) {
    loaded_modules().into_iter().filter(|range| range.contains(&address)).for_each(add);
}

/// Runs something that may load libraries, and remembers the modules that are new afterwards.
///
/// A module that another thread loads meanwhile is remembered too: its calls then go to native, which is always right.
pub fn around_load(load: &mut dyn FnMut()) {
    let before = loaded_modules();
    load();
    loaded_modules().into_iter().filter(|range| !before.contains(range)).for_each(add);
}

fn add(range: Range<usize>) {
    // Loads are rare and serialised by their callers' locks, but two handles may be made at once.
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let index = COUNT.load(Ordering::Relaxed);
    if index < CAPACITY && !is_internal(range.start) {
        STARTS[index].store(range.start, Ordering::Relaxed);
        ENDS[index].store(range.end, Ordering::Relaxed);
        COUNT.store(index + 1, Ordering::Release);
    }
}

/// The address ranges of all modules in the process.
fn loaded_modules() -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    modules::find_map::<()>(|module| {
        spans.extend(module.span());
        None
    });
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_told_apart() {
        let here = modules_are_told_apart as *const () as usize;
        assert!(!is_internal(here));
        add_module_of(libc::getpid as *const () as usize);
        assert!(is_internal(libc::getppid as *const () as usize));
        assert!(!is_internal(here));
        assert!(loaded_modules().iter().any(|range| range.contains(&here)));
    }
}
