//! Gives the library the name under which hipDNN's clients ask for the backend.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhipdnn_backend.so");
}
