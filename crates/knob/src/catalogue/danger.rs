//! Dangerous values, each to be named by whoever wants it, and settings that cannot be put back and are never
//! touched.

use super::{Danger, Place};
use crate::name::Name;

/// Variables of a server whose value can lose or corrupt data: name, values that are safe, what can happen.
const SERVER: &[(&str, &[&str], &str)] = &[
    (
        "innodb_flush_log_at_trx_commit",
        &["1"],
        "committed transactions of about the last second are lost in a crash",
    ),
    (
        "innodb_doublewrite",
        // To MySQL these three are one.
        &["1", "on", "true", "detect_and_recover"],
        "a page torn by a power loss cannot be repaired, unless the file system writes pages atomically",
    ),
    (
        "innodb_checksum_algorithm",
        &["crc32", "full_crc32", "strict_crc32", "strict_full_crc32", "innodb"],
        "damaged pages are not noticed",
    ),
    ("innodb_fast_shutdown", &["0", "1"], "the next shutdown is like a crash"),
    (
        "innodb_flush_method",
        // The last one writes the log through, and flushes data as the second does.
        &["o_direct", "fsync", "o_dsync"],
        "without flushes a power loss can lose or tear what was written",
    ),
    (
        "innodb_use_atomic_writes",
        &["0", "off"],
        "pages are torn by a power loss where the device does not write them atomically",
    ),
    ("innodb_redo_log_enabled", &["1", "on"], "a crash makes the data directory useless"),
    (
        "sync_binlog",
        &["1"],
        "the binary log can lose transactions that were committed: replicas differ from the primary after a \
         crash",
    ),
    ("sync_relay_log", &["1"], "a replica can lose its place after a crash"),
    ("sync_master_info", &["1"], "a replica can lose its place after a crash"),
    ("sync_source_info", &["1"], "a replica can lose its place after a crash"),
    ("sync_relay_log_info", &["1"], "a replica can lose its place after a crash"),
    (
        "rocksdb_flush_log_at_trx_commit",
        &["1"],
        "committed transactions of about the last second are lost in a crash",
    ),
    (
        "binlog_error_action",
        &["abort_server", "1"],
        "changes are not logged any more after an error: replicas differ, and no backup can be rolled forward",
    ),
    ("rpl_semi_sync_master_enabled", &["1", "on"], "transactions are acknowledged before a replica has them"),
    ("rpl_semi_sync_source_enabled", &["1", "on"], "transactions are acknowledged before a replica has them"),
    ("read_only", &["1", "on"], "clients can write to a replica"),
    ("super_read_only", &["1", "on"], "accounts with privileges can write to a replica"),
    ("gtid_strict_mode", &["1", "on"], "replicas can get transactions of their own"),
    ("enforce_gtid_consistency", &["on", "1"], "statements that GTIDs cannot replicate are let through"),
    ("foreign_key_checks", &["1", "on"], "rows without their parents can be written"),
    ("unique_checks", &["1", "on"], "duplicates can be written"),
    ("slave_exec_mode", &["strict"], "a replica goes on past errors, and differs from its primary"),
    ("replica_exec_mode", &["strict"], "a replica goes on past errors, and differs from its primary"),
    ("binlog_format", &["row"], "statements can have another effect on replicas"),
    ("sql_mode", &[], "statements can mean something else, and bad values be stored"),
    ("local_infile", &["0", "off"], "a server can ask clients for their files"),
    ("require_secure_transport", &["1", "on"], "clients can come without TLS"),
    ("init_connect", &[], "it is SQL that every session runs"),
    ("event_scheduler", &["off", "disabled", "0"], "events begin to run"),
    ("binlog_expire_logs_seconds", &["0"], PURGE),
    ("expire_logs_days", &["0"], PURGE),
    ("max_binlog_total_size", &["0"], PURGE),
    ("binlog_space_limit", &["0"], PURGE),
    // More replicas than one protect more.
    ("slave_connections_needed_for_purge", &["1", "2", "3", "4"], PURGE),
    ("server_id", &[], "replicas that know it under the old number ignore its changes, or apply them twice"),
    ("offline_mode", &["0", "off"], "clients are disconnected and cannot come back"),
    (
        "innodb_force_recovery",
        &["0"],
        "damage is passed over, and from 4 on the data can be damaged for good",
    ),
    ("log_bin", &["1", "on"], "changes are not logged: replicas stop, and no backup can be rolled forward"),
    ("log_slave_updates", &["1", "on"], NOT_PASSED_ON),
    ("log_replica_updates", &["1", "on"], NOT_PASSED_ON),
    ("binlog_checksum", &["1", "crc32"], "damaged events of the binary log are applied by replicas"),
    ("wsrep_on", &["1", "on"], "changes stay on this node: its data are not those of its cluster"),
    ("relay_log_recovery", &["1", "on"], "a replica can apply a damaged relay log after a crash"),
    ("innodb_log_checksums", &["1", "on"], "a damaged redo log is applied to the data after a crash"),
    ("skip_grant_tables", &["0", "off"], "everybody can log in, with all privileges"),
];

const NOT_PASSED_ON: &str =
    "what a replica applies is not logged: its own replicas stop, and no backup can be rolled forward";

/// Putting the value back does not bring the files back.
const PURGE: &str = "binary logs that replicas or backups need are deleted, for good";

/// Variables of a server that start something, count something, or cannot be set back.
const SERVER_ONE_WAY: &[(&str, &str)] = &[
    // What is read back of it is not what was set.
    ("wsrep_sst_auth", "the server does not show it"),
    ("gtid_slave_pos", "it is the place of a replica, which moves: put back, changes would be applied twice"),
    ("gtid_purged", "transactions can be added to it and not taken out"),
    ("gtid_binlog_state", "it is the history of the binary log, which moves, and cannot be set back"),
    ("sql_slave_skip_counter", "it skips events of a replica and counts down: what was skipped is lost"),
    ("sql_replica_skip_counter", "it skips events of a replica and counts down: what was skipped is lost"),
];

/// Parameters of the zfs module: name, the value that is safe, what can happen.
const ZFS_MODULE: &[(&str, &str, &str)] = &[
    ("zfs_nocacheflush", "0", "disks are not told to flush: a power loss can lose the pool"),
    ("zil_nocacheflush", "0", "disks are not told to flush: a power loss loses committed transactions"),
    (
        "zil_replay_disable",
        "0",
        "committed transactions are thrown away when a dataset is mounted after a crash",
    ),
];

/// Sysctls: name or beginning of names (ends in `.`), what can happen.
const SYSCTL: &[(&str, &str)] = &[
    ("vm.panic_on_oom", "the host can end itself"),
    ("vm.oom_kill_allocating_task", "the server can be killed for somebody else's memory"),
    ("vm.mmap_min_addr", "it protects the kernel"),
    ("kernel.panic", "the host can reboot"),
    ("kernel.randomize_va_space", "it protects every process"),
    ("kernel.core_pattern", "it is a program that runs as root"),
    ("kernel.modprobe", "it is a program that runs as root"),
    ("kernel.hotplug", "it is a program that runs as root"),
    ("kernel.sysrq", "keys and /proc can crash the host"),
    ("kernel.hung_task_panic", "the host can end itself"),
    ("kernel.softlockup_panic", "the host can end itself"),
    ("kernel.hardlockup_panic", "the host can end itself"),
    ("kernel.pid_max", "processes cannot be started"),
    ("kernel.threads-max", "processes cannot be started"),
    ("fs.file-max", "files cannot be opened"),
    ("fs.nr_open", "files cannot be opened"),
    ("fs.suid_dumpable", "secrets can be written to a core file"),
    ("net.ipv4.ip_forward", "it resets other settings of the interface, and can cut connections"),
    ("net.ipv4.conf.", "connections can be cut"),
    ("net.ipv6.conf.", "connections can be cut"),
    ("net.ipv4.icmp_echo_ignore_all", "monitoring can believe the host dead"),
];

/// Sysctls that start something, count something, or cannot be set back.
const ONE_WAY: &[(&str, &str)] = &[
    ("vm.drop_caches", "it starts something and holds no state"),
    ("vm.compact_memory", "it starts something and holds no state"),
    ("vm.stat_refresh", "it starts something and holds no state"),
    ("kernel.modules_disabled", "it cannot be set back without a reboot"),
    ("kernel.kexec_load_disabled", "it cannot be set back without a reboot"),
    ("kernel.unprivileged_bpf_disabled", "it cannot be set back without a reboot"),
    ("kernel.yama.ptrace_scope", "it cannot be set back from every value"),
    ("kernel.random.", "it is no setting"),
    ("kernel.ns_last_pid", "it is no setting"),
    ("fs.binfmt_misc.", "it registers programs"),
    ("net.ipv4.route.flush", "it starts something and holds no state"),
    ("net.ipv6.route.flush", "it starts something and holds no state"),
];

/// What is dangerous about this value of this knob: the word that `--danger` must name, and why. `value` is
/// canonical.
pub fn danger(name: &Name, value: &str) -> Option<(String, String)> {
    let lower = value.to_lowercase();
    match (&name.knob.danger, &name.knob.place) {
        (Danger::No, _) => None,
        (Danger::Always(why), _) => Some((name.bare(), (*why).to_owned())),
        (Danger::Except(safe, why), _) => (!safe.contains(&value)).then(|| (name.bare(), (*why).to_owned())),
        (Danger::ByName, Place::Variable) => {
            let variable = name.rest.to_lowercase();
            let (_, safe, why) = SERVER.iter().find(|(dangerous, ..)| *dangerous == variable)?;
            (!safe.contains(&lower.as_str())).then(|| (variable, (*why).to_owned()))
        }
        (Danger::ByName, Place::AnySysctl) => {
            let dotted = name.rest.replace('/', ".");
            let (_, why) = listed(SYSCTL, &dotted)?;
            Some((dotted, why.to_owned()))
        }
        (Danger::ByName, Place::Mount) => value.split(',').find_map(|option| {
            let why = match option {
                "nobarrier" | "barrier=0" => {
                    "no flush is sent: a power loss can lose committed transactions and damage the file \
                     system"
                }
                "data=writeback" | "journal_async_commit" | "norecovery" | "nouuid" => {
                    "a crash can leave old data in files"
                }
                "ro" => "nothing can be written any more",
                _ => return None,
            };
            Some((option.to_owned(), why.to_owned()))
        }),
        (Danger::ByName, Place::Dataset) => match (name.rest.as_str(), lower.as_str()) {
            ("sync", "disabled") => Some((
                "sync".to_owned(),
                "flushes are ignored: a crash loses the last \
                 seconds of commits"
                    .to_owned(),
            )),
            ("checksum", "off") => Some(("checksum".to_owned(), "damaged blocks are not noticed".to_owned())),
            ("redundant_metadata", "none") => Some((
                "redundant_metadata".to_owned(),
                "one bad block of \
                 metadata loses data"
                    .to_owned(),
            )),
            ("readonly", "on") => Some(("readonly".to_owned(), "nothing can be written any more".to_owned())),
            ("mountpoint" | "canmount", _) => {
                Some((name.rest.clone(), "the dataset is unmounted".to_owned()))
            }
            _ => None,
        },
        (Danger::ByName, Place::ZfsModule) => {
            let (parameter, safe, why) = ZFS_MODULE.iter().find(|(parameter, ..)| *parameter == name.rest)?;
            (value != *safe).then(|| ((*parameter).to_owned(), (*why).to_owned()))
        }
        (Danger::ByName, _) => None,
    }
}

/// Whether the danger lies in the value: then another value is safe, and a dangerous one that is in force
/// already is as dangerous as one that is set. Else the danger lies in the change.
pub fn is_by_value(name: &Name) -> bool {
    match (&name.knob.danger, &name.knob.place) {
        (Danger::No | Danger::Always(_), _) | (Danger::ByName, Place::AnySysctl) => false,
        (Danger::ByName, Place::Variable) => {
            let variable = name.rest.to_lowercase();
            SERVER.iter().any(|(dangerous, safe, _)| *dangerous == variable && !safe.is_empty())
        }
        (Danger::ByName, Place::Dataset) => !matches!(name.rest.as_str(), "mountpoint" | "canmount"),
        (Danger::Except(..) | Danger::ByName, _) => true,
    }
}

/// Why a setting is never touched, if it is one that cannot be put back.
pub fn one_way(name: &Name) -> Option<String> {
    match name.knob.place {
        Place::AnySysctl => listed(ONE_WAY, &name.rest.replace('/', ".")).map(|(_, why)| why.to_owned()),
        Place::Variable => {
            listed(SERVER_ONE_WAY, &name.rest.to_ascii_lowercase()).map(|(_, why)| why.to_owned())
        }
        _ => None,
    }
}

fn listed<'a>(table: &'a [(&'a str, &'a str)], name: &str) -> Option<(&'a str, &'a str)> {
    let fits =
        |(listed, _): &&(&str, &str)| *listed == name || (listed.ends_with('.') && name.starts_with(listed));
    table.iter().find(fits).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;

    fn flag(text: &str, value: &str) -> Option<String> {
        danger(&crate::name::parse(&Host::new("/nowhere"), text).unwrap(), value).map(|(flag, _)| flag)
    }

    #[test]
    fn what_costs_durability_is_named_one_by_one_and_the_safe_value_needs_no_name() {
        for (name, value, expected) in [
            ("server.innodb_flush_log_at_trx_commit", "2", Some("innodb_flush_log_at_trx_commit")),
            ("server.innodb_flush_log_at_trx_commit", "1", None),
            ("server.INNODB_DOUBLEWRITE", "OFF", Some("innodb_doublewrite")),
            ("server.innodb_doublewrite", "DETECT_AND_RECOVER", None),
            ("server.innodb_doublewrite", "DETECT_ONLY", Some("innodb_doublewrite")),
            ("server.innodb_flush_method", "O_DSYNC", None),
            ("server.log_replica_updates", "OFF", Some("log_replica_updates")),
            ("server.binlog_checksum", "NONE", Some("binlog_checksum")),
            ("server.binlog_checksum", "CRC32", None),
            ("server.wsrep_on", "0", Some("wsrep_on")),
            ("server.innodb_flush_method", "O_DIRECT_NO_FSYNC", Some("innodb_flush_method")),
            ("server.sync_binlog", "0", Some("sync_binlog")),
            ("server.sync_binlog", "1", None),
            ("server.innodb_io_capacity", "1000", None),
            ("block.write_cache@vda", "write through", Some("block.write_cache")),
            ("block.write_cache@vda", "write back", None),
            ("mount.options@/data", "noatime,nobarrier", Some("nobarrier")),
            ("mount.options@/data", "noatime,commit=30", None),
            ("zfs.sync@tank/mysql", "disabled", Some("sync")),
            ("file_system.type@/dev/loop9", "xfs", Some("file_system.type")),
            ("sysctl.kernel.core_pattern", "core", Some("kernel.core_pattern")),
            ("server.binlog_expire_logs_seconds", "3600", Some("binlog_expire_logs_seconds")),
            ("server.binlog_expire_logs_seconds", "0", None),
            ("server.expire_logs_days", "1", Some("expire_logs_days")),
            ("server.max_binlog_total_size", "1073741824", Some("max_binlog_total_size")),
            ("server.binlog_space_limit", "0", None),
            ("server.slave_connections_needed_for_purge", "0", Some("slave_connections_needed_for_purge")),
            ("server.slave_connections_needed_for_purge", "1", None),
            ("server.rocksdb_flush_log_at_trx_commit", "2", Some("rocksdb_flush_log_at_trx_commit")),
            ("server.sync_source_info", "10000", Some("sync_source_info")),
            ("server.sync_relay_log_info", "10000", Some("sync_relay_log_info")),
            ("server.binlog_error_action", "IGNORE_ERROR", Some("binlog_error_action")),
            ("server.binlog_error_action", "ABORT_SERVER", None),
            ("server.server_id", "2", Some("server_id")),
            ("server.offline_mode", "ON", Some("offline_mode")),
            ("server.offline_mode", "OFF", None),
            ("server.innodb_force_recovery", "6", Some("innodb_force_recovery")),
            ("server.log_bin", "OFF", Some("log_bin")),
            ("server.relay_log_recovery", "OFF", Some("relay_log_recovery")),
            ("server.innodb_log_checksums", "OFF", Some("innodb_log_checksums")),
            ("server.skip_grant_tables", "ON", Some("skip_grant_tables")),
            ("server.skip_grant_tables", "OFF", None),
            ("zfs_module.zfs_nocacheflush", "1", Some("zfs_nocacheflush")),
            ("zfs_module.zil_nocacheflush", "1", Some("zil_nocacheflush")),
            ("zfs_module.zil_replay_disable", "1", Some("zil_replay_disable")),
            ("zfs_module.zil_replay_disable", "0", None),
            ("zfs_module.zfs_txg_timeout", "30", None),
            ("cgroup.memory.max@/a", "max", None),
            ("cgroup.memory.max@/a", "1073741824", Some("cgroup.memory.max")),
        ] {
            assert_eq!(flag(name, value).as_deref(), expected, "{name}={value}");
        }
    }

    #[test]
    fn a_danger_lies_in_the_value_where_another_value_is_safe() {
        for (name, expected) in [
            ("server.innodb_flush_log_at_trx_commit", true),
            ("server.sql_mode", false),
            ("server.innodb_io_capacity", false),
            ("file_system.type@server", true),
            ("sysctl.kernel.pid_max", false),
            ("block.write_cache@vda", true),
            ("mount.options@/data", true),
        ] {
            let name = crate::name::parse(&Host::new("/nowhere"), name).unwrap();
            assert_eq!(is_by_value(&name), expected, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_put_back_is_known() {
        let name = |text| crate::name::parse(&Host::new("/nowhere"), text).unwrap();
        assert!(one_way(&name("sysctl.vm.drop_caches")).is_some());
        assert!(one_way(&name("sysctl.kernel.random.boot_id")).is_some());
        assert!(one_way(&name("sysctl.net.ipv4.tcp_rmem")).is_none());
        for variable in ["gtid_slave_pos", "GTID_PURGED", "gtid_binlog_state", "sql_slave_skip_counter"] {
            let text = format!("server.{variable}");
            let name = crate::name::parse(&Host::new("/nowhere"), &text).unwrap();
            assert!(one_way(&name).is_some(), "{variable}");
        }
        assert!(one_way(&name("server.gtid_strict_mode")).is_none());
    }
}
