//! Programs that change the same settings by themselves, found before anything is touched: a trial beside
//! TuneD measures TuneD.

use crate::catalogue::Family;
use crate::host::Host;
use crate::name;
use serde::Serialize;
use std::path::Path;

/// One row: a program and what it rewrites.
struct Row {
    program: &'static str,
    rewrites: &'static [Family],
    why: &'static str,
}

const ROWS: [Row; 5] = [
    Row {
        program: "irqbalance",
        rewrites: &[Family::Interrupt],
        why: "moves interrupts to other CPUs every ten seconds",
    },
    Row {
        program: "tuned",
        rewrites: &[
            Family::Block,
            Family::Interrupt,
            Family::Network,
            Family::Memory,
            Family::Cpu,
            Family::Sysctl,
        ],
        why: "sets kernel settings by its profile, and again on each of its events",
    },
    Row {
        program: "bpftune",
        rewrites: &[Family::Network, Family::Sysctl],
        why: "changes network sysctls while they are in use",
    },
    Row {
        program: "numad",
        rewrites: &[Family::Memory],
        why: "moves memory and processes between NUMA nodes",
    },
    Row {
        program: "power-profiles-daemon",
        rewrites: &[Family::Cpu],
        why: "sets governor and energy preference of the CPUs",
    },
];

/// A running program that changes settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tuner {
    pub program: String,
    /// Its process id.
    pub pid: u32,
    pub why: String,
    /// The families that it rewrites.
    #[serde(skip)]
    pub rewrites: Vec<Family>,
}

/// Those that run, each once.
pub fn running(host: &Host) -> Vec<Tuner> {
    let mut found: Vec<Tuner> = Vec::new();
    for pid in host.list("/proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
        let comm = host.read(&format!("/proc/{pid}/comm")).unwrap_or_default();
        let arguments = host.read(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if let Some(row) = ROWS.iter().find(|row| is(row.program, &comm, &arguments))
            && !found.iter().any(|tuner| tuner.program == row.program)
        {
            let (program, why) = (row.program.to_owned(), row.why.to_owned());
            found.push(Tuner { program, pid, why, rewrites: row.rewrites.to_vec() });
        }
    }
    found
}

/// The first namespace of processes, which the host's are in (`PROC_PID_INIT_INO` of the kernel's
/// `proc_ns.h`).
const OF_THE_HOST: &str = "pid:[4026531836]";

/// Why a program may run on this host and not be seen from here: then "none runs" is not known.
pub fn unseen(host: &Host) -> Option<&'static str> {
    // Our own: that of process 1 is shown to root alone. A kernel without such namespaces has none.
    let namespace = std::fs::read_link(host.path("/proc/self/ns/pid")).ok()?;
    if namespace != Path::new(OF_THE_HOST) {
        return Some("this is a container, which sees only its own processes");
    }
    let hidden = host.read("/proc/1/comm").is_err();
    hidden.then_some("/proc hides the processes of other users (hidepid)")
}

/// What is not known before these knobs (`NAME` or `NAME=VALUE`) are set: whether programs run that change
/// them. `None` where it is known, or nothing changes such knobs.
pub fn doubt<'a>(host: &Host, knobs: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let why = unseen(host)?;
    let family = |knob: &str| {
        let name = knob.split_once('=').map_or(knob, |(name, _)| name);
        Some(name::parse(host, name).ok()?.knob.family)
    };
    let families: Vec<Family> = knobs.into_iter().filter_map(family).collect();
    let concerns = |row: &&Row| row.rewrites.iter().any(|family| families.contains(family));
    let programs: Vec<&str> = ROWS.iter().filter(concerns).map(|row| row.program).collect();
    (!programs.is_empty())
        .then(|| format!("whether {} runs on this host is not known: {why}", programs.join(" or ")))
}

/// TuneD is a Python script: its process is called `tuned` or `python3`, with the script as an argument. The
/// kernel cuts names at 15 bytes.
fn is(program: &str, comm: &str, arguments: &str) -> bool {
    let cut = &program[..program.len().min(15)];
    let script = || {
        let mut words = arguments.split('\0');
        let first = words.next().unwrap_or_default();
        let base = |path: &str| path.rsplit('/').next().unwrap_or_default() == program;
        first.contains("python") && words.find(|word| !word.starts_with('-')).is_some_and(base)
    };
    comm == cut || script()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_found_by_name_or_as_a_script_and_named_once() {
        let dir = tempfile::tempdir().unwrap();
        let process = |pid: &str, comm: &str, arguments: &str| {
            let at = dir.path().join("proc").join(pid);
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("comm"), comm).unwrap();
            std::fs::write(at.join("cmdline"), arguments).unwrap();
        };
        process("7", "irqbalance\n", "/usr/sbin/irqbalance\0--foreground\0");
        process("8", "python3\n", "/usr/bin/python3\0-Es\0/usr/sbin/tuned\0-l\0");
        process("9", "irqbalance\n", "");
        process("10", "vim\n", "vim\0tuned\0");
        process("self", "bpftune\n", "");
        process("11", "power-profiles-\n", "");
        let names: Vec<String> =
            running(&Host::new(dir.path())).into_iter().map(|tuner| tuner.program).collect();
        assert_eq!(names, ["irqbalance", "tuned", "power-profiles-daemon"]);
    }

    #[test]
    fn in_a_container_that_none_is_found_says_nothing_of_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::new(dir.path());
        assert_eq!(unseen(&host), None, "a kernel without namespaces");
        let (own, init) = (dir.path().join("proc/self/ns"), dir.path().join("proc/1"));
        std::fs::create_dir_all(&own).unwrap();
        std::fs::create_dir_all(&init).unwrap();
        let in_namespace = |name: &str| {
            let _ = std::fs::remove_file(own.join("pid"));
            std::os::unix::fs::symlink(name, own.join("pid")).unwrap();
        };
        in_namespace(OF_THE_HOST);
        assert!(unseen(&host).unwrap().contains("hidepid"));
        std::fs::write(init.join("comm"), "systemd\n").unwrap();
        assert_eq!(unseen(&host), None);
        assert_eq!(doubt(&host, ["memory.swappiness=1"]), None);
        in_namespace("pid:[4026532200]");
        assert!(unseen(&host).unwrap().contains("container"));
        let said = doubt(&host, ["memory.swappiness=1"]).unwrap();
        assert!(said.starts_with("whether tuned or numad runs on this host is not known"), "{said}");
        assert_eq!(doubt(&host, ["server.innodb_io_capacity=1"]), None, "none of them changes it");
    }
}
