//! Live objects by the number that stands for them on the ABI. No pointer of a client is ever followed to find an object.

use std::{
    array,
    collections::HashMap,
    ffi::c_void,
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::RwLock;

use crate::{
    descriptor::Object,
    error::{Error, Result},
    handle::Handle,
    thread,
};

/// Numbers that start with these bits are no canonical x86-64 addresses, so no pointer of a client can equal one.
const DESCRIPTOR_TAG: usize = 0x0d5c << 48;
const HANDLE_TAG: usize = 0x0a4d << 48;
/// Numbers are as far apart as addresses of small objects would be, in case a client looks at alignment.
const STEP: usize = 16;
/// Threads keep what they make in places of their own, so that no thread waits for another one's objects.
const PLACES: usize = 64;

/// Every live descriptor handle. Several may share one object.
pub(crate) static DESCRIPTORS: LazyLock<Registry<Object>> = LazyLock::new(|| Registry::new("descriptor", DESCRIPTOR_TAG));
/// Every live hipDNN handle.
pub(crate) static HANDLES: LazyLock<Registry<Handle>> = LazyLock::new(|| Registry::new("handle", HANDLE_TAG));

/// Objects of one sort.
pub(crate) struct Registry<T> {
    what: &'static str,
    places: [Place<T>; PLACES],
}

/// Some of them, in cache lines of its own.
#[repr(align(128))]
struct Place<T> {
    next: AtomicUsize,
    live: RwLock<HashMap<usize, Arc<T>, BuildHasherDefault<Spread>>>,
}

/// Numbers that are counted up, spread over all bits: nobody chooses them to collide.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(byte.into()));
    }

    fn write_usize(&mut self, number: usize) {
        let mixed = (self.0 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

impl<T> Registry<T> {
    fn new(what: &'static str, tag: usize) -> Self {
        let place = |i: usize| Place { next: AtomicUsize::new(tag + (PLACES + i) * STEP), live: RwLock::default() };
        Self { what, places: array::from_fn(place) }
    }

    /// Where the object behind a number is, if there is one.
    fn place(&self, number: usize) -> &Place<T> {
        &self.places[number / STEP % PLACES]
    }

    /// Hands out a new number for an object.
    pub(crate) fn insert(&self, object: Arc<T>) -> *mut c_void {
        let place = &self.places[thread::number() % PLACES];
        let number = place.next.fetch_add(STEP * PLACES, Ordering::Relaxed);
        place.live.write().insert(number, object);
        std::ptr::without_provenance_mut(number)
    }

    /// The object behind a number: null and unknown ones answer as the ABI does.
    pub(crate) fn get(&self, number: *const c_void) -> Result<Arc<T>> {
        if number.is_null() {
            return Err(Error::null(self.what));
        }
        self.place(number.addr()).live.read().get(&number.addr()).cloned().ok_or_else(|| self.unknown(number))
    }

    /// Ends a number. The object lives on as long as something shares it.
    pub(crate) fn remove(&self, number: *const c_void) -> Result<()> {
        if number.is_null() {
            return Err(Error::null(self.what));
        }
        self.place(number.addr()).live.write().remove(&number.addr()).map(drop).ok_or_else(|| self.unknown(number))
    }

    /// Whether nothing is live.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.iter().all(|place| place.live.read().is_empty())
    }

    fn unknown(&self, number: *const c_void) -> Error {
        Error::bad(format!("{number:?} is no live {} of this library", self.what))
    }
}
