//! TLS as HTTP wants it: whoever answers is verified, by name, always; and the two sides of one's own certificate.

use super::{TlsError, files, provider};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

/// How TLS to an HTTPS address is begun: its certificate must be for its name, from the authorities in `ca`, or from one that
/// the web trusts where there is no `ca`.
///
/// # Errors
/// A file that cannot be read or used.
pub fn client(ca: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(ca) => {
            for certificate in files::certificates(ca)? {
                roots.add(certificate).map_err(|e| TlsError(format!("{}: {e}", ca.display())))?;
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| TlsError(e.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// How TLS from clients is ended, with this certificate (and what links it to its authority) and its key.
///
/// # Errors
/// A file that cannot be read, or a key that is another certificate's.
pub fn server(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| TlsError(e.to_string()))?
        .with_no_client_auth()
        .with_single_cert(files::certificates(cert)?, files::private_key(key)?)
        .map_err(|e| TlsError(format!("{} and {}: {e}", cert.display(), key.display())))?;
    Ok(Arc::new(config))
}
