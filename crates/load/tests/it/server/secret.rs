//! TLS to a MariaDB server: what the server itself says of the connections.

use super::stand::Stand;
use config::{Tls, TlsMode};
use lab::Spec;
use load::replay::{ReplayPlan, Script, ScriptOptions};
use load::{LoadError, Plan, Target};
use mysql_async::prelude::Queryable;
use recording::{Answer, Event, Reader, RecordedCommand, SessionEnd, SessionStart, Writer};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::Command;

/// A server with a certificate of its own making, which is the authority for it too, and where that lies.
async fn with_a_certificate(dir: &Path) -> (Stand, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["127.1.0.1".to_owned()]).unwrap();
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let path = |path: &Path| path.display().to_string();
    let spec = Spec::new(&[("a", 1)]).option("ssl_cert", &path(&cert)).option("ssl_key", &path(&key));
    (Stand::with(spec).await, cert)
}

/// How many connections have come by TLS, by the server's own count.
async fn accepts(stand: &Stand) -> u64 {
    let mut root = stand.root().await;
    let found: Option<(String, u64)> =
        root.query_first("SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'").await.unwrap();
    root.disconnect().await.unwrap();
    found.unwrap().1
}

#[tokio::test]
async fn connections_are_encrypted_where_that_is_asked_and_not_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let (stand, cert) = with_a_certificate(dir.path()).await;
    stand.prepare(&Stand::options()).await;
    for (mode, encrypted) in [
        (TlsMode::Disabled, false),
        (TlsMode::Preferred, true),
        (TlsMode::Required, true),
        (TlsMode::VerifyCa, true),
        (TlsMode::VerifyIdentity, true),
    ] {
        let before = accepts(&stand).await;
        let tls = Some(Tls { mode, ca: Some(cert.clone()), cert: None, key: None });
        let plan = stand.plan("oltp_read_write", &Stand::options());
        let plan = Plan { target: Target { tls, ..stand.target() }, clients: 1, ..plan };
        let outcome = stand.run(plan).await;
        assert!(outcome.totals.done > 0 && outcome.totals.failed == 0, "{mode:?}: {:?}", outcome.totals);
        assert_eq!(accepts(&stand).await - before, u64::from(encrypted), "{mode:?}");
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

/// Five sessions, each with a statement as text and one that is prepared.
fn recorded() -> Script {
    let mut writer = Writer::new(Vec::new(), None).unwrap();
    for session in 1..=5 {
        let opened = SessionStart {
            session,
            at_us: 1000 * session,
            fresh: true,
            mariadb: true,
            ..SessionStart::default()
        };
        writer.push(&Event::SessionStart(opened)).unwrap();
        let said = |at_us, command: Command, body: &[u8], prepared| {
            let answer = Some(Answer { rows: 1, prepared, ..Answer::default() });
            Event::Command(RecordedCommand {
                session,
                at_us,
                command: command.byte(),
                body: body.to_vec(),
                left_out: false,
                before: false,
                answer,
            })
        };
        let at = 100_000 + 1000 * session;
        writer.push(&said(at, Command::Query, b"SELECT 'as text'", None)).unwrap();
        writer.push(&said(at + 1000, Command::StmtPrepare, b"SELECT 'prepared'", Some(9))).unwrap();
        writer.push(&said(at + 2000, Command::StmtExecute, &[9, 0, 0, 0, 0, 1, 0, 0, 0], None)).unwrap();
        writer.push(&Event::SessionEnd(SessionEnd { session, at_us: at + 5000 })).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let choice = ScriptOptions { read_only: true, memory: 1 << 20 };
    Script::read(Reader::new(bytes.as_slice(), None).unwrap(), choice, |_| 0).unwrap()
}

#[tokio::test]
async fn a_replay_is_encrypted_where_that_is_asked_and_its_answers_are_read_alike() {
    let dir = tempfile::tempdir().unwrap();
    let (stand, cert) = with_a_certificate(dir.path()).await;
    for (mode, encrypted) in [
        (None, 0),
        (Some(TlsMode::Preferred), 5),
        (Some(TlsMode::Required), 5),
        (Some(TlsMode::VerifyIdentity), 5),
    ] {
        let before = accepts(&stand).await;
        let plan = ReplayPlan {
            target: stand.target().readers[0].clone(),
            tls: mode.map(|mode| Tls { mode, ca: Some(cert.clone()), cert: None, key: None }),
            account: stand.account(),
            speed: 1.0,
            read_only: true,
            threads: 1,
            grace: Duration::from_secs(5),
        };
        let replayed = tokio::task::spawn_blocking(move || {
            load::replay::replay(&recorded(), &plan, &Default::default(), |_| ()).unwrap()
        });
        let replayed = replayed.await.unwrap();
        assert!(replayed.lost_sessions.is_empty(), "{mode:?}: {:?}", replayed.lost_sessions);
        let outcomes: Vec<_> = replayed.outcomes.iter().flatten().collect();
        assert_eq!(outcomes.len(), 15, "{mode:?}: {outcomes:?}");
        assert_eq!(outcomes.iter().map(|outcome| outcome.rows).sum::<u64>(), 10, "{mode:?}: {outcomes:?}");
        assert!(outcomes.iter().all(|outcome| outcome.error.is_none()), "{mode:?}: {outcomes:?}");
        assert_eq!(accepts(&stand).await - before, encrypted, "{mode:?}");
    }
    let plan = ReplayPlan {
        target: stand.target().readers[0].clone(),
        tls: Some(Tls {
            mode: TlsMode::VerifyCa,
            ca: Some(dir.path().join("key.pem")),
            cert: None,
            key: None,
        }),
        account: stand.account(),
        speed: 1.0,
        read_only: true,
        threads: 1,
        grace: Duration::from_secs(5),
    };
    let replayed = tokio::task::spawn_blocking(move || {
        load::replay::replay(&recorded(), &plan, &Default::default(), |_| ()).map(|_| ())
    });
    assert!(replayed.await.unwrap().is_err(), "nobody vouches for the server");
    stand.down().await;
}
