//! The edge to WebAssembly: exports, allocator, panic handler. No rule lives here.

use core::{arch::wasm32, panic::PanicInfo};

use crate::{
    activation, bindings,
    contract::{
        activation::{self as activation_contract, Guest as ActivationGuest},
        conv::{self as conv_contract, Guest as ConvGuest},
        fusion::{self as fusion_contract, Guest as FusionGuest},
        graph::{Capabilities, Decline, Translation},
        manifest::{Description, Guest as ManifestGuest},
    },
    conv, fusion, manifest,
};

#[global_allocator]
static ALLOCATOR: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

/// The rules are total; should one panic all the same, the host sees a trap and declines.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    wasm32::unreachable()
}

struct Component;

impl ManifestGuest for Component {
    fn describe() -> Description {
        manifest::describe()
    }
}

impl ConvGuest for Component {
    fn translate(problem: conv_contract::Problem, capabilities: Capabilities) -> Result<Translation, Decline> {
        conv::translate(&problem, &capabilities)
    }
}

impl FusionGuest for Component {
    fn translate(problem: fusion_contract::Problem, capabilities: Capabilities) -> Result<Translation, Decline> {
        fusion::translate(&problem, &capabilities)
    }
}

impl ActivationGuest for Component {
    fn translate(problem: activation_contract::Problem, capabilities: Capabilities) -> Result<Translation, Decline> {
        activation::translate(problem, &capabilities)
    }
}

bindings::export!(Component with_types_in bindings);
