//! Scripted sessions, with the clock in the test's hand.

use super::*;
use crate::ledger::Shared;
use crate::report::{Collector, Dimension, Filter, Report, Since};
use fleet::config::InsightConfig;
use std::time::Duration;
use wire::response::{OkPacket, TextResult};
use wire::{Capabilities, Greeting, Login, packet};

const PLAIN: Capabilities = Capabilities::ORDINARY.with(Capabilities::DEPRECATE_EOF);
const IDLE: Status = Status::AUTOCOMMIT;
const OPEN: Status = Status::AUTOCOMMIT.with(Status::IN_TRANS);

/// A session and its thread's ledger.
struct Stand {
    ledger: Rc<RefCell<Ledger>>,
    shared: std::sync::Arc<Shared>,
    watch: Option<Box<Watch>>,
    tracker: Tracker,
    capabilities: Capabilities,
    start: Instant,
    now: Instant,
}

fn framed(mut sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    packet::write(&mut out, &mut sequence, payload);
    out
}

impl Stand {
    fn new(capabilities: Capabilities, config: InsightConfig) -> Self {
        let shared = Shared::new(config);
        let ledger = Rc::new(RefCell::new(Ledger::new(shared.clone())));
        let Session(watch) = Session::begin(ledger.clone(), "db1", "reader 127.0.0.1:3306");
        let start = Instant::now();
        let mut stand =
            Self { ledger, shared, watch, tracker: Tracker::new(), capabilities, start, now: start };
        let greeting = Greeting {
            version: "8.4.3".into(),
            connection_id: 1,
            nonce: vec![1; 20],
            capabilities,
            charset: 45,
            status: IDLE,
            auth_plugin: String::new(),
        };
        stand.server(&framed(0, &greeting.encode()));
        stand.client(&framed(1, &Login { capabilities, user: b"shop", ..Login::default() }.encode()));
        stand.ok(2, IDLE);
        stand
    }

    fn plain() -> Self {
        Self::new(PLAIN, InsightConfig::default())
    }

    fn client(&mut self, bytes: &[u8]) {
        let watch = self.watch.as_mut().expect("a session under way");
        watch.client_bytes(&mut self.tracker, bytes, self.now, &mut ());
    }

    fn server(&mut self, bytes: &[u8]) {
        let watch = self.watch.as_mut().expect("a session under way");
        watch.server_bytes(&mut self.tracker, bytes, self.now, &mut ());
    }

    fn after(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    fn ok(&mut self, sequence: u8, status: Status) {
        let ok = OkPacket { status, ..OkPacket::default() };
        let bytes = framed(sequence, &ok.encode(self.capabilities));
        self.server(&bytes);
    }

    fn query(&mut self, sql: &str) {
        self.client(&framed(0, &[b"\x03", sql.as_bytes()].concat()));
    }

    fn rows(&mut self, count: usize, status: Status) {
        let mut result = TextResult { status, ..TextResult::of(&["c"]) };
        for _ in 0..count {
            result = result.row(&[Some("value")]);
        }
        let mut bytes = Vec::new();
        result.write(&mut bytes, &mut 1, self.capabilities);
        self.server(&bytes);
    }

    /// A statement and its OK, a millisecond later.
    fn run(&mut self, sql: &str, status: Status) {
        self.query(sql);
        self.after(1);
        self.ok(1, status);
    }

    fn report(&self) -> Report {
        let collector = Collector::new(self.shared.clone(), self.start);
        let snapshot = self.ledger.borrow_mut().snapshot(true);
        collector.report(&[snapshot], Since::Start, self.start, self.now)
    }

    /// Names and counts, by name.
    fn counts(&self, by: Dimension) -> Vec<(String, u64)> {
        let rows = self.report().rows(by, &Filter::default());
        let mut counts: Vec<_> = rows.into_iter().map(|row| (row.name, row.figures.count)).collect();
        counts.sort();
        counts
    }
}

fn named(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
    counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn a_command_is_timed_from_its_first_byte_to_the_last_of_its_answer() {
    let mut s = Stand::plain();
    let command = framed(0, b"\x03SELECT a FROM t WHERE id = 7 /*endpoint='cart'*/");
    s.client(&command[..3]);
    s.after(5);
    s.client(&command[3..]);
    s.after(10);
    let mut answer = Vec::new();
    let result = TextResult { status: IDLE, ..TextResult::of(&["c"]) }.row(&[Some("x")]).row(&[None]);
    result.write(&mut answer, &mut 1, PLAIN);
    s.server(&answer[..1]);
    s.after(20);
    s.server(&answer[1..]);
    let total = s.report().total(&Filter::default());
    assert_eq!((total.count, total.rows, total.errors), (1, 2, 0));
    assert_eq!((total.time_ns, total.first_byte_ns), (35_000_000, 15_000_000));
    assert_eq!((total.bytes_to_server, total.bytes_to_client), (command.len() as u64, answer.len() as u64));
    assert_eq!(s.counts(Dimension::Digest), named(&[("SELECT `a` FROM `t` WHERE `id` = ?", 1)]));
    assert_eq!(s.counts(Dimension::Endpoint), named(&[("cart", 1)]));
    assert_eq!(s.counts(Dimension::User), named(&[("shop", 1)]));
    assert_eq!(s.counts(Dimension::Server), named(&[("db1", 1)]));
    assert_eq!(s.counts(Dimension::Listener), named(&[("reader 127.0.0.1:3306", 1)]));
}

#[test]
fn commands_sent_ahead_run_each_from_their_own_first_byte() {
    let mut s = Stand::plain();
    s.query("SELECT 1");
    s.after(10);
    s.query("SELECT 1");
    s.after(10);
    s.ok(1, IDLE);
    s.after(10);
    s.ok(1, IDLE);
    let total = s.report().total(&Filter::default());
    assert_eq!((total.count, total.time_ns), (2, 40_000_000));
}

#[test]
fn a_statement_in_pieces_is_the_same_statement_and_its_last_comment_is_read() {
    let list: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let sql = format!("SELECT a FROM t WHERE id IN ({}) /*endpoint='export'*/", list.join(","));
    for step in [100, 511, 4096, 16_384, sql.len()] {
        let mut s = Stand::plain();
        for chunk in framed(0, &[b"\x03", sql.as_bytes()].concat()).chunks(step) {
            s.client(chunk);
        }
        s.rows(1, IDLE);
        s.run("SELECT a FROM t WHERE id IN (1, 2) /*endpoint='export'*/", IDLE);
        assert_eq!(s.counts(Dimension::Endpoint), named(&[("export", 2)]), "{step}");
        assert_eq!(s.report().counts().long, 1, "{step}");
    }
    let mut s = Stand::plain();
    let sql = format!("SELECT a FROM t WHERE label = '{}' /*endpoint='one'*/", "x".repeat(5000));
    for chunk in framed(0, &[b"\x03", sql.as_bytes()].concat()).chunks(700) {
        s.client(chunk);
    }
    s.rows(1, IDLE);
    s.run("SELECT a FROM t WHERE label = 'y'", IDLE);
    assert_eq!(s.counts(Dimension::Digest), named(&[("SELECT `a` FROM `t` WHERE `label` = ?", 2)]));
}

#[test]
fn prepared_statements_count_by_their_text() {
    let mut s = Stand::plain();
    s.client(&framed(0, b"\x16SELECT a FROM t WHERE id = ? /*endpoint='cart'*/"));
    s.server(&framed(1, &[0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    for _ in 0..3 {
        s.client(&framed(0, &[0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0]));
        s.rows(1, IDLE);
    }
    s.client(&framed(0, &[0x19, 7, 0, 0, 0]));
    let expected = [("(COM_STMT_PREPARE)", 1), ("SELECT `a` FROM `t` WHERE `id` = ?", 3)];
    assert_eq!(s.counts(Dimension::Digest), named(&expected));
    assert_eq!(s.counts(Dimension::Endpoint), named(&[("cart", 4)]));
    s.client(&framed(0, &[0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0]));
    s.ok(1, IDLE);
    assert_eq!(s.report().counts().unknown_prepared, 1);
}

#[test]
fn a_transaction_belongs_to_the_endpoint_of_its_statements() {
    let mut s = Stand::plain();
    s.run("BEGIN", OPEN);
    s.run("UPDATE t SET a = 1 /*endpoint='orders'*/", OPEN);
    s.run("SAVEPOINT x", OPEN);
    s.run("COMMIT", IDLE);
    s.run("SELECT 1", IDLE);
    s.run("BEGIN", OPEN);
    s.run("ROLLBACK", IDLE);
    assert_eq!(s.counts(Dimension::Endpoint), named(&[("(user shop)", 3), ("orders", 4)]));
    // What waits for the next statement is counted when the session ends.
    s.run("BEGIN", OPEN);
    s.watch = None;
    assert_eq!(s.counts(Dimension::Endpoint), named(&[("(user shop)", 4), ("orders", 4)]));
}

#[test]
fn errors_are_counted_by_number() {
    let mut s = Stand::plain();
    s.query("INSERT INTO t VALUES (1)");
    let error = wire::ErrPacket::new(1062, b"23000", "duplicate").packet(1, PLAIN);
    s.server(&error);
    let total = s.report().total(&Filter::default());
    assert_eq!((total.errors, total.codes().0), (1, vec![(1062, 1)]));
}

#[test]
fn query_attributes_name_endpoint_and_request() {
    let mut s = Stand::new(PLAIN.with(Capabilities::QUERY_ATTRIBUTES), InsightConfig::default());
    let mut body = vec![3, 2, 1, 0, 1];
    for name in ["endpoint", "request_id"] {
        body.extend_from_slice(&[254, 0, name.len() as u8]);
        body.extend_from_slice(name.as_bytes());
    }
    body.extend_from_slice(b"\x04cart\x02r1SELECT 1 /*endpoint='not this'*/");
    s.client(&framed(0, &body));
    s.rows(1, IDLE);
    let mut snapshot = [s.ledger.borrow_mut().snapshot(true)];
    let mut collector = Collector::new(s.shared.clone(), s.start);
    collector.absorb(&mut snapshot, s.now + Duration::from_secs(60));
    let report = collector.report(&snapshot, Since::Start, s.start, s.now);
    let (endpoint, figures) = &report.requests()[0];
    assert_eq!((endpoint.as_str(), figures.count, figures.commands), ("cart", 1, 1));
    assert_eq!(s.counts(Dimension::Endpoint), named(&[("cart", 1)]));
}

#[test]
fn a_request_spans_its_first_byte_to_its_last_answer_and_thinks_in_between() {
    let mut s = Stand::plain();
    s.run("BEGIN", OPEN);
    s.after(40);
    s.run("UPDATE t SET a = 1 /*endpoint='orders',request_id='r1'*/", OPEN);
    s.after(60);
    s.run("COMMIT", IDLE);
    let end = s.now;
    s.after(9_000);
    let mut snapshot = [s.ledger.borrow_mut().snapshot(true)];
    let mut collector = Collector::new(s.shared.clone(), s.start);
    // It is the last answer that it has been quiet since, not the moment at which that was counted.
    collector.absorb(&mut snapshot, end + InsightConfig::default().request_quiet);
    let report = collector.report(&snapshot, Since::Start, s.start, s.now);
    let (endpoint, figures) = &report.requests()[0];
    assert_eq!((endpoint.as_str(), figures.count, figures.commands), ("orders", 1, 3));
    let ms = |ms: u64| ms * 1_000_000;
    assert_eq!((figures.span_ns, figures.time_ns, figures.thinking_ns), (ms(103), ms(3), ms(100)));
}

#[test]
fn a_session_that_cannot_be_read_is_relayed_and_counted() {
    let mut s = Stand::new(PLAIN.with(Capabilities::COMPRESS), InsightConfig::default());
    s.client(b"anything at all");
    assert_eq!((s.report().counts().opaque_compression, s.report().total(&Filter::default()).count), (1, 0));
}

#[test]
fn a_flood_of_statements_and_tags_stays_within_the_limits() {
    let config = InsightConfig { digests: 10, endpoints: 5, ..InsightConfig::default() };
    let mut s = Stand::new(PLAIN, config);
    for n in 0..500 {
        s.run(&format!("SELECT c{n} FROM t /*endpoint='e{n}',request_id='r{n}'*/"), IDLE);
    }
    let (digests, endpoints) = (s.counts(Dimension::Digest), s.counts(Dimension::Endpoint));
    assert_eq!((digests.len(), endpoints.len()), (11, 6 - 1));
    assert_eq!(digests.iter().map(|(_, count)| count).sum::<u64>(), 500);
    assert_eq!(endpoints.iter().find(|(name, _)| name == "(other)").map(|(_, count)| *count), Some(496));
    assert_eq!(s.report().room(Dimension::Digest), crate::Room { used: 10, limit: 10 });
}

#[test]
fn no_literal_is_kept_unless_examples_are_asked_for() {
    for examples in [false, true] {
        let mut s = Stand::new(PLAIN, InsightConfig { examples, ..InsightConfig::default() });
        s.run("SELECT 'secret' FROM t", IDLE);
        let kept = format!("{:?} {:?}", s.ledger.borrow(), s.shared);
        assert_eq!(kept.contains("secret"), examples);
    }
}
