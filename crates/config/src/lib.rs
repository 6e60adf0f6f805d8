//! The configuration file: what `headroom.toml` means once every value has been found possible.
//!
//! Uses `fleet`; does no I/O. Reading is in two steps: raw (what the text says, with the place of each value) and checked
//! (the types here). Nothing downstream sees a raw value. `headroom.example.toml` documents every option; a test loads it.
//! Read first: `file.rs` (from text to values, section by section), `section.rs` (one table while it is read, and what is
//! complained of), `conflict.rs` (what is only wrong across sections).

use fleet::{Address, ListenerRole, Weight, Zone};
use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

mod access;
mod complaint;
mod conflict;
mod credentials;
mod data_path;
mod file;
mod nearest;
mod objective;
pub mod option_file;
mod section;
mod transport;
mod value;

pub use access::{Access, SAY_WHO_MAY_COME, open_to_the_network};
pub use complaint::{Complaint, Complaints};
pub use conflict::{admin_clashes, listeners_clash};
pub use credentials::{Credentials, PasswordFrom, Tls, TlsMode};
pub use data_path::DataPath;
pub use file::TLS_MODES;
pub use objective::{Objective, Target, Webhook};
pub use transport::{ClientCert, ClientTls, ClientTlsMode, ServerTls};

/// Everything `headroom route` needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The servers and how to ask them.
    pub fleet: FleetConfig,
    /// The data plane.
    pub router: RouterConfig,
    /// The addresses clients come to; at least one.
    pub listeners: Vec<Listener>,
    /// Status page, JSON and metrics; `None` switches them off.
    pub admin: Option<SocketAddr>,
    /// Who may read that, and how old it may be.
    pub admin_access: AdminAccess,
    /// What is promised of whose statements.
    pub objectives: Vec<Objective>,
    /// Who is told when a promise is broken.
    pub webhook: Option<Webhook>,
    /// Where the password is to be found; the binary looks there and puts it into `fleet.credentials`.
    pub password_from: Option<PasswordFrom>,
}

/// The admin address: status page, JSON and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether the operator said that the network may reach it. It has no password.
    pub open: bool,
    /// Who may read it there, and how old it may be.
    pub access: AdminAccess,
}

/// What the admin address answers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminAccess {
    /// Host names that requests may be for, beside addresses and `localhost`: a page from elsewhere can let a name of its own
    /// resolve to this address.
    pub names: Vec<String>,
    /// An answer is given again for so long: whoever asks in a loop costs no more than whoever asks once in this time.
    pub cache: Duration,
}

impl Default for AdminAccess {
    fn default() -> Self {
        Self { names: Vec::new(), cache: Duration::from_secs(1) }
    }
}

/// The servers and how to ask them.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetConfig {
    /// Where discovery starts; any one member is enough.
    pub seeds: Vec<Address>,
    /// Whether servers that the seeds tell of are added (`true` by default).
    pub discover: bool,
    /// Networks and names that servers found so must lie in; `None` is the networks and domains of the seeds.
    pub discover_within: Option<Vec<Matcher>>,
    /// Time between two rounds of questions.
    pub interval: Duration,
    /// An answer later than this counts as none.
    pub deadline: Duration,
    /// Who we are to the servers.
    pub credentials: Credentials,
    /// What servers call themselves -> how we reach them (NAT, tunnels, the lab).
    pub address_map: Vec<(Address, Address)>,
    /// Zones with the rules that place hosts in them, in order; the first rule that matches wins.
    pub zones: Vec<ZoneRule>,
    /// Whether servers that no rule places are grouped by measured round-trip time.
    pub zones_by_round_trip: bool,
    /// Where we stand ourselves.
    pub own_zone: OwnZone,
    /// What the operator says of single servers, in order; every matching rule applies.
    pub servers: Vec<ServerRule>,
}

/// A zone and who belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneRule {
    /// The zone.
    pub zone: Zone,
    /// Servers and client hosts that belong to it.
    pub members: Vec<Matcher>,
    /// Share of reads born there, where the operator states it; overrides nothing that can be measured.
    pub demand: Option<f64>,
}

/// What picks hosts out.
#[derive(Clone, Debug, PartialEq)]
pub enum Matcher {
    /// An address block; host names are matched by the addresses they resolve to.
    Net(IpNet),
    /// A host name, `host:port` or server name, `*` standing for any run of characters.
    Name(String),
    /// A label `key=value` that a [`ServerRule`] gives.
    Label(String, String),
}

/// What the operator says of servers that match.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerRule {
    /// Which servers.
    pub matcher: Matcher,
    /// How to call it (only with a rule that matches one server).
    pub name: Option<String>,
    /// Relative capacity.
    pub weight: Option<Weight>,
    /// Its zone.
    pub zone: Option<Zone>,
    /// Kept out of routing: an admin or analytics node.
    pub reserved: bool,
    /// Told the client's address by a PROXY protocol header (MariaDB's `proxy-protocol-networks`).
    pub proxy_protocol: bool,
    /// Labels, `key=value`.
    pub labels: Vec<(String, String)>,
}

/// The data plane.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterConfig {
    /// `e` of the flow formula: how much more than its even share a zone may carry to keep reads at home. 0 is exact; the
    /// default is about as much as measured demand is wrong, so that no read crosses zones for noise.
    pub slack: f64,
    /// A replica further behind than this is not eligible.
    pub max_lag: Duration,
    /// A server that came back grows from a tenth of its capacity to all of it in this time.
    pub warm_up: Duration,
    /// One server is given this long to greet before the next is tried.
    pub attempt_deadline: Duration,
    /// The client is told after this long.
    pub connect_deadline: Duration,
    /// New writer connections wait this long for a primary.
    pub hold_deadline: Duration,
    /// A client has this long from the server's greeting to the end of its login.
    pub login_deadline: Duration,
    /// A peer that owes an acknowledgement and has given none for this long is gone; its session ends.
    pub peer_deadline: Duration,
    /// Whether reads may go to the primary when no replica is eligible.
    pub reads_on_primary: bool,
    /// Placing sessions anew.
    pub replace: Replace,
    /// Threads of the data plane; `None` is one for every four cores, at least one.
    pub threads: Option<usize>,
    /// TLS to the servers.
    pub tls: ServerTls,
    /// The way of sessions' bytes.
    pub data_path: DataPath,
    /// What is learned from the statements that pass through.
    pub insight: InsightConfig,
    /// Whether connections go past the router where the kernel allows it.
    pub zero_hop: ZeroHop,
    /// Directory of the cgroup v2 whose processes' connections may go past; `None` is the root of its mount.
    pub zero_hop_cgroup: Option<PathBuf>,
    /// How long connections go on past after the router was last heard of.
    pub zero_hop_keep: Duration,
}

/// Whether connections go straight to a server, past the router (`[router] zero_hop`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ZeroHop {
    /// Where the kernel allows it; else the ordinary listener serves, and the status says why.
    #[default]
    Auto,
    /// Never.
    Off,
    /// The router does not start where the kernel does not allow it.
    Require,
}

/// What is learned from the statements that pass through (`[router.insight]`): whose they are, and how much may be
/// remembered. Whether a listener's sessions are measured at all, [`Insight`] says.
#[derive(Clone, Debug, PartialEq)]
pub struct InsightConfig {
    /// Tags that name the endpoint, in the order they are looked for. `a+b` joins the values of two tags.
    pub endpoint_keys: Vec<String>,
    /// Tags that name the request, in the order they are looked for. Of `traceparent` the trace id counts.
    pub request_keys: Vec<String>,
    /// Digests that are told apart; all further statements count as one.
    pub digests: usize,
    /// Endpoints that are told apart; all further ones count as one.
    pub endpoints: usize,
    /// Requests that may be open at a time, a thread; further ones are counted and not measured.
    pub requests: usize,
    /// A request without a statement for this long is over.
    pub request_quiet: Duration,
    /// Whether one statement of each digest is kept as it came, literals and all.
    pub examples: bool,
}

/// Which sessions of a listener are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Insight {
    /// All of them; every session passes through the router.
    On,
    /// All that pass through the router anyway. Where sessions could go past it, one new session in so many
    /// ([`Listener::insight_one_in`]) passes through and is measured.
    #[default]
    Sampled,
    /// None.
    Off,
}

/// Where we stand ourselves (`[router] zone`).
#[derive(Clone, Debug, PartialEq)]
pub enum OwnZone {
    /// Asks the zone rules with this host's addresses, then the cloud's metadata service, then round-trip times.
    Auto,
    /// Given.
    Named(Zone),
}

/// How sessions are moved when a better server is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replace {
    /// Off: sessions stay where they are until the client leaves.
    pub enabled: bool,
    /// At most this share of a router's sessions is closed per second.
    pub pace_per_second: f64,
    /// A session must have been quiet for this long.
    pub quiet: Duration,
    /// A session that holds state (temporary table, user variable, lock) is closed only after
    /// this long on the wrong server; `None` never.
    pub sticky_limit: Option<Duration>,
    /// A server that is drained by command is empty after this long, whatever its sessions hold.
    pub drain_deadline: Duration,
}

/// An address we accept clients on.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// Where. A host name is not allowed.
    pub address: Address,
    /// Who may come.
    pub access: Access,
    /// What its clients want.
    pub role: ListenerRole,
    /// Sessions beyond this are refused with MySQL's error 1040.
    pub max_sessions: usize,
    /// Clients that have come and are not logged in yet: beyond this they are refused with the same error.
    pub max_connecting: usize,
    /// TLS from its clients.
    pub tls: ClientTls,
    /// Which of its sessions are measured.
    pub insight: Insight,
    /// With [`Insight::Sampled`], and only where sessions could go past the router: one new session in this many
    /// passes through it and is measured. At least 1.
    pub insight_one_in: u32,
}

impl FleetConfig {
    /// An answer older than this counts as silence: whatever asks that server has missed three rounds,
    /// however late each of their answers came.
    pub fn answer_holds(&self) -> Duration {
        (self.interval + self.deadline) * 3
    }
}

impl Default for FleetConfig {
    fn default() -> Self {
        Self {
            seeds: Vec::new(),
            discover: true,
            discover_within: None,
            interval: Duration::from_millis(500),
            deadline: Duration::from_secs(1),
            credentials: Credentials::default(),
            address_map: Vec::new(),
            zones: Vec::new(),
            zones_by_round_trip: true,
            own_zone: OwnZone::Auto,
            servers: Vec::new(),
        }
    }
}

impl Default for RouterConfig {
    fn default() -> Self {
        Self {
            slack: 0.02,
            max_lag: Duration::from_secs(10),
            warm_up: Duration::from_secs(10),
            attempt_deadline: Duration::from_millis(500),
            connect_deadline: Duration::from_secs(5),
            hold_deadline: Duration::from_secs(10),
            login_deadline: Duration::from_secs(10),
            peer_deadline: Duration::from_secs(30),
            reads_on_primary: true,
            replace: Replace::default(),
            threads: None,
            tls: ServerTls::default(),
            data_path: DataPath::Auto,
            insight: InsightConfig::default(),
            zero_hop: ZeroHop::default(),
            zero_hop_cgroup: None,
            zero_hop_keep: Duration::from_secs(60),
        }
    }
}

impl Default for InsightConfig {
    fn default() -> Self {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        Self {
            endpoint_keys: words(&["endpoint", "route", "controller+action"]),
            request_keys: words(&["traceparent", "request_id"]),
            digests: 1000,
            endpoints: 200,
            requests: 4096,
            request_quiet: Duration::from_secs(10),
            examples: false,
        }
    }
}

impl Default for Replace {
    fn default() -> Self {
        Self {
            enabled: true,
            pace_per_second: 0.05,
            quiet: Duration::from_millis(20),
            sticky_limit: Some(Duration::from_secs(300)),
            drain_deadline: Duration::from_secs(60),
        }
    }
}

impl Listener {
    /// Sessions a listener takes unless told otherwise.
    pub const DEFAULT_MAX_SESSIONS: usize = 10_000;
    /// Clients that a listener lets log in at the same time unless told otherwise.
    pub const DEFAULT_MAX_CONNECTING: usize = 5_000;
    /// One session in this many is measured where sessions go past the router, unless told otherwise.
    pub const DEFAULT_INSIGHT_ONE_IN: u32 = 16;

    /// A listener with the default of everything but where and for whom.
    pub fn new(address: Address, role: ListenerRole) -> Self {
        Self {
            address,
            access: Access::default(),
            role,
            max_sessions: Self::DEFAULT_MAX_SESSIONS,
            max_connecting: Self::DEFAULT_MAX_CONNECTING,
            tls: ClientTls::default(),
            insight: Insight::default(),
            insight_one_in: Self::DEFAULT_INSIGHT_ONE_IN,
        }
    }
}

impl ZeroHop {
    /// Every setting with its word in the configuration.
    pub const ALL: [(&str, Self); 3] = [("auto", Self::Auto), ("off", Self::Off), ("require", Self::Require)];
}

impl Insight {
    /// Every setting with its word in the configuration.
    pub const ALL: [(&str, Self); 3] = [("on", Self::On), ("sampled", Self::Sampled), ("off", Self::Off)];

    /// The setting as the configuration says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Sampled => "sampled",
            Self::Off => "off",
        }
    }
}

impl Admin {
    /// Where the status page is unless told otherwise.
    pub const DEFAULT_ADDRESS: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9306);
}
