//! Data directories: one is prepared for the lab, every server gets a copy.

use crate::Error;
use crate::program::{Flavour, Program};
use rustix::fs::{SeekFrom, copy_file_range, ioctl_ficlone, seek};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How many bytes of a failing program's output an error shows, from the end.
const SAID_LIMIT: usize = 2000;

/// Fills `template` (made here) with an empty server's data. Blocks: 0.5 s for MariaDB, some seconds for
/// MySQL.
pub(crate) fn bootstrap(program: &Program, template: &Path, option_file: &Path) -> Result<(), Error> {
    let defaults = format!("--defaults-file={}", option_file.display());
    let mut command = match program.flavour {
        Flavour::MariaDb => {
            let mut command = Command::new(install_program(&program.path));
            command.arg(defaults).args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
            // Without accounts for this host's name: the lab's clients are addresses.
            command.args(["--cross-bootstrap", "--force"]);
            command
        }
        Flavour::MySql => {
            let mut command = Command::new(&program.path);
            command.arg(defaults).arg("--initialize-insecure");
            command
        }
    };
    if rustix::process::geteuid().is_root() {
        command.arg("--user=root");
    }
    command.arg(format!("--datadir={}", template.display())).stdin(Stdio::null());
    let name = PathBuf::from(command.get_program());
    let output = command.output().map_err(Error::io(format!("run {}", name.display())))?;
    if output.status.success() {
        // Every server makes its own identity.
        let _ = fs::remove_file(template.join("auto.cnf"));
        return Ok(());
    }
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    let start = said.ceil_char_boundary(said.len().saturating_sub(SAID_LIMIT));
    Err(Error::Bootstrap { program: name, status: output.status.to_string(), said: said[start..].to_owned() })
}

/// `mariadb-install-db` that belongs to a server program: beside it, in the `bin` or `scripts` of its prefix,
/// or the one on this machine.
fn install_program(server: &Path) -> PathBuf {
    let name = "mariadb-install-db";
    let own = server.parent().into_iter();
    let prefix =
        server.parent().and_then(Path::parent).into_iter().flat_map(|p| [p.join("bin"), p.join("scripts")]);
    let candidates = own.map(Path::to_owned).chain(prefix).map(|dir| dir.join(name));
    candidates.into_iter().find(|p| p.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

/// Copies a directory tree, sharing blocks where the file system can (reflink) and keeping holes where it
/// cannot.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    copy_tree(from, to).map_err(Error::io(format!("copy {} to {}", from.display(), to.display())))
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_tree(&source, &target)?;
        } else if entry.file_type()?.is_file() {
            copy_file(&source, &target)?;
        }
    }
    Ok(())
}

fn copy_file(source: &Path, target: &Path) -> io::Result<()> {
    let (input, output) = (File::open(source)?, File::create_new(target)?);
    output.set_permissions(input.metadata()?.permissions())?;
    if ioctl_ficlone(&output, &input).is_ok() {
        return Ok(());
    }
    let length = input.metadata()?.len();
    output.set_len(length)?;
    let mut at = 0;
    while at < length {
        let data = match seek(&input, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Nothing but a hole follows.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(&input, SeekFrom::Hole(data))?;
        copy_range(&input, &output, data, end)?;
        at = end;
    }
    Ok(())
}

fn copy_range(input: &File, output: &File, from: u64, to: u64) -> io::Result<()> {
    let (mut read_at, mut write_at) = (from, from);
    while read_at < to {
        let length = usize::try_from(to - read_at).unwrap_or(usize::MAX);
        let copied = copy_file_range(input, Some(&mut read_at), output, Some(&mut write_at), length)?;
        if copied == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_copy_has_the_same_bytes_and_keeps_holes() {
        let base = tempfile::tempdir().unwrap();
        let from = base.path().join("from");
        fs::create_dir_all(from.join("deep")).unwrap();
        let mut file = File::create(from.join("deep/sparse")).unwrap();
        file.write_all(b"head").unwrap();
        file.seek(io::SeekFrom::Start(8 << 20)).unwrap();
        file.write_all(b"middle").unwrap();
        file.set_len(16 << 20).unwrap();
        let to = base.path().join("to");
        copy(&from, &to).unwrap();
        assert_eq!(fs::read(from.join("deep/sparse")).unwrap(), fs::read(to.join("deep/sparse")).unwrap());
        let blocks = fs::metadata(to.join("deep/sparse")).unwrap().blocks();
        assert!(blocks * 512 < 1 << 20, "{blocks} blocks of 512 bytes");
    }
}
