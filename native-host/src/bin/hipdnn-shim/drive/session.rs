//! A process that runs lines through libMIOpen as MIOpenDriver would call it: libraries, environment, trace, the sequence of calls,
//! measuring. Which lines, and what is printed, is decided elsewhere in this folder; the edges to the libraries are in `libraries`, the
//! expected values in `reference`.

use std::{
    env,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Error, Result};
use clap::{Args, ValueEnum};
use hipdnn_host::environment;
use miopen_api::convolution_mode;

use crate::{
    Usage,
    convolution::{Convolution, Tensor},
    flags::{Base, Direction, Line},
    libraries::{Buffer, Call, CallError, Hip, MiOpen, Owned, beside, calls},
    output::Record,
    reference::{self, Reference, Values},
    trace::{self, TraceFile},
};

/// The number that the GEMM algorithm has in every direction.
const GEMM: i32 = 0;
/// The most iterations: every one leaves a line in the trace.
const MAX_ITERATIONS: i64 = 100_000;
/// The longest tensor that is driven: inputs are kept in double precision for the check.
const MAX_ELEMENTS: i64 = 1 << 30;
/// Where a native MIOpen for the shim may lie beside this executable.
const NATIVE_BESIDE: &[&str] = &["../lib/reference/libMIOpen_private.so.1", "libMIOpen_private.so"];
/// Where a hipDNN backend may lie beside this executable.
pub const BACKEND_BESIDE: &[&str] = &["../lib/reference/libhipdnn_backend.so", "../lib/libhipdnn_backend.so", "libhipdnn_backend.so"];

/// What lines run on.
#[derive(Args, Clone)]
pub struct Settings {
    /// The libMIOpen to run on (default: the one beside this program, else the loader's)
    #[arg(long, value_name = "LIB")]
    pub shim: Option<PathBuf>,
    /// The native MIOpen behind the shim
    #[arg(long, value_name = "LIB")]
    pub native: Option<PathBuf>,
    /// The hipDNN backend
    #[arg(long, value_name = "LIB")]
    pub backend: Option<PathBuf>,
    /// The HIP runtime
    #[arg(long, value_name = "LIB")]
    pub hip: Option<PathBuf>,
    /// Whether the shim forwards
    #[arg(long, value_enum, default_value = "on")]
    pub forwarding: Forwarding,
    /// Leave the environment as it is: no variable of the shim is set
    #[arg(long, conflicts_with_all = ["native", "backend", "forwarding"])]
    pub keep_environment: bool,
    /// Look at no result, whatever the line says
    #[arg(long, hide = true)]
    pub unverified: bool,
}

/// Whether the shim forwards.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Forwarding {
    /// It does, what it can.
    On,
    /// Every call is native's.
    Off,
}

/// Refuses what this tool could only run as something else.
pub fn drivable(convolution: &Convolution, line: &Line) -> Result<(), Usage> {
    if [&convolution.x, &convolution.w, &convolution.y].iter().any(|t| t.cast_type.is_some()) {
        return Err(Usage("not driven yet: cast types".into()));
    }
    if [&convolution.x, &convolution.w, &convolution.y].iter().any(|t| t.elements() > MAX_ELEMENTS) {
        return Err(Usage(format!("not driven yet: tensors of more than {MAX_ELEMENTS} elements (translate takes them)")));
    }
    if padded(convolution) > MAX_ELEMENTS {
        return Err(Usage(format!("not driven: pads that make more than {MAX_ELEMENTS} elements of the input (translate takes them)")));
    }
    let gradients = line.directions()?.iter().any(|direction| *direction != Direction::Forward);
    if line.base == Base::ConvInt8 && gradients {
        return Err(Usage("convint8 has no gradients: -F 1".into()));
    }
    let packed = [&convolution.x, &convolution.y].iter().all(|tensor| tensor.layout == "NCHW");
    let computed = packed && !gradients && !convolution.transposed && matches!(line.base, Base::ConvFp16 | Base::ConvInt8);
    if convolution.x.vector > 1 && !computed {
        return Err(Usage("vectors of channels: only convfp16 and convint8, forward (-F 1), not transposed, x and y NCHW".into()));
    }
    if !(0..=MAX_ITERATIONS).contains(&line.integer("iter")) {
        return Err(Usage(format!("iter is {}, but must be between 0 and {MAX_ITERATIONS}", line.integer("iter"))));
    }
    Ok(())
}

/// How many elements what windows slide over has with its pads.
fn padded(convolution: &Convolution) -> i64 {
    let image = if convolution.transposed { &convolution.y } else { &convolution.x };
    let spatial = image.dims[2..].iter().zip(&convolution.pads).map(|(length, pad)| pad.saturating_mul(2).saturating_add(*length));
    image.dims[..2].iter().copied().chain(spatial).fold(1, i64::saturating_mul)
}

/// The loaded libraries of this process. There can be one: the shim reads its environment once.
pub struct Session {
    hip: Hip,
    miopen: MiOpen,
    trace: Option<TraceFile>,
    forwards: bool,
    verifies: bool,
}

impl Session {
    /// Sets the environment and loads the libraries.
    pub fn open(settings: &Settings) -> Result<Self> {
        let mut trace = if settings.keep_environment { TraceFile::of_environment() } else { Some(TraceFile::temporary()?) };
        if !settings.keep_environment {
            set_environment(settings, trace.as_ref().map(TraceFile::path));
        }
        // HIP first, as the loader would: MIOpen finds it in the process.
        let named = settings.hip.clone().or_else(|| env::var_os(environment::HIP).filter(|v| !v.is_empty()).map(PathBuf::from));
        let hip = Hip::load(named.as_deref())?;
        let miopen = MiOpen::load(settings.shim.as_deref())?;
        // Without a native library this fails as every call will, and each line says so.
        let _ = miopen.begin();
        if let Some(trace) = &mut trace {
            trace.opened();
        }
        Ok(Self { hip, miopen, trace, forwards: forwards(settings), verifies: !settings.unverified })
    }

    /// Drives one direction of a line.
    pub fn drive(&mut self, line: &Line, convolution: &Convolution, direction: Direction) -> Result<Record> {
        if let Some(trace) = &mut self.trace {
            trace.start_here();
        }
        let run =
            Run { hip: &self.hip, miopen: &self.miopen, line, convolution, direction, lenient: self.forwards, verifies: self.verifies };
        let mut record = Record::new(line, direction);
        let outcome = run.drive(&mut record);
        fill_route(&mut record, direction, self.trace.as_ref(), self.forwards);
        if let Err(error) = outcome {
            fill_failure(&mut record, direction, error, self.forwards)?;
        }
        Ok(record)
    }
}

/// Whether forwarding is asked for. With the environment kept, any value that is set may mean so.
fn forwards(settings: &Settings) -> bool {
    if settings.keep_environment { env::var_os(environment::FORWARDING).is_some() } else { settings.forwarding == Forwarding::On }
}

/// Tells the shim what the options say. It reads the environment at its first call.
fn set_environment(settings: &Settings, trace: Option<&Path>) {
    let set = |name: &str, value: &Path| {
        // SAFETY: this program has one thread, and no library has been loaded yet.
        unsafe { env::set_var(name, value) }
    };
    let forwarding = if settings.forwarding == Forwarding::On { "1" } else { "0" };
    set(environment::FORWARDING, Path::new(forwarding));
    let libraries = [
        (environment::NATIVE, &settings.native, NATIVE_BESIDE),
        (environment::BACKEND, &settings.backend, BACKEND_BESIDE),
        (environment::HIP, &settings.hip, Hip::BESIDE),
    ];
    for (name, option, relative) in libraries {
        // What the caller's environment names is nearer to their mind than what happens to lie beside this program.
        let found = || if env::var_os(name).is_none_or(|value| value.is_empty()) { beside(relative) } else { None };
        if let Some(path) = option.clone().or_else(found) {
            set(name, &path);
        }
    }
    // A check is one of what is built now, unless somebody asks for what was built before.
    if env::var_os(environment::CACHE).is_none() {
        set(environment::CACHE, Path::new("off"));
    }
    if let Some(path) = trace {
        set(trace::VARIABLE, path);
    }
}

/// What the trace says about the measured calls. The first counts; a later one that went another way replaces its route.
fn fill_route(record: &mut Record, direction: Direction, trace: Option<&TraceFile>, forwarding: bool) {
    let all = trace.map(TraceFile::events).unwrap_or_default();
    // Whichever call came first built the plan: usually a query or Find.
    record.translate_us = all.iter().find_map(|event| event.phases_us.translate);
    record.plan_us = all.iter().find_map(|event| event.phases_us.plan);
    let events: Vec<_> = all.iter().filter(|event| event.call == calls(direction).execute).collect();
    let Some(cold) = events.first() else {
        record.route = if forwarding && trace.is_none() { "unknown" } else { "off" }.into();
        if forwarding {
            record.message = Some("no trace line: forwarding is off, or the library is not the shim".into());
        }
        return;
    };
    record.route = cold.route.clone();
    record.rule = cold.rule.clone();
    record.message = cold.message.clone();
    record.engine = cold.engine.clone();
    record.notes = cold.notes.clone();
    if let Some(other) = events.iter().find(|event| event.route != cold.route) {
        // The worst counts: a failure that shows only later is one.
        record.route = other.route.clone();
        record.message = Some(format!("not the first call: {}", other.message.as_deref().unwrap_or("no reason given")));
    }
}

/// A MIOpen call that failed is a result; anything else is an error of the run.
fn fill_failure(record: &mut Record, direction: Direction, error: Error, forwarding: bool) -> Result<()> {
    let failed = error.downcast::<CallError>()?;
    record.status = failed.status;
    if forwarding && failed.call != calls(direction).execute {
        (record.route, record.message) = ("failed".into(), Some(failed.to_string()));
    }
    record.failure = Some(failed.to_string());
    Ok(())
}

/// Everything that one direction runs on.
struct Run<'a> {
    hip: &'a Hip,
    miopen: &'a MiOpen,
    line: &'a Line,
    convolution: &'a Convolution,
    direction: Direction,
    /// Whether the run goes on when queries fail: native may know nothing about a problem that hipDNN takes.
    lenient: bool,
    /// Whether results are looked at.
    verifies: bool,
}

impl Run<'_> {
    fn drive(&self, record: &mut Record) -> Result<()> {
        let c = self.convolution;
        // As the driver does, and not the null stream, on which the copies are.
        let stream = self.hip.stream()?;
        let handle = self.miopen.handle(&stream)?;
        if self.timed() {
            self.miopen.enable_profiling(&handle)?;
        }
        let tensors = [self.miopen.tensor(&c.x)?, self.miopen.tensor(&c.w)?, self.miopen.tensor(&c.y)?];
        let convolution = self.convolution_descriptor()?;
        let inputs = [&c.x, &c.w, &c.y];
        let result = calls(self.direction).result();
        // The result has no values, unless it is added to: it is poisoned, and computed.
        let computed = |position: usize| position == result && c.scaling.beta == 0.0;
        let input = |position: usize| if computed(position) { Values::default() } else { Values::input(inputs[position], position as u64) };
        let values: [Values; 3] = std::array::from_fn(input);
        let before = if computed(result) { reference::poison(self.result()) } else { reference::filled(self.result(), &values[result]) };
        let upload = |position: usize| {
            self.upload(&if position == result { before.clone() } else { values[position].encode(inputs[position].data_type) })
        };
        let buffers = [upload(0)?, upload(1)?, upload(2)?];
        let (direction, scaling, buffers) = (self.direction, c.scaling, buffers.each_ref());
        let call = Call { direction, handle: &handle, convolution: &convolution, scaling, tensors: &tensors, buffers };
        let (algorithm, workspace) = self.find(&call, record)?;
        let outputs = self.measure(&call, algorithm, &workspace, &before, record)?;
        if self.verifies && self.line.integer("verify") != 0 {
            let verdict = Reference::new(c, self.direction, values.each_ref()).check(&outputs);
            record.verified = Some(verdict.failure.is_none());
            (record.error, record.tolerance, record.compared) = (Some(verdict.error), Some(verdict.tolerance), verdict.compared);
            record.failure = verdict.failure;
        }
        Ok(())
    }

    /// The tensor that is computed.
    fn result(&self) -> &Tensor {
        let c = self.convolution;
        [&c.x, &c.w, &c.y][calls(self.direction).result()]
    }

    fn convolution_descriptor(&self) -> Result<Owned, CallError> {
        let c = self.convolution;
        let mode = if c.transposed { convolution_mode::TRANSPOSE } else { convolution_mode::CONVOLUTION };
        let descriptor = self.miopen.convolution(&c.pads, &c.strides, &c.dilations, mode, c.groups)?;
        if c.transposed {
            self.miopen.output_padding(&descriptor, &c.output_pads)?;
        }
        for (number, value) in &c.attributes {
            self.miopen.attribute(&descriptor, *number, *value)?;
        }
        Ok(descriptor)
    }

    fn upload(&self, bytes: &[u8]) -> Result<Buffer<'_>> {
        let buffer = self.hip.allocate(bytes.len())?;
        buffer.write(bytes)?;
        Ok(buffer)
    }

    /// Workspace and algorithm, asked for as the driver does. Answers a guess where native declines to answer and need not.
    fn find(&self, call: &Call<'_>, record: &mut Record) -> Result<(i32, Buffer<'_>)> {
        let bytes = self.tolerate(self.miopen.workspace_size(call))?.unwrap_or(0);
        let workspace = self.hip.allocate(bytes)?;
        let exhaustive = self.line.integer("search") != 0;
        let found = self.tolerate(self.miopen.find(call, &workspace, exhaustive))?.unwrap_or_default();
        let Some(best) = found.first() else {
            record.found(format!("MIOpen {} Algorithm: none found, GEMM is named", self.direction.title()));
            return Ok((GEMM, workspace));
        };
        record.found(format!(
            "MIOpen {} Algorithm: {}, Find: {:.6} ms, workspace {} bytes",
            self.direction.title(),
            best.algorithm,
            best.time,
            best.memory
        ));
        let workspace = if best.memory > workspace.bytes() { self.hip.allocate(best.memory)? } else { workspace };
        Ok((best.algorithm, workspace))
    }

    fn tolerate<T>(&self, result: Result<T, CallError>) -> Result<Option<T>, CallError> {
        match result {
            Err(error) if self.lenient => {
                eprintln!("{error}");
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// The first call, the following ones, and one more; the output is as `before` in the first and the last, whose outputs are answered.
    fn measure(&self, call: &Call<'_>, algorithm: i32, workspace: &Buffer<'_>, before: &[u8], record: &mut Record) -> Result<Vec<Vec<u8>>> {
        // Find has written the output.
        let y = call.result();
        y.write(before)?;
        record.cold_us = Some(self.time(call, algorithm, workspace)?);
        let first = y.read()?;
        let iterations = self.line.integer("iter");
        let (mut times, mut kernel) = (Vec::new(), 0.0);
        for _ in 0..iterations {
            times.push(self.time(call, algorithm, workspace)?);
            if self.timed() {
                kernel += f64::from(self.miopen.kernel_time(call.handle)?);
            }
        }
        record.warm_us = median(&mut times);
        record.kernel_us = (self.timed() && iterations > 0).then(|| kernel / iterations as f64 * 1000.0);
        y.write(before)?;
        self.time(call, algorithm, workspace)?;
        Ok(vec![first, y.read()?])
    }

    /// Whether the line wants times of the device, which the driver takes from profiling: the shim's come from events on the stream.
    fn timed(&self) -> bool {
        self.line.integer("time") != 0
    }

    /// Microseconds from the call to the end of its work on the device.
    fn time(&self, call: &Call<'_>, algorithm: i32, workspace: &Buffer<'_>) -> Result<f64> {
        self.hip.synchronize()?;
        let start = Instant::now();
        self.miopen.execute(call, algorithm, workspace)?;
        self.hip.synchronize()?;
        Ok(start.elapsed().as_nanos() as f64 / 1000.0)
    }
}

fn median(times: &mut [f64]) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    let upper = *times.get(middle)?;
    Some(if times.len().is_multiple_of(2) { (times[middle - 1] + upper) / 2.0 } else { upper })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn what_cannot_be_driven_is_said() {
        let refusal = |line: &str| {
            let line = parse(line).unwrap();
            drivable(&Convolution::from_line(&line).unwrap(), &line).err().map(|usage| usage.0)
        };
        assert_eq!(refusal("conv"), None);
        assert_eq!(refusal("convfp16 -c 4 -k 4 -Z 1 -L 4 -F 1"), None);
        for line in ["conv -c 4 -k 4 -Z 1 -L 4 -F 1", "convfp16 -c 4 -k 4 -Z 1 -L 4", "convfp16 -c 4 -k 4 -Z 1 -L 4 -F 1 -I CHWN"] {
            assert!(refusal(line).unwrap().contains("vectors"), "{line}");
        }
        assert!(refusal("conv -n 1 -c 1 -k 1 -l 1073741823 -p 1073741823").unwrap().contains("pads"));
        assert!(refusal("conv -i 2000000000").unwrap().contains("iter"));
        assert!(refusal("convint8 -c 4 -F 2").unwrap().contains("gradients"));
        assert!(refusal("conv -R bf8").unwrap().contains("cast"));
        assert!(refusal("conv -n 65536 -c 65536 -k 1").unwrap().contains("more than"));
        assert!(refusal("conv -i -1").unwrap().contains("iter"));
    }

    #[test]
    fn a_run_without_trace_lines_is_off() {
        let mut record = Record::new(&parse("conv").unwrap(), Direction::Forward);
        fill_route(&mut record, Direction::Forward, None, false);
        assert_eq!((record.route.as_str(), record.message.as_deref()), ("off", None));
        fill_failure(&mut record, Direction::Forward, Error::from(CallError { call: calls(Direction::Forward).execute, status: 3 }), false)
            .unwrap();
        assert_eq!((record.status, record.is_good(), record.route.as_str()), (3, false, "off"));
        assert!(fill_failure(&mut record, Direction::Forward, Error::msg("hipMalloc returned 2"), false).is_err());
    }
}
