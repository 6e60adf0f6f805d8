//! What a wrong configuration is answered with: every complaint at its line and column, with what would be
//! right.

use config::Config;

/// A configuration that is right, to which one wrong thing is added.
fn with(addition: &str) -> String {
    format!("[[listener]]\naddress = \"127.0.0.1:3306\"\nrole = \"reader\"\n{addition}\n")
}

fn complaints(text: &str) -> Vec<String> {
    match Config::parse(text, "headroom.toml") {
        Ok(config) => panic!("accepted: {config:?}"),
        Err(complaints) => complaints.0.iter().map(ToString::to_string).collect(),
    }
}

/// One wrong thing, one complaint, word for word.
#[track_caller]
fn answers(addition: &str, expected: &str) {
    let text = if addition.contains("[fleet]") {
        with(addition)
    } else {
        with(&format!("{addition}\n[fleet]\nseeds = [\"db1\"]"))
    };
    assert_eq!(complaints(&text), [expected]);
}

#[test]
fn unknown_keys_sections_and_words_are_answered_with_the_nearest_known_one() {
    answers(
        "[fleet]\nseeds = [\"db1\"]\nintreval = \"1s\"",
        "headroom.toml:6:1: unknown key 'intreval' in [fleet]; did you mean interval?",
    );
    answers(
        "[routr]\nslack = 0.1",
        "headroom.toml:4:2: unknown section 'routr' in the file; did you mean router?",
    );
    answers(
        "[[listener]]\naddress = \"127.0.0.1:3307\"\nrole = \"raeder\"",
        "headroom.toml:6:8: role: 'raeder' is not known here; did you mean \"reader\"? It is one of \"reader\", \"writer\"",
    );
    answers(
        "[router.rebalance]\ncolour = 1",
        "headroom.toml:5:1: unknown key 'colour' in [router.rebalance]; [router.rebalance] knows sticky_limit, enabled, pace, quiet, drain_deadline",
    );
}

#[test]
fn impossible_values_are_refused_where_they_stand() {
    answers(
        "[fleet]\nseeds = [\"db1\"]\ndeadline = \"0s\"",
        "headroom.toml:6:12: deadline: '0s' is too short; it must be at least 10ms",
    );
    answers(
        "[router]\nslack = -0.5",
        "headroom.toml:5:9: slack = -0.5 is out of range; it lies between 0 and 10",
    );
    answers(
        "[router.rebalance]\npace = 2",
        "headroom.toml:5:8: pace = 2 is out of range; it lies between 0.0001 and 1",
    );
    answers(
        "[router]\nmax_lag = 10",
        "headroom.toml:5:11: max_lag is a number without a unit; write a number and a unit in quotes: \"500ms\", \"10s\", \"2m\"",
    );
    answers(
        "[router]\nconnect_deadline = \"1s\"\nattempt_deadline = \"3s\"",
        "headroom.toml:6:20: one attempt may take 3s, longer than the whole connect (1s); attempt_deadline must be at most connect_deadline = \"1s\"",
    );
    answers(
        "[router]\nthreads = 0",
        "headroom.toml:5:11: threads = 0 is out of range; it lies between 1 and 1024",
    );
    answers(
        "[[server]]\nmatch = \"db3\"\nweight = 0",
        "headroom.toml:6:10: weight = 0 is out of range; it lies between 0.001 and 1000; reserved = true keeps all new \
         sessions away from a server",
    );
    answers(
        "[router]\nreads_on_primary = \"yes\"",
        "headroom.toml:5:20: reads_on_primary is a text, not true or false; write true or false without quotes",
    );
}

#[test]
fn a_lag_limit_that_no_interval_can_tell_is_refused() {
    answers(
        "[router]\nmax_lag = \"300ms\"",
        "headroom.toml:5:11: max_lag = 300ms is finer than lag can be measured by asking every 500ms; \
         write max_lag = \"1.5s\" or more, or interval = \"100ms\" or less",
    );
    answers(
        "[fleet]\nseeds = [\"db1\"]\ninterval = \"10s\"\n[router]\nmax_lag = \"15s\"",
        "headroom.toml:8:11: max_lag = 15s is finer than lag can be measured by asking every 10s; \
         write max_lag = \"30s\" or more, or interval = \"5s\" or less",
    );
    let fine = with("[fleet]\nseeds = [\"db1\"]\ninterval = \"50ms\"\n[router]\nmax_lag = \"150ms\"");
    assert!(Config::parse(&fine, "headroom.toml").is_ok());
}

#[test]
fn discovery_stays_within_networks_and_names_and_knows_no_labels() {
    answers(
        "[fleet]\nseeds = [\"db1\"]\ndiscover_within = [\"10.0.0.0/8\", \"rack=7\"]",
        "headroom.toml:6:34: discover_within: 'rack=7' is a label, and a server that is not known yet has none; \
         write an address block (10.0.0.0/8) or a host name (*.db.internal)",
    );
    answers(
        "[fleet]\nseeds = [\"db1\"]\ndiscover_within = [\"10.0.0.1/8\"]",
        "headroom.toml:6:20: discover_within: '10.0.0.1/8' has bits set beyond its prefix; \
         write 10.0.0.0/8 for the block, or 10.0.0.1 for the one host",
    );
}

#[test]
fn insight_knows_three_words_and_tags_have_keys() {
    answers(
        "[[listener]]\naddress = \"127.0.0.1:3307\"\nrole = \"writer\"\ninsight = \"some\"",
        "headroom.toml:7:11: insight: 'some' is not known here; it is one of \"on\", \"sampled\", \"off\"",
    );
    answers(
        "[router.insight]\nendpoint_keys = [\"a+b+c\"]",
        "headroom.toml:5:18: endpoint_keys: 'a+b+c' is not the key of a tag; \
         write the tag's key (endpoint), or two keys whose values are joined (controller+action)",
    );
    answers(
        "[router.insight]\ndigests = 0",
        "headroom.toml:5:11: digests = 0 is out of range; it lies between 1 and 100000",
    );
}

#[test]
fn addresses_are_looked_at_before_anything_listens() {
    answers(
        "[[listener]]\naddress = \"127.0.0.1:3306\"\nrole = \"writer\"",
        "headroom.toml:5:11: 127.0.0.1:3306 cannot be the reader and the writer listener; give each listener an address or port of its own",
    );
    answers(
        "[[listener]]\naddress = \"0.0.0.0:3306\"\nrole = \"reader\"\nallow = [\"10.0.0.0/8\"]",
        "headroom.toml:5:11: the listeners 127.0.0.1:3306 and 0.0.0.0:3306 overlap; give each listener an address or port of its own",
    );
    answers(
        "[[listener]]\naddress = \"db-host:3307\"\nrole = \"writer\"",
        "headroom.toml:5:11: address: 'db-host' is a host name, and a listener needs a numeric address; write an IP address \
         (127.0.0.1:3306; with allow, also 0.0.0.0:3306), localhost, or a socket path",
    );
    answers(
        "[fleet]\nseeds = [\"db1:99999\"]",
        "headroom.toml:5:10: seeds: 'db1:99999' has no valid port after the colon (1 to 65535)",
    );
    answers(
        "[admin]\naddress = \"0.0.0.0:9306\"",
        "headroom.toml:5:11: the admin address 0.0.0.0:9306 can be reached from the network, and it has no password; \
         use 127.0.0.1, or write open = true if the network may see the status page",
    );
    answers(
        "[admin]\nnames = [\"http://headroom.example\"]",
        "headroom.toml:5:10: names: 'http://headroom.example' is no host name; write a host name alone, as it stands in the \
         browser's address: \"headroom.example\"",
    );
    answers(
        "[admin]\naddress = \"127.0.0.1:3306\"",
        "headroom.toml:5:11: the admin address 127.0.0.1:3306 and the reader listener 127.0.0.1:3306 are the same; give the admin address a port of its own",
    );
}

#[test]
fn zones_and_servers_that_contradict_each_other_are_named() {
    answers(
        "[[zone]]\nname = \"a\"\nmembers = [\"10.1.0.0/16\"]\n[[zone]]\nname = \"a\"\nmembers = [\"10.2.0.0/16\"]",
        "headroom.toml:8:8: zone 'a' is there twice; put all its members in one [[zone]]",
    );
    answers(
        "[[zone]]\nname = \"a\"\nmembers = [\"10.0.0.0/8\"]\n[[zone]]\nname = \"b\"\nmembers = [\"10.2.0.0/16\"]",
        "headroom.toml:9:12: 10.2.0.0/16 of zone 'b' is never reached: 10.0.0.0/8 of zone 'a' comes first and has it; \
         put the narrower zone first, or correct one of the two",
    );
    answers(
        "[[zone]]\nname = \"a\"\nmembers = [\"10.1.2.0/16\"]",
        "headroom.toml:6:12: members: '10.1.2.0/16' has bits set beyond its prefix; write 10.1.0.0/16 for the block, or 10.1.2.0 for the one host",
    );
    answers(
        "[[server]]\nmatch = \"db*\"\nname = \"db1\"",
        "headroom.toml:5:9: the name 'db1' would go to every server that 'db*' matches; match one host to name it, or remove the name",
    );
}

#[test]
fn passwords_and_certificates_have_one_source_and_are_complete() {
    answers(
        "[credentials]\npassword = \"\"",
        "headroom.toml:5:12: password: it is empty; write a value, or remove the line",
    );
    answers(
        "[credentials]\npassword = \"x\"\npassword_env = \"Y\"",
        "headroom.toml:6:16: the password is given more than once; keep one of password_file, password_env and password",
    );
    answers(
        "[credentials]\nssl_mode = \"VERIFY_CA\"",
        "headroom.toml:5:12: ssl_mode asks to verify, and no ssl_ca says by whom; write ssl_ca = \"/path/to/ca.pem\", the authority that vouches for the servers",
    );
}

#[test]
fn nothing_is_open_to_the_network_by_omission() {
    let who =
        "write allow = [\"10.0.0.0/8\"] for the clients' networks; [\"0.0.0.0/0\", \"::/0\"] is everyone";
    answers(
        "[[listener]]\naddress = \"10.0.0.1:3306\"\nrole = \"writer\"",
        &format!(
            "headroom.toml:5:11: the listener 10.0.0.1:3306 can be reached from the network, and nothing says by whom; {who}"
        ),
    );
    answers("allow = []", &format!("headroom.toml:4:9: allow is empty, so no client could come; {who}"));
    answers(
        "allow = [\"db*\"]",
        "headroom.toml:4:10: allow: 'db*' is not an address block; write 10.0.0.0/8, 192.168.1.7 or fd00::/8",
    );
    answers(
        "[[listener]]\naddress = \"/run/r.sock\"\nrole = \"reader\"\nallow = [\"10.0.0.0/8\"]",
        "headroom.toml:7:9: allow has no use for a unix socket, whose clients have no address; \
         remove it; the directory's permissions say who may come",
    );
}

#[test]
fn tls_settings_that_cannot_work_are_refused() {
    answers(
        "tls = \"required\"",
        "headroom.toml:4:7: tls is \"required\", and the certificate to show to clients or its key is missing; \
         write tls_cert = \"/path/to/cert.pem\" and tls_key = \"/path/to/key.pem\"",
    );
    answers(
        "tls = \"off\"\ntls_cert = \"c.pem\"",
        "headroom.toml:5:12: tls_cert has no use while tls is \"off\"; write tls = \"preferred\" or \"required\", or remove it",
    );
    let ended = "tls = \"preferred\"\ntls_cert = \"c.pem\"\ntls_key = \"k.pem\"";
    answers(
        &format!("{ended}\ntls_client_cert = \"optional\""),
        "headroom.toml:7:19: tls_client_cert is \"optional\", and nothing says who signs such certificates; \
         write tls_client_ca = \"/path/to/clients-ca.pem\"",
    );
    answers(
        &format!("{ended}\ntls_client_ca = \"ca.pem\""),
        "headroom.toml:7:17: tls_client_ca has no use while tls_client_cert is \"off\"; \
         write tls_client_cert = \"required\" or \"optional\", or remove it",
    );
    answers(
        &format!("{ended}\ntls_client_cert = \"required\"\ntls_client_ca = \"ca.pem\""),
        "headroom.toml:7:19: tls_client_cert is \"required\", and tls = \"preferred\" lets clients in that can show none; \
         write tls = \"required\", or tls_client_cert = \"optional\"",
    );
    answers(
        "tls_client_cert = \"optional\"\ntls_client_ca = \"ca.pem\"",
        "headroom.toml:4:19: tls_client_cert has no use while tls is \"passthrough\"; write tls = \"required\", or remove it",
    );
    answers(
        &format!(
            "[[listener]]\naddress = \"/run/r.sock\"\nrole = \"reader\"\n{ended}\ntls_client_cert = \"optional\"\n\
             tls_client_ca = \"ca.pem\""
        ),
        "headroom.toml:10:19: tls_client_cert has no use for a unix socket, whose clients need no TLS; \
         remove it; the directory's permissions say who may come",
    );
    answers(
        "[router.tls]\nmode = \"verify_ca\"",
        "headroom.toml:5:8: mode asks to verify, and no ca says by whom; write ca = \"/path/to/ca.pem\", \
         the authority that vouches for the servers",
    );
    answers(
        "[router.tls]\nmode = \"off\"\nca = \"ca.pem\"",
        "headroom.toml:5:8: mode is off and certificates are given; remove mode = \"off\", or the files",
    );
    answers(
        "[router.tls]\nmode = \"required\"\nserver_name = \"db\"",
        "headroom.toml:6:15: server_name is compared only where the identity is verified; \
         write mode = \"verify_identity\", or remove it",
    );
    answers(
        "[router.tls]\nserver_public_key = \"key.pem\"\nallow_public_key_retrieval = true",
        "headroom.toml:6:30: allow_public_key_retrieval has no use while server_public_key gives the key; \
         remove one of the two",
    );
}

#[test]
fn who_only_watches_needs_no_listener() {
    assert!(Config::parse("[fleet]\nseeds = [\"db1\"]\n", "headroom.toml").unwrap().listeners.is_empty());
}

#[test]
fn all_complaints_come_at_once_in_the_order_of_the_file() {
    let lines = complaints("[fleet]\nseeds = []\nintreval = 1\n[router]\nslack = 11\nthreads = \"two\"\n");
    let places: Vec<&str> = lines.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["headroom.toml:2:9", "headroom.toml:3:1", "headroom.toml:5:9", "headroom.toml:6:11"]);
}

#[test]
fn a_file_that_is_not_toml_is_refused_at_the_place_of_the_slip() {
    let lines = complaints("[fleet\nseeds = [\"db1\"]\n");
    assert!(lines[0].starts_with("headroom.toml:1:"), "{lines:?}");
    assert!(!complaints("").is_empty());
}

#[test]
fn a_password_shows_in_no_debug_text() {
    let config =
        Config::parse(&with("[fleet]\nseeds = [\"db1\"]\n[credentials]\npassword = \"hunter2\""), "f")
            .unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn objectives_that_cannot_be_are_refused_where_they_stand() {
    let with = |lines: &str| {
        format!("[[objective]]\nname = \"x\"\nendpoint = \"x\"\nthreshold = \"15ms\"\nshare = 0.99\n{lines}")
    };
    answers(
        "[[objective]]\nname = \"x\"\nthreshold = \"15ms\"\nshare = 0.99",
        "headroom.toml:4:1: an [[objective]] must say whose statements it is about; write one of endpoint = \"checkout\", server = \"db1\", listener = \"127.0.0.1:3306\"",
    );
    answers(
        &with("server = \"db1\""),
        "headroom.toml:9:10: an [[objective]] is about one endpoint, server or listener; keep one of endpoint, server and listener",
    );
    answers(
        &with("slow = \"1h\""),
        "headroom.toml:9:8: slow is 1h, which is not longer than fast (1h); the slow window finds what burns for longer: give it some times fast",
    );
    answers(
        &with("slow_burn = 200"),
        "headroom.toml:9:13: slow_burn = 200 can never be reached: with every statement bad it is 100.0; write a smaller one (slow_burn = 60.0), or a greater share",
    );
    answers(
        "[webhook]\nurl = \"https://a.example/secret\"\nurl_env = \"X\"",
        "headroom.toml:6:11: the address of the webhook is given more than once; keep one of url_file, url_env and url",
    );
    let text = "[fleet]\nseeds = [\"db1\"]\n[[listener]]\naddress = \"127.0.0.1:3306\"\nrole = \"reader\"\n[webhook]\nurl = \"https://a.example/secret\"";
    let shown = format!("{:?}", Config::parse(text, "x").unwrap());
    assert!(shown.contains("hidden") && !shown.contains("secret"), "{shown}");
}
