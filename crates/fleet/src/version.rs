//! Which server software answers: flavour and numbers, parsed. What may be asked of a server is decided on
//! these numbers, never by looking for words in a text.
//!
//! Texts seen in the field: `8.4.2`, `8.0.36-28` (Percona: build 28), `10.11.6-MariaDB-0+deb12u1-log`,
//! `5.5.5-10.6.12-MariaDB` (the prefix that MariaDB sends to old replicas), `8.0.mysql_aurora.3.04.0`,
//! `26.10.0`. There is no ceiling on the numbers: MySQL's manual already has a 26.10.

use crate::Blame;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The two dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    /// MySQL and what is built from it: Percona Server, Aurora MySQL, RDS for MySQL.
    MySql,
    /// MariaDB.
    MariaDb,
}

/// Flavour and numbers of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// The dialect.
    pub flavour: Flavour,
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// Third number, 0 when the text has none.
    pub patch: u16,
}

/// Why a text is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a server version; a version starts with two numbers, such as 8.4 or 10.11")]
pub struct VersionError(String);

impl VersionError {
    /// Whose fault it is: the server's, whose answer this is a part of.
    pub fn blame(&self) -> Blame {
        Blame::Server
    }
}

impl Version {
    /// A version by its parts.
    pub const fn new(flavour: Flavour, major: u16, minor: u16, patch: u16) -> Self {
        Self { flavour, major, minor, patch }
    }

    /// Whether this is MariaDB at `numbers` (major, minor, patch) or later.
    pub fn mariadb_from(&self, numbers: (u16, u16, u16)) -> bool {
        self.flavour == Flavour::MariaDb && self.numbers() >= numbers
    }

    /// Whether this is MySQL at `numbers` (major, minor, patch) or later.
    pub fn mysql_from(&self, numbers: (u16, u16, u16)) -> bool {
        self.flavour == Flavour::MySql && self.numbers() >= numbers
    }

    /// The three numbers, in the order in which they compare.
    pub fn numbers(&self) -> (u16, u16, u16) {
        (self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let wrong = || VersionError(text.to_owned());
        let trimmed = text.trim();
        let body = match trimmed.strip_prefix("5.5.5-") {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) && is_mariadb(rest) => rest,
            _ => trimmed,
        };
        let head = body.split(['-', '+', '~', ' ']).next().unwrap_or_default();
        let mut numbers = head.split('.').map_while(|part| part.parse::<u16>().ok());
        let major = numbers.next().ok_or_else(wrong)?;
        let minor = numbers.next().ok_or_else(wrong)?;
        let patch = numbers.next().unwrap_or(0);
        let flavour = if is_mariadb(body) { Flavour::MariaDb } else { Flavour::MySql };
        Ok(Self { flavour, major, minor, patch })
    }
}

/// MariaDB says so in one of the parts that dashes separate.
fn is_mariadb(body: &str) -> bool {
    body.split('-').skip(1).any(|part| part.eq_ignore_ascii_case("mariadb"))
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::MySql => "MySQL",
            Self::MariaDb => "MariaDB",
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}.{}", self.flavour, self.major, self.minor, self.patch)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_seen_in_the_field_are_read() {
        use Flavour::{MariaDb, MySql};
        for (text, flavour, numbers) in [
            ("8.0.36", MySql, (8, 0, 36)),
            ("8.0.36-28", MySql, (8, 0, 36)),
            ("8.4.2-commercial", MySql, (8, 4, 2)),
            ("9.7.0", MySql, (9, 7, 0)),
            ("26.10", MySql, (26, 10, 0)),
            ("8.0.mysql_aurora.3.04.0", MySql, (8, 0, 0)),
            ("8.0.39-0ubuntu0.24.04.2", MySql, (8, 0, 39)),
            ("10.11.19-MariaDB-0+deb12u1", MariaDb, (10, 11, 19)),
            ("10.6.18-MariaDB-log", MariaDb, (10, 6, 18)),
            ("10.6.5-2-MariaDB-enterprise-log", MariaDb, (10, 6, 5)),
            ("5.5.5-10.6.12-MariaDB", MariaDb, (10, 6, 12)),
            ("12.1.2-MariaDB-ubu2404", MariaDb, (12, 1, 2)),
        ] {
            let version: Version = text.parse().unwrap();
            assert_eq!((version.flavour, version.numbers()), (flavour, numbers), "{text}");
        }
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "MariaDB", "8", "x.y.z", "-8.0.1"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_flavour_is_never_taken_for_the_other() {
        let maria: Version = "11.4.2-MariaDB".parse().unwrap();
        assert!(maria.mariadb_from((10, 6, 0)) && !maria.mysql_from((8, 0, 0)));
        let mysql: Version = "26.10.1".parse().unwrap();
        assert!(mysql.mysql_from((8, 4, 0)) && !mysql.mariadb_from((10, 6, 0)));
    }
}
