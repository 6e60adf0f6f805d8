//! Processes of database servers, by the names of their programs in `/proc`, and which of them serves a port
//! from a data directory.
//!
//! A server's pid file is readable by its own user only on most systems, and in a container it holds a number
//! of another namespace. What everybody may read is the program's name, its command line, and the sockets of
//! its network namespace; its working directory (InnoDB's data directory) and the name of its container only
//! its user and root.

use super::ends_here;
use super::text::{decimal, hexadecimal, lines, words};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

/// What a server's program is called in `comm`.
const PROGRAMS: [&str; 2] = ["mariadbd", "mysqld"];
/// `st` of a listening socket in `/proc/PID/net/tcp`.
const LISTENS: &[u8] = b"0A";

/// A process that runs a database server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerProcess {
    pub pid: u32,
    /// `mariadbd` or `mysqld`.
    pub program: String,
}

/// The database servers that are visible below `proc`, by number.
pub fn database_servers(proc: &Path) -> Vec<ServerProcess> {
    let all = std::fs::read_dir(proc).into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut servers: Vec<ServerProcess> = pids.filter_map(|pid| database_server(pid, proc)).collect();
    servers.sort_unstable();
    servers
}

/// The process `pid`, if it runs a database server.
pub fn database_server(pid: u32, proc: &Path) -> Option<ServerProcess> {
    let name = std::fs::read_to_string(proc.join(format!("{pid}/comm"))).ok()?;
    let program = name.trim().to_owned();
    PROGRAMS.contains(&&*program).then_some(ServerProcess { pid, program })
}

/// CPU time that process `pid` has used so far, with all its threads; `None` where that cannot be read.
pub fn cpu_time(pid: u32, proc: &Path) -> Option<Duration> {
    let stat = std::fs::read(proc.join(format!("{pid}/stat"))).ok()?;
    cpu_us(&stat).map(Duration::from_micros)
}

/// CPU time of a process by its `stat`, microseconds: the 14th and 15th field, in the 100 ticks a second of
/// Linux's interface.
pub(super) fn cpu_us(stat: &[u8]) -> Option<u64> {
    let mut ticks = fields(stat)?.skip(11).map(decimal);
    let (user, system) = (ticks.next()??, ticks.next()??);
    Some(user.saturating_add(system).saturating_mul(10_000))
}

/// When process `pid` began, in ticks since boot: two processes of one number began at different times.
/// `None` where it cannot be read.
pub fn began(pid: u32, proc: &Path) -> Option<u64> {
    let stat = std::fs::read(proc.join(format!("{pid}/stat"))).ok()?;
    decimal(fields(&stat)?.nth(19)?)
}

/// Of a process's `stat` what follows its name, which stands in brackets and may hold blanks: from the third
/// field on.
fn fields(stat: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    Some(words(&stat[name_ends + 1..]))
}

/// Of these the one that serves `port` from `datadir` on `hostname` (empty where that is not known): what its
/// command line, working directory and sockets rule out is left out, and of several the one that they speak
/// for. `None` when none or more than one is left.
pub fn serving(
    servers: &[ServerProcess],
    port: u64,
    datadir: &str,
    hostname: &str,
    proc: &Path,
) -> Option<u32> {
    let is_called = |pid: u32| !hostname.is_empty() && called(pid, proc).is_some_and(|own| own == hostname);
    let mut left: Vec<(bool, u32, u32)> = servers
        .iter()
        .filter_map(|server| {
            let signs = evidence(server.pid, port, datadir, proc)?;
            Some((is_called(server.pid), signs, server.pid))
        })
        .collect();
    left.sort_unstable();
    let (by_name, most, pid) = left.pop()?;
    left.last().is_none_or(|(other, next, _)| (*other, *next) < (by_name, most)).then_some(pid)
}

/// Whether a database server that is visible below `proc` is in a network that has this address, as that of a
/// container on this host: packets to it leave from another address.
pub fn has_address(ip: IpAddr, proc: &Path) -> bool {
    let has = |server: &ServerProcess| {
        let file = |name: &str| {
            std::fs::read_to_string(proc.join(format!("{}/net/{name}", server.pid))).unwrap_or_default()
        };
        match ip {
            IpAddr::V4(_) => ends_here(ip, &file("fib_trie")),
            IpAddr::V6(ip) => {
                let digits = format!("{:032x}", u128::from(ip));
                file("if_inet6").lines().any(|line| line.starts_with(&digits))
            }
        }
    };
    database_servers(proc).iter().any(has)
}

/// The name of the container, or host, that a process is in: containers of one image have the same port and
/// data directory, each for itself.
fn called(pid: u32, proc: &Path) -> Option<String> {
    let name = std::fs::read_to_string(proc.join(format!("{pid}/root/etc/hostname"))).ok()?;
    Some(name.trim().to_owned())
}

/// How many signs speak for a process; `None` when one rules it out.
fn evidence(pid: u32, port: u64, datadir: &str, proc: &Path) -> Option<u32> {
    let dir = proc.join(pid.to_string());
    let told = arguments(&std::fs::read(dir.join("cmdline")).unwrap_or_default());
    // With skip_networking a server says 0, whatever port it was told, and listens on none.
    let differs = || told.port.is_some_and(|told| told != port) || listens(&dir, port) == Some(false);
    if port > 0 && differs() {
        return None;
    }
    let cwd = std::fs::read_link(dir.join("cwd")).ok();
    let is_datadir = |path: &Path| path == Path::new(datadir);
    // A path that differs may be the same directory by a link: it does not rule out.
    Some(
        u32::from(told.port.is_some())
            + u32::from(told.datadir.is_some_and(|told| is_datadir(Path::new(&told))))
            + u32::from(cwd.is_some_and(|cwd| is_datadir(&cwd))),
    )
}

#[derive(Debug, Default, PartialEq)]
struct Arguments {
    port: Option<u64>,
    datadir: Option<String>,
}

/// Of a command line, what tells a server from another; options count as the servers read them, the last one
/// holds.
fn arguments(cmdline: &[u8]) -> Arguments {
    let mut found = Arguments::default();
    let words: Vec<_> = cmdline.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    for (at, word) in words.iter().enumerate() {
        let value = |long: &str, short: &str| -> Option<String> {
            if word == long || word == short {
                return words.get(at + 1).map(ToString::to_string);
            }
            let long = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
            long.or_else(|| word.strip_prefix(short)).map(str::to_owned)
        };
        if let Some(port) = value("--port", "-P").and_then(|port| port.parse().ok()) {
            found.port = Some(port);
        } else if let Some(datadir) = value("--datadir", "-h") {
            found.datadir = Some(datadir);
        }
    }
    found
}

/// Whether a socket of the process's network namespace listens on the port; `None` when none can be seen.
fn listens(dir: &Path, port: u64) -> Option<bool> {
    let tables: Vec<Vec<u8>> =
        ["net/tcp", "net/tcp6"].iter().filter_map(|name| std::fs::read(dir.join(name)).ok()).collect();
    let on_port = |line: &[u8]| {
        let mut words = words(line).skip(1);
        let local = words.next().and_then(|local| local.rsplit(|byte| *byte == b':').next());
        local.and_then(hexadecimal) == Some(port) && words.nth(1) == Some(LISTENS)
    };
    (!tables.is_empty()).then(|| tables.iter().any(|table| lines(table).any(on_port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process with a command line; its network namespace listens on `listens`.
    fn process(proc: &Path, pid: u32, comm: &str, cmdline: &str, listens: Option<u16>) {
        let dir = proc.join(pid.to_string());
        std::fs::create_dir_all(dir.join("net")).unwrap();
        std::fs::write(dir.join("comm"), format!("{comm}\n")).unwrap();
        std::fs::write(dir.join("cmdline"), cmdline.replace(' ', "\0")).unwrap();
        if let Some(port) = listens {
            let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
            let line = format!("   0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000\n");
            std::fs::write(dir.join("net/tcp"), format!("{head}{line}")).unwrap();
        }
    }

    #[test]
    fn what_a_process_worked_is_read_behind_its_name_and_unknown_is_not_nothing() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 7, "mariadbd", "mariadbd", None);
        assert_eq!(cpu_time(7, proc.path()), None);
        let stat = "7 (maria db) S 1 1 1 0 -1 0 0 0 0 0 30 20 7 7 20 0 9 0 4711 0\n";
        std::fs::write(proc.path().join("7/stat"), stat).unwrap();
        assert_eq!(cpu_time(7, proc.path()), Some(Duration::from_millis(500)));
        assert_eq!((began(7, proc.path()), began(8, proc.path())), (Some(4711), None));
        assert_eq!((cpu_us(b""), cpu_us(b"7 (mariadbd) S 1")), (None, None));
    }

    #[test]
    fn the_only_server_is_found_by_its_name() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 7, "mariadbd", "/usr/sbin/mariadbd", Some(3306));
        process(proc.path(), 9, "bash", "bash", Some(3306));
        let found = |port| serving(&database_servers(proc.path()), port, "/var/lib/mysql", "", proc.path());
        assert_eq!(found(3306), Some(7));
        assert_eq!(found(3307), None, "nobody there listens: a tunnel to another host ends here");
    }

    #[test]
    fn of_several_servers_the_one_that_says_the_port_or_the_directory_is_meant() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 7, "mysqld", "mysqld --datadir=/a --port 3306", None);
        process(proc.path(), 8, "mysqld", "mysqld --datadir /b -P3307", None);
        process(proc.path(), 9, "mariadbd", "mariadbd --defaults-file=/c.cnf", None);
        std::os::unix::fs::symlink("/c", proc.path().join("9/cwd")).unwrap();
        let servers = database_servers(proc.path());
        let found = |port, datadir| serving(&servers, port, datadir, "", proc.path());
        assert_eq!((found(3306, "/a/"), found(3307, "/b")), (Some(7), Some(8)));
        assert_eq!(found(3308, "/c/"), Some(9));
    }

    #[test]
    fn a_server_without_a_network_is_found_though_its_command_line_has_a_port() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 7, "mysqld", "mysqld --datadir=/a --port=3306 --skip-networking", None);
        process(proc.path(), 8, "mysqld", "mysqld --datadir=/b --port=3307 --skip-networking", None);
        let servers = database_servers(proc.path());
        let found = |datadir| serving(&servers, 0, datadir, "", proc.path());
        assert_eq!((found("/a/"), found("/b/"), found("/c/")), (Some(7), Some(8), None));
    }

    #[test]
    fn two_containers_that_look_the_same_are_not_guessed_at() {
        let proc = tempfile::tempdir().unwrap();
        for pid in [7, 8] {
            process(proc.path(), pid, "mariadbd", "mariadbd", Some(3306));
        }
        let servers = database_servers(proc.path());
        assert_eq!(servers.len(), 2);
        let found = |hostname| serving(&servers, 3306, "/var/lib/mysql/", hostname, proc.path());
        assert_eq!(found("3f2a9c11d0be"), None);
        // One of them serves another port: its sockets rule it out.
        process(proc.path(), 8, "mariadbd", "mariadbd", Some(3310));
        assert_eq!(found("3f2a9c11d0be"), Some(7));
    }

    #[test]
    fn a_container_is_on_this_host_also_by_its_own_address() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 7, "mariadbd", "mariadbd", Some(3306));
        process(proc.path(), 9, "haproxy", "haproxy", Some(3306));
        let routes =
            |ip: &str| format!("Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- {ip}\n        /32 host LOCAL\n");
        let write = |file: &str, text: &str| std::fs::write(proc.path().join(file), text).unwrap();
        write("7/net/fib_trie", &routes("172.17.0.2"));
        write("7/net/if_inet6", "fd000000000000000000000000000002 45 40 00 80     eth0\n");
        write("9/net/fib_trie", &routes("172.17.0.3"));
        let here = |ip: &str| has_address(ip.parse().unwrap(), proc.path());
        assert!(here("172.17.0.2") && here("fd00::2"));
        assert!(!here("172.17.0.3") && !here("172.17.0.20") && !here("fd00::20"), "a proxy, and none");
    }

    #[test]
    fn two_containers_that_look_the_same_are_told_apart_by_their_names() {
        let proc = tempfile::tempdir().unwrap();
        let told = [(7, " --port=3306", "3f2a9c11d0be"), (8, "", "77aa01c2b3d4"), (9, "", "")];
        for (pid, option, name) in told {
            let cmdline = format!("mariadbd{option}");
            process(proc.path(), pid, "mariadbd", &cmdline, Some(3306));
            let etc = proc.path().join(format!("{pid}/root/etc"));
            std::fs::create_dir_all(&etc).unwrap();
            std::fs::write(etc.join("hostname"), format!("{name}\n")).unwrap();
        }
        let servers = database_servers(proc.path());
        let found = |hostname| serving(&servers, 3306, "/var/lib/mysql/", hostname, proc.path());
        assert_eq!((found("3f2a9c11d0be"), found("77aa01c2b3d4")), (Some(7), Some(8)));
        assert_eq!(found(""), Some(7), "by the port that it was told");
    }
}
