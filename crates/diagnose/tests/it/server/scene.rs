//! A lab, and samplers of its servers.

use config::Credentials;
use diagnose::server::Sampler;
use fleet::Address;
use lab::{Account, Lab, Spec};
use mysql_async::prelude::Queryable;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) struct Scene {
    pub(crate) lab: Lab,
    _base: TempDir,
}

impl Scene {
    pub(crate) async fn up(spec: &Spec) -> Self {
        let base = tempfile::tempdir().unwrap();
        let lab = Lab::up(spec, base.path()).await.unwrap();
        Self { lab, _base: base }
    }

    /// A sampler that waits for each answer for at most `deadline`.
    pub(crate) fn sampler(&self, server: &str, deadline: Duration) -> Sampler {
        let real = self.lab.real(server).unwrap();
        let credentials = Credentials {
            user: Some(Account::Headroom.user().to_owned()),
            password: Some(self.lab.password(Account::Headroom).to_owned()),
            ..Credentials::default()
        };
        Sampler::new(Address::tcp(real.ip().to_string(), real.port()), credentials, deadline)
    }

    /// A statement on a server, as root.
    pub(crate) async fn run(&self, server: &str, statement: &str) {
        self.lab.connect(server).await.unwrap().query_drop(statement).await.unwrap();
    }
}
