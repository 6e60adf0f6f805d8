//! What an observer hears: the same however the stream is split, with the counts of the script.

use super::recordings::exchanges;
use super::script::{IDLE, PLAIN, Script, framed, greeting, login};
use wire::{Capabilities, Command, Event, Finish, Observer, Status, Tracker, packet};

const NO_EOF: Capabilities = Capabilities::ORDINARY.union(Capabilities::DEPRECATE_EOF);

/// Everything heard, in words; texts whole.
#[derive(Default)]
struct Log {
    heard: Vec<String>,
    text: Vec<u8>,
    open: Option<(Command, u64)>,
}

impl Log {
    fn close(&mut self) {
        if let Some((command, bytes)) = self.open.take() {
            let text = String::from_utf8_lossy(&self.text).into_owned();
            self.heard.push(format!("{command} of {bytes} bytes: {text:?}"));
        }
    }
}

impl Observer for Log {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Packet => {}
            Event::Command(start) if !start.command.is_answered() => {
                self.heard.extend(start.closes().map(|statement| format!("closed {statement}")));
            }
            Event::Command(start) => {
                self.text = start.body.to_vec();
                self.open = Some((start.command, start.bytes));
                if start.whole {
                    self.close();
                }
            }
            Event::Body(body) => self.text.extend_from_slice(body),
            Event::BodyEnd => self.close(),
            Event::Answer => self.heard.push("answering".to_owned()),
            Event::AnswerEnd(finish) => self.heard.push(format!("{finish:?}")),
        }
    }
}

#[test]
fn recorded_sessions_sound_the_same_however_they_are_split() {
    for (name, runs) in exchanges() {
        let heard = |step: usize| {
            let (mut tracker, mut log) = (Tracker::new(), Log::default());
            for (client, bytes) in &runs {
                for chunk in bytes.chunks(step) {
                    if *client {
                        tracker.client_bytes_with(chunk, &mut log);
                    } else {
                        tracker.server_bytes_with(chunk, &mut log);
                    }
                }
            }
            assert_eq!(
                log.heard.iter().filter(|line| line.starts_with("Finish")).count() as u64,
                tracker.progress().completed
            );
            log.heard
        };
        let whole = heard(usize::MAX);
        for step in [1, 2, 3, 5, 64, 511, 513] {
            assert_eq!(heard(step), whole, "{name} in steps of {step}");
        }
    }
}

#[test]
fn rows_changes_errors_and_bytes_are_those_of_the_answer() {
    for capabilities in [Capabilities::ORDINARY, NO_EOF] {
        let mut finishes = Vec::new();
        let mut s = Script::new(capabilities);
        s.query("SELECT a FROM t; UPDATE t SET a = 1");
        let mut answer = Vec::new();
        let mut result = wire::response::TextResult {
            status: IDLE | Status::MORE_RESULTS_EXISTS,
            ..wire::response::TextResult::of(&["a"])
        };
        for _ in 0..3 {
            result = result.row(&[Some("x")]);
        }
        let mut sequence = s.sequence;
        result.write(&mut answer, &mut sequence, capabilities);
        let ok = wire::response::OkPacket { affected_rows: 7, status: IDLE, ..Default::default() };
        packet::write(&mut answer, &mut sequence, &ok.encode(capabilities));
        hear(&mut s.tracker, &answer, &mut finishes);
        assert_eq!(
            finishes,
            [Finish { rows: 3, affected: 7, bytes: answer.len() as u64, ..Finish::default() }]
        );

        s.query("SELECT oops");
        let mut error = Vec::new();
        packet::write(&mut error, &mut 1, &wire::ErrPacket::new(1054, b"42S22", "no").encode(capabilities));
        finishes.clear();
        hear(&mut s.tracker, &error, &mut finishes);
        assert_eq!(finishes, [Finish { error: Some(1054), bytes: error.len() as u64, ..Finish::default() }]);
    }
}

#[test]
fn a_part_of_a_packet_is_told_where_it_may_be_a_command_and_not_of_a_login_or_a_file() {
    struct Parts(u32);
    impl Observer for Parts {
        fn event(&mut self, event: Event<'_>) {
            self.0 += u32::from(event == Event::Packet);
        }
    }
    let mut parts = Parts(0);
    let mut fresh = Tracker::new();
    fresh.server_bytes(&greeting(PLAIN));
    fresh.client_bytes_with(&login(PLAIN)[..40], &mut parts);
    assert_eq!(parts.0, 0);

    let mut s = Script::new(PLAIN);
    s.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t");
    s.server(b"\xfbx");
    let piece = framed(s.sequence, &[b'1'; 900]);
    for chunk in [&piece[..100], &piece[100..]] {
        s.tracker.client_bytes_with(chunk, &mut parts);
    }
    s.sequence += 1;
    s.client(b"");
    s.ok(IDLE);
    assert_eq!((s.tracker.is_idle(), parts.0), (true, 0));
    s.tracker.client_bytes_with(&framed(0, b"\x03SELECT 1")[..6], &mut parts);
    assert_eq!(parts.0, 1);
}

fn hear(tracker: &mut Tracker, bytes: &[u8], finishes: &mut Vec<Finish>) {
    struct Only<'a>(&'a mut Vec<Finish>);
    impl Observer for Only<'_> {
        fn event(&mut self, event: Event<'_>) {
            if let Event::AnswerEnd(finish) = event {
                self.0.push(finish);
            }
        }
    }
    tracker.server_bytes_with(bytes, &mut Only(finishes));
}
