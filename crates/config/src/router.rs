//! `[router]` and `[router.rebalance]`: the data plane.

use super::section::Section;
use super::{InsightConfig, OwnZone, ServerTls, insight, tls, value};
use fleet::Zone;
use serde::Serialize;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(1);

/// The data plane.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterConfig {
    /// `e` of the flow formula: how much more than its even share a zone may carry to keep reads at home. 0
    /// is exact; the default is about as much as measured demand is wrong, so that no read crosses zones for
    /// noise.
    pub slack: f64,
    /// A replica further behind than this is not eligible.
    pub max_lag: Duration,
    /// A server that came back grows from a tenth of its capacity to all of it in this time, or later if its
    /// buffer pool is cold.
    pub warm_up: Duration,
    /// After this time it counts as warm, however cold its buffer pool is.
    pub warm_up_limit: Duration,
    /// One server is given this long to greet before the next is tried.
    pub attempt_deadline: Duration,
    /// The client is told after this long.
    pub connect_deadline: Duration,
    /// New writer connections wait this long for a primary.
    pub hold_deadline: Duration,
    /// Where the highest epoch of switchovers is remembered over restarts; `None`: it is learned from the
    /// servers.
    pub epoch_file: Option<PathBuf>,
    /// A client has this long from the server's greeting to the end of its login. Shorter than the servers'
    /// `connect_timeout`, so that the router ends a silent client before the server does.
    pub login_deadline: Duration,
    /// A peer that owes an acknowledgement and has given none for this long is dead; its session ends.
    pub peer_deadline: Duration,
    /// Whether reads may go to the primary when no replica is eligible.
    pub reads_on_primary: bool,
    pub rebalance: Rebalance,
    pub capacity: Capacity,
    /// Threads of the data plane; `None` is one for every four cores, at least one.
    pub threads: Option<usize>,
    pub tls: ServerTls,
    /// The way of sessions' bytes.
    pub data_path: DataPath,
    /// What is learned from the statements that pass through.
    pub insight: InsightConfig,
    /// Whether connections bypass the router where the kernel allows it.
    pub zero_hop: ZeroHop,
    /// Directory of the cgroup v2 whose processes' connections may bypass it; `None` is the root of its
    /// mount.
    pub zero_hop_cgroup: Option<PathBuf>,
    /// How long connections go on bypassing it after the router was last heard of.
    pub zero_hop_keep: Duration,
}

/// Whether connections go straight to a server and bypass the router (`[router] zero_hop`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ZeroHop {
    /// Where the kernel allows it; else the ordinary listener serves, and the status says why.
    #[default]
    Auto,
    Off,
    /// The router does not start where the kernel does not allow it.
    Require,
}

/// What of a server's capacity is measured (`[router.capacity]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// A replica whose statements take longer than the same ones elsewhere counts for less than its weight.
    pub speed: bool,
    /// What a replica carries is the work of its sessions, not their number.
    pub work: bool,
    /// A replica that warms up gets its share in step with what its buffer pool misses, not by the clock.
    pub heat: bool,
}

/// How sessions are moved when a better server is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rebalance {
    /// Off: sessions stay where they are until the client leaves, but for writers of a primary that is
    /// replaced.
    pub enabled: bool,
    /// At most this share of a router's sessions is closed per second, but one a second may always be.
    pub pace_per_second: f64,
    /// A session must have been quiet for this long.
    pub quiet: Duration,
    /// A session that holds state (temporary table, user variable, lock) is closed only after
    /// this long on the wrong server; `None` never.
    pub sticky_limit: Option<Duration>,
    /// A server that is drained by command is empty after this long, whatever its sessions hold.
    pub drain_deadline: Duration,
}

/// The way of sessions' bytes through the router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DataPath {
    /// io_uring where the kernel allows it, else epoll.
    #[default]
    Auto,
    /// io_uring, or the router does not start.
    IoUring,
    Epoll,
}

impl Default for RouterConfig {
    fn default() -> Self {
        Self {
            slack: 0.02,
            max_lag: Duration::from_secs(10),
            warm_up: Duration::from_secs(10),
            warm_up_limit: Duration::from_secs(300),
            attempt_deadline: Duration::from_millis(500),
            connect_deadline: Duration::from_secs(5),
            hold_deadline: Duration::from_secs(10),
            epoch_file: None,
            login_deadline: Duration::from_secs(9),
            peer_deadline: Duration::from_secs(30),
            reads_on_primary: true,
            rebalance: Rebalance::default(),
            capacity: Capacity::default(),
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

impl Default for Rebalance {
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

impl Default for Capacity {
    fn default() -> Self {
        Self { speed: true, work: false, heat: true }
    }
}

impl ZeroHop {
    /// Every setting with its word in the configuration.
    pub const ALL: [(&str, Self); 3] = [("auto", Self::Auto), ("off", Self::Off), ("require", Self::Require)];
}

impl DataPath {
    /// Every way with its word.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("io_uring", Self::IoUring), ("epoll", Self::Epoll)];

    /// Its word in configuration, status and metrics.
    pub fn as_str(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reads `[router]`: the data plane, our own zone, and the place of `max_lag`.
pub(super) fn read(document: &mut Section<'_>) -> (RouterConfig, OwnZone, Range<usize>) {
    let default = RouterConfig::default();
    let mut section = document.section("router");
    let own_zone = section.plain("zone").map_or(OwnZone::Auto, |name| match name.as_str() {
        "auto" => OwnZone::Auto,
        name => OwnZone::Named(Zone::new(name)),
    });
    let short = Duration::from_millis(10);
    let attempt_deadline = section.duration("attempt_deadline", short);
    let connect_deadline = section.duration("connect_deadline", short).unwrap_or(default.connect_deadline);
    let warm_up = section.duration("warm_up", Duration::ZERO).unwrap_or(default.warm_up);
    let warm_up_limit = section.duration("warm_up_limit", Duration::ZERO);
    let router = RouterConfig {
        slack: section.number("slack", (0.0, 10.0)).unwrap_or(default.slack),
        max_lag: section.duration("max_lag", MOMENT).unwrap_or(default.max_lag),
        warm_up,
        // A long warm-up alone must not contradict a default nobody wrote.
        warm_up_limit: warm_up_limit.unwrap_or(default.warm_up_limit.max(warm_up)),
        // A short connect deadline alone must not contradict a default nobody wrote.
        attempt_deadline: attempt_deadline.unwrap_or(default.attempt_deadline.min(connect_deadline)),
        connect_deadline,
        hold_deadline: section.duration("hold_deadline", Duration::ZERO).unwrap_or(default.hold_deadline),
        epoch_file: section.path("epoch_file"),
        login_deadline: section.duration("login_deadline", MOMENT).unwrap_or(default.login_deadline),
        peer_deadline: section
            .duration("peer_deadline", Duration::from_secs(1))
            .unwrap_or(default.peer_deadline),
        reads_on_primary: section.flag("reads_on_primary").unwrap_or(default.reads_on_primary),
        threads: section.count("threads", (1, 1024)).map(|n| n as usize),
        data_path: section.choice("data_path", &DataPath::ALL).unwrap_or(default.data_path),
        rebalance: rebalance(&mut section),
        capacity: capacity(&mut section),
        tls: tls::to_servers(&mut section),
        insight: insight::read(&mut section),
        zero_hop: section.choice("zero_hop", &ZeroHop::ALL).unwrap_or(default.zero_hop),
        zero_hop_cgroup: section.path("zero_hop_cgroup"),
        zero_hop_keep: section.duration("zero_hop_keep", Duration::ZERO).unwrap_or(default.zero_hop_keep),
    };
    if router.attempt_deadline > router.connect_deadline {
        let [attempt, connect] = [router.attempt_deadline, router.connect_deadline].map(fleet::duration_text);
        let wrong = format!("one attempt may take {attempt}, longer than the whole connect ({connect})");
        let right = format!("attempt_deadline must be at most connect_deadline = \"{connect}\"");
        section.complain("attempt_deadline", wrong, right);
    }
    if router.warm_up > router.warm_up_limit {
        let [warm_up, limit] = [router.warm_up, router.warm_up_limit].map(fleet::duration_text);
        let wrong = format!("a warm-up ends after {limit} at the latest, and takes {warm_up} at least");
        section.complain(
            "warm_up_limit",
            wrong,
            format!("warm_up_limit must be at least warm_up = \"{warm_up}\""),
        );
    }
    let max_lag_at = section.place_of("max_lag");
    section.finish();
    (router, own_zone, max_lag_at)
}

fn rebalance(router: &mut Section<'_>) -> Rebalance {
    let default = Rebalance::default();
    let mut section = router.section("rebalance");
    let sticky_limit = section.text("sticky_limit", |text| match text {
        "never" => Ok(None),
        _ => value::duration(text)
            .map(Some)
            .map_err(|(wrong, right)| (wrong, format!("{right}, or \"never\""))),
    });
    let read = Rebalance {
        enabled: section.flag("enabled").unwrap_or(default.enabled),
        pace_per_second: section.number("pace", (0.0001, 1.0)).unwrap_or(default.pace_per_second),
        quiet: section.duration("quiet", MOMENT).unwrap_or(default.quiet),
        sticky_limit: sticky_limit.map_or(default.sticky_limit, toml::Spanned::into_inner),
        drain_deadline: section.duration("drain_deadline", MOMENT).unwrap_or(default.drain_deadline),
    };
    section.finish();
    read
}

fn capacity(router: &mut Section<'_>) -> Capacity {
    let default = Capacity::default();
    let mut section = router.section("capacity");
    let read = Capacity {
        speed: section.flag("speed").unwrap_or(default.speed),
        work: section.flag("work").unwrap_or(default.work),
        heat: section.flag("heat").unwrap_or(default.heat),
    };
    section.finish();
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_word() {
        for (word, way) in DataPath::ALL {
            assert_eq!(way.as_str(), word);
        }
    }
}
