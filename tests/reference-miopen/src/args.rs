//! Arguments as C passes them, wrapped so that implementations need no unsafe code: objects of ours, results to write, data to
//! read. Each wrapper holds null or whatever the C contract of the call promises for it. No function of the API is here.

use core::ffi::c_void;
use core::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::failure::{Failure, Outcome, bad};

/// Made from a pointer argument.
pub trait FromC {
    /// The wrapper; generated code calls it with arguments just as the C caller gave them.
    fn from_c(pointer: *mut c_void) -> Self;
}

/// A result to write.
pub struct Out<T>(*mut T);

impl<T> FromC for Out<T> {
    fn from_c(pointer: *mut c_void) -> Self {
        Out(pointer.cast())
    }
}

impl<T> Out<T> {
    /// Whether the caller gave no place.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Writes it; null is the caller's mistake.
    pub fn put(&self, value: T) -> Outcome {
        if self.0.is_null() {
            return Err(bad("a result pointer is null"));
        }
        // SAFETY: not null, so by the call's contract valid for a write.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes it if the caller wants it.
    pub fn put_if(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, so by the call's contract valid for a write.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Writes an array if the caller wants it.
    pub fn put_all(&self, values: impl IntoIterator<Item = T>) {
        if self.0.is_null() {
            return;
        }
        for (i, value) in values.into_iter().enumerate() {
            // SAFETY: not null, so by the call's contract an array with room for these values.
            unsafe { self.0.add(i).write_unaligned(value) };
        }
    }
}

/// Data to read.
pub struct In<T>(*const T);

impl<T> FromC for In<T> {
    fn from_c(pointer: *mut c_void) -> Self {
        In(pointer.cast_const().cast())
    }
}

impl<T: Copy> In<T> {
    /// One value.
    pub fn read(&self) -> Option<T> {
        // SAFETY: not null, so by the call's contract valid for a read.
        (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })
    }

    /// An array of `count` values.
    pub fn read_all(&self, count: usize) -> Option<Vec<T>> {
        // SAFETY: not null, so by the call's contract an array of at least that length.
        (!self.0.is_null()).then(|| (0..count).map(|i| unsafe { self.0.add(i).read_unaligned() }).collect())
    }
}

impl In<u8> {
    /// The start of a text or blob of `length` bytes: at most `most` of them.
    pub fn read_start(&self, length: u64, most: usize) -> Option<Vec<u8>> {
        self.read_all(usize::try_from(length).map_or(most, |length| length.min(most)))
    }
}

/// A data buffer, a stream or any other pointer that is only kept or passed on.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Raw(pub *mut c_void);

impl FromC for Raw {
    fn from_c(pointer: *mut c_void) -> Self {
        Raw(pointer)
    }
}

/// A kind of object that callers hold by an opaque pointer.
pub trait Object: Sized + 'static {
    /// Tells this kind from every other and from what is no object.
    const COOKIE: u64;
    /// What failures call it.
    const NAME: &'static str;
    /// Slots to use again. Memory of objects is never given back, so that a stale pointer can be looked at; like a real
    /// allocator's, the last address freed is the first to be used again.
    fn free_slots() -> &'static Mutex<Vec<usize>>;
}

/// Declares a kind of object.
macro_rules! object {
    ($type:ty, $cookie:literal, $name:literal) => {
        impl $crate::args::Object for $type {
            const COOKIE: u64 = $cookie;
            const NAME: &'static str = $name;
            fn free_slots() -> &'static std::sync::Mutex<Vec<usize>> {
                static FREE: std::sync::Mutex<Vec<usize>> = std::sync::Mutex::new(Vec::new());
                &FREE
            }
        }
    };
}
pub(crate) use object;

/// An object's memory.
#[repr(C)]
struct Slot<T> {
    cookie: AtomicU64,
    value: Option<T>,
}

/// An object as an argument.
pub struct Obj<T>(*mut Slot<T>);

impl<T> FromC for Obj<T> {
    fn from_c(pointer: *mut c_void) -> Self {
        Obj(pointer.cast())
    }
}

/// The pointer under which a caller knows an object: written through an [`Out`], read only by C.
#[repr(transparent)]
pub struct New<T>(#[allow(dead_code)] *mut c_void, PhantomData<T>);

impl<T: Object> Obj<T> {
    /// The pointer that callers know it by.
    pub fn handle(&self) -> New<T> {
        New(self.0.cast(), PhantomData)
    }

    /// Whether the caller gave none.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    fn live(&self) -> Result<*mut Slot<T>, Failure> {
        if self.0.is_null() {
            return Err(bad(format!("the {} is null", T::NAME)));
        }
        if !self.0.is_aligned() {
            return Err(bad(format!("the {} is no object", T::NAME)));
        }
        // SAFETY: a live or destroyed object's memory exists for good; a foreign pointer is the caller's to have valid.
        let cookie = unsafe { (*self.0).cookie.load(Ordering::Acquire) };
        if cookie == T::COOKIE { Ok(self.0) } else { Err(bad(format!("the {} was destroyed or is no such object", T::NAME))) }
    }

    /// The object.
    pub fn get(&self) -> Result<&T, Failure> {
        let slot = self.live()?;
        // SAFETY: a slot with the cookie holds a value; MIOpen objects are not to be changed by two threads at once.
        unsafe { (*slot).value.as_ref() }.ok_or_else(|| bad("empty object"))
    }

    /// The object, to change it.
    pub fn get_mut(&mut self) -> Result<&mut T, Failure> {
        let slot = self.live()?;
        // SAFETY: as above.
        unsafe { (*slot).value.as_mut() }.ok_or_else(|| bad("empty object"))
    }

    /// Ends the object's life. None at all is fine.
    pub fn destroy(self) -> Outcome {
        if self.is_null() {
            return Ok(());
        }
        let slot = self.live()?;
        // SAFETY: checked to be a slot of this kind; whoever wins the exchange alone empties it.
        unsafe {
            let swap = (*slot).cookie.compare_exchange(T::COOKIE, 0, Ordering::AcqRel, Ordering::Relaxed);
            swap.map_err(|_| bad("destroyed twice"))?;
            (*slot).value = None;
        }
        T::free_slots().lock().unwrap_or_else(PoisonError::into_inner).push(slot as usize);
        Ok(())
    }
}

/// Makes an object and gives the caller its pointer.
pub fn create<T: Object>(out: &Out<New<T>>, value: T) -> Outcome {
    if out.is_null() {
        return Err(bad(format!("no place for the new {}", T::NAME)));
    }
    out.put(make(value).handle())
}

/// Makes an object.
pub fn make<T: Object>(value: T) -> Obj<T> {
    let reused = T::free_slots().lock().unwrap_or_else(PoisonError::into_inner).pop();
    let slot = match reused {
        Some(address) => address as *mut Slot<T>,
        None => Box::into_raw(Box::new(Slot { cookie: AtomicU64::new(0), value: None })),
    };
    // SAFETY: a slot without an object, which only this thread has.
    unsafe {
        (*slot).value = Some(value);
        (*slot).cookie.store(T::COOKIE, Ordering::Release);
    }
    Obj(slot)
}
