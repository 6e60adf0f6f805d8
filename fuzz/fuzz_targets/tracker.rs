//! A session, both directions interleaved: no panic, counts in order, the same state however the bytes are
//! split, memory within its bound, and no byte of an answer or of a statement told that did not come.
//!
//! The input is a byte that says where the session starts (0: before the greeting; else logged in, its bits
//! are the optional capabilities), then turns: a kind, a length in two bytes, and this many bytes. Kinds with
//! a frame let the fuzzer go deep without guessing sequence ids.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use wire::response::OkPacket;
use wire::{Capabilities, Event, Greeting, Login, Observer, Status, Tracker, packet};

/// What a tracker may hold on the heap: a fixed amount, and more for each command that is not answered yet
/// (at most 1024; each may carry a user's and a database's name of 256 bytes).
const HELD: usize = 16 << 10;
const HELD_FOR_A_COMMAND: usize = 2 << 10;

const OPTIONAL: [Capabilities; 7] = [
    Capabilities::DEPRECATE_EOF,
    Capabilities::SESSION_TRACK,
    Capabilities::QUERY_ATTRIBUTES,
    Capabilities::OPTIONAL_RESULTSET_METADATA,
    Capabilities::MARIADB_CACHE_METADATA,
    Capabilities::LOCAL_FILES,
    Capabilities::CONNECT_ATTRS,
];

fuzz_target!(|input: &[u8]| {
    let Some((start, mut rest)) = input.split_first() else { return };
    let (mut whole, mut cut) = (Tracker::new(), Tracker::new());
    if *start != 0 {
        log_in(&mut whole, *start >> 1);
        log_in(&mut cut, *start >> 1);
    }
    let mut sequence = 0;
    let (mut told, mut came, mut held) = (Told::default(), (0, 0), 0);
    while let [kind, low, high, after @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (payload, next) = after.split_at(length);
        rest = next;
        let (from_client, bytes) = turn(*kind, payload, &mut sequence);
        let before = LIVE.load(Relaxed);
        match from_client {
            true => whole.client_bytes_with(&bytes, &mut told),
            false => whole.server_bytes_with(&bytes, &mut told),
        }
        held = (held + LIVE.load(Relaxed)).saturating_sub(before);
        *(if from_client { &mut came.0 } else { &mut came.1 }) += bytes.len() as u64;
        bytes.chunks(usize::from(*kind >> 4) + 1).for_each(|piece| feed(&mut cut, from_client, piece));
        assert_eq!(seen(&whole), seen(&cut));
        let progress = whole.progress();
        assert!(progress.started >= progress.answering && progress.answering >= progress.completed);
        let outstanding = (progress.started - progress.completed) as usize;
        assert!(held <= HELD + outstanding * HELD_FOR_A_COMMAND, "{held} bytes for {outstanding} commands");
        assert!(told.texts <= came.0 && told.answers <= came.1, "{told:?} of {came:?}");
        assert!(told.finished <= told.started);
    }
});

/// What an observer was told.
#[derive(Debug, Default)]
struct Told {
    started: u64,
    finished: u64,
    texts: u64,
    answers: u64,
}

impl Observer for Told {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Command(start) => {
                self.started += u64::from(start.command.is_answered());
                self.texts += start.body.len() as u64;
            }
            Event::Body(body) => self.texts += body.len() as u64,
            Event::AnswerEnd(finish) => {
                self.finished += 1;
                self.answers += finish.bytes;
            }
            Event::Packet | Event::BodyEnd | Event::Answer => {}
        }
    }
}

/// Bytes on the heap now.
static LIVE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: everything is the system's; only sizes are added up.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn turn(kind: u8, payload: &[u8], sequence: &mut u8) -> (bool, Vec<u8>) {
    let framed = |sequence: &mut u8| {
        let mut out = Vec::new();
        packet::write(&mut out, sequence, payload);
        out
    };
    match kind % 5 {
        0 => (true, payload.to_vec()),
        1 => (false, payload.to_vec()),
        2 => {
            *sequence = 0;
            (true, framed(sequence))
        }
        3 => (true, framed(sequence)),
        _ => (false, framed(sequence)),
    }
}

fn feed(tracker: &mut Tracker, from_client: bool, bytes: &[u8]) {
    if from_client { tracker.client_bytes(bytes) } else { tracker.server_bytes(bytes) }
}

fn seen(tracker: &Tracker) -> impl PartialEq + std::fmt::Debug {
    (
        (tracker.phase(), tracker.is_idle(), tracker.in_transaction(), tracker.sticky()),
        (tracker.progress(), tracker.command(), tracker.next_sequence()),
        (tracker.user().map(str::to_owned), tracker.database().map(str::to_owned)),
    )
}

fn log_in(tracker: &mut Tracker, bits: u8) {
    let chosen = OPTIONAL.iter().enumerate().filter(|(i, _)| bits & (1 << i) != 0);
    let capabilities = chosen
        .fold(Capabilities::ORDINARY.difference(Capabilities::LONG_PASSWORD), |all, (_, flag)| all | *flag);
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
    let mut out = Vec::new();
    packet::write(&mut out, &mut 0, &greeting.encode());
    tracker.server_bytes(&out);
    out.clear();
    packet::write(&mut out, &mut 1, &login.encode());
    tracker.client_bytes(&out);
    out.clear();
    packet::write(&mut out, &mut 2, &ok.encode(capabilities));
    tracker.server_bytes(&out);
}
