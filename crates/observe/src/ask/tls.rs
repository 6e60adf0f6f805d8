//! `ssl-mode` and its kin in the driver's terms.
//!
//! The driver's verifier (mysql_async 0.37.1) compares the host name once it verifies at all, though it is told not to: it
//! looks for the words of an older TLS library (blackbeam/mysql_async#404, mended there, not released). So `VERIFY_CA` is as
//! strict as `VERIFY_IDENTITY` here until then: it refuses more than MySQL's own client would, never less.

use fleet::config::{Tls, TlsMode};
use mysql_async::{ClientIdentity, SslOpts};

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
}
