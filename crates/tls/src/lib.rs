//! TLS towards servers, as MySQL's `ssl-mode` defines it; the key exchange of `caching_sha2_password` where
//! there is none; and TLS of HTTP, for the agent and its readers.
//!
//! Uses `fleet` and `config`. Files in, a [`ClientConfig`] out; sockets and the moment at which TLS begins
//! are the caller's. Read first: `verify.rs` (what each `ssl-mode` asks of a certificate), `files.rs` (PEM
//! files), `https.rs`.

mod error;
pub mod files;
pub mod https;
mod sealed;
mod verify;

pub use error::TlsError;
pub use sealed::{random, sealed};
pub use verify::{AnyClientCertificate, words};

use config::{Tls, TlsMode};
use fleet::Address;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// One provider everywhere, named: the process-wide default belongs to nobody in particular.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// How TLS to servers is begun; `None` where it is off.
///
/// # Errors
/// A file that cannot be read or used.
pub fn client(tls: &Tls) -> Result<Option<Arc<ClientConfig>>, TlsError> {
    if tls.mode == TlsMode::Disabled {
        return Ok(None);
    }
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| TlsError::Setup(e.to_string()))?;
    let roots = tls.ca.as_deref().map(files::authorities).transpose()?.unwrap_or_else(RootCertStore::empty);
    let verifier = verify::verifier(tls.mode, roots, &provider())?;
    // "Dangerous" is any verifier but the built-in one; ours are MySQL's ssl-mode.
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let client = match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(files::certificates(cert)?, files::private_key(key)?)
            .map_err(|source| TlsError::Pair { cert: cert.clone(), key: key.clone(), source })?,
        _ => builder.with_no_client_auth(),
    };
    Ok(Some(Arc::new(client)))
}

/// The name that the certificate of the server at an address must carry, where that is asked.
///
/// # Errors
/// A host that can be in no certificate.
pub fn name_of(address: &Address) -> Result<ServerName<'static>, TlsError> {
    let host = address.host().unwrap_or("localhost").to_owned();
    ServerName::try_from(host.clone()).map_err(|_| TlsError::HostName(host))
}
