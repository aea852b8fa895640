//! A property over random problems: every one is asked for in two processes, with forwarding off and on, and
//! * its route is the one that `expressible` predicts, for the engine profile of the run;
//! * what hipDNN computed is what the definition says, and nothing beside it was written;
//! * what is native's has the statuses, and leaves the memory, that native alone would.
//!
//! `source` has random numbers, `asked` what a problem is, `generator` makes them, `arena` is their memory, `ask` makes the calls, `judge` and
//! `compare` find faults, `record` is what a process says.

mod arena;
mod ask;
mod asked;
mod compare;
mod expressible;
mod generator;
mod judge;
mod record;
mod source;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use self::{expressible::Profile, generator::generate, record::Record};
use crate::{edge::Libraries, parity, session::Session, trace::Trace};

/// As many problems share a handle.
const PER_HANDLE: u64 = 40;

/// Which problems.
#[derive(Clone, Debug)]
pub struct Problems {
    /// Each makes its own.
    pub seeds: Vec<u64>,
    /// So many of each seed.
    pub count: u64,
    /// Only one of them.
    pub only: Option<u64>,
}

impl Problems {
    /// Seeds and numbers, in the order in which they are asked for.
    fn all(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let numbers = self.only.map_or(0..self.count, |only| only..only + 1);
        self.seeds.iter().flat_map(move |&seed| numbers.clone().map(move |number| (seed, number)))
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = self.seeds.iter().flat_map(|seed| ["--seed".into(), seed.to_string()]).collect();
        arguments.extend(["--count".into(), self.count.to_string()]);
        arguments.extend(self.only.iter().flat_map(|only| ["--only".into(), only.to_string()]));
        arguments
    }
}

/// What is run.
pub struct Settings {
    /// The layout with the libraries.
    pub dist: PathBuf,
    /// Engine profiles of the reference hipDNN.
    pub profiles: Vec<String>,
    /// Which problems.
    pub problems: Problems,
    /// One JSON object for each problem and profile.
    pub json: bool,
}

/// Asks for all problems in this process, with the libraries that its environment names, and prints a record for each.
pub fn alone(problems: &Problems) -> Result<()> {
    let libraries = Libraries::load()?;
    libraries.miopen.begin()?;
    let trace = Trace::of_environment();
    let mut session = Session::new(libraries)?;
    for (seed, number) in problems.all() {
        if number % PER_HANDLE == 0 {
            session = Session::new(libraries)?;
        }
        let record = Record::of(&generate(seed, number), (seed, number), &session, &trace);
        // At once: a crash must not take the lines before it along.
        std::io::stdout().lock().write_all(record.line()?.as_bytes())?;
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Runs with forwarding off and on, and compares. True if nothing is wrong.
pub fn run(settings: &Settings) -> Result<bool> {
    let off = records(settings, "abi", parity::Mode::Off)?;
    let mut good = true;
    for profile in &settings.profiles {
        let on = records(settings, profile, parity::Mode::On)?;
        good &= Report { settings, profile, off: &off, on: &on }.print()?;
    }
    Ok(good)
}

/// What this program, started again, says about all problems up to where it ended.
fn records(settings: &Settings, profile: &str, mode: parity::Mode) -> Result<Vec<Record>> {
    let trace = Temporary::new(&format!("{profile}-{}", mode.name()));
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["random", "--alone"]).args(settings.problems.arguments());
    parity::surround(&mut command, &settings.dist, profile, mode)?;
    let output = command.env("MIOPEN_HIPDNN_TRACE", &trace.0).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        eprintln!("{profile}, forwarding {}: {}\n{}", mode.name(), output.status, String::from_utf8_lossy(&output.stderr));
    }
    Record::read(&String::from_utf8_lossy(&output.stdout))
}

/// A file that is removed in the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("field-cases-random-{}-{name}.jsonl", std::process::id())))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // There may be none: with forwarding off nothing is traced.
        let _ = fs::remove_file(&self.0);
    }
}

/// The runs of one profile.
struct Report<'a> {
    settings: &'a Settings,
    profile: &'a str,
    off: &'a [Record],
    on: &'a [Record],
}

impl Report<'_> {
    fn print(&self) -> Result<bool> {
        let profile = Profile::named(self.profile).with_context(|| format!("there is no profile {}", self.profile))?;
        let (mut faulty, mut forwarded, mut declined, mut total) = (0, 0, 0, 0);
        for (i, (seed, number)) in self.settings.problems.all().enumerate() {
            let faults = self.faults(profile, i, (seed, number))?;
            let on = self.on.get(i);
            let is = |route: &str| usize::from(on.is_some_and(|on| on.route.as_deref() == Some(route)));
            (total, forwarded, declined) = (total + 1, forwarded + is("hipdnn"), declined + is("native"));
            faulty += usize::from(!faults.is_empty());
            self.tell(on, (seed, number), &faults)?;
        }
        let refused = total - forwarded - declined;
        let line = format!("{total} problems: {forwarded} forwarded, {declined} declined, {refused} refused before, {faulty} wrong");
        // Beside JSON, for people.
        if self.settings.json {
            eprintln!("{}: {line}", self.profile)
        } else {
            println!("{}: {line}", self.profile)
        }
        ensure!(total > 0, "no problem was asked for");
        Ok(faulty == 0)
    }

    fn faults(&self, profile: Profile, i: usize, (seed, number): (u64, u64)) -> Result<Vec<String>> {
        let (Some(off), Some(on)) = (self.off.get(i), self.on.get(i)) else {
            let which = if self.off.len() <= i { "off" } else { "on" };
            return Ok(vec![format!("with forwarding {which} there is no record: the process had ended")]);
        };
        ensure!([off, on].iter().all(|record| (record.seed, record.number) == (seed, number)), "records of other problems");
        Ok(compare::faults(&generate(seed, number), profile, off, on))
    }

    fn tell(&self, on: Option<&Record>, (seed, number): (u64, u64), faults: &[String]) -> Result<()> {
        let profile = self.profile;
        if self.settings.json {
            let (route, rule) = (on.and_then(|on| on.route.as_deref()), on.and_then(|on| on.rule.as_deref()));
            let problem = (!faults.is_empty()).then(|| generate(seed, number).to_string());
            let object = serde_json::json!({ "profile": profile, "seed": seed, "number": number, "route": route, "rule": rule,
                "judged": on.is_some_and(|on| on.judged), "faults": faults, "problem": problem });
            writeln!(std::io::stdout().lock(), "{object}")?;
        } else if !faults.is_empty() || self.settings.problems.only.is_some() {
            let again = format!("field-cases random --seed {seed} --only {number} --profile {profile}");
            let faults: String = faults.iter().map(|fault| format!("    {fault}\n")).collect();
            let steps = on.map(|on| format!("  {:?} {:?} {:?}\n", on.steps, on.route, on.rule)).unwrap_or_default();
            write!(std::io::stdout().lock(), "{again}\n{}{steps}{faults}", generate(seed, number))?;
        }
        Ok(())
    }
}

/// The layout beside this program, if it lies in one or in a build's folder.
pub fn layout() -> Result<PathBuf> {
    let binary = std::env::current_exe()?;
    let above = binary.ancestors().skip(2).take(2).flat_map(|folder| [folder.to_path_buf(), folder.join("dist")]);
    let found = above.into_iter().find(|folder| is_layout(folder));
    found.context("there is no layout beside this program: name one with --dist")
}

fn is_layout(folder: &Path) -> bool {
    folder.join("lib/libMIOpen.so.1").exists()
}
