//! Certificates and keys from PEM files.

use super::TlsError;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;

/// All certificates of a file; at least one.
///
/// # Errors
/// A file that cannot be read, or holds none.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |e: rustls::pki_types::pem::Error| TlsError(format!("{}: {e}", file.display()));
    let found: Vec<_> =
        CertificateDer::pem_file_iter(file).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)?;
    if found.is_empty() {
        return Err(TlsError(format!("{} holds no certificate in PEM form", file.display())));
    }
    Ok(found)
}

/// The authorities whose certificates a file holds; at least one.
///
/// # Errors
/// A file that cannot be read, holds none, or one that cannot vouch for others.
pub fn authorities(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|e| TlsError(format!("{}: {e}", file.display())))?;
    }
    Ok(roots)
}

/// The private key of a file.
///
/// # Errors
/// A file that cannot be read, or holds none.
pub fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file).map_err(|e| TlsError(format!("{}: {e}", file.display())))
}
