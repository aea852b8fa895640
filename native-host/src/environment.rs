//! What the operator asked for: every environment variable of the shim, read together, once. Nothing else reads the environment.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use crate::{
    cache::disk::{Options, folder::default_path},
    entry_points,
    translator::Wanted,
};

/// What the disk cache may take if nobody says.
const DEFAULT_CACHE_BYTES: u64 = 1 << 30;

/// Failures in a row that turn an entry point off if nobody says.
const DEFAULT_MAX_FAILURES: u32 = 100;

/// hipDNN's own variables that decide which engine it chooses. They are part of what a plan depends on; nothing else is done with them.
const BACKEND_CHOICES: &[&str] = &[
    "HIPDNN_HEUR_POLICY_ORDER",
    "HIPDNN_HEUR_CONFIG_PATH",
    "HIPDNN_HEUR_FALLBACK_ENGINE_ORDER",
    "HIPDNN_DISABLE_EXACT_ENGINE_CACHE",
    "HIPDNN_FORCE_BENCHMARKING",
    "HIPDNN_CACHE_DIR",
    "HIPDNN_DISABLE_CACHE",
    "HIPDNN_HEURISTIC_PLUGIN_DIR",
];

/// Operation families that can be forwarded. The names are those of the environment variables and of the contract's interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Convolution.
    Conv,
    /// Chains that one call computes: fusion plans, convolution with bias and activation.
    Fusion,
    /// A function of each element.
    Activation,
}

impl Family {
    /// All there are.
    pub const ALL: &[Family] = &[Family::Conv, Family::Fusion, Family::Activation];

    /// Lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conv => "conv",
            Self::Fusion => "fusion",
            Self::Activation => "activation",
        }
    }
}

/// One variable: its name, and what it does, for tables.
pub struct Variable {
    /// Name.
    pub name: &'static str,
    /// Effect, one line.
    pub effect: &'static str,
}

macro_rules! variables {
    ($($constant:ident $name:literal $effect:literal;)*) => {
        $(#[doc = $effect] pub const $constant: &str = $name;)*
        /// Every variable that is read. The README's table is this one.
        pub const VARIABLES: &[Variable] = &[$(Variable { name: $name, effect: $effect },)*];
    };
}

variables! {
    FORWARDING "MIOPEN_HIPDNN_FORWARDING" "master switch: enable(d)/1/yes/on/true or the opposites, any case; empty is unset; anything else: one warning, off";
    FORWARDING_CONV "MIOPEN_HIPDNN_FORWARDING_CONV" "off removes convolutions, under the master";
    FORWARDING_FUSION "MIOPEN_HIPDNN_FORWARDING_FUSION" "off removes fusion plans and the fused convolution call, under the master";
    FORWARDING_ACTIVATION "MIOPEN_HIPDNN_FORWARDING_ACTIVATION" "off removes activations, under the master";
    USE_FOR "MIOPEN_USE_HIPDNN_FOR" "comma list of families or entry points; if set, only these are forwarded; * is all";
    DISABLE_FOR "MIOPEN_DISABLE_HIPDNN_FOR" "comma list of families or entry points that are not forwarded; wins over all others";
    LIBRARY_PATH "LD_LIBRARY_PATH" "folders in which a stock native MIOpen is looked for, when none is named";
    ROCM_PATH "ROCM_PATH" "then its lib folder";
    NATIVE "MIOPEN_HIPDNN_NATIVE_LIBRARY" "path of the native MIOpen";
    BACKEND "MIOPEN_HIPDNN_BACKEND_LIBRARY" "path of libhipdnn_backend.so";
    HIP "MIOPEN_HIPDNN_HIP_LIBRARY" "path of the HIP runtime";
    TRANSLATOR "MIOPEN_HIPDNN_TRANSLATOR" "a translator component (.wasm) that serves instead of the built-in one; read once, by the first call that needs a translator";
    TRANSLATOR_SHA256 "MIOPEN_HIPDNN_TRANSLATOR_SHA256" "refuse it unless this is its SHA-256";
    TRANSLATOR_REQUIRED "MIOPEN_HIPDNN_TRANSLATOR_REQUIRED" "on: if it is refused, every call goes to native, instead of the built-in one serving";
    TRACE "MIOPEN_HIPDNN_TRACE" "one line that says who traces, then one for each routed call: text or json (on stderr), or a file (JSON if it ends in .json or .jsonl); %p is the pid";
    STATS "MIOPEN_HIPDNN_STATS" "file for the counters as JSON, rewritten when a handle is destroyed and at normal exit; %p is the pid";
    TIMING "MIOPEN_HIPDNN_FORWARDING_TIMING" "one line on stderr for each routed call: how long its phases took on the host, cold and warm calls apart";
    MEMINFO "MIOPEN_HIPDNN_FORWARDING_MEMINFO" "one line on stderr for each call that builds or executes a plan: device memory before and after";
    RANK "RANK" "with statistics: the process's rank in its job, which they note";
    MPI_RANK "OMPI_COMM_WORLD_RANK" "then this";
    SLURM_RANK "SLURM_PROCID" "then this";
    FIND "MIOPEN_HIPDNN_FIND" "deferred (default): where one result is asked for, native's Find runs only if hipDNN declines, then or later; both: always";
    DETERMINISTIC "MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC" "MIOpen's own: if on, every convolution counts as asked to be deterministic";
    ON_ERROR "MIOPEN_HIPDNN_ON_ERROR" "fallback: failures to build a plan go to native too; failures to execute never do";
    CACHE "MIOPEN_HIPDNN_CACHE" "disk cache: rw (default), ro (only read) or off";
    CACHE_DIR "MIOPEN_HIPDNN_CACHE_DIR" "its folder, owned by this user or root and writable by nobody else";
    CACHE_BELOW "MIOPEN_HIPDNN_CACHE_BELOW" "a second one, only read, for what the first does not have";
    CACHE_MAX_BYTES "MIOPEN_HIPDNN_CACHE_MAX_BYTES" "room for its entries; those not used for longest go (default 1073741824)";
    XDG_CACHE_HOME "XDG_CACHE_HOME" "without MIOPEN_HIPDNN_CACHE_DIR, the cache is hipdnn-shim in here";
    HOME "HOME" "or in .cache in here";
    MAX_FAILURES "MIOPEN_HIPDNN_MAX_FAILURES" "so many failed calls in a row turn an entry point off (default 100; 0: never)";
    STRICT "MIOPEN_HIPDNN_STRICT" "declined calls return miopenStatusUnsupportedOp instead of going to native";
    VERIFY "MIOPEN_HIPDNN_VERIFY" "on: native computes what hipDNN served again, elsewhere; a line on stderr where results differ too much. Slow";
}

/// Where trace lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceTarget {
    /// Text on stderr.
    Text,
    /// JSON on stderr.
    Json,
    /// A file.
    File(PathBuf),
}

/// The resolved settings. Immutable for the life of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    master: bool,
    conv: bool,
    fusion: bool,
    activation: bool,
    only: Option<Vec<String>>,
    except: Vec<String>,
    /// Explicit path of the native library.
    pub native_library: Option<PathBuf>,
    /// Explicit path of the backend.
    pub backend_library: Option<PathBuf>,
    /// Explicit path of the HIP runtime.
    pub hip_library: Option<PathBuf>,
    /// The translator instead of the built-in one.
    pub translator: Option<Wanted>,
    /// The loader's search path.
    pub library_path: Option<OsString>,
    /// Where ROCm is installed.
    pub rocm_path: Option<PathBuf>,
    /// Trace lines.
    pub trace: Option<TraceTarget>,
    /// Counters file; as given, until [`Settings::resolved`].
    pub stats: Option<PathBuf>,
    /// Phase timings on stderr.
    pub timing: bool,
    /// Device memory on stderr.
    pub meminfo: bool,
    /// The process's rank in its job.
    pub rank: Option<u32>,
    /// Whether native's Find runs even where hipDNN has the one result that was asked for.
    pub find_both: bool,
    /// Every convolution is asked to be deterministic.
    pub deterministic: bool,
    /// Build failures fall back to native.
    pub fallback: bool,
    /// So many failures in a row turn an entry point off; 0: never.
    pub max_failures: u32,
    /// Declines are returned instead of going to native.
    pub strict: bool,
    /// What hipDNN served is computed by native too, and compared.
    pub verify: bool,
    /// Where the disk cache is: nowhere, if it is off; or why that is not known.
    pub cache: Option<Result<Options, String>>,
    /// hipDNN's own variables that decide which engine it chooses, as lines.
    pub backend_choices: String,
    /// What was wrong with the environment: one line each.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Reads the process environment. In a set-uid-like process (AT_SECURE) no variable that holds a path is read.
    pub fn from_process() -> Self {
        // SAFETY: getauxval takes a number and has no side effects.
        let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
        Self::read(|name| std::env::var_os(name), secure)
    }

    /// Reads from any source; the seam for tests.
    pub fn read(lookup: impl Fn(&str) -> Option<OsString>, secure: bool) -> Self {
        let mut settings = Self::default();
        let text = |name: &str| lookup(name).filter(|v| !v.is_empty());
        let path = |name: &str| if secure { None } else { text(name).map(PathBuf::from) };
        settings.master = settings.switch(FORWARDING, text(FORWARDING), false);
        settings.conv = settings.switch(FORWARDING_CONV, text(FORWARDING_CONV), true);
        settings.fusion = settings.switch(FORWARDING_FUSION, text(FORWARDING_FUSION), true);
        settings.activation = settings.switch(FORWARDING_ACTIVATION, text(FORWARDING_ACTIVATION), true);
        settings.only = text(USE_FOR).map(|v| list(&v));
        settings.except = text(DISABLE_FOR).map_or_else(Vec::new, |v| list(&v));
        settings.warn_of_unknown_names();
        settings.native_library = path(NATIVE);
        settings.backend_library = path(BACKEND);
        settings.hip_library = path(HIP);
        let sha256 = text(TRANSLATOR_SHA256).map(|digest| digest.to_string_lossy().trim().to_ascii_lowercase());
        let required = settings.switch(TRANSLATOR_REQUIRED, text(TRANSLATOR_REQUIRED), false);
        settings.translator = path(TRANSLATOR).map(|path| Wanted { path, sha256, required });
        settings.library_path = path(LIBRARY_PATH).map(OsString::from);
        settings.rocm_path = path(ROCM_PATH);
        settings.trace = text(TRACE).and_then(|v| settings.trace_target(&v, secure));
        settings.stats = path(STATS);
        settings.timing = settings.switch(TIMING, text(TIMING), false);
        settings.meminfo = settings.switch(MEMINFO, text(MEMINFO), false);
        settings.rank = [RANK, MPI_RANK, SLURM_RANK].iter().find_map(|name| text(name)?.to_str()?.trim().parse().ok());
        settings.find_both = settings.one_of(FIND, text(FIND), &["deferred", "both"]) == 1;
        settings.deterministic = text(DETERMINISTIC).is_some_and(|value| truth(&value) == Some(true));
        settings.fallback = settings.word(ON_ERROR, text(ON_ERROR), "fallback");
        settings.max_failures = settings.number(MAX_FAILURES, text(MAX_FAILURES), DEFAULT_MAX_FAILURES);
        settings.strict = settings.switch(STRICT, text(STRICT), false);
        settings.verify = settings.switch(VERIFY, text(VERIFY), false);
        settings.cache = if secure { None } else { settings.cache_options(&text) };
        let choices = BACKEND_CHOICES.iter().filter_map(|name| Some(format!("{name}={:?}", text(name)?)));
        settings.backend_choices = choices.collect::<Vec<_>>().join("\n");
        settings
    }

    fn cache_options(&mut self, text: &impl Fn(&str) -> Option<OsString>) -> Option<Result<Options, String>> {
        let mode = self.one_of(CACHE, text(CACHE), &["rw", "ro", "off"]);
        let path = |name: &str| text(name).map(PathBuf::from);
        let max_bytes = self.number(CACHE_MAX_BYTES, text(CACHE_MAX_BYTES), DEFAULT_CACHE_BYTES);
        let folder = path(CACHE_DIR).or_else(|| default_path(path(XDG_CACHE_HOME).as_deref(), path(HOME).as_deref()));
        let options = |path| Options { path, writes: mode == 0, below: text(CACHE_BELOW).map(PathBuf::from), max_bytes };
        let nowhere = || format!("no folder for the disk cache: {HOME} says none; set {CACHE_DIR}, or {CACHE}=off");
        (mode != 2).then(|| folder.map(options).ok_or_else(nowhere))
    }

    /// With the process id in the names of files.
    pub fn resolved(mut self) -> Self {
        self.stats = self.stats.as_deref().map(with_pid);
        if let Some(TraceTarget::File(path)) = &mut self.trace {
            *path = with_pid(path);
        }
        self
    }

    /// Those of a forked child, which reads nothing again: a counters file without the process id in its name stays its parent's.
    pub fn of_child(&self) -> Self {
        let stats = self.stats.clone().filter(|path| with_pid(path) != *path);
        Self { stats, ..self.clone() }
    }

    /// Whether calls of an entry point are forwarded.
    pub fn forwards(&self, family: Family, entry_point: &str) -> bool {
        let named = |list: &[String]| {
            list.iter().any(|item| item == "*" || item.eq_ignore_ascii_case(family.name()) || item.eq_ignore_ascii_case(entry_point))
        };
        self.is_on(family) && self.only.as_deref().is_none_or(named) && !named(&self.except)
    }

    /// Whether anything at all may be forwarded.
    pub fn forwards_anything(&self) -> bool {
        Family::ALL.iter().any(|family| self.is_on(*family)) && !self.except.iter().any(|item| item == "*")
    }

    /// The families whose switches are on, lists aside.
    pub fn families(&self) -> Vec<Family> {
        Family::ALL.iter().copied().filter(|family| self.is_on(*family)).collect()
    }

    fn is_on(&self, family: Family) -> bool {
        self.master
            && match family {
                Family::Conv => self.conv,
                Family::Fusion => self.fusion,
                Family::Activation => self.activation,
            }
    }

    /// What else is on that is off by default, in words.
    pub fn options(&self) -> Vec<&'static str> {
        let options = [
            (self.only.is_some() || !self.except.is_empty(), "not all functions"),
            (self.find_both, "find both"),
            (self.deterministic, "deterministic"),
            (self.fallback, "on error fallback"),
            (self.strict, "strict"),
        ];
        options.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect()
    }

    /// A word that means nothing is a misspelt one. Without the master it does no harm.
    fn warn_of_unknown_names(&mut self) {
        let lists = [(USE_FOR, self.only.as_deref().unwrap_or_default()), (DISABLE_FOR, &self.except)];
        let warn = |(name, list): (&str, &[String])| {
            let unknown: Vec<String> = list.iter().filter(|word| !entry_points::is_known(word)).map(|word| format!("{word:?}")).collect();
            let families = Family::ALL.iter().map(|family| family.name()).collect::<Vec<_>>().join(", ");
            (!unknown.is_empty()).then(|| {
                let unknown = unknown.join(", ");
                format!("{name}: {unknown} is neither a family ({families}), nor a function of MIOpen that is forwarded, nor *; ignored")
            })
        };
        let warnings: Vec<String> = lists.into_iter().filter_map(warn).collect();
        self.warnings.extend(warnings.into_iter().filter(|_| self.master));
    }

    fn switch(&mut self, name: &str, value: Option<OsString>, default: bool) -> bool {
        let Some(value) = value else { return default };
        truth(&value).unwrap_or_else(|| {
            self.warnings.push(format!("{name}={value:?} is neither enabled/1/yes/on/true nor disabled/0/no/off/false; taken as off"));
            false
        })
    }

    /// Which of some words it is; the first if it is none of them.
    fn one_of(&mut self, name: &str, value: Option<OsString>, words: &[&str]) -> usize {
        let Some(value) = value else { return 0 };
        let found = value.to_str().and_then(|v| words.iter().position(|word| v.eq_ignore_ascii_case(word)));
        found.unwrap_or_else(|| {
            self.warnings.push(format!("{name}={value:?} is none of {}; taken as {}", words.join(", "), words[0]));
            0
        })
    }

    fn number<T: std::str::FromStr + Copy + std::fmt::Display>(&mut self, name: &str, value: Option<OsString>, default: T) -> T {
        let Some(value) = value else { return default };
        value.to_str().and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| {
            self.warnings.push(format!("{name}={value:?} is no such number; taken as {default}"));
            default
        })
    }

    fn word(&mut self, name: &str, value: Option<OsString>, word: &str) -> bool {
        let Some(value) = value else { return false };
        let matches = value.to_str().is_some_and(|v| v.eq_ignore_ascii_case(word));
        if !matches {
            self.warnings.push(format!("{name}={value:?} is not {word:?}; ignored"));
        }
        matches
    }

    fn trace_target(&mut self, value: &OsString, secure: bool) -> Option<TraceTarget> {
        match value.to_str() {
            Some(v) if v.eq_ignore_ascii_case("text") => Some(TraceTarget::Text),
            Some(v) if v.eq_ignore_ascii_case("json") => Some(TraceTarget::Json),
            _ if secure => None,
            _ => Some(TraceTarget::File(PathBuf::from(value))),
        }
    }
}

/// The words of MIOpen's own boolean variables, in any case.
fn truth(value: &OsString) -> Option<bool> {
    match value.to_str().map(str::to_ascii_lowercase).as_deref() {
        Some("enable" | "enabled" | "1" | "yes" | "on" | "true") => Some(true),
        Some("disable" | "disabled" | "0" | "no" | "off" | "false") => Some(false),
        _ => None,
    }
}

fn list(value: &OsString) -> Vec<String> {
    value.to_string_lossy().split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_string).collect()
}

/// The path with the process's id for each `%p`.
pub fn with_pid(path: &Path) -> PathBuf {
    let (mut named, mut rest) = (Vec::new(), path.as_os_str().as_bytes());
    while let Some(at) = rest.windows(2).position(|two| two == b"%p") {
        named.extend_from_slice(&rest[..at]);
        named.extend_from_slice(std::process::id().to_string().as_bytes());
        rest = &rest[at + 2..];
    }
    named.extend_from_slice(rest);
    OsString::from_vec(named).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        Settings::read(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v)), false)
    }

    fn forwards(pairs: &[(&str, &str)]) -> bool {
        settings(pairs).forwards(Family::Conv, "miopenConvolutionForward")
    }

    // V51 of the case list.
    #[test]
    fn the_master_switch_takes_the_usual_words() {
        for on in ["Enabled", "ENABLE", "1", "yes", "on", "TRUE"] {
            assert!(forwards(&[(FORWARDING, on)]), "{on}");
        }
        for off in ["", "0", "no", "OFF", "false", "Disabled", "disable"] {
            let read = settings(&[(FORWARDING, off)]);
            assert!(!read.forwards_anything() && read.warnings.is_empty(), "{off}");
        }
        for odd in [" enabled", "2", "enabled,"] {
            let read = settings(&[(FORWARDING, odd)]);
            assert!(!read.forwards_anything());
            assert!(read.warnings.len() == 1 && read.warnings[0].contains(FORWARDING), "{:?}", read.warnings);
        }
        let bytes = Settings::read(|n| (n == FORWARDING).then(|| OsString::from_vec(vec![0xff, 0xfe])), false);
        assert!(!bytes.forwards_anything() && bytes.warnings.len() == 1);
        assert_eq!(settings(&[]).warnings.len(), 0);
    }

    #[test]
    fn families_and_lists_narrow_the_master() {
        let on = (FORWARDING, "1");
        assert!(!forwards(&[(FORWARDING_CONV, "1")]));
        assert!(!forwards(&[on, (FORWARDING_CONV, "off")]));
        assert!(forwards(&[on, (USE_FOR, "bn,Conv")]));
        assert!(!forwards(&[on, (USE_FOR, "bn")]));
        assert!(forwards(&[on, (USE_FOR, "miopenConvolutionForward")]));
        for except in ["*", "conv", "Conv,,bn", "miopenconvolutionforward"] {
            assert!(!forwards(&[on, (DISABLE_FOR, except)]), "{except}");
            assert!(!forwards(&[on, (USE_FOR, "conv"), (DISABLE_FOR, except)]), "{except}");
        }
        assert!(forwards(&[on, (DISABLE_FOR, "unknown")]));
    }

    // V51 too.
    #[test]
    fn names_that_mean_nothing_are_told_in_one_line_for_each_list() {
        let on = (FORWARDING, "1");
        for good in ["*", "conv", "Conv,,fusion", "miopenconvolutionforward", ""] {
            assert!(settings(&[on, (DISABLE_FOR, good), (USE_FOR, good)]).warnings.is_empty(), "{good}");
        }
        let odd = settings(&[on, (DISABLE_FOR, "Conv,,bn, cnov"), (USE_FOR, "unknown")]);
        assert_eq!(odd.warnings.len(), 2, "{:?}", odd.warnings);
        assert!(
            odd.warnings[0].starts_with(USE_FOR) && odd.warnings[0].contains(r#""unknown" is neither a family (conv, fusion, activation)"#)
        );
        assert!(odd.warnings[1].starts_with(DISABLE_FOR) && odd.warnings[1].contains(r#""bn", "cnov""#));
        assert!(settings(&[(DISABLE_FOR, "unknown")]).warnings.is_empty(), "the master is off");
    }

    #[test]
    fn families_are_those_whose_switches_are_on() {
        assert_eq!(settings(&[(FORWARDING, "1")]).families(), Family::ALL);
        assert_eq!(settings(&[(FORWARDING, "1"), (FORWARDING_CONV, "0")]).families(), [Family::Fusion, Family::Activation]);
        assert_eq!(settings(&[]).families(), []);
    }

    #[test]
    fn find_is_deferred_unless_both_are_asked_for() {
        assert!(!settings(&[]).find_both && settings(&[(FIND, "Both")]).find_both && !settings(&[(FIND, "deferred")]).find_both);
        let odd = settings(&[(FIND, "always")]);
        assert!(!odd.find_both && odd.warnings.len() == 1 && odd.warnings[0].contains(FIND), "{:?}", odd.warnings);
    }

    #[test]
    fn the_rank_is_the_first_that_is_a_number() {
        assert_eq!(settings(&[(SLURM_RANK, "7"), (RANK, "3")]).rank, Some(3));
        assert_eq!(settings(&[(SLURM_RANK, "7"), (RANK, "three")]).rank, Some(7));
        assert_eq!(settings(&[(MPI_RANK, "-1")]).rank, None);
        assert!(settings(&[(RANK, "x")]).warnings.is_empty(), "the variable is not ours");
    }

    #[test]
    fn determinism_is_read_as_miopen_reads_it() {
        for (value, on) in [("1", true), ("ENABLED", true), ("0", false), ("2", false)] {
            let read = settings(&[(DETERMINISTIC, value)]);
            assert!(read.deterministic == on && read.warnings.is_empty(), "{value}");
        }
    }

    #[test]
    fn a_child_keeps_files_that_are_named_after_it() {
        let read = settings(&[(STATS, "/tmp/stats"), (TRACE, "/tmp/trace%p")]);
        let named = format!("/tmp/trace{}", std::process::id());
        assert_eq!(read.clone().resolved().trace, Some(TraceTarget::File(named.into())));
        assert_eq!((read.of_child().stats, read.resolved().stats), (None, Some("/tmp/stats".into())));
        let read = settings(&[(STATS, "/tmp/%p.json")]);
        assert_eq!(read.of_child().resolved().stats, Some(format!("/tmp/{}.json", std::process::id()).into()));
    }

    #[test]
    fn paths_that_are_no_text_are_named_after_the_process_too() {
        let path = |pid: &str| PathBuf::from(OsString::from_vec([b"/tmp/\xff", pid.as_bytes(), b"-%-", pid.as_bytes()].concat()));
        assert_eq!(with_pid(&path("%p")), path(&std::process::id().to_string()));
    }

    #[test]
    fn a_privileged_process_reads_no_path() {
        let all = |name: &str| Some(OsString::from(if name == FORWARDING { "1" } else { "/tmp/evil" }));
        let read = Settings::read(all, true);
        assert_eq!((read.native_library, read.backend_library, read.hip_library), (None, None, None));
        assert_eq!((read.trace, read.stats), (None, None));
    }
}
