//! A spec from what a server offers, and this host: what `headroom trial init` writes. Nothing is touched.

use crate::cost::{self, EXTRA};
use crate::halving;
use fleet::Address;
use knob::Host;
use knob::catalogue::danger;
use knob::name;
use knob::server::{self, Server};
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

/// Settings of this host worth a look, with values to try beside the present one. Of a disk or an interface
/// each one that is there is offered; what the kernel here has not, or refuses, is left out.
const HOST: [(&str, &[&str]); 21] = [
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
    ("network.busy_read", &["0", "50"]),
    ("network.busy_poll", &["0", "50"]),
    ("network.netdev_max_backlog", &["1000", "10000"]),
    ("network.somaxconn", &["128", "4096"]),
    ("network.rps_sock_flow_entries", &["0", "32768"]),
    ("network.netdev_budget", &["300", "600"]),
];

/// A factor of the spec: a knob, its present value and what to try, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    pub knob: String,
    pub levels: Vec<String>,
    pub why: String,
}

/// What the server offers, and what it does not, in words.
///
/// # Errors
/// The server cannot be asked.
pub fn of_server(server: &mut dyn Server) -> Result<(Vec<Factor>, Vec<String>), server::ServerError> {
    offered(server, &SERVER, false)
}

/// Variables that matter and can lose data, with the values that this server does not have now.
///
/// # Errors
/// The server cannot be asked.
pub fn dangerous(server: &mut dyn Server) -> Result<Vec<Factor>, server::ServerError> {
    Ok(offered(server, &DANGEROUS, true)?.0)
}

fn offered(
    server: &mut dyn Server,
    rows: &[Row],
    meant: bool,
) -> Result<(Vec<Factor>, Vec<String>), server::ServerError> {
    let (mut factors, mut left_out) = (Vec::new(), Vec::new());
    for &(variable, values, why) in rows {
        let Some(described) = server.describe(variable)? else {
            left_out.push(format!("{variable}: this server has none"));
            continue;
        };
        if described.dynamic == Some(false) {
            left_out.push(format!("{variable}: it needs a restart"));
            continue;
        }
        let now = server.global(variable)?;
        let name = name::parse(&Host::new("/"), &format!("server.{variable}"));
        let fits = |value: &&&str| {
            let safe = name.as_ref().is_ok_and(|name| danger(name, value).is_none());
            (safe || meant) && server::check(&described, value).is_ok()
        };
        let mut levels = vec![tidy(&now)];
        let new = values.iter().filter(fits).map(|value| (*value).to_owned());
        levels.extend(new.filter(|value| !same(value, &now)));
        if levels.len() > 1 {
            factors.push(Factor { knob: format!("server.{variable}"), levels, why: why.to_owned() });
        }
    }
    Ok((factors, left_out))
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
        let real = |target: &String| !["loop", "ram", "zram"].iter().any(|kind| target.starts_with(kind));
        for target in knob::resolve::targets(host, knob).into_iter().filter(real) {
            let text = if target.is_empty() { bare.to_owned() } else { format!("{bare}@{target}") };
            let Ok(name) = name::parse(host, &text) else { continue };
            let (Some(now), offered) = knob::apply::offered(host, &name) else { continue };
            let fits = |value: &&&str| {
                (offered.is_empty() || offered.iter().any(|one| one == **value))
                    && danger(&name, value).is_none()
            };
            let mut levels = vec![now.clone()];
            levels.extend(
                values.iter().filter(fits).map(|value| (*value).to_owned()).filter(|one| *one != now),
            );
            if levels.len() > 1 {
                factors.push(Factor { knob: text, levels, why: knob.help.to_owned() });
            }
        }
    }
    factors
}

/// The text of the spec, which fits into its budget. Factors of the host are comments, and so are those that
/// can lose data.
pub fn spec(request: &Request, factors: &[Factor], dangerous: &[Factor], host: &[Factor]) -> String {
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
    for Factor { knob, levels, why } in factors {
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
    for Factor { knob, levels, why } in dangerous {
        text.push_str(&format!(
            "\n# {why}.\n# [[factor]]\n# knob = {}\n# levels = [{}]\n# danger = true\n",
            quoted(knob),
            list(levels)
        ));
    }
    if !host.is_empty() {
        text.push_str(
            "\n# Settings of this host concern everything that runs on it, and matter only if the server does. \
             To try one,\n# take the # away.\n",
        );
    }
    for Factor { knob, levels, why } in host {
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
        };
        let factors: Vec<Factor> = (0..6).map(factor).collect();
        let host = [Factor { knob: "memory.thp".into(), levels: vec!["a".into()], why: "It \"is\".".into() }];
        for budget in [900, 3_600, 6_000] {
            let text = spec(&request(budget), &factors, &host, &host);
            let spec = Spec::parse(&text, "t.toml").unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
            assert_eq!(spec.factors.len(), 6, "those of the host are comments");
            let experiment = crate::run::Experiment::new(spec, &[]).unwrap();
            assert!(crate::text::Plan::of(&experiment, 0.04).fits, "{budget}\n{text}");
        }
    }

    #[test]
    fn a_present_value_is_no_level_twice() {
        assert!(same("ON", "1") && same("90", "90.000000") && !same("200", "2000"));
        assert_eq!((tidy("90.000000").as_str(), tidy("none").as_str()), ("90", "none"));
    }
}
