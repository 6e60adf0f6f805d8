//! The inventory: hosts with their ceilings and prices, roles with their measured demands, and what runs
//! where. TOML, or CSV with a row for each host and role.
//!
//! ```toml
//! [options]
//! fill = 0.8                    # share of a ceiling that may be used
//! apart = true                  # roles that want most of the same resource on different hosts, where possible
//!
//! [[host]]
//! name = "db-host-1"
//! zone = "a"
//! cpu = 16                      # cores
//! memory = 128                  # GiB
//! iops = 20000
//! mb_s = 800
//! network = 1200                # MB/s
//! price = 310                   # optional: a month, in any currency; where one host has none, hosts are counted
//! watts = 350
//! work = 9000                   # optional: what it gets done, such as transactions a second
//! agent = "https://db1:9307"    # optional: its agent says how many cores and how much memory it has
//!
//! [[role]]
//! name = "shop-reader-1"
//! group = "shop-readers"        # stand in for each other: on different hosts and zones
//! on = "db-host-1"              # where it runs today
//! server = "10.0.0.1:3306"      # optional: --ask compares what it says
//! id = "3c9e1f2a-..."           # optional: its @@server_uuid (MySQL) or @@server_uid (MariaDB)
//! cpu = 4.5                     # demand at the 95th percentile
//! memory = 48
//! iops = 3000
//! mb_s = 90
//! network = 40
//! ```
//! A demand that is not there is not known: no placement is worked out without it. 0 says that there is none.
//!
//! The same as CSV has a heading
//! `kind,name,zone,group,on,server,id,agent,cpu,memory,iops,mb_s,network,price,watts,work`.

use crate::file::{self, FileError, Mistake};
use crate::words::figure;
use plan::placement::{Host, Question, RESOURCES, Role};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;

/// What is where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inventory {
    #[serde(default)]
    pub options: Options,
    #[serde(default, rename = "host")]
    pub hosts: Vec<HostRow>,
    #[serde(default, rename = "role")]
    pub roles: Vec<RoleRow>,
}

/// How roles are placed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Share of a ceiling that may be used.
    pub fill: f64,
    /// Roles that want most of the same resource on different hosts, where possible.
    pub apart: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { fill: 0.8, apart: false }
    }
}

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostRow {
    pub name: String,
    #[serde(default)]
    pub zone: String,
    pub cpu: f64,
    pub memory: f64,
    pub iops: f64,
    pub mb_s: f64,
    pub network: f64,
    /// A month.
    pub price: Option<f64>,
    pub watts: Option<f64>,
    pub work: Option<f64>,
    pub agent: Option<String>,
}

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// Of the host that it runs on.
    pub hostname: String,
    /// Of its buffer pool; `None` where it does not tell.
    pub pool_bytes: Option<u64>,
    /// `@@server_uuid` or `@@server_uid`, where it has one.
    pub id: Option<String>,
}

/// What an agent says of the host that it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFacts {
    pub cores: usize,
    pub memory_bytes: u64,
}

/// What the firmware and the kernel keep of a host's memory is not in what its agent says: up to a tenth, and
/// half a GiB at least of small ones.
const KEPT_MEMORY: (f64, f64) = (0.10, 0.5);

impl HostRow {
    /// A ceiling may be lower than what the host has, not higher; less than half of it is an oversight.
    fn differs(&self, facts: &HostFacts) -> Vec<String> {
        let memory = facts.memory_bytes as f64 / (1_u64 << 30) as f64;
        let kept = (self.memory * KEPT_MEMORY.0).max(KEPT_MEMORY.1);
        let cores = facts.cores as f64;
        let pairs =
            [("cores", self.cpu, cores, cores * 1.02), ("GiB of memory", self.memory, memory, memory + kept)];
        let off = pairs.iter().filter(|(_, stated, has, most)| stated > most || *stated < has / 2.0);
        off.map(|(what, stated, has, _)| {
            format!(
                "{}: the inventory gives it {stated} {what}, and its agent says {}",
                self.name,
                figure(*has)
            )
        })
        .collect()
    }
}

/// A role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleRow {
    pub name: String,
    pub group: Option<String>,
    pub on: Option<String>,
    pub server: Option<String>,
    pub id: Option<String>,
    pub cpu: Option<f64>,
    pub memory: Option<f64>,
    pub iops: Option<f64>,
    pub mb_s: Option<f64>,
    pub network: Option<f64>,
}

/// What nobody has written down of a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnknownDemand {
    pub role: String,
    pub columns: Vec<&'static str>,
}

/// Roles whose demands are not known: where they fit cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "what roles want is not known: {}; write it down (0 where there is none), or let headroom inventory --measure find it",
    in_words(roles)
)]
pub struct UnknownDemands {
    pub roles: Vec<UnknownDemand>,
}

/// `cpu, memory of r1; mb_s of r2`.
fn in_words(roles: &[UnknownDemand]) -> String {
    let one = |one: &UnknownDemand| format!("{} of {}", one.columns.join(", "), one.role);
    roles.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl RoleRow {
    /// What it wants, in the order of [`RESOURCES`]; `None` where it is not known.
    pub fn demand(&self) -> [Option<f64>; 5] {
        [self.cpu, self.memory, self.iops, self.mb_s, self.network]
    }

    fn unknown(&self) -> Option<UnknownDemand> {
        let pairs = RESOURCES.iter().zip(self.demand());
        let columns: Vec<_> = pairs.filter(|(_, demand)| demand.is_none()).map(|(name, _)| *name).collect();
        (!columns.is_empty()).then(|| UnknownDemand { role: self.name.clone(), columns })
    }

    fn differs(&self, facts: &ServerFacts) -> Vec<String> {
        let mut found = Vec::new();
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        if let Some(on) = self.on.as_ref().filter(|on| short(on) != short(&facts.hostname)) {
            found.push(format!(
                "{}: the inventory has it on {on}, and the server says {}",
                self.name, facts.hostname
            ));
        }
        if let Some(id) = self.id.as_ref().filter(|id| facts.id.as_ref() != Some(id)) {
            let says = facts.id.as_deref().unwrap_or("none");
            found.push(format!(
                "{}: the inventory has the server {id}, and it says its id is {says}",
                self.name
            ));
        }
        let name = &self.name;
        let pool = facts.pool_bytes.map(|bytes| bytes as f64 / (1_u64 << 30) as f64);
        match self.memory.zip(pool) {
            Some((memory, pool)) if memory < pool => found.push(format!(
                "{name}: {memory} GiB of memory are less than its buffer pool of {pool:.2} GiB"
            )),
            None if self.memory.is_some() => found.push(format!(
                "{name}: its memory is not compared: the server does not tell innodb_buffer_pool_size"
            )),
            _ => {}
        }
        found
    }
}

impl Inventory {
    /// That of a file: TOML, or CSV where its name ends in `.csv`.
    ///
    /// # Errors
    /// It cannot be read, or what is wrong in it.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Self::parse(&file::read(path)?, &path.display().to_string())
    }

    /// Reads TOML, or CSV where the name ends in `.csv`.
    ///
    /// # Errors
    /// What is wrong in it, with its line where it is CSV.
    pub fn parse(text: &str, name: &str) -> Result<Self, FileError> {
        let inventory = if name.ends_with(".csv") {
            let wrong = |(line, source)| FileError::WrongLine { name: name.to_owned(), line, source };
            Self::of_csv(text).map_err(wrong)?
        } else {
            let parsed = toml::from_str::<Self>(text).map_err(Mistake::from);
            parsed.map_err(FileError::wrong(name))?
        };
        inventory.check().map_err(FileError::wrong(name))?;
        Ok(inventory)
    }

    /// As a file that [`Self::parse`] reads.
    ///
    /// # Errors
    /// It has no such form.
    pub fn toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    fn of_csv(text: &str) -> Result<Self, (usize, Mistake)> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (at, heading) = lines.next().ok_or((1, Mistake::Empty))?;
        let columns: Vec<&str> = heading.split(',').map(str::trim).collect();
        const KNOWN: [&str; 16] = [
            "kind", "name", "zone", "group", "on", "server", "id", "agent", "cpu", "memory", "iops", "mb_s",
            "network", "price", "watts", "work",
        ];
        if let Some(other) = columns.iter().find(|column| !KNOWN.contains(column)) {
            let separators = [(';', "semicolons"), ('\t', "tabs")];
            let used = separators.into_iter().find(|(separator, _)| other.contains(*separator));
            if let Some((_, found)) = used {
                return Err((at + 1, Mistake::Separator { found }));
            }
            return Err((at + 1, Mistake::UnknownColumn { column: (*other).to_owned(), known: &KNOWN }));
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = columns.iter().find(|column| !names.insert(**column)) {
            return Err((at + 1, Mistake::ColumnTwice { column: (*twice).to_owned() }));
        }
        let mut inventory = Self::default();
        for (at, line) in lines {
            let number = at + 1;
            if line.contains('"') {
                return Err((number, Mistake::Quoted));
            }
            let cells: Vec<&str> = line.split(',').map(str::trim).collect();
            if cells.len() != columns.len() {
                return Err((number, Mistake::Cells { found: cells.len(), expected: columns.len() }));
            }
            let text = |name: &str| {
                let at = columns.iter().position(|column| *column == name)?;
                Some(cells[at].to_owned()).filter(|cell| !cell.is_empty())
            };
            let figure = |name: &str| match text(name) {
                None => Ok(None),
                Some(cell) => cell.parse().map(Some).map_err(|_| {
                    let column = name.to_owned();
                    (number, Mistake::NoNumber { column, cell })
                }),
            };
            let missing = |name: &str| (number, Mistake::Missing { column: name.to_owned() });
            let must = |name: &str| figure(name)?.ok_or_else(|| missing(name));
            let name = text("name").ok_or_else(|| missing("name"))?;
            match text("kind").as_deref() {
                Some("host") => inventory.hosts.push(HostRow {
                    name,
                    zone: text("zone").unwrap_or_default(),
                    cpu: must("cpu")?,
                    memory: must("memory")?,
                    iops: must("iops")?,
                    mb_s: must("mb_s")?,
                    network: must("network")?,
                    price: figure("price")?,
                    watts: figure("watts")?,
                    work: figure("work")?,
                    agent: text("agent"),
                }),
                Some("role") => inventory.roles.push(RoleRow {
                    name,
                    group: text("group"),
                    on: text("on"),
                    server: text("server"),
                    id: text("id"),
                    cpu: figure("cpu")?,
                    memory: figure("memory")?,
                    iops: figure("iops")?,
                    mb_s: figure("mb_s")?,
                    network: figure("network")?,
                }),
                _ => return Err((number, Mistake::NoKind)),
            }
        }
        Ok(inventory)
    }

    fn check(&self) -> Result<(), Mistake> {
        let fill = self.options.fill;
        if !(fill > 0.0 && fill <= 1.0) {
            return Err(Mistake::Fill { fill });
        }
        let mut names = BTreeSet::new();
        let all = self.hosts.iter().map(|host| &host.name).chain(self.roles.iter().map(|role| &role.name));
        if let Some(twice) = all.into_iter().find(|name| !names.insert(name.as_str())) {
            return Err(Mistake::Twice { name: twice.clone() });
        }
        for host in &self.hosts {
            let figures = [host.cpu, host.memory, host.iops, host.mb_s, host.network];
            let optional = [host.price, host.watts, host.work].into_iter().flatten();
            sound("host", &host.name, figures.into_iter().chain(optional))?;
        }
        for role in &self.roles {
            sound("role", &role.name, role.demand().into_iter().flatten())?;
            if let Some(on) = &role.on
                && !self.hosts.iter().any(|host| host.name == *on)
            {
                return Err(Mistake::UnknownHost { role: role.name.clone(), host: on.clone() });
            }
        }
        Ok(())
    }

    /// Where it differs from what its servers say, in words; each role that names a server is asked. A
    /// server that does not answer differs too, with the reason of whoever asked it.
    pub fn differences<E: Display>(
        &self,
        mut ask: impl FnMut(&str) -> Result<ServerFacts, E>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for role in &self.roles {
            let Some(server) = &role.server else { continue };
            match ask(server) {
                Err(why) => found.push(format!("{}: not compared: {why}", role.name)),
                Ok(facts) => found.extend(role.differs(&facts)),
            }
        }
        found
    }

    /// The same of hosts that name an agent.
    pub fn host_differences<E: Display>(
        &self,
        mut ask: impl FnMut(&str) -> Result<HostFacts, E>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        for host in &self.hosts {
            let Some(agent) = &host.agent else { continue };
            match ask(agent) {
                Err(why) => found.push(format!("{}: not compared: {why}", host.name)),
                Ok(facts) => found.extend(host.differs(&facts)),
            }
        }
        found
    }

    /// Hosts without a price. Where there is one, prices cannot be compared, and hosts are counted.
    pub fn unpriced(&self) -> Vec<String> {
        self.hosts.iter().filter(|host| host.price.is_none()).map(|host| host.name.clone()).collect()
    }

    /// Roles whose demands are not known.
    pub fn unknown(&self) -> Vec<UnknownDemand> {
        self.roles.iter().filter_map(RoleRow::unknown).collect()
    }

    /// As a question for a placement; each host costs the same where one has no price.
    ///
    /// # Errors
    /// Not all that roles want is known.
    pub fn question(&self) -> Result<Question, UnknownDemands> {
        let unknown = self.unknown();
        if !unknown.is_empty() {
            return Err(UnknownDemands { roles: unknown });
        }
        let role = |role: &RoleRow| Role {
            name: role.name.clone(),
            group: role.group.clone(),
            demand: role.demand().map(Option::unwrap_or_default),
        };
        Ok(Question {
            roles: self.roles.iter().map(role).collect(),
            hosts: self.placement_hosts(),
            fill: self.options.fill,
            apart: self.options.apart,
        })
    }

    /// The hosts of that question.
    pub(crate) fn placement_hosts(&self) -> Vec<Host> {
        let priced = self.unpriced().is_empty();
        let host = |host: &HostRow| Host {
            name: host.name.clone(),
            zone: host.zone.clone(),
            ceiling: [host.cpu, host.memory, host.iops, host.mb_s, host.network],
            price: host.price.filter(|_| priced).unwrap_or(1.0),
            watts: host.watts,
            work: host.work,
        };
        self.hosts.iter().map(host).collect()
    }
}

/// Whether the figures of a host or a role are such as can be.
fn sound(kind: &'static str, name: &str, figures: impl Iterator<Item = f64>) -> Result<(), Mistake> {
    for figure in figures {
        if !figure.is_finite() {
            return Err(Mistake::NoFigure { kind, name: name.to_owned() });
        }
        if figure < 0.0 {
            return Err(Mistake::BelowZero { kind, name: name.to_owned() });
        }
    }
    Ok(())
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
        [[role]]
        name = "r1"
        on = "h1"
        cpu = 4.5
    "#;

    #[test]
    fn csv_and_toml_say_the_same() {
        let csv = "kind,name,zone,on,cpu,memory,iops,mb_s,network\nhost,h1,a,,16,128,20000,800,1200\nrole,r1,,h1,4.5,,,,\n";
        assert_eq!(Inventory::parse(csv, "i.csv").unwrap(), Inventory::parse(TOML, "i.toml").unwrap());
    }

    #[test]
    fn a_demand_that_is_not_there_is_not_known_and_0_is_none() {
        let inventory = Inventory::parse(TOML, "i.toml").unwrap();
        assert_eq!(inventory.roles[0].demand(), [Some(4.5), None, None, None, None]);
        let why = inventory.question().unwrap_err().to_string();
        assert!(
            why.starts_with("what roles want is not known: memory, iops, mb_s, network of r1; "),
            "{why}"
        );
        let text = TOML.replace("cpu = 4.5", "cpu = 4.5\nmemory = 8\niops = 0\nmb_s = 0\nnetwork = 0");
        let known = Inventory::parse(&text, "i.toml").unwrap();
        assert_eq!(known.question().unwrap().roles[0].demand, [4.5, 8.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn an_inventory_is_compared_with_what_servers_say() {
        let text = TOML.replace("on = \"h1\"", "on = \"h1\"\nserver = \"db:3306\"\nmemory = 8");
        let inventory = Inventory::parse(&text, "i.toml").unwrap();
        let says = |hostname: &str, gib: u64| {
            let pool_bytes = Some(gib << 30);
            let facts = ServerFacts { hostname: hostname.to_owned(), pool_bytes, id: None };
            inventory.differences(|_| Ok::<_, Error>(facts.clone()))
        };
        assert!(says("h1.example.org", 8).is_empty());
        assert!(says("h2", 8)[0].contains("the server says h2"));
        assert!(says("h1", 16)[0].contains("less than its buffer pool of 16.00 GiB"));
        let refused = inventory.differences(|_| Err(Error::from(ErrorKind::ConnectionRefused)));
        assert_eq!(refused, ["r1: not compared: connection refused"]);
        let other = Inventory::parse(&text.replace("memory = 8", "memory = 8\nid = 'u1'"), "i.toml").unwrap();
        let silent = ServerFacts { hostname: "h1".into(), ..ServerFacts::default() };
        let found = inventory.differences(|_| Ok::<_, Error>(silent.clone()));
        assert!(found[0].contains("does not tell innodb_buffer_pool_size"), "{found:?}");
        let facts =
            |id: &str| ServerFacts { hostname: "h1".into(), pool_bytes: Some(1), id: Some(id.into()) };
        assert!(other.differences(|_| Ok::<_, Error>(facts("u1"))).is_empty());
        assert!(other.differences(|_| Ok::<_, Error>(facts("u2")))[0].contains("it says its id is u2"));
    }

    #[test]
    fn a_host_is_compared_with_what_its_agent_says() {
        let text = TOML.replace("[[role]]", "agent = 'https://h1:9307'\n[[role]]");
        let inventory = Inventory::parse(&text, "i.toml").unwrap();
        let bytes = |cores: usize, memory_bytes: u64| {
            inventory.host_differences(|_| Ok::<_, Error>(HostFacts { cores, memory_bytes }))
        };
        let says = |cores: usize, gib: u64| bytes(cores, gib << 30);
        assert!(says(16, 128).is_empty());
        assert!(says(24, 128).is_empty(), "a ceiling may be lower than what there is");
        assert!(says(8, 128)[0].contains("16 cores, and its agent says 8"));
        assert!(bytes(16, 125_900 << 20).is_empty(), "the firmware and the kernel keep some");
        assert!(bytes(16, 110_000 << 20)[0].contains("128 GiB of memory"));
        assert!(says(16, 512)[0].contains("128 GiB of memory, and its agent says 512"));
        let refused = inventory.host_differences(|_| Err(Error::from(ErrorKind::ConnectionRefused)));
        assert_eq!(refused, ["h1: not compared: connection refused"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let wrong = |csv: &str| Inventory::parse(csv, "i.csv").unwrap_err().to_string();
        let wrong_toml = |toml: &str| Inventory::parse(toml, "i.toml").unwrap_err().to_string();
        assert!(wrong("kind,size\n").contains("i.csv:1: there is no column 'size'"));
        assert_eq!(
            wrong("\nkind,name,memory,cpu, memory\nhost,h,8,1,64\n"),
            "i.csv:2: the column 'memory' stands there twice"
        );
        assert!(
            wrong("kind,name,cpu,memory,iops,mb_s,network\nhost,h,x,1,1,1,1\n")
                .contains("i.csv:2: cpu = 'x' is not a number")
        );
        assert!(wrong("kind,name\nhost\n").contains("i.csv:2: 1 cells"));
        assert_eq!(
            wrong_toml(&TOML.replace("on = \"h1\"", "on = \"h2\"")),
            "i.toml: role 'r1' runs on 'h2', which is no host of this inventory"
        );
        for (figure, what) in [
            ("watts = -1", "figure below 0"),
            ("work = nan", "figure that is no number (nan or inf)"),
            ("price = inf", "figure that is no number (nan or inf)"),
        ] {
            let host = TOML.replace("[[role]]", &format!("{figure}\n[[role]]"));
            assert_eq!(wrong_toml(&host), format!("i.toml: host 'h1' has a {what}"), "{figure}");
        }
        for (heading, separator) in [("kind;name;cpu\n", "semicolons"), ("kind\tname\tcpu\n", "tabs")] {
            let refused = wrong(heading);
            let why = format!("i.csv:1: its columns are separated by {separator}");
            assert!(refused.starts_with(&why), "{refused}");
        }
        assert!(wrong_toml(&TOML.replace("cpu = 4.5", "cpus = 4.5")).contains("cpus"));
    }
}
