//! A server that offers no TLS, where the command line demands it: no connection of a command logs in. And a
//! server that accepts and says nothing: Ctrl-C ends the wait for it.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The greeting of a server without TLS, as a packet.
fn greeting() -> Vec<u8> {
    let mut payload = vec![10];
    payload.extend(b"8.4.0\0\x01\0\0\0nonce-00\0");
    // Capabilities in two halves: protocol 4.1, SECURE_CONNECTION, PLUGIN_AUTH, and not SSL.
    payload.extend([0x09, 0xa2, 45, 2, 0, 0x08, 0x00, 21]);
    payload.extend([0; 10]);
    payload.extend(b"nonce-000000\0mysql_native_password\0");
    let length = u8::try_from(payload.len()).unwrap();
    [&[length, 0, 0, 0][..], &payload].concat()
}

/// A server that greets, and tells how many bytes each client answered.
fn server() -> (SocketAddr, mpsc::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let tell = tell.clone();
            std::thread::spawn(move || {
                let mut client = client.unwrap();
                client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                client.write_all(&greeting()).unwrap();
                // A client that leaves at once may reset the connection.
                let _ = tell.send(client.read(&mut [0; 512]).unwrap_or(0));
            });
        }
    });
    (address, told)
}

fn headroom(dir: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headroom"));
    command.args(words.split(' ')).current_dir(dir).env_clear().env("HOME", dir);
    command.env("HEADROOM_USER", "app").env("HEADROOM_PASSWORD", "secret");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

const SPEC: &str = "\
name = \"short\"
metric = \"throughput\"

[load]
workload = \"oltp_read_only\"
threads = [1]
database = \"app\"

[design]
kind = \"one-at-a-time\"

[[factor]]
knob = \"server.innodb_flush_neighbors\"
levels = [\"1\", \"0\"]
";

#[test]
fn where_tls_is_demanded_no_connection_of_a_command_logs_in_without() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("t.toml"), SPEC).unwrap();
    for words in [
        "measure oltp_read_only --objective p99<5s --server {at} --current-from {at}",
        "plan ladder oltp_read_only --server {at} --no-keep",
        "plan memory oltp_read_only --server {at} --sizes 1G,2G,3G --journal knobs --no-keep",
        "trial run t.toml --server {at} --journal knobs --dry-run",
    ] {
        let (address, told) = server();
        let words = format!("{words} --ssl-mode REQUIRED").replace("{at}", &address.to_string());
        let output = headroom(dir.path(), &words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains("TLS"), "{words}: {said}");
        let answered = told.recv_timeout(Duration::from_secs(30));
        assert_eq!(answered, Ok(0), "{words}: its first connection: {said}");
        assert!(told.try_iter().all(|bytes| bytes == 0), "{words}: {said}");
    }
}

#[test]
fn ctrl_c_ends_the_wait_for_a_server_that_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let words = "measure oltp_read_only --objective p99<5s --server {at} --current-from {at}";
    let mut child = headroom(dir.path(), &words.replace("{at}", &address.to_string())).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    said.read_line(&mut text).unwrap();
    // It has come: from here on it waits for a greeting.
    let silent = listener.accept().unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    said.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{text}");
    assert!(text.contains(&format!("interrupted while {address} was asked")), "{text}");
    drop(silent);
}
