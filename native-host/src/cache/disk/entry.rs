//! The form of one file: who it is for, how long it is, whether it is whole. Parses bytes in memory; touches no file.
//!
//! Little-endian: magic (8 bytes), format (u32), kind (u32), length of key and of payload (u64 each), SHA-256 over all of that and all
//! that follows, key, payload. The digest is no signature: it tells damage, not malice.

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::cache::{EntryKey, Kind};

const MAGIC: &[u8; 8] = b"hipdnnSC";
/// Raised when the form of files, or that of what they hold, changes. Other formats live in folders of their own.
pub const FORMAT: u32 = 1;
const BEFORE_DIGEST: usize = 32;
/// Bytes before the key.
pub const HEADER: usize = BEFORE_DIGEST + 32;
/// The longest key.
const MAX_KEY: usize = 64 << 10;

/// Why a file is no entry of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Damage {
    /// Something else, or cut off.
    #[error("it is no cache entry")]
    Foreign,
    /// Another length than it says.
    #[error("it is shorter or longer than it says")]
    Length,
    /// Its digest does not fit.
    #[error("its bytes are not the ones that were written")]
    Digest,
    /// It is about something else.
    #[error("it belongs to another key")]
    Key,
}

/// The most bytes that a file of a kind has.
pub fn max_file(kind: Kind) -> usize {
    HEADER + MAX_KEY + kind.max_payload()
}

/// The bytes of a file; `None` if they would be too many.
pub fn encode(key: &EntryKey, payload: &[u8]) -> Option<Vec<u8>> {
    if key.bytes().len() > MAX_KEY || payload.len() > key.kind().max_payload() {
        return None;
    }
    let mut file = Vec::with_capacity(HEADER + key.bytes().len() + payload.len());
    file.extend(MAGIC);
    file.extend(FORMAT.to_le_bytes());
    file.extend(key.kind().number().to_le_bytes());
    file.extend((key.bytes().len() as u64).to_le_bytes());
    file.extend((payload.len() as u64).to_le_bytes());
    let digest = Sha256::new().chain_update(&file).chain_update(key.bytes()).chain_update(payload).finalize();
    file.extend(digest);
    file.extend(key.bytes());
    file.extend(payload);
    Some(file)
}

/// Key and payload of a file, of whatever key.
pub fn decode(file: &[u8], kind: Kind) -> Result<(EntryKey, &[u8]), Damage> {
    let (header, rest) = file.split_at_checked(HEADER).ok_or(Damage::Foreign)?;
    let word = |at: usize| header[at..at + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let begin: Vec<u8> = [&MAGIC[..], &FORMAT.to_le_bytes(), &kind.number().to_le_bytes()].concat();
    if !header.starts_with(&begin) {
        return Err(Damage::Foreign);
    }
    let (key_length, payload_length) = (word(16), word(24));
    if key_length > MAX_KEY as u64 || key_length.checked_add(payload_length) != Some(rest.len() as u64) {
        return Err(Damage::Length);
    }
    let digest = Sha256::new().chain_update(&header[..BEFORE_DIGEST]).chain_update(rest).finalize();
    if digest[..] != header[BEFORE_DIGEST..] {
        return Err(Damage::Digest);
    }
    // At most `MAX_KEY`, so it fits.
    let (key, payload) = rest.split_at(key_length as usize);
    Ok((EntryKey::from_bytes(kind, key.to_vec()), payload))
}

/// The payload of a file that must be of this key.
pub fn payload<'a>(file: &'a [u8], key: &EntryKey) -> Result<&'a [u8], Damage> {
    let (found, payload) = decode(file, key.kind())?;
    if found == *key { Ok(payload) } else { Err(Damage::Key) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> EntryKey {
        EntryKey::new(Kind::Plan, &[b"what it depends on"])
    }

    #[test]
    fn what_was_written_is_read() {
        for body in [&b""[..], b"payload"] {
            let file = encode(&key(), body).unwrap();
            assert_eq!(payload(&file, &key()), Ok(body));
        }
        assert_eq!(encode(&key(), &vec![0; Kind::Plan.max_payload() + 1]), None);
    }

    // V44 of the case list.
    #[test]
    fn every_cut_and_every_flipped_bit_is_seen() {
        let file = encode(&key(), b"payload").unwrap();
        for length in 0..file.len() {
            assert!(payload(&file[..length], &key()).is_err(), "{length}");
        }
        for bit in 0..file.len() * 8 {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(payload(&flipped, &key()).is_err(), "{bit}");
        }
        assert_eq!(payload(&[&file[..], b"x"].concat(), &key()), Err(Damage::Length));
    }

    #[test]
    fn an_entry_is_only_its_own_keys() {
        let file = encode(&key(), b"payload").unwrap();
        assert_eq!(payload(&file, &EntryKey::new(Kind::Plan, &[b"something else"])), Err(Damage::Key));
        assert_eq!(payload(&file, &EntryKey::new(Kind::Translation, &[b"what it depends on"])), Err(Damage::Foreign));
    }

    #[test]
    fn lengths_that_overflow_are_lengths_that_do_not_fit() {
        let mut file = encode(&key(), b"payload").unwrap();
        file[24..32].fill(0xff);
        assert_eq!(payload(&file, &key()), Err(Damage::Length));
    }
}
