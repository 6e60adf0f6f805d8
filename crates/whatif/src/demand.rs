//! Demands of roles, measured: what a host used, by its agent's history, of the one role that runs there.
//!
//! A demand is the 95th percentile of the means of the history's cells, each resource by itself: CPU in
//! cores, memory in GiB with what the system takes, disk requests and bytes, network bytes in both
//! directions. Bytes of the disk have no history: requests a second times the size of one now.
//!
//! Two roles on one host are not told apart: the host's figures are of both. They keep what is written down,
//! and the reason is said.

use crate::inventory::{Inventory, RoleRow};
use crate::words::figure;
use plan::quantile::{nearest_rank, sorted};
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Write};
use term::Table;

/// Of what was used.
const SHARE: f64 = 0.95;
/// Fewer cells tell no 95th percentile.
const FEWEST: usize = 20;
const GIB: f64 = (1_u64 << 30) as f64;

/// What an agent answers about its host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostAnswer {
    /// What it answers at `/history.json`.
    pub history: String,
    pub cores: usize,
    pub memory_bytes: u64,
    /// Bytes of a disk request now; `None` where there was none.
    pub request_bytes: Option<f64>,
}

/// What a role wants, at the 95th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Cores.
    pub cpu: f64,
    /// GiB.
    pub memory: f64,
    /// Requests a second.
    pub iops: f64,
    /// MB/s of the disk; `None` where the size of a request is not known.
    pub mb_s: Option<f64>,
    /// MB/s, in and out.
    pub network: f64,
    /// Cells of the history, and their length in seconds.
    pub cells: usize,
    pub step_s: f64,
}

/// A role before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredRole {
    pub role: String,
    pub host: String,
    pub stated: RoleRow,
    pub demand: Demand,
}

/// An inventory whose demands were measured where they could be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredRoles {
    pub roles: Vec<MeasuredRole>,
    /// Roles that keep what is written down, with the reason.
    pub kept: Vec<String>,
}

/// Why an agent's answer tells no demand.
#[derive(Debug, thiserror::Error)]
pub enum DemandError {
    #[error("no history of an agent: {0}")]
    NoHistory(#[source] serde_json::Error),
    #[error("the agent's history has no host")]
    NoHost,
    /// Too few cells for a 95th percentile.
    #[error(
        "its history has {readings} readings of the {what}, and {FEWEST} are needed: wait, or ask for a longer stretch"
    )]
    TooFew {
        /// Which resource.
        what: &'static str,
        readings: usize,
    },
}

#[derive(Deserialize)]
struct History {
    step_s: f64,
    subjects: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    kind: String,
    series: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    name: String,
    values: Vec<Option<f64>>,
}

impl Demand {
    /// From what an agent says of its host.
    ///
    /// # Errors
    /// It is no history, or too little was read.
    pub fn of(answer: &HostAnswer) -> Result<Self, DemandError> {
        let history: History = serde_json::from_str(&answer.history).map_err(DemandError::NoHistory)?;
        let host = history.subjects.iter().find(|subject| subject.kind == "host");
        let host = host.ok_or(DemandError::NoHost)?;
        let values = |name: &str| {
            let series = host.series.iter().find(|series| series.name == name);
            series.map(|series| &series.values[..]).unwrap_or_default()
        };
        // A cell counts where all parts of a sum were read.
        let cells = |names: &[&str]| -> Vec<f64> {
            let count = names.iter().map(|name| values(name).len()).min().unwrap_or(0);
            (0..count)
                .filter_map(|at| names.iter().map(|name| values(name)[at]).sum::<Option<f64>>())
                .collect()
        };
        let fewest = std::cell::Cell::new(usize::MAX);
        let p95 = |what: &'static str, names: &[&str]| {
            let all = sorted(cells(names));
            fewest.set(fewest.get().min(all.len()));
            if all.len() < FEWEST {
                return Err(DemandError::TooFew { what, readings: all.len() });
            }
            Ok(nearest_rank(&all, SHARE).unwrap_or(0.0))
        };
        let iops = p95("disk", &["reads", "writes"])?;
        Ok(Self {
            cpu: p95("CPU", &["cpu"])? * answer.cores as f64,
            memory: p95("memory", &["memory"])? * answer.memory_bytes as f64 / GIB,
            iops,
            mb_s: answer.request_bytes.map(|bytes| iops * bytes / 1e6),
            network: p95("network", &["received", "sent"])? / 1e6,
            cells: fewest.get(),
            step_s: history.step_s,
        })
    }

    fn put(&self, role: &mut RoleRow) {
        // Three digits: more would be more than was measured.
        let short = |value: f64| format!("{value:.2e}").parse().unwrap_or(value);
        role.cpu = Some(short(self.cpu));
        role.memory = Some(short(self.memory));
        role.iops = Some(short(self.iops));
        role.mb_s = self.mb_s.map(short).or(role.mb_s);
        role.network = Some(short(self.network));
    }
}

impl Inventory {
    /// Puts measured demands in the place of those that are written down: of each role that has a host with
    /// an agent to itself. `ask` says what the agent of a host answers, by its place among the hosts, or why
    /// it does not.
    pub fn measure<E: Display>(
        &mut self,
        mut ask: impl FnMut(usize) -> Result<HostAnswer, E>,
    ) -> MeasuredRoles {
        let mut found = MeasuredRoles { roles: Vec::new(), kept: Vec::new() };
        for (at, host) in self.hosts.iter().enumerate() {
            let mut here: Vec<&mut RoleRow> =
                self.roles.iter_mut().filter(|role| role.on.as_ref() == Some(&host.name)).collect();
            let names = here.iter().map(|role| role.name.as_str()).collect::<Vec<_>>().join(", ");
            let demand = match (here.as_mut_slice(), &host.agent) {
                ([], _) => continue,
                (_, None) => Err(format!("{} has no agent", host.name)),
                ([role], Some(_)) => match ask(at).map(|answer| Demand::of(&answer)) {
                    Ok(Ok(demand)) => Ok((role, demand)),
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(error) => Err(error.to_string()),
                },
                (_, Some(_)) => Err(format!(
                    "the figures of {} are of all roles that run there, and do not tell them apart",
                    host.name
                )),
            };
            match demand {
                Ok((role, demand)) => {
                    let stated = role.clone();
                    demand.put(role);
                    let (role, host) = (stated.name.clone(), host.name.clone());
                    found.roles.push(MeasuredRole { role, host, stated, demand });
                }
                Err(why) => found.kept.push(format!("{names}: {why}")),
            }
        }
        let nowhere = self.roles.iter().filter(|role| role.on.is_none());
        found.kept.extend(nowhere.map(|role| format!("{}: it has no host yet", role.name)));
        found
    }
}

impl MeasuredRoles {
    /// As text: what was written down, and what was measured.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.roles.is_empty() {
            let headings =
                ["role", "host", ">cores", ">GiB", ">requests/s", ">disk MB/s", ">network MB/s", ">of"];
            let mut table = Table::new(&headings);
            for MeasuredRole { role, host, stated, demand } in &self.roles {
                let pair = |stated: Option<f64>, now: Option<f64>| {
                    let before = stated.map_or_else(|| "not known".to_owned(), figure);
                    match now {
                        Some(now) => format!("{before} -> {}", figure(now)),
                        None if stated.is_some() => format!("{before} (kept)"),
                        None => before,
                    }
                };
                table.row(vec![
                    role.clone(),
                    host.clone(),
                    pair(stated.cpu, Some(demand.cpu)),
                    pair(stated.memory, Some(demand.memory)),
                    pair(stated.iops, Some(demand.iops)),
                    pair(stated.mb_s, demand.mb_s),
                    pair(stated.network, Some(demand.network)),
                    format!("{} x {} s", demand.cells, figure(demand.step_s)),
                ]);
            }
            text += &table.text();
            text += "Written down -> measured: the 95th percentile of what the host used, with the system's part. MB/s of the disk: requests times their size now.\n";
        }
        for kept in &self.kept {
            let _ = writeln!(text, "Not measured: {kept}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    const TOML: &str = r#"
        [[host]]
        name = "h1"
        zone = "a"
        cpu = 16
        memory = 128
        iops = 20000
        mb_s = 800
        network = 1200
        agent = "https://h1:9307"
        [[role]]
        name = "r1"
        on = "h1"
        cpu = 1
        mb_s = 7
        [[role]]
        name = "spare"
    "#;

    fn answer(cells: usize) -> HostAnswer {
        // The 95th of a hundred equal steps, and a gap.
        let steps = |most: f64| {
            let all: Vec<String> =
                (1..=cells).map(|at| (most * at as f64 / cells as f64).to_string()).collect();
            format!("[null,{}]", all.join(","))
        };
        let series = [
            ("cpu", 0.5),
            ("memory", 0.25),
            ("reads", 1000.0),
            ("writes", 200.0),
            ("received", 2e6),
            ("sent", 8e6),
        ];
        let series: Vec<String> = series
            .iter()
            .map(|(name, most)| format!(r#"{{"name":"{name}","values":{}}}"#, steps(*most)))
            .collect();
        HostAnswer {
            history: format!(
                r#"{{"now_s":1.0,"step_s":60.0,"subjects":[{{"kind":"host","series":[{}]}}]}}"#,
                series.join(",")
            ),
            cores: 16,
            memory_bytes: 128 << 30,
            request_bytes: Some(16384.0),
        }
    }

    #[test]
    fn a_role_alone_on_its_host_gets_what_the_host_used() {
        let mut inventory = Inventory::parse(TOML, "i.toml").unwrap();
        let refused = || Error::from(ErrorKind::ConnectionRefused);
        let found = inventory.measure(|at| if at == 0 { Ok(answer(100)) } else { Err(refused()) });
        let role = &inventory.roles[0];
        let [cpu, memory, iops, mb_s, network] = role.demand().map(Option::unwrap);
        assert_eq!((cpu, memory, iops, network), (7.6, 30.4, 1140.0, 9.5));
        assert!((mb_s - 18.7).abs() < 0.05, "{role:?}");
        assert_eq!((found.roles[0].stated.cpu, found.roles[0].demand.cells), (Some(1.0), 100));
        assert_eq!(found.kept, ["spare: it has no host yet"]);
        let text = found.text();
        assert!(text.contains("1.00 -> 7.60") && text.contains("not known -> 30.4"), "{text}");
        let written = inventory.toml().unwrap();
        assert_eq!(Inventory::parse(&written, "o.toml").unwrap(), inventory, "{written}");
    }

    #[test]
    fn what_cannot_be_measured_keeps_what_is_written_down_with_the_reason() {
        let measured = |toml: &str, answer: Result<HostAnswer, ErrorKind>| {
            let mut inventory = Inventory::parse(toml, "i.toml").unwrap();
            let found = inventory.measure(|_| answer.clone());
            assert_eq!(inventory.roles[0].cpu, Some(1.0));
            found.kept[0].clone()
        };
        assert!(measured(TOML, Ok(answer(19))).contains("r1: its history has 19 readings of the disk"));
        assert_eq!(measured(TOML, Err(ErrorKind::ConnectionRefused)), "r1: connection refused");
        let no_agent = TOML.replace("agent = ", "zone_of = ").replace("zone_of = \"https://h1:9307\"", "");
        assert!(measured(&no_agent, Ok(answer(100))).contains("h1 has no agent"));
        let two = format!("{TOML}\non = 'h1'");
        assert!(measured(&two, Ok(answer(100))).contains("r1, spare: the figures of h1 are of all roles"));
        let mut unsized_requests = Inventory::parse(TOML, "i.toml").unwrap();
        unsized_requests.measure(|_| Ok::<_, Error>(HostAnswer { request_bytes: None, ..answer(100) }));
        assert_eq!(unsized_requests.roles[0].mb_s, Some(7.0), "it is kept");
    }
}
