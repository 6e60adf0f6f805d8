//! Objectives without a router: an agent holds a server to what is promised by the server's own count of
//! durations, tells the webhook of an incident and of its end, and says in words what it cannot judge and
//! what that would need.

use crate::support::agent::{Agent, headroom, words};
use crate::support::going_on::GoingOn;
use crate::support::receiving::{Receiving, SECRET};
use lab::{Account, Lab, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use testkit::certificate::Authority;

/// The server's count is asked for every five seconds, and windows are twelve.
const LIMIT: Duration = Duration::from_secs(90);

#[tokio::test]
async fn a_slow_server_is_told_of_by_its_agent_and_what_cannot_be_judged_is_said() {
    let base = tempfile::tempdir().unwrap();
    let spec = Spec::new(&[("a", 1)]).option("plugin_load_add", "query_response_time");
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    let authority = Authority::new(base.path(), "authority");
    let receiving = Receiving::start(&authority.sign("hooks", &["localhost"]));
    let file = promising(&lab, base.path(), &authority.ca, receiving.port);
    let file = file.display().to_string();
    let args = ["--listen", "127.0.0.1:0", "--window", "2s", "--router", "off", "--config", &file];
    let agent = Agent::start(base.path(), "agent", &args);

    // The plugin is there and counts nothing yet.
    let why = |view: &Value, name: &str| objective(view, name)["not_judged"].as_str().map(str::to_owned);
    let says = |view: &Value, name: &str, what: &str| why(view, name).is_some_and(|why| why.contains(what));
    until(&agent, "what is missing", |view| says(view, "quick", "SET GLOBAL query_response_time_stats = ON"))
        .await;
    let mut conn = lab.connect("a1").await.unwrap();
    conn.query_drop("SET GLOBAL query_response_time_stats = ON").await.unwrap();
    let deadline = Instant::now() + LIMIT;
    loop {
        send(&mut conn, "SELECT 1", 20).await;
        let view = watch(&agent);
        let quick = objective(&view, "quick");
        if quick["not_judged"].is_null() && quick["burn"]["fast"].as_f64().is_some_and(|burn| burn < 1.0) {
            assert_eq!(quick["promise"], "90 % of statements on server a1 within 100ms");
            break;
        }
        assert!(Instant::now() < deadline, "never judged: {view:#}\n{}", agent.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let view = until(&agent, "the ranges", |view| why(view, "between").is_some()).await;
    assert!(says(&view, "between", r#"promise threshold = "10ms" or threshold = "100ms""#), "{view:#}");
    assert!(says(&view, "between", "query_response_time_range_base = 2"), "{view:#}");
    assert!(says(&view, "elsewhere", "no server is called db9 here; known are a1"), "{view:#}");
    assert!(says(&view, "checkout", "put it in the file of headroom route"), "{view:#}");

    // Slow for as long as it takes.
    let deadline = Instant::now() + LIMIT;
    while objective(&watch(&agent), "quick")["incident"].is_null() {
        assert!(Instant::now() < deadline, "never an incident: {:#}\n{}", watch(&agent), agent.log());
        tokio::join!(slow(&lab), slow(&lab), slow(&lab), slow(&lab), slow(&lab), slow(&lab));
    }
    // It stays slow until all is seen: an incident closes some seconds after its end.
    let app = || lab.opts("a", "a1", Account::App).unwrap();
    let go_on: Vec<_> = (0..6).map(|_| GoingOn::start(app(), "SELECT SLEEP(0.2)")).collect();
    let opened = receiving.told("opened", 2);
    assert_eq!((&opened["objective"], &opened["pace"]), (&"quick".into(), &"fast".into()), "{opened}");
    let metrics = agent.plain("/metrics", "");
    assert!(metrics.contains(r#"headroom_incident_open{objective="quick"} 1.0"#), "{metrics}");
    let url = format!("http://{}", agent.address);
    let shown = headroom(base.path()).args(["watch", "--once", "--agent", &url]).output().unwrap();
    let shown = words(&shown);
    assert!(shown.contains("OBJECTIVE") && shown.contains("between is not judged"), "{shown}");
    go_on.into_iter().for_each(GoingOn::end);

    let deadline = Instant::now() + LIMIT;
    while objective(&watch(&agent), "quick")["closed"] == 0 {
        assert!(Instant::now() < deadline, "never closed: {:#}", watch(&agent));
        send(&mut conn, "SELECT 1", 50).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(receiving.told("closed", 1)["id"], opened["id"], "the same incident");
    for shown in [agent.log(), agent.plain("/watch.json", ""), metrics] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
    conn.disconnect().await.unwrap();
    drop(agent);
    lab.down().await.unwrap();
}

#[tokio::test]
async fn its_file_is_read_again_on_hup_and_a_bad_one_is_refused() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 1)]), base.path()).await.unwrap();
    // Without a file and a token there is nothing to read, and it goes on.
    let bare = Agent::start(base.path(), "bare", &["--listen", "127.0.0.1:0", "--router", "off"]);
    bare.hang_up();
    let authority = Authority::new(base.path(), "authority");
    let file = promising(&lab, base.path(), &authority.ca, 1);
    let path = file.display().to_string();
    let args = ["--listen", "127.0.0.1:0", "--window", "2s", "--router", "off", "--config", &path];
    let mut agent = Agent::start(base.path(), "agent", &args);
    let answers = |view: &Value| view["servers"][0]["sample"].is_object();
    until(&agent, "the server answers", answers).await;
    let text = std::fs::read_to_string(&file).unwrap();

    std::fs::write(&file, text.replace("name = \"between\"", "name = \"renamed\"")).unwrap();
    agent.hang_up();
    let there = |view: &Value, name: &str| !objective(view, name).is_null();
    until(&agent, "the new objective", |view| there(view, "renamed") && !there(view, "between")).await;

    std::fs::write(&file, text.replace("[fleet]", "[flet]")).unwrap();
    agent.hang_up();
    let refused = agent.said("reload rejected");
    assert!(refused.contains("flet"), "{refused}");
    assert!(there(&watch(&agent), "renamed"));
    until(&agent, "the server answers all the same", |view| there(view, "renamed") && answers(view)).await;

    // Other credentials hold for servers that are known.
    let other = base.path().join("nobody.cnf");
    std::fs::write(&other, "[client]\nuser = nobody\npassword = wrong\n").unwrap();
    std::fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let ours = lab.credentials_file(Account::Headroom).display().to_string();
    std::fs::write(&file, text.replace(&ours, &other.display().to_string())).unwrap();
    agent.hang_up();
    let denied =
        |view: &Value| view["servers"][0]["unanswered"].as_str().is_some_and(|why| why.contains("nobody"));
    until(&agent, "it is asked as somebody else", denied).await;
    std::fs::write(&file, &text).unwrap();
    agent.hang_up();
    until(&agent, "it answers again", |view| answers(view) && view["servers"][0]["unanswered"].is_null())
        .await;
    assert!(!bare.plain("/healthz", "").is_empty());
    drop((agent, bare));
    lab.down().await.unwrap();
}

async fn slow(lab: &Lab) {
    let mut conn = lab.connect("a1").await.unwrap();
    send(&mut conn, "SELECT SLEEP(0.2)", 5).await;
    conn.disconnect().await.unwrap();
}

async fn send(conn: &mut Conn, statement: &str, times: usize) {
    for _ in 0..times {
        conn.query_drop(statement).await.unwrap();
    }
}

fn watch(agent: &Agent) -> Value {
    let answer = agent.plain("/watch.json", "");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn objective(view: &Value, name: &str) -> Value {
    let found = view["objectives"].as_array().and_then(|all| all.iter().find(|one| one["name"] == name));
    found.cloned().unwrap_or(Value::Null)
}

/// The first view for which this is so.
async fn until(agent: &Agent, what: &str, so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + LIMIT;
    loop {
        let view = watch(agent);
        if so(&view) {
            return view;
        }
        assert!(Instant::now() < deadline, "never: {what}: {view:#}\n{}", agent.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn promising(lab: &Lab, dir: &Path, ca: &Path, port: u16) -> PathBuf {
    let address = dir.join("webhook");
    std::fs::write(&address, format!("https://localhost:{port}/services/{SECRET}\n")).unwrap();
    let real = lab.real("a1").unwrap();
    let mut text = format!(
        "[credentials]\noption_file = \"{}\"\n[fleet]\nseeds = [\"{real}\"]\n[[server]]\nmatch = \"{real}\"\nname = \"a1\"\n",
        lab.credentials_file(Account::Headroom).display()
    );
    let objectives = [
        ("quick", "server = \"a1\"", "100ms"),
        ("between", "server = \"a1\"", "30ms"),
        ("elsewhere", "server = \"db9\"", "100ms"),
        ("checkout", "endpoint = \"checkout\"", "100ms"),
    ];
    for (name, of, threshold) in objectives {
        text.push_str(&format!(
            "[[objective]]\nname = \"{name}\"\n{of}\nthreshold = \"{threshold}\"\nshare = 0.9\nfast = \"12s\"\nfast_burn = 3\n\
             slow = \"24s\"\nslow_burn = 2\ncalm = \"1s\"\n"
        ));
    }
    text.push_str(&format!("[webhook]\nurl_file = \"{}\"\nca = \"{}\"\n", address.display(), ca.display()));
    let file = dir.join("agent.toml");
    std::fs::write(&file, text).unwrap();
    file
}
