//! `cache`: looking after the disk cache, and shipping it. What entries are, and how they are read and written, is the library's.

mod pack;
mod prewarm;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand};
use hipdnn_host::{
    cache::{
        Disk,
        disk::{Options as Place, Usage as Room},
    },
    environment::Settings,
};
use serde_json::json;

/// Command line of `cache`.
#[derive(Args)]
pub struct Options {
    /// The folder (default: the one that programs use under this environment)
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Print the folder
    Path,
    /// Count entries and bytes
    Stats {
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check every entry; exit 1 if one is damaged
    Verify {
        /// Remove those
        #[arg(long)]
        remove: bool,
    },
    /// Remove what was not used for longest, and what killed writers left
    Prune {
        /// Until the rest takes at most so much (default: as under this environment)
        #[arg(long, value_name = "N")]
        max_bytes: Option<u64>,
    },
    /// Remove everything
    Clear,
    /// Write all entries into one file, for images and other machines. Compiled code stays behind
    Pack {
        /// The file
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Take the entries of such a file
    Unpack {
        /// The file
        file: PathBuf,
    },
    /// Run MIOpenDriver lines once, so that the next process finds their translations and plans
    Prewarm(prewarm::Options),
}

/// Runs the verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    let place = place(options.dir.clone())?;
    match &options.verb {
        Verb::Path => println!("{}", place.path.display()),
        Verb::Stats { json } => stats(&place, *json)?,
        Verb::Verify { remove } => return verify(&place, *remove),
        Verb::Prune { max_bytes } => removed(open(&place, true)?.prune(max_bytes.unwrap_or(place.max_bytes))?),
        Verb::Clear => removed(open(&place, true)?.clear()?),
        Verb::Pack { output } => pack::pack(&open(&place, false)?, output)?,
        Verb::Prewarm(options) => return prewarm::run(options, &place),
        Verb::Unpack { file } => pack::unpack(&open(&place, true)?, file)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the cache is, by option or environment.
pub fn place(dir: Option<PathBuf>) -> Result<Place> {
    let settings = Settings::from_process();
    settings.warnings.iter().for_each(|warning| eprintln!("hipdnn-shim: {warning}"));
    let place = match settings.cache {
        Some(place) => place.map_err(|error| anyhow!(error)),
        None => Err(anyhow!("MIOPEN_HIPDNN_CACHE=off; name a folder with --dir")),
    };
    match dir {
        Some(path) => {
            let max_bytes = place.map_or(u64::MAX, |place| place.max_bytes);
            Ok(Place { path, writes: true, below: None, max_bytes })
        }
        None => Ok(Place { below: None, ..place? }),
    }
}

/// Opens it, with an error where a program would do without.
pub fn open(place: &Place, writes: bool) -> Result<Disk> {
    let mut why = None;
    let disk = Disk::open(&Place { writes, ..place.clone() }, |line| why = Some(line));
    match (disk, why) {
        (Some(disk), None) => Ok(disk),
        (_, Some(why)) => bail!(why),
        (None, None) => bail!("there is no cache in {}", place.path.display()),
    }
}

fn stats(place: &Place, as_json: bool) -> Result<()> {
    let usage = match open(place, false) {
        Ok(disk) => disk.usage().with_context(|| place.path.display().to_string())?,
        Err(_) if !place.path.exists() => Vec::new(),
        Err(error) => return Err(error),
    };
    let total: u64 = usage.iter().map(|(_, room)| room.bytes).sum();
    if as_json {
        let kinds: serde_json::Map<_, _> =
            usage.iter().map(|(kind, room)| (kind.folder().into(), json!({ "entries": room.entries, "bytes": room.bytes }))).collect();
        println!("{}", json!({ "path": place.path.to_string_lossy(), "max_bytes": place.max_bytes, "bytes": total, "kinds": kinds }));
        return Ok(());
    }
    println!("{}", place.path.display());
    for (kind, room) in &usage {
        println!("{:>8} {:<12} {:>12} bytes", room.entries, kind.folder(), room.bytes);
    }
    println!("{:>21} {total:>12} of {} bytes", "", place.max_bytes);
    Ok(())
}

fn verify(place: &Place, remove: bool) -> Result<ExitCode> {
    let disk = open(place, remove)?;
    let (mut whole, mut damaged) = (0u64, Vec::new());
    disk.each(|kind, name, entry| match entry {
        Ok(_) => whole += 1,
        Err(error) => damaged.push((kind, name.to_string(), error)),
    })?;
    for (kind, name, error) in &damaged {
        println!("{}/{name}: {error}", kind.folder());
        if remove {
            disk.remove(*kind, name).with_context(|| place.path.join(kind.folder()).join(name).display().to_string())?;
        }
    }
    println!(
        "{whole} entries are whole, {} are not{}",
        damaged.len(),
        if remove && !damaged.is_empty() { " and were removed" } else { "" }
    );
    Ok(ExitCode::from(u8::from(!damaged.is_empty() && !remove)))
}

fn removed(room: Room) {
    println!("removed {} entries, {} bytes", room.entries, room.bytes);
}
