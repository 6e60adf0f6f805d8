//! A server of the bench's own, on a disk of its own: an image on a loop device where that can be made, so
//! that settings of the block layer are factors, and no other disk is touched. The server is started by a
//! script that `headroom trial run` also restarts it with.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) const DATABASE: &str = "sbtest";

/// Called without arguments it puts the prepared data back and restarts; with NAME VALUE it sets a variable
/// first. `keep` starts and leaves the data. The data need not survive: the server is killed.
const SCRIPT: &str = r#"#!/bin/sh
set -eu
dir=$(cd "$(dirname "$0")" && pwd)
pid=$(cat "$dir/server.pid" 2>/dev/null || true)
if [ -n "$pid" ] && grep -qs "$dir/my.cnf" "/proc/$pid/cmdline"; then
    if [ "${1:-}" = stop ] || [ "${1:-}" = keep ]; then kill "$pid"; else kill -9 "$pid"; fi
    n=0
    while [ -d "/proc/$pid" ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n + 1)); done
fi
rm -f "$dir/server.pid"
[ "${1:-}" != stop ] || exit 0
if [ $# -eq 2 ]; then
    touch "$dir/knobs.cnf"
    { echo '[mysqld]'; sed -e '/^\[/d' -e "/^$1 *=/d" "$dir/knobs.cnf"; echo "$1 = $2"; } > "$dir/knobs.new"
    mv "$dir/knobs.new" "$dir/knobs.cnf"
fi
if [ "${1:-}" != keep ] && [ -d "$dir/disk/prepared" ]; then
    rm -rf "$dir/disk/data"
    cp -a --reflink=auto "$dir/disk/prepared" "$dir/disk/data"
fi
setsid mariadbd --defaults-file="$dir/my.cnf" >> "$dir/server.log" 2>&1 < /dev/null &
n=0
until mariadb-admin --no-defaults --socket="$dir/server.sock" --user=root ping > /dev/null 2>&1; do
    n=$((n + 1))
    [ $n -lt 600 ] || { tail -n 5 "$dir/server.log" >&2; exit 1; }
    sleep 0.05
done
"#;

/// A server and its disk.
#[derive(Debug)]
pub(super) struct Bed {
    dir: PathBuf,
    pub(super) port: u16,
    /// `loop3`, where the data are on a disk of their own.
    pub(super) device: Option<String>,
    pub(super) tables: u32,
    pub(super) table_size: u32,
    pub(super) version: String,
}

impl Bed {
    /// Brings it up; what an earlier run left there is used again.
    pub(super) async fn up(dir: &Path, port: u16, small: bool, headroom: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir.join("disk")).with_context(|| format!("making {}", dir.display()))?;
        let (tables, table_size) = if small { (2, 20_000) } else { (4, 150_000) };
        let device = disk(dir, small);
        let version = output(Command::new("mariadbd").arg("--version"))?.trim().to_owned();
        let bed = Self { dir: dir.to_owned(), port, device, tables, table_size, version };
        bed.write()?;
        // What an earlier run prepared was for the same tables only if it was of the same kind.
        let kind = format!("{tables} {table_size}\n");
        let prepared = dir.join("disk/prepared");
        if !prepared.is_dir() || std::fs::read_to_string(dir.join("kind")).ok().as_deref() != Some(&kind) {
            bed.prepare(headroom)?;
            std::fs::write(dir.join("kind"), kind)?;
        }
        output(&mut Command::new(bed.program()))?;
        Ok(bed)
    }

    #[cfg(test)]
    pub(super) fn of(dir: &Path, device: Option<String>) -> Self {
        let (tables, table_size, version) = (4, 150_000, String::new());
        Self { dir: dir.to_owned(), port: 23_700, device, tables, table_size, version }
    }

    pub(super) fn program(&self) -> PathBuf {
        self.dir.join("server.sh")
    }

    pub(super) fn option_file(&self) -> PathBuf {
        self.dir.join("client.cnf")
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.dir.join("journal")
    }

    fn write(&self) -> anyhow::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let dir = self.dir.display();
        std::fs::write(self.program(), SCRIPT)?;
        std::fs::set_permissions(self.program(), std::fs::Permissions::from_mode(0o755))?;
        if !self.dir.join("knobs.cnf").exists() {
            std::fs::write(self.dir.join("knobs.cnf"), "[mysqld]\n")?;
        }
        // As a primary that loses nothing. A small log, so that checkpoints happen within a run; the smallest
        // chunk, so that the pool can be resized while it runs.
        let options = format!(
            "[mysqld]\ndatadir = {dir}/disk/data\nsocket = {dir}/server.sock\npid-file = {dir}/server.pid\n\
             bind-address = 127.0.0.1\nport = {}\nuser = {}\nskip-name-resolve\n\
             server_id = 1\nlog_bin = binlog\nbinlog_format = ROW\nsync_binlog = 1\n\
             performance_schema = OFF\nmax_connections = 200\ninnodb_log_file_size = 48M\n\
             innodb_buffer_pool_chunk_size = 8M\ninnodb_buffer_pool_size = 32M\ninnodb_io_capacity = 200\n\
             innodb_flush_neighbors = 1\ninnodb_flush_method = fsync\ninnodb_flush_log_at_trx_commit = 1\n\
             innodb_buffer_pool_load_at_startup = OFF\ninnodb_buffer_pool_dump_at_shutdown = OFF\n\
             !include {dir}/knobs.cnf\n",
            self.port,
            output(Command::new("id").arg("-un"))?.trim()
        );
        std::fs::write(self.dir.join("my.cnf"), options)?;
        std::fs::write(self.option_file(), "[client]\nuser = bench\npassword = bench\n")?;
        Ok(())
    }

    fn prepare(&self, headroom: &Path) -> anyhow::Result<()> {
        let disk = self.dir.join("disk");
        output(Command::new(self.program()).arg("stop"))?;
        for old in ["data", "prepared"] {
            let _ = std::fs::remove_dir_all(disk.join(old));
        }
        output(
            Command::new("mariadb-install-db")
                .arg(format!("--defaults-file={}", self.dir.join("my.cnf").display()))
                .args(["--auth-root-authentication-method=normal", "--skip-test-db"]),
        )?;
        output(Command::new(self.program()).arg("keep"))?;
        let statements = format!(
            "CREATE DATABASE {DATABASE}; CREATE USER bench@'%' IDENTIFIED BY 'bench'; GRANT ALL ON *.* TO bench@'%'"
        );
        let socket = format!("--socket={}", self.dir.join("server.sock").display());
        output(Command::new("mariadb").args(["--no-defaults", "--user=root", &socket, "-e", &statements]))?;
        let mut load = Command::new(headroom);
        load.args(["load", "prepare", "oltp_read_write", "--database", DATABASE]);
        load.args(["--server", &format!("127.0.0.1:{}", self.port)]);
        load.args(["--tables", &self.tables.to_string(), "--table-size", &self.table_size.to_string()]);
        output(load.arg("--option-file").arg(self.option_file()))?;
        output(Command::new(self.program()).arg("stop"))?;
        let (data, prepared) = (disk.join("data"), disk.join("prepared"));
        output(Command::new("cp").args(["-a", "--reflink=auto"]).arg(data).arg(prepared))?;
        Ok(())
    }

    /// Stops the server and removes everything of it.
    pub(super) fn down(self) -> anyhow::Result<()> {
        output(Command::new(self.program()).arg("stop"))?;
        if let Some(device) = &self.device {
            output(Command::new("umount").arg(self.dir.join("disk")))?;
            output(Command::new("losetup").args(["-d", &format!("/dev/{device}")]))?;
        }
        std::fs::remove_dir_all(&self.dir).with_context(|| format!("removing {}", self.dir.display()))
    }
}

/// The name of the loop device below the data, made and mounted if it is not there. `None`, with a warning,
/// where that cannot be done.
fn disk(dir: &Path, small: bool) -> Option<String> {
    let (image, point) = (dir.join("disk.img"), dir.join("disk"));
    let attached = || {
        let found = output(Command::new("losetup").args(["-n", "-O", "NAME", "-j"]).arg(&image)).ok()?;
        found.trim().strip_prefix("/dev/").map(str::to_owned)
    };
    let made = || -> anyhow::Result<String> {
        if attached().is_none() {
            let new = !image.exists();
            let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&image)?;
            file.set_len(if small { 1 << 30 } else { 3 << 30 })?;
            output(Command::new("losetup").args(["-f", "--direct-io=on"]).arg(&image))?;
            if new {
                let device = attached().context("no loop device")?;
                output(Command::new("mkfs.xfs").args(["-q", "-f", &format!("/dev/{device}")]))?;
            }
        }
        let device = attached().context("no loop device")?;
        let mounts = std::fs::read_to_string("/proc/mounts")?;
        if !mounts.lines().any(|line| line.starts_with(&format!("/dev/{device} "))) {
            output(Command::new("mount").arg(format!("/dev/{device}")).arg(&point))?;
        }
        Ok(device)
    };
    match made() {
        Ok(device) => Some(device),
        Err(error) => {
            term::terminal::complain(&format!(
                "no disk of its own, so the block layer is no factor: {error:#}"
            ));
            None
        }
    }
}

/// Runs it and gives what it prints.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output().with_context(|| format!("starting {name}"))?;
    if !done.status.success() {
        bail!("{name}: {}: {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
