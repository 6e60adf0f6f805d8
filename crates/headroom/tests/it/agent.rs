//! `headroom agent` beyond loopback, over real sockets: who may read it, and what `headroom watch --agent`
//! makes of several.

use crate::support::agent::{Agent, LIMIT, TOKEN, headroom, words};
use crate::support::secrets::Secrets;
use lab::{Account, Lab, Spec};
use serde_json::Value;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use testkit::certificate::Authority;

fn start(dir: &Path, name: &str, listen: &str, more: &[String]) -> Agent {
    let words: Vec<&str> = ["--listen", listen].into_iter().chain(more.iter().map(String::as_str)).collect();
    Agent::start(dir, name, &words)
}

fn watch(dir: &Path, args: &[&str]) -> Output {
    headroom(dir).args(["watch", "--once", "--json"]).args(args).output().unwrap()
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn beyond_loopback_it_does_not_start_without_a_token_and_tls_and_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(dir.path(), TOKEN);
    let all = secrets.args();
    let (tls, token) = all.split_at(4);
    for (given, missing, there) in [
        (&all[..0], "--token-file FILE", "--tls-cert FILE"),
        (tls, "a token", "token"),
        (token, "a certificate", "--tls-key"),
    ] {
        let output =
            headroom(dir.path()).args(["agent", "--listen", "0.0.0.0:0"]).args(given).output().unwrap();
        let said = words(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(missing) && said.contains(there) && said.contains("127.0.0.1"), "{said}");
        assert!(!said.contains(TOKEN), "{said}");
    }
    let output = headroom(dir.path()).args(["agent", "--tls-cert", "x.pem"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "a certificate without its key: {}", words(&output));
}

#[test]
fn only_whoever_brings_the_token_over_tls_reads_it_and_no_secret_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(dir.path(), TOKEN);
    let agent = start(dir.path(), "agent", "0.0.0.0:0", &secrets.args());
    let ca = &secrets.authority.ca;
    let ask = |path: &str, headers: &str| agent.sealed(ca, "localhost", path, headers).unwrap();

    // Somebody who dawdles over his handshake delays nobody.
    let dawdles = TcpStream::connect(agent.address).unwrap();
    for path in ["/watch.json", "/metrics", "/healthz", "/nowhere"] {
        let without = ask(path, "");
        assert!(without.starts_with("HTTP/1.1 401"), "{path}: {without}");
        assert!(without.to_ascii_lowercase().contains("www-authenticate: basic"), "{without}");
        let wrong = ask(path, &bearer("a-token-that-nobody-guesses-0123456788"));
        assert!(wrong.starts_with("HTTP/1.1 401"), "{path}: {wrong}");
    }
    let plain = agent.plain("/watch.json", &bearer(TOKEN));
    assert!(plain.starts_with("HTTP/1.1 400") && plain.contains("https://"), "{plain}");

    let right = ask("/watch.json", &bearer(TOKEN));
    assert!(right.starts_with("HTTP/1.1 200"), "{right}");
    let view: Value = serde_json::from_str(right.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(view["version"], env!("CARGO_PKG_VERSION"));
    let open = format!("{}Accept: application/openmetrics-text\r\n", bearer(TOKEN));
    let metrics = ask("/metrics", &open);
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    drop(dawdles);

    let key = std::fs::read_to_string(&secrets.certificate.key).unwrap();
    for shown in [agent.log(), agent.command_line(), right, metrics] {
        assert!(!shown.contains(TOKEN) && !shown.contains(key.lines().nth(1).unwrap()), "{shown}");
    }
    assert!(agent.sealed(&Authority::new(dir.path(), "other").ca, "localhost", "/", "").is_err());
}

#[test]
fn a_renewed_certificate_and_token_are_taken_over_and_broken_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(dir.path(), TOKEN);
    let mut agent = start(dir.path(), "agent", "127.0.0.1:0", &secrets.args());
    let old = &secrets.authority.ca;
    assert!(agent.sealed(old, "localhost", "/healthz", &bearer(TOKEN)).unwrap().contains("200 OK"));

    let cert = std::fs::read(&secrets.certificate.cert).unwrap();
    std::fs::write(&secrets.certificate.cert, "nothing").unwrap();
    agent.hang_up();
    assert!(agent.said("what was in force stays").contains("-cert.pem"));
    assert!(agent.sealed(old, "localhost", "/healthz", &bearer(TOKEN)).unwrap().contains("200 OK"));
    std::fs::write(&secrets.certificate.cert, cert).unwrap();

    let renewed = Authority::new(dir.path(), "renewed");
    let again = renewed.sign("agent", &["localhost"]);
    assert_eq!(again.cert, secrets.certificate.cert, "the same files");
    let token = "another-token-that-nobody-guesses";
    std::fs::write(&secrets.token, token).unwrap();
    agent.hang_up();
    agent.said("token read again");
    assert!(agent.sealed(&renewed.ca, "localhost", "/healthz", &bearer(TOKEN)).unwrap().contains("401"));
    assert!(agent.sealed(&renewed.ca, "localhost", "/healthz", &bearer(token)).unwrap().contains("200 OK"));
    assert!(agent.sealed(old, "localhost", "/healthz", &bearer(token)).is_err());
}

#[test]
fn on_loopback_it_needs_neither_and_takes_a_token_alone() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(dir.path(), TOKEN);
    let open = start(dir.path(), "open", "127.0.0.1:0", &[]);
    assert!(open.plain("/healthz", "").starts_with("HTTP/1.1 200"));
    let closed = start(dir.path(), "closed", "127.0.0.1:0", &secrets.args()[4..]);
    assert!(closed.plain("/healthz", "").starts_with("HTTP/1.1 401"));
    assert!(closed.plain("/healthz", &bearer(TOKEN)).starts_with("HTTP/1.1 200"));
}

/// Nobody checks the file for it (its unit's reload is a plain HUP): it does so itself, by its own needs.
#[test]
fn a_reload_takes_a_file_without_listeners_and_rejects_a_wrong_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("headroom.toml");
    let right = "[fleet]\nseeds = [\"127.0.0.1:1\"]\n";
    std::fs::write(&file, right).unwrap();
    let named = ["--listen", "127.0.0.1:0", "--config", file.to_str().unwrap()];
    let mut agent = Agent::start(dir.path(), "agent", &named);
    std::fs::write(&file, format!("{right}sedes = 1\n")).unwrap();
    agent.hang_up();
    let rejected = agent.said("reload rejected");
    assert!(rejected.contains("headroom.toml:3:1"), "{rejected}");
    assert!(!agent.log().contains("configuration read again"), "{}", agent.log());
    std::fs::write(&file, right).unwrap();
    agent.hang_up();
    agent.said("configuration read again");
}

#[test]
fn ceilings_are_read_from_the_history_that_is_named_and_one_that_is_not_there_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("history.sqlite");
    let named = ["--listen", "127.0.0.1:0", "--store", store.to_str().unwrap()];
    for words_of in [&["agent"][..], &["watch", "--once"]] {
        let output = headroom(dir.path()).args(words_of).args(&named[2..]).output().unwrap();
        let said = words(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("headroom probe --store"), "{said}");
    }
    assert!(!store.exists(), "it is only read");
    // What reads it does not write it: not even its directory has to be ours.
    std::fs::write(&store, "").unwrap();
    let mut agent = Agent::start(dir.path(), "agent", &named);
    std::fs::remove_file(&store).unwrap();
    agent.hang_up();
    let rejected = agent.said("reload rejected");
    assert!(rejected.contains("there is no history"), "{rejected}");
}

#[test]
fn watch_says_in_words_why_an_agent_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(dir.path(), TOKEN);
    let agent = start(dir.path(), "agent", "127.0.0.1:0", &secrets.args());
    let url = format!("https://localhost:{}", agent.address.port());
    let ca = secrets.authority.ca.display().to_string();
    let token = secrets.token.display().to_string();
    let refused = |args: &[&str], why: &str| {
        let output = watch(dir.path(), args);
        let said = words(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why) && !said.contains(TOKEN), "not {why}: {said}");
    };
    refused(&["--agent", &url, "--agent-ca", &ca], "asks for its token");
    refused(&["--agent", &url, "--agent-token-file", &token], "TLS failed");
    std::fs::write(dir.path().join("wrong"), "not-the-token-of-this-agent").unwrap();
    std::fs::set_permissions(dir.path().join("wrong"), std::fs::Permissions::from_mode(0o600)).unwrap();
    refused(&["--agent", &url, "--agent-ca", &ca, "--agent-token-file", "wrong"], "takes another token");
    refused(&["--agent", "http://192.0.2.1:9307"], "HTTPS only");
    let output = watch(dir.path(), &["--agent", &url, "--server", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(64), "{}", words(&output));
}

#[tokio::test]
async fn watch_puts_several_agents_together_and_shows_each_server_once() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2)]), base.path()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets::new(dir.path(), TOKEN);
    let agent_of = |server: &str| {
        let mut args = secrets.args();
        let at = lab.real(server).unwrap().to_string();
        let file = lab.credentials_file(Account::Headroom).display().to_string();
        args.extend(["--server", &at, "--option-file", &file, "--window", "2s"].map(str::to_owned));
        start(dir.path(), server, "127.0.0.1:0", &args)
    };
    let agents = [agent_of("a1"), agent_of("a2")];
    let urls = agents.each_ref().map(|agent| format!("https://localhost:{}", agent.address.port()));
    let (ca, token) = (secrets.authority.ca.display().to_string(), secrets.token.display().to_string());
    let silent = "https://localhost:1";
    let args = [
        "--agent",
        &urls[0],
        "--agent",
        &urls[1],
        "--agent",
        silent,
        "--agent-ca",
        &ca,
        "--agent-token-file",
        &token,
    ];
    let deadline = std::time::Instant::now() + LIMIT;
    let view = loop {
        let output = watch(dir.path(), &args);
        let view: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", words(&output)));
        let whole = |server: &Value| server["sample"].is_object() && server["verdict"]["text"].is_string();
        let servers = view["servers"].as_array().unwrap();
        let hosts = view["hosts"].as_array().unwrap();
        if servers.len() == 2 && servers.iter().all(whole) && hosts[0]["host"].is_object() {
            break view;
        }
        assert!(std::time::Instant::now() < deadline, "never whole: {view}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };
    let servers = view["servers"].as_array().unwrap();
    assert_eq!(servers[0]["role"], "primary", "{view}");
    assert!(servers.iter().all(|s| s["on_this_host"] == true && urls.iter().any(|url| s["agent"] == *url)));
    let hosts = view["hosts"].as_array().unwrap();
    assert_eq!((hosts.len(), &hosts[0]["agent"]), (3, &Value::from(urls[0].as_str())));
    assert!(hosts[2]["unanswered"].as_str().unwrap().contains("cannot be reached"), "{}", hosts[2]);
    let text = headroom(dir.path()).args(["watch", "--once"]).args(args).output().unwrap();
    // One agent is silent: that nothing is named does not mean that there is nothing.
    let code = text.status.code();
    let text = words(&text);
    assert!(matches!(code, Some(1 | 2)), "{code:?} {text}");
    assert!(text.contains(&urls[1]) && text.contains("beside https://localhost"), "{text}");
    lab.down().await.unwrap();
}
