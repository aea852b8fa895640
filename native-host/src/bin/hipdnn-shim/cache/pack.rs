//! A whole cache in one file: entries one after another as they are on disk, and a digest over all. No compiled code: compiled translators stay
//! behind, and so do the bytes of plans, whose engines and knobs come along.
//!
//! Little-endian: magic (8 bytes), then for each entry its kind's number (u32), length (u64) and file, then kind 0 and the SHA-256 of
//! everything before it.

use std::{
    fs,
    io::{self, BufReader, Read},
    path::Path,
};

use anyhow::{Context as _, Result, bail, ensure};
use hipdnn_host::{
    cache::{
        Disk, EntryKey, Kind,
        disk::entry,
        record::{self, PlanRecord},
    },
    files,
};
use sha2::{Digest as _, Sha256};

const MAGIC: &[u8; 8] = b"hipdnnSP";
const END: u32 = 0;

/// Writes all entries of a cache.
pub fn pack(disk: &Disk, output: &Path) -> Result<()> {
    let (mut count, mut damaged) = (0, 0);
    let mut bytes = MAGIC.to_vec();
    disk.each(|kind, _, found| match found {
        Ok((key, payload)) => {
            if let Some(file) = portable(&key, payload).and_then(|payload| entry::encode(&key, &payload)) {
                bytes.extend(kind.number().to_le_bytes());
                bytes.extend((file.len() as u64).to_le_bytes());
                bytes.extend(file);
                count += 1;
            }
        }
        Err(_) => damaged += 1,
    })?;
    bytes.extend(END.to_le_bytes());
    bytes.extend(Sha256::digest(&bytes));
    files::replace(output, &bytes).with_context(|| output.display().to_string())?;
    println!("packed {count} entries, {} bytes; left out {damaged} that are damaged", bytes.len());
    Ok(())
}

/// What of an entry may go to another machine.
fn portable(key: &EntryKey, payload: Vec<u8>) -> Option<Vec<u8>> {
    match key.kind() {
        Kind::Compiled => None,
        Kind::Manifest | Kind::Translation => Some(payload),
        Kind::Plan => match record::from_bytes::<PlanRecord>(&payload)? {
            PlanRecord::Engine(mut engine) => {
                engine.bytes = None;
                Some(record::to_bytes(&PlanRecord::Engine(engine)))
            }
            refused @ PlanRecord::Refused(_) => Some(record::to_bytes(&refused)),
        },
    }
}

/// Takes the entries of a pack that the cache does not have. Nothing is taken from a pack that is not whole.
pub fn unpack(disk: &Disk, file: &Path) -> Result<()> {
    let named = || file.display().to_string();
    let size = fs::metadata(file).with_context(named)?.len();
    let entries = read(BufReader::new(fs::File::open(file).with_context(named)?), size).with_context(named)?;
    let (mut taken, mut known) = (0, 0);
    for (key, payload) in entries {
        if disk.load(&key).is_some() {
            known += 1;
            continue;
        }
        disk.store(&key, &payload)?;
        taken += 1;
    }
    println!("took {taken} entries; {known} were there");
    Ok(())
}

/// Every entry of a pack, of so many bytes.
fn read(mut input: impl Read, size: u64) -> Result<Vec<(EntryKey, Vec<u8>)>> {
    let mut digest = Sha256::new();
    let mut take = |length: usize| -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        input.read_exact(&mut bytes).map_err(cut_off)?;
        Ok(bytes)
    };
    let mut entries = Vec::new();
    let magic = take(MAGIC.len())?;
    ensure!(magic == MAGIC, "it is no pack");
    digest.update(&magic);
    loop {
        let number = take(4)?;
        digest.update(&number);
        let number = u32::from_le_bytes(number.try_into().unwrap_or_default());
        if number == END {
            break;
        }
        let Some(kind) = Kind::ALL.iter().copied().find(|kind| kind.number() == number && *kind != Kind::Compiled) else {
            bail!("it holds something that does not belong in a pack (kind {number})");
        };
        let length = take(8)?;
        digest.update(&length);
        let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
        ensure!(length <= (entry::max_file(kind) as u64).min(size), "it is damaged: an entry of {length} bytes");
        // At most what an entry may have, so it fits.
        let file = take(length as usize)?;
        digest.update(&file);
        let (key, payload) = entry::decode(&file, kind).context("it is damaged")?;
        let payload = portable(&key, payload.to_vec()).context("it is damaged: a plan that is none")?;
        entries.push((key, payload));
    }
    let expected = take(32)?;
    ensure!(digest.finalize()[..] == expected[..], "it is damaged: its digest does not fit");
    ensure!(take(1).is_err(), "something follows its end");
    Ok(entries)
}

fn cut_off(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof { anyhow::anyhow!("it is cut off") } else { error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hipdnn_host::cache::{
        disk::Options,
        record::{EngineRecord, Knob},
    };

    fn cache(path: &Path) -> Disk {
        let options = Options { path: path.into(), writes: true, below: None, max_bytes: u64::MAX };
        Disk::open(&options, |line| panic!("{line}")).unwrap()
    }

    fn plan(bytes: Option<Vec<u8>>) -> Vec<u8> {
        let knobs = vec![Knob { id: "knob".into(), value: 3 }];
        record::to_bytes(&PlanRecord::Engine(EngineRecord { id: 7, knobs, notes: vec![4], bytes }))
    }

    #[test]
    fn a_pack_carries_everything_but_code_and_any_damage_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to, file) = (cache(&folder.path().join("from")), cache(&folder.path().join("to")), folder.path().join("pack"));
        let key = |kind| EntryKey::new(kind, &[b"key"]);
        from.store(&key(Kind::Translation), b"translation").unwrap();
        from.store(&key(Kind::Compiled), b"code").unwrap();
        from.store(&key(Kind::Plan), &plan(Some(b"code".to_vec()))).unwrap();
        pack(&from, &file).unwrap();
        unpack(&to, &file).unwrap();
        assert_eq!(to.load(&key(Kind::Translation)).as_deref(), Some(&b"translation"[..]));
        assert_eq!(to.load(&key(Kind::Compiled)), None);
        assert_eq!(to.load(&key(Kind::Plan)), Some(plan(None)));
        let bytes = fs::read(&file).unwrap();
        assert!(!bytes.windows(4).any(|window| window == b"code"));
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length], bytes.len() as u64).is_err(), "{length}");
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            assert!(read(&flipped[..], bytes.len() as u64).is_err(), "{at}");
        }
        assert!(read(&[&bytes[..], &[0]].concat()[..], bytes.len() as u64).is_err());
        // What is there stays: it may have the bytes of its plan.
        unpack(&from, &file).unwrap();
        assert_eq!(from.load(&key(Kind::Plan)), Some(plan(Some(b"code".to_vec()))));
    }
}
