#![no_main]
use hipdnn_host as _;
use libfuzzer_sys::fuzz_target;
fuzz_target!(|data: &[u8]| { let _ = data; });
