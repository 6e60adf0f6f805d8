//! Which server program this machine has, and what it is.

use crate::Error;
use serde::Serialize;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where distributions put servers; looked at after PATH.
const DIRECTORIES: [&str; 6] =
    ["/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/libexec", "/usr/bin", "/usr/local/bin"];
/// In order of preference. On MariaDB `mysqld` is another name of the same program.
const NAMES: [&str; 2] = ["mariadbd", "mysqld"];

/// The two families of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    MariaDb,
    /// MySQL and Percona Server.
    MySql,
}

/// A server program and what it says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) flavour: Flavour,
    /// Major, minor, patch.
    pub(crate) version: (u16, u16, u16),
}

impl Program {
    /// Asks the given program, or the first that PATH or the usual directories have.
    pub(crate) fn find(given: Option<&Path>) -> Result<Self, Error> {
        #[allow(clippy::disallowed_methods, reason = "what a bare name means is for PATH to say")]
        let of_caller = std::env::var_os("PATH").unwrap_or_default();
        let path = match given {
            Some(path) => path.to_owned(),
            None => search(&of_caller)?,
        };
        let wrong = |why: String| Error::Program { program: path.clone(), why };
        let output = Command::new(&path).arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|e| wrong(e.to_string()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let said = said.trim();
        let (flavour, version) = parse_version(said).ok_or_else(|| {
            let complaint = String::from_utf8_lossy(&output.stderr);
            wrong(format!("--version gave {}: '{said}' {}", output.status, complaint.trim()))
        })?;
        Ok(Self { path, flavour, version })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.flavour {
            Flavour::MariaDb => "MariaDB",
            Flavour::MySql => "MySQL",
        };
        let (major, minor, patch) = self.version;
        write!(f, "{name} {major}.{minor}.{patch}")
    }
}

fn search(path: &OsStr) -> Result<PathBuf, Error> {
    let of_caller = std::env::split_paths(path).filter(|directory| directory.is_absolute());
    let directories: Vec<PathBuf> = of_caller.chain(DIRECTORIES.iter().map(PathBuf::from)).collect();
    let candidates = NAMES.iter().flat_map(|name| directories.iter().map(move |d| d.join(name)));
    let found = candidates.into_iter().find(|p| p.is_file());
    found.ok_or(Error::NoProgram { looked_in: directories })
}

/// Reads `<program> Ver <version>[-<tag>...] for <os> on <machine> (<comment>)`. MariaDB tags its version,
/// MySQL and Percona Server do not.
fn parse_version(said: &str) -> Option<(Flavour, (u16, u16, u16))> {
    let mut words = said.split_whitespace();
    words.find(|w| *w == "Ver")?;
    let mut parts = words.next()?.split('-');
    let mut numbers = parts.next()?.split('.').map(|n| n.parse::<u16>().ok());
    let version = (numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0));
    let tagged = parts.any(|tag| tag.eq_ignore_ascii_case("mariadb"));
    Some((if tagged { Flavour::MariaDb } else { Flavour::MySql }, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_the_callers_path_comes_before_the_distributions() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("mariadbd");
        std::fs::write(&own, "").unwrap();
        let path = std::env::join_paths([Path::new("."), Path::new("/nowhere"), dir.path()]).unwrap();
        assert_eq!(search(&path).unwrap(), own);
    }

    #[test]
    fn a_server_is_known_by_what_it_says_not_by_its_name() {
        for (said, expected) in [
            (
                "mysqld  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)",
                Some((Flavour::MariaDb, (10, 11, 19))),
            ),
            ("/usr/sbin/mysqld  Ver 8.4.6 for Linux on x86_64 (MySQL)", Some((Flavour::MySql, (8, 4, 6)))),
            (
                "mysqld  Ver 8.0.43-34 for Linux on x86_64 (Percona Server)",
                Some((Flavour::MySql, (8, 0, 43))),
            ),
            ("sysbench 1.0.20", None),
        ] {
            assert_eq!(parse_version(said), expected, "{said}");
        }
    }
}
