//! The lines of the journal's file: what is whole, what is torn, what is damaged.

use super::{FORMAT, Record};
use crate::error::Error;
use std::path::Path;

/// What a file holds.
#[derive(Debug)]
pub(super) struct Lines {
    /// Every whole record, the header first.
    pub(super) records: Vec<Record>,
    /// Bytes up to the end of the last whole record.
    pub(super) length: u64,
    /// What was torn behind it, in words.
    pub(super) dropped: Option<String>,
}

pub(super) fn line(record: &Record) -> Vec<u8> {
    let json = serde_json::to_string(record).expect("a record has only texts and numbers");
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).into_bytes()
}

/// Reads all lines. The last one may be torn; it is dropped.
///
/// # Errors
/// A damaged line before the last; a last line that is complete and altered; a format we do not know.
pub(super) fn lines(path: &Path, bytes: &[u8]) -> Result<Lines, Error> {
    let mut lines = Lines { records: Vec::new(), length: 0, dropped: None };
    let mut rest = bytes;
    while !rest.is_empty() {
        let number = lines.records.len() + 1;
        let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(end);
        match record(line) {
            Ok(record) => {
                if let Record::Header { format } = record
                    && format > FORMAT
                {
                    return Err(Error::Newer { path: path.to_owned(), found: format, known: FORMAT });
                }
                if number == 1 && !matches!(record, Record::Header { .. }) {
                    return Err(corrupt(path, number, "the first line is no header"));
                }
                lines.records.push(record);
                lines.length += end as u64;
                rest = after;
            }
            // The file is renamed into place with its header synced: a crash leaves no file without one.
            Err(Broken::Altered(why)) => return Err(corrupt(path, number, why)),
            Err(Broken::Torn) if number == 1 => {
                return Err(corrupt(path, number, "the first line is no header"));
            }
            Err(Broken::Torn) if after.is_empty() => {
                lines.dropped = Some(format!(
                    "the last record ({} bytes) was cut off by a crash before its change was made; it is \
                     dropped",
                    line.len()
                ));
                break;
            }
            Err(Broken::Torn) => return Err(corrupt(path, number, "the line is cut off or overwritten")),
        }
    }
    if lines.records.is_empty() {
        return Err(corrupt(path, 1, "the file is empty"));
    }
    Ok(lines)
}

enum Broken {
    /// As a crash leaves it.
    Torn,
    /// As no crash leaves it.
    Altered(&'static str),
}

fn record(line: &[u8]) -> Result<Record, Broken> {
    let Some(line) = line.strip_suffix(b"\n") else { return Err(Broken::Torn) };
    let text = std::str::from_utf8(line).map_err(|_| Broken::Torn)?;
    let (checksum, json) = text.split_once(' ').ok_or(Broken::Torn)?;
    let sound = u32::from_str_radix(checksum, 16).is_ok_and(|sum| sum == crc32fast::hash(json.as_bytes()));
    let parsed = serde_json::from_str(json);
    match (sound, parsed) {
        (true, Ok(record)) => Ok(record),
        // Complete, and not what was written: nobody's crash.
        (false, Ok(_)) => Err(Broken::Altered("the checksum does not fit: it was altered")),
        (true, Err(_)) => Err(Broken::Altered("it is whole, but no record that we know")),
        (false, Err(_)) => Err(Broken::Torn),
    }
}

fn corrupt(path: &Path, line: usize, why: &str) -> Error {
    Error::Corrupt { path: path.to_owned(), line, why: why.to_owned() }
}
