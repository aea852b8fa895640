//! The edge to the native MIOpen: loaded, told apart from ourselves, and asked for the addresses of its functions.

use std::{
    ffi::{CStr, CString},
    mem::ManuallyDrop,
    path::{Path, PathBuf},
};

use libloading::os::unix::{Library as Loaded, RTLD_LAZY, RTLD_LOCAL};

use super::search::{self, Surroundings};
use crate::{
    modules::{Module, module_of},
    search::{Candidate, Reason, Search, first},
};

/// By which names its functions are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// As programs call them.
    Plain,
    /// `<name>_impl`, or the plain one for the few that kept it: the private library of a split install.
    Implementation,
}

/// A native library. Never unloaded: slots point into it.
#[derive(Debug)]
pub struct Library {
    loaded: ManuallyDrop<Loaded>,
    names: Names,
}

impl Library {
    /// The first of the places that can be used.
    pub fn find(around: &Surroundings<'_>) -> Search<Self> {
        first(search::candidates(around), |candidate| Self::open(candidate, around.own_file))
    }

    fn open(candidate: &Candidate, own_file: Option<&Path>) -> Result<Self, Reason> {
        let file = candidate.file.as_path();
        if candidate.is_path() && !file.exists() {
            return Err(Reason::Missing);
        }
        if own_file.is_some_and(|own| search::is_same_file(own, file)) {
            return Err(Reason::Ourselves);
        }
        // Lazy, so that a native with an undefined dependency fails only where it is used, as it would without us.
        Reason::of_place(file)?;
        // SAFETY: loading runs the library's initialisers, which the program would have run without us.
        let loaded = unsafe { Loaded::open(Some(file), RTLD_LAZY | RTLD_LOCAL) }.map_err(|error| Reason::of_loader(file, error))?;
        let loaded = ManuallyDrop::new(loaded);
        let has = |name: &CStr| find(&loaded, name).is_some();
        if CString::new(miopen_api::FORWARDED_ERROR_FUNCTION).is_ok_and(|name| has(&name)) {
            return Err(Reason::AnotherBuild);
        }
        // An installed native has plain names only, whatever its dependencies export.
        let installed = [&search::INSTALLED_BESIDE, &search::INSTALLED_LOADER].contains(&candidate.rule);
        match (has(c"miopenCreate_impl"), has(c"miopenCreate")) {
            (true, _) if !installed => Ok(Self { loaded, names: Names::Implementation }),
            (true, _) | (_, true) => Ok(Self { loaded, names: Names::Plain }),
            _ => Err(Reason::Lacks("miopenCreate")),
        }
    }

    /// The address of a native function.
    pub fn symbol(&self, name: &CStr) -> Option<usize> {
        if self.names == Names::Implementation {
            let implementation = CString::new([name.to_bytes(), b"_impl"].concat()).ok()?;
            return find(&self.loaded, &implementation).or_else(|| find(&self.loaded, name));
        }
        find(&self.loaded, name)
    }

    /// By which names its functions are called.
    pub fn names(&self) -> Names {
        self.names
    }

    /// The file that executes.
    pub fn file(&self) -> Option<PathBuf> {
        Some(module_of(self.symbol(c"miopenCreate")?)?.file)
    }

    /// The file of upstream's forwarding wrapper, if that is what was found: it has the plain names, and the library behind it, which is
    /// the one whose functions are called, has the others.
    pub fn wrapper(&self) -> Option<PathBuf> {
        let module = |name: &CStr| -> Option<Module> { module_of(find(&self.loaded, name)?) };
        let (plain, implementation) = (module(c"miopenCreate")?, module(c"miopenCreate_impl")?);
        (plain.base != implementation.base).then_some(plain.file)
    }

    /// What it says about its version. Calls into it.
    pub fn version(&self) -> Option<String> {
        type GetVersion = unsafe extern "C" fn(*mut usize, *mut usize, *mut usize) -> i32;
        let address = self.symbol(c"miopenGetVersion")?;
        // SAFETY: MIOpen's function of this name has had this type in every release.
        let get_version = unsafe { std::mem::transmute::<usize, GetVersion>(address) };
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: all three are writable.
        let status = unsafe { get_version(&mut major, &mut minor, &mut patch) };
        (status == miopen_api::status::SUCCESS).then(|| format!("{major}.{minor}.{patch}"))
    }
}

fn find(library: &Loaded, name: &CStr) -> Option<usize> {
    // SAFETY: only the address is taken; whoever calls it knows the function's type.
    unsafe { library.get::<*mut ()>(name.to_bytes_with_nul()) }.ok().map(|symbol| symbol.as_raw_ptr() as usize).filter(|a| *a != 0)
}
