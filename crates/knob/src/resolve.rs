//! From a name to the items of this host: those that are written, and those that are one state with them.

use crate::catalogue::{CATALOGUE, Group, Knob, Place, Shape, Target, lasts};
use crate::error::Refusal;
use crate::host::Host;
use crate::item::{INHERITED, Item, ItemValue};
use crate::name::Name;
use crate::value::{Form, NO_IO_LIMIT, ValueError};

/// A knob found on this host.
#[derive(Clone, Debug)]
pub struct Setting {
    pub name: Name,
    /// What is written: one item, or one for each queue or CPU.
    pub written: Vec<Item>,
    /// What is one state with it, itself included, in the order in which it is put back.
    pub members: Vec<Item>,
    /// The name of that state: knobs with the same key share it.
    pub key: String,
    /// Members where writing one sets another to zero.
    pub twins: bool,
    /// Whether it lasts over a reboot.
    pub lasts: bool,
}

/// Finds the items of a knob. `restart` is the program for server variables that need a restart, and what
/// [`managed`] says for settings of a managed server.
///
/// # Errors
/// This host has no such thing.
pub fn resolve(host: &Host, name: &Name, restart: Option<&str>) -> Result<Setting, Refusal> {
    let written = written(host, name, restart)?;
    // Those of a state can all be set while the server runs.
    let state = state_of(name).filter(|_| restart.is_none());
    let (members, key, twins) = match name.knob.group {
        Group::Alone if let Some(state) = state => {
            let item = |variable: &&str| Item::Variable { variable: (*variable).to_owned(), restart: None };
            (state.iter().map(item).collect(), format!("server.{}", state.join("+")), false)
        }
        Group::Alone => (written.clone(), name.to_string(), false),
        Group::Scheduler => {
            (scheduler(host, &name.target), format!("block.scheduler@{}", name.target), false)
        }
        Group::Twins(key, sysctls) => {
            let there = |sysctl: &&str| host.has(&sysctl_path(sysctl));
            let items =
                sysctls.iter().filter(|sysctl| there(sysctl)).map(|sysctl| plain(sysctl_path(sysctl)));
            (items.collect(), key.to_owned(), true)
        }
        Group::Files(key, files) => {
            let there = files.iter().filter(|(path, _)| host.has(path));
            let item =
                |(path, shape): &(&str, Shape)| Item::File { path: (*path).to_owned(), form: shape.form() };
            (there.map(item).collect(), key.to_owned(), false)
        }
    };
    let by_restart = restart.is_some() && name.knob.place == Place::Variable;
    let lasts = lasts(&name.knob.place) || by_restart;
    Ok(Setting { name: name.clone(), written, members, key, twins, lasts })
}

/// The description of the managed server, for a knob that is one of its settings.
pub fn managed<'a>(name: &Name, program: Option<&'a str>) -> Option<&'a str> {
    let is_its =
        name.target == crate::managed::TARGET && matches!(name.knob.place, Place::Action | Place::Cgroup(_));
    program.filter(|program| is_its && crate::managed::Managed::is_program(program))
}

impl Setting {
    /// What each written item gets for a canonical value.
    pub fn values(&self, value: &str) -> Vec<ItemValue> {
        let each = |(at, item): (usize, &Item)| {
            let value = match (&self.name.knob.place, self.written.len()) {
                (Place::Cgroup("cpu.max"), 2) => value.split_whitespace().nth(at).unwrap_or("max").to_owned(),
                (Place::Cgroup("io.max"), 4) => part(value, at),
                _ => value.to_owned(),
            };
            ItemValue { item: item.clone(), value }
        };
        self.written.iter().enumerate().map(each).collect()
    }

    /// One text for the values of the written items: what `values` takes apart.
    pub fn together(&self, values: &[String]) -> String {
        match (&self.name.knob.place, values.len()) {
            (Place::Cgroup("cpu.max"), 2) => values.join(" "),
            (Place::Cgroup("io.max"), 4) => {
                let pairs = IO_KEYS.iter().zip(values).map(|(key, value)| format!("{key}={value}"));
                pairs.collect::<Vec<_>>().join(" ")
            }
            _ if values.windows(2).all(|pair| pair[0] == pair[1]) => {
                values.first().cloned().unwrap_or_default()
            }
            _ => values.join(" | "),
        }
    }

    /// The members now; the scheduler's settings are others once it has changed.
    pub(crate) fn members_now(&self, host: &Host) -> Vec<Item> {
        match self.name.knob.group {
            Group::Scheduler => scheduler(host, &self.name.target),
            _ => self.members.clone(),
        }
    }
}

const IO_KEYS: [&str; 4] = ["rbps", "wbps", "riops", "wiops"];
const IO_FILES_V1: [&str; 4] = [
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
];

/// `rbps=1 wbps=max riops=max wiops=max`, whatever was left out.
///
/// # Errors
/// A word that is none of these.
pub(crate) fn io_max(text: &str) -> Result<String, ValueError> {
    let wrong = |word: &str| ValueError::IoMax { word: word.to_owned() };
    let mut values = IO_KEYS.map(|_| "max".to_owned());
    for word in text.split_whitespace().filter(|word| *word != "max") {
        let (key, value) = word.split_once('=').ok_or_else(|| wrong(word))?;
        let at = IO_KEYS.iter().position(|known| *known == key).ok_or_else(|| wrong(word))?;
        let number = crate::value::size(value).filter(|number| *number > 0).map(|number| number.to_string());
        values[at] =
            number.or_else(|| (value == "max").then(|| "max".to_owned())).ok_or_else(|| wrong(word))?;
    }
    let pairs: Vec<String> =
        IO_KEYS.iter().zip(&values).map(|(key, value)| format!("{key}={value}")).collect();
    debug_assert_eq!(pairs.len(), NO_IO_LIMIT.split(' ').count());
    Ok(pairs.join(" "))
}

fn part(io_max: &str, at: usize) -> String {
    let key = format!("{}=", IO_KEYS[at]);
    let value = io_max.split_whitespace().find_map(|word| word.strip_prefix(key.as_str()));
    value.unwrap_or("max").to_owned()
}

fn written(host: &Host, name: &Name, restart: Option<&str>) -> Result<Vec<Item>, Refusal> {
    let target = name.target.as_str();
    let one = |item: Item| Ok(vec![item]);
    let rest = || name.rest.clone();
    match &name.knob.place {
        Place::File(pattern, shape) => {
            if name.knob.target == Target::Disk {
                must_have(host, &format!("/sys/block/{target}"))?;
            }
            let paths = expand(host, &pattern.replace("{}", target));
            if paths.is_empty() {
                return Err(Refusal::Absent { what: pattern.replace("{}", target) });
            }
            Ok(paths.into_iter().map(|path| Item::File { path, form: shape.form() }).collect())
        }
        Place::Iosched => there(host, format!("/sys/block/{target}/queue/iosched/{}", name.rest)),
        Place::Sysctl(sysctl) => there(host, sysctl_path(sysctl)),
        // An interface may have a dot in its name: with slashes the name is unambiguous.
        Place::AnySysctl if name.rest.contains('/') => there(host, format!("/proc/sys/{}", name.rest)),
        Place::AnySysctl => there(host, sysctl_path(&name.rest)),
        Place::Irq => {
            let numbers = interrupts(host, target)?;
            let path = |number: &u32| format!("/proc/irq/{number}/smp_affinity_list");
            Ok(numbers.iter().map(|number| Item::File { path: path(number), form: Form::List }).collect())
        }
        Place::Service(service) => one(Item::Service { service: (*service).to_owned() }),
        Place::Offload => one(Item::Offload { interface: target.to_owned(), feature: rest() }),
        Place::Coalesce => one(Item::Coalesce { interface: target.to_owned(), parameter: rest() }),
        Place::Mount => one(Item::Mount { point: target.to_owned() }),
        Place::Cgroup(_) if target == crate::managed::TARGET => {
            one(Item::Action { knob: name.to_string(), program: restart.map(str::to_owned) })
        }
        Place::Cgroup(limit) => cgroup(host, limit, target),
        Place::Dataset => one(Item::Dataset { dataset: target.to_owned(), property: rest() }),
        Place::Pool => one(Item::Pool { pool: target.to_owned(), property: rest() }),
        Place::ZfsModule => there(host, format!("/sys/module/zfs/parameters/{}", name.rest)),
        Place::Variable => {
            one(Item::Variable { variable: name.rest.to_lowercase(), restart: restart.map(str::to_owned) })
        }
        Place::Action => one(Item::Action { knob: name.to_string(), program: restart.map(str::to_owned) }),
    }
}

fn there(host: &Host, path: String) -> Result<Vec<Item>, Refusal> {
    must_have(host, &path)?;
    Ok(vec![plain(path)])
}

fn must_have(host: &Host, path: &str) -> Result<(), Refusal> {
    if host.has(path) { Ok(()) } else { Err(Refusal::Absent { what: path.to_owned() }) }
}

fn plain(path: String) -> Item {
    Item::File { path, form: Form::Plain }
}

/// `vm.swappiness` -> `/proc/sys/vm/swappiness`
pub(crate) fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// The scheduler first, then the depth of the queue, which a change of it resets and which itself resets
/// async_depth of mq-deadline; then the scheduler's own settings, and write-back throttling, which bfq
/// switches off.
fn scheduler(host: &Host, disk: &str) -> Vec<Item> {
    let queue = format!("/sys/block/{disk}/queue");
    let mut items = vec![
        Item::File { path: format!("{queue}/scheduler"), form: Form::Bracket },
        plain(format!("{queue}/nr_requests")),
    ];
    items.extend(
        host.list(&format!("{queue}/iosched")).iter().map(|name| plain(format!("{queue}/iosched/{name}"))),
    );
    items.push(plain(format!("{queue}/wbt_lat_usec")));
    // A queue without write-back throttling has the file and refuses to read it.
    items.retain(|item| matches!(item, Item::File { path, .. } if host.read(path).is_ok()));
    items
}

/// The paths that a pattern with at most one `*` in each part stands for.
fn expand(host: &Host, pattern: &str) -> Vec<String> {
    let mut paths = vec![String::new()];
    for part in pattern.trim_start_matches('/').split('/') {
        let mut longer = Vec::new();
        for path in paths {
            match part.split_once('*') {
                None => longer.push(format!("{path}/{part}")),
                Some((before, after)) => {
                    // `cpu*` is cpu0, cpu1, ... and not cpufreq.
                    let number = |name: &&String| {
                        let middle = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                        middle.is_some_and(|middle| {
                            !middle.is_empty() && middle.chars().all(|c| c.is_ascii_digit())
                        })
                    };
                    longer
                        .extend(host.list(&path).iter().filter(number).map(|name| format!("{path}/{name}")));
                }
            }
        }
        paths = longer;
    }
    paths.retain(|path| host.has(path));
    paths
}

/// The interrupts that a number, a name, a disk or an interface stands for.
pub(crate) fn interrupts(host: &Host, target: &str) -> Result<Vec<u32>, Refusal> {
    let all: Vec<u32> = host.list("/proc/irq").iter().filter_map(|name| name.parse().ok()).collect();
    if let Ok(number) = target.parse::<u32>() {
        must_have(host, &format!("/proc/irq/{number}"))?;
        return Ok(vec![number]);
    }
    let named: Vec<u32> =
        all.iter().copied().filter(|number| host.has(&format!("/proc/irq/{number}/{target}"))).collect();
    match named.as_slice() {
        [] => {}
        [_] => return Ok(named),
        several => {
            let numbers: Vec<String> = several.iter().map(u32::to_string).collect();
            return Err(Refusal::Needs {
                what: format!("several interrupts are called {target}: name one of {}", numbers.join(", ")),
            });
        }
    }
    // Of a PCI device, directly below the interface or the disk, or one further up (virtio, nvme).
    for place in [format!("/sys/class/net/{target}/device"), format!("/sys/block/{target}/device")] {
        for up in ["", "/..", "/device", "/../.."] {
            let names = host.list(&format!("{place}{up}/msi_irqs"));
            let numbers: Vec<u32> =
                names.iter().filter_map(|name| name.parse().ok()).filter(|n| all.contains(n)).collect();
            if !numbers.is_empty() {
                return Ok(numbers);
            }
        }
    }
    let numbers = adapter(host, &format!("/sys/block/{target}/device"));
    let numbers: Vec<u32> = numbers.into_iter().filter(|number| all.contains(number)).collect();
    if !numbers.is_empty() {
        return Ok(numbers);
    }
    Err(Refusal::Absent {
        what: format!("an interrupt, disk or interface called {target} with interrupts of its own"),
    })
}

/// Interrupts of the adapter that a SCSI disk hangs on (virtio-scsi, AHCI), several levels up: the first
/// device that has an interrupt. What lies above it are bridges, whose interrupts are not the disk's.
fn adapter(host: &Host, device: &str) -> Vec<u32> {
    let Ok(real) = std::fs::canonicalize(host.path(device)) else { return Vec::new() };
    let Some(adapter) = real.ancestors().find(|dir| dir.join("irq").is_file()) else { return Vec::new() };
    let entries = std::fs::read_dir(adapter.join("msi_irqs")).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Where a cgroup lies: v2 wherever it has the limit, else the hierarchy of v1.
fn cgroup(host: &Host, limit: &str, target: &str) -> Result<Vec<Item>, Refusal> {
    let (path, device) = target.rsplit_once(',').filter(|_| limit == "io.max").unwrap_or((target, ""));
    let path = path.trim_end_matches('/');
    let device = match (limit, device) {
        ("io.max", "") => {
            return Err(Refusal::Needs {
                what: format!("name the device after the path: cgroup.io.max@{path},vda"),
            });
        }
        ("io.max", device) => device_number(host, device)?,
        _ => String::new(),
    };
    for v2 in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
        let file = format!("{v2}{path}/{limit}");
        if host.has(&file) {
            let form = if limit == "io.max" { Form::Device(device) } else { Form::Plain };
            return Ok(vec![Item::File { path: file, form }]);
        }
    }
    let in_v1 = |controllers: [&str; 2], file: &str, form: &Form| {
        let files = controllers.map(|controller| format!("/sys/fs/cgroup/{controller}{path}/{file}"));
        files.into_iter().find(|file| host.has(file)).map(|path| Item::File { path, form: form.clone() })
    };
    let items: Option<Vec<Item>> = match limit {
        "cpu.max" => ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
            .iter()
            .map(|file| in_v1(["cpu", "cpu,cpuacct"], file, &Form::LimitV1))
            .collect(),
        "memory.max" => in_v1(["memory"; 2], "memory.limit_in_bytes", &Form::LimitV1).map(|item| vec![item]),
        "io.max" => {
            let form = Form::DeviceV1(device);
            IO_FILES_V1.iter().map(|file| in_v1(["blkio"; 2], file, &form)).collect()
        }
        _ => None,
    };
    items.ok_or_else(|| Refusal::Absent {
        what: format!("{limit} of the cgroup {path} (neither in v2 nor, with its meaning, in v1)"),
    })
}

/// `vda` or `254:0` -> `254:0`
fn device_number(host: &Host, device: &str) -> Result<String, Refusal> {
    let halves = device.split_once(':').map(|(major, minor)| (major.parse::<u32>(), minor.parse::<u32>()));
    if let Some((Ok(_), Ok(_))) = halves {
        return Ok(device.to_owned());
    }
    host.read(&format!("/sys/block/{device}/dev"))
}

/// Every target of this host that a row could be set on; empty for rows whose targets cannot be listed.
pub fn targets(host: &Host, knob: &Knob) -> Vec<String> {
    match knob.target {
        Target::None => vec![String::new()],
        Target::Disk => {
            let holds =
                |disk: &String| host.read(&format!("/sys/block/{disk}/size")).is_ok_and(|size| size != "0");
            host.list("/sys/block").into_iter().filter(holds).collect()
        }
        Target::Interface => host.list("/sys/class/net"),
        Target::Interrupt => {
            let names = |number: String| {
                let entries = host.list(&format!("/proc/irq/{number}"));
                let directory = |name: &String| {
                    std::fs::metadata(host.path(&format!("/proc/irq/{number}/{name}")))
                        .is_ok_and(|found| found.is_dir())
                };
                entries.into_iter().find(directory).unwrap_or(number)
            };
            let numbers = host.list("/proc/irq").into_iter().filter(|name| name.parse::<u32>().is_ok());
            numbers.map(names).collect()
        }
        Target::IdleState => host.list("/sys/devices/system/cpu/cpu0/cpuidle"),
        Target::Mount => {
            let kept = |mount: &crate::mount::Mount| {
                matches!(&*mount.kind, "ext4" | "xfs" | "btrfs" | "f2fs" | "ext3")
            };
            crate::mount::mounts(host).into_iter().filter(kept).map(|mount| mount.point).collect()
        }
        Target::Cgroup | Target::CgroupDevice | Target::Dataset | Target::Any => Vec::new(),
    }
}

/// The names that an open row stands for on a target: the present scheduler's settings.
pub fn names_below(host: &Host, knob: &Knob, target: &str) -> Vec<String> {
    match knob.place {
        Place::Iosched => host.list(&format!("/sys/block/{target}/queue/iosched")),
        Place::ZfsModule => {
            ["zfs_prefetch_disable", "zfs_arc_max", "zfs_txg_timeout"].map(str::to_owned).to_vec()
        }
        _ => Vec::new(),
    }
}

/// Where a knob stands in the catalogue, and within its state: the order in which several are applied.
/// `None`: it does not stand there.
pub fn rank(name: &Name) -> Option<(usize, usize)> {
    let row = CATALOGUE.iter().position(|knob| knob.name == name.knob.name)?;
    let variable = name.rest.to_lowercase();
    let within = state_of(name).and_then(|state| state.iter().position(|one| *one == variable));
    Some((row, within.unwrap_or(0)))
}

/// The variables of a server that are one state with this one.
pub(crate) fn state_of(name: &Name) -> Option<&'static [&'static str]> {
    let variable = name.rest.to_lowercase();
    crate::catalogue::state_of(&variable).filter(|_| name.knob.place == Place::Variable)
}

/// Whether two canonical values of an item are the same state.
pub fn same(item: &Item, one: &str, other: &str) -> bool {
    match item {
        Item::Mount { .. } => crate::mount::same(one, other),
        Item::Variable { .. } => crate::server::same(one, other),
        Item::Dataset { .. } => {
            // Where a property comes from is part of the state, its spelling (16k, 16384) is not.
            let split = |text: &str| {
                (
                    text.ends_with(INHERITED),
                    crate::value::size(text.trim_end_matches(INHERITED)),
                    text.to_owned(),
                )
            };
            let (one, other) = (split(one), split(other));
            one.2 == other.2 || (one.0 == other.0 && one.1.is_some() && one.1 == other.1)
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let host = Host::new(dir.path());
        (dir, host)
    }

    fn paths(host: &Host, text: &str) -> Result<Vec<String>, Refusal> {
        let setting = resolve(host, &crate::name::parse(host, text).unwrap(), None)?;
        Ok(setting.written.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_knob_of_an_interface_is_one_file_for_each_queue() {
        let (_dir, host) = tree(&[
            ("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0"),
            ("/sys/class/net/eth0/queues/rx-10/rps_cpus", "0"),
            ("/sys/class/net/eth0/queues/rx-2/rps_cpus", "0"),
            ("/sys/class/net/eth0/queues/tx-0/xps_cpus", "0"),
        ]);
        let found = paths(&host, "network.rps@eth0").unwrap();
        assert_eq!(found, ["0", "2", "10"].map(|n| format!("/sys/class/net/eth0/queues/rx-{n}/rps_cpus")));
        assert!(matches!(paths(&host, "network.rps@eth1"), Err(Refusal::Absent { .. })));
    }

    #[test]
    fn the_scheduler_its_settings_and_the_queues_depth_are_one_state() {
        let (_dir, host) = tree(&[
            ("/sys/block/vda/queue/scheduler", "none [mq-deadline]"),
            ("/sys/block/vda/queue/iosched/read_expire", "500"),
            ("/sys/block/vda/queue/nr_requests", "256"),
        ]);
        let resolve = |text| resolve(&host, &crate::name::parse(&host, text).unwrap(), None).unwrap();
        let (one, other) = (resolve("block.scheduler@vda"), resolve("block.nr_requests@vda"));
        assert_eq!((&one.key, &one.members), (&other.key, &other.members));
        let order: Vec<String> = one.members.iter().map(ToString::to_string).collect();
        let names = ["scheduler", "nr_requests", "iosched/read_expire"];
        assert_eq!(order, names.map(|name| format!("/sys/block/vda/queue/{name}")));
    }

    #[test]
    fn a_variable_in_another_case_is_the_same_state() {
        let host = Host::new("/nowhere");
        let key = |text: &str, restart: Option<&str>| {
            resolve(&host, &crate::name::parse(&host, text).unwrap(), restart).unwrap().key
        };
        for restart in [None, Some("/bin/restart")] {
            let keys =
                ["server.innodb_log_file_size", "server.INNODB_LOG_FILE_SIZE"].map(|text| key(text, restart));
            assert_eq!(keys[0], keys[1], "{restart:?}");
        }
    }

    #[test]
    fn cgroups_are_found_in_v2_and_in_v1_by_the_same_name() {
        let (_dir, host) = tree(&[
            ("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1"),
            ("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000"),
            ("/sys/fs/cgroup/unified/b/cpu.max", "max 100000"),
            ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712"),
        ]);
        let v1 = paths(&host, "cgroup.cpu.max@/a").unwrap();
        assert_eq!(v1.len(), 2);
        assert_eq!(paths(&host, "cgroup.cpu.max@/b").unwrap(), ["/sys/fs/cgroup/unified/b/cpu.max"]);
        let name = crate::name::parse(&host, "cgroup.cpu.max@/a").unwrap();
        let setting = resolve(&host, &name, None).unwrap();
        let values: Vec<String> = setting.values("150000 100000").into_iter().map(|one| one.value).collect();
        assert_eq!(values, ["150000", "100000"]);
        assert_eq!(setting.together(&values), "150000 100000");
        let refused = paths(&host, "cgroup.memory.high@/a").unwrap_err().to_string();
        assert!(refused.contains("neither in v2"), "{refused}");
    }

    #[test]
    fn limits_of_io_name_every_key() {
        assert_eq!(io_max("wiops=2k rbps=100M").unwrap(), "rbps=104857600 wbps=max riops=max wiops=2048");
        assert_eq!(io_max("max").unwrap(), NO_IO_LIMIT);
        assert!(matches!(io_max("bps=1"), Err(ValueError::IoMax { word }) if word == "bps=1"));
    }

    #[test]
    fn interrupts_of_a_scsi_disk_are_those_of_its_adapter_and_of_no_bridge_above() {
        let adapter = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:03.0";
        let disk = format!("{adapter}/virtio0/host0/target0:0:1/0:0:1:0");
        let (dir, host) = tree(&[
            ("/proc/irq/24/pcieport/x", ""),
            ("/proc/irq/40/virtio0-config/x", ""),
            ("/proc/irq/41/virtio0-request/x", ""),
            ("/sys/devices/pci0000:00/0000:00:01.0/irq", "24"),
            ("/sys/devices/pci0000:00/0000:00:01.0/msi_irqs/24", ""),
            (&format!("{adapter}/irq"), "11"),
            (&format!("{adapter}/msi_irqs/41"), ""),
            (&format!("{adapter}/msi_irqs/40"), ""),
            (&format!("{disk}/vendor"), "Google"),
            ("/sys/block/sda/size", "1"),
        ]);
        let at = dir.path().join(disk.trim_start_matches('/'));
        std::os::unix::fs::symlink(at, dir.path().join("sys/block/sda/device")).unwrap();
        assert_eq!(interrupts(&host, "sda").unwrap(), [40, 41]);
        std::fs::remove_dir_all(dir.path().join(adapter.trim_start_matches('/')).join("msi_irqs")).unwrap();
        assert!(interrupts(&host, "sda").is_err(), "a line that it shares with others is not its own");
    }

    #[test]
    fn interrupts_are_found_by_number_by_name_and_by_device() {
        let (_dir, host) = tree(&[
            ("/proc/irq/36/virtio1-req.0/x", ""),
            ("/proc/irq/38/virtio2-input.0/x", ""),
            ("/proc/irq/39/virtio2-output.0/x", ""),
            ("/sys/class/net/eth0/device/msi_irqs/38", ""),
            ("/sys/class/net/eth0/device/msi_irqs/39", ""),
        ]);
        assert_eq!(interrupts(&host, "36").unwrap(), [36]);
        assert_eq!(interrupts(&host, "virtio1-req.0").unwrap(), [36]);
        assert_eq!(interrupts(&host, "eth0").unwrap(), [38, 39]);
        assert!(interrupts(&host, "eth9").is_err());
    }
}
