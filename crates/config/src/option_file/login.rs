//! What an option file says of logging in: account, address and TLS, for the groups that concern us.

use super::{Item, OptionFileError, Says};
use crate::{Credentials, Tls, TlsMode};
use std::path::PathBuf;

/// The groups that are read. As with the servers' own clients, the order of lines decides, not that of
/// groups.
pub const GROUPS: [&str; 4] = ["client", "client-server", "client-mariadb", "headroom"];

/// How to log in, as far as an option file says.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// `user`.
    pub user: Option<String>,
    /// `password`.
    pub password: Option<String>,
    /// `host`.
    pub host: Option<String>,
    /// `port`.
    pub port: Option<u16>,
    /// `socket`.
    pub socket: Option<PathBuf>,
    /// `ssl-mode`, or what `ssl`, `skip-ssl` and `ssl-verify-server-cert` (MariaDB's) amount to.
    pub tls_mode: Option<TlsMode>,
    /// `ssl-ca`.
    pub ca: Option<PathBuf>,
    /// `ssl-cert`.
    pub cert: Option<PathBuf>,
    /// `ssl-key`.
    pub key: Option<PathBuf>,
}

impl Login {
    /// Merges the options of our groups; later lines win. Values that cannot be are refused with their line.
    pub fn of(items: &[Item], groups: &[&str]) -> Result<Self, OptionFileError> {
        let mut login = Self::default();
        let (mut ours, mut verify) = (false, None);
        for item in items {
            match &item.says {
                Says::Group(name) => ours = groups.contains(&name.as_str()),
                Says::Option { name, value } if ours => {
                    login
                        .take(name, value.as_deref(), &mut verify)
                        .map_err(|why| OptionFileError { line: item.line, why })?;
                }
                Says::Option { .. } | Says::Include(_) | Says::IncludeDir(_) => {}
            }
        }
        if verify == Some(true) && login.tls_mode.is_none_or(|mode| mode == TlsMode::Required) {
            login.tls_mode = Some(TlsMode::VerifyIdentity);
        }
        Ok(login)
    }

    /// Fills what `credentials` leave open: what the configuration says itself comes first.
    pub fn complete(self, credentials: &mut Credentials) {
        credentials.user = credentials.user.take().or(self.user);
        credentials.password = credentials.password.take().or(self.password);
        let tls = &mut credentials.tls;
        if *tls == Tls::default() {
            tls.mode = self.tls_mode.unwrap_or_default();
        }
        tls.ca = tls.ca.take().or(self.ca);
        tls.cert = tls.cert.take().or(self.cert);
        tls.key = tls.key.take().or(self.key);
    }

    fn take(&mut self, name: &str, value: Option<&str>, verify: &mut Option<bool>) -> Result<(), String> {
        let text = || value.filter(|v| !v.is_empty()).map(str::to_owned);
        let path = || text().map(PathBuf::from);
        match name {
            "user" => self.user = text(),
            "password" => self.password = value.map(str::to_owned),
            "host" => self.host = text(),
            "socket" => self.socket = path(),
            "port" => {
                let port = value.and_then(|v| v.parse::<u16>().ok()).filter(|port| *port > 0);
                self.port = Some(port.ok_or("port is a number from 1 to 65535")?);
            }
            "ssl-mode" => self.tls_mode = Some(mode(value.unwrap_or_default())?),
            "ssl-ca" => self.ca = path(),
            "ssl-cert" => self.cert = path(),
            "ssl-key" => self.key = path(),
            "ssl" => self.tls_mode = Some(if is_on(value) { TlsMode::Required } else { TlsMode::Disabled }),
            "skip-ssl" | "disable-ssl" => self.tls_mode = Some(TlsMode::Disabled),
            "ssl-verify-server-cert" => *verify = Some(is_on(value)),
            "skip-ssl-verify-server-cert" | "disable-ssl-verify-server-cert" => *verify = Some(false),
            _ => {}
        }
        Ok(())
    }
}

fn is_on(value: Option<&str>) -> bool {
    !value.is_some_and(|v| ["0", "off", "false", "no"].iter().any(|off| v.eq_ignore_ascii_case(off)))
}

fn mode(text: &str) -> Result<TlsMode, String> {
    Ok(match text.to_ascii_uppercase().replace('-', "_").as_str() {
        "DISABLED" => TlsMode::Disabled,
        "PREFERRED" => TlsMode::Preferred,
        "REQUIRED" => TlsMode::Required,
        "VERIFY_CA" => TlsMode::VerifyCa,
        "VERIFY_IDENTITY" => TlsMode::VerifyIdentity,
        _ => return Err("ssl-mode is DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY".to_owned()),
    })
}

/// Shows no password.
impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "(hidden)"))
            .field("host", &self.host)
            .field("port", &self.port)
            .field("socket", &self.socket)
            .field("tls_mode", &self.tls_mode)
            .field("ca", &self.ca)
            .field("cert", &self.cert)
            .field("key", &self.key)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::option_file::parse;

    fn login(text: &str) -> Login {
        Login::of(&parse(text).unwrap(), &GROUPS).unwrap()
    }

    #[test]
    fn only_our_groups_count_and_later_lines_win() {
        let login =
            login("[mysqld]\nuser=server\n[client]\nuser=a\nport=3307\n[headroom]\nuser=b\n[mysql]\nuser=c");
        assert_eq!((login.user.as_deref(), login.port), (Some("b"), Some(3307)));
    }

    #[test]
    fn tls_is_understood_in_both_flavours_words() {
        for (text, mode) in [
            ("ssl-mode=verify_ca", Some(TlsMode::VerifyCa)),
            ("ssl", Some(TlsMode::Required)),
            ("ssl=0", Some(TlsMode::Disabled)),
            ("skip-ssl", Some(TlsMode::Disabled)),
            ("ssl-verify-server-cert", Some(TlsMode::VerifyIdentity)),
            ("ssl\nssl_verify_server_cert=on", Some(TlsMode::VerifyIdentity)),
            ("skip-ssl\nssl-verify-server-cert", Some(TlsMode::Disabled)),
            ("ssl-mode=VERIFY_CA\nssl-verify-server-cert", Some(TlsMode::VerifyCa)),
            ("user=x", None),
        ] {
            assert_eq!(login(&format!("[client]\n{text}")).tls_mode, mode, "{text}");
        }
    }

    #[test]
    fn impossible_values_are_refused_with_their_line() {
        for (text, line) in [("[client]\nport=70000", 2), ("[client]\n\nssl-mode=MAYBE", 3)] {
            assert_eq!(Login::of(&parse(text).unwrap(), &GROUPS).unwrap_err().line, line);
        }
    }

    #[test]
    fn what_the_configuration_says_itself_stays() {
        let mut credentials = Credentials { user: Some("mine".into()), ..Credentials::default() };
        let file = login("[client]\nuser=theirs\npassword=p\nssl-mode=REQUIRED\nssl-ca=/ca.pem");
        assert!(!format!("{file:?}").contains("\"p\""));
        file.complete(&mut credentials);
        assert_eq!(credentials.user.as_deref(), Some("mine"));
        assert_eq!(credentials.password.as_deref(), Some("p"));
        assert_eq!(credentials.tls.mode, TlsMode::Required);
        assert_eq!(credentials.tls.ca, Some("/ca.pem".into()));
    }
}
