//! TLS on the two sides of a session, each its own setting: from clients (a listener's), to servers
//! (`[router.tls]`).
//!
//! With `passthrough`, the default, a client's TLS goes on to the server end to end and the session cannot be
//! read. In every other mode the router ends the client's TLS itself and may begin its own towards the
//! server.

use super::section::Section;
use fleet::Address;
use std::path::PathBuf;

/// TLS towards a server, by MySQL's names.
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

/// TLS from clients, a listener's setting.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ClientTls {
    /// Whether the router ends it.
    pub mode: ClientTlsMode,
    /// Our certificate with what links it to its authority, PEM; there in the modes that end TLS.
    pub cert: Option<PathBuf>,
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
    Optional,
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
    /// The servers' RSA public key, PEM: a password that came in secret goes on encrypted with it where the
    /// way is open.
    pub server_public_key: Option<PathBuf>,
    /// Without such a file, whether a server may be asked for its key over that way. Whoever can change
    /// packets there answers with his own and reads the password.
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
        [("off", Self::Off), ("optional", Self::Optional), ("required", Self::Required)];

    /// Its word in the configuration.
    pub fn word(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// What `ssl_mode` may be, in MySQL's words.
pub const TLS_MODES: [(&str, TlsMode); 5] = [
    ("DISABLED", TlsMode::Disabled),
    ("PREFERRED", TlsMode::Preferred),
    ("REQUIRED", TlsMode::Required),
    ("VERIFY_CA", TlsMode::VerifyCa),
    ("VERIFY_IDENTITY", TlsMode::VerifyIdentity),
];

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
pub(super) fn from_clients(section: &mut Section<'_>, address: Option<&Address>) -> ClientTls {
    let tls = ClientTls {
        mode: section.choice("tls", &ClientTlsMode::ALL).unwrap_or_default(),
        cert: section.path("tls_cert"),
        key: section.path("tls_key"),
        client_cert: section.choice("tls_client_cert", &ClientCert::ALL).unwrap_or_default(),
        client_ca: section.path("tls_client_ca"),
    };
    let word = tls.mode.word();
    if tls.mode.is_ended_here() && (tls.cert.is_none() || tls.key.is_none()) {
        let wrong =
            format!("tls is \"{word}\", and the certificate to show to clients or its key is missing");
        let right = "write tls_cert = \"/path/to/cert.pem\" and tls_key = \"/path/to/key.pem\"";
        section.complain("tls", wrong, right);
    }
    if !tls.mode.is_ended_here() && (tls.cert.is_some() || tls.key.is_some()) {
        let key = if tls.cert.is_some() { "tls_cert" } else { "tls_key" };
        let wrong = format!("{key} has no use while tls is \"{word}\"");
        section.complain(key, wrong, "write tls = \"preferred\" or \"required\", or remove it");
    }
    client_certificates(&tls, section, address);
    tls
}

/// Certificates of clients that are asked for where none can be shown, or none could be judged.
fn client_certificates(tls: &ClientTls, section: &Section<'_>, address: Option<&Address>) {
    let (asked, word) = (tls.client_cert, tls.mode.word());
    if asked == ClientCert::Off {
        if tls.client_ca.is_some() {
            let wrong = "tls_client_ca has no use while tls_client_cert is \"off\"";
            let right = "write tls_client_cert = \"required\" or \"optional\", or remove it";
            section.complain("tls_client_ca", wrong, right);
        }
        return;
    }
    let complain = |wrong: String, right: &str| section.complain("tls_client_cert", wrong, right);
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
            "write tls = \"required\", or tls_client_cert = \"optional\"",
        );
    }
}

/// Reads `[router.tls]`.
pub(super) fn to_servers(router: &mut Section<'_>) -> ServerTls {
    let mut section = router.section("tls");
    let tls = Tls {
        mode: section.choice("mode", &SERVER_MODES).unwrap_or(TlsMode::Disabled),
        ca: section.path("ca"),
        cert: section.path("cert"),
        key: section.path("key"),
    };
    let server_name = section.plain("server_name");
    consistent(&tls, &section, ["mode", "ca", "cert", "key"], "\"off\"");
    if server_name.is_some() && tls.mode != TlsMode::VerifyIdentity {
        let wrong = "server_name is compared only where the identity is verified";
        section.complain("server_name", wrong, "write mode = \"verify_identity\", or remove it");
    }
    let server_public_key = section.path("server_public_key");
    let allow_public_key_retrieval = section.flag("allow_public_key_retrieval").unwrap_or_default();
    if allow_public_key_retrieval && server_public_key.is_some() {
        let wrong = "allow_public_key_retrieval has no use while server_public_key gives the key";
        section.complain("allow_public_key_retrieval", wrong, "remove one of the two");
    }
    section.finish();
    ServerTls { tls, server_name, server_public_key, allow_public_key_retrieval }
}

/// TLS settings that contradict each other, in a section where mode, authority, certificate and key have
/// these names.
pub(super) fn consistent(tls: &Tls, section: &Section<'_>, [mode, ca, cert, key]: [&str; 4], off: &str) {
    if matches!(tls.mode, TlsMode::VerifyCa | TlsMode::VerifyIdentity) && tls.ca.is_none() {
        let right = format!("write {ca} = \"/path/to/ca.pem\", the authority that vouches for the servers");
        section.complain(mode, format!("{mode} asks to verify, and no {ca} says by whom"), right);
    }
    match (&tls.cert, &tls.key) {
        (Some(_), None) => {
            section.complain(cert, format!("{cert} has no {key}"), "write both or neither");
        }
        (None, Some(_)) => {
            section.complain(key, format!("{key} has no {cert}"), "write both or neither");
        }
        _ => {}
    }
    if tls.mode == TlsMode::Disabled && (tls.ca.is_some() || tls.cert.is_some()) {
        let right = format!("remove {mode} = {off}, or the files");
        let wrong = format!("{mode} is {} and certificates are given", off.trim_matches('"'));
        section.complain(mode, wrong, right);
    }
}
