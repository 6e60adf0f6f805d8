//! The highest epoch over restarts: a small text file, replaced as a whole.
//!
//! ```text
//! headroom epoch 1
//! epoch 4
//! writer uuid 3e11fa47-71ca-11e1-9e33-c80aa9429562
//! ```
//!
//! Two processes may share it for a moment (one takes over from the other): what is written is never lower
//! than what stands there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

const HEADER: &str = "headroom epoch 1";

/// What a router acted on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// The highest epoch.
    pub(crate) epoch: u64,
    /// The server that took its writes, by its identity.
    pub(crate) writer: Option<String>,
}

/// What was remembered; `None` where there is no file yet.
///
/// # Errors
/// It cannot be read, or is no such file.
pub(crate) fn read(path: &Path) -> io::Result<Option<Remembered>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("it does not begin with '{HEADER}'"));
    parse(&text).map(Some).ok_or_else(wrong)
}

fn parse(text: &str) -> Option<Remembered> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return None;
    }
    let epoch = lines.next()?.strip_prefix("epoch ")?.parse().ok()?;
    let writer = lines.next().and_then(|line| line.strip_prefix("writer ")).map(str::to_owned);
    Some(Remembered { epoch, writer })
}

/// Remembers it, unless something higher is remembered already. On disk when this returns.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write(path: &Path, new: &Remembered) -> io::Result<()> {
    // What cannot be read was reported when it was read first, and is replaced.
    if read(path).ok().flatten().is_some_and(|old| old.epoch > new.epoch) {
        return Ok(());
    }
    let mut text = format!("{HEADER}\nepoch {}\n", new.epoch);
    if let Some(writer) = &new.writer {
        text.push_str(&format!("writer {}\n", writer.replace('\n', " ")));
    }
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = File::create(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_comes_back_and_never_goes_down() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("epoch");
        assert_eq!(read(&path).unwrap(), None);
        let four = Remembered { epoch: 4, writer: Some("uuid b".to_owned()) };
        write(&path, &four).unwrap();
        assert_eq!(read(&path).unwrap(), Some(four.clone()));
        write(&path, &Remembered { epoch: 3, writer: Some("uuid a".to_owned()) }).unwrap();
        assert_eq!(read(&path).unwrap(), Some(four));
        let five = Remembered { epoch: 5, writer: None };
        write(&path, &five).unwrap();
        assert_eq!(read(&path).unwrap(), Some(five));
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["epoch"], "nothing temporary is left");
    }

    #[test]
    fn another_file_is_no_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("epoch");
        for text in ["", "4", "headroom epoch 2\nepoch 4\n", "headroom epoch 1\nepoch many\n"] {
            fs::write(&path, text).unwrap();
            assert!(read(&path).is_err(), "{text:?}");
        }
    }
}
