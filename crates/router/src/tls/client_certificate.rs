//! Certificates of clients: asked for in the TLS handshake, judged right after it.
//!
//! A handshake that ends over a certificate tells the client so in an alert, which drivers report as a lost
//! connection, if at all. So the handshake only proves that the client has the key of what it shows. Whether
//! that lets it in is asked before anything else is said, and the answer is an error packet in words.
//! Sessions that are resumed are judged anew, by the authorities of now.

use ::tls::AnyClientCertificate;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, RootCertStore};
use std::fmt;
use std::sync::Arc;

/// Which certificates of clients are right.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Clients that show none are not let in.
    required: bool,
}

/// Why a client is not let in.
#[derive(Debug)]
pub(crate) enum CertificateRejected {
    /// It has shown no certificate.
    Missing,
    /// It has shown one that is not right.
    Wrong(rustls::Error),
}

impl Judge {
    /// By these authorities.
    pub(super) fn new(roots: RootCertStore, required: bool) -> Result<Self, String> {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), ::tls::provider())
            .build()
            .map_err(|e| e.to_string())?;
        Ok(Self { verifier, required })
    }

    /// What asks in the handshake.
    pub(super) fn request(&self) -> Arc<AnyClientCertificate> {
        Arc::new(AnyClientCertificate(self.verifier.clone()))
    }

    /// Whether what a client has shown, its own certificate first, lets it in now.
    pub(super) fn judge(&self, shown: &[CertificateDer<'_>]) -> Result<(), CertificateRejected> {
        match shown.split_first() {
            None if self.required => Err(CertificateRejected::Missing),
            None => Ok(()),
            Some((own, others)) => {
                let verified = self.verifier.verify_client_cert(own, others, UnixTime::now());
                verified.map(drop).map_err(CertificateRejected::Wrong)
            }
        }
    }
}

impl fmt::Display for CertificateRejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CertificateError::{
            BadSignature, Expired, ExpiredContext, InvalidPurpose, InvalidPurposeContext, UnknownIssuer,
        };
        match self {
            Self::Missing => {
                f.write_str("clients need a certificate here and none was shown (ssl-cert, ssl-key)")
            }
            // A bad signature: of an authority of the same name with another key, such as the one before a
            // renewal.
            Self::Wrong(rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature)) => {
                f.write_str("the client's certificate is of no authority of this listener (tls_client_ca)")
            }
            Self::Wrong(rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. })) => {
                f.write_str("the client's certificate has expired")
            }
            Self::Wrong(rustls::Error::InvalidCertificate(InvalidPurpose | InvalidPurposeContext { .. })) => {
                f.write_str("the client's certificate is not one for clients (its extended key usage)")
            }
            Self::Wrong(error) => write!(f, "the client's certificate is not right: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    };

    type Authority = CertifiedIssuer<'static, KeyPair>;

    fn authority() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    fn judge(authority: &Authority, required: bool) -> Judge {
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        Judge::new(roots, required).unwrap()
    }

    fn signed(by: &Authority, change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["app".to_owned()]).unwrap();
        change(&mut params);
        params.signed_by(&KeyPair::generate().unwrap(), by).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_of_the_authority_lets_in_and_any_other_is_refused_with_its_reason() {
        let (ours, others) = (authority(), authority());
        let judge = judge(&ours, true);
        judge.judge(&[signed(&ours, |_| {})]).unwrap();
        let why = |shown: &[CertificateDer<'_>]| judge.judge(shown).unwrap_err().to_string();
        assert!(why(&[]).contains("none was shown"));
        assert!(why(&[signed(&others, |_| {})]).contains("no authority of this listener"));
        let expired = signed(&ours, |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
        assert!(why(&[expired]).contains("has expired"));
        let of_a_server = signed(&ours, |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        });
        assert!(why(&[of_a_server]).contains("not one for clients"), "{}", why(&[]));
        assert!(why(&[CertificateDer::from(vec![1, 2, 3])]).contains("not right"));
    }

    #[test]
    fn where_it_is_only_wanted_clients_may_do_without_and_a_wrong_one_is_refused_all_the_same() {
        let (ours, others) = (authority(), authority());
        let judge = judge(&ours, false);
        judge.judge(&[]).unwrap();
        assert!(judge.judge(&[signed(&others, |_| {})]).is_err());
    }
}
