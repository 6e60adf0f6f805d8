//! What an agent that others can reach is given.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, PublicKeyData};
use sha2::{Digest, Sha256};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use testkit::certificate::{Authority, Certificate};

/// An authority, its certificate for this machine, and a token.
pub(crate) struct Secrets {
    pub(crate) authority: Authority,
    pub(crate) certificate: Certificate,
    pub(crate) token: PathBuf,
}

impl Secrets {
    pub(crate) fn new(dir: &Path, secret: &str) -> Self {
        let authority = Authority::new(dir, "authority");
        let certificate = authority.sign("agent", &["localhost", "127.0.0.1"]);
        let token = dir.join("token");
        std::fs::write(&token, format!("{secret}\n")).unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        Self { authority, certificate, token }
    }

    /// The words that give an agent all of it.
    pub(crate) fn args(&self) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let Certificate { cert, key } = &self.certificate;
        ["--tls-cert", &text(cert), "--tls-key", &text(key), "--token-file", &text(&self.token)]
            .map(str::to_owned)
            .to_vec()
    }

    /// SHA-256 of its public key, base64: by this a browser can be told to trust it.
    pub(crate) fn fingerprint(&self) -> String {
        let key = KeyPair::from_pem(&std::fs::read_to_string(&self.certificate.key).unwrap()).unwrap();
        STANDARD.encode(Sha256::digest(key.subject_public_key_info()))
    }
}
