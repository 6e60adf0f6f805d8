//! TLS towards servers, as MySQL's `ssl-mode` defines it, and the key exchange of `caching_sha2_password` for
//! where there is none. What holds for everybody who talks to servers himself: the router and the load
//! generator. And TLS as HTTP has it ([`https`]), for the agent and its readers.
//!
//! Files in, a [`ClientConfig`] out; sockets and the moment at which TLS begins are the caller's.

pub mod files;
pub mod https;
mod sealed;
mod verify;

pub use sealed::{random, sealed};
pub use verify::words;

use config::{Tls, TlsMode};
use fleet::Address;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// What cannot be used for TLS: the file, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(pub String);

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
        .map_err(|e| TlsError(e.to_string()))?;
    let roots = tls.ca.as_deref().map(files::authorities).transpose()?.unwrap_or_else(RootCertStore::empty);
    let verifier = verify::verifier(tls.mode, roots, &provider())?;
    // "Dangerous" is any verifier but the built-in one; ours are MySQL's ssl-mode.
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let client = match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(files::certificates(cert)?, files::private_key(key)?)
            .map_err(|e| TlsError(format!("{} and {}: {e}", cert.display(), key.display())))?,
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
    ServerName::try_from(host.clone()).map_err(|_| TlsError(format!("'{host}' is no name of a host")))
}
