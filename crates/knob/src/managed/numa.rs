//! On which NUMA nodes the memory of a managed server lies: the policy of its process, which a process has
//! from whoever starts it.
//!
//! A line `NUMACTL=numactl --interleave=all` in the environment file asks for it. What starts the server puts
//! these words before its program: a lab does, and a unit of systemd with `ExecStart=/usr/bin/env $NUMACTL
//! /usr/sbin/mariadbd ...`. Whether that was done is read from the process: the policy that the kernel shows
//! for its stack, which has none of its own. For that the kernel walks all page tables of the process, which
//! may not map memory meanwhile: seconds for some hundred GiB. So a process is asked once ([`KnownPolicy`]).
//!
//! One policy does not last: with `innodb_numa_interleave` the server interleaves while it makes its buffer
//! pool, and sets the kernel's own policy after that. Interleaving is read again until the process has run
//! for [`MAKES_POOL_S`].
//!
//! Sources: `numactl(8)`, `numa(7)` (`/proc/PID/numa_maps`), `set_mempolicy(2)`.

use super::{Managed, denied, drop_in, started};
use crate::error::Refusal;
use crate::host::Host;
use std::collections::BTreeSet;

/// The kernel's: memory lies on the node of the CPU that touches it first.
pub const DEFAULT: &str = "default";
const INTERLEAVE: &str = "interleave";
const PREFERRED: &str = "preferred";
/// Policies, and the option of numactl.
const OPTIONS: [(&str, &str); 3] =
    [(INTERLEAVE, "interleave"), ("bind", "membind"), (PREFERRED, "preferred")];
/// The line of the environment file, and the program in it.
const LINE: &str = "NUMACTL";
const PROGRAM: &str = "numactl";
const NODES: &str = "/sys/devices/system/node/has_memory";
/// A server has made its buffer pool by then, also one of some TiB.
const MAKES_POOL_S: f64 = 600.0;
/// Of `/proc/PID/stat`, a second: the kernel's USER_HZ, 100 on every architecture of ours.
const TICKS: f64 = 100.0;

/// A policy with its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Policy {
    name: &'static str,
    nodes: BTreeSet<u32>,
}

impl Policy {
    /// `interleave` is over all nodes. `None` for what is no policy of ours.
    fn parse(text: &str, all: &BTreeSet<u32>) -> Option<Self> {
        let (name, list) = text.split_once(':').map_or((text, None), |(name, list)| (name, Some(list)));
        let name = OPTIONS.iter().map(|(known, _)| *known).chain([DEFAULT]).find(|known| *known == name)?;
        let nodes = match list {
            Some(list) => node_list(list)?,
            None if name == INTERLEAVE => all.clone(),
            None => BTreeSet::new(),
        };
        Some(Self { name, nodes })
    }

    /// Whether it can be asked for on a host with these nodes.
    fn fits(&self, all: &BTreeSet<u32>) -> bool {
        let as_many = match self.name {
            DEFAULT => self.nodes.is_empty(),
            PREFERRED => self.nodes.len() == 1,
            _ => !self.nodes.is_empty(),
        };
        as_many && self.nodes.is_subset(all)
    }
}

/// `0-1,3`
fn node_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut nodes = BTreeSet::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        // The kernel has at most 1024. Backwards, as `3-1`, is no range.
        if last >= 1024 || first > last {
            return None;
        }
        nodes.extend(first..=last);
    }
    Some(nodes)
}

/// Nodes that have memory.
fn all_nodes(host: &Host) -> BTreeSet<u32> {
    host.read(NODES).ok().and_then(|list| node_list(&list)).unwrap_or_default()
}

/// The words of numactl for a policy.
fn words(value: &str) -> String {
    let (name, nodes) = value.split_once(':').unwrap_or((value, "all"));
    let option = OPTIONS.iter().find(|(known, _)| *known == name).map_or(name, |(_, option)| *option);
    format!("{PROGRAM} --{option}={nodes}")
}

/// What our line of the environment file asks for.
fn asked(environment: &str) -> Option<String> {
    let words = environment.lines().find_map(|line| line.strip_prefix(LINE)?.strip_prefix('='))?;
    let (option, nodes) = words.strip_prefix(PROGRAM)?.strip_prefix(" --")?.split_once('=')?;
    let (name, _) = OPTIONS.iter().find(|(_, known)| *known == option)?;
    Some(if nodes == "all" { (*name).to_owned() } else { format!("{name}:{nodes}") })
}

/// The policy of a process by its `numa_maps`, in our words; one that we do not set as the kernel calls it.
fn in_force(maps: &str) -> Option<String> {
    let line = maps.lines().find(|line| line.split(' ').any(|word| word == "stack"))?;
    let (_, rest) = line.split_once(' ')?;
    // With a newer numactl one node that is preferred is a list of them.
    let rest = rest.replacen("prefer (many)", "prefer", 1);
    let policy = rest.split(' ').next()?;
    let (mode, nodes) = policy.split_once(':').map_or((policy, None), |(mode, nodes)| (mode, Some(nodes)));
    // Flags stand behind it: `interleave=static`.
    let mode = mode.split('=').next().unwrap_or(mode);
    let name = if mode == "prefer" { PREFERRED } else { mode };
    Some(nodes.map_or_else(|| name.to_owned(), |nodes| format!("{name}:{nodes}")))
}

/// The policy of a process that was asked for it: it keeps that, once it has made its buffer pool.
#[derive(Debug, Default)]
pub(super) struct KnownPolicy {
    /// Its number, when it began, its policy.
    last: Option<(u32, String, String)>,
}

impl KnownPolicy {
    fn policy(&mut self, host: &Host, pid: u32) -> Result<String, Refusal> {
        let began = started(host, pid);
        if let Some((of, at, policy)) = &self.last
            && *of == pid
            && began.as_ref() == Some(at)
        {
            return Ok(policy.clone());
        }
        let maps = format!("/proc/{pid}/numa_maps");
        let policy = in_force(&host.read(&maps)?).ok_or_else(|| denied(format!("{maps} names no stack")))?;
        let lasts = |began: &String| !policy.starts_with(INTERLEAVE) || has_pool(host, began);
        self.last = began.filter(lasts).map(|began| (pid, began, policy.clone()));
        Ok(policy)
    }
}

/// Whether a process that began then, in ticks since the boot, has certainly made its buffer pool.
fn has_pool(host: &Host, began: &str) -> bool {
    let uptime = host.read("/proc/uptime").unwrap_or_default();
    let uptime_s = uptime.split(' ').next().and_then(|text| text.parse::<f64>().ok());
    let began_s = began.parse::<f64>().ok().map(|ticks| ticks / TICKS);
    uptime_s.zip(began_s).is_some_and(|(now, began)| now - began > MAKES_POOL_S)
}

/// The policy of the server's process, as it was asked for if that is what is in force.
pub(super) fn read(managed: &Managed, host: &Host, known: &mut KnownPolicy) -> Result<String, Refusal> {
    let now = known.policy(host, managed.running(host)?)?;
    let all = all_nodes(host);
    let parsed = Policy::parse(&now, &all);
    let asked = asked(&host.read(&managed.environment).unwrap_or_default());
    let same = |asked: &String| parsed.is_some() && Policy::parse(asked, &all) == parsed;
    Ok(asked.filter(same).unwrap_or(now))
}

/// The policy that the server has without our line.
fn own(managed: &Managed, host: &Host, known: &mut KnownPolicy) -> Result<String, Refusal> {
    let text = host.read(&managed.environment).unwrap_or_default();
    match drop_in::was(&text, LINE) {
        Some(own) => Ok(own.to_owned()),
        None => read(managed, host, known),
    }
}

/// Whether a server of this host can be given a policy: there are several nodes, and numactl.
///
/// # Errors
/// What is not here.
pub fn can_vary(host: &Host) -> Result<(), Refusal> {
    if all_nodes(host).len() < 2 {
        return Err(Refusal::Absent { what: format!("a second NUMA node with memory ({NODES})") });
    }
    match host.program(PROGRAM) {
        Some(_) => Ok(()),
        None => Err(Refusal::Absent { what: format!("the program {PROGRAM}") }),
    }
}

/// Whether it could be set here, as far as that shows without trying.
pub(super) fn check(
    managed: &Managed,
    host: &Host,
    known: &mut KnownPolicy,
    value: &str,
) -> Result<(), Refusal> {
    can_vary(host)?;
    let all = all_nodes(host);
    let Some(policy) = Policy::parse(value, &all).filter(|policy| policy.fits(&all)) else {
        let nodes: Vec<String> = all.iter().map(u32::to_string).collect();
        return Err(denied(format!(
            "'{value}' is no NUMA policy here: {DEFAULT}, interleave, interleave:NODES, bind:NODES, \
             preferred:NODE, of the nodes {}",
            nodes.join(", ")
        )));
    };
    let own = own(managed, host, known)?;
    if policy.name == DEFAULT && own != DEFAULT {
        return Err(denied(format!(
            "the server has {own} from what starts it, and numactl cannot take that away"
        )));
    }
    Ok(())
}

/// Makes it so.
pub(super) fn apply(
    managed: &Managed,
    host: &Host,
    known: &mut KnownPolicy,
    value: &str,
) -> Result<(), Refusal> {
    let text = host.read(&managed.environment).unwrap_or_default();
    let own = own(managed, host, known)?;
    // What it has without us takes our line out.
    let line = if value == own { value.to_owned() } else { words(value) };
    managed.restart(
        host,
        |host| drop_in::set(host, &managed.environment, None, LINE, &own, &line),
        |host| drop_in::put(host, &managed.environment, &text),
    )?;
    match read(managed, host, known)? {
        now if now == value => Ok(()),
        now => Err(denied(format!(
            "{value} was asked for, and the server runs with {now}: what starts it must put ${LINE} of {} \
             before the server's program",
            managed.environment
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_that_of_the_process_in_the_words_of_whoever_asked() {
        let maps = |policy: &str| {
            format!(
                "55d0 {policy} file=/usr/sbin/mariadbd mapped=9 N0=9\n7f00 bind:1 anon=5 N1=5\n\
                 7ffc {policy} stack anon=3 N0=3 kernelpagesize_kB=4\n"
            )
        };
        let of = |policy: &str| in_force(&maps(policy)).unwrap();
        assert_eq!(of("default"), "default");
        assert_eq!(of("interleave:0-1"), "interleave:0-1");
        assert_eq!(of("interleave=static:0-1"), "interleave:0-1");
        assert_eq!((of("prefer:1"), of("prefer (many):1")), ("preferred:1".into(), "preferred:1".into()));
        assert_eq!(of("local"), "local");
        assert_eq!(in_force("7f00 default anon=5\n"), None);
    }

    #[test]
    fn what_is_written_for_numactl_is_read_back_as_it_was_asked_for() {
        for (value, line) in [
            ("interleave", "numactl --interleave=all"),
            ("interleave:0,2", "numactl --interleave=0,2"),
            ("bind:1", "numactl --membind=1"),
            ("preferred:0", "numactl --preferred=0"),
        ] {
            assert_eq!(words(value), line);
            assert_eq!(asked(&format!("# {LINE} was default\n{LINE}={line}\n")).as_deref(), Some(value));
        }
        assert_eq!(asked("LD_PRELOAD=/l.so\n"), None);
    }

    #[test]
    fn policies_are_the_same_by_their_nodes() {
        let all: BTreeSet<u32> = [0, 1].into();
        let of = |text: &str| Policy::parse(text, &all);
        assert_eq!(of("interleave"), of("interleave:0-1"));
        assert_eq!(of("bind:0,1"), of("bind:0-1"));
        assert_ne!(of("interleave:0"), of("interleave"));
        assert_eq!(of("local"), None);
        let fits = |text: &str| of(text).is_some_and(|policy| policy.fits(&all));
        for good in ["default", "interleave", "interleave:1", "bind:0", "preferred:1"] {
            assert!(fits(good), "{good}");
        }
        for bad in ["", "default:0", "bind", "bind:2", "bind:x", "preferred:0-1", "interleave:0-4000000000"] {
            assert!(!fits(bad), "{bad}");
        }
        assert!(!fits("bind:0,1-0") && !fits("bind:1-0"), "backwards");
    }

    /// A server that takes its policy from `$NUMACTL`, as far as its `numa_maps` tell, or does not.
    #[test]
    fn it_is_set_by_a_line_of_the_environment_and_put_back_by_taking_the_line_out() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::new(root.path());
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let program = |path: &str, text: &str| {
            use std::os::unix::fs::PermissionsExt;
            put(path, text);
            let executable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(root.path().join(path), executable).unwrap();
        };
        let mut managed = super::super::tests::example();
        (managed.pid_file, managed.environment) = ("/pid".to_owned(), "/environment".to_owned());
        managed.work_dir = "/work".to_owned();
        managed.stop = vec!["stop".to_owned()];
        managed.start = vec!["start".to_owned()];
        // Ended, as it is between stop and start.
        program("usr/bin/stop", "#!/bin/sh\nsed -i 's/) S/) Z/' \"${0%/usr/bin/stop}/proc/7/stat\"\n");
        let start = |policy: &str| {
            program(
                "usr/bin/start",
                &format!(
                    "#!/bin/sh\nroot=\"${{0%/usr/bin/start}}\"\nsed -i 's/) Z/) S/' \"$root/proc/7/stat\"\n\
                     policy=default\n{policy}\n\
                     echo \"7ffc $policy stack anon=3\" > \"$root/proc/7/numa_maps\"\n"
                ),
            );
        };
        let read = || super::read(&managed, &host, &mut KnownPolicy::default());
        let check = |value: &str| super::check(&managed, &host, &mut KnownPolicy::default(), value);
        let apply = |value: &str| super::apply(&managed, &host, &mut KnownPolicy::default(), value);
        put("pid", "7\n");
        put("proc/7/stat", "7 (mariadbd) S 1\n");
        put("proc/7/numa_maps", "7ffc default stack anon=3\n");
        put("sys/devices/system/node/has_memory", "0\n");
        assert!(check("interleave").unwrap_err().to_string().contains("second NUMA node"));
        put("sys/devices/system/node/has_memory", "0-1\n");
        assert!(check("interleave").unwrap_err().to_string().contains("numactl"));
        program("usr/bin/numactl", "#!/bin/sh\n");
        check("interleave").unwrap();
        check(DEFAULT).unwrap();
        assert!(check("bind:7").unwrap_err().to_string().contains("of the nodes 0, 1"));

        let asked_for = "grep -qs '^NUMACTL=numactl --interleave=all' \"$root/environment\"";
        start(&format!("{asked_for} && policy=interleave:0-1"));
        assert_eq!(read().unwrap(), DEFAULT);
        apply("interleave").unwrap();
        assert_eq!(read().unwrap(), "interleave");
        check(DEFAULT).unwrap();
        apply(DEFAULT).unwrap();
        assert_eq!(read().unwrap(), DEFAULT);
        assert!(!root.path().join("environment").exists());

        start("true");
        let refused = apply("interleave").unwrap_err().to_string();
        assert!(refused.contains("runs with default") && refused.contains("$NUMACTL"), "{refused}");
        apply(DEFAULT).unwrap();
        assert!(!root.path().join("environment").exists(), "as what applies it puts it back");

        // A policy of the unit's own is what is put back, and cannot be taken away.
        put("proc/7/numa_maps", "7ffc bind:1 stack anon=3\n");
        assert!(check(DEFAULT).unwrap_err().to_string().contains("bind:1 from what starts"));
    }

    #[test]
    fn a_process_is_asked_once_and_the_next_one_of_its_number_anew() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::new(root.path());
        let process = root.path().join("proc/7");
        std::fs::create_dir_all(&process).unwrap();
        let began = |ticks: u32| {
            // The state and 18 figures stand before it.
            let stat = format!("7 (mariadbd) S {}{ticks} 0\n", "0 ".repeat(18));
            std::fs::write(process.join("stat"), stat).unwrap();
        };
        let maps = |policy: &str| {
            std::fs::write(process.join("numa_maps"), format!("7ffc {policy} stack anon=3\n")).unwrap();
        };
        let uptime = |seconds: u32| {
            std::fs::write(root.path().join("proc/uptime"), format!("{seconds}.25 9.00\n")).unwrap();
        };
        let mut known = KnownPolicy::default();
        began(500);
        // As it is while a server with innodb_numa_interleave makes its buffer pool.
        uptime(9);
        maps("interleave:0-1");
        assert_eq!(known.policy(&host, 7).unwrap(), "interleave:0-1");
        maps("default");
        assert_eq!(known.policy(&host, 7).unwrap(), "default");
        let mut known = KnownPolicy::default();
        uptime(700);
        maps("interleave:0-1");
        assert_eq!(known.policy(&host, 7).unwrap(), "interleave:0-1");
        std::fs::remove_file(process.join("numa_maps")).unwrap();
        assert_eq!(known.policy(&host, 7).unwrap(), "interleave:0-1", "not read again");
        began(900);
        assert!(known.policy(&host, 7).is_err(), "a restart");
        maps("default");
        assert_eq!(known.policy(&host, 7).unwrap(), "default");
        // Where nobody tells when it began it may be another one each time.
        std::fs::write(process.join("stat"), "7 (mariadbd) S 1\n").unwrap();
        maps("bind:1");
        assert_eq!(known.policy(&host, 7).unwrap(), "bind:1");
        maps("default");
        assert_eq!(known.policy(&host, 7).unwrap(), "default");
    }
}
