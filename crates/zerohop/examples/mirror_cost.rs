//! What it costs the kernel to mirror a session: round trips of a small statement and its answer, mirrored
//! and not, in turn. As root: `cargo run --release -p zerohop --example mirror_cost`. Both ends run on this
//! machine, so each packet is looked at twice; the reader of the ring runs beside them and looks at nothing
//! in it.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot do its next step has failed")]
#![allow(clippy::print_stdout, reason = "this is what it is for")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use zerohop::{Bypass, Mirror, Page, Spec, Terms, pins};

const PAIRS: usize = 20;
const SLICE: Duration = Duration::from_millis(500);
const SESSIONS: usize = 4;
const STATEMENT: usize = 60;
const ANSWER: usize = 300;

fn main() {
    let [(_listener, dialled), (server, at)] = [0; 2].map(|_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    });
    let name = format!("mirror-cost-{}", std::process::id());
    let spec = Spec { name: name.clone(), title: "a measurement".to_owned(), cgroup: None };
    let mut bypass = Bypass::open(&spec).unwrap();
    bypass.beat(Duration::from_secs(600), Duration::from_secs(600)).unwrap();
    let number = bypass.listener(dialled, Terms::default()).unwrap();
    let target = bypass.target(number, at, false).unwrap();
    std::thread::spawn(move || {
        for session in server.incoming().flatten() {
            std::thread::spawn(move || serve(session));
        }
    });
    let sessions = |mirror: u32| {
        bypass.set_page(number, &Page { picks: vec![Some(target)], wrap: 0, mirror }).unwrap();
        let connect = |_| {
            let session = TcpStream::connect(dialled).unwrap();
            session.set_nodelay(true).unwrap();
            session
        };
        (0..SESSIONS).map(connect).collect::<Vec<_>>()
    };
    let kinds = [sessions(0), sessions(1)];
    bypass.set_mirroring(true).unwrap();
    let mut mirror = Mirror::open(&bypass).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let told = over.clone();
    let reader = std::thread::spawn(move || {
        while !told.load(Relaxed) {
            mirror.wait(Duration::from_millis(10));
            mirror.read(|_| ());
        }
        mirror.missed().unwrap()
    });
    let mut ratios = Vec::new();
    let mut extra = Vec::new();
    for _ in 0..PAIRS {
        let [plain, mirrored] = [0, 1].map(|kind| round_trips(&kinds[kind]));
        ratios.push(mirrored as f64 / plain as f64);
        let each = |trips: u64| SLICE.as_secs_f64() * 1e6 * SESSIONS as f64 / trips as f64;
        extra.push(each(mirrored) - each(plain));
    }
    over.store(true, Relaxed);
    let missed = reader.join().unwrap();
    pins::remove(&[name]).unwrap();
    let middle = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[(share * (values.len() - 1) as f64) as usize];
        (at(0.5), at(0.25), at(0.75))
    };
    let (ratio, low, high) = middle(&mut ratios);
    let (more, least, most) = middle(&mut extra);
    println!(
        "{PAIRS} pairs of {SLICE:?}, {SESSIONS} sessions: {ratio:.3} [{low:.3}, {high:.3}] times the rate when mirrored (median, \
         quartiles); {more:.2} [{least:.2}, {most:.2}] us more for a round trip; {missed} pieces missed"
    );
}

fn serve(mut session: TcpStream) {
    session.set_nodelay(true).unwrap();
    let mut statement = [0; STATEMENT];
    while session.read_exact(&mut statement).is_ok() && session.write_all(&[7; ANSWER]).is_ok() {}
}

/// How many all sessions together make in a slice.
fn round_trips(sessions: &[TcpStream]) -> u64 {
    let end = Instant::now() + SLICE;
    std::thread::scope(|scope| {
        let one = |mut session: &TcpStream| {
            let mut trips = 0;
            while Instant::now() < end {
                session.write_all(&[7; STATEMENT]).unwrap();
                session.read_exact(&mut [0; ANSWER]).unwrap();
                trips += 1;
            }
            trips
        };
        let all: Vec<_> = sessions.iter().map(|session| scope.spawn(move || one(session))).collect();
        all.into_iter().map(|session| session.join().unwrap()).sum()
    })
}
