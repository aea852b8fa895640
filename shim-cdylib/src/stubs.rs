//! The exported symbols and their slots.
//!
//! A stub is `jmp *slot`. At first a slot holds an entry that binds everything (environment, native library, routes) and jumps on; from
//! then on it holds the native function, or the entry that routes. The program's arguments are never touched.

use std::{
    cell::Cell,
    ffi::CStr,
    ptr::null_mut,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicPtr, AtomicUsize, Ordering},
    },
};

use hipdnn_host::{
    cancellation,
    environment::Settings,
    gate,
    native::Library as Native,
    stack,
    trace::{self, say},
};

use crate::{
    callers, errors, native,
    routing::{self, Forwarding, Handler},
};

include!(concat!(env!("OUT_DIR"), "/names.rs"));

/// How many exports there are.
pub const COUNT: usize = NAMES.len();

core::arch::global_asm!(include_str!(concat!(env!("OUT_DIR"), "/stubs.s")), options(att_syntax));

// The two entries behind the stubs. `bind` saves every register that can carry an argument, asks Rust where to go, and goes there.
// `route` lays the arguments out as a `frame::Frame`, asks Rust for a verdict, and either tail-jumps to native with everything as it
// was, or returns. Both describe their frames, so that exceptions and debuggers pass through.
core::arch::global_asm!(
    r#"
    .text
    .macro miopen_shim_save
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    subq $128, %rsp
    movq %rdi, 0(%rsp)
    movq %rsi, 8(%rsp)
    movq %rdx, 16(%rsp)
    movq %rcx, 24(%rsp)
    movq %r8, 32(%rsp)
    movq %r9, 40(%rsp)
    movsd %xmm0, 48(%rsp)
    movsd %xmm1, 56(%rsp)
    movsd %xmm2, 64(%rsp)
    movsd %xmm3, 72(%rsp)
    movsd %xmm4, 80(%rsp)
    movsd %xmm5, 88(%rsp)
    movsd %xmm6, 96(%rsp)
    movsd %xmm7, 104(%rsp)
    movq %r11, 112(%rsp)
    .endm

    .macro miopen_shim_restore_and_jump
    movq 0(%rsp), %rdi
    movq 8(%rsp), %rsi
    movq 16(%rsp), %rdx
    movq 24(%rsp), %rcx
    movq 32(%rsp), %r8
    movq 40(%rsp), %r9
    movsd 48(%rsp), %xmm0
    movsd 56(%rsp), %xmm1
    movsd 64(%rsp), %xmm2
    movsd 72(%rsp), %xmm3
    movsd 80(%rsp), %xmm4
    movsd 88(%rsp), %xmm5
    movsd 96(%rsp), %xmm6
    movsd 104(%rsp), %xmm7
    .cfi_remember_state
    leave
    .cfi_def_cfa %rsp, 8
    jmp *%r11
    .cfi_restore_state
    .endm

    .p2align 4
miopen_shim_bind_entry:
    .cfi_startproc
    miopen_shim_save
    movq %r11, %rdi
    callq {bind}
    movq %rax, %r11
    miopen_shim_restore_and_jump
    .cfi_endproc

    .p2align 4
miopen_shim_route_entry:
    .cfi_startproc
    miopen_shim_save
    movq %rsp, %rdi
    callq {decide}
    testq %rax, %rax
    jz 1f
    movq %rax, %r11
    miopen_shim_restore_and_jump
1:
    movq %rdx, %rax
    leave
    .cfi_def_cfa %rsp, 8
    retq
    .cfi_endproc
    "#,
    bind = sym bind,
    decide = sym crate::frame::decide,
    options(att_syntax)
);

unsafe extern "C" {
    #[link_name = "miopen_shim_slots"]
    static SLOTS: [AtomicUsize; COUNT];
    #[link_name = "miopen_shim_routed"]
    static ROUTED: [usize; COUNT];
    #[link_name = "miopen_shim_unbound"]
    static UNBOUND: [usize; COUNT];
}

/// What the first call found, for the life of the process.
pub struct Bound {
    natives: [usize; COUNT],
    handlers: [Option<Handler>; COUNT],
    /// Present if anything is forwarded.
    pub forwarding: Option<Forwarding>,
    /// As they were read, for children: only if anything is forwarded.
    settings: Option<Settings>,
}

/// The one piece of global state that the C ABI forces on us: its functions have no receiver. Leaked on purpose: a call may be using it.
static BOUND: AtomicPtr<Bound> = AtomicPtr::new(null_mut());
/// In a forked child: what its parent had bound, of which the child keeps native's addresses and the settings.
static INHERITED: AtomicPtr<Bound> = AtomicPtr::new(null_mut());
/// Held by the thread that binds.
static BINDING_LOCK: Mutex<()> = Mutex::new(());

/// Stack that must be left on a thread that binds: the loader, and initialisers of native's that nobody knows.
const BINDING_STACK: usize = 256 << 10;
/// Stack of the thread that binds instead.
const LARGE_STACK: usize = 8 << 20;

thread_local! {
    static BINDING: Cell<bool> = const { Cell::new(false) };
}

impl Bound {
    /// The native function of an export.
    pub fn native(&self, index: usize) -> usize {
        self.natives[index]
    }

    /// What routes an export.
    pub fn handler(&self, index: usize) -> Option<Handler> {
        self.handlers[index]
    }

    fn new() -> Self {
        let settings = Settings::from_process();
        settings.warnings.iter().for_each(|warning| say(warning));
        let native = native::bind(&settings);
        if let Err(error) = &native {
            say(&format!("{error}; every call returns miopenStatusNotImplemented"));
        }
        let native = native.ok();
        let natives = std::array::from_fn(|index| native_of(native.as_ref(), NAMES[index]));
        let forwards = native.is_some() && settings.forwards_anything() && !gate::is_disturbed();
        let mixed = native.as_ref().filter(|_| forwards).and_then(|library| native::mixed(&settings, library));
        if let Some(mixed) = &mixed {
            say(&format!("{mixed}; every call goes to native MIOpen, unless MIOPEN_HIPDNN_NATIVE_LIBRARY names it"));
        }
        let forwards = forwards && mixed.is_none();
        if !forwards {
            trace::say_who_traces(&settings);
        }
        if let Some(address) = native.filter(|_| forwards).and_then(|native| native.symbol(c"miopenCreate")) {
            callers::add_module_of(address);
        }
        Self::with(natives, forwards.then_some(settings))
    }

    /// What a forked child binds: the same libraries and settings, and nothing of what its parent recorded and built, which locks of
    /// threads that the child does not have may guard. Native only, if the fork came in the middle of cold work.
    fn of_child(parent: &Self) -> Self {
        if gate::is_disturbed() {
            say("this process was forked while another thread loaded, translated or built; it uses native MIOpen only");
        }
        let settings = parent.settings.as_ref().filter(|_| !gate::is_disturbed());
        Self::with(parent.natives, settings.map(Settings::of_child))
    }

    fn with(natives: [usize; COUNT], settings: Option<Settings>) -> Self {
        let forwarding = settings.clone().map(Forwarding::new);
        let handlers = std::array::from_fn(|index| routing::handler(forwarding.as_ref()?, NAMES[index]));
        Self { natives, handlers, forwarding, settings }
    }

    /// From the first failure of a forwarded call on, every entry point takes the long way: only so can the mark of that failure be taken
    /// away by the next call, whichever it is. The same from when a handle is profiled, whose last call may be any. Costs nothing before.
    pub fn watch_everything(&self) {
        let own = miopen_api::FORWARDED_ERROR_FUNCTION.as_bytes();
        for index in (0..COUNT).filter(|&index| NAMES[index].to_bytes() != own) {
            // SAFETY: as in `publish`.
            unsafe { SLOTS[index].store(ROUTED[index], Ordering::Release) };
        }
    }

    /// Fills the slots: from now on stubs jump straight to where their calls belong.
    fn publish(&self) {
        // SAFETY: the table is defined by the stubs' assembly with COUNT entries; slots are only accessed atomically.
        let slots = unsafe { &SLOTS };
        for (index, slot) in slots.iter().enumerate() {
            slot.store(self.target(index), Ordering::Release);
        }
    }

    /// Where calls of an export belong.
    fn target(&self, index: usize) -> usize {
        // SAFETY: the table is defined by the stubs' assembly with COUNT entries and never written.
        if self.handlers[index].is_some() { unsafe { ROUTED[index] } } else { self.natives[index] }
    }
}

/// How many integers and pointers an export takes.
pub fn integers(index: usize) -> usize {
    usize::from(INTEGERS[index])
}

/// The native function of this name, or what stands in for it.
pub fn native_by_name(name: &str) -> usize {
    let index = NAMES.iter().position(|export| export.to_bytes() == name.as_bytes());
    index.and_then(|index| bound().map(|bound| bound.native(index))).unwrap_or(errors::not_implemented as *const () as usize)
}

/// Whether an export may start work on the device.
pub fn executes(index: usize) -> bool {
    EXECUTES[index]
}

/// What was bound. Only routed calls ask, and those exist only afterwards.
pub fn bound() -> Option<&'static Bound> {
    // SAFETY: null, or leaked by `settle`.
    unsafe { BOUND.load(Ordering::Acquire).as_ref() }
}

/// The address that a native call of this name goes to: native's own, or what stands in for a function that native lacks.
fn native_of(native: Option<&Native>, name: &CStr) -> usize {
    if name.to_bytes() == miopen_api::FORWARDED_ERROR_FUNCTION.as_bytes() {
        return errors::last_forwarded_error as *const () as usize;
    }
    native.and_then(|native| native.symbol(name)).unwrap_or_else(|| stand_in(name))
}

fn stand_in(name: &CStr) -> usize {
    if name == c"miopenGetErrorString" { errors::error_string as *const () as usize } else { errors::not_implemented as *const () as usize }
}

/// The first call of any export: binds everything and answers where this call goes.
///
/// Called by the assembly above with the index of the export. A panic here would have nowhere to go, so none may leave.
unsafe extern "C" fn bind(index: usize) -> usize {
    let _until_bound = cancellation::disabled();
    let target = if stack::is_growing() || stack::remaining() >= BINDING_STACK {
        bind_here(index)
    } else {
        // Without a thread to be had there is no room to bind; the next call tries again.
        stack::on_another(LARGE_STACK, || bind_here(index)).ok().flatten()
    };
    target.unwrap_or_else(|| stand_in(NAMES[index]))
}

fn bind_here(index: usize) -> Option<usize> {
    // A native library that calls its own API while it is being loaded would come back here and wait for itself.
    if BINDING.replace(true) {
        return None;
    }
    let target = std::panic::catch_unwind(|| settle().target(index));
    BINDING.set(false);
    target.ok()
}

/// What is bound, or is bound now. Who finds the lock taken waits until the slots are filled: only then may its call go on, for `publish`
/// must not undo `watch_everything`.
fn settle() -> &'static Bound {
    let _inside = gate::enter();
    // The one who held it when a disturbed child was forked may be gone.
    let _lock = (!gate::is_disturbed()).then(|| BINDING_LOCK.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(bound) = bound() {
        return bound;
    }
    // SAFETY: null, or leaked by an earlier call of this function.
    let parent = unsafe { INHERITED.load(Ordering::Acquire).as_ref() };
    let new: &'static Bound = Box::leak(Box::new(parent.map_or_else(Bound::new, Bound::of_child)));
    BOUND.store((&raw const *new).cast_mut(), Ordering::Release);
    // Only now, since routed calls ask for BOUND.
    new.publish();
    new
}

/// Run by the loader: from now on forks wait for cold work, and children begin anew. Nothing else happens before the first call.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = prepare_for_forks;

/// Handlers that are registered later run earlier before a fork. Once there are hipDNN and HIP, which may have handlers of their own that
/// take locks that cold work waits for, this is called again; the handlers do no harm twice.
pub extern "C" fn prepare_for_forks() {
    // SAFETY: the functions are ours, and the library is never unloaded. Without memory for it, forks are what they are without us.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child)) };
}

unsafe extern "C" fn before_fork() {
    gate::before_fork();
}

unsafe extern "C" fn after_fork_in_parent() {
    gate::after_fork_in_parent();
}

unsafe extern "C" fn after_fork_in_child() {
    gate::after_fork_in_child();
    let inherited = bound().filter(|bound| bound.forwarding.is_some());
    let Some(inherited) = inherited else { return };
    INHERITED.store((&raw const *inherited).cast_mut(), Ordering::Release);
    BOUND.store(null_mut(), Ordering::Release);
    // SAFETY: the tables are defined by the stubs' assembly with COUNT entries; slots are only accessed atomically.
    let (slots, unbound) = unsafe { (&SLOTS, &UNBOUND) };
    slots.iter().zip(unbound).for_each(|(slot, entry)| slot.store(*entry, Ordering::Release));
}
