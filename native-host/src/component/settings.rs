//! How WebAssembly runs here: the one set of engine settings, shared by the build script (which precompiles the embedded component)
//! and the host (which loads it). Code compiled under other settings is refused by wasmtime.
//!
//! Nothing in these settings touches the process: no signal handlers (traps are explicit checks), no address-space reservation, no
//! threads. Time is bounded by fuel, the stack by its own limit.

use wasmtime::{Config, WasmBacktraceDetails};

/// The triple that components are precompiled for. Naming it makes the compiler assume the baseline of the architecture instead of the
/// build machine's processor.
#[allow(dead_code, reason = "a host without a compiler has no use for it")]
pub const BASELINE_TARGET: &str = "x86_64-unknown-linux-gnu";

/// Stack that a component may use on the caller's thread, in bytes. The default of 512 KiB would kill small threads.
pub const MAX_WASM_STACK: usize = 64 << 10;

/// The settings, without a target.
pub fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .signals_based_traps(false)
        .memory_reservation(0)
        .memory_reservation_for_growth(0)
        .memory_guard_size(0)
        .memory_init_cow(false)
        .consume_fuel(true)
        .max_wasm_stack(MAX_WASM_STACK)
        .wasm_backtrace_max_frames(None)
        // Else a variable of wasmtime's decides, which would make the embedded component one of other settings.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .native_unwind_info(false)
        .generate_address_map(false);
    config
}
