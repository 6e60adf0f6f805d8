//! Settings that others have published, row by row: the setting as a knob, their reason, and what is left of
//! it today.
//!
//! A profile is a starting point for a trial and no advice: what helped a fleet of 2015 or two terabytes of
//! memory may cost another one. Rows that are stale say by what they are replaced; rows that no running host
//! can change say what it takes.

use crate::error::Error;
use serde::Serialize;

/// A published list of settings.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Profile {
    /// Its name on the command line.
    pub name: &'static str,
    /// Whose it is, and when.
    pub title: &'static str,
    /// The hosts it was made for.
    pub host: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// Its rows, in the order in which they were published.
    pub rows: &'static [Row],
}

/// One published setting.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    pub published: &'static str,
    /// The same as a knob of today, with `{disk}`, `{interface}`, `{mount}`, `{dataset}`, `{parent}` and
    /// `{pool}` to fill in; `None` where no running host can change it.
    pub knob: Option<&'static str>,
    /// Why they set it.
    pub reason: &'static str,
    /// Whether it still means what it meant.
    pub today: Today,
    /// What to know today: by what it is replaced, who doubts it.
    pub note: &'static str,
}

/// Whether a setting still means what it meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Today {
    Current,
    /// It does, and whether it helps is disputed: measure it.
    Disputed,
    /// Something else stands in its place; the knob is that.
    Replaced,
    /// It is the default now.
    Default,
    /// It does not exist any more, or must not be used.
    Gone,
}

/// What a row's placeholders stand for.
pub const PLACEHOLDERS: [&str; 6] = ["disk", "interface", "mount", "dataset", "parent", "pool"];

pub fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

/// Reads a profile's name.
///
/// # Errors
/// No profile has it; the message has those that there are.
pub fn parse_name(name: &str) -> Result<String, Error> {
    let profile = find(name).ok_or_else(|| Error::UnknownProfile { name: name.to_owned() })?;
    Ok(profile.name.to_owned())
}

/// Reads what a placeholder stands for: `disk=vda`.
///
/// # Errors
/// It is not of this form, or the name is none of [`PLACEHOLDERS`].
pub fn parse_placeholder(text: &str) -> Result<(String, String), Error> {
    let known = |(name, value): &(&str, &str)| PLACEHOLDERS.contains(name) && !value.is_empty();
    let halves = text.split_once('=').filter(known);
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    halves.map(owned).ok_or_else(|| Error::NotAPlaceholder { text: text.to_owned() })
}

impl Row {
    /// The assignment with its placeholders filled in, or the placeholder that is missing.
    ///
    /// # Errors
    /// The placeholder that nothing was given for.
    pub fn assignment(&self, given: &[(String, String)]) -> Result<Option<String>, &'static str> {
        let Some(knob) = self.knob else { return Ok(None) };
        let mut text = knob.to_owned();
        for placeholder in PLACEHOLDERS {
            let braces = format!("{{{placeholder}}}");
            if !text.contains(&braces) {
                continue;
            }
            let (_, value) = given.iter().find(|(name, _)| name == placeholder).ok_or(placeholder)?;
            text = text.replace(&braces, value);
        }
        Ok(Some(text))
    }
}

const fn row(
    published: &'static str,
    knob: Option<&'static str>,
    reason: &'static str,
    today: Today,
    note: &'static str,
) -> Row {
    Row { published, knob, reason, today, note }
}

use Today::{Current, Default, Disputed, Gone, Replaced};

pub static PROFILES: [Profile; 2] = [
    Profile {
        name: "letsencrypt",
        title: "Let's Encrypt, 2021: OpenZFS on NVMe below MariaDB",
        host: "2 x 64 threads, 2 TB of memory, 24 NVMe disks as 11 mirrors and 2 spares; integrity first, \
               then performance, then durability (which replicas and log copies carry)",
        source: "github.com/letsencrypt/openzfs-nvme-databases (CC0); \
                 letsencrypt.org/2021/01/21/next-gen-database-servers.html",
        rows: &[
            row(
                "NVMe LBA format of 4096 bytes",
                None,
                "the better of 512 and 4096",
                Current,
                "nvme format erases the disk: before it is used",
            ),
            row(
                "zfs_prefetch_disable=1",
                Some("zfs_module.zfs_prefetch_disable=1"),
                "InnoDB reads ahead itself",
                Current,
                "",
            ),
            row(
                "ashift=13",
                None,
                "matches 8 KiB inside the disk",
                Current,
                "only when a disk is added to a pool: zpool create -o ashift=13",
            ),
            row(
                "autoreplace=on",
                Some("zpool.autoreplace@{pool}=on"),
                "a new disk is taken up by itself",
                Current,
                "",
            ),
            row(
                "/dev/disk/by-id names",
                None,
                "survive a change of bay or name",
                Current,
                "when the pool is made",
            ),
            row(
                "striped two-way mirrors, spares, spread over controllers",
                None,
                "speed, and one disk of each pair may fail",
                Current,
                "when the pool is made",
            ),
            row("atime=off", Some("zfs.atime@{parent}=off"), "no write for each read", Current, ""),
            row(
                "compression=lz4",
                Some("zfs.compression@{parent}=lz4"),
                "less I/O",
                Disputed,
                "they doubt it themselves: a 16 KiB record is two sectors of 8 KiB; never measured in public",
            ),
            row(
                "primarycache=metadata",
                Some("zfs.primarycache@{parent}=metadata"),
                "InnoDB caches data itself",
                Current,
                "",
            ),
            row(
                "recordsize=128k (parent)",
                Some("zfs.recordsize@{parent}=128k"),
                "sequential files and backups",
                Default,
                "128k is the default",
            ),
            row(
                "xattr=sa",
                Some("zfs.xattr@{parent}=sa"),
                "attributes without hidden directories",
                Current,
                "",
            ),
            row(
                "acltype=posixacl",
                Some("zfs.acltype@{parent}=posix"),
                "access lists for SELinux and backups",
                Current,
                "posixacl reads back as posix since OpenZFS 2.0",
            ),
            row(
                "dnodesize=auto",
                Some("zfs.dnodesize@{parent}=auto"),
                "room for attributes in the dnode",
                Current,
                "",
            ),
            row(
                "recordsize=16k (InnoDB)",
                Some("zfs.recordsize@{dataset}=16k"),
                "the page of InnoDB",
                Current,
                "counts for what is written afterwards: copy the data anew",
            ),
            row(
                "logbias=throughput",
                Some("zfs.logbias@{dataset}=throughput"),
                "there is no separate log device",
                Disputed,
                "they doubt it themselves: it can write twice and fragment",
            ),
            row(
                "redundant_metadata=most",
                Some("zfs.redundant_metadata@{dataset}=most"),
                "fewer writes of metadata",
                Current,
                "",
            ),
            row(
                "innodb_doublewrite=0",
                Some("server.innodb_doublewrite=OFF"),
                "a record of ZFS is written whole, at equal size",
                Current,
                "a named danger: only on ZFS with recordsize = page size; OFF needs a restart in MySQL and \
                 in MariaDB up to 11.0",
            ),
            row(
                "innodb_file_per_table=ON",
                Some("server.innodb_file_per_table=ON"),
                "backup and relocation of tables",
                Default,
                "ON is the default",
            ),
            row(
                "innodb_log_write_ahead_size=16384",
                Some("server.innodb_log_write_ahead_size=16384"),
                "the record size: no read before a write of the log",
                Current,
                "dynamic in MySQL; MariaDB 10.8 to 11.2 has none",
            ),
            row(
                "innodb_use_native_aio=0",
                Some("server.innodb_use_native_aio=OFF"),
                "asynchronous I/O is poor on ZFS for Linux",
                Disputed,
                "needs a restart; OpenZFS 2.x with direct I/O changes the picture",
            ),
            row(
                "innodb_use_atomic_writes=0",
                Some("server.innodb_use_atomic_writes=OFF"),
                "no device below that offers it",
                Current,
                "MariaDB only; needs a restart",
            ),
            row(
                "innodb_flush_neighbors=0",
                Some("server.innodb_flush_neighbors=0"),
                "writing neighbours gains nothing on SSDs",
                Default,
                "0 is MySQL 8's default; MariaDB's is 1",
            ),
            row(
                "innodb_io_capacity=1000",
                Some("server.innodb_io_capacity=1000"),
                "above the default, modest for the wear of the disks",
                Current,
                "",
            ),
            row(
                "innodb_io_capacity_max=2500",
                Some("server.innodb_io_capacity_max=2500"),
                "the same, in need",
                Current,
                "",
            ),
            row(
                "innodb_checksum_algorithm=none",
                None,
                "ZFS has checksums",
                Gone,
                "withdrawn by themselves: MariaDB 10.6 and later require checksums",
            ),
        ],
    },
    Profile {
        name: "pinterest",
        title: "Pinterest, 2015: MySQL on EC2 with SSDs",
        host: "i2.4xlarge (16 cores, 122 GB, 4 SSDs as RAID-0), Percona Server 5.5 and 5.6, kernel 3.18",
        source: "All Your IOPS Are Belong To Us, Percona Live 2015, slide 52: \
                 gist.github.com/mdeora/74222a662c75f182b967f21c4e2f36cc",
        rows: &[
            row(
                "Linux 3.18.7 (from 3.2)",
                None,
                "100 MB/s -> 350 MB/s of 16 KiB random writes",
                Replaced,
                "any kernel of today; compare two hosts to measure one",
            ),
            row(
                "irqbalance 1.0.8",
                Some("interrupt.irqbalance=on"),
                "the distribution's one put all interrupts on one CPU",
                Disputed,
                "others lose by it and bind interrupts themselves (interrupt.affinity): a factor to measure, \
                 never a rule",
            ),
            row(
                "RPS enabled",
                Some("network.rps@{interface}=all"),
                "one receive queue kept one CPU busy",
                Disputed,
                "cards of today have a queue for each CPU: then RPS adds work",
            ),
            row(
                "jemalloc instead of glibc",
                Some("allocator.library@server=jemalloc"),
                "less contention and fragmentation",
                Current,
                "needs an action that restarts the server; tcmalloc and mimalloc are the other candidates",
            ),
            row(
                "I/O scheduler = noop",
                Some("block.scheduler@{disk}=none"),
                "an SSD needs no sorting",
                Replaced,
                "noop was removed with the single-queue block layer (5.0): none is its successor",
            ),
            row(
                "RAID-0 with chunks of 64 KiB",
                None,
                "spread over all disks",
                Current,
                "when the array is made: mdadm --chunk=64",
            ),
            row(
                "XFS",
                None,
                "parallel writes to one file",
                Current,
                "a file system is made anew: file_system.type",
            ),
            row(
                "mount: noatime",
                Some("mount.options@{mount}=noatime"),
                "no write for each read",
                Current,
                "relatime, the default, costs little more",
            ),
            row(
                "mount: nobarrier",
                None,
                "no flushes to the disk",
                Gone,
                "ignored by XFS since 4.13, refused since 4.19. block.write_cache 'write through' has the \
                 same effect and the same danger: a power loss loses data",
            ),
            row(
                "mount: discard",
                Some("mount.options@{mount}=discard"),
                "the SSD learns what is free",
                Disputed,
                "fstrim once a week does it without delays in commits",
            ),
            row(
                "mount: inode64",
                None,
                "inodes anywhere on large disks",
                Default,
                "the default of XFS since 3.7",
            ),
            row(
                "mount: logbsize=256k",
                None,
                "fewer writes of the XFS log",
                Current,
                "no remount changes it: in fstab",
            ),
            row(
                "innodb_max_dirty_pages_pct=75",
                Some("server.innodb_max_dirty_pages_pct=75"),
                "room for bursts of writes",
                Current,
                "90 is the default of both flavours",
            ),
            row(
                "innodb_checksum_algorithm=CRC32",
                Some("server.innodb_checksum_algorithm=crc32"),
                "computed by the CPU's own instruction",
                Default,
                "crc32, or full_crc32 in MariaDB, is the default",
            ),
            row(
                "innodb_io_capacity=10000",
                Some("server.innodb_io_capacity=10000"),
                "what their SSDs can do",
                Current,
                "measure your own: headroom probe",
            ),
            row(
                "innodb_io_capacity_max=16000",
                Some("server.innodb_io_capacity_max=16000"),
                "the same, in need",
                Current,
                "",
            ),
            row(
                "innodb_lru_scan_depth=2000",
                Some("server.innodb_lru_scan_depth=2000"),
                "free pages are found in time",
                Current,
                "for each buffer pool instance",
            ),
            row(
                "innodb_log_buffer_size=32M",
                Some("server.innodb_log_buffer_size=32M"),
                "large transactions do not wait for the log",
                Current,
                "dynamic in MySQL 8; MariaDB wants a restart",
            ),
            row(
                "innodb_read_io_threads=8",
                Some("server.innodb_read_io_threads=8"),
                "parallel reads",
                Current,
                "MySQL wants a restart; MariaDB 10.11 and later do not",
            ),
            row(
                "innodb_write_io_threads=8",
                Some("server.innodb_write_io_threads=8"),
                "parallel writes",
                Current,
                "MySQL wants a restart; MariaDB 10.11 and later do not",
            ),
            row(
                "relay_log_info_repository=TABLE",
                None,
                "a replica's place is committed with its data",
                Default,
                "removed in MySQL 9; TABLE is the default of 8",
            ),
            row(
                "relay_log_recovery=ON",
                Some("server.relay_log_recovery=ON"),
                "a replica finds its place after a crash",
                Current,
                "needs a restart",
            ),
            row(
                "table_open_cache_instances=8",
                Some("server.table_open_cache_instances=8"),
                "less contention when tables are opened",
                Default,
                "16 is MySQL's default, 8 MariaDB's; needs a restart",
            ),
            row(
                "metadata_locks_hash_instances=256",
                None,
                "less contention on metadata locks",
                Gone,
                "removed in MySQL 8 and MariaDB 10.5: the hash has no locks any more",
            ),
        ],
    },
];

/// The assignments of a profile that can be made with what was given, and what is left out, in words.
pub fn assignments(name: &str, given: &[(String, String)]) -> (Vec<String>, Vec<String>) {
    let (mut assignments, mut left_out) = (Vec::new(), Vec::new());
    for row in find(name).map_or(&[][..], |profile| profile.rows) {
        match row.assignment(given) {
            Ok(Some(assignment)) => assignments.push(assignment),
            Ok(None) => left_out.push(format!("{}: {}", row.published, row.note)),
            Err(missing) => {
                left_out.push(format!("{}: say which {missing}: --for {missing}=NAME", row.published));
            }
        }
    }
    (assignments, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;

    fn given() -> Vec<(String, String)> {
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        [
            ("disk", "vda"),
            ("interface", "eth0"),
            ("mount", "/data"),
            ("dataset", "tank/mysql"),
            ("parent", "tank"),
            ("pool", "tank"),
        ]
        .map(pair)
        .to_vec()
    }

    #[test]
    fn every_row_has_its_reason_and_names_knobs_of_the_catalogue() {
        for profile in &PROFILES {
            for row in profile.rows {
                assert!(!row.reason.is_empty(), "{}", row.published);
                let stale = matches!(row.today, Replaced | Gone | Disputed | Default);
                assert!(!stale || !row.note.is_empty(), "{}: by what, or why?", row.published);
                assert!(row.knob.is_some() || !row.note.is_empty(), "{}: how then?", row.published);
                let Some(assignment) = row.assignment(&given()).unwrap() else { continue };
                let (name, _) = crate::name::assignment(&assignment).unwrap();
                crate::name::parse(&Host::new("/nowhere"), name).unwrap();
            }
        }
        assert_eq!(
            (find("pinterest").unwrap().rows.len(), find("letsencrypt").unwrap().rows.len()),
            (24, 25)
        );
        assert!(find("hatena").is_none());
    }

    #[test]
    fn a_name_that_means_nothing_is_refused_with_those_that_there_are() {
        assert_eq!(parse_name("pinterest").unwrap(), "pinterest");
        let refused = parse_name("hatena").unwrap_err();
        assert_eq!(refused.to_string(), "there is letsencrypt and pinterest");
        assert_eq!(parse_placeholder("disk=vda").unwrap(), ("disk".to_owned(), "vda".to_owned()));
        for text in ["disk", "disk=", "raid=md0"] {
            let refused = parse_placeholder(text).unwrap_err();
            assert!(refused.is_usage() && refused.to_string().starts_with("write disk=vda"), "{refused}");
        }
    }

    #[test]
    fn a_placeholder_that_nothing_was_given_for_is_named() {
        let rps =
            find("pinterest").unwrap().rows.iter().find(|row| row.published.starts_with("RPS")).unwrap();
        assert_eq!(rps.assignment(&[]), Err("interface"));
        assert_eq!(rps.assignment(&given()).unwrap().as_deref(), Some("network.rps@eth0=all"));
    }
}
