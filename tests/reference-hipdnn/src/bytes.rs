//! Reading and writing little-endian bytes. Reading never trusts: every length is checked against what is left.

use crate::error::{Error, Result};

/// Appends values.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    /// Length and elements.
    pub(crate) fn list<T>(&mut self, elements: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.i64(elements.len() as i64);
        for element in elements {
            write(self, element);
        }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.i64(bytes.len() as i64);
        self.0.extend(bytes);
    }

    pub(crate) fn int64s(&mut self, values: &[i64]) {
        self.list(values, |w, &v| w.i64(v));
    }

    /// A flag and, if there is one, a value.
    pub(crate) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }
}

/// Takes values off the front.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk().ok_or_else(ended)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn slice(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length).ok_or_else(ended)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::bad(format!("{other} is no flag"))),
        }
    }

    pub(crate) fn i32(&mut self) -> Result<i32> {
        self.take().map(i32::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        self.take().map(i64::from_le_bytes)
    }

    /// As many elements as said. Every element takes at least one byte, so a wild length ends early and reserves nothing.
    pub(crate) fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let length = self.length()?;
        let mut elements = Vec::new();
        for _ in 0..length {
            elements.push(read(self)?);
        }
        Ok(elements)
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>> {
        let length = self.length()?;
        self.slice(length).map(<[u8]>::to_vec)
    }

    pub(crate) fn int64s(&mut self) -> Result<Vec<i64>> {
        self.list(Self::i64)
    }

    pub(crate) fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    /// Nothing may be left.
    pub(crate) fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::bad(format!("{} bytes too many", self.0.len()))) }
    }

    fn length(&mut self) -> Result<usize> {
        let length = usize::try_from(self.i64()?).map_err(|_| ended())?;
        if length <= self.0.len() { Ok(length) } else { Err(ended()) }
    }
}

fn ended() -> Error {
    Error::bad("the bytes end too early")
}
