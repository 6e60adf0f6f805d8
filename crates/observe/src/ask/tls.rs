//! `ssl-mode` and its kin in the driver's terms.
//!
//! The driver's verifier (mysql_async 0.37.1), told not to compare the host name, compares it all the same and forgives a
//! failure only in the words of an older TLS library (blackbeam/mysql_async#404, mended there, not released). The words of
//! today's library quote the name that was asked for. So for `VERIFY_CA` the name asked for is the word that the driver looks
//! for: [`FORGIVEN`]. The chain is verified before the name is, so nothing but the name is forgiven; should the words change
//! once more, `VERIFY_CA` refuses too much, never too little. A released driver that is mended does not mind.

use fleet::config::{Tls, TlsMode};
use mysql_async::{ClientIdentity, SslOpts};

/// What the driver looks for in the words of a failure.
const FORGIVEN: &str = "NotValidForName";

/// TLS options for a connection; not to be used when the mode is `Disabled`.
pub(super) fn options(tls: &Tls) -> SslOpts {
    let unverified = matches!(tls.mode, TlsMode::Preferred | TlsMode::Required | TlsMode::Disabled);
    let identity = match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => Some(ClientIdentity::new(cert.clone().into(), key.clone().into())),
        _ => None,
    };
    SslOpts::default()
        .with_client_identity(identity)
        .with_root_certs(tls.ca.iter().map(|ca| ca.clone().into()).collect())
        .with_disable_built_in_roots(tls.ca.is_some())
        .with_danger_accept_invalid_certs(unverified)
        .with_danger_skip_domain_validation(tls.mode != TlsMode::VerifyIdentity)
        .with_danger_tls_hostname_override((tls.mode == TlsMode::VerifyCa).then_some(FORGIVEN))
}
