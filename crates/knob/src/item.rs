//! One place that holds a value: a file, a mount's options, a feature of a network card, a variable of a
//! server. What the journal names, so an item can be read and written by a later process that knows nothing
//! but the journal.

use crate::action::{Action, ProgramAction};
use crate::error::Refusal;
use crate::host::{Host, LONG_LIMIT, Step};
use crate::managed::{Managed, ManagedAction};
use crate::server::Server;
use crate::value::Form;
use crate::{mount, tuner};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One place that holds a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Item {
    /// A file of `/sys` or `/proc`.
    File {
        /// Its path on the host.
        path: String,
        /// How its text stands for the value.
        form: Form,
    },
    /// An offload, by `ethtool -k` and `-K`.
    Offload {
        interface: String,
        /// As `-K` calls it: `gro`.
        feature: String,
    },
    /// An interrupt coalescing parameter, by `ethtool -c` and `-C`.
    Coalesce {
        interface: String,
        /// As `-C` calls it: `rx-usecs`.
        parameter: String,
    },
    /// The options of a mount.
    Mount {
        /// Where it is mounted.
        point: String,
    },
    /// A property of a ZFS dataset.
    Dataset { dataset: String, property: String },
    /// A property of a ZFS pool.
    Pool { pool: String, property: String },
    /// Whether a service runs, by `systemctl start` and `stop`.
    Service {
        /// Its name and its process's.
        service: String,
    },
    /// A global variable of the server.
    Variable {
        variable: String,
        /// For one that needs a restart: the program that sets it and restarts the server (`PROGRAM NAME
        /// VALUE`).
        restart: Option<String>,
    },
    /// Something that the caller changes in its own way.
    Action {
        /// The knob with its target.
        knob: String,
        /// The program that does it, so that a later process can; `None` for an action inside the caller.
        program: Option<String>,
    },
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => f.write_str(path),
            Self::Offload { interface, feature } => write!(f, "ethtool -k {interface} {feature}"),
            Self::Coalesce { interface, parameter } => write!(f, "ethtool -c {interface} {parameter}"),
            Self::Mount { point } => write!(f, "mount {point}"),
            Self::Dataset { dataset, property } => write!(f, "zfs get {property} {dataset}"),
            Self::Pool { pool, property } => write!(f, "zpool get {property} {pool}"),
            Self::Service { service } => write!(f, "service {service}"),
            Self::Variable { variable, .. } => write!(f, "@@GLOBAL.{variable}"),
            Self::Action { knob, .. } => f.write_str(knob),
        }
    }
}

/// An item and its canonical value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemValue {
    pub item: Item,
    /// What is there, was there, or shall be there.
    pub value: String,
}

/// The value of an item in a list.
pub fn value_of<'a>(values: &'a [ItemValue], item: &Item) -> Option<&'a str> {
    values.iter().find(|one| one.item == *item).map(|one| one.value.as_str())
}

/// Everything an item may lie in.
pub struct Access<'a> {
    pub host: &'a Host,
    /// The server, where one was named.
    pub server: Option<&'a mut (dyn Server + 'static)>,
    /// What the caller changes in its own way, by knob with target.
    pub actions: &'a mut BTreeMap<String, Box<dyn Action>>,
}

impl fmt::Debug for Access<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Access<'_> {
    /// The server, or what is missing.
    ///
    /// # Errors
    /// None was named.
    pub fn server(&mut self) -> Result<&mut (dyn Server + 'static), Refusal> {
        let needs = || Refusal::Needs { what: "the server must be named: --server HOST:PORT".to_owned() };
        self.server.as_deref_mut().ok_or_else(needs)
    }

    /// The canonical value of an item now.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub fn read(&mut self, item: &Item) -> Result<String, Refusal> {
        match item {
            Item::File { path, form } => Ok(form.canonical(&self.host.read(path)?)),
            Item::Offload { interface, feature } => {
                let text = self.host.ask("ethtool", &["-k", interface])?;
                offload(&text, feature).ok_or_else(|| absent(item))?
            }
            Item::Coalesce { interface, parameter } => {
                let text = self.host.ask("ethtool", &["-c", interface])?;
                coalesce(&text, parameter).ok_or_else(|| absent(item))
            }
            Item::Mount { point } => mount::options(self.host, point).map(|options| options.join(",")),
            Item::Dataset { dataset, property } => {
                let args = ["get", "-H", "-p", "-o", "value,source", property, dataset];
                dataset_value(&self.host.ask("zfs", &args)?).ok_or_else(|| absent(item))
            }
            Item::Pool { pool, property } => {
                let args = ["get", "-H", "-p", "-o", "value", property, pool];
                Some(self.host.ask("zpool", &args)?).filter(|value| value != "-").ok_or_else(|| absent(item))
            }
            Item::Service { service } => {
                let runs = tuner::running(self.host).iter().any(|tuner| tuner.program == *service);
                if let Some(why) = tuner::unseen(self.host).filter(|_| !runs) {
                    let why = format!("whether {service} runs on this host is not known: {why}");
                    return Err(Refusal::Denied { why });
                }
                Ok(if runs { "on" } else { "off" }.to_owned())
            }
            Item::Variable { variable, .. } => self.server()?.global(variable).map_err(Into::into),
            Item::Action { knob, program } => self.action(knob, program.as_deref())?.read(),
        }
    }

    /// Writes a canonical value. Whether it took is for the next read to say.
    ///
    /// # Errors
    /// The kernel, the program or the server refused.
    pub(crate) fn write(&mut self, item: &Item, value: &str) -> Result<(), Refusal> {
        match item {
            Item::File { path, form } => self.host.write(path, &form.text(value)),
            Item::Offload { interface, feature } => {
                self.host.order("ethtool", &["-K", interface, feature, value])
            }
            Item::Coalesce { interface, parameter } => {
                self.host.order("ethtool", &["-C", interface, parameter, value])
            }
            Item::Mount { point } => {
                let now = mount::options(self.host, point)?;
                let wanted: Vec<String> = value.split(',').map(str::to_owned).collect();
                let options = mount::remount(&now, &wanted)
                    .map_err(|error| Refusal::OneWay { why: error.to_string() })?;
                let options = format!("remount,{}", options.join(","));
                // What fstab says must not be mixed in: the mount is what we were told to make of it.
                self.host.order("mount", &["--options-mode", "ignore", "-o", &options, point])
            }
            Item::Dataset { dataset, property } => match value.strip_suffix(INHERITED) {
                Some(_) => self.host.order("zfs", &["inherit", property, dataset]),
                None => self.host.order("zfs", &["set", &format!("{property}={value}"), dataset]),
            },
            Item::Pool { pool, property } => {
                self.host.order("zpool", &["set", &format!("{property}={value}"), pool])
            }
            Item::Service { service } => {
                self.host.order("systemctl", &[if value == "on" { "start" } else { "stop" }, service])
            }
            Item::Variable { variable, restart: None } => {
                self.step(Step::Write(variable))?;
                self.server()?.set_global(variable, value)?;
                self.step(Step::Written(variable))
            }
            Item::Variable { variable, restart: Some(program) } => {
                let set = match Managed::of_program(program) {
                    Some(managed) => {
                        let before = self.server()?.global(variable)?;
                        managed?.set_option(self.host, variable, &before, value)
                    }
                    None => self.host.order_within(program, &[variable, value], LONG_LIMIT),
                };
                // Also when it was refused: the server may have been restarted all the same.
                let back = self.server()?.reconnect();
                set?;
                back.map_err(Into::into)
            }
            Item::Action { knob, program } => {
                self.step(Step::Write(knob))?;
                let action = self.action(knob, program.as_deref())?;
                let restarts = action.restarts();
                let applied = action.apply(value);
                let back = match self.server.as_deref_mut().filter(|_| restarts) {
                    Some(server) => server.reconnect(),
                    None => Ok(()),
                };
                applied?;
                back?;
                self.step(Step::Written(knob))
            }
        }
    }

    fn step(&self, step: Step<'_>) -> Result<(), Refusal> {
        self.host.effects().before(step).map_err(|error| denied(error.to_string()))
    }

    pub(crate) fn action(
        &mut self,
        knob: &str,
        program: Option<&str>,
    ) -> Result<&mut Box<dyn Action>, Refusal> {
        if let Some(program) = program
            && !self.actions.contains_key(knob)
        {
            let host = self.host.clone();
            let action: Option<Box<dyn Action>> = match Managed::of_program(program) {
                Some(managed) => {
                    ManagedAction::new(host, managed?, knob).map(|action| Box::new(action) as Box<dyn Action>)
                }
                None => Some(Box::new(ProgramAction::new(host, program))),
            };
            self.actions.extend(action.map(|action| (knob.to_owned(), action)));
        }
        self.actions.get_mut(knob).ok_or_else(|| Refusal::Needs {
            what: format!(
                "{knob}: say how the server is restarted (--managed FILE, and {}@{}), or name a program that \
                 does it (--action {knob}=PROGRAM)",
                knob.split('@').next().unwrap_or_default(),
                crate::managed::TARGET,
            ),
        })
    }
}

fn absent(item: &Item) -> Refusal {
    Refusal::Absent { what: item.to_string() }
}

fn denied(why: String) -> Refusal {
    Refusal::Denied { why }
}

/// Short names of `ethtool -K` and the lines they have in `ethtool -k`; others are the same in both.
const OFFLOADS: [(&str, &str); 9] = [
    ("rx", "rx-checksumming"),
    ("tx", "tx-checksumming"),
    ("sg", "scatter-gather"),
    ("tso", "tcp-segmentation-offload"),
    ("gso", "generic-segmentation-offload"),
    ("gro", "generic-receive-offload"),
    ("lro", "large-receive-offload"),
    ("ntuple", "ntuple-filters"),
    ("rxhash", "receive-hashing"),
];

/// `generic-receive-offload: on` -> on; one that is `[fixed]` cannot be changed.
fn offload(text: &str, feature: &str) -> Option<Result<String, Refusal>> {
    let line = OFFLOADS.iter().find(|(short, _)| *short == feature).map_or(feature, |(_, long)| long);
    let value = text.lines().find_map(|one| one.trim().strip_prefix(line)?.strip_prefix(':'))?.trim();
    if value.ends_with("[fixed]") {
        return Some(Err(denied(format!("the driver fixes {line}: {value}"))));
    }
    value.split_whitespace().next().map(|word| Ok(word.to_owned()))
}

/// `rx-usecs: 3` -> 3; `Adaptive RX: off  TX: on` -> adaptive-rx off, adaptive-tx on; `n/a` is absent.
fn coalesce(text: &str, parameter: &str) -> Option<String> {
    let value = if let Some(side) = parameter.strip_prefix("adaptive-") {
        let line = text.lines().find(|line| line.trim().starts_with("Adaptive"))?;
        line.split(&format!("{}:", side.to_uppercase())).nth(1)?.split_whitespace().next()?
    } else {
        text.lines().find_map(|line| line.trim().strip_prefix(parameter)?.strip_prefix(':'))?.trim()
    };
    (value != "n/a" && !value.is_empty()).then(|| value.to_owned())
}

/// What follows the value of a property that is not set on the dataset itself, so that it is put back by `zfs
/// inherit`.
pub(crate) const INHERITED: &str = " (inherited)";

/// `lz4<TAB>local` -> `lz4`; from elsewhere -> `lz4 (inherited)`.
fn dataset_value(text: &str) -> Option<String> {
    let (value, source) = text.trim().split_once('\t')?;
    if value == "-" {
        return None;
    }
    let own = matches!(source, "local" | "received");
    Some(if own { value.to_owned() } else { format!("{value}{INHERITED}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethtools_answers_are_read() {
        let features = "Features for eth0:\nrx-checksumming: on [fixed]\ngeneric-receive-offload: \
                        off\nrx-gro-list: on\n";
        assert_eq!(offload(features, "gro"), Some(Ok("off".into())));
        assert_eq!(offload(features, "rx-gro-list"), Some(Ok("on".into())));
        assert!(offload(features, "rx").unwrap().is_err(), "it is fixed");
        assert_eq!(offload(features, "lro"), None);
        let coalescing =
            "Coalesce parameters for eth0:\nAdaptive RX: off  TX: on\nrx-usecs:\t3\nrx-frames: n/a\n";
        assert_eq!(coalesce(coalescing, "adaptive-rx").as_deref(), Some("off"));
        assert_eq!(coalesce(coalescing, "adaptive-tx").as_deref(), Some("on"));
        assert_eq!(coalesce(coalescing, "rx-usecs").as_deref(), Some("3"));
        assert_eq!(coalesce(coalescing, "rx-frames"), None);
    }

    #[test]
    fn a_property_that_is_inherited_is_told_from_one_that_is_set() {
        assert_eq!(dataset_value("16384\tlocal").as_deref(), Some("16384"));
        assert_eq!(dataset_value("lz4\tinherited from tank").as_deref(), Some("lz4 (inherited)"));
        assert_eq!(dataset_value("on\tdefault").as_deref(), Some("on (inherited)"));
        assert_eq!(dataset_value("-\t-"), None);
    }
}
