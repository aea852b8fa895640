//! The C++ exceptions that leave the real library's C interface. This library has no C++ in it; a C++ test client lends its
//! own: with the environment variable `REFERENCE_MIOPEN_THROW` set at the first such call, and a global function
//! `extern "C" void reference_miopen_thrower(void)` visible to `dlsym(RTLD_DEFAULT, …)`, that function is called and is
//! expected to throw. Otherwise, or if it returns, the call returns its status.

use std::sync::OnceLock;

type Thrower = unsafe extern "C-unwind" fn();

/// Throws, if the environment asks for it and someone can. Must be called where nothing catches panics.
pub fn if_asked() {
    if let Some(thrower) = thrower() {
        // SAFETY: the client's function of the agreed name and type; every frame up to the caller may be unwound.
        unsafe { thrower() };
    }
}

fn thrower() -> Option<Thrower> {
    static THROWER: OnceLock<Option<Thrower>> = OnceLock::new();
    *THROWER.get_or_init(|| {
        std::env::var_os("REFERENCE_MIOPEN_THROW")?;
        // SAFETY: a constant C string; the result is null or the function of that name.
        let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"reference_miopen_thrower".as_ptr()) };
        // SAFETY: a function of the agreed type.
        (!symbol.is_null()).then(|| unsafe { core::mem::transmute::<*mut libc::c_void, Thrower>(symbol) })
    })
}
