//! Reading statistics files. They come from anywhere, so nothing about them is taken for granted, and what is wrong is said in one line.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use hipdnn_host::{
    census::Counters,
    stats::{FORMAT, Stats, VERSION},
};
use serde::Deserialize;
use thiserror::Error;

/// No process writes that much: it remembers a few thousand problems.
const MAX_BYTES: u64 = 256 << 20;

/// Why a file is not taken.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The system's reason.
    #[error("it cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// A folder, a pipe, a device.
    #[error("it is no regular file")]
    Irregular,
    /// More than [`MAX_BYTES`].
    #[error("it has {0} bytes; statistics files have at most {MAX_BYTES}")]
    Huge(u64),
    /// Nothing in it.
    #[error("it is empty")]
    Empty,
    /// It ends in the middle.
    #[error("it ends too early, as if it had been cut off: {0}")]
    CutOff(serde_json::Error),
    /// Something else.
    #[error("it is no statistics file of hipdnn-shim{}", .0.as_ref().map_or_else(String::new, |error| format!(": {error}")))]
    Foreign(Option<serde_json::Error>),
    /// Of another version.
    #[error("its format has version {0}, and this tool reads version {VERSION}")]
    Version(u64),
    /// The format's rules are broken.
    #[error("it is damaged: {0}")]
    Damaged(serde_json::Error),
    /// Its numbers contradict each other.
    #[error("it is damaged: the counts of {0:?} are not the sum of those of its problems")]
    Sum(String),
}

/// What tells statistics from other files.
#[derive(Deserialize)]
struct Head {
    format: Option<String>,
    format_version: Option<u64>,
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Stats, Unreadable> {
    // Opening a pipe would wait for a writer.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(Unreadable::Irregular);
    }
    if metadata.len() > MAX_BYTES {
        return Err(Unreadable::Huge(metadata.len()));
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Unreadable::Huge(bytes.len() as u64));
    }
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<Stats, Unreadable> {
    if bytes.trim_ascii().is_empty() {
        return Err(Unreadable::Empty);
    }
    let head: Head = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => Unreadable::CutOff(error),
        _ => Unreadable::Foreign(Some(error)),
    })?;
    if head.format.as_deref() != Some(FORMAT) {
        return Err(Unreadable::Foreign(None));
    }
    match head.format_version {
        Some(version) if version != u64::from(VERSION) => return Err(Unreadable::Version(version)),
        _ => {}
    }
    let stats = serde_json::from_slice(bytes).map_err(Unreadable::Damaged)?;
    check_sums(&stats)?;
    Ok(stats)
}

/// The counts of entry points are those of their problems and of all others.
fn check_sums(stats: &Stats) -> Result<(), Unreadable> {
    let mut sums: BTreeMap<&str, Counters> = BTreeMap::new();
    stats.others.iter().for_each(|(call, counters)| sums.entry(call).or_default().add(counters));
    stats.problems.iter().for_each(|problem| sums.entry(&problem.call).or_default().add(&problem.counters));
    for call in stats.calls.keys().map(String::as_str).chain(sums.keys().copied()) {
        if stats.calls.get(call) != sums.get(call) {
            return Err(Unreadable::Sum(call.to_string()));
        }
    }
    Ok(())
}

/// Leaves out what is there twice: of two files of one process, the one that was written earlier. Says so, one line each.
pub fn one_of_each_process(mut job: Vec<(PathBuf, Stats)>) -> (Vec<(PathBuf, Stats)>, Vec<String>) {
    job.sort_by_key(|(_, stats)| std::cmp::Reverse(stats.process.written_ms));
    let (mut kept, mut doubles): (Vec<(PathBuf, Stats)>, Vec<String>) = (Vec::new(), Vec::new());
    for (path, stats) in job {
        let process = |stats: &Stats| (stats.process.host.clone(), stats.process.pid, stats.process.began_ms);
        match kept.iter().find(|(_, other)| process(other) == process(&stats)) {
            Some((other, _)) => {
                doubles.push(format!("{}: it is of the same process as {}, and not newer", path.display(), other.display()));
            }
            None => kept.push((path, stats)),
        }
    }
    kept.sort_by(|(a, one), (b, other)| (one.process.rank, &one.process.host, a).cmp(&(other.process.rank, &other.process.host, b)));
    (kept, doubles)
}

#[cfg(test)]
pub mod tests {
    use hipdnn_host::stats::Process;

    use super::*;

    /// A document without calls.
    pub fn empty() -> Stats {
        Stats {
            format: FORMAT.into(),
            format_version: VERSION,
            version: "0".into(),
            process: Process::default(),
            backend: None,
            translator: None,
            cache: None,
            rules: BTreeMap::new(),
            calls: BTreeMap::new(),
            problems: Vec::new(),
            others: BTreeMap::new(),
        }
    }

    fn why(text: &str) -> String {
        parse(text.as_bytes()).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let mut stats = empty();
        stats.calls.insert("c".into(), Counters { served: 1, ..Counters::default() });
        stats.others = stats.calls.clone();
        let text = serde_json::to_string(&stats).unwrap();
        assert_eq!(parse(text.as_bytes()).unwrap(), stats);
        for end in 1..text.len() {
            assert!(why(&text[..end]).contains("cut off"), "{end}: {}", why(&text[..end]));
        }
        assert!(why(" \n").contains("empty"));
        for foreign in ["\u{1}\u{2}", "[]", "{}", "{\"format\":\"other\"}", "3", "<html>"] {
            assert!(why(foreign).contains("no statistics file"), "{foreign}: {}", why(foreign));
        }
        assert!(why(&text.replace("\"format_version\":1", "\"format_version\":9")).contains("version 9"));
        assert!(why(&text.replace("\"format_version\":1", "\"format_version\":1,\"new\":2")).contains("damaged"));
        assert!(why(&text.replacen("\"served\":1", "\"served\":2", 1)).contains("not the sum"));
        assert!(why(&text.replacen("\"served\":1", "\"served\":-1", 1)).contains("damaged"));
        assert!(why(&format!("{}1", "[".repeat(1 << 20))).contains("no statistics file"), "depth");
    }

    #[test]
    fn a_process_counts_once() {
        let mut newer = empty();
        newer.process.written_ms = 5;
        let other = Stats { process: Process { pid: 2, ..Process::default() }, ..empty() };
        let job = vec![("a".into(), empty()), ("b".into(), newer), ("c".into(), other)];
        let (kept, doubles) = one_of_each_process(job);
        assert_eq!(kept.iter().map(|(path, _)| path.display().to_string()).collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(doubles, ["a: it is of the same process as b, and not newer"]);
    }

    #[test]
    fn files_that_are_none() {
        let folder = std::env::temp_dir();
        assert!(matches!(read(&folder), Err(Unreadable::Irregular)));
        assert!(matches!(read(Path::new("/dev/null")), Err(Unreadable::Irregular)));
        assert!(matches!(read(Path::new("/nonexistent")), Err(Unreadable::Io(_))));
        let huge = folder.join(format!("hipdnn-shim-huge-{}", std::process::id()));
        File::create(&huge).unwrap().set_len(MAX_BYTES + 1).unwrap();
        let result = read(&huge);
        std::fs::remove_file(&huge).unwrap();
        assert!(matches!(result, Err(Unreadable::Huge(_))));
    }
}
