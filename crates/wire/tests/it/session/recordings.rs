//! Sessions recorded from real servers and clients, replayed through the tracker at several splits.
//!
//! Every `.txt` file in `tests/recorded/` is one; its README says what the lines mean and how to record
//! again.

use std::fmt::Write as _;
use std::path::PathBuf;
use wire::{Phase, Tracker};

/// A line of a recording.
enum Line {
    Client(Vec<u8>),
    Server(Vec<u8>),
    /// What holds here: (name, value), the phase first.
    Holds(Vec<(String, String)>),
}

fn recordings() -> Vec<(String, Vec<Line>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("the folder of recordings") {
        let path = entry.expect("an entry of the folder").path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let name = path.file_stem().expect("a file name").to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).expect("a recording");
            found.push((name, text.lines().filter_map(parse).collect()));
        }
    }
    assert!(!found.is_empty(), "no recordings in {}", folder.display());
    found.sort_by(|a: &(String, Vec<Line>), b| a.0.cmp(&b.0));
    found
}

/// Bytes of one side: from the client or not, and what.
pub(crate) type Run = (bool, Vec<u8>);

/// Every recording with its runs of bytes.
pub(crate) fn exchanges() -> Vec<(String, Vec<Run>)> {
    let runs = |lines: Vec<Line>| {
        let run = |line| match line {
            Line::Client(bytes) => Some((true, bytes)),
            Line::Server(bytes) => Some((false, bytes)),
            Line::Holds(_) => None,
        };
        lines.into_iter().filter_map(run).collect()
    };
    recordings().into_iter().map(|(name, lines)| (name, runs(lines))).collect()
}

fn parse(line: &str) -> Option<Line> {
    let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
    match mark {
        "C" => Some(Line::Client(bytes(rest))),
        "S" => Some(Line::Server(bytes(rest))),
        "=" => {
            let mut facts = rest.split('|').map(str::trim);
            let phase = ("phase".to_owned(), facts.next().unwrap_or_default().to_owned());
            let rest = facts.map(|fact| {
                let (name, value) = fact.split_once(' ').unwrap_or((fact, ""));
                (name.to_owned(), value.trim().to_owned())
            });
            Some(Line::Holds(std::iter::once(phase).chain(rest).collect()))
        }
        "#" | "" => None,
        other => panic!("a recording has a line that starts with {other:?}"),
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.bytes().map(|b| (b as char).to_digit(16).expect("hexadecimal digits") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn phase(tracker: &Tracker) -> &'static str {
    match tracker.phase() {
        Phase::Greeting => "greeting",
        Phase::Login => "login",
        Phase::Authenticating => "authenticating",
        Phase::Idle if !tracker.is_idle() => "idle but in the middle of a packet",
        Phase::Idle => "idle",
        Phase::Busy => "busy",
        Phase::Infile => "infile",
        Phase::Streaming => "streaming",
        Phase::Closing(_) => "closing",
        Phase::Opaque(_) => "opaque",
        Phase::Lost(_) => "lost",
    }
}

/// In the words of the recordings: those of the flags.
fn sticky(tracker: &Tracker) -> String {
    let words = |(name, _): (&str, _)| name.to_lowercase().replace('_', " ");
    tracker.sticky().iter_names().map(words).collect::<Vec<_>>().join(", ")
}

fn fact(tracker: &Tracker, name: &str) -> String {
    match name {
        "phase" => phase(tracker).to_owned(),
        "completed" => tracker.commands_completed().to_string(),
        "failed" => tracker.progress().failed.to_string(),
        "transaction" => if tracker.in_transaction() { "yes" } else { "no" }.to_owned(),
        "sticky" => sticky(tracker),
        "user" => tracker.user().unwrap_or_default().to_owned(),
        "database" => tracker.database().unwrap_or_default().to_owned(),
        other => panic!("a recording asks for {other:?}, which this test does not know"),
    }
}

/// Replays with the bytes of every line cut by `cut`, and tells where the tracker differs from what holds.
fn replay(lines: &[Line], mut cut: impl FnMut(usize) -> usize) -> String {
    let mut tracker = Tracker::new();
    let mut wrong = String::new();
    for (number, line) in lines.iter().enumerate() {
        match line {
            Line::Client(bytes) => in_pieces(bytes, &mut cut, |piece| tracker.client_bytes(piece)),
            Line::Server(bytes) => in_pieces(bytes, &mut cut, |piece| tracker.server_bytes(piece)),
            Line::Holds(facts) => {
                for (name, value) in facts {
                    let found = fact(&tracker, name);
                    if &found != value {
                        let _ = writeln!(wrong, "  line {}: {name} is {found:?}, not {value:?}", number + 1);
                    }
                }
            }
        }
        if let (Phase::Lost(because), "") = (tracker.phase(), wrong.as_str()) {
            let _ = writeln!(wrong, "  line {}: lost by {because}", number + 1);
        }
    }
    let progress = tracker.progress();
    if phase(&tracker) == "idle"
        && (progress.started, progress.answering) != (progress.completed, progress.completed)
    {
        let _ = writeln!(wrong, "  at the end idle, but {progress:?}");
    }
    wrong
}

fn in_pieces(bytes: &[u8], cut: &mut impl FnMut(usize) -> usize, mut feed: impl FnMut(&[u8])) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(cut(rest.len()).clamp(1, rest.len()));
        feed(piece);
        rest = after;
    }
}

fn every_recording_holds(how: &str, mut cut: impl FnMut(usize) -> usize) {
    let mut wrong = String::new();
    for (name, lines) in recordings() {
        let found = replay(&lines, &mut cut);
        if !found.is_empty() {
            let _ = writeln!(wrong, "{name}, {how}:\n{found}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn recordings_hold_as_they_came() {
    every_recording_holds("as it came", |n| n);
}

#[test]
fn recordings_hold_byte_by_byte() {
    every_recording_holds("byte by byte", |_| 1);
}

#[test]
fn recordings_hold_at_any_split() {
    // A small generator of our own: the splits must be the same in every run.
    let mut seed = 1u64;
    for _ in 0..20 {
        every_recording_holds("at odd splits", |n| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % n.min(40) + 1
        });
    }
}

#[test]
fn every_recording_says_what_holds() {
    for (name, lines) in recordings() {
        assert!(lines.iter().any(|line| matches!(line, Line::Holds(_))), "{name} states nothing");
    }
}
