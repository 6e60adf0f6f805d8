//! What each mode asks of a server's certificate, as MySQL defines `ssl-mode`.
//!
//! | mode | from the authority | for this host |
//! |---|---|---|
//! | preferred, required | no | no |
//! | verify_ca | yes | no |
//! | verify_identity | yes | yes |

use super::TlsError;
use fleet::config::TlsMode;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// The verifier for a mode; `roots` are the authorities that may vouch.
pub(super) fn verifier(
    mode: TlsMode,
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let provider = provider.clone();
    Ok(match mode {
        TlsMode::Disabled | TlsMode::Preferred | TlsMode::Required => {
            Arc::new(Authority { roots: None, provider })
        }
        TlsMode::VerifyCa => Arc::new(Authority { roots: Some(roots), provider }),
        TlsMode::VerifyIdentity => WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|e| TlsError(e.to_string()))?,
    })
}

/// A certificate of one of `roots`, for whatever name. Without `roots`, whoever answers: certificates are then not even
/// read, since old setups have made some that cannot be.
#[derive(Debug)]
struct Authority {
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Authority {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let parsed = ParsedCertificate::try_from(certificate)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(verify_tls12_signature, message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(verify_tls13_signature, message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// How a version of TLS checks a signature.
type Check = fn(
    &[u8],
    &CertificateDer<'_>,
    &DigitallySignedStruct,
    &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, rustls::Error>;

impl Authority {
    fn signature(
        &self,
        check: Check,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match self.roots {
            Some(_) => {
                check(message, certificate, signature, &self.provider.signature_verification_algorithms)
            }
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }
}
