//! Sessions as bytes, and what a recording hears of them.

use super::*;
use crate::record::{Recording, Wanted};
use crate::tally::Tally;
use fleet::{ListenerRole, ServerName};
use recording::Event;
use std::time::Duration;
use wire::response::{ErrPacket, OkPacket, TextResult};
use wire::{Greeting, Login, Status, packet};

const CAPABILITIES: Capabilities = Capabilities::ORDINARY;

struct Bench {
    recorder: Arc<Recorder>,
    tap: Tap,
    tracker: Tracker,
    seat: Seat,
}

fn framed(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let (mut out, mut sequence) = (Vec::new(), sequence);
    packet::write(&mut out, &mut sequence, payload);
    out
}

fn command(command: Command, body: &[u8]) -> Vec<u8> {
    framed(0, &[&[command.byte()], body].concat())
}

fn ok(affected_rows: u64) -> Vec<u8> {
    let ok = OkPacket {
        affected_rows,
        last_insert_id: 0,
        status: Status::AUTOCOMMIT,
        warnings: 0,
        info: b"",
        raw_changes: &[],
    };
    framed(1, &ok.encode(CAPABILITIES))
}

/// The answer to a prepare of a statement without parameters and columns.
fn prepared(id: u8) -> Vec<u8> {
    framed(1, &[0, id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

impl Bench {
    /// A session that is logged in, before anybody records.
    fn new() -> Self {
        let mut tracker = Tracker::new();
        let greeting = Greeting {
            version: "11.8.1-MariaDB".to_owned(),
            connection_id: 1,
            nonce: vec![b'n'; 20],
            capabilities: CAPABILITIES,
            charset: 45,
            status: Status::AUTOCOMMIT,
            auth_plugin: String::new(),
        };
        tracker.server_bytes(&framed(0, &greeting.encode()));
        let login = Login {
            capabilities: CAPABILITIES,
            charset: 45,
            user: b"app",
            database: b"shop",
            ..Login::default()
        };
        tracker.client_bytes(&framed(1, &login.encode()));
        let done = OkPacket {
            affected_rows: 0,
            last_insert_id: 0,
            status: Status::AUTOCOMMIT,
            warnings: 0,
            info: b"",
            raw_changes: &[],
        };
        tracker.server_bytes(&framed(2, &done.encode(CAPABILITIES)));
        let seat = Seat::take(Arc::new(Tally::new(ServerName::new("r"), 1)), ListenerRole::Reader, 0);
        let recorder = Arc::new(Recorder::default());
        let tap = Tap { recorder: recorder.clone(), ..Tap::default() };
        Self { recorder, tap, tracker, seat }
    }

    fn record(&self) -> Recording {
        self.recorder.start(Wanted { one_in: 1, time: Duration::from_secs(60) }).unwrap()
    }

    fn client(&mut self, bytes: &[u8]) {
        self.tap.client_bytes(&mut Insight::off(), &mut self.tracker, bytes, &self.seat);
    }

    fn server(&mut self, bytes: &[u8]) {
        self.tap.server_bytes(&mut Insight::off(), &mut self.tracker, bytes, &self.seat);
    }
}

fn events(recording: &Recording) -> Vec<Event> {
    let mut bytes = Vec::new();
    recording.drain(&mut bytes, usize::MAX);
    let mut rest = bytes.as_slice();
    std::iter::from_fn(|| Event::read(&mut rest)).collect()
}

/// What was said, in the order of the recording.
fn said(recording: &Recording) -> Vec<Said> {
    let said = |event| if let Event::Said(said) = event { Some(said) } else { None };
    events(recording).into_iter().filter_map(said).collect()
}

#[test]
fn a_statement_is_told_with_its_rows_and_its_error() {
    let mut bench = Bench::new();
    let recording = bench.record();
    bench.client(&command(Command::Query, b"SELECT 1"));
    let mut answer = Vec::new();
    TextResult::of(&["1"]).row(&[Some("1")]).row(&[None]).write(&mut answer, &mut 1, CAPABILITIES);
    bench.server(&answer);
    bench.client(&command(Command::Query, b"SELEC"));
    let error = ErrPacket::new(1064, b"42000", "no");
    bench.server(&error.packet(1, CAPABILITIES));
    let all = events(&recording);
    let Event::Opened(opened) = &all[0] else { panic!("{all:?}") };
    assert_eq!((opened.user.as_str(), opened.database.as_str(), opened.fresh), ("app", "shop", false));
    assert_eq!(opened.server, "r");
    let [Event::Said(select), Event::Said(selec)] = &all[1..] else { panic!("{all:?}") };
    assert_eq!((select.body.as_slice(), select.answer.unwrap().rows), (&b"SELECT 1"[..], 2));
    assert_eq!((selec.body.as_slice(), selec.answer.unwrap().error), (&b"SELEC"[..], Some(1064)));
}

#[test]
fn what_is_under_way_when_recording_begins_is_left_out_and_the_next_is_not() {
    let mut bench = Bench::new();
    bench.client(&command(Command::Query, b"SELECT 'before'"));
    let recording = bench.record();
    bench.server(&ok(0));
    bench.client(&command(Command::Query, b"SELECT 'after'"));
    bench.server(&ok(7));
    let said = said(&recording);
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].body, b"SELECT 'after'");
    assert_eq!(said[0].answer.unwrap().affected, 7);
}

#[test]
fn commands_sent_ahead_and_those_without_an_answer_keep_their_order() {
    let mut bench = Bench::new();
    let recording = bench.record();
    let ahead = [
        command(Command::StmtPrepare, b"INSERT INTO t VALUES (1)"),
        command(Command::StmtSendLongData, &[5, 0, 0, 0, 0, 0, b'x']),
        command(Command::StmtExecute, &[5, 0, 0, 0, 0, 1, 0, 0, 0]),
        command(Command::StmtClose, &[5, 0, 0, 0]),
        command(Command::Query, b"SELECT 2"),
    ];
    let all = ahead.concat();
    for byte in all.chunks(3) {
        bench.client(byte);
    }
    bench.server(&[prepared(5), ok(1), ok(0)].concat());
    bench.client(&command(Command::StmtClose, &[6, 0, 0, 0]));
    let said = said(&recording);
    let order: Vec<u8> = said.iter().map(|said| said.command).collect();
    assert_eq!(order, [0x16, 0x18, 0x17, 0x19, 0x03, 0x19]);
    assert_eq!(said[0].answer.unwrap().prepared, Some(5));
    assert_eq!(said[1].body, [5, 0, 0, 0, 0, 0, b'x']);
    assert_eq!(said[1].answer, None);
}

#[test]
fn long_statements_and_long_data_come_whole_through_any_chunks() {
    let mut bench = Bench::new();
    let recording = bench.record();
    let text = format!("SELECT '{}'", "x".repeat(100_000)).into_bytes();
    let data = [&[1, 0, 0, 0, 0, 0][..], &vec![b'y'; 5000]].concat();
    for bytes in [command(Command::StmtSendLongData, &data), command(Command::Query, &text)] {
        for chunk in bytes.chunks(777) {
            bench.client(chunk);
        }
    }
    bench.server(&ok(0));
    let said = said(&recording);
    assert_eq!((&said[0].body, &said[1].body), (&data, &text));
}

#[test]
fn passwords_are_never_told() {
    let mut bench = Bench::new();
    let recording = bench.record();
    bench.client(&command(Command::Query, b"ALTER USER a IDENTIFIED BY 'geheim'"));
    bench.server(&ok(0));
    bench.client(&command(Command::StmtPrepare, b"SET PASSWORD = ?"));
    bench.server(&prepared(9));
    bench.client(&command(Command::StmtExecute, b"\x09\0\0\0\0\x01\0\0\0geheim"));
    bench.server(&ok(0));
    bench.client(&command(Command::ChangeUser, b"other\0\x06geheimshop2\0\x2d\0"));
    let mut bytes = Vec::new();
    recording.drain(&mut bytes, usize::MAX);
    bytes.extend(recording.finish("test"));
    bench.server(&framed(1, &[0, 0, 0, 2, 0, 0, 0]));
    assert!(!bytes.windows(6).any(|at| at == b"geheim"), "{}", String::from_utf8_lossy(&bytes));
}

#[test]
fn a_change_of_user_is_told_as_the_database_that_it_asks_for() {
    let mut bench = Bench::new();
    let recording = bench.record();
    bench.client(&command(Command::ChangeUser, b"other\0\x06geheimshop2\0\x2d\0"));
    bench.server(&framed(1, &[0, 0, 0, 2, 0, 0, 0]));
    let said = said(&recording);
    assert_eq!((said[0].command, said[0].body.as_slice(), said[0].left_out), (0x11, &b"shop2"[..], true));
}

#[test]
fn the_end_of_a_session_is_told_and_after_a_recording_nothing_is() {
    let mut bench = Bench::new();
    let recording = bench.record();
    bench.client(&command(Command::Ping, b""));
    bench.server(&ok(0));
    bench.tap = Tap::default();
    assert!(matches!(events(&recording).last(), Some(Event::Closed(closed)) if closed.session == 1));
    let mut bench = Bench::new();
    drop(bench.record());
    bench.client(&command(Command::Ping, b""));
    assert!(bench.tap.recorded.is_none());
}
