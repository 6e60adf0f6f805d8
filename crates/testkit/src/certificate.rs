//! Certificates for a test: an authority, and what it signs.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SigningKey};
use std::path::{Path, PathBuf};

/// An authority whose files are in a directory that lives as long as the test.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: PathBuf,
    /// Its own certificate, PEM.
    pub ca: PathBuf,
}

/// A certificate and its key, PEM files.
#[derive(Clone)]
pub struct Certificate {
    /// The certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Authority {
    /// A new one, whose files will be in `dir`.
    pub fn new(dir: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let ca = dir.join(format!("{name}.pem"));
        std::fs::write(&ca, issuer.pem()).unwrap();
        Self { issuer, dir: dir.to_owned(), ca }
    }

    /// A certificate of X.509 version 1, as `openssl x509 -req` makes them: no extensions, and so for no name
    /// that anybody reads.
    pub fn sign_version_one(&self, file: &str) -> Certificate {
        let (paths, der) = self.signed(file, &[]);
        let [certificate] = elements(&der)[..] else { panic!("one certificate") };
        let [(_, signed), (_, algorithm), _] = elements(certificate.1)[..] else { panic!("three parts") };
        // Without the version (context 0) and the extensions (context 3).
        let kept = elements(signed).into_iter().filter(|(tag, _)| ![0xa0, 0xa3].contains(tag));
        let signed =
            element(0x30, &kept.flat_map(|(tag, content)| element(tag, content)).collect::<Vec<_>>());
        let signature = self.issuer.key().sign(&signed).unwrap();
        let signature = element(3, &[&[0], signature.as_slice()].concat());
        let der = element(0x30, &[signed, element(0x30, algorithm), signature].concat());
        std::fs::write(&paths.cert, pem_of(&der)).unwrap();
        paths
    }

    /// A certificate for these names and addresses.
    pub fn sign(&self, file: &str, names: &[&str]) -> Certificate {
        self.signed(file, names).0
    }

    /// The same, and the certificate as DER.
    fn signed(&self, file: &str, names: &[&str]) -> (Certificate, Vec<u8>) {
        let key = KeyPair::generate().unwrap();
        let mut params =
            CertificateParams::new(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).unwrap();
        params.distinguished_name.push(DnType::CommonName, file);
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let paths = Certificate {
            cert: self.dir.join(format!("{file}-cert.pem")),
            key: self.dir.join(format!("{file}-key.pem")),
        };
        std::fs::write(&paths.cert, cert.pem()).unwrap();
        std::fs::write(&paths.key, key.serialize_pem()).unwrap();
        (paths, cert.der().to_vec())
    }
}

/// The elements of DER in a row: tag and content.
fn elements(mut der: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let [tag, length, rest @ ..] = der {
        let more = if *length < 0x80 { 0 } else { usize::from(*length & 0x7f) };
        let long = rest[..more].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let length = if more == 0 { usize::from(*length) } else { long };
        found.push((*tag, &rest[more..more + length]));
        der = &rest[more + length..];
    }
    found
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let length: &[u8] = match content.len() {
        0..0x80 => &[low],
        0x80..0x100 => &[0x81, low],
        _ => &[0x82, high, low],
    };
    [&[tag], length, content].concat()
}

fn pem_of(der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let base64: String = der
        .chunks(3)
        .flat_map(|three| {
            let bits =
                three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
            (0..4).map(move |n| match n <= three.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * n) & 63) as usize]),
                false => '=',
            })
        })
        .collect();
    let lines: Vec<&str> =
        base64.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
