//! What tracking costs: `cargo run --release -p wire --example tracker_speed`. Prints nanoseconds per
//! round trip.
//!
//! Not a test: a figure of this machine, at this moment. The best of many short runs, so that other work on
//! the machine hardly shows. The aim is at most 200 ns for a point select.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;
use wire::response::{OkPacket, TextResult};
use wire::{Capabilities, Greeting, Login, Phase, Status, Tracker, packet};

const RUNS: u32 = 200;

fn main() -> io::Result<()> {
    let point = "SELECT c FROM sbtest1 WHERE id=501234";
    let tagged = "SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id \
                  WHERE o.status = 'open' AND c.mail = 'someone@example.com' ORDER BY o.created DESC LIMIT 20 \
                  /* endpoint=checkout */";
    let one_row = result(1, 120);
    let megabyte = result(8_000, 120);
    let mut out = io::stdout().lock();
    for (name, text, answer, rounds) in [
        ("point select, 1 row", point, &one_row, 5_000),
        ("select of 190 bytes, 1 row", tagged, &one_row, 5_000),
        ("select, 8000 rows, 1 MB in chunks of 16 KiB", point, &megabyte, 5),
    ] {
        let ns = (0..RUNS).map(|_| round_trips(text, answer, rounds)).fold(f64::INFINITY, f64::min);
        writeln!(out, "{ns:>12.0} ns  {name}")?;
    }
    let ns = (0..RUNS).map(|_| scans(tagged.as_bytes(), 5_000)).fold(f64::INFINITY, f64::min);
    writeln!(out, "{ns:>12.0} ns  the scan of those 190 bytes alone")
}

fn round_trips(text: &str, answer: &[u8], rounds: u32) -> f64 {
    let mut tracker = logged_in();
    let mut command = Vec::new();
    packet::write(&mut command, &mut 0, &[b"\x03", text.as_bytes()].concat());
    let start = Instant::now();
    for _ in 0..rounds {
        tracker.client_bytes(black_box(&command));
        for chunk in answer.chunks(16_384) {
            tracker.server_bytes(black_box(chunk));
        }
        assert!(tracker.is_idle());
    }
    start.elapsed().as_nanos() as f64 / f64::from(rounds)
}

fn scans(text: &[u8], rounds: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(sql::scan(black_box(text), false));
    }
    start.elapsed().as_nanos() as f64 / f64::from(rounds)
}

fn result(rows: usize, width: usize) -> Vec<u8> {
    let mut result = TextResult::of(&["c"]);
    for _ in 0..rows {
        result = result.row(&[Some(&"x".repeat(width))]);
    }
    let mut out = Vec::new();
    result.write(&mut out, &mut 1, Capabilities::ORDINARY | Capabilities::DEPRECATE_EOF);
    out
}

fn logged_in() -> Tracker {
    let capabilities = Capabilities::ORDINARY | Capabilities::DEPRECATE_EOF;
    let greeting = Greeting {
        version: "8.4.3".into(),
        connection_id: 1,
        nonce: vec![1; 20],
        capabilities,
        charset: 45,
        status: Status::AUTOCOMMIT,
        auth_plugin: "mysql_native_password".into(),
    };
    let login = Login { capabilities, user: b"root", ..Login::default() };
    let ok = OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::default() };
    let mut tracker = Tracker::new();
    let framed = |mut sequence, payload: &[u8]| {
        let mut out = Vec::new();
        packet::write(&mut out, &mut sequence, payload);
        out
    };
    tracker.server_bytes(&framed(0, &greeting.encode()));
    tracker.client_bytes(&framed(1, &login.encode()));
    tracker.server_bytes(&framed(2, &ok.encode(capabilities)));
    assert_eq!(tracker.phase(), Phase::Idle);
    tracker
}
