//! `[credentials]`: who we are to the servers, and where our password is. What is secret here shows in no
//! `Debug`.

use super::section::Section;
use super::tls::{TLS_MODES, Tls, consistent};
use std::fmt;
use std::path::PathBuf;

/// How the servers are asked. Everything optional is looked up in the option file, then in the environment,
/// by the binary. `Debug` shows no password.
#[derive(Clone, PartialEq, Default)]
pub struct Credentials {
    /// Account name.
    pub user: Option<String>,
    /// Its password, already read from wherever the configuration pointed.
    pub password: Option<String>,
    /// An option file in the format of `~/.my.cnf`, its groups `[client]`, `[client-mariadb]`, `[headroom]`.
    pub option_file: Option<PathBuf>,
    /// TLS to the servers, by MySQL's names.
    pub tls: Tls,
}

/// Where the configuration says a secret is: the password, or the address of the webhook. `Debug` does not
/// show it.
#[derive(Clone, PartialEq, Eq)]
pub enum PasswordFrom {
    /// In the configuration file itself; allowed only when nobody else may read that file.
    Written(String),
    /// The first line of this file.
    File(PathBuf),
    Environment(String),
}

impl fmt::Debug for PasswordFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written(_) => f.write_str("Written(hidden)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Environment(name) => f.debug_tuple("Environment").field(name).finish(),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "(hidden)"))
            .field("option_file", &self.option_file)
            .field("tls", &self.tls)
            .finish()
    }
}

impl PasswordFrom {
    /// Reads the three keys that may name a secret; one may be used. `what` is its name in the
    /// complaint.
    pub(super) fn read(
        section: &mut Section<'_>,
        [file, environment, written]: [&'static str; 3],
        what: &str,
    ) -> Option<Self> {
        let found = [
            (written, section.plain(written).map(Self::Written)),
            (file, section.path(file).map(Self::File)),
            (environment, section.plain(environment).map(Self::Environment)),
        ];
        let mut found = found.into_iter().filter_map(|(key, source)| Some((key, source?)));
        let first = found.next();
        if let Some((key, _)) = found.next() {
            let right = format!("keep one of {file}, {environment} and {written}");
            section.complain(key, format!("{what} is given more than once"), right);
        }
        first.map(|(_, source)| source)
    }
}

/// Reads `[credentials]`.
pub(super) fn read(document: &mut Section<'_>) -> (Credentials, Option<PasswordFrom>) {
    let mut section = document.section("credentials");
    let user = section.plain("user");
    let keys = ["password_file", "password_env", "password"];
    let password_from = PasswordFrom::read(&mut section, keys, "the password");
    let option_file = section.path("option_file");
    let tls = Tls {
        mode: section.choice("ssl_mode", &TLS_MODES).unwrap_or_default(),
        ca: section.path("ssl_ca"),
        cert: section.path("ssl_cert"),
        key: section.path("ssl_key"),
    };
    consistent(&tls, &section, ["ssl_mode", "ssl_ca", "ssl_cert", "ssl_key"], "\"DISABLED\"");
    section.finish();
    (Credentials { user, password: None, option_file, tls }, password_from)
}
