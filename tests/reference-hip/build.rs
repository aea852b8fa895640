//! Gives the library the name by which programs built for ROCm 7 ask for HIP. Symbol versions are not set here yet.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libamdhip64.so.7");
}
