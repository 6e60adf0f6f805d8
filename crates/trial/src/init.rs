//! A spec from what a server offers, and this host: what `headroom trial init` writes. Nothing is touched.

use crate::cost::{self, EXTRA};
use crate::halving;
use fleet::Address;
use knob::Host;
use knob::catalogue::{Target, danger};
use knob::server::{self, Server};
use knob::value::{self, Facts};
use knob::{managed, name};
use std::time::Duration;

/// What the spec says beside the factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The server.
    pub server: Address,
    /// What is sent.
    pub workload: String,
    /// Clients of a closed loop, each an experiment of its own.
    pub threads: Vec<u32>,
    pub database: String,
    /// Tables sbtest1 to sbtestN.
    pub tables: u32,
    /// Rows of each table.
    pub table_size: u32,
    /// All of it is to take this long at most.
    pub budget: Duration,
}

/// A variable worth trying: its name, values beside the present one, and why.
type Row = (&'static str, &'static [&'static str], &'static str);

const SERVER: [Row; 9] = [
    ("innodb_flush_neighbors", &["0", "1"], "neighbours are written along: good for disks that seek"),
    ("innodb_io_capacity", &["200", "2000"], "how fast dirty pages are written"),
    ("innodb_max_dirty_pages_pct", &["50", "90"], "how many dirty pages may wait"),
    ("innodb_adaptive_hash_index", &["ON", "OFF"], "a hash over hot pages, under a latch"),
    ("innodb_change_buffering", &["none", "all"], "changes of secondary indexes wait"),
    ("innodb_lru_scan_depth", &["256", "1024"], "how far ahead pages are freed"),
    ("innodb_spin_wait_delay", &["4", "24"], "how long a thread spins for a lock"),
    ("table_open_cache", &["400", "4000"], "open tables that are kept"),
    ("innodb_purge_batch_size", &["127", "1000"], "how many old versions are removed at once"),
];

/// What matters most on a disk, and can lose data: written as comments.
const DANGEROUS: [Row; 2] = [
    (
        "innodb_flush_log_at_trx_commit",
        &["1", "2"],
        "at 1 a commit waits for the disk; at 2 the last second of commits is lost when the host fails",
    ),
    (
        "sync_binlog",
        &["1", "0"],
        "at 1 the binary log is synced with each commit; at 0 replicas may have what a failed host has lost",
    ),
];

/// What published lists have most of, and takes a restart on most servers: written as comments.
const RESTART: [Row; 7] = [
    ("innodb_flush_method", &["fsync", "O_DIRECT"], "whether the kernel's page cache holds pages as well"),
    (
        "innodb_doublewrite",
        &["ON", "OFF"],
        "each page is written twice, against torn ones; off only where the file system writes pages whole",
    ),
    ("innodb_use_native_aio", &["ON", "OFF"], "asynchronous I/O of the kernel, which OpenZFS does poorly"),
    ("innodb_read_io_threads", &["4", "16"], "threads that wait for reads"),
    ("innodb_write_io_threads", &["4", "16"], "threads that wait for writes"),
    ("innodb_log_buffer_size", &["16777216", "67108864"], "what transactions may log before it is written"),
    ("table_open_cache_instances", &["1", "16"], "parts of the cache of open tables, each with its latch"),
];

/// Of these the one that MySQL sets while it runs (since 8.0). MariaDB says of each whether it does; MySQL
/// does not, and trying would touch the server.
const SET_BY_MYSQL: &str = "innodb_log_buffer_size";

/// Settings of this host worth a look, with values to try beside the present one. Of a disk or an interface
/// each one that is there is offered; what the kernel here has not, or refuses, is left out.
const HOST: [(&str, &[&str]); 25] = [
    ("block.scheduler", &["none", "mq-deadline", "kyber"]),
    ("block.nr_requests", &["64", "256"]),
    ("block.rq_affinity", &["1", "2"]),
    ("block.nomerges", &["0", "2"]),
    ("block.read_ahead_kb", &["16", "128"]),
    ("block.wbt_lat_usec", &["0", "2000"]),
    ("block.max_sectors_kb", &["128", "1024"]),
    ("memory.thp", &["never", "madvise", "always"]),
    ("memory.swappiness", &["1", "60"]),
    ("memory.dirty_background_ratio", &["2", "10"]),
    ("memory.dirty_writeback_centisecs", &["100", "500"]),
    ("memory.numa_balancing", &["0", "1"]),
    ("cpu.governor", &["performance", "schedutil"]),
    ("cpu.sched_autogroup", &["0", "1"]),
    ("cpu.sched_base_slice_ns", &["1500000", "6000000"]),
    ("cpu.sched_min_granularity_ns", &["1500000", "10000000"]),
    ("cpu.sched_wakeup_granularity_ns", &["1000000", "15000000"]),
    ("network.busy_read", &["0", "50"]),
    ("network.busy_poll", &["0", "50"]),
    ("network.netdev_max_backlog", &["1000", "10000"]),
    ("network.somaxconn", &["128", "4096"]),
    ("network.rps", &["none", "all"]),
    ("network.rfs_flow_cnt", &["0", "4096"]),
    ("network.rps_sock_flow_entries", &["0", "32768"]),
    ("network.netdev_budget", &["300", "600"]),
];

/// A factor of the spec: a knob, its present value and what to try, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    pub knob: String,
    pub levels: Vec<String>,
    pub why: String,
    /// Whether a change takes a restart of the server, so that levels are changed as seldom as can be.
    pub restart: bool,
}

/// What the server offers, and what it does not, in words.
///
/// # Errors
/// The server cannot be asked.
pub fn of_server(server: &mut dyn Server) -> Result<(Vec<Factor>, Vec<String>), server::ServerError> {
    offered(server, &SERVER, Meant::Plain)
}

/// Variables that matter and can lose data, with the values that this server does not have now.
///
/// # Errors
/// The server cannot be asked.
pub fn dangerous(server: &mut dyn Server) -> Result<Vec<Factor>, server::ServerError> {
    Ok(offered(server, &DANGEROUS, Meant::Danger)?.0)
}

/// What is varied by restarts of the server: variables, its allocator, NUMA policy and file system, as far as
/// this host has libraries, nodes and programs for them. Variables that this server sets while it runs are
/// among them, and say so.
///
/// # Errors
/// The server cannot be asked.
pub fn by_restart(server: &mut dyn Server, host: &Host) -> Result<Vec<Factor>, server::ServerError> {
    let mut factors = offered(server, &RESTART, Meant::Restart)?.0;
    let mut add = |knob: &str, first: &str, others: Vec<String>, why: &str| {
        let levels: Vec<String> = std::iter::once(first.to_owned()).chain(others).collect();
        if levels.len() > 1 {
            let knob = format!("{knob}@{}", managed::TARGET);
            factors.push(Factor { knob, levels, why: why.to_owned(), restart: true });
        }
    };
    let libraries = ["jemalloc", "tcmalloc", "mimalloc"].into_iter();
    let libraries = libraries.filter(|name| managed::library(host, name).is_ok()).map(str::to_owned);
    add("allocator.library", managed::GLIBC, libraries.collect(), "who hands out the server's memory");
    let policies = managed::can_vary_numa(host).map(|()| vec!["interleave".to_owned()]);
    let why = "on which NUMA nodes the server's memory lies";
    add("numa.policy", managed::NUMA_DEFAULT, policies.unwrap_or_default(), why);
    let kinds = ["ext4", "xfs"].into_iter();
    let kinds = kinds.filter(|kind| host.program(&format!("mkfs.{kind}")).is_some());
    let kinds = kinds.map(|kind| format!("{kind} noatime"));
    let why = "the file system below the data, with a copy of them: what is written meanwhile is lost";
    add("file_system.type", managed::AS_IT_IS, kinds.collect(), why);
    Ok(factors)
}

/// Which rows are offered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meant {
    /// Those that can be set while the server runs, and values that lose nothing.
    Plain,
    /// Also values that can lose data.
    Danger,
    /// Also what takes a restart.
    Restart,
}

fn offered(
    server: &mut dyn Server,
    rows: &[Row],
    meant: Meant,
) -> Result<(Vec<Factor>, Vec<String>), server::ServerError> {
    let (mut factors, mut left_out) = (Vec::new(), Vec::new());
    for &(variable, values, why) in rows {
        let Some(described) = server.describe(variable)? else {
            left_out.push(format!("{variable}: this server has none"));
            continue;
        };
        if described.dynamic == Some(false) && meant != Meant::Restart {
            left_out.push(format!("{variable}: it needs a restart"));
            continue;
        }
        let now = match server.global(variable) {
            // A variable that is NULL has no value to be put back to.
            Err(server::ServerError::Answered { message, .. }) => {
                left_out.push(format!("{variable}: {message}"));
                continue;
            }
            answer => answer?,
        };
        let name = name::parse(&Host::new("/"), &format!("server.{variable}"));
        let fits = |value: &&&str| {
            let safe = name.as_ref().is_ok_and(|name| danger(name, value).is_none());
            (safe || meant != Meant::Plain) && server::check(&described, value).is_ok()
        };
        let mut levels = vec![tidy(&now)];
        let new = values.iter().filter(fits).map(|value| (*value).to_owned());
        levels.extend(new.filter(|value| !same(value, &now)));
        if levels.len() > 1 {
            let (knob, restart) = (format!("server.{variable}"), takes_restart(variable, &described));
            factors.push(Factor { knob, levels, why: why.to_owned(), restart });
        }
    }
    Ok((factors, left_out))
}

/// Whether this server takes a variable only by a restart.
fn takes_restart(variable: &str, described: &server::Variable) -> bool {
    match described.dynamic {
        Some(dynamic) => !dynamic,
        None => variable != SET_BY_MYSQL && RESTART.iter().any(|(name, ..)| *name == variable),
    }
}

fn same(one: &str, other: &str) -> bool {
    let switch = |text: &str| match text.to_ascii_uppercase().as_str() {
        "ON" | "1" => "1".to_owned(),
        "OFF" | "0" => "0".to_owned(),
        other => other.to_owned(),
    };
    let numbers = one.parse::<f64>().ok().zip(other.parse::<f64>().ok());
    switch(one) == switch(other) || numbers.is_some_and(|(one, other)| one == other)
}

/// `90.000000` is `90`.
fn tidy(value: &str) -> String {
    value
        .parse::<f64>()
        .ok()
        .filter(|_| value.contains('.'))
        .map_or_else(|| value.to_owned(), |number| number.to_string())
}

/// What this host offers, with its present value first.
pub fn of_host(host: &Host) -> Vec<Factor> {
    let mut factors = Vec::new();
    for (bare, values) in HOST {
        let Some(knob) = knob::catalogue::CATALOGUE.iter().find(|knob| knob.name == bare) else { continue };
        let real = |target: &String| match knob.target {
            // Bridges and the interfaces of containers are many, and lead to one of these.
            Target::Interface => target == "lo" || host.has(&format!("/sys/class/net/{target}/device")),
            _ => !["loop", "ram", "zram"].iter().any(|kind| target.starts_with(kind)),
        };
        for target in knob::resolve::targets(host, knob).into_iter().filter(real) {
            let text = if target.is_empty() { bare.to_owned() } else { format!("{bare}@{target}") };
            let Ok(name) = name::parse(host, &text) else { continue };
            let (Some(now), offered) = knob::apply::offered(host, &name) else { continue };
            let online = host.online();
            let facts = Facts {
                now: Some(now.as_str()),
                offered: &offered,
                cpus: host.cpus(),
                online: &online,
                ..Facts::default()
            };
            // As it reads back: `all` is `0-3`.
            let canonical = values.iter().filter_map(|one| value::check(knob.values, one, &facts).ok());
            let new = canonical.filter(|one| *one != now && danger(&name, one).is_none());
            let levels: Vec<String> = std::iter::once(now.clone()).chain(new).collect();
            if levels.len() > 1 {
                factors.push(Factor { knob: text, levels, why: knob.help.to_owned(), restart: false });
            }
        }
    }
    factors
}

/// Whether a level of a factor can lose data.
fn can_lose(factor: &Factor) -> bool {
    let name = name::parse(&Host::new("/nowhere"), &factor.knob);
    name.is_ok_and(|name| factor.levels.iter().any(|level| danger(&name, level).is_some()))
}

/// The text of the spec, which fits into its budget. Factors of the host are comments, and so are those that
/// can lose data or take a restart.
pub fn spec(
    request: &Request,
    factors: &[Factor],
    dangerous: &[Factor],
    by_restart: &[Factor],
    host: &[Factor],
) -> String {
    let cells: usize = factors.iter().map(|factor| factor.levels.len() - 1).sum();
    let in_stages =
        halving::stages(cells).into_iter().map(|stage| (stage.cells + EXTRA) * stage.blocks as usize);
    let trials = in_stages.sum::<usize>() * request.threads.len();
    // A tenth in reserve, for void trials and the return to the baseline.
    let each = request.budget.as_secs_f64() * 0.9 / trials as f64 - cost::AROUND.as_secs_f64();
    let each = each.clamp(1.0, 180.0);
    let warm_up = (each / 3.0).max(0.6);
    let measure = (each - warm_up).max(1.0);
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let list = |levels: &[String]| levels.iter().map(|level| quoted(level)).collect::<Vec<_>>().join(", ");
    let threads = request.threads.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "# Warning: this changes settings of the server again and again, and loads it with all it has. Use a\n\
         # server that serves nobody else. `headroom trial plan` says what it costs; nothing is touched before\n\
         # `headroom trial run`.\n\
         name = {}\n\
         metric = \"throughput\"          # or \"p99\"; with rates = [...] for an open loop\n\
         smallest_effect = 0.03         # less is of no interest\n\
         seed = 1\n\
         server = {}\n\
         budget = \"{}s\"\n\n\
         [load]\n\
         workload = {}\n\
         threads = [{threads}]\n\
         database = {}\n\
         tables = {}\n\
         table_size = {}\n\n\
         [timing]                       # of each of about {trials} trials\n\
         reset = \"0s\"\n\
         warm_up = \"{}ms\"              # at most: it ends when the load is steady\n\
         measure = \"{}ms\"\n\n\
         [design]\n\
         kind = \"one-at-a-time\"         # or \"full\", \"plackett-burman\"\n",
        quoted(&format!("{} on {}", request.workload, request.server)),
        quoted(&request.server.to_string()),
        request.budget.as_secs(),
        quoted(&request.workload),
        quoted(&request.database),
        request.tables,
        request.table_size,
        (warm_up * 1_000.0) as u64,
        (measure * 1_000.0) as u64,
    );
    for Factor { knob, levels, why, .. } in factors {
        text.push_str(&format!(
            "\n# {why}; the first level is what it is now.\n[[factor]]\nknob = {}\nlevels = [{}]\n",
            quoted(knob),
            list(levels)
        ));
    }
    if !dangerous.is_empty() {
        text.push_str(
            "\n# Warning: these can lose data, and are what a disk feels most. To know what durability costs here, \
             take the # away.\n",
        );
    }
    for Factor { knob, levels, why, .. } in dangerous {
        text.push_str(&format!(
            "\n# {why}.\n# [[factor]]\n# knob = {}\n# levels = [{}]\n# danger = true\n",
            quoted(knob),
            list(levels)
        ));
    }
    // What costs no restart is no plot: it would be judged by a few plots instead of by every trial.
    let (held, at_once): (Vec<&Factor>, Vec<&Factor>) = by_restart.iter().partition(|one| one.restart);
    let commented = |factor: &Factor, whole_plot: &str| {
        let danger = if can_lose(factor) { "# danger = true\n" } else { "" };
        let (why, knob, levels) = (&factor.why, quoted(&factor.knob), list(&factor.levels));
        format!("\n# {why}.\n# [[factor]]\n# knob = {knob}\n# levels = [{levels}]\n{whole_plot}{danger}")
    };
    if !at_once.is_empty() {
        text.push_str("\n# This server sets these while it runs. To try one, take the # away.\n");
    }
    text.extend(at_once.into_iter().map(|factor| commented(factor, "")));
    if !held.is_empty() {
        text.push_str(
            "\n# These take a restart of the server. To try one, say how it is restarted, by a line above [load]:\n\
             # managed = \"server.toml\"; and take the # away.\n",
        );
    }
    text.extend(held.into_iter().map(|factor| commented(factor, "# whole_plot = true\n")));
    if !host.is_empty() {
        text.push_str(
            "\n# Settings of this host concern everything that runs on it, and matter only if the server does. \
             To try one,\n# take the # away.\n",
        );
    }
    for Factor { knob, levels, why, .. } in host {
        let why = why.split(['.', ';']).next().unwrap_or_default();
        text.push_str(&format!(
            "\n# {why}.\n# [[factor]]\n# knob = {}\n# levels = [{}]\n",
            quoted(knob),
            list(levels)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    fn request(budget: u64) -> Request {
        Request {
            server: "127.0.0.1:3306".parse().unwrap(),
            workload: "oltp_read_only".to_owned(),
            threads: vec![16, 32],
            database: "sbtest".to_owned(),
            tables: 1,
            table_size: 100,
            budget: Duration::from_secs(budget),
        }
    }

    #[test]
    fn what_it_writes_is_a_spec_that_fits_into_its_budget() {
        let factor = |at: usize| Factor {
            knob: format!("server.v{at}"),
            levels: ["1", "2", "3"].map(str::to_owned).to_vec(),
            why: "why".to_owned(),
            restart: false,
        };
        let factors: Vec<Factor> = (0..6).map(factor).collect();
        let (knob, why) = ("memory.thp".to_owned(), "It \"is\".".to_owned());
        let host = [Factor { knob, levels: vec!["a".into()], why, restart: true }];
        for budget in [900, 3_600, 6_000] {
            let text = spec(&request(budget), &factors, &host, &host, &host);
            let spec = Spec::parse(&text, "t.toml").unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
            assert_eq!(spec.factors.len(), 6, "those of the host are comments");
            let experiment = crate::run::Experiment::new(spec, &[]).unwrap();
            assert!(crate::text::Plan::of(&experiment, 0.04).fits, "{budget}\n{text}");
        }
    }

    /// A server in which everything has this value, and is set while it runs or takes a restart.
    struct Fixed(&'static str, Option<bool>);

    impl Server for Fixed {
        fn identity(&mut self) -> Result<knob::identity::Facts, server::ServerError> {
            Ok(knob::identity::Facts::new())
        }

        fn describe(&mut self, _: &str) -> Result<Option<server::Variable>, server::ServerError> {
            Ok(Some(server::Variable { kind: server::Kind::Text, dynamic: self.1 }))
        }

        fn global(&mut self, variable: &str) -> Result<String, server::ServerError> {
            let null = || server::ServerError::Answered { code: 0, message: "it is NULL".into(), hint: "" };
            if variable == "innodb_flush_method" { Err(null()) } else { Ok(self.0.to_owned()) }
        }

        fn set_global(&mut self, _: &str, _: &str) -> Result<(), server::ServerError> {
            Ok(())
        }

        fn reconnect(&mut self) -> Result<(), server::ServerError> {
            Ok(())
        }
    }

    #[test]
    fn what_takes_a_restart_is_a_comment_that_is_a_factor_without_its_signs() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("usr/lib64/libjemalloc.so.2", ""),
            ("usr/sbin/mkfs.xfs", ""),
            ("usr/bin/numactl", ""),
            ("sys/devices/system/node/has_memory", "0-1\n"),
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = by_restart(&mut Fixed("ON", Some(false)), &Host::new(root.path())).unwrap();
        let of = |knob: &str| found.iter().find(|one| one.knob == knob).map(|one| one.levels.join(" | "));
        assert_eq!(of("server.innodb_flush_method"), None, "it is NULL");
        assert_eq!(of("server.innodb_doublewrite").as_deref(), Some("ON | OFF"));
        assert_eq!(of("allocator.library@server").as_deref(), Some("glibc | jemalloc"));
        assert_eq!(of("numa.policy@server").as_deref(), Some("default | interleave"));
        assert_eq!(of("file_system.type@server").as_deref(), Some("as-it-is | xfs noatime"));
        let levels = vec!["1".to_owned(), "2".to_owned()];
        let plain = [Factor { knob: "server.a".to_owned(), levels, why: "why".to_owned(), restart: false }];
        let text = spec(&request(900), &plain, &[], &found, &[]);
        let keys = ["[[factor]]", "knob = ", "levels = ", "whole_plot = ", "danger = "];
        let bare = |line: &str| match line.strip_prefix("# ") {
            Some(rest) if keys.iter().any(|key| rest.starts_with(key)) => rest.to_owned(),
            _ => line.to_owned(),
        };
        let all: Vec<String> = text.lines().map(bare).collect();
        let spec = Spec::parse(&all.join("\n"), "t.toml").unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
        let meant = |knob: &str| {
            let found = spec.factors.iter().find(|one| one.knob == knob);
            found.map(|one| (one.whole_plot, one.danger))
        };
        assert_eq!(meant("server.innodb_doublewrite"), Some((true, true)));
        assert_eq!(meant("file_system.type@server"), Some((true, true)));
        assert_eq!(meant("allocator.library@server"), Some((true, false)));
        assert_eq!(meant("numa.policy@server"), Some((true, false)));
    }

    #[test]
    fn what_a_server_sets_while_it_runs_is_no_plot_and_needs_nothing_that_restarts_it() {
        let root = tempfile::tempdir().unwrap();
        let found = |dynamic| by_restart(&mut Fixed("1", dynamic), &Host::new(root.path())).unwrap();
        let (knob, levels) = ("server.a".to_owned(), vec!["1".to_owned(), "2".to_owned()]);
        let plain = [Factor { knob, levels, why: "why".to_owned(), restart: false }];
        let text = |dynamic| spec(&request(900), &plain, &[], &found(dynamic), &[]);
        let plots = |text: &str| text.matches("# whole_plot = true").count();
        let all = found(Some(false)).len();
        assert!(all > 4, "{all}");
        let restarted = text(Some(false));
        assert_eq!(plots(&restarted), all);
        assert!(restarted.contains("managed") && !restarted.contains("while it runs"), "{restarted}");
        let at_once = text(Some(true));
        assert_eq!((plots(&at_once), at_once.matches("# [[factor]]").count()), (0, all));
        assert!(!at_once.contains("managed"), "{at_once}");
        assert_eq!(at_once.matches("# danger = true").count(), 1, "the doublewrite buffer: {at_once}");
        // MySQL does not say; of these it sets one.
        assert_eq!(plots(&text(None)), all - 1);
        let one = found(None).into_iter().filter(|one| !one.restart).map(|one| one.knob);
        assert_eq!(one.collect::<Vec<_>>(), ["server.innodb_log_buffer_size"]);
    }

    #[test]
    fn packets_are_offered_to_all_cpus_of_cards_and_not_of_containers() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000"),
            ("sys/class/net/eth0/device/vendor", "x"),
            ("sys/class/net/veth1/queues/rx-0/rps_cpus", "00000000"),
            ("sys/devices/system/cpu/possible", "0-127"),
            ("sys/devices/system/cpu/online", "0-3"),
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = of_host(&Host::new(root.path()));
        let knobs: Vec<(&str, String)> =
            found.iter().map(|one| (one.knob.as_str(), one.levels.join(" | "))).collect();
        assert_eq!(knobs, [("network.rps@eth0", "none | 0-3".to_owned())]);
    }

    #[test]
    fn a_present_value_is_no_level_twice() {
        assert!(same("ON", "1") && same("90", "90.000000") && !same("200", "2000"));
        assert_eq!((tidy("90.000000").as_str(), tidy("none").as_str()), ("90", "none"));
    }
}
