//! Exports by the table that all HIP runtimes of the tests have.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    hip_abi::build::library()
}
