//! The exported symbols and their slots.
//!
//! A stub is `jmp *slot`. At first a slot holds an entry that binds everything (environment, native library, routes) and jumps on; from
//! then on it holds the native function, or the entry that routes. The program's arguments are never touched.

use std::{
    cell::Cell,
    ffi::CStr,
    sync::{
        Once, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use hipdnn_host::{environment::Settings, trace::say};

use crate::{
    errors,
    native::Native,
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
}

/// What the first call found, for the life of the process.
pub struct Bound {
    natives: [usize; COUNT],
    handlers: [Option<Handler>; COUNT],
    /// Present if anything is forwarded.
    pub forwarding: Option<Forwarding>,
}

/// The one piece of global state that the C ABI forces on us: its functions have no receiver.
static BOUND: OnceLock<Bound> = OnceLock::new();
/// Whether the slots were filled.
static PUBLISHED: Once = Once::new();

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
        let native = Native::bind(&settings);
        if let Err(error) = &native {
            say(&format!("{error}; every call returns miopenStatusNotImplemented"));
        }
        let native = native.ok();
        let natives = std::array::from_fn(|index| native_of(native.as_ref(), NAMES[index]));
        let mut handlers = [None; COUNT];
        let forwarding = native.filter(|_| settings.forwards_anything()).map(|native| Forwarding::new(settings, &native));
        if let Some(forwarding) = &forwarding {
            for (slot, name) in handlers.iter_mut().zip(NAMES) {
                *slot = routing::handler(forwarding, name);
            }
        }
        Self { natives, handlers, forwarding }
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
    BOUND.get()
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
    // A native library that calls its own API while it is being loaded would come back here and wait for itself.
    if BINDING.replace(true) {
        return stand_in(NAMES[index]);
    }
    let target = std::panic::catch_unwind(|| {
        let bound = BOUND.get_or_init(Bound::new);
        // Once: a late first call must not undo `watch_everything`. And only now, since routed calls ask for BOUND.
        PUBLISHED.call_once(|| bound.publish());
        bound.target(index)
    });
    BINDING.set(false);
    target.unwrap_or_else(|_| stand_in(NAMES[index]))
}
