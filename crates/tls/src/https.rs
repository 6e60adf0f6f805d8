//! TLS as HTTP wants it: whoever answers is verified, by name, always; and the two sides of one's own
//! certificate.

use super::error::TlsError;
use super::{files, provider};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

/// How TLS to an HTTPS address is begun: its certificate must be for its name, from the authorities in `ca`,
/// or from one that the web trusts where there is no `ca`.
///
/// # Errors
/// A file that cannot be read or used.
pub fn client(ca: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let roots = match ca {
        Some(ca) => files::authorities(ca)?,
        None => RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    };
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| TlsError::Setup(e.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// How TLS from clients is ended, with this certificate (and what links it to its authority) and its key.
///
/// # Errors
/// A file that cannot be read, or a key that is another certificate's.
pub fn server(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    server_asking(cert, key, WebPkiClientVerifier::no_client_auth())
}

/// The same, with somebody who asks clients for a certificate of theirs.
///
/// # Errors
/// As [`server`].
pub fn server_asking(
    cert: &Path,
    key: &Path,
    asks: Arc<dyn ClientCertVerifier>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| TlsError::Setup(e.to_string()))?
        .with_client_cert_verifier(asks)
        .with_single_cert(files::certificates(cert)?, files::private_key(key)?)
        .map_err(|source| TlsError::Pair { cert: cert.to_owned(), key: key.to_owned(), source })?;
    Ok(Arc::new(config))
}
