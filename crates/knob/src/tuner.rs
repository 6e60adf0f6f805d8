//! Programs that change the same settings by themselves, found before anything is touched: a trial beside
//! TuneD measures TuneD.

use crate::catalogue::Family;
use crate::host::Host;
use serde::Serialize;

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
}
