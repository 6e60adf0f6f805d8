//! A variable that needs a restart, with a program of the operator's that edits the option file and restarts
//! the server.

use super::cases::{check, manner, session};
use config::Credentials;
use fleet::Address;
use knob::apply;
use knob::journal::End;
use knob::session::Which;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = r#"#!/bin/sh
# PROGRAM NAME VALUE
set -e
cd "$(dirname "$0")"
sed -i "/^$1 *=/d" my.cnf
echo "$1 = $2" >> my.cnf
old=$(cat pid)
kill "$old"
while kill -0 "$old" 2>/dev/null; do sleep 0.05; done
exec ./start
"#;

const START: &str = r#"#!/bin/sh
# Answers before it returns.
set -e
cd "$(dirname "$0")"
setsid mariadbd --defaults-file="$PWD/my.cnf" > log 2>&1 < /dev/null &
i=0
until mariadb --no-defaults -u root -S "$PWD/s" -e 'SELECT 1' > /dev/null 2>&1; do
    i=$((i + 1)); [ $i -lt 600 ] || { tail -3 log >&2; exit 1; }
    sleep 0.1
done
"#;

/// A server that the operator's own script starts.
struct Own {
    dir: tempfile::TempDir,
}

impl Own {
    fn start() -> Self {
        let own = Self { dir: tempfile::tempdir().unwrap() };
        let at = |name: &str| own.dir.path().join(name);
        let user = if rustix::process::getuid().is_root() { "user = root\n" } else { "" };
        let options = format!(
            "[mysqld]\n{user}datadir = {0}/data\nsocket = {0}/s\npid_file = {0}/pid\nskip_networking\ninnodb_buffer_pool_size = 16M\n",
            own.dir.path().display()
        );
        std::fs::write(at("my.cnf"), options).unwrap();
        for (name, text) in [("set", PROGRAM), ("start", START)] {
            std::fs::write(at(name), text).unwrap();
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let defaults = format!("--defaults-file={}", at("my.cnf").display());
        run(Command::new("mariadb-install-db").args([
            &defaults,
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]));
        run(&mut Command::new(at("start")));
        own
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(self.path("pid")).ok().and_then(|text| text.trim().parse().ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_variable_that_needs_a_restart_is_set_and_put_back_by_the_operators_program() {
    let own = Own::start();
    let address = Address::Unix(own.path("s")).to_string();
    let who = Credentials { user: Some("root".into()), ..Credentials::default() };
    let journal = own.path("knobs");
    let value = |directory: &Path| {
        let mut session = session(directory, who.clone());
        session.server(&address).unwrap().global("back_log").unwrap()
    };
    let start = value(&own.path("other"));
    let mut first = session(&journal, who.clone());
    let change = "server.back_log=77";
    let checked = check(&mut first, &address, &[change], &[]).unwrap();
    let outcomes =
        first.apply(&checked, Some(&address), &manner(Some(own.path("set").display().to_string())));
    assert!(matches!(outcomes[0].status, apply::Status::Applied { .. }), "{outcomes:?}");
    assert_ne!(start, "77");
    assert_eq!(value(&own.path("other")), "77");
    drop(first);
    // The restart in between does not close the entry: what was written to a file outlives it.
    let restored = session(&journal, who.clone()).restore(&Which::All, false);
    assert_eq!(restored[0].end, Some(End::Restored), "{restored:?}");
    assert_eq!(value(&own.path("other")), start);
}
