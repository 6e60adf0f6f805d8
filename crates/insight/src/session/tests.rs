//! Scripted sessions, with the clock in the test's hand.

use super::*;
use crate::ledger::Shared;
use crate::report::{Collector, Dimension, Filter, Report, Row, Since};
use config::InsightConfig;
use sql::fold::Map;
use std::time::Duration;
use wire::response::{OkPacket, TextResult};
use wire::{Capabilities, Greeting, Login, packet};

const PLAIN: Capabilities = Capabilities::ORDINARY.union(Capabilities::DEPRECATE_EOF);
const IDLE: Status = Status::AUTOCOMMIT;
const OPEN: Status = Status::AUTOCOMMIT.union(Status::IN_TRANS);

/// A session and its thread's ledger.
struct Stand {
    ledger: Rc<RefCell<Ledger>>,
    shared: std::sync::Arc<Shared>,
    session: Session,
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
        let session = Session::begin(ledger.clone(), "db1", "reader 127.0.0.1:3306");
        let start = Instant::now();
        let mut stand =
            Self { ledger, shared, session, tracker: Tracker::new(), capabilities, start, now: start };
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
        let mut observer = self.session.observe(&self.tracker, || self.now);
        self.tracker.client_bytes_with(bytes, &mut observer);
        CommandObserver::finish(observer, &self.tracker);
    }

    fn server(&mut self, bytes: &[u8]) {
        let mut observer = self.session.observe(&self.tracker, || self.now);
        self.tracker.server_bytes_with(bytes, &mut observer);
        CommandObserver::finish(observer, &self.tracker);
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
    let total = s.report().total(&Filter::default()).0;
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
fn a_command_that_is_not_answered_lends_its_first_byte_to_no_other() {
    let mut s = Stand::plain();
    let close = framed(0, &[0x19, 7, 0, 0, 0]);
    s.client(&close[..3]);
    s.after(10);
    s.client(&close[3..]);
    s.after(10);
    s.run("SELECT 1", IDLE);
    assert_eq!(s.report().total(&Filter::default()).0.time_ns, 1_000_000);
}

#[test]
fn a_piece_of_a_file_lends_its_first_byte_to_no_command() {
    let mut s = Stand::plain();
    s.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t");
    s.server(&framed(1, b"\xfbx"));
    let piece = framed(2, &[b'1'; 900]);
    s.client(&piece[..100]);
    s.client(&piece[100..]);
    s.client(&framed(3, b""));
    s.ok(4, IDLE);
    s.after(60_000);
    s.run("SELECT 1", IDLE);
    assert_eq!(s.report().total(&Filter::default()).0.time_ns, 1_000_000);
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
    let total = s.report().total(&Filter::default()).0;
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
    s.session = Session::off();
    assert_eq!(s.counts(Dimension::Endpoint), named(&[("(user shop)", 4), ("orders", 4)]));
}

#[test]
fn errors_are_counted_by_number() {
    let mut s = Stand::plain();
    s.query("INSERT INTO t VALUES (1)");
    let error = wire::ErrPacket::new(1062, b"23000", "duplicate").packet(1, PLAIN);
    s.server(&error);
    let total = s.report().total(&Filter::default()).0;
    assert_eq!((total.errors, total.codes().0), (1, vec![(1062, 1)]));
}

#[test]
fn query_attributes_name_endpoint_and_request() {
    let mut s = Stand::new(PLAIN.union(Capabilities::QUERY_ATTRIBUTES), InsightConfig::default());
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
    let mut s = Stand::new(PLAIN.union(Capabilities::COMPRESS), InsightConfig::default());
    s.client(b"anything at all");
    assert_eq!(
        (s.report().counts().opaque_compression, s.report().total(&Filter::default()).0.count),
        (1, 0)
    );
}

#[test]
fn a_flood_of_statements_and_tags_stays_within_the_limits() {
    let config = InsightConfig { digests: 10, endpoints: 5, ..InsightConfig::default() };
    let mut s = Stand::new(PLAIN, config);
    // Each twice: once half of the places are taken, one that comes once gets none.
    for n in 0..500 {
        let n = n / 2;
        s.run(&format!("SELECT c{n} FROM t /*endpoint='e{n}',request_id='r{n}'*/"), IDLE);
    }
    let (digests, endpoints) = (s.counts(Dimension::Digest), s.counts(Dimension::Endpoint));
    assert_eq!((digests.len(), endpoints.len()), (11, 6 - 1));
    assert_eq!(digests.iter().map(|(_, count)| count).sum::<u64>(), 500);
    assert_eq!(endpoints.iter().find(|(name, _)| name == "(other)").map(|(_, count)| *count), Some(494));
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

#[test]
fn no_password_of_an_account_is_kept_as_an_example() {
    let mut s = Stand::new(PLAIN, InsightConfig { examples: true, ..InsightConfig::default() });
    for statement in [
        "CREATE USER a IDENTIFIED BY 'hidden'",
        "SET PASSWORD FOR a = 'hidden'",
        "CHANGE MASTER TO MASTER_HOST = 'db1', MASTER_PASSWORD = 'hidden'",
    ] {
        s.run(statement, IDLE);
    }
    s.run("SELECT 'shown' FROM t", IDLE);
    let kept = format!("{:?} {:?}", s.ledger.borrow(), s.shared);
    assert!(kept.contains("shown") && !kept.contains("hidden"), "{kept}");
    assert_eq!(s.counts(Dimension::Digest).len(), 4, "they are counted all the same");
}

/// A session that stands for `one_in`, logged in, on a ledger that others share.
fn on(ledger: &Rc<RefCell<Ledger>>, shared: &std::sync::Arc<Shared>, one_in: u32) -> Stand {
    let mut stand = Stand::new(PLAIN, shared.config().clone());
    let session = Session::begin_one_in(one_in, ledger.clone(), "db1", "reader 127.0.0.1:3306");
    stand.session = session;
    (stand.ledger, stand.shared) = (ledger.clone(), shared.clone());
    stand
}

#[test]
fn sessions_that_can_be_read_are_counted_by_server_while_they_can() {
    let shared = Shared::new(InsightConfig::default());
    let ledger = Rc::new(RefCell::new(Ledger::new(shared.clone())));
    let (mut sampled, relayed) = (on(&ledger, &shared, 16), on(&ledger, &shared, 1));
    let readable = || ledger.borrow_mut().snapshot(false).readable().to_vec();
    assert_eq!(readable(), [("db1".into(), 17)]);
    sampled.session.lose();
    assert_eq!(readable(), [("db1".into(), 1)], "it is open, and cannot be read any more");
    drop((sampled, relayed));
    assert_eq!(readable(), []);
}

#[test]
fn a_session_that_stands_for_sixteen_counts_sixteen_times_with_its_error() {
    let shared = Shared::new(InsightConfig::default());
    let ledger = Rc::new(RefCell::new(Ledger::new(shared.clone())));
    let (mut one, mut two) = (on(&ledger, &shared, 16), on(&ledger, &shared, 16));
    let mut relayed = on(&ledger, &shared, 1);
    (0..40).for_each(|_| one.run("SELECT 1", IDLE));
    (0..60).for_each(|_| two.run("SELECT 1", IDLE));
    (0..5).for_each(|_| relayed.run("SELECT 1", IDLE));
    for stand in [&mut one, &mut two, &mut relayed] {
        stand.session = Session::off();
    }
    let (start, now) = (one.start, one.start + Duration::from_secs(10));
    let mut collector = Collector::new(shared.clone(), start);
    let snapshot = || vec![ledger.borrow_mut().snapshot(true)];
    for since in [Since::Start, Since::Recent] {
        let report = collector.report(&snapshot(), since, start, now);
        let (figures, sample) = report.total(&Filter::default());
        assert_eq!((figures.count, figures.latency.count(), sample.measured), (1605, 1605, 105));
        assert_eq!(sample.one_in, 16);
        assert!((sample.error() - 1117.1).abs() < 0.1, "{since:?}: {}", sample.error());
        assert_eq!(report.measured(Dimension::Server)[0].1.count, 105);
    }
    // A stretch in which nothing happened adds nothing but time.
    collector.mark(&snapshot(), now);
    let report = collector.report(&snapshot(), Since::Recent, start, now + Duration::from_secs(1));
    assert_eq!(report.total(&Filter::default()).0.count, 1605);
}

/// Names of digests and their counts, the collector asked.
fn rows(
    collector: &Collector,
    ledger: &Rc<RefCell<Ledger>>,
    start: Instant,
    now: Instant,
) -> Map<String, u64> {
    let report = collector.report(&[ledger.borrow_mut().snapshot(true)], Since::Start, start, now);
    report
        .rows(Dimension::Digest, &Filter::default())
        .into_iter()
        .map(|r| (r.name, r.figures.count))
        .collect()
}

#[test]
fn servers_that_have_left_give_up_their_places_and_those_with_sessions_do_not() {
    let shared = Shared::new(InsightConfig::default());
    let ledger = Rc::new(RefCell::new(Ledger::new(shared.clone())));
    let start = Instant::now();
    let mut collector = Collector::new(shared.clone(), start);
    // It says nothing all the while.
    let kept = Session::begin(ledger.clone(), "kept", "reader");
    for second in 1..=3000u64 {
        drop(Session::begin(ledger.clone(), &format!("db{second}"), "reader"));
        let now = start + Duration::from_secs(second);
        if collector.wants_mark(now) {
            collector.mark(&[ledger.borrow_mut().snapshot(true)], now);
        }
    }
    let names = shared.registry.servers.names();
    let has = |wanted: &str| names.values().any(|name| name == wanted);
    assert!(has("kept") && has("db3000") && !has("db1") && names.len() <= 500, "{}", names.len());
    assert!(names.keys().any(|number| *number == 3001), "no number is given twice");
    drop(kept);
}

#[test]
fn a_new_steady_statement_gets_its_place_while_one_shot_ones_stream_in() {
    let config = InsightConfig { digests: 40, endpoints: 40, ..InsightConfig::default() };
    let shared = Shared::new(config);
    let ledger = Rc::new(RefCell::new(Ledger::new(shared.clone())));
    let mut stand = on(&ledger, &shared, 1);
    let start = stand.now;
    let mut collector = Collector::new(shared.clone(), start);
    let (mut sent, mut found_after) = (0, None);
    for second in 0..600u64 {
        stand.now = start + Duration::from_secs(second);
        // Each of a table with a name of its own, with an endpoint of its own, and twice, so that it looks
        // worth a place.
        for n in 0..4 {
            for _ in 0..2 {
                stand.run(&format!("INSERT INTO t_{second}_{n} VALUES (1) /*route='/{second}/{n}'*/"), IDLE);
            }
        }
        sent += 8;
        if second >= 200 {
            stand.run("SELECT a FROM steady /*route='/steady'*/", IDLE);
            sent += 1;
        }
        let mut snapshots = vec![ledger.borrow_mut().snapshot(true)];
        collector.absorb(&mut snapshots, stand.now);
        if collector.wants_mark(stand.now) {
            collector.mark(&snapshots, stand.now);
            let rows = rows(&collector, &ledger, start, stand.now);
            assert!(rows.len() <= 42, "bounded: {}", rows.len());
            // The last answered command waits for the next one.
            assert_eq!(rows.values().sum::<u64>(), sent, "after {second} s");
            if found_after.is_none() && rows.contains_key("SELECT `a` FROM `steady`") {
                found_after = Some(second - 200);
            }
        }
    }
    assert!(found_after.is_some_and(|seconds| seconds <= 180), "{found_after:?}");
    let report = collector.report(&[ledger.borrow_mut().snapshot(true)], Since::Recent, start, stand.now);
    let steady = Filter { endpoint: Some("/steady".to_owned()), ..Filter::default() };
    assert!(report.total(&steady).0.count >= 9, "and its endpoint");
    let recent = report.total(&Filter::default()).0.count;
    assert!(recent <= 15 * 9, "what was given up is not counted as new: {recent}");
}

/// How many commands of all others there are, and times of them.
fn others(rows: &[Row]) -> (u64, u64) {
    let others = rows.iter().find(|row| row.name == "(other)").map(|row| &row.figures);
    others.map_or((0, 0), |figures| (figures.count, figures.latency.count()))
}

#[test]
fn a_counter_of_all_others_does_not_jump_by_the_past_of_a_name_that_gives_up_its_place() {
    let shared = Shared::new(InsightConfig { endpoints: 16, ..InsightConfig::default() });
    let ledger = Rc::new(RefCell::new(Ledger::new(shared.clone())));
    let mut stand = on(&ledger, &shared, 16);
    let start = stand.now;
    for n in 0..240 {
        stand.run(&format!("SELECT 1 /*route='/{}'*/", n % 24), IDLE);
    }
    stand.session = Session::off();
    let snapshots = [ledger.borrow_mut().snapshot(true)];
    let mut collector = Collector::new(shared, start);
    collector.mark(&snapshots, start + Duration::from_secs(5));
    let later = start + Duration::from_secs(200);
    let told = |collector: &Collector| {
        let report = collector.report(&snapshots, Since::Start, start, later);
        let rows = report.rows(Dimension::Endpoint, &Filter::default());
        (others(&rows), others(&report.counters(Dimension::Endpoint)))
    };
    let (before, counted) = told(&collector);
    assert!(before == counted && counted.0 > 0, "some have no place: {before:?}, {counted:?}");
    collector.mark(&snapshots, later);
    let (after, still) = told(&collector);
    assert!(after.0 > before.0 && after.1 > before.1, "some gave up their places: {before:?}, {after:?}");
    assert_eq!(still, counted);
    // The thread begins anew, and what it had has ended.
    collector.mark(&[], later + Duration::from_secs(5));
    assert_eq!(told(&collector), (after, after), "nothing is left out of what comes");
}

mod aging {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// Whoever gives up a place, and whoever still holds its number: nothing is lost or counted twice,
        /// however it is grouped.
        #[test]
        fn totals_are_conserved(
            statements in prop::collection::vec((0u8..24, 0u8..24, 0u64..90, any::<bool>()), 1..120),
            limit in 1usize..12,
        ) {
            let shared = Shared::new(InsightConfig { digests: limit, endpoints: limit, ..InsightConfig::default() });
            let ledgers = [(); 2].map(|()| Rc::new(RefCell::new(Ledger::new(shared.clone()))));
            let mut sessions = [on(&ledgers[0], &shared, 1), on(&ledgers[1], &shared, 4)];
            let start = sessions[0].now;
            let mut collector = Collector::new(shared.clone(), start);
            let (mut now, mut sent, mut counted) = (start, [0u64; 2], 0);
            for (table, route, seconds, which) in &statements {
                now += Duration::from_secs(*seconds);
                let session = usize::from(*which);
                sessions[session].now = now;
                sessions[session].run(&format!("SELECT a FROM t{table} /*route='/{route}'*/"), IDLE);
                sent[session] += 1;
                let mut snapshots: Vec<_> = ledgers.iter().map(|l| l.borrow_mut().snapshot(true)).collect();
                collector.absorb(&mut snapshots, now);
                if collector.wants_mark(now) {
                    collector.mark(&snapshots, now);
                }
                // One command more is known, which may stand for four.
                let report = collector.report(&snapshots, Since::Start, start, now);
                let (count, _) = others(&report.counters(Dimension::Endpoint));
                prop_assert!((counted..=counted + 4).contains(&count), "{count} after {counted}");
                counted = count;
            }
            for session in &mut sessions {
                session.session = Session::off();
            }
            let snapshots: Vec<_> = ledgers.iter().map(|l| l.borrow_mut().snapshot(true)).collect();
            let report = collector.report(&snapshots, Since::Start, start, now);
            for by in [Dimension::Digest, Dimension::Endpoint, Dimension::User, Dimension::Listener, Dimension::Server] {
                let rows = report.rows(by, &Filter::default());
                prop_assert_eq!(rows.iter().map(|row| row.figures.count).sum::<u64>(), sent[0] + 4 * sent[1]);
                prop_assert_eq!(rows.iter().map(|row| row.sample.measured).sum::<u64>(), sent[0] + sent[1]);
                let measured: u64 = report.measured(by).iter().map(|(_, figures)| figures.count).sum();
                prop_assert_eq!(measured, sent[0] + sent[1]);
            }
            prop_assert!(report.room(Dimension::Digest).used <= limit);
            prop_assert!(report.room(Dimension::Endpoint).used <= limit);
        }
    }
}
