//! Calls that come late: from destructors of a thread that ends, when what our maps keep for it is gone, and from those of the process, when
//! hipDNN and HIP may be gone. They get native's answer.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering},
};

/// What a thread is doing, as far as we are concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Thread {
    /// It never came here.
    New,
    /// It runs code of the program or of native.
    Outside,
    /// It works for a call: whatever MIOpen call comes in then is not the program's.
    Inside,
    /// Its destructors run.
    Ending,
}

/// Noted by its destructor.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        THREAD.set(Thread::Ending);
    }
}

thread_local! {
    static THREAD: Cell<Thread> = const { Cell::new(Thread::New) };
    static END: End = const { End };
}

static PROCESS_ENDS: AtomicBool = AtomicBool::new(false);

/// What the calling thread is doing.
pub fn thread() -> Thread {
    THREAD.get()
}

/// Says what it does from now on, and answers what it did before.
pub fn set_thread(now: Thread) -> Thread {
    THREAD.replace(now)
}

/// From now on the thread's end is noted. Destructors run in the opposite order: this one before those of everything that the thread has
/// used so far.
pub fn watch_thread() {
    END.with(|_| ());
}

/// From now on the process's end is noted, before anything that was registered so far is destroyed.
pub fn watch_process() {
    // SAFETY: the function is ours, and the library is never unloaded. Without memory for it, late calls are as good as before.
    unsafe { libc::atexit(note) };
}

extern "C" fn note() {
    PROCESS_ENDS.store(true, Ordering::Relaxed);
}

/// Whether the process ends.
pub fn of_process() -> bool {
    PROCESS_ENDS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Seen(std::sync::mpsc::Sender<Thread>);

    impl Drop for Seen {
        fn drop(&mut self) {
            self.0.send(thread()).unwrap();
        }
    }

    #[test]
    fn a_threads_end_is_noted_before_what_it_used_is_destroyed() {
        thread_local! {
            static USED: std::cell::RefCell<Option<Seen>> = const { std::cell::RefCell::new(None) };
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let worker = std::thread::spawn(move || {
            USED.set(Some(Seen(sender)));
            let before = set_thread(Thread::Outside);
            watch_thread();
            before == Thread::New
        });
        assert!(worker.join().unwrap());
        assert!(receiver.recv().unwrap() == Thread::Ending);
    }
}
