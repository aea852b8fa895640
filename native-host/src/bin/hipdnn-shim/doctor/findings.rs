//! Everything that doctor may find wrong: one table, from which `--help` and the findings of a report are made. When each of them is found
//! is decided in `judge` and `process`.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something that was asked for does not work.
    Error,
    /// It works, but perhaps not as it was meant.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// How bad a kind of finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Always this.
    Always(Severity),
    /// An error while forwarding is on, else a warning: it would be one.
    WhenForwarding,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable identifier.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is the case.
    pub what: String,
    /// Why it matters.
    pub why: &'static str,
    /// What to do.
    pub todo: String,
}

macro_rules! kinds {
    ($($name:ident $id:literal ($weight:expr) $why:literal $todo:literal;)*) => {
        /// A kind of finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = $why] $name,)*
        }

        impl Kind {
            /// All there are.
            pub const ALL: &[Kind] = &[$(Kind::$name,)*];

            /// Stable identifier.
            pub fn id(self) -> &'static str {
                match self { $(Kind::$name => $id,)* }
            }

            /// How bad it is.
            pub fn weight(self) -> Weight {
                use Severity::{Error, Note, Warning};
                use Weight::{Always, WhenForwarding};
                match self { $(Kind::$name => $weight,)* }
            }

            fn why(self) -> &'static str {
                match self { $(Kind::$name => $why,)* }
            }

            fn todo(self) -> &'static str {
                match self { $(Kind::$name => $todo,)* }
            }
        }
    };
}

kinds! {
    ShimMissing "shim.missing" (Always(Error))
        "without the shim nothing can be forwarded"
        "name the library with --shim FILE";
    ShimShadowed "shim.shadowed" (Always(Error))
        "programs get that library and never meet the shim"
        "put the shim's folder first in LD_LIBRARY_PATH";
    ShimNotInFront "shim.not-in-front" (Always(Warning))
        "a program without a search path of its own, and whose folder has no shim in place, does not meet the shim"
        "put the shim's folder first in LD_LIBRARY_PATH, or use hipdnn-shim install";
    ShimOtherVersion "shim.other-version" (Always(Warning))
        "this tool tells how its own version would choose, which may differ"
        "use the hipdnn-shim that came with that library";
    ForwardingOff "forwarding.off" (Always(Note))
        "every call reaches the native MIOpen; nothing of hipDNN is loaded"
        "set MIOPEN_HIPDNN_FORWARDING=1 to forward";
    ForwardingMisspelt "forwarding.misspelt" (Always(Warning))
        "a value that is not understood counts as off"
        "correct the value";
    ForwardingNothing "forwarding.nothing" (Always(Warning))
        "the master switch is on, but no function is left that may be forwarded"
        "look at the switches of the families, MIOPEN_USE_HIPDNN_FOR and MIOPEN_DISABLE_HIPDNN_FOR";
    EnvironmentValue "environment.value" (Always(Warning))
        "the value does not do what it was set for"
        "correct the value";
    EnvironmentUnknown "environment.unknown-variable" (Always(Warning))
        "no version of this shim reads it under this name, so that it has no effect"
        "correct the name, or unset it";
    NativeMissing "native.missing" (Always(Error))
        "every MIOpen call returns miopenStatusNotImplemented"
        "set MIOPEN_HIPDNN_NATIVE_LIBRARY to the libMIOpen.so.1 that was used so far, or use hipdnn-shim install";
    NativeOurselves "native.ourselves" (Always(Error))
        "the shim cannot stand before itself: every MIOpen call returns miopenStatusNotImplemented"
        "set MIOPEN_HIPDNN_NATIVE_LIBRARY to the libMIOpen.so.1 that AMD ships";
    NativeWrapper "native.wrapper" (Always(Warning))
        "it forwards to hipDNN itself, under the same variables; the shim passes it by and calls the library behind it"
        "set MIOPEN_HIPDNN_NATIVE_LIBRARY to the library behind it, so that nothing depends on the wrapper";
    NativeSplitAlone "native.split-alone" (Always(Warning))
        "that library has its functions only as ..._impl: programs linked with libMIOpen.so.1 do not start without the shim"
        "put the shim's folder first in LD_LIBRARY_PATH, or use hipdnn-shim install";
    HipMissing "hip.missing" (WhenForwarding)
        "without a HIP runtime hipDNN cannot be used: every call goes to native"
        "set MIOPEN_HIPDNN_HIP_LIBRARY to libamdhip64.so.N, or add its folder to LD_LIBRARY_PATH";
    HipNoDevice "hip.no-device" (WhenForwarding)
        "hipDNN has nothing to compute on: every call goes to native"
        "check the driver (/dev/kfd, /dev/dri and the groups render and video), HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES";
    TwoHips "rocm.two-hips" (WhenForwarding)
        "streams and memory of the one mean nothing to the other: wrong results or crashes"
        "leave one: unset MIOPEN_HIPDNN_HIP_LIBRARY, or name the runtime that the program and native use";
    MixedTrees "rocm.mixed" (Always(Warning))
        "libraries of different ROCm releases are not made to work together"
        "take native, HIP and hipDNN from one release";
    NativeOtherRelease "rocm.native" (WhenForwarding)
        "every call goes to native: what is between the two was not made for both"
        "set MIOPEN_HIPDNN_NATIVE_LIBRARY to the libMIOpen.so.1 of the HIP runtime's release";
    HipdnnMissing "hipdnn.missing" (WhenForwarding)
        "every call goes to native"
        "set MIOPEN_HIPDNN_BACKEND_LIBRARY to libhipdnn_backend.so, or add its folder to LD_LIBRARY_PATH";
    HipdnnUnusable "hipdnn.unusable" (WhenForwarding)
        "every call goes to native"
        "mend what the message names, or name another libhipdnn_backend.so with MIOPEN_HIPDNN_BACKEND_LIBRARY";
    HipdnnVersion "hipdnn.version" (WhenForwarding)
        "its interface is another one than this shim was built for: every call goes to native"
        "use a hipDNN and a shim that belong together";
    HipdnnHandle "hipdnn.handle" (WhenForwarding)
        "without a handle every call goes to native"
        "see hipDNN's own log: HIPDNN_LOG_LEVEL=info";
    HipdnnNoPluginFolder "hipdnn.no-plugin-folder" (WhenForwarding)
        "hipDNN computes by engine plugins only: without any, it declines every graph, and native computes"
        "install a provider (libmiopen_plugin.so, ...) there, or set HIPDNN_PLUGIN_DIR";
    HipdnnNoPlugins "hipdnn.no-plugins" (WhenForwarding)
        "hipDNN computes by engine plugins only: without any, it declines every graph, and native computes"
        "install a provider (libmiopen_plugin.so, ...) there, or set HIPDNN_PLUGIN_DIR";
    HipdnnNoEngines "hipdnn.no-engines" (WhenForwarding)
        "it declines every graph, and native computes"
        "see why it refuses the plugins: HIPDNN_LOG_LEVEL=info";
    TranslatorUnusable "translator.unusable" (WhenForwarding)
        "every call goes to native"
        "reinstall the shim";
    TranslatorRefused "translator.refused" (WhenForwarding)
        "every call goes to native, since MIOPEN_HIPDNN_TRANSLATOR_REQUIRED is on"
        "correct MIOPEN_HIPDNN_TRANSLATOR or its digest; try the file with hipdnn-shim rules --translator FILE";
    TranslatorOverride "translator.override" (Always(Warning))
        "the built-in translator is used instead"
        "correct MIOPEN_HIPDNN_TRANSLATOR, or unset it";
    CacheUnusable "cache.unusable" (Always(Warning))
        "every process translates and builds its plans anew"
        "set MIOPEN_HIPDNN_CACHE_DIR to a folder that this user may write, or MIOPEN_HIPDNN_CACHE=off";
    LibraryCrashed "library.crashed" (Always(Error))
        "a program that does the same ends the same way"
        "run the program under a debugger, or use another build of that library";
    ProcessNoShim "process.no-shim" (Always(Error))
        "its calls never meet the shim"
        "start it with the shim's folder first in LD_LIBRARY_PATH; if its RPATH wins, use hipdnn-shim install --in-place";
    ProcessNoMiopen "process.no-miopen" (Always(Warning))
        "it has not loaded MIOpen yet, or does not use it"
        "look again when it computes";
    ProcessTwoShims "process.two-shims" (Always(Error))
        "each keeps records of its own, and calls may reach either"
        "leave one: look at LD_PRELOAD, LD_LIBRARY_PATH and the program's RPATH";
    ProcessUnread "process.unread" (Always(Warning))
        "what it is cannot be told"
        "run this as root";
    ProcessUnbound "process.unbound" (Always(Note))
        "no MIOpen function was called yet, or no native was found"
        "look again when it computes, and at its standard error";
    ProcessReplaced "process.replaced" (Always(Note))
        "the process goes on with the old file"
        "start it anew to use the new one";
}

impl Kind {
    /// A finding of this kind.
    pub fn found(self, forwarding: bool, what: impl Into<String>) -> Finding {
        let severity = match self.weight() {
            Weight::Always(severity) => severity,
            Weight::WhenForwarding if forwarding => Severity::Error,
            Weight::WhenForwarding => Severity::Warning,
        };
        Finding { id: self.id(), severity, what: what.into(), why: self.why(), todo: self.todo().into() }
    }
}

/// Worst first.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by_key(|finding| finding.severity);
}

/// Whether any of them is an error.
pub fn any_error(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique() {
        let ids: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.id()).collect();
        assert_eq!(ids.len(), Kind::ALL.len());
    }

    #[test]
    fn what_hinders_only_forwarding_is_an_error_only_then() {
        let severity = |kind: Kind, forwarding| kind.found(forwarding, "").severity;
        assert_eq!(severity(Kind::HipdnnMissing, true), Severity::Error);
        assert_eq!(severity(Kind::HipdnnMissing, false), Severity::Warning);
        assert_eq!(severity(Kind::NativeMissing, false), Severity::Error);
        let mut findings = vec![Kind::ForwardingOff.found(false, ""), Kind::NativeMissing.found(false, "")];
        sort(&mut findings);
        assert!(findings[0].id == "native.missing" && any_error(&findings) && !any_error(&findings[1..]));
    }
}
