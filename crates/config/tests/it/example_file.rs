//! `headroom.example.toml` against the code: it loads, its defaults are the code's, and no option is missing.

use config::{Admin, Config, Objective, Rebalance, RouterConfig, Target};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

const EXAMPLE: &str = include_str!("../../../../headroom.example.toml");

/// Every option switched on: the defaults only, or also what is marked as an example.
fn uncommented(with_examples: bool) -> String {
    let option = |line: &str| {
        let rest = line.strip_prefix('#')?;
        let is_option =
            rest.starts_with("[[") || rest.split(" = ").next().is_some_and(is_key) && rest.contains(" = ");
        let is_example = rest.ends_with("# example") || rest.starts_with("[[");
        (is_option && (with_examples || !is_example)).then(|| rest.to_owned())
    };
    EXAMPLE.lines().map(|line| option(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

/// What the example shows as another way of saying the same.
const ELSE: [&str; 6] =
    ["password = ", "password_env = ", "server = \"", "listener = \"", "url_env = ", "url = "];

/// The example with its sections for zones, servers, maps and objectives, one password instead of three, and
/// TLS on both sides.
fn everything() -> String {
    uncommented(true)
        .lines()
        .filter(|line| !ELSE.iter().any(|key| line.starts_with(key)))
        .map(|line| match line {
            "mode = \"off\"" => "mode = \"verify_identity\"\n".to_owned(),
            "tls = \"passthrough\"" => "tls = \"required\"\n".to_owned(),
            "tls_client_cert = \"off\"" => "tls_client_cert = \"required\"\n".to_owned(),
            _ => line.to_owned() + "\n",
        })
        .collect()
}

#[test]
fn the_example_loads_as_it_stands() {
    let config = Config::parse(EXAMPLE, "headroom.example.toml").unwrap();
    assert_eq!(config.fleet.seeds.len(), 2);
    assert_eq!(config.listeners.len(), 2);
}

#[test]
fn every_default_in_the_example_is_the_default_of_the_code() {
    let as_it_stands = Config::parse(EXAMPLE, "example").unwrap();
    assert_eq!(as_it_stands.router, RouterConfig::default());
    assert_eq!(as_it_stands.router.rebalance, Rebalance::default());
    assert_eq!(as_it_stands.admin, Some(Admin::DEFAULT_ADDRESS));

    // [[server]] weight and reserved are defaults inside a section that is itself an example.
    let defaults_written: String = uncommented(false)
        .lines()
        .filter(|l| {
            !l.starts_with("weight") && !l.starts_with("reserved") && !l.starts_with("proxy_protocol")
        })
        .fold(String::new(), |text, line| text + line + "\n");
    assert_ne!(defaults_written, EXAMPLE);
    assert_eq!(Config::parse(&defaults_written, "defaults").unwrap(), as_it_stands);
}

#[test]
fn every_option_of_the_example_is_accepted() {
    let config = Config::parse(&everything(), "everything").unwrap();
    assert_eq!(config.fleet.zones.len(), 1);
    assert_eq!(config.fleet.servers.len(), 1);
    assert_eq!(config.fleet.address_map.len(), 1);
    assert_eq!(config.router.threads, Some(2));
    assert!(config.password_from.is_some());
    assert!(config.fleet.credentials.tls.ca.is_some());
    assert!(config.router.tls.tls.ca.is_some() && config.router.tls.server_name.is_some());
    assert!(config.router.tls.server_public_key.is_some() && !config.router.tls.allow_public_key_retrieval);
    assert!(config.listeners.iter().any(|listener| listener.tls.cert.is_some()));
    assert!(config.listeners.iter().any(|listener| listener.tls.client_ca.is_some()));
    let [objective] = &config.objectives[..] else { panic!("{:?}", config.objectives) };
    let of = Target::Endpoint("checkout".to_owned());
    let defaults = Objective::new("checkout".to_owned(), of, Duration::from_millis(15), 0.99);
    assert_eq!(*objective, defaults, "the values of the example are the defaults");
    assert_eq!(objective.text(), "99 % of statements of endpoint checkout within 15ms");
    assert!(config.webhook.is_some_and(|webhook| webhook.ca.is_some()));
}

/// Asks the code what each section knows (it says so when it meets an unknown key) and looks for each in the
/// example.
#[test]
fn every_option_of_the_code_is_in_the_example() {
    let text = everything();
    let mut looked_at = BTreeSet::new();
    let mut lines: Vec<String> = uncommented(true).lines().map(str::to_owned).collect();
    lines.push("[end]".to_owned());
    for (number, header) in text.lines().enumerate().filter(|(_, line)| line.starts_with('[')) {
        let probe: String = text
            .lines()
            .enumerate()
            .flat_map(|(at, line)| if at == number { vec![line, "qqqqqqqqqqqq = 1"] } else { vec![line] })
            .map(|line| line.to_owned() + "\n")
            .collect();
        let complaints = Config::parse(&probe, "probe").unwrap_err();
        let right =
            &complaints.0.iter().find(|c| c.wrong.contains("qqqq")).expect("an unknown key is seen").right;
        let known = right.split_once(" knows ").expect("it says what it knows").1;
        let start = lines.iter().position(|line| line == header).expect("the section is in the example");
        let end = start + 1 + lines[start + 1..].iter().position(|line| line.starts_with('[')).unwrap();
        for key in known.split(", ") {
            let written = lines[start..end].iter().any(|line| line.starts_with(&format!("{key} = ")));
            let is_section =
                lines.iter().any(|line| line.trim_matches(['[', ']']).ends_with(&format!(".{key}")));
            assert!(written || is_section, "{header} {key} is not in headroom.example.toml");
        }
        looked_at.insert(header.to_owned());
    }
    let sections = [
        "[fleet]",
        "[credentials]",
        "[[zone]]",
        "[[server]]",
        "[[map]]",
        "[router]",
        "[router.rebalance]",
        "[router.insight]",
    ];
    for section in sections.into_iter().chain(["[[listener]]", "[admin]", "[[objective]]", "[webhook]"]) {
        assert!(looked_at.contains(section), "{section}");
    }
}

proptest! {
    /// Bytes removed, doubled or replaced anywhere: complaints or a configuration, never a panic.
    #[test]
    fn a_damaged_example_never_panics(cuts in prop::collection::vec((0usize..12_000, 0usize..40, "\\PC{0,6}"), 1..6)) {
        let mut text = everything();
        for (at, length, put) in cuts {
            let mut start = at.min(text.len());
            while !text.is_char_boundary(start) { start -= 1; }
            let mut end = (start + length).min(text.len());
            while !text.is_char_boundary(end) { end -= 1; }
            text.replace_range(start..end.max(start), &put);
        }
        if let Err(complaints) = Config::parse(&text, "damaged") {
            prop_assert!(!complaints.0.is_empty());
            for complaint in &complaints.0 {
                prop_assert!(complaint.line >= 1 && complaint.line <= text.lines().count() + 1, "{}", complaint);
            }
        }
    }
}
