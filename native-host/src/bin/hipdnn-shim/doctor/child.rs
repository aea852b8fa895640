//! Starting the child process, and hearing it out: also how it ended, and in the middle of what.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::{
    probe::{Line, MARK, Stage},
    report::{Hip, Hipdnn, Library, Native},
};

/// A stage that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked whether the child has ended.
const LOOK: Duration = Duration::from_millis(250);
/// The longest line of the child's; a library may print for ever.
const LONGEST_LINE: u64 = 16 << 20;
/// How much of what libraries print to standard error is kept.
const LAST_WORDS: u64 = 64 << 10;

/// What the child found.
#[derive(Debug, Default)]
pub struct Probed {
    /// What the loader gives programs for libMIOpen.so.1.
    pub front: Option<PathBuf>,
    /// The HIP runtime that a program linked with HIP has.
    pub program: Option<PathBuf>,
    /// The native MIOpen.
    pub native: Library<Native>,
    /// HIP.
    pub hip: Library<Hip>,
    /// hipDNN.
    pub hipdnn: Library<Hipdnn>,
    /// What was mapped in the end.
    pub mapped: Vec<PathBuf>,
    /// Stages in which the child ended, and how.
    pub crashes: Vec<(Stage, String)>,
}

/// Does the stages in children: in one, if none of them crashes; those behind a crash in another one that leaves it out.
pub fn probe(stages: &[Stage], shim: Option<&Path>) -> Result<Probed> {
    let (mut probed, mut stages) = (Probed::default(), stages.to_vec());
    while !stages.is_empty() {
        let Some((stage, how)) = run(&stages, shim, &mut probed)? else { break };
        match stage {
            Stage::Native => probed.native.crashed = Some(how.clone()),
            Stage::Hip => probed.hip.crashed = Some(how.clone()),
            Stage::Hipdnn => probed.hipdnn.crashed = Some(how.clone()),
            Stage::Front | Stage::Program => {}
        }
        probed.crashes.push((stage, how));
        stages.retain(|other| *other != stage);
    }
    Ok(probed)
}

/// One child; answers in which stage it ended early, and how.
fn run(stages: &[Stage], shim: Option<&Path>, probed: &mut Probed) -> Result<Option<(Stage, String)>> {
    let mut command = Command::new(std::env::current_exe().context("this program's own file")?);
    let names = stages.iter().filter_map(|stage| Some(clap::ValueEnum::to_possible_value(stage)?.get_name().to_string()));
    command.arg("doctor").arg("--probe").arg(names.collect::<Vec<_>>().join(","));
    command.args(shim.iter().flat_map(|shim| ["--shim".as_ref(), shim.as_os_str()]));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("starting the probe")?;
    let (lines, last_words) = listen(&mut child)?;
    let (mut current, mut done, mut hung) = (stages[0], false, false);
    let (mut heard, mut ended) = (Instant::now(), false);
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                heard = Instant::now();
                match line {
                    Line::Begin(stage) => current = stage,
                    line => done |= note(line, probed),
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            // A library's own children may keep the pipe open when the child has ended and nothing more comes.
            Err(mpsc::RecvTimeoutError::Timeout) if ended => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                ended = child.try_wait()?.is_some();
                hung = !ended && heard.elapsed() >= PATIENCE;
                if hung {
                    child.kill()?;
                    break;
                }
            }
        }
    }
    let status = child.wait()?;
    if done {
        return Ok(None);
    }
    let how = if hung { format!("did not come back in {} seconds", PATIENCE.as_secs()) } else { ending(status) };
    // A killed child's own children may keep its standard error open.
    let said = last_words.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
    let said = said.lines().rfind(|line| !line.trim().is_empty()).map(|line| format!("; it said: {}", line.trim())).unwrap_or_default();
    Ok(Some((current, how + &said)))
}

/// Threads that read what the child writes, so that it never waits for us.
fn listen(child: &mut Child) -> Result<(mpsc::Receiver<Line>, mpsc::Receiver<String>)> {
    let (out, err) = (child.stdout.take().context("a pipe")?, child.stderr.take().context("a pipe")?);
    let (to_lines, lines) = mpsc::channel();
    thread::spawn(move || {
        let (mut out, mut line) = (BufReader::new(out), Vec::new());
        // A line that is too long comes in pieces, none of which is one of ours.
        while (&mut out).take(LONGEST_LINE).read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            let line = String::from_utf8_lossy(&std::mem::take(&mut line)).trim_end_matches('\n').to_string();
            let line = line.strip_prefix(MARK).and_then(|line| serde_json::from_str(line).ok());
            if line.is_some_and(|line| to_lines.send(line).is_err()) {
                break;
            }
        }
    });
    let (to_words, words) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut err = err;
        // What was read until a failure is told, too; nobody may be listening any more.
        let _ = (&mut err).take(LAST_WORDS).read_to_end(&mut bytes);
        let _ = std::io::copy(&mut err, &mut std::io::sink());
        let _ = to_words.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    Ok((lines, words))
}

/// Keeps what a line says; whether it was the last one.
fn note(line: Line, probed: &mut Probed) -> bool {
    match line {
        Line::Begin(_) => {}
        Line::Front(front) => probed.front = front,
        Line::Program(program) => probed.program = program,
        Line::Native(native) => probed.native = native,
        Line::Hip(hip) => probed.hip = hip,
        Line::Hipdnn(hipdnn) => probed.hipdnn = hipdnn,
        Line::Mapped(mapped) => {
            probed.mapped = mapped;
            return true;
        }
    }
    false
}

/// How a process ended that should not have.
fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was ended by signal {signal} ({})", signal_name(signal)),
        (None, Some(code)) => format!("ended the process with exit status {code}"),
        (None, None) => "ended the process".into(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        _ => "see signal(7)",
    }
}
