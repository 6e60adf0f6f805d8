//! Sessions as bytes, and what a recording hears of them.

use super::*;
use crate::login_bytes::{self, framed};
use crate::record::{Recording, RecordingRequest};
use crate::server_counters::ServerCounters;
use fleet::{ListenerRole, ServerName};
use recording::Event;
use std::time::Duration;
use wire::response::{ErrPacket, OkPacket, TextResult};
use wire::{Login, Status};

const CAPABILITIES: Capabilities = Capabilities::ORDINARY;

struct Bench {
    recorder: Arc<Recorder>,
    session: SessionRecorder,
    tracker: Tracker,
    slot: ServerSlot,
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
        tracker.server_bytes(&login_bytes::greeting(CAPABILITIES));
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
        let slot =
            ServerSlot::take(Arc::new(ServerCounters::new(ServerName::new("r"), 1)), ListenerRole::Reader, 0);
        let recorder = Arc::new(Recorder::default());
        let session = SessionRecorder {
            recorder: recorder.clone(),
            prepared: Prepared::new(&recorder),
            ..SessionRecorder::default()
        };
        Self { recorder, session, tracker, slot }
    }

    fn record(&self) -> Recording {
        self.recorder.start(RecordingRequest { one_in: 1, time: Duration::from_secs(60) }).unwrap()
    }

    fn client(&mut self, bytes: &[u8]) {
        let mut observer = self.session.observe(&self.tracker, &self.slot, Instant::now);
        self.tracker.client_bytes_with(bytes, &mut observer);
        observer.finish(&self.tracker);
    }

    fn server(&mut self, bytes: &[u8]) {
        let mut observer = self.session.observe(&self.tracker, &self.slot, Instant::now);
        self.tracker.server_bytes_with(bytes, &mut observer);
        observer.finish(&self.tracker);
    }
}

fn events(recording: &Recording) -> Vec<Event> {
    let mut bytes = Vec::new();
    recording.drain(&mut bytes, usize::MAX);
    let mut rest = bytes.as_slice();
    std::iter::from_fn(|| Event::read(&mut rest)).collect()
}

/// What was said, in the order of the recording.
fn said(recording: &Recording) -> Vec<RecordedCommand> {
    let said = |event| if let Event::Command(said) = event { Some(said) } else { None };
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
    let Event::SessionStart(opened) = &all[0] else { panic!("{all:?}") };
    assert_eq!((opened.user.as_str(), opened.database.as_str(), opened.fresh), ("app", "shop", false));
    assert_eq!(opened.server, "r");
    let [Event::Command(select), Event::Command(selec)] = &all[1..] else { panic!("{all:?}") };
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
    assert_eq!(said[0].answer.unwrap().affected, Some(7));
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
    bench.session = SessionRecorder::default();
    assert!(matches!(events(&recording).last(), Some(Event::SessionEnd(closed)) if closed.session == 1));
    let mut bench = Bench::new();
    drop(bench.record());
    bench.client(&command(Command::Ping, b""));
    assert!(bench.session.recorded.is_none());
}

fn begin(status: Status) -> Vec<u8> {
    let ok = OkPacket {
        affected_rows: 0,
        last_insert_id: 0,
        status: Status::AUTOCOMMIT | status,
        warnings: 0,
        info: b"",
        raw_changes: &[],
    };
    framed(1, &ok.encode(CAPABILITIES))
}

/// The answer to a prepare of a statement with one parameter and no columns.
fn prepared_with_one(id: u8) -> Vec<u8> {
    let definition =
        [&[3][..], b"def", &[0, 0, 0, 1, b'?', 0, 12, 63, 0, 0, 0, 0, 0, 253, 0, 0, 0, 0, 0]].concat();
    let mut out = framed(1, &[0, id, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    out.extend(framed(2, &definition));
    if !CAPABILITIES.contains(Capabilities::DEPRECATE_EOF) {
        out.extend(framed(3, &[0xfe, 0, 0, 2, 0]));
    }
    out
}

#[test]
fn a_session_in_a_transaction_joins_behind_it_and_one_that_stays_in_it_is_counted() {
    let mut bench = Bench::new();
    bench.client(&command(Command::Query, b"BEGIN"));
    bench.server(&begin(Status::IN_TRANS));
    let recording = bench.record();
    bench.client(&command(Command::Query, b"SELECT 'in it'"));
    bench.server(&begin(Status::IN_TRANS));
    bench.client(&command(Command::Query, b"COMMIT"));
    bench.server(&ok(0));
    assert!(said(&recording).is_empty());
    bench.client(&command(Command::Query, b"SELECT 'behind it'"));
    bench.server(&ok(0));
    let all = said(&recording);
    assert_eq!((all.len(), all[0].body.as_slice()), (1, &b"SELECT 'behind it'"[..]));
    assert!(!String::from_utf8_lossy(&recording.finish("over")).contains("transaction"));

    bench.client(&command(Command::Query, b"BEGIN"));
    bench.server(&begin(Status::IN_TRANS));
    let recording = bench.record();
    bench.client(&command(Command::Query, b"SELECT 'for ever'"));
    bench.server(&begin(Status::IN_TRANS));
    let end = recording.finish("over");
    let mut rest = end.as_slice();
    let Some(Event::RecordingEnd(stopped)) = Event::read(&mut rest) else { panic!("{end:?}") };
    assert!(stopped.why.starts_with("over; 1 sessions from before were in a transaction"), "{}", stopped.why);
}

#[test]
fn what_was_prepared_before_is_told_with_its_text_and_its_first_execution_with_its_types() {
    let mut bench = Bench::new();
    bench.client(&command(Command::StmtPrepare, b"SELECT ?"));
    bench.server(&prepared_with_one(1));
    bench.client(&command(Command::StmtPrepare, b"closed"));
    bench.server(&prepared(2));
    bench.client(&command(Command::StmtClose, &[2, 0, 0, 0]));
    bench.client(&command(Command::StmtPrepare, b"ALTER USER a IDENTIFIED BY ?"));
    bench.server(&prepared_with_one(3));
    let execute = |id: u8, rest: &[u8]| {
        command(Command::StmtExecute, &[&[id, 0, 0, 0, 0, 1, 0, 0, 0, 0], rest].concat())
    };
    // Types once, with the first execution: a long integer.
    bench.client(&execute(1, &[1, 3, 0, 5, 0, 0, 0]));
    bench.server(&ok(0));
    let recording = bench.record();
    for value in [6, 7] {
        bench.client(&execute(1, &[0, value, 0, 0, 0]));
        bench.server(&ok(0));
    }
    bench.client(&execute(3, &[1, 254, 0, 1, b'x']));
    bench.server(&ok(0));
    assert_eq!(recording.status().commands, 3, "what was prepared before is no command of the recording");
    let all = said(&recording);
    let [before, first, second, secret] = all.as_slice() else { panic!("{all:?}") };
    assert!(before.before && before.command == Command::StmtPrepare.byte());
    assert_eq!((before.body.as_slice(), before.answer.unwrap().prepared), (&b"SELECT ?"[..], Some(1)));
    assert_eq!(first.body, [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 0, 6, 0, 0, 0]);
    assert_eq!(second.body, [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 7, 0, 0, 0], "said once is enough");
    assert!(secret.left_out && secret.body == [3, 0, 0, 0]);
}

#[test]
fn values_of_a_secret_statement_are_left_out_however_they_are_sent() {
    let mut bench = Bench::new();
    let recording = bench.record();
    let secret = b"ALTER USER a IDENTIFIED BY ?";
    // Prepared and executed as number -1 ahead of the answer, as MariaDB's clients do.
    let mut ahead = command(Command::StmtPrepare, secret);
    ahead.extend(command(Command::StmtExecute, b"\xff\xff\xff\xff\0\x01\0\0\0hunter1"));
    bench.client(&ahead);
    bench.server(&prepared(9));
    bench.server(&ok(0));
    bench.client(&command(Command::StmtSendLongData, b"\x09\0\0\0\0\0hunter2"));
    bench.client(&command(Command::StmtBulkExecute, b"\x09\0\0\0\x80\0hunter3"));
    bench.server(&ok(0));
    bench.client(&command(Command::StmtExecute, b"\x09\0\0\0\0\x01\0\0\0hunter4"));
    bench.server(&ok(0));
    let all = said(&recording);
    assert_eq!(all.len(), 5, "{all:?}");
    for said in &all {
        assert!(said.left_out && said.body.len() <= 4, "{said:?}");
    }
}

#[test]
fn sessions_together_hold_no_more_than_the_recording_may_take() {
    let mut bench = Bench::new();
    let recording = bench.record();
    // A body that is still coming, of another session.
    let sink = bench.recorder.sink(bench.recorder.number()).unwrap();
    assert!(sink.hold(crate::record::HELD - 600));
    let long = vec![b'x'; 4000];
    bench.client(&command(Command::Query, &long));
    bench.client(&command(Command::Query, b"SELECT 1"));
    bench.server(&ok(0));
    bench.server(&ok(0));
    let all = said(&recording);
    assert_eq!((all[0].left_out, all[0].body.len()), (true, 0), "it does not fit");
    assert_eq!(all[1].body, b"SELECT 1", "and holds nothing back");
    sink.release(crate::record::HELD - 600);
    bench.client(&command(Command::Query, &long));
    bench.server(&ok(0));
    assert_eq!(said(&recording)[0].body, long);
    bench.client(&command(Command::Query, b"SELECT 'under way'"));
    drop(bench.session);
    assert!(sink.hold(crate::record::HELD), "a session that has ended holds nothing");
}

#[test]
fn a_driver_that_prepares_and_closes_each_statement_keeps_its_buffers_and_a_reset_forgets_all() {
    let mut bench = Bench::new();
    for n in 0..1000_u32 {
        bench.client(&command(Command::StmtPrepare, format!("SELECT {n}").as_bytes()));
        bench.server(&prepared(1));
        bench.client(&command(Command::StmtClose, &[1, 0, 0, 0]));
    }
    assert!(bench.session.prepared.known().is_empty());
    bench.client(&command(Command::StmtPrepare, b"SELECT 1"));
    bench.server(&prepared(1));
    assert_eq!(bench.session.prepared.known().len(), 1);
    bench.client(&command(Command::ResetConnection, b""));
    bench.server(&ok(0));
    assert!(bench.session.prepared.known().is_empty());
    let huge = vec![b'x'; 100_000];
    bench.client(&command(Command::StmtPrepare, &huge));
    bench.server(&prepared(2));
    assert!(bench.session.prepared.known().is_empty(), "too long to be kept");
    for id in 3..200 {
        bench.client(&command(Command::StmtPrepare, &[b'y'; 1000]));
        bench.server(&prepared(id));
    }
    assert_eq!(bench.session.prepared.known().len(), 65, "64 KiB a session");
}
