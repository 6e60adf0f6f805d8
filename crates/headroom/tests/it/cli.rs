//! The command line as a user meets it: help, exit codes, complaints, secrets. No server is needed.

use std::path::Path;
use std::process::{Command, Output};

/// Runs `headroom` in an empty directory with an empty environment.
fn headroom(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headroom")).args(args).current_dir(dir).env_clear().output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

const RIGHT: &str = "\
[fleet]
seeds = [\"127.0.0.1:1\"]
[[listener]]
address = \"127.0.0.1:3306\"
role = \"reader\"
";

#[test]
fn help_of_each_command_names_its_options_and_gives_examples() {
    let dir = tempfile::tempdir().unwrap();
    let pages: [(&[&str], &[&str]); 11] = [
        (
            &["--help"],
            &["route", "fleet", "status", "drain", "undrain", "zero-hop", "lab", "demo", "Exit codes"],
        ),
        (
            &["route", "--help"],
            &[
                "--config",
                "--server",
                "--reader",
                "--writer",
                "--zone",
                "--admin",
                "--user",
                "--option-file",
                "--check",
                "--log-format",
                "Examples:",
                "HEADROOM_PASSWORD",
                "never on the command line",
            ],
        ),
        (&["fleet", "--help"], &["--config", "--server", "--json", "Examples:"]),
        (&["watch", "--help"], &["--server", "--agent", "--window", "--once", "--json", "Examples:"]),
        (&["agent", "--help"], &["--server", "--listen", "--tls-cert", "--token-file", "Examples:"]),
        (&["status", "--help"], &["--admin", "--json", "Examples:"]),
        (&["drain", "--help"], &["--deadline", "--force", "--admin", "--json", "Examples:"]),
        (&["undrain", "--help"], &["--admin", "Example"]),
        (&["lab", "up", "--help"], &["--config", "--zones", "--replicas", "--detach", "--json", "Examples:"]),
        (&["lab", "fault", "--help"], &["freeze", "blackhole", "read-only", "heal", "Examples:"]),
        (&["lab", "status", "--help"], &["--lab", "--json", "Examples:"]),
    ];
    for (args, words) in pages {
        let output = headroom(dir.path(), args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        for word in words {
            assert!(text(&output).contains(word), "{args:?} does not say {word}:\n{}", text(&output));
        }
        assert!(!text(&output).contains("--password"), "{args:?}");
    }
}

#[test]
fn why_a_value_is_none_is_said_once() {
    let dir = tempfile::tempdir().unwrap();
    let output = headroom(dir.path(), &["knob", "set", "network.rps@lo=3-0"]);
    assert_eq!(output.status.code(), Some(64));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(error.matches("is no set of CPUs").count(), 1, "{error}");
}

#[test]
fn a_command_line_that_is_not_understood_is_64() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["rout"][..],
        &["route", "--colour"],
        &["route", "--reader", "::1"],
        &["route", "--admin", "9306"],
        &["route", "--admin", "nowhere.invalid:9306"],
        &["agent", "--listen", "9307"],
        &["agent", "--listen", "nowhere.invalid:9307"],
        &["drain"],
        &["drain", "db1", "--deadline", "10"],
        &["route", "--config", "x", "--server", "db1"],
    ] {
        assert_eq!(headroom(dir.path(), args).status.code(), Some(64), "{args:?}");
    }
}

#[test]
fn route_without_a_hint_where_the_servers_are_says_what_to_name() {
    let dir = tempfile::tempdir().unwrap();
    let output = headroom(dir.path(), &["route"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output).contains("--server db1:3306"), "{}", text(&output));
    let output = headroom(dir.path(), &["route", "--server", "db1"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output).contains("--reader 127.0.0.1:3306"), "{}", text(&output));
}

#[test]
fn check_says_right_or_every_complaint_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("headroom.toml"), RIGHT).unwrap();
    let output = headroom(dir.path(), &["route", "--check"]);
    assert_eq!(
        (output.status.code(), text(&output).as_str()),
        (Some(0), "headroom.toml is right: 1 seed, 0 zones, 1 listener.\n")
    );

    // A file to watch by is none to route by.
    std::fs::write(dir.path().join("agent.toml"), "[fleet]\nseeds = [\"127.0.0.1:1\"]\n").unwrap();
    let output = headroom(dir.path(), &["route", "--check", "--config", "agent.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("agent.toml:1:1: there is no [[listener]]"), "{}", text(&output));

    let wrong = RIGHT.replace("seeds", "sedes").replace("\"reader\"", "\"raeder\"");
    std::fs::write(dir.path().join("wrong.toml"), wrong).unwrap();
    let output = headroom(dir.path(), &["route", "--check", "--config", "wrong.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let expected = "\
headroom: wrong.toml:1:1: [fleet] has no seeds; write one or more: seeds = [\"db1:3306\"]
wrong.toml:2:1: unknown key 'sedes' in [fleet]; did you mean seeds?
wrong.toml:5:8: role: 'raeder' is not known here; did you mean \"reader\"? It is one of \"reader\", \"writer\"
";
    assert_eq!(text(&output), expected);

    for (more, right, complaints) in [(&[][..], true, 0), (&["--config", "wrong.toml"], false, 3)] {
        let output = headroom(dir.path(), &[&["route", "--check", "--json"], more].concat());
        let said: serde_json::Value = serde_json::from_str(&text(&output)).unwrap();
        assert_eq!(said["right"], right, "{said}");
        assert_eq!(said["complaints"].as_array().unwrap().len(), complaints, "{said}");
        assert_eq!(output.status.success(), right);
    }

    let output = headroom(dir.path(), &["route", "--check", "--config", "nowhere.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("cannot read nowhere.toml"));
}

#[test]
fn the_example_file_passes_the_check() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../headroom.example.toml");
    let dir = tempfile::tempdir().unwrap();
    let output = headroom(dir.path(), &["route", "--check", "--config", example.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn flags_are_checked_like_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let route = |more: &[&str]| {
        let args = [&["route", "--check", "--server", "db1"], more].concat();
        let output = headroom(dir.path(), &args);
        (output.status.code(), text(&output))
    };
    assert_eq!(route(&["--reader", "127.0.0.1:3306", "--writer", "127.0.0.1:3307"]).0, Some(0));
    let (code, said) = route(&["--reader", "127.0.0.1:3306", "--writer", "127.0.0.1:3306"]);
    assert!(code == Some(2) && said.contains("cannot be the reader and the writer"), "{said}");
    assert_eq!(route(&["--reader", "localhost:3306", "--admin", "localhost:9307"]).0, Some(0));
    let (code, said) = route(&["--reader", "nowhere.invalid:3306"]);
    assert!(code == Some(2) && said.contains("'nowhere.invalid'") && said.contains("localhost"), "{said}");
    let (code, said) = route(&["--reader", "127.0.0.1:9306"]);
    assert!(code == Some(2) && said.contains("the admin address 127.0.0.1:9306"), "{said}");
}

#[test]
fn a_password_in_a_file_that_others_may_read_is_refused_and_not_repeated() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("headroom.toml");
    std::fs::write(&file, format!("{RIGHT}[credentials]\npassword = \"hunter2\"\n")).unwrap();
    let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    let output = headroom(dir.path(), &["route", "--check"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("chmod 600") && !text(&output).contains("hunter2"), "{}", text(&output));
    mode(0o600);
    assert_eq!(headroom(dir.path(), &["route", "--check"]).status.code(), Some(0));
}

#[test]
fn a_port_in_use_is_said_in_a_sentence_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output =
        headroom(dir.path(), &["route", "--server", "127.0.0.1:1", "--reader", &address, "--admin", "off"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("another process listens there"), "{}", text(&output));
    let args = ["route", "--server", "127.0.0.1:1", "--reader", "127.0.0.1:1", "--admin", &address];
    let output = headroom(dir.path(), &args);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("cannot listen on the admin address"), "{}", text(&output));
}

#[test]
fn a_host_alone_is_watched_and_judged() {
    let dir = tempfile::tempdir().unwrap();
    let output = headroom(dir.path(), &["watch", "--once", "--window", "2s", "--json"]);
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    let named = !json["verdict"]["bottleneck"].is_null();
    // Whether this machine has a bottleneck now is its affair; that exit code and answer agree is ours.
    assert_eq!(output.status.code(), Some(i32::from(named)), "{json}");
    assert!(json["host"]["cpu"]["each"].as_array().is_some_and(|cpus| !cpus.is_empty()), "{json}");
    assert!(json["verdict"]["text"].as_str().is_some_and(|text| !text.is_empty()), "{json}");
    assert_eq!(json["servers"], serde_json::json!([]));
}

#[test]
fn asking_where_no_router_is_says_so() {
    let dir = tempfile::tempdir().unwrap();
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (args, words) in [
        (&["status"][..], "is it running there?"),
        (&["drain", "db1"], "run this as its user"),
        (&["undrain", "db1"], "run this as its user"),
    ] {
        let output = headroom(dir.path(), &[args, &["--admin", &free]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output).contains(words) && text(&output).contains(&free), "{}", text(&output));
    }
}

#[test]
fn a_fleet_that_does_not_answer_is_a_no_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let output = headroom(dir.path(), &["fleet", "--server", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("No primary is known"), "{}", text(&output));
    let output = headroom(dir.path(), &["fleet", "--server", "127.0.0.1:1", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["servers"][0]["state"], "failing", "{json}");
}

#[test]
fn a_lab_that_is_not_there_and_a_fault_that_is_none_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().to_str().unwrap();
    let output = headroom(dir.path(), &["lab", "status", "--base", base]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("headroom lab up"), "{}", text(&output));
    let output = headroom(dir.path(), &["lab", "fault", "a1", "frezee", "--base", base]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output).contains("is no fault"), "{}", text(&output));
    let output = headroom(dir.path(), &["lab", "down", "--json", "--base", base]);
    let said: serde_json::Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!((output.status.code(), said), (Some(0), serde_json::json!({"down": [], "swept": []})));
}

/// The agent's log begins before it finds that it may not listen there.
#[test]
fn a_build_without_otlp_says_so_where_a_collector_is_named_and_only_there() {
    let dir = tempfile::tempdir().unwrap();
    let said = |variable: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.args(["agent", "--listen", "192.0.2.1:9307"]).current_dir(dir.path()).env_clear();
        let output = command.envs(variable.map(|name| (name, "http://hunter2:4318"))).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        text(&output)
    };
    let hint = "is set, and this build has no OTLP: nothing is sent";
    for name in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
        let said = said(Some(name));
        assert_eq!(
            said.matches(&format!("{name} {hint}")).count(),
            usize::from(!cfg!(feature = "otlp")),
            "{said}"
        );
        assert!(!said.contains("hunter2"), "{said}");
    }
    assert!(!said(None).contains("OTLP"));
}
