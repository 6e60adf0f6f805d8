//! Whether the former primary will be able to follow: the account of its replication is tried before anything
//! moves, by the address that the former primary will be told.
//!
//! It is tried from this host, which is not the one that will replicate. So what a host in the account's name
//! forbids here is not held against it, nor a certificate that the account wants and that this host does not
//! have. The former primary connects as the candidate's own channel does, with TLS or without; whether the
//! account or the server asks for TLS is read, not tried: a password that goes encrypted to all servers shall
//! not go to one of them in another way.

use crate::connection::{BRIEFLY, Connection, quoted};
use crate::dialect::Dialect;
use crate::facts::{Channel, Facts};
use crate::{Error, survey};
use config::{Credentials, TlsMode};
use fleet::Address;
use observe::AskError;
use std::time::Duration;

/// One attempt, and where it led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginAttempt {
    pub user: String,
    /// As the former primary will be told.
    pub host: String,
    pub port: u16,
    pub led_to: LedTo,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedTo {
    /// A server of this `server_id`.
    Server {
        server_id: u32,
        /// Whether the account may replicate there.
        may_replicate: bool,
        /// Whether it takes this account over TLS only.
        needs_tls: bool,
    },
    /// The server's error number and words.
    Refused {
        code: u16,
        why: String,
        /// An account of this name is let in only with a certificate that was not shown.
        wants_certificate: bool,
    },
    /// No server.
    Nowhere { why: String },
    /// Not tried: the former primary cannot be told a password of this length.
    TooLong {
        bytes: usize,
        /// Bytes that it takes.
        limit: usize,
    },
}

/// Whatever is wrong with user, password or certificate.
const ACCESS_DENIED: u16 = 1045;

/// Logs in to the candidate as the former primary will, with the TLS settings of `admin`.
pub(crate) async fn attempt(
    candidate: &Facts,
    replication: &(String, String),
    admin: &Credentials,
    deadline: Duration,
) -> LoginAttempt {
    let member = survey::member(candidate);
    let (user, password) = replication.clone();
    if let Some((bytes, limit)) = too_long(candidate.dialect(), &password) {
        let led_to = LedTo::TooLong { bytes, limit };
        return LoginAttempt { user, host: member.host, port: member.port, led_to };
    }
    let mut who = Credentials { user: Some(user.clone()), password: Some(password), ..admin.clone() };
    if who.tls.mode == TlsMode::Disabled && encrypts(candidate) == Some(true) {
        who.tls.mode = TlsMode::Preferred;
    }
    let address = Address::tcp(member.host.clone(), member.port);
    let led_to = match look(candidate, &address, &who, deadline).await {
        Ok(led_to) => led_to,
        Err(Error::Server { source: AskError::Answered { code, message, .. }, .. }) => {
            let wants_certificate =
                code == ACCESS_DENIED && wants_certificate(candidate, &user, admin, deadline).await;
            LedTo::Refused { code, why: message, wants_certificate }
        }
        Err(Error::Server { source, .. }) => LedTo::Nowhere { why: source.to_string() },
        Err(error) => LedTo::Nowhere { why: error.to_string() },
    };
    LoginAttempt { user, host: member.host, port: member.port, led_to }
}

async fn look(
    candidate: &Facts,
    address: &Address,
    who: &Credentials,
    deadline: Duration,
) -> Result<LedTo, Error> {
    let mut conn = Connection::open(&candidate.server, address, who, deadline, BRIEFLY).await?;
    let server_id = conn.scalar("SELECT @@GLOBAL.server_id", deadline).await?;
    let mut lines = conn.ask("SHOW GRANTS", deadline).await?;
    let may_replicate = lines.iter().flat_map(|row| row.values()).any(|grant| lets_replicate(grant));
    if !candidate.dialect().is_mariadb() {
        // MariaDB's grants say it.
        lines.extend(conn.ask("SHOW CREATE USER CURRENT_USER()", deadline).await.unwrap_or_default());
    }
    conn.close().await;
    let account = lines.iter().flat_map(|row| row.values()).any(|line| requires_tls(line));
    let needs_tls = account || candidate.is_on(&["require_secure_transport"]) == Some(true);
    let server_id = server_id.and_then(|id| id.parse().ok()).unwrap_or(0);
    Ok(LedTo::Server { server_id, may_replicate, needs_tls })
}

/// Whether an account of this name is let in only with a certificate that was not shown: one of a certain
/// subject or issuer, or any at all where `admin` has none. No where our own account may not read that.
async fn wants_certificate(candidate: &Facts, user: &str, admin: &Credentials, deadline: Duration) -> bool {
    let wants = if admin.tls.cert.is_some() { "'SPECIFIED'" } else { "'X509', 'SPECIFIED'" };
    let user = quoted(user);
    let ask = format!("SELECT COUNT(*) FROM mysql.user WHERE user = {user} AND ssl_type IN ({wants})");
    let opened = Connection::open(&candidate.server, &candidate.reach, admin, deadline, BRIEFLY).await;
    let Ok(mut conn) = opened else { return false };
    let accounts = conn.scalar(&ask, deadline).await.ok().flatten();
    conn.close().await;
    accounts.is_some_and(|accounts| accounts != "0")
}

/// Whether the former primary will show a certificate, as the candidate's own channel does.
pub(crate) fn shows_certificate(candidate: &Facts) -> bool {
    let mut options = candidate.channels.iter().take(1).flat_map(|channel| &channel.protection);
    options.any(|(option, _)| option == "SSL_CERT")
}

/// Whether the former primary will connect with TLS; `None` where the candidate does not say what its own
/// channel does.
pub(crate) fn encrypts(candidate: &Facts) -> Option<bool> {
    candidate.channels.first().and_then(Channel::encrypts)
}

/// Whether a line of SHOW GRANTS or SHOW CREATE USER lets the account in over TLS only.
fn requires_tls(line: &str) -> bool {
    let words = line.split_once(" REQUIRE ").map_or("", |(_, words)| words);
    ["SSL", "X509", "ISSUER", "SUBJECT", "CIPHER"].iter().any(|word| words.starts_with(word))
}

/// Bytes of a password that a server cannot be told when it shall follow another one, and how many it takes.
pub(crate) fn too_long(dialect: Dialect, password: &str) -> Option<(usize, usize)> {
    let limit = dialect.longest_replication_password();
    (password.len() > limit).then_some((password.len(), limit))
}

/// The same in words, and what to do. `server` is who would have to follow.
pub(crate) fn too_long_words(
    server: &str,
    user: &str,
    (bytes, limit): (usize, usize),
) -> (String, &'static str) {
    (
        format!(
            "the password of {user} has {bytes} bytes; {server} takes one of at most {limit} to \
             follow with"
        ),
        "ALTER USER ... IDENTIFIED BY a shorter one, and write that into the file of --replication-option-file",
    )
}

/// Whether a line of SHOW GRANTS lets an account replicate.
fn lets_replicate(grant: &str) -> bool {
    let Some((privileges, _)) = grant.split_once(" ON *.* TO ") else { return false };
    let words = ["REPLICATION SLAVE", "REPLICATION REPLICA", "ALL PRIVILEGES"];
    privileges.trim_start_matches("GRANT ").split(',').any(|privilege| words.contains(&privilege.trim()))
}

/// Whether an address leads to the host itself wherever it is used.
pub(crate) fn is_loopback(host: &str) -> bool {
    let ip: Result<std::net::IpAddr, _> = host.trim_matches(['[', ']']).parse();
    ip.map_or_else(|_| host.eq_ignore_ascii_case("localhost"), |ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::facts;
    use lab::scripted::{Reply, Script, ScriptedServer};

    #[tokio::test]
    async fn an_account_that_wants_a_certificate_is_told_from_one_with_another_password() {
        for (accounts, expected) in [("1", true), ("0", false)] {
            let script = Script::new("10.11.6-MariaDB", move |statement, _| {
                match statement.contains("user = 'repl' AND ssl_type IN") {
                    true => Reply::value("n", accounts),
                    false => Reply::Usual,
                }
            });
            let server = ScriptedServer::start(script.login("admin", "secret")).await.unwrap();
            let mut candidate = facts("a2", "10.11.6-MariaDB");
            candidate.reach = Address::tcp("127.0.0.1", server.address().port());
            let admin = Credentials {
                user: Some("admin".to_owned()),
                password: Some("secret".to_owned()),
                ..Credentials::default()
            };
            let replication = ("repl".to_owned(), "other".to_owned());
            let tried = attempt(&candidate, &replication, &admin, Duration::from_secs(5)).await;
            let LedTo::Refused { code, wants_certificate, .. } = tried.led_to else { panic!("{tried:?}") };
            assert_eq!((code, wants_certificate), (ACCESS_DENIED, expected));
        }
    }

    #[test]
    fn an_account_that_may_replicate_is_known_by_its_grants() {
        assert!(lets_replicate("GRANT REPLICATION SLAVE ON *.* TO `repl`@`%` IDENTIFIED BY PASSWORD '*'"));
        assert!(lets_replicate("GRANT SELECT, REPLICATION SLAVE ON *.* TO `repl`@`%`"));
        assert!(!lets_replicate("GRANT REPLICATION SLAVE ADMIN ON *.* TO `repl`@`%`"));
        assert!(!lets_replicate("GRANT USAGE ON *.* TO `REPLICATION SLAVE`@`%`"));
    }

    #[test]
    fn an_account_that_is_let_in_over_tls_only_is_known_by_what_both_flavours_say() {
        for (line, requires) in [
            ("GRANT REPLICATION SLAVE ON *.* TO `repl`@`%` IDENTIFIED BY PASSWORD '*' REQUIRE SSL", true),
            ("GRANT REPLICATION SLAVE ON *.* TO `repl`@`%` IDENTIFIED BY PASSWORD '*'", false),
            (
                "CREATE USER `repl`@`%` IDENTIFIED WITH 'caching_sha2_password' AS '$A' REQUIRE X509 \
                 PASSWORD EXPIRE DEFAULT",
                true,
            ),
            ("CREATE USER `repl`@`%` IDENTIFIED WITH 'caching_sha2_password' REQUIRE NONE", false),
        ] {
            assert_eq!(requires_tls(line), requires, "{line}");
        }
    }

    #[test]
    fn a_loopback_address_is_known_in_each_form() {
        assert!(["localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]"].into_iter().all(is_loopback));
        assert!(!["db2", "10.0.0.1", "::2"].into_iter().any(is_loopback));
    }
}
