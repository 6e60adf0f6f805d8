//! Certificates and keys from PEM files.

use super::error::TlsError;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;

/// All certificates of a file; at least one.
///
/// # Errors
/// A file that cannot be read, or holds none.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |source| TlsError::Pem { file: file.to_owned(), source };
    let found: Vec<_> =
        CertificateDer::pem_file_iter(file).map_err(wrong)?.collect::<Result<_, _>>().map_err(wrong)?;
    if found.is_empty() {
        return Err(TlsError::NoCertificate { file: file.to_owned() });
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
        roots.add(certificate).map_err(|source| TlsError::Authority { file: file.to_owned(), source })?;
    }
    Ok(roots)
}

/// The private key of a file.
///
/// # Errors
/// A file that cannot be read, or holds none.
pub fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file).map_err(|source| TlsError::Pem { file: file.to_owned(), source })
}
