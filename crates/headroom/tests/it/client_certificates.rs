//! Certificates from clients, with the server's own command-line client: who is let in, what the others are
//! told, and a renewed authority.

use crate::support::route::Route;
use crate::support::told;
use lab::{Account, Lab, Spec};
use rustix::process::Signal;
use std::path::Path;
use testkit::certificate::{Authority, Certificate};

/// The client's words: what it was answered, or the error it ended with.
async fn client(
    lab: &Lab,
    router: &Route,
    options: &[&str],
    shows: Option<&Certificate>,
) -> Result<String, String> {
    let mut command = tokio::process::Command::new("mariadb");
    command
        .args(["--no-defaults", "--protocol=TCP", "--batch", "--skip-column-names"])
        .args(["--execute", "SELECT 1", "--user", Account::App.user()])
        .arg(format!("--host={}", router.writer.ip()))
        .arg(format!("--port={}", router.writer.port()))
        .args(options)
        .env("MYSQL_PWD", lab.password(Account::App))
        .kill_on_drop(true);
    if let Some(Certificate { cert, key }) = shows {
        command.arg("--ssl-cert").arg(cert).arg("--ssl-key").arg(key);
    }
    let output = tokio::time::timeout(told::LIMIT, command.output()).await.unwrap().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Has the configuration read again, and waits for what came of it.
async fn reload(router: &Route, accepted: bool) {
    router.signal(Signal::HUP);
    router.wait_for("the reload", |status| status["process"]["reload"]["accepted"] == accepted).await;
}

fn refused(status: &serde_json::Value) -> u64 {
    status["listeners"][1]["refused"]["client_certificate"].as_u64().unwrap()
}

fn is_denied(answer: &Result<String, String>, why: &str) {
    let error = answer.as_ref().expect_err("nobody is let in");
    assert!(error.contains("ERROR 1045 (28000)") && error.contains(why), "{error}");
}

const NONE: &str = "none was shown";
const STRANGER: &str = "no authority of this listener";

#[tokio::test]
async fn clients_are_let_in_by_their_certificate_told_why_not_and_a_reload_renews_the_authority() {
    let base = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
    let (before, after) = (Authority::new(files.path(), "before"), Authority::new(files.path(), "after"));
    let (ours, theirs) = (before.sign("ours", &["app"]), after.sign("theirs", &["app"]));
    let listener = before.sign("listener", &["localhost"]);
    let accepted = files.path().join("accepted.pem");
    std::fs::copy(&before.ca, &accepted).unwrap();
    let path = |path: &Path| format!("\"{}\"", path.display());
    let lines = format!(
        "tls = \"required\"\ntls_cert = {}\ntls_key = {}\ntls_client_cert = \"required\"\ntls_client_ca = {}",
        path(&listener.cert),
        path(&listener.key),
        path(&accepted)
    );
    let seeds = format!("[fleet]\nseeds = [\"{}\"]\ndiscover = false", lab.real("a1").unwrap());
    let mut router = Route::new(&lab, "zero_hop = \"off\"", &lines, &seeds);
    router.start();
    router.wait_for("a writer", |status| !status["writer"].is_null()).await;
    let ca = format!("--ssl-ca={}", before.ca.display());
    let tls = [ca.as_str()];

    assert_eq!(client(&lab, &router, &tls, Some(&ours)).await.as_deref(), Ok("1"));
    let older = [ca.as_str(), "--tls-version=TLSv1.2"];
    assert_eq!(client(&lab, &router, &older, Some(&ours)).await.as_deref(), Ok("1"));
    is_denied(&client(&lab, &router, &tls, None).await, NONE);
    is_denied(&client(&lab, &router, &older, None).await, NONE);
    is_denied(&client(&lab, &router, &tls, Some(&theirs)).await, STRANGER);
    is_denied(&client(&lab, &router, &older, Some(&theirs)).await, STRANGER);
    let without = client(&lab, &router, &["--skip-ssl"], None).await.unwrap_err();
    assert!(without.contains("3159"), "{without}");
    let status = router.status();
    assert_eq!(refused(&status), 4, "{}", status["listeners"]);
    assert_eq!(status["listeners"][1]["tls_client_cert"], "required");
    assert!(router.get("/metrics").contains("reason=\"client_certificate\"} 4"));

    // What is broken is refused and changes nothing; what is renewed counts from the next client on.
    std::fs::write(&accepted, "no certificate").unwrap();
    reload(&router, false).await;
    assert_eq!(client(&lab, &router, &tls, Some(&ours)).await.as_deref(), Ok("1"));
    std::fs::copy(&after.ca, &accepted).unwrap();
    reload(&router, true).await;
    let notes = router.status()["process"]["reload"]["notes"].to_string();
    assert!(notes.contains("certificate of listener") && notes.contains("renewed"), "{notes}");
    assert_eq!(client(&lab, &router, &tls, Some(&theirs)).await.as_deref(), Ok("1"));
    is_denied(&client(&lab, &router, &tls, Some(&ours)).await, STRANGER);

    // Only wanted: also those that show none, with TLS or without, and never a wrong one.
    let text = std::fs::read_to_string(&router.file).unwrap();
    let text = text
        .replace("tls = \"required\"", "tls = \"preferred\"")
        .replace("tls_client_cert = \"required\"", "tls_client_cert = \"optional\"");
    std::fs::write(&router.file, text).unwrap();
    router.signal(Signal::HUP);
    router.wait_for("the change", |status| status["listeners"][1]["tls_client_cert"] == "optional").await;
    for (options, shows) in [(&tls[..], Some(&theirs)), (&tls[..], None), (&["--skip-ssl"][..], None)] {
        assert_eq!(client(&lab, &router, options, shows).await.as_deref(), Ok("1"), "{options:?}");
    }
    is_denied(&client(&lab, &router, &tls, Some(&ours)).await, STRANGER);

    router.signal(Signal::TERM);
    assert_eq!(router.end().await.code(), Some(0));
    drop(router);
    lab.down().await.unwrap();
}
