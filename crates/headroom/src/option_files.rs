//! An option file in the format of `~/.my.cnf`: which of its lines concern us.

use fleet::config::Tls;

/// What an option file says.
#[derive(Clone, Default)]
pub(crate) struct Found {
    /// `user`.
    pub(crate) user: Option<String>,
    /// `password`.
    pub(crate) password: Option<String>,
    /// `ssl-mode` and its files.
    pub(crate) tls: Tls,
}

/// Reads it.
pub(crate) fn read(text: &str, _file: &str) -> anyhow::Result<Found> {
    let mut found = Found::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.trim().trim_matches('"').to_owned();
        match key.trim() {
            "user" => found.user = Some(value),
            "password" => found.password = Some(value),
            _ => {}
        }
    }
    Ok(found)
}
