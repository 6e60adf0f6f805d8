//! What each mode asks of a server's certificate, as MySQL defines `ssl-mode`.
//!
//! | mode | from the authority | for this host |
//! |---|---|---|
//! | preferred, required | no | no |
//! | verify_ca | yes | no |
//! | verify_identity | yes | yes |
//!
//! Certificates of X.509 version 1, as `openssl x509 -req` makes them without extensions, can be verified by
//! no library that we use: where nothing is verified they pass like any other, elsewhere the refusal says
//! what is wrong with them.

use super::error::TlsError;
use config::TlsMode;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, RootCertStore, SignatureScheme,
};
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
        TlsMode::VerifyCa => Arc::new(Readable(Arc::new(Authority { roots: Some(roots), provider }))),
        TlsMode::VerifyIdentity => {
            let built_in = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
            Arc::new(Readable(built_in.map_err(|e| TlsError::Setup(e.to_string()))?))
        }
    })
}

/// What is wrong with a TLS connection that did not come about: the library's words, or better ones.
pub fn words(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(why)))) => why.to_string(),
        _ => error.to_string(),
    }
}

/// A certificate of X.509 version 1 where it is to be verified.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server's certificate is of X.509 version 1, which cannot be verified; make one of version 3 (openssl x509 -req \
     -extfile with subjectAltName), or do not verify (ssl_mode REQUIRED, [router.tls] mode = \"required\")"
)]
struct VersionOne;

/// Leaves the signatures of a handshake to another verifier, in this field.
macro_rules! signatures_by {
    ($field:tt) => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.$field.verify_tls12_signature(message, certificate, signature)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.$field.verify_tls13_signature(message, certificate, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.$field.supported_verify_schemes()
        }
    };
}

/// Asks clients for a certificate in the handshake, and takes any whose key the client has: whether it lets
/// the client in is decided once the client can be told.
#[derive(Debug)]
pub struct AnyClientCertificate(pub Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    signatures_by!(0);
}

/// Says of a certificate that cannot be read why, before the other verifier stumbles over it.
#[derive(Debug)]
struct Readable(Arc<dyn ServerCertVerifier>);

impl ServerCertVerifier for Readable {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if is_version_one(certificate) {
            return Err(CertificateError::Other(OtherError(Arc::new(VersionOne))).into());
        }
        self.0.verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    signatures_by!(0);
}

/// Whether a certificate is of version 1: it begins (X.690, RFC 5280 4.1) as a sequence in a sequence, whose
/// first element is then the serial number, an integer; later versions say their own first, in context 0.
fn is_version_one(der: &[u8]) -> bool {
    let content = |bytes: &[u8]| {
        let [0x30, length, rest @ ..] = bytes else { return None };
        let more = if *length < 0x80 { 0 } else { usize::from(*length & 0x7f) };
        rest.get(more..).map(<[u8]>::to_vec)
    };
    content(der).and_then(|certificate| content(&certificate)).is_some_and(|first| first.first() == Some(&2))
}

/// A certificate of one of `roots`, for whatever name. Without `roots`, whoever answers: certificates are
/// then not even read, since old setups have made some that cannot be.
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
