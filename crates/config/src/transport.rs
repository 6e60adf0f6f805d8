//! TLS on the two sides of a session, each its own setting: from clients (a listener's), to servers (`[router.tls]`).
//!
//! With `passthrough`, the default, a client's TLS goes on to the server end to end and the session cannot be read. In
//! every other mode the router ends the client's TLS itself and may begin its own towards the server.

use super::complaint::Ledger;
use super::section::Section;
use super::{Tls, TlsMode};
use fleet::Address;
use std::path::PathBuf;

/// TLS from clients, a listener's setting.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ClientTls {
    /// Whether the router ends it.
    pub mode: ClientTlsMode,
    /// Our certificate with what links it to its authority, PEM; there in the modes that end TLS.
    pub cert: Option<PathBuf>,
    /// Its key, PEM.
    pub key: Option<PathBuf>,
    /// Whether clients are asked for a certificate of their own.
    pub client_cert: ClientCert,
    /// The authorities that may have signed it, PEM; there where one is asked for.
    pub client_ca: Option<PathBuf>,
}

/// Whether clients are asked for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ClientCert {
    /// Nobody is asked.
    #[default]
    Off,
    /// Clients may do without; one that is shown must be right.
    Wanted,
    /// Clients that do without are refused with MySQL's error 1045.
    Required,
}

/// What a listener does with TLS from its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ClientTlsMode {
    /// It goes to the server end to end, as the server offers it. The session is opaque to the router then.
    #[default]
    Passthrough,
    /// Not offered, whatever the server offers.
    Off,
    /// Offered; clients may do without.
    Preferred,
    /// Clients that do without are refused with MySQL's error 3159.
    Required,
}

/// TLS from the router to the servers, for sessions that can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerTls {
    /// What is asked for, and the files it takes.
    pub tls: Tls,
    /// The name that certificates must carry, instead of the host each server is reached by.
    pub server_name: Option<String>,
    /// The servers' RSA public key, PEM: a password that came in secret goes on encrypted with it where the way is open.
    pub server_public_key: Option<PathBuf>,
    /// Without such a file, whether a server may be asked for its key over that way. Whoever can change packets there answers with
    /// his own and reads the password.
    pub allow_public_key_retrieval: bool,
}

impl ClientTlsMode {
    /// Every mode with its word in the configuration.
    pub const ALL: [(&str, Self); 4] = [
        ("passthrough", Self::Passthrough),
        ("off", Self::Off),
        ("preferred", Self::Preferred),
        ("required", Self::Required),
    ];

    /// Its word in the configuration.
    pub fn word(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// Whether the router ends the TLS of clients in this mode.
    pub fn is_ended_here(self) -> bool {
        matches!(self, Self::Preferred | Self::Required)
    }
}

impl ClientCert {
    /// Every mode with its word in the configuration.
    pub const ALL: [(&str, Self); 3] =
        [("off", Self::Off), ("wanted", Self::Wanted), ("required", Self::Required)];

    /// Its word in the configuration.
    pub fn word(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// What `[router.tls] mode` may be.
const SERVER_MODES: [(&str, TlsMode); 5] = [
    ("off", TlsMode::Disabled),
    ("preferred", TlsMode::Preferred),
    ("required", TlsMode::Required),
    ("verify_ca", TlsMode::VerifyCa),
    ("verify_identity", TlsMode::VerifyIdentity),
];

impl Default for ServerTls {
    fn default() -> Self {
        Self {
            tls: Tls { mode: TlsMode::Disabled, ..Tls::default() },
            server_name: None,
            server_public_key: None,
            allow_public_key_retrieval: false,
        }
    }
}

impl ServerTls {
    /// The mode's word in the configuration.
    pub fn word(&self) -> &'static str {
        SERVER_MODES[self.tls.mode as usize].0
    }
}

/// Reads the TLS keys of a listener.
pub(super) fn from_clients(
    section: &mut Section<'_, '_>,
    address: Option<&Address>,
    ledger: &mut Ledger<'_>,
) -> ClientTls {
    let mode = section.choice("tls", ledger, &ClientTlsMode::ALL);
    let client_cert = section.choice("tls_client_cert", ledger, &ClientCert::ALL);
    let path = |section: &mut Section<'_, '_>, key, ledger: &mut Ledger<'_>| {
        section.plain(key, ledger).map(|v| PathBuf::from(v.value))
    };
    let tls = ClientTls {
        mode: mode.as_ref().map(|v| v.value).unwrap_or_default(),
        cert: path(section, "tls_cert", ledger),
        key: path(section, "tls_key", ledger),
        client_cert: client_cert.map(|v| v.value).unwrap_or_default(),
        client_ca: path(section, "tls_client_ca", ledger),
    };
    let word = tls.mode.word();
    if tls.mode.is_ended_here() && (tls.cert.is_none() || tls.key.is_none()) {
        let wrong =
            format!("tls is \"{word}\", and the certificate to show to clients or its key is missing");
        let right = "write tls_cert = \"/path/to/cert.pem\" and tls_key = \"/path/to/key.pem\"";
        ledger.add(&section.place_of("tls"), wrong, right);
    }
    if !tls.mode.is_ended_here() && (tls.cert.is_some() || tls.key.is_some()) {
        let key = if tls.cert.is_some() { "tls_cert" } else { "tls_key" };
        let wrong = format!("{key} has no use while tls is \"{word}\"");
        ledger.add(&section.place_of(key), wrong, "write tls = \"preferred\" or \"required\", or remove it");
    }
    client_certificates(&tls, section, address, ledger);
    tls
}

/// Certificates of clients that are asked for where none can be shown, or none could be judged.
fn client_certificates(
    tls: &ClientTls,
    section: &Section<'_, '_>,
    address: Option<&Address>,
    ledger: &mut Ledger<'_>,
) {
    let (asked, word) = (tls.client_cert, tls.mode.word());
    if asked == ClientCert::Off {
        if tls.client_ca.is_some() {
            let wrong = "tls_client_ca has no use while tls_client_cert is \"off\"";
            let right = "write tls_client_cert = \"required\" or \"wanted\", or remove it";
            ledger.add(&section.place_of("tls_client_ca"), wrong, right);
        }
        return;
    }
    let mut complain =
        |wrong: String, right: &str| ledger.add(&section.place_of("tls_client_cert"), wrong, right);
    if tls.client_ca.is_none() {
        complain(
            format!("tls_client_cert is \"{}\", and nothing says who signs such certificates", asked.word()),
            "write tls_client_ca = \"/path/to/clients-ca.pem\"",
        );
    }
    if let Some(Address::Unix(_)) = address {
        complain(
            "tls_client_cert has no use for a unix socket, whose clients need no TLS".to_owned(),
            "remove it; the directory's permissions say who may come",
        );
    } else if !tls.mode.is_ended_here() {
        complain(
            format!("tls_client_cert has no use while tls is \"{word}\""),
            "write tls = \"required\", or remove it",
        );
    } else if asked == ClientCert::Required && tls.mode != ClientTlsMode::Required {
        complain(
            format!(
                "tls_client_cert is \"required\", and tls = \"{word}\" lets clients in that can show none"
            ),
            "write tls = \"required\", or tls_client_cert = \"wanted\"",
        );
    }
}

/// Reads `[router.tls]`.
pub(super) fn to_servers(router: &mut Section<'_, '_>, ledger: &mut Ledger<'_>) -> ServerTls {
    let mut section = router.section("tls", ledger);
    let path = |section: &mut Section<'_, '_>, key, ledger: &mut Ledger<'_>| {
        section.plain(key, ledger).map(|v| PathBuf::from(v.value))
    };
    let mode = section.choice("mode", ledger, &SERVER_MODES).map_or(TlsMode::Disabled, |v| v.value);
    let tls = Tls {
        mode,
        ca: path(&mut section, "ca", ledger),
        cert: path(&mut section, "cert", ledger),
        key: path(&mut section, "key", ledger),
    };
    let server_name = section.plain("server_name", ledger);
    consistent(&tls, &section, ["mode", "ca", "cert", "key"], "\"off\"", ledger);
    if let Some(name) = &server_name
        && mode != TlsMode::VerifyIdentity
    {
        let wrong = "server_name is compared only where the identity is verified";
        ledger.add(&name.span, wrong, "write mode = \"verify_identity\", or remove it");
    }
    let server_public_key = path(&mut section, "server_public_key", ledger);
    let retrieval = section.flag("allow_public_key_retrieval", ledger);
    if let Some(retrieval) = &retrieval
        && retrieval.value
        && server_public_key.is_some()
    {
        let wrong = "allow_public_key_retrieval has no use while server_public_key gives the key";
        ledger.add(&retrieval.span, wrong, "remove one of the two");
    }
    section.finish(ledger);
    ServerTls {
        tls,
        server_name: server_name.map(|v| v.value),
        server_public_key,
        allow_public_key_retrieval: retrieval.is_some_and(|v| v.value),
    }
}

/// TLS settings that contradict each other, in a section where mode, authority, certificate and key have these names.
pub(super) fn consistent(
    tls: &Tls,
    section: &Section<'_, '_>,
    [mode, ca, cert, key]: [&str; 4],
    off: &str,
    ledger: &mut Ledger<'_>,
) {
    if matches!(tls.mode, TlsMode::VerifyCa | TlsMode::VerifyIdentity) && tls.ca.is_none() {
        let right = format!("write {ca} = \"/path/to/ca.pem\", the authority that vouches for the servers");
        ledger.add(
            &section.place_of(mode),
            format!("{mode} asks to verify, and no {ca} says by whom"),
            right,
        );
    }
    match (&tls.cert, &tls.key) {
        (Some(_), None) => {
            ledger.add(&section.place_of(cert), format!("{cert} has no {key}"), "write both or neither");
        }
        (None, Some(_)) => {
            ledger.add(&section.place_of(key), format!("{key} has no {cert}"), "write both or neither");
        }
        _ => {}
    }
    if tls.mode == TlsMode::Disabled && (tls.ca.is_some() || tls.cert.is_some()) {
        let right = format!("remove {mode} = {off}, or the files");
        let wrong = format!("{mode} is {} and certificates are given", off.trim_matches('"'));
        ledger.add(&section.place_of(mode), wrong, right);
    }
}
