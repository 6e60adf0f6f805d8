//! Control connections with TLS: what each `ssl_mode` asks of a real server's certificate.

use crate::scene::Scene;
use config::{Tls, TlsMode};
use fleet::State;
use lab::Spec;
use testkit::certificate::Authority;

/// The certificate is for `db.test`; the server is reached by its address.
#[tokio::test]
async fn a_certificate_of_the_authority_is_enough_for_verify_ca_and_its_name_is_asked_for_by_verify_identity()
{
    let files = tempfile::tempdir().unwrap();
    let (authority, stranger) =
        (Authority::new(files.path(), "authority"), Authority::new(files.path(), "stranger"));
    // As MySQL makes them for itself, certificates may also name nobody at all.
    for names in [&["db.test"][..], &[]] {
        let server = authority.sign("server", names);
        let spec = Spec::new(&[("a", 1)])
            .option("ssl_ca", &authority.ca.display().to_string())
            .option("ssl_cert", &server.cert.display().to_string())
            .option("ssl_key", &server.key.display().to_string());
        let scene = Scene::up(&spec).await;
        // Accepted with it: what the account says of itself shows that TLS was begun.
        scene.run("a1", "ALTER USER headroom@'%' REQUIRE SSL").await;
        for (mode, ca, accepted) in [
            (TlsMode::Required, None, true),
            (TlsMode::VerifyCa, Some(&authority.ca), true),
            (TlsMode::VerifyCa, Some(&stranger.ca), false),
            (TlsMode::VerifyIdentity, Some(&authority.ca), false),
        ] {
            let what = format!("{names:?}, {mode:?} by {ca:?}");
            let mut config = scene.config(&["a1"]);
            config.credentials.tls = Tls { mode, ca: ca.cloned(), ..Tls::default() };
            let mut watching = scene.watch_with(config);
            if accepted {
                watching.until_server("a1", &what, |s| s.state == State::Answering).await;
            } else {
                let refused = |s: &fleet::Server| format!("{:?}", s.state).contains("certificate");
                watching.until_server("a1", &what, refused).await;
            }
            watching.watcher.stop().await;
        }
        scene.lab.down().await.unwrap();
    }
}

#[tokio::test]
async fn a_certificate_of_version_one_is_as_good_as_any_where_none_is_verified_and_refused_in_words_elsewhere()
 {
    let files = tempfile::tempdir().unwrap();
    let authority = Authority::new(files.path(), "authority");
    let server = authority.sign_version_one("server");
    let spec = Spec::new(&[("a", 1)])
        .option("ssl_cert", &server.cert.display().to_string())
        .option("ssl_key", &server.key.display().to_string());
    let scene = Scene::up(&spec).await;
    scene.run("a1", "ALTER USER headroom@'%' REQUIRE SSL").await;
    for (mode, ca, accepted) in [
        (TlsMode::Preferred, None, true),
        (TlsMode::Required, None, true),
        (TlsMode::VerifyCa, Some(&authority.ca), false),
        (TlsMode::VerifyIdentity, Some(&authority.ca), false),
    ] {
        let mut config = scene.config(&["a1"]);
        config.credentials.tls = Tls { mode, ca: ca.cloned(), ..Tls::default() };
        let mut watching = scene.watch_with(config);
        let what = format!("{mode:?}");
        if accepted {
            watching.until_server("a1", &what, |s| s.state == State::Answering).await;
        } else {
            let refused = |s: &fleet::Server| format!("{:?}", s.state).contains("X.509 version 1");
            watching.until_server("a1", &what, refused).await;
        }
        watching.watcher.stop().await;
    }
    scene.lab.down().await.unwrap();
}

/// A control connection without TLS to a server that could have had it would be a way around the mode.
#[tokio::test]
async fn a_server_without_tls_is_answered_where_tls_is_preferred_and_refused_where_it_is_demanded() {
    // MariaDB makes itself a certificate from 11.4 on.
    let scene = Scene::up(&Spec::new(&[("a", 1)]).option("ssl", "0")).await;
    for (mode, accepted) in [(TlsMode::Preferred, true), (TlsMode::Required, false)] {
        let mut config = scene.config(&["a1"]);
        config.credentials.tls = Tls { mode, ..Tls::default() };
        let mut watching = scene.watch_with(config);
        let what = format!("{mode:?}");
        if accepted {
            watching.until_server("a1", &what, |s| s.state == State::Answering).await;
        } else {
            let refused = |s: &fleet::Server| format!("{:?}", s.state).contains("offers no TLS");
            watching.until_server("a1", &what, refused).await;
        }
        watching.watcher.stop().await;
    }
    scene.lab.down().await.unwrap();
}
