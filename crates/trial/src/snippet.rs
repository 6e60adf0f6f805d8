//! Lines that set a cell for good, each where it belongs: my.cnf, sysctl.d, a udev rule, fstab, a drop-in of
//! the server's unit.
//!
//! They stand in the order in which a trial applies them: a scheduler resets `nr_requests`, so it comes
//! first.
//! What would erase data is a procedure of comments, and nothing that a shell runs by being pasted.

use crate::spec::HOST;
use knob::Host;
use knob::catalogue::{self, Place};
use knob::managed::{self, AS_IT_IS, TARGET, zpool_create};
use knob::name::Name;
use knob::{mount, resolve, value};
use std::collections::BTreeMap;

const MY_CNF: &str = "\
# MariaDB: /etc/mysql/mariadb.conf.d/zz-headroom.cnf (Debian, Ubuntu), /etc/my.cnf.d/zz-headroom.cnf (RHEL)
# MySQL: /etc/mysql/mysql.conf.d/zz-headroom.cnf (Debian, Ubuntu), /etc/my.cnf (RHEL)
[mysqld]";
/// The unit of a server that a spec calls `server`, and where its data lie, as most packages have it.
const UNIT: &str = "mariadb.service";
const DATA: &str = "/var/lib/mysql";

/// Lines by where they go.
#[derive(Default)]
struct Parts {
    server: String,
    sysctl: String,
    udev: String,
    fstab: String,
    /// By unit.
    units: BTreeMap<String, String>,
    file_system: String,
    rest: String,
}

/// Of these settings, on this host; a dangerous one says so. `remark` is what is known of a setting by
/// itself: it stands above its line.
pub fn snippet(
    host: &Host,
    settings: &[(String, String)],
    remark: impl Fn(&str, &str) -> Option<&'static str>,
) -> String {
    let mut parts = Parts::default();
    let name = |knob: &str| knob::name::parse(host, knob).ok();
    let mut settings: Vec<(&String, &String, Option<Name>)> =
        settings.iter().map(|(knob, value)| (knob, value, name(knob))).collect();
    let place = |name: &Option<Name>| name.as_ref().and_then(resolve::rank);
    // What stands in no catalogue comes last.
    settings.sort_by_key(|(_, _, name)| (place(name).is_none(), place(name)));
    for (knob, value, name) in settings {
        if knob == HOST {
            parts.rest.push_str(&format!("# the host {value}: another machine, no setting\n"));
            continue;
        }
        let warning = name.as_ref().and_then(|name| catalogue::danger(name, value));
        let warning = warning.map_or_else(String::new, |(_, why)| format!("# Warning: {why}\n"));
        let alone = remark(knob, value).map_or_else(String::new, |words| format!("# by itself: {words}\n"));
        let (lines, line) = parts.line(host, knob, value, name.as_ref());
        lines.push_str(&format!("{warning}{alone}{line}\n"));
    }
    parts.text()
}

impl Parts {
    /// A setting's lines, and where they go.
    fn line(&mut self, host: &Host, knob: &str, value: &str, name: Option<&Name>) -> (&mut String, String) {
        let (bare, target) = knob.split_once('@').unwrap_or((knob, ""));
        if bare == "file_system.type" {
            return (&mut self.file_system, file_system(target, value));
        }
        if let Some((unit, lines)) = in_unit(host, bare, target, value) {
            return (self.units.entry(unit).or_default(), lines);
        }
        match name.map(|name| (name.knob.place, name)) {
            Some((Place::Variable, name)) => (&mut self.server, format!("{} = {}", name.rest, option(value))),
            Some((Place::Sysctl(sysctl_name), _)) => (&mut self.sysctl, format!("{sysctl_name} = {value}")),
            Some((Place::AnySysctl, name)) => (&mut self.sysctl, format!("{} = {value}", name.rest)),
            Some((Place::Mount, _)) => (&mut self.fstab, fstab(host, target, value)),
            // Each is a file of the queue by the same name, a scheduler's own below iosched.
            _ if bare.starts_with("block.") && !target.is_empty() => {
                (&mut self.udev, rule(bare, target, value, name))
            }
            _ => (&mut self.rest, format!("headroom knob set --keep '{knob}={value}'")),
        }
    }

    fn text(self) -> String {
        let Self { server, sysctl, udev, fstab, units, file_system, rest } = self;
        let unit = |(unit, lines): (String, String)| {
            let heading = format!(
                "# /etc/systemd/system/{unit}.d/headroom.conf, or the unit that your server has; then\n\
                 # systemctl daemon-reload, and a restart of the server\n[Service]"
            );
            (heading, lines)
        };
        let mut parts = vec![
            (MY_CNF.to_owned(), server),
            ("# /etc/sysctl.d/90-headroom.conf".to_owned(), sysctl),
            ("# /etc/udev/rules.d/90-headroom.rules".to_owned(), udev),
            ("# /etc/fstab".to_owned(), fstab),
        ];
        parts.extend(units.into_iter().map(unit));
        parts.push(("# Another file system, by hand:".to_owned(), file_system));
        parts.push(("# Until the next reboot, and what no file sets:".to_owned(), rest));
        let parts = parts.iter().filter(|(_, lines)| !lines.is_empty());
        parts.map(|(heading, lines)| format!("{heading}\n{lines}")).collect::<Vec<_>>().join("\n")
    }
}

/// A value as an option file takes it: whole numbers with K, M or G. A server that reads `1.5G` there does
/// not start: of such sizes bytes are written out.
fn option(value: &str) -> String {
    let number = value.strip_suffix(['k', 'K', 'm', 'M', 'g', 'G']).unwrap_or(value);
    match value::size(value) {
        Some(bytes) if !number.bytes().all(|byte| byte.is_ascii_digit()) => bytes.to_string(),
        _ => value.to_owned(),
    }
}

/// A rule of udev, which knows a disk by the kernel's name and by no link to it.
fn rule(bare: &str, target: &str, value: &str, name: Option<&Name>) -> String {
    let file = bare.trim_start_matches("block.").replace('.', "/");
    // The disk may be another machine's: then `/dev/vda` is still vda, and a link is not known.
    let plain = target.strip_prefix("/dev/").unwrap_or(target);
    let kernel = name.map(|name| name.target.as_str()).or((!plain.contains('/')).then_some(plain));
    let rule = |kernel: &str| {
        format!(
            "ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"{kernel}\", ATTR{{queue/{file}}}=\"{value}\""
        )
    };
    kernel
        .map_or_else(|| format!("# NAME is the last word of: readlink -f {target}\n# {}", rule("NAME")), rule)
}

/// The line of a mount with these options: its own of fstab if it has one, else one from what is mounted.
fn fstab(host: &Host, point: &str, options: &str) -> String {
    let list = |text: &str| text.split(',').map(|option| option.trim().to_owned()).collect::<Vec<_>>();
    let table = host.read("/etc/fstab").unwrap_or_default();
    let own = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|fields| {
        !fields.first().is_some_and(|first| first.starts_with('#')) && fields.get(1) == Some(&point)
    });
    if let Some([source, point, kind, now, rest @ ..]) = own.as_deref() {
        let merged = mount::merge(&list(now), &list(options)).join(",");
        let rest = if rest.is_empty() { "0 0".to_owned() } else { rest.join(" ") };
        return format!(
            "# in the place of its line, as this host has it\n{source} {point} {kind} {merged} {rest}"
        );
    }
    match mount::mount(host, point) {
        Ok(found) => {
            let escaped = |text: &str| text.replace(' ', "\\040");
            let (source, point) = (escaped(&found.source), escaped(point));
            format!(
                "# it has no line on this host yet\n{source} {point} {} defaults,{options} 0 2",
                found.kind
            )
        }
        Err(_) => format!("# {point}: options {options}, beside those that its line has"),
    }
}

/// Lines below `[Service]` for what is set of the server's process: its unit, and the lines.
fn in_unit(host: &Host, bare: &str, target: &str, value: &str) -> Option<(String, String)> {
    let (group, device) = target.rsplit_once(',').unwrap_or((target, ""));
    let unit = group.rsplit('/').next().filter(|last| last.ends_with(".service"));
    let unit = if group == TARGET { UNIT } else { unit? };
    let lines = match bare {
        "allocator.library" => match managed::library(host, value) {
            _ if value == managed::GLIBC => "UnsetEnvironment=LD_PRELOAD".to_owned(),
            Ok(path) => format!("Environment=LD_PRELOAD={path}"),
            Err(_) => format!("# FILE is what ldconfig -p names for {value}\n# Environment=LD_PRELOAD=FILE"),
        },
        "numa.policy" => match value.split_once(':').unwrap_or((value, "all")) {
            (managed::NUMA_DEFAULT, _) => "NUMAPolicy=default".to_owned(),
            (policy, nodes) => format!("NUMAPolicy={policy}\nNUMAMask={nodes}"),
        },
        "cgroup.cpu.max" => format!("CPUQuota={}", quota(value)?),
        "cgroup.memory.max" => format!("MemoryMax={}", limit(value)),
        "cgroup.memory.high" => format!("MemoryHigh={}", limit(value)),
        "cgroup.io.max" => io_limits(if device.is_empty() { DATA } else { device }, value),
        _ => return None,
    };
    Some((unit.to_owned(), lines))
}

/// `1.5` and `150000 100000` are `150%`, `0.015` is `1.5%`; none is no quota. systemd takes hundredths of a
/// percent.
fn quota(value: &str) -> Option<String> {
    let mut words = value.split_whitespace();
    let first = words.next()?;
    if first == "max" {
        return Some(String::new());
    }
    let number: f64 = first.parse().ok()?;
    let cpus = match words.next() {
        Some(period) => number / period.parse::<f64>().ok()?,
        None => number,
    };
    let percent = format!("{:.2}", cpus * 100.0);
    Some(format!("{}%", percent.trim_end_matches('0').trim_end_matches('.')))
}

fn limit(value: &str) -> String {
    if value == "max" {
        return "infinity".to_owned();
    }
    value::size(value).map_or_else(|| value.to_owned(), |bytes| bytes.to_string())
}

/// systemd's K is a thousand where ours is 1024: bytes are written out.
fn io_limits(path: &str, value: &str) -> String {
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/dev/{path}") };
    let line = |word: &str| {
        let (key, value) = word.split_once('=')?;
        let name = match key {
            "rbps" => "IOReadBandwidthMax",
            "wbps" => "IOWriteBandwidthMax",
            "riops" => "IOReadIOPSMax",
            "wiops" => "IOWriteIOPSMax",
            _ => return None,
        };
        Some(format!("{name}={path} {}", limit(value)))
    };
    let lines: Vec<String> = value.split_whitespace().filter_map(line).collect();
    if lines.is_empty() { "# no limit of IO".to_owned() } else { lines.join("\n") }
}

/// How a server comes to lie on another file system: it takes an empty disk and a stop.
fn file_system(target: &str, value: &str) -> String {
    let (kind, options) = value.trim().split_once(' ').unwrap_or((value.trim(), "defaults"));
    if kind == AS_IT_IS {
        return "# as it is: nothing to do".to_owned();
    }
    let device = if target.starts_with("/dev/") { target } else { "/dev/NEW" };
    if kind == "zfs" {
        let words = zpool_create("mysql", device, if options == "defaults" { "" } else { options });
        return format!(
            "# zpool erases {device}. {DATA} is where most packages have the data (SELECT @@datadir).\n\
             # systemctl stop {UNIT}\n\
             # zpool {}\n\
             # mount -t zfs mysql /mnt && cp -a {DATA}/. /mnt/ && umount /mnt\n\
             # mv {DATA} {DATA}.before && mkdir {DATA}\n\
             # zfs set mountpoint={DATA} mysql && systemctl start {UNIT}",
            words.join(" ")
        );
    }
    format!(
        "# mkfs erases {device}. {DATA} is where most packages have the data (SELECT @@datadir).\n\
         # systemctl stop {UNIT}\n\
         # mkfs.{kind} {device}\n\
         # mount -o {options} {device} /mnt && cp -a {DATA}/. /mnt/ && umount /mnt\n\
         # mv {DATA} {DATA}.before && mkdir {DATA}\n\
         # a line in /etc/fstab, with the UUID of: blkid {device}\n\
         # UUID=... {DATA} {kind} {options} 0 2\n\
         # mount {DATA} && systemctl start {UNIT}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let host = Host::new(dir.path());
        (dir, host)
    }

    fn of(host: &Host, settings: &[(&str, &str)]) -> String {
        let settings: Vec<(String, String)> =
            settings.iter().map(|(knob, value)| ((*knob).to_owned(), (*value).to_owned())).collect();
        snippet(host, &settings, |_, _| None)
    }

    #[test]
    fn lines_to_set_are_sorted_by_where_they_go_and_in_the_order_of_a_trial() {
        let settings = [
            ("server.innodb_io_capacity", "2000"),
            ("memory.swappiness", "1"),
            ("sysctl.net.ipv4.tcp_rmem", "1 2 3"),
            ("block.nr_requests@sda", "64"),
            ("block.scheduler@sda", "none"),
            ("network.rps@eth0", "all"),
        ];
        let rule = "ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"sda\", ATTR";
        assert_eq!(
            of(&Host::new("/nowhere"), &settings),
            format!(
                "{MY_CNF}\ninnodb_io_capacity = 2000\n\n\
                 # /etc/sysctl.d/90-headroom.conf\nvm.swappiness = 1\nnet.ipv4.tcp_rmem = 1 2 3\n\n\
                 # /etc/udev/rules.d/90-headroom.rules\n{rule}{{queue/scheduler}}=\"none\"\n\
                 {rule}{{queue/nr_requests}}=\"64\"\n\n\
                 # Until the next reboot, and what no file sets:\nheadroom knob set --keep 'network.rps@eth0=all'\n"
            )
        );
        let dangerous = of(&Host::new("/nowhere"), &[("server.innodb_doublewrite", "OFF")]);
        assert!(dangerous.contains("# Warning: "), "{dangerous}");
        for (section, place) in
            [("MariaDB", "mariadb.conf.d/zz-"), ("MySQL", "mysql.conf.d/zz-"), ("RHEL", "my.cnf.d")]
        {
            assert!(dangerous.contains(section) && dangerous.contains(place), "{dangerous}");
        }
    }

    #[test]
    fn a_size_is_written_as_an_option_file_takes_it() {
        let all = ["2G", "1.5G", "512MiB", "2T", "2000", "0.5", "ON", "16k"].map(option);
        assert_eq!(all, ["2G", "1610612736", "536870912", "2199023255552", "2000", "0.5", "ON", "16k"]);
        let text = of(&Host::new("/nowhere"), &[("server.innodb_buffer_pool_size", "1.5G")]);
        assert!(text.ends_with("\ninnodb_buffer_pool_size = 1610612736\n"), "{text}");
    }

    #[test]
    fn what_is_undecided_by_itself_says_so_above_its_line() {
        let settings = [("server.a".to_owned(), "1".to_owned()), ("server.b".to_owned(), "2".to_owned())];
        let text = snippet(&Host::new("/nowhere"), &settings, |knob, value| {
            (knob == "server.b" && value == "2").then_some("undecided")
        });
        assert!(text.ends_with("a = 1\n# by itself: undecided\nb = 2\n"), "{text}");
    }

    #[test]
    fn a_rule_of_udev_has_the_name_of_the_kernel() {
        let (dir, host) = tree(&[("dev/vda", ""), ("sys/block/vda/size", "1")]);
        std::fs::create_dir_all(dir.path().join("dev/disk/by-id")).unwrap();
        std::os::unix::fs::symlink("../../vda", dir.path().join("dev/disk/by-id/disk-1")).unwrap();
        for target in ["/dev/vda", "/dev/disk/by-id/disk-1"] {
            let text = of(&host, &[(&format!("block.scheduler@{target}"), "none")]);
            assert!(text.contains("\nACTION==") && text.contains("KERNEL==\"vda\""), "{text}");
        }
        let elsewhere = of(&Host::new("/nowhere"), &[("block.scheduler@/dev/disk/by-id/x", "none")]);
        assert!(elsewhere.contains("readlink -f /dev/disk/by-id/x\n# ACTION=="), "{elsewhere}");
        let elsewhere = of(&Host::new("/nowhere"), &[("block.scheduler@/dev/sdb", "none")]);
        assert!(elsewhere.contains("KERNEL==\"sdb\""), "{elsewhere}");
    }

    #[test]
    fn the_server_s_process_is_set_by_a_drop_in_of_its_unit() {
        let (_dir, host) = tree(&[("usr/lib64/libjemalloc.so.2", "")]);
        let text = of(
            &host,
            &[
                ("allocator.library@server", "jemalloc"),
                ("numa.policy@server", "interleave"),
                ("cgroup.cpu.max@server", "1.5"),
                ("cgroup.memory.max@server", "1G"),
                ("cgroup.io.max@server", "rbps=100M wiops=2000"),
                ("cgroup.cpu.max@/system.slice/mysql.service", "150000 50000"),
            ],
        );
        for line in [
            "# /etc/systemd/system/mariadb.service.d/headroom.conf",
            "[Service]\n",
            "\nEnvironment=LD_PRELOAD=/usr/lib64/libjemalloc.so.2\n",
            "\nNUMAPolicy=interleave\nNUMAMask=all\n",
            "\nCPUQuota=150%\n",
            "\nMemoryMax=1073741824\n",
            "\nIOReadBandwidthMax=/var/lib/mysql 104857600\nIOWriteIOPSMax=/var/lib/mysql 2000\n",
            "# /etc/systemd/system/mysql.service.d/headroom.conf",
            "\nCPUQuota=300%\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("knob set"), "{text}");
        let shares =
            ["0.015", "3.0", "33333 100000", "10000 100000", "max 100000"].map(|all| quota(all).unwrap());
        assert_eq!(shares, ["1.5%", "300%", "33.33%", "10%", ""]);
        let unknown = of(&Host::new("/nowhere"), &[("allocator.library@server", "jemalloc")]);
        assert!(unknown.contains("# Environment=LD_PRELOAD=FILE"), "{unknown}");
    }

    #[test]
    fn a_file_system_is_a_procedure_of_comments() {
        let zfs = of(&Host::new("/nowhere"), &[("file_system.type@server", "zfs recordsize=16k,ashift=12")]);
        assert!(
            zfs.contains("# zpool create -f -m legacy -O recordsize=16k -o ashift=12 mysql /dev/NEW"),
            "{zfs}"
        );
        let text = of(&Host::new("/nowhere"), &[("file_system.type@server", "xfs noatime")]);
        assert!(text.lines().all(|line| line.starts_with('#')), "nothing runs when it is pasted: {text}");
        for part in ["# mkfs.xfs /dev/NEW", "cp -a", "/var/lib/mysql xfs noatime 0 2"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn mount_options_give_a_line_of_fstab_where_the_device_is_known() {
        let mounted = ("proc/self/mountinfo", "42 27 7:0 / /data rw,relatime - ext4 /dev/vdb rw");
        let set = [("mount.options@/data", "noatime,commit=30")];
        let (_dir, host) = tree(&[mounted, ("etc/fstab", "# x\nUUID=1 /data ext4 relatime,discard 0 1\n")]);
        let text = of(&host, &set);
        let line = text.lines().find(|line| line.starts_with("UUID=1 /data ext4 ")).unwrap();
        assert!(line.ends_with(" 0 1") && line.contains("discard") && line.contains("commit=30"), "{text}");
        assert!(line.contains("noatime") && !line.contains("relatime"), "{text}");
        let (_dir, host) = tree(&[mounted]);
        assert!(of(&host, &set).contains("\n/dev/vdb /data ext4 defaults,noatime,commit=30 0 2\n"));
        let elsewhere = of(&Host::new("/nowhere"), &set);
        assert!(elsewhere.contains("# /data: options noatime,commit=30"), "{elsewhere}");
    }
}
