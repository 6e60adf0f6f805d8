//! What insight costs: `cargo run --release -p insight --example speed`. Prints nanoseconds per point select.
//!
//! Not a test: a figure of this machine, at this moment. The best of many short runs.

use insight::{CommandObserver, Ledger, Session, Shared};
use std::cell::RefCell;
use std::hint::black_box;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Instant;
use wire::response::{OkPacket, TextResult};
use wire::{Capabilities, Greeting, Login, Status, Tracker, packet};

const RUNS: u32 = 200;
const ROUNDS: u32 = 2_000;
const CAPABILITIES: Capabilities = Capabilities::ORDINARY.union(Capabilities::DEPRECATE_EOF);

fn main() -> io::Result<()> {
    let shared = Shared::new(config::InsightConfig::default());
    let ledger = Rc::new(RefCell::new(Ledger::new(shared)));
    let plain = "SELECT c FROM sbtest1 WHERE id=501234";
    let tagged = "SELECT c FROM sbtest1 WHERE id=501234 /*endpoint='timeline',\
                  traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/";
    let mut out = io::stdout().lock();
    for (name, sql, on) in [
        ("insight off", plain, false),
        ("insight on", plain, true),
        ("insight off, tagged statement", tagged, false),
        ("insight on, tagged statement", tagged, true),
    ] {
        let session = || match on {
            true => Session::begin(ledger.clone(), "db1", "reader"),
            false => Session::off(),
        };
        let ns = (0..RUNS).map(|_| round_trips(session(), sql)).fold(f64::INFINITY, f64::min);
        writeln!(out, "{ns:>8.0} ns  {name}")?;
    }
    Ok(())
}

fn round_trips(mut session: Session, sql: &str) -> f64 {
    let mut tracker = Tracker::new();
    log_in(&mut session, &mut tracker);
    let command = framed(0, &[b"\x03", sql.as_bytes()].concat());
    let mut answer = Vec::new();
    let row =
        TextResult { status: Status::AUTOCOMMIT, ..TextResult::of(&["c"]) }.row(&[Some(&"x".repeat(120))]);
    row.write(&mut answer, &mut 1, CAPABILITIES);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        client_bytes(&mut session, &mut tracker, black_box(&command));
        server_bytes(&mut session, &mut tracker, black_box(&answer));
    }
    start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

fn log_in(session: &mut Session, tracker: &mut Tracker) {
    let greeting = Greeting {
        version: "8.4.3".into(),
        connection_id: 1,
        nonce: vec![1; 20],
        capabilities: CAPABILITIES,
        charset: 45,
        status: Status::AUTOCOMMIT,
        auth_plugin: "mysql_native_password".into(),
    };
    let login = Login { capabilities: CAPABILITIES, user: b"shop", ..Login::default() };
    let ok = OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::default() };
    server_bytes(session, tracker, &framed(0, &greeting.encode()));
    client_bytes(session, tracker, &framed(1, &login.encode()));
    server_bytes(session, tracker, &framed(2, &ok.encode(CAPABILITIES)));
}

fn client_bytes(session: &mut Session, tracker: &mut Tracker, bytes: &[u8]) {
    let mut observer = session.observe(tracker, Instant::now);
    tracker.client_bytes_with(bytes, &mut observer);
    CommandObserver::finish(observer, tracker);
}

fn server_bytes(session: &mut Session, tracker: &mut Tracker, bytes: &[u8]) {
    let mut observer = session.observe(tracker, Instant::now);
    tracker.server_bytes_with(bytes, &mut observer);
    CommandObserver::finish(observer, tracker);
}

fn framed(mut sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    packet::write(&mut out, &mut sequence, payload);
    out
}
