//! TLS to a MariaDB server: what the server itself says of the connections.

use crate::stand::Stand;
use fleet::config::{Tls, TlsMode};
use lab::Spec;
use load::{LoadError, Plan, Target};
use mysql_async::prelude::Queryable;
use std::time::Duration;

#[tokio::test]
async fn connections_are_encrypted_where_that_is_asked_and_not_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.1.0.1".to_owned()]).unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let path = |path: &std::path::Path| path.display().to_string();
    let spec = Spec::new(&[("a", 1)]).option("ssl_cert", &path(&cert)).option("ssl_key", &path(&key));
    let stand = Stand::with(spec).await;
    stand.prepare(&Stand::options()).await;
    let accepts = async || -> u64 {
        let mut root = stand.root().await;
        let found: Option<(String, u64)> =
            root.query_first("SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'").await.unwrap();
        root.disconnect().await.unwrap();
        found.unwrap().1
    };
    for (mode, encrypted) in [
        (TlsMode::Disabled, false),
        (TlsMode::Preferred, true),
        (TlsMode::Required, true),
        (TlsMode::VerifyCa, true),
        (TlsMode::VerifyIdentity, true),
    ] {
        let before = accepts().await;
        let tls = Some(Tls { mode, ca: Some(cert.clone()), cert: None, key: None });
        let plan = stand.plan("oltp_read_write", &Stand::options());
        let plan = Plan { target: Target { tls, ..stand.target() }, clients: 1, ..plan };
        let outcome = stand.run(plan).await;
        assert!(outcome.totals.done > 0 && outcome.totals.failed == 0, "{mode:?}: {:?}", outcome.totals);
        assert_eq!(accepts().await - before, u64::from(encrypted), "{mode:?}");
    }
    stand.down().await;
}

#[tokio::test]
async fn a_server_without_tls_and_a_stranger_are_refused_where_that_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let stranger = rcgen::generate_simple_self_signed(["127.1.0.1".to_owned()]).unwrap();
    let ca = dir.path().join("ca.pem");
    std::fs::write(&ca, stranger.cert.pem()).unwrap();
    let stand = Stand::up(false).await;
    let plan = |tls: Tls| Plan {
        target: Target { tls: Some(tls), ..stand.target() },
        time: Duration::from_millis(100),
        ..stand.plan("oltp_point_select", &Stand::options())
    };
    let required = Tls { mode: TlsMode::Required, ca: None, cert: None, key: None };
    let error = stand.try_run(plan(required)).await.unwrap_err();
    assert!(matches!(&error, LoadError::Login { .. }) && error.to_string().contains("--ssl-mode"), "{error}");
    let nowhere = Tls { mode: TlsMode::VerifyCa, ca: Some("/nowhere/ca.pem".into()), cert: None, key: None };
    let error = stand.try_run(plan(nowhere)).await.unwrap_err();
    assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
    stand.down().await;
}
