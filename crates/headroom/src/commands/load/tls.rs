//! TLS of a load, in the words of MySQL's clients. Off unless asked for, as with sysbench: encrypting costs
//! the client CPU.

use clap::{Args, ValueEnum};
use config::option_file::Login;
use config::{Tls, TlsMode};
use std::path::PathBuf;
use term::exit;

/// How TLS is begun.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct TlsArgs {
    /// TLS to the servers, as in mysql [default: from the option file, else DISABLED].
    #[arg(long, value_enum, ignore_case = true, value_name = "MODE")]
    ssl_mode: Option<Mode>,
    /// Authorities that may vouch for a server, PEM.
    #[arg(long, value_name = "FILE")]
    ssl_ca: Option<PathBuf>,
    /// Our certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "ssl_key")]
    ssl_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "ssl_cert")]
    ssl_key: Option<PathBuf>,
}

/// `--ssl-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "SCREAMING_SNAKE_CASE")]
enum Mode {
    /// Never.
    Disabled,
    /// When the server offers it, unverified.
    Preferred,
    /// Always, unverified.
    Required,
    /// Always, with a certificate from --ssl-ca.
    VerifyCa,
    /// Always, with a certificate from --ssl-ca for this host name.
    VerifyIdentity,
}

impl TlsArgs {
    /// The flags that were given, for a command that is printed.
    pub(crate) fn flags(&self) -> Vec<(&'static str, String)> {
        let mode = self.ssl_mode.and_then(|mode| Some(mode.to_possible_value()?.get_name().to_owned()));
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        [
            ("--ssl-mode", mode),
            ("--ssl-ca", path(&self.ssl_ca)),
            ("--ssl-cert", path(&self.ssl_cert)),
            ("--ssl-key", path(&self.ssl_key)),
        ]
        .into_iter()
        .filter_map(|(flag, value)| Some((flag, value?)))
        .collect()
    }

    /// Flags before option file.
    pub(super) fn complete(&self, file: &Login) -> anyhow::Result<Option<Tls>> {
        let mode = match (self.ssl_mode, file.tls_mode) {
            (Some(mode), _) => mode.into(),
            (None, Some(mode)) => mode,
            (None, None) if self.ssl_ca.is_some() => TlsMode::VerifyCa,
            (None, None) => return Ok(None),
        };
        let ca = self.ssl_ca.clone().or_else(|| file.ca.clone());
        if matches!(mode, TlsMode::VerifyCa | TlsMode::VerifyIdentity) && ca.is_none() {
            return Err(exit::usage_error(
                "no certificate authority is named to verify the server with; name its file with --ssl-ca",
            ));
        }
        let cert = self.ssl_cert.clone().or_else(|| file.cert.clone());
        let key = self.ssl_key.clone().or_else(|| file.key.clone());
        Ok(Some(Tls { mode, ca, cert, key }))
    }
}

impl From<Mode> for TlsMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Disabled => Self::Disabled,
            Mode::Preferred => Self::Preferred,
            Mode::Required => Self::Required,
            Mode::VerifyCa => Self::VerifyCa,
            Mode::VerifyIdentity => Self::VerifyIdentity,
        }
    }
}
