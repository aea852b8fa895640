//! Gives the library the name under which hipDNN's clients ask for the backend; the file has a name of its own, because the reference
//! backend is built beside it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libhipdnn_backend.so");
}
