//! What a statement returned, read by column name: servers add, rename and reorder columns, positions never
//! hold.

use std::net::IpAddr;
use std::str::FromStr;

/// A result set, every value as text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    columns: &'a [String],
    values: &'a [Option<String>],
}

impl Rows {
    /// Column names in any case, and rows of as many values.
    pub fn new(columns: impl IntoIterator<Item = String>, rows: Vec<Vec<Option<String>>>) -> Self {
        Self { columns: columns.into_iter().map(|name| name.to_ascii_lowercase()).collect(), rows }
    }

    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|values| Row { columns: &self.columns, values })
    }

    /// The first row, if any.
    pub fn first(&self) -> Option<Row<'_>> {
        self.iter().next()
    }
}

impl<'a> Row<'a> {
    /// The value of the first of these columns (lower case) that exists; `None` for NULL or a missing column.
    pub fn text(&self, names: &[&str]) -> Option<&'a str> {
        let at = names.iter().find_map(|name| self.columns.iter().position(|column| column == name))?;
        self.values.get(at)?.as_deref()
    }

    /// All that are there, in the order of the columns: for answers whose column has no fixed name.
    pub fn values(&self) -> impl Iterator<Item = &'a str> {
        self.values.iter().filter_map(Option::as_deref)
    }

    /// The same as [`Self::text`], `None` also when empty.
    pub fn filled(&self, names: &[&str]) -> Option<&'a str> {
        self.text(names).map(str::trim).filter(|text| !text.is_empty())
    }

    /// The same as a number (or whatever else parses).
    pub fn parse<T: FromStr>(&self, names: &[&str]) -> Option<T> {
        self.filled(names)?.parse().ok()
    }

    /// Whether a switch is on. MariaDB 12 gives some switches more than two values: all but off are on.
    pub fn is_on(&self, names: &[&str]) -> bool {
        self.filled(names)
            .is_some_and(|text| !["0", "off", "no", "false"].iter().any(|off| text.eq_ignore_ascii_case(off)))
    }
}

/// The host part of a session's `host` or `host:port`; IPv6 addresses come without brackets.
pub(crate) fn client_host(text: &str) -> &str {
    match text.rsplit_once(':') {
        _ if text.parse::<IpAddr>().is_ok() => text,
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_any_of_their_names_in_any_case() {
        let rows = Rows::new(
            ["Replica_IO_Running".to_owned(), "Read_Only".to_owned(), "Nothing".to_owned()],
            vec![vec![Some("Yes".to_owned()), Some("NO_LOCK_NO_ADMIN".to_owned()), None]],
        );
        let row = rows.first().unwrap();
        assert_eq!(row.text(&["slave_io_running", "replica_io_running"]), Some("Yes"));
        assert!(row.is_on(&["read_only"]));
        assert_eq!(row.parse::<u64>(&["nothing"]), None);
        assert_eq!(row.text(&["absent"]), None);
    }
}
