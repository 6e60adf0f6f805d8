//! Result sets in text form, written: for scripted servers and tests. (The tracker skips them without
//! reading.)

use super::ok::{Eof, OkPacket};
use crate::capability::Capabilities;
use crate::packet;
use crate::status::Status;
use crate::write;

/// A column, with as much as clients look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The protocol's type number: 253 VARCHAR, 8 BIGINT, 5 DOUBLE, 12 DATETIME ...
    pub kind: u8,
    /// Collation: 45 for utf8mb4, 63 for numbers and binary.
    pub charset: u16,
    /// Longest value in bytes.
    pub length: u32,
    /// Column flags, e.g. 1 NOT NULL, 32 UNSIGNED.
    pub flags: u16,
    /// Decimals.
    pub decimals: u8,
}

impl Column {
    /// A string column.
    pub fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: 253, charset: 45, length: 1024, flags: 0, decimals: 0 }
    }

    /// A column of 64-bit integers.
    pub fn integer(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: 8, charset: 63, length: 21, flags: 0, decimals: 0 }
    }

    /// The payload of the column's definition.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for part in [b"def".as_slice(), b"", b"", b"", self.name.as_bytes(), b""] {
            write::lenenc_bytes(&mut out, part);
        }
        out.push(0x0c);
        out.extend_from_slice(&self.charset.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.push(self.kind);
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&[self.decimals, 0, 0]);
        out
    }
}

/// The payload of a row in text form; `None` is NULL.
pub fn text_row<'v>(values: impl IntoIterator<Item = Option<&'v [u8]>>) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        match value {
            Some(bytes) => write::lenenc_bytes(&mut out, bytes),
            None => out.push(0xfb),
        }
    }
    out
}

/// A whole result set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextResult {
    /// Its columns, at least one.
    pub columns: Vec<Column>,
    /// Its rows; `None` is NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// The session's status.
    pub status: Status,
}

impl TextResult {
    /// A result of string columns with these names.
    pub fn of(names: &[&str]) -> Self {
        let columns = names.iter().map(|name| Column::text(*name)).collect();
        Self { columns, rows: Vec::new(), status: Status::AUTOCOMMIT }
    }

    /// The same with one more row.
    #[must_use]
    pub fn row(mut self, values: &[Option<&str>]) -> Self {
        self.rows.push(values.iter().map(|v| v.map(|text| text.as_bytes().to_vec())).collect());
        self
    }

    /// Appends all its packets to `out`, the first with `sequence` (1 after a command), and moves `sequence`
    /// past them.
    pub fn write(&self, out: &mut Vec<u8>, sequence: &mut u8, capabilities: Capabilities) {
        let end = OkPacket { status: self.status, ..OkPacket::default() };
        let mut count = Vec::new();
        write::lenenc(&mut count, self.columns.len() as u64);
        if capabilities.contains(Capabilities::MARIADB_CACHE_METADATA)
            || capabilities.contains(Capabilities::OPTIONAL_RESULTSET_METADATA)
        {
            count.push(1);
        }
        packet::write(out, sequence, &count);
        for column in &self.columns {
            packet::write(out, sequence, &column.encode());
        }
        if !capabilities.contains(Capabilities::DEPRECATE_EOF) {
            packet::write(out, sequence, &Eof { warnings: 0, status: self.status }.encode());
        }
        for row in &self.rows {
            packet::write(out, sequence, &text_row(row.iter().map(Option::as_deref)));
        }
        packet::write(out, sequence, &end.encode_end_of_rows(capabilities));
    }
}
