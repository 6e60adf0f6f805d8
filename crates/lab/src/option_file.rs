//! The servers' option files: small, quick to start, replicating by GTID. Pure.

use crate::ServerSpec;
use crate::program::{Flavour, Program};
use std::fmt::Write;
use std::net::SocketAddrV4;
use std::path::Path;

/// What one server's option file says beyond what all share.
pub(crate) struct Individual<'a> {
    /// Directory of the server: data, socket and log are below it.
    pub(crate) dir: &'a Path,
    /// Where it listens and what it calls itself.
    pub(crate) real: SocketAddrV4,
    /// Distinct in the lab, from 1.
    pub(crate) server_id: usize,
    /// Whether it comes up refusing writes.
    pub(crate) read_only: bool,
}

/// What the data directory is made with and every server must repeat. Kernel AIO contexts are few on a
/// machine, and a lab has many servers.
const INNODB_FILES: &str =
    "innodb_data_file_path = ibdata1:12M:autoextend\ninnodb_autoextend_increment = 4\n";

/// For preparing the template; `tmpdir` is its alone (see [`server`]).
pub(crate) fn template(program: &Program, tmpdir: &Path) -> String {
    let tmpdir = tmpdir.display();
    let mut text = format!("[mysqld]\n{INNODB_FILES}innodb_flush_log_at_trx_commit = 0\ntmpdir = {tmpdir}\n");
    text += match program.flavour {
        Flavour::MariaDb => "innodb_log_file_size = 48M\ninnodb_doublewrite = 0\n",
        Flavour::MySql => "innodb_redo_log_capacity = 48M\ninnodb_doublewrite = OFF\n",
    };
    text
}

pub(crate) fn server(program: &Program, spec: &ServerSpec, individual: &Individual<'_>) -> String {
    let dir = individual.dir.display();
    let switch = |on: bool| if on { "ON" } else { "OFF" };
    let mut text = format!("[mysqld]\n{INNODB_FILES}");
    let mut set = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name} = {value}");
    };
    set("datadir", &format_args!("{dir}/data"));
    // A server that starts deletes what looks like its own leftovers in its tmpdir: in a shared one, the
    // temporary tables of a running neighbour.
    set("tmpdir", &format_args!("{dir}/tmp"));
    set("socket", &format_args!("{dir}/sock"));
    set("pid_file", &format_args!("{dir}/pid"));
    set("bind_address", individual.real.ip());
    set("port", &individual.real.port());
    set("server_id", &individual.server_id);
    set("report_host", individual.real.ip());
    set("report_port", &individual.real.port());
    set("read_only", &switch(individual.read_only));
    set("innodb_buffer_pool_size", &format_args!("{}M", spec.buffer_pool_mib));
    // 2 leaves committed redo with the kernel: it survives a killed process, and a replica's position with
    // it.
    set("innodb_flush_log_at_trx_commit", &if spec.durable { 1 } else { 2 });
    set("sync_binlog", &u8::from(spec.durable));
    set("innodb_doublewrite", &switch(spec.durable));
    set("performance_schema", &switch(spec.performance_schema));
    // An option that the description has is not written twice: mysqld keeps a side effect of
    // `skip_name_resolve = ON` though the last line says OFF.
    let left = |(name, _): &&(&str, &str)| !spec.options.contains_key(*name);
    for (name, value) in COMMON.iter().filter(left) {
        set(name, value);
    }
    let own = match program.flavour {
        Flavour::MariaDb => MARIADB,
        Flavour::MySql => MYSQL,
    };
    for (name, value) in own.iter().filter(left) {
        set(name, value);
    }
    if program.flavour == Flavour::MySql && individual.read_only {
        set("super_read_only", &"ON");
    }
    if rustix::process::geteuid().is_root() {
        set("user", &"root");
    }
    for (name, value) in &spec.options {
        set(name, value);
    }
    text
}

const COMMON: &[(&str, &str)] = &[
    // Users' servers look up names and block a host after `max_connect_errors`. A lab cannot by default: its
    // addresses have no names, and a look-up of one waits for a resolver that a test machine may not have.
    // `router/tests/it/probes.rs` gives them names and runs with both as users have them.
    ("skip_name_resolve", "ON"),
    ("character_set_server", "utf8mb4"),
    ("log_bin", "binlog"),
    ("binlog_format", "ROW"),
    ("max_binlog_size", "128M"),
    ("relay_log", "relay"),
    // A source that went silent is noticed in seconds, so that faults show while somebody watches.
    ("slave_net_timeout", "10"),
    ("max_connections", "1000"),
    ("back_log", "1000"),
    ("max_allowed_packet", "64M"),
    ("thread_cache_size", "100"),
    ("key_buffer_size", "1M"),
    ("innodb_buffer_pool_load_at_startup", "OFF"),
    ("innodb_buffer_pool_dump_at_shutdown", "OFF"),
    ("innodb_fast_shutdown", "2"),
];

const MARIADB: &[(&str, &str)] = &[
    ("innodb_log_file_size", "48M"),
    ("log_slave_updates", "ON"),
    ("gtid_strict_mode", "ON"),
    ("aria_pagecache_buffer_size", "8M"),
    ("query_cache_type", "OFF"),
    ("userstat", "OFF"),
    ("slave_max_allowed_packet", "64M"),
];

const MYSQL: &[(&str, &str)] = &[
    ("innodb_redo_log_capacity", "48M"),
    ("gtid_mode", "ON"),
    ("enforce_gtid_consistency", "ON"),
    ("log_replica_updates", "ON"),
    ("mysqlx", "OFF"),
    ("auto_generate_certs", "OFF"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn options_of_the_description_come_last_and_win() {
        let program = Program { path: "/x".into(), flavour: Flavour::MariaDb, version: (10, 11, 0) };
        let mut spec = ServerSpec::default();
        spec.options.insert("max_connections".to_owned(), "7".to_owned());
        let real = SocketAddrV4::new(Ipv4Addr::new(127, 1, 0, 1), 20_000);
        let individual = Individual { dir: Path::new("/lab/a1"), real, server_id: 1, read_only: true };
        let text = server(&program, &spec, &individual);
        let last = text.lines().rfind(|l| l.starts_with("max_connections")).unwrap();
        assert_eq!(last, "max_connections = 7");
        assert_eq!(text.matches("max_connections").count(), 1, "said once");
        assert!(text.contains("read_only = ON") && text.contains("report_host = 127.1.0.1"));
    }
}
