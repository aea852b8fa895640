//! What an entry is found by: all that its answer depends on, and the digest of that, which is its name.

use sha2::{Digest as _, Sha256};

use crate::identity::hexadecimal;

/// What entries are about. Each kind has a folder of its own on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// What a translator says about itself.
    Manifest,
    /// A graph, or a decline.
    Translation,
    /// An engine and its knobs, perhaps with the plan's bytes; or that there is none.
    Plan,
    /// A translator, compiled for this machine.
    Compiled,
}

impl Kind {
    /// All there are.
    pub const ALL: &[Kind] = &[Kind::Manifest, Kind::Translation, Kind::Plan, Kind::Compiled];

    /// The folder of its entries.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Manifest => "manifests",
            Self::Translation => "translations",
            Self::Plan => "plans",
            Self::Compiled => "compiled",
        }
    }

    /// The most bytes that a payload may have. What is larger is not written, and not read.
    pub fn max_payload(self) -> usize {
        match self {
            Self::Manifest | Self::Translation => 1 << 20,
            Self::Plan | Self::Compiled => 64 << 20,
        }
    }

    /// The number that stands for it in files.
    pub fn number(self) -> u32 {
        match self {
            Self::Manifest => 1,
            Self::Translation => 2,
            Self::Plan => 3,
            Self::Compiled => 4,
        }
    }
}

/// The key of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryKey {
    kind: Kind,
    bytes: Vec<u8>,
    digest: [u8; 32],
}

impl EntryKey {
    /// A key of several fields. Each counts with its length, so that no two lists of fields make one key.
    pub fn new(kind: Kind, fields: &[&[u8]]) -> Self {
        let mut bytes = Vec::with_capacity(fields.iter().map(|field| field.len() + 8).sum());
        for field in fields {
            bytes.extend((field.len() as u64).to_le_bytes());
            bytes.extend(*field);
        }
        Self::from_bytes(kind, bytes)
    }

    /// The key of an entry that was read.
    pub(super) fn from_bytes(kind: Kind, bytes: Vec<u8>) -> Self {
        let digest = Sha256::new().chain_update(kind.number().to_le_bytes()).chain_update(&bytes).finalize().into();
        Self { kind, bytes, digest }
    }

    /// What the entry is about.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// All of the key.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// SHA-256 of it.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The name of its file.
    pub fn file_name(&self) -> String {
        hexadecimal(&self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_run_into_each_other() {
        let keys = [
            EntryKey::new(Kind::Plan, &[b"ab", b"c"]),
            EntryKey::new(Kind::Plan, &[b"a", b"bc"]),
            EntryKey::new(Kind::Plan, &[b"abc"]),
            EntryKey::new(Kind::Plan, &[b"abc", b""]),
            EntryKey::new(Kind::Translation, &[b"abc", b""]),
        ];
        for (position, key) in keys.iter().enumerate() {
            assert!(keys[..position].iter().all(|other| other.digest() != key.digest()), "{position}");
            assert_eq!(EntryKey::from_bytes(key.kind(), key.bytes().to_vec()), *key);
            assert_eq!(key.file_name().len(), 64);
        }
    }
}
