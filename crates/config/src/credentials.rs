//! Who we are to the servers, and how our words to them are kept private. What is secret here shows in no `Debug`.

use std::fmt;
use std::path::PathBuf;

/// How the servers are asked. Everything optional is looked up in the option file, then in the environment, by the
/// binary. `Debug` shows no password.
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

/// TLS for control connections, by MySQL's names.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Tls {
    /// `ssl-mode`.
    pub mode: TlsMode,
    /// `ssl-ca`: PEM file of the authorities that may vouch for a server.
    pub ca: Option<PathBuf>,
    /// `ssl-cert`: our certificate, PEM.
    pub cert: Option<PathBuf>,
    /// `ssl-key`: its key, PEM.
    pub key: Option<PathBuf>,
}

/// `ssl-mode`, as MySQL defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// Never.
    Disabled,
    /// When the server offers it, unverified. The default.
    #[default]
    Preferred,
    /// Always, unverified.
    Required,
    /// Always, with a certificate from `ca`.
    VerifyCa,
    /// Always, with a certificate from `ca` for this host name.
    VerifyIdentity,
}

/// Where the configuration says the password is. `Debug` shows no password.
#[derive(Clone, PartialEq, Eq)]
pub enum PasswordFrom {
    /// In the configuration file itself; allowed only when nobody else may read that file.
    Written(String),
    /// The first line of this file.
    File(PathBuf),
    /// This environment variable.
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
