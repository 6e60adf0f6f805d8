//! From the text of `headroom.toml` to the checked configuration, section by section.
//!
//! Each function below reads one section and knows its keys; [`conflict`](super::conflict) then looks at what only
//! shows across sections. Nothing is read from disk: where a password stands is kept as a reference.

use super::access;
use super::complaint::{Complaints, Ledger};
use super::conflict;
use super::objective;
use super::section::{Placed, Section};
use super::transport;
use super::value;
use super::{
    Admin, AdminAccess, Config, Credentials, DataPath, FleetConfig, Insight, InsightConfig, Listener,
    Objective, OwnZone, PasswordFrom, Replace, RouterConfig, ServerRule, Tls, TlsMode, Webhook, ZeroHop,
    ZoneRule,
};
use fleet::{Address, ListenerRole, Weight, Zone};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use toml::de::DeTable;

/// What `ssl_mode` may be, in MySQL's words.
pub const TLS_MODES: [(&str, TlsMode); 5] = [
    ("DISABLED", TlsMode::Disabled),
    ("PREFERRED", TlsMode::Preferred),
    ("REQUIRED", TlsMode::Required),
    ("VERIFY_CA", TlsMode::VerifyCa),
    ("VERIFY_IDENTITY", TlsMode::VerifyIdentity),
];

const MOMENT: Duration = Duration::from_millis(1);

impl Config {
    /// Reads the text of a configuration file; `file` is its name for the complaints.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with line and column and what would be right.
    pub fn parse(text: &str, file: &str) -> Result<Self, Complaints> {
        let mut ledger = Ledger::new(file, text);
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let message = error.message().trim_end().replace('\n', ", ");
            ledger.add(&error.span().unwrap_or(0..0), message, "the syntax of the file is TOML (toml.io)");
        }
        if !ledger.is_empty() {
            return Err(ledger.into_complaints());
        }
        let mut whole = Section::new("the file", document.get_ref(), 0..0);
        let draft = read(&mut whole, &mut ledger);
        whole.finish(&mut ledger);
        conflict::find(&draft, &mut ledger);
        if ledger.is_empty() { Ok(draft.into_config()) } else { Err(ledger.into_complaints()) }
    }
}

/// The configuration while conflicts are looked for: values with their places.
pub(super) struct Draft {
    pub(super) fleet: FleetConfig,
    pub(super) password_from: Option<PasswordFrom>,
    pub(super) zones: Vec<Placed<ZoneRule>>,
    pub(super) members: Vec<(Zone, Placed<super::Matcher>)>,
    pub(super) servers: Vec<Placed<ServerRule>>,
    pub(super) maps: Vec<Placed<(Address, Address)>>,
    pub(super) router: RouterConfig,
    pub(super) attempt_deadline: Placed<Duration>,
    pub(super) max_lag: Placed<Duration>,
    pub(super) listeners: Vec<Placed<Listener>>,
    pub(super) admin: Option<Placed<Admin>>,
    pub(super) objectives: Vec<Objective>,
    pub(super) webhook: Option<Webhook>,
}

impl Draft {
    fn into_config(self) -> Config {
        let fleet = FleetConfig {
            zones: self.zones.into_iter().map(|zone| zone.value).collect(),
            servers: self.servers.into_iter().map(|server| server.value).collect(),
            address_map: self.maps.into_iter().map(|map| map.value).collect(),
            ..self.fleet
        };
        Config {
            fleet,
            router: self.router,
            listeners: self.listeners.into_iter().map(|listener| listener.value).collect(),
            admin: self.admin.as_ref().map(|admin| admin.value.address),
            admin_access: self.admin.map(|admin| admin.value.access).unwrap_or_default(),
            objectives: self.objectives,
            webhook: self.webhook,
            password_from: self.password_from,
        }
    }
}

fn read(whole: &mut Section<'_, '_>, ledger: &mut Ledger<'_>) -> Draft {
    let mut fleet = fleet(whole, ledger);
    let (credentials, password_from) = credentials(whole, ledger);
    fleet.credentials = credentials;
    let (zones, members) = zones(whole, ledger);
    let servers = servers(whole, ledger);
    let maps = maps(whole, ledger);
    let (router, own_zone, attempt_deadline, max_lag) = router(whole, ledger);
    fleet.own_zone = own_zone;
    let listeners = listeners(whole, ledger);
    let admin = admin(whole, ledger);
    let objectives = objective::objectives(whole, ledger);
    let webhook = objective::webhook(whole, ledger);
    Draft {
        fleet,
        password_from,
        zones,
        members,
        servers,
        maps,
        router,
        attempt_deadline,
        max_lag,
        listeners,
        admin,
        objectives,
        webhook,
    }
}

fn fleet(whole: &mut Section<'_, '_>, ledger: &mut Ledger<'_>) -> FleetConfig {
    let default = FleetConfig::default();
    let mut section = whole.section("fleet", ledger);
    let seeds = section.texts("seeds", ledger, value::address);
    if section.is_empty_list("seeds") || !section.is_present() {
        let place = section.place_of("seeds");
        let wrong = "[fleet] names no server to start from";
        ledger.add(
            &place,
            wrong,
            "write one or more: seeds = [\"db1:3306\"]; the others are found by asking it",
        );
    } else {
        section.require("seeds", ledger, "write one or more: seeds = [\"db1:3306\"]");
    }
    let read = FleetConfig {
        seeds: seeds.into_iter().flatten().map(|seed| seed.value).collect(),
        discover: section.flag("discover", ledger).map_or(default.discover, |v| v.value),
        discover_within: section
            .texts("discover_within", ledger, value::net_or_name)
            .map(|list| list.into_iter().map(|v| v.value).collect()),
        interval: section
            .duration("interval", ledger, Duration::from_millis(50))
            .map_or(default.interval, |v| v.value),
        deadline: section
            .duration("deadline", ledger, Duration::from_millis(10))
            .map_or(default.deadline, |v| v.value),
        zones_by_round_trip: section
            .flag("zones_by_round_trip", ledger)
            .map_or(default.zones_by_round_trip, |v| v.value),
        ..default
    };
    section.finish(ledger);
    read
}

fn credentials(whole: &mut Section<'_, '_>, ledger: &mut Ledger<'_>) -> (Credentials, Option<PasswordFrom>) {
    let mut section = whole.section("credentials", ledger);
    let user = section.plain("user", ledger).map(|v| v.value);
    let written = section.text("password", ledger, |text| Ok(text.to_owned()));
    let file = section.plain("password_file", ledger);
    let environment = section.plain("password_env", ledger);
    let option_file = path(&mut section, "option_file", ledger);
    let tls = Tls {
        mode: section.choice("ssl_mode", ledger, &TLS_MODES).map(|v| v.value).unwrap_or_default(),
        ca: path(&mut section, "ssl_ca", ledger),
        cert: path(&mut section, "ssl_cert", ledger),
        key: path(&mut section, "ssl_key", ledger),
    };
    let mut sources: Vec<(std::ops::Range<usize>, PasswordFrom)> = Vec::new();
    sources.extend(written.map(|v| (v.span, PasswordFrom::Written(v.value))));
    sources.extend(file.map(|v| (v.span, PasswordFrom::File(PathBuf::from(v.value)))));
    sources.extend(environment.map(|v| (v.span, PasswordFrom::Environment(v.value))));
    if let Some((span, _)) = sources.get(1) {
        let right = "keep one of password_file, password_env and password";
        ledger.add(span, "the password is given more than once", right);
    }
    let keys = ["ssl_mode", "ssl_ca", "ssl_cert", "ssl_key"];
    transport::consistent(&tls, &section, keys, "\"DISABLED\"", ledger);
    section.finish(ledger);
    let password_from = sources.into_iter().next().map(|(_, source)| source);
    (Credentials { user, password: None, option_file, tls }, password_from)
}

type Members = Vec<(Zone, Placed<super::Matcher>)>;

fn zones(whole: &mut Section<'_, '_>, ledger: &mut Ledger<'_>) -> (Vec<Placed<ZoneRule>>, Members) {
    let (mut zones, mut placed) = (Vec::new(), Vec::new());
    for mut section in whole.sections("zone", ledger) {
        let name = section.plain("name", ledger);
        section.require("name", ledger, "write the zone's name: name = \"us-east-1a\"");
        let members = section.texts("members", ledger, value::matcher);
        section.require("members", ledger, "say who belongs to it: members = [\"10.1.0.0/16\", \"db-a*\"]");
        let demand = section.number("demand", ledger, (0.0, 1.0)).map(|v| v.value);
        if let Some(Placed { value: name, span }) = name {
            let zone = Zone::new(&name);
            let members = members.unwrap_or_default();
            let matchers = members.iter().map(|member| member.value.clone()).collect();
            placed.extend(members.into_iter().map(|member| (zone.clone(), member)));
            zones.push(Placed { value: ZoneRule { zone, members: matchers, demand }, span });
        }
        section.finish(ledger);
    }
    (zones, placed)
}

fn servers(whole: &mut Section<'_, '_>, ledger: &mut Ledger<'_>) -> Vec<Placed<ServerRule>> {
    let mut servers = Vec::new();
    for mut section in whole.sections("server", ledger) {
        let matcher = section.text("match", ledger, value::matcher);
        section.require("match", ledger, "say which servers: match = \"db3*\"");
        let name = section.plain("name", ledger).map(|v| v.value);
        let weight = section.number("weight", ledger, (0.001, 1000.0));
        let rule = ServerRule {
            matcher: super::Matcher::Name(String::new()),
            name,
            weight: weight.and_then(|v| Weight::new(v.value).ok()),
            zone: section.plain("zone", ledger).map(|v| Zone::new(&v.value)),
            reserved: section.flag("reserved", ledger).is_some_and(|v| v.value),
            proxy_protocol: section.flag("proxy_protocol", ledger).is_some_and(|v| v.value),
            labels: section.pairs("labels", ledger),
        };
        if let Some(Placed { value: matcher, span }) = matcher {
            servers.push(Placed { value: ServerRule { matcher, ..rule }, span });
        }
        section.finish(ledger);
    }
    servers
}

fn maps(whole: &mut Section<'_, '_>, ledger: &mut Ledger<'_>) -> Vec<Placed<(Address, Address)>> {
    let mut maps = Vec::new();
    for mut section in whole.sections("map", ledger) {
        let says = section.text("says", ledger, value::address);
        section.require(
            "says",
            ledger,
            "write the address the server calls itself: says = \"10.0.0.5:3306\"",
        );
        let reach = section.text("reach", ledger, value::address);
        section.require("reach", ledger, "write how we reach it: reach = \"127.0.0.1:13306\"");
        if let (Some(says), Some(reach)) = (says, reach) {
            maps.push(Placed { value: (says.value, reach.value), span: says.span });
        }
        section.finish(ledger);
    }
    maps
}

type Router = (RouterConfig, OwnZone, Placed<Duration>, Placed<Duration>);

fn router(whole: &mut Section<'_, '_>, ledger: &mut Ledger<'_>) -> Router {
    let default = RouterConfig::default();
    let mut section = whole.section("router", ledger);
    let own_zone = section.plain("zone", ledger).map_or(OwnZone::Auto, |v| match v.value.as_str() {
        "auto" => OwnZone::Auto,
        name => OwnZone::Named(Zone::new(name)),
    });
    let short = Duration::from_millis(10);
    let attempt = section.duration("attempt_deadline", ledger, short);
    let connect = section.duration("connect_deadline", ledger, short);
    let attempt = attempt.unwrap_or_else(|| {
        // A short connect deadline alone must not contradict a default nobody wrote.
        let within = connect.as_ref().map_or(default.connect_deadline, |v| v.value);
        Placed { value: default.attempt_deadline.min(within), span: section.place_of("connect_deadline") }
    });
    let max_lag = section.duration("max_lag", ledger, MOMENT);
    let max_lag =
        max_lag.unwrap_or_else(|| Placed { value: default.max_lag, span: section.place_of("max_lag") });
    let router = RouterConfig {
        slack: section.number("slack", ledger, (0.0, 10.0)).map_or(default.slack, |v| v.value),
        max_lag: max_lag.value,
        warm_up: section.duration("warm_up", ledger, Duration::ZERO).map_or(default.warm_up, |v| v.value),
        attempt_deadline: attempt.value,
        connect_deadline: connect.map_or(default.connect_deadline, |v| v.value),
        hold_deadline: section
            .duration("hold_deadline", ledger, Duration::ZERO)
            .map_or(default.hold_deadline, |v| v.value),
        login_deadline: section
            .duration("login_deadline", ledger, MOMENT)
            .map_or(default.login_deadline, |v| v.value),
        peer_deadline: section
            .duration("peer_deadline", ledger, Duration::from_secs(1))
            .map_or(default.peer_deadline, |v| v.value),
        reads_on_primary: section
            .flag("reads_on_primary", ledger)
            .map_or(default.reads_on_primary, |v| v.value),
        threads: section.count("threads", ledger, (1, 1024)).map(|v| v.value),
        data_path: section.choice("data_path", ledger, &DataPath::ALL).map_or(default.data_path, |v| v.value),
        replace: replace(&mut section, default.replace, ledger),
        tls: transport::to_servers(&mut section, ledger),
        insight: insight(&mut section, default.insight, ledger),
        zero_hop: section.choice("zero_hop", ledger, &ZeroHop::ALL).map_or(default.zero_hop, |v| v.value),
        zero_hop_cgroup: path(&mut section, "zero_hop_cgroup", ledger),
        zero_hop_keep: section
            .duration("zero_hop_keep", ledger, Duration::ZERO)
            .map_or(default.zero_hop_keep, |v| v.value),
    };
    section.finish(ledger);
    (router, own_zone, attempt, max_lag)
}

fn replace(router: &mut Section<'_, '_>, default: Replace, ledger: &mut Ledger<'_>) -> Replace {
    let mut section = router.section("replace", ledger);
    let sticky = section.text("sticky_limit", ledger, |text| match text {
        "never" => Ok(None),
        _ => fleet::parse_duration(text).map(Some).map_err(|error| {
            let (wrong, right) = value::split(&error.to_string());
            (wrong, format!("{right}, or \"never\""))
        }),
    });
    let read = Replace {
        enabled: section.flag("enabled", ledger).map_or(default.enabled, |v| v.value),
        pace_per_second: section
            .number("pace", ledger, (0.0001, 1.0))
            .map_or(default.pace_per_second, |v| v.value),
        quiet: section.duration("quiet", ledger, MOMENT).map_or(default.quiet, |v| v.value),
        sticky_limit: sticky.map_or(default.sticky_limit, |v| v.value),
        drain_deadline: section
            .duration("drain_deadline", ledger, MOMENT)
            .map_or(default.drain_deadline, |v| v.value),
    };
    section.finish(ledger);
    read
}

fn insight(router: &mut Section<'_, '_>, default: InsightConfig, ledger: &mut Ledger<'_>) -> InsightConfig {
    let mut section = router.section("insight", ledger);
    let keys = |found: Option<Vec<Placed<String>>>, default| {
        found.map_or(default, |keys| keys.into_iter().map(|key| key.value).collect())
    };
    let read = InsightConfig {
        endpoint_keys: keys(section.texts("endpoint_keys", ledger, value::tag), default.endpoint_keys),
        request_keys: keys(section.texts("request_keys", ledger, value::tag), default.request_keys),
        digests: section.count("digests", ledger, (1, 100_000)).map_or(default.digests, |v| v.value),
        endpoints: section.count("endpoints", ledger, (1, 10_000)).map_or(default.endpoints, |v| v.value),
        requests: section.count("requests", ledger, (1, 1_000_000)).map_or(default.requests, |v| v.value),
        request_quiet: section
            .duration("request_quiet", ledger, Duration::from_millis(100))
            .map_or(default.request_quiet, |v| v.value),
        examples: section.flag("examples", ledger).map_or(default.examples, |v| v.value),
    };
    section.finish(ledger);
    read
}

fn listeners(whole: &mut Section<'_, '_>, ledger: &mut Ledger<'_>) -> Vec<Placed<Listener>> {
    let roles = [("reader", ListenerRole::Reader), ("writer", ListenerRole::Writer)];
    let mut listeners = Vec::new();
    let sections = whole.sections("listener", ledger);
    for mut section in sections {
        let address = section.text("address", ledger, value::listening_address);
        section.require("address", ledger, "write where clients come: address = \"127.0.0.1:3306\"");
        let role = section.choice("role", ledger, &roles);
        section.require("role", ledger, "write role = \"reader\" or role = \"writer\"");
        let max_sessions = section
            .count("max_sessions", ledger, (1, 1_000_000))
            .map_or(Listener::DEFAULT_MAX_SESSIONS, |v| v.value);
        let max_connecting = section
            .count("max_connecting", ledger, (1, 1_000_000))
            .map_or(Listener::DEFAULT_MAX_CONNECTING, |v| v.value);
        let at = address.as_ref().map(|v| &v.value);
        let access = access::read(&mut section, at, ledger);
        let tls = transport::from_clients(&mut section, at, ledger);
        let insight = section.choice("insight", ledger, &Insight::ALL).map(|v| v.value).unwrap_or_default();
        let insight_one_in = section
            .count("insight_one_in", ledger, (1, 1_000_000))
            .and_then(|v| u32::try_from(v.value).ok())
            .unwrap_or(Listener::DEFAULT_INSIGHT_ONE_IN);
        if let (Some(address), Some(role)) = (address, role) {
            let listener = Listener::new(address.value, role.value);
            let value =
                Listener { access, max_sessions, max_connecting, tls, insight, insight_one_in, ..listener };
            listeners.push(Placed { value, span: address.span });
        }
        section.finish(ledger);
    }
    listeners
}

fn admin(whole: &mut Section<'_, '_>, ledger: &mut Ledger<'_>) -> Option<Placed<Admin>> {
    let mut section = whole.section("admin", ledger);
    let enabled = section.flag("enabled", ledger).is_none_or(|v| v.value);
    let address = section.text("address", ledger, |text| {
        let numeric = value::numeric(text);
        numeric.parse::<SocketAddr>().map_err(|_| {
            let right = format!("write an IP address and a port: {}", Admin::DEFAULT_ADDRESS);
            (format!("'{text}' is not an address to listen on"), right)
        })
    });
    let open = section.flag("open", ledger).is_some_and(|v| v.value);
    let names = section.texts("names", ledger, value::host_name);
    let default = AdminAccess::default();
    let access = AdminAccess {
        names: names.map_or(default.names, |names| names.into_iter().map(|name| name.value).collect()),
        cache: section.duration("cache", ledger, Duration::ZERO).map_or(default.cache, |v| v.value),
    };
    let span = section.place_of("address");
    section.finish(ledger);
    let address = address.map_or(Admin::DEFAULT_ADDRESS, |v| v.value);
    enabled.then_some(Placed { value: Admin { address, open, access }, span })
}

fn path(section: &mut Section<'_, '_>, key: &'static str, ledger: &mut Ledger<'_>) -> Option<PathBuf> {
    section.plain(key, ledger).map(|v| PathBuf::from(v.value))
}
