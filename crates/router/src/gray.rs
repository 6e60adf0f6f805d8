//! Gray failure: a server that answers, while the commits that this router relays to it do not end.
//!
//! A stalled or full disk, or a latch that nobody gives back: pings and reads go on, so nothing that merely
//! asks notices. What is counted is what passes anyway, two counters a session's commit, no clock:
//!
//! * a **commit** is `COMMIT` in a transaction in which something was written, or a write outside of one, by
//!   the first word of its statement, behind comments and query attributes. Of a prepared statement that is
//!   kept from when it was prepared; one that is not known is none. Without `autocommit` no write is outside
//!   of a transaction, although the server says so only after the first statement of one.
//! * it has **ended** when the server answered it, with whatever; one whose session ended before is **given
//!   up**.
//!
//! Named gray once, for [`AFTER`], commits were under way and none ended, although the server answers our own
//! questions. A single write outside a transaction may wait for a row lock, so of those it takes [`WRITES`]
//! at once. Worked example: at 0 s the file system freezes; eight clients commit within 50 ms and hang. At 3
//! s each gives up and eight more hang: at 5 s nothing has ended for 5 s, and it is gray.
//!
//! Seen is what is relayed; sessions that bypass the router are not.

use crate::server_counters::ServerSlot;
use serde::Serialize;
use sql::Verb;
use std::time::{Duration, Instant};
use wire::{Capabilities, Command, Status, Tracker};

/// No commit ends for this long: longer than a checkpoint or a hiccup of a cloud disk usually takes.
pub(crate) const AFTER: Duration = Duration::from_secs(5);
/// Writes outside transactions that have to hang together.
const WRITES: u64 = 3;

/// What a command that begins means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    /// `COMMIT`.
    Commit,
    /// A statement that writes, or may.
    Write,
    Other,
}

/// Bytes of a statement in which its first word is looked for, where a comment stands in front.
const COMMENTED: usize = 1024;

/// Reads the first packet of a chunk: its command, and the first word of a statement. `attributes` says
/// whether query attributes stand in front of that, `prepared` with which word a prepared statement writes.
pub(crate) fn begins(chunk: &[u8], attributes: bool, prepared: impl FnOnce(u32) -> Option<Verb>) -> Begins {
    let [_, _, _, 0, command, body @ ..] = chunk else { return Begins::Other };
    match Command::from_byte(*command) {
        Command::StmtExecute | Command::StmtBulkExecute => {
            let id = body.first_chunk().map(|id| u32::from_le_bytes(*id));
            id.and_then(prepared).map_or(Begins::Other, of_verb)
        }
        Command::Query if attributes => {
            wire::attributes::of_query(body).map_or(Begins::Other, |(_, text)| of_statement(text))
        }
        Command::Query => of_statement(body),
        _ => Begins::Other,
    }
}

fn of_statement(text: &[u8]) -> Begins {
    let word = text.trim_ascii_start();
    let is = |wanted: &str| {
        let ends = word.get(wanted.len()).is_none_or(|next| !next.is_ascii_alphanumeric() && *next != b'_');
        ends && word.get(..wanted.len()).is_some_and(|word| word.eq_ignore_ascii_case(wanted.as_bytes()))
    };
    match word.first().map(u8::to_ascii_uppercase) {
        Some(b'C') if is("COMMIT") => Begins::Commit,
        Some(b'I') if is("INSERT") => Begins::Write,
        Some(b'U') if is("UPDATE") => Begins::Write,
        Some(b'D') if is("DELETE") => Begins::Write,
        Some(b'R') if is("REPLACE") => Begins::Write,
        Some(b'/' | b'-' | b'#') => of_verb(sql::scan(&word[..word.len().min(COMMENTED)], false).verb),
        _ => Begins::Other,
    }
}

fn of_verb(verb: Verb) -> Begins {
    match verb {
        Verb::Commit => Begins::Commit,
        Verb::Insert | Verb::Update | Verb::Delete | Verb::Replace => Begins::Write,
        _ => Begins::Other,
    }
}

/// One session's part: whether it wrote in its transaction, and whether a commit of it is under way.
#[derive(Debug, Default)]
pub(crate) struct SessionCommits {
    wrote: bool,
    under_way: Option<Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    InTransaction,
    Alone,
}

impl SessionCommits {
    /// A command begins on a session that was idle; `tracker` knows the rest of it.
    pub(crate) fn command(&mut self, chunk: &[u8], tracker: &Tracker, slot: &ServerSlot) {
        let attributes = tracker.capabilities().contains(Capabilities::QUERY_ATTRIBUTES);
        let in_transaction = tracker.in_transaction();
        let begins_one = !tracker.status().contains(Status::AUTOCOMMIT);
        let kind = match begins(chunk, attributes, |id| tracker.prepared_write(id)) {
            Begins::Commit if self.wrote => Kind::InTransaction,
            Begins::Write if in_transaction || begins_one => {
                self.wrote = true;
                return;
            }
            Begins::Write => Kind::Alone,
            Begins::Commit | Begins::Other => {
                self.wrote &= in_transaction;
                return;
            }
        };
        self.under_way = Some(kind);
        slot.commit_begins(kind);
    }

    /// The server has answered everything.
    pub(crate) fn answered(&mut self, slot: &ServerSlot) {
        if let Some(kind) = self.under_way.take() {
            self.wrote = false;
            slot.commit_ends(kind);
        }
    }

    /// The session goes away from the relay.
    pub(crate) fn gives_up(&mut self, slot: &ServerSlot) {
        if let Some(kind) = self.under_way.take() {
            slot.commit_given_up(kind);
        }
    }
}

/// Sums of a server's counters, each by [`Kind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commits {
    pub(crate) begun: [u64; 2],
    pub(crate) ended: [u64; 2],
    pub(crate) given_up: [u64; 2],
}

/// Since when nothing has ended, from look to look.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrayWatch {
    ended: u64,
    since: Option<Instant>,
    /// Since when nothing has been under way.
    rests: Option<Instant>,
}

/// Commits that hang.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gray {
    /// Of transactions, under way now.
    pub commits: u64,
    /// Writes outside transactions, under way now.
    pub writes: u64,
    /// No commit has ended for this long.
    pub lasts: Duration,
}

impl GrayWatch {
    /// One look. `answers` says whether the server answers our own questions: one that does not is not gray
    /// but silent, and that is said elsewhere.
    pub(crate) fn look(&mut self, commits: &Commits, answers: bool, now: Instant) -> Option<Gray> {
        let ended = commits.ended.iter().sum();
        let under_way =
            |kind: usize| commits.begun[kind].saturating_sub(commits.ended[kind] + commits.given_up[kind]);
        let [transactions, writes] = [under_way(0), under_way(1)];
        if ended != std::mem::replace(&mut self.ended, ended) {
            self.since = None;
        }
        if transactions + writes == 0 {
            // Clients that gave up come back soon. What hung before a longer pause says nothing about the
            // commit after it.
            let rests = *self.rests.get_or_insert(now);
            if now.saturating_duration_since(rests) >= AFTER {
                self.since = None;
            }
            return None;
        }
        self.rests = None;
        let lasts = now.saturating_duration_since(*self.since.get_or_insert(now));
        let hang = transactions > 0 || writes >= WRITES;
        (answers && hang && lasts >= AFTER).then_some(Gray { commits: transactions, writes, lasts })
    }
}

impl std::fmt::Display for Gray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "no commit has ended for {} s: {} of transactions and {} writes outside of one are under way, and it answers \
             questions",
            self.lasts.as_secs(),
            self.commits,
            self.writes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login_bytes::{self, framed};
    use crate::server_counters::ServerCounters;
    use fleet::{ListenerRole, ServerName};
    use std::sync::Arc;

    fn query(text: &str) -> Vec<u8> {
        [&[text.len() as u8 + 1, 0, 0, 0, Command::Query.byte()], text.as_bytes()].concat()
    }

    #[test]
    fn the_first_word_says_what_begins() {
        for (text, means) in [
            ("COMMIT", Begins::Commit),
            (" commit work", Begins::Commit),
            ("COMMITTED", Begins::Other),
            ("insert into t values (1)", Begins::Write),
            ("REPLACE t VALUES (1)", Begins::Write),
            ("SELECT 1", Begins::Other),
            ("/* insert shop.Cart */ insert into cart values (1)", Begins::Write),
            ("/* page='cart' */ /* 2 */COMMIT", Begins::Commit),
            ("-- of the cart\nDELETE FROM t", Begins::Write),
            ("/* DELETE */ SELECT 1", Begins::Other),
            ("/* without an end", Begins::Other),
            ("", Begins::Other),
        ] {
            assert_eq!(begins(&query(text), false, |_| None), means, "{text}");
            let behind_none = query(&format!("\0\x01{text}"));
            assert_eq!(begins(&behind_none, true, |_| None), means, "{text}");
        }
        assert_eq!(begins(&[1, 0, 0], false, |_| None), Begins::Other);
        assert_eq!(begins(&query(""), true, |_| None), Begins::Other);
    }

    #[test]
    fn a_prepared_statement_means_what_its_text_said_and_nothing_where_that_is_not_known() {
        let verb = |id: u32| match id {
            1 => Some(Verb::Update),
            2 => Some(Verb::Commit),
            _ => None,
        };
        for command in [Command::StmtExecute, Command::StmtBulkExecute] {
            let execute = |id: u8| [10, 0, 0, 0, command.byte(), id, 0, 0, 0, 0, 1, 0, 0, 0];
            for (id, means) in [(1, Begins::Write), (2, Begins::Commit), (3, Begins::Other)] {
                assert_eq!(begins(&execute(id), false, verb), means, "{command:?} {id}");
            }
            assert_eq!(begins(&execute(1)[..7], false, verb), Begins::Other, "cut short");
        }
    }

    #[test]
    fn without_autocommit_a_write_is_part_of_a_transaction_and_its_commit_counts() {
        let capabilities = Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION;
        let ok = |sequence: u8, status: Status| {
            let ok = wire::response::OkPacket { status, ..Default::default() };
            framed(sequence, &ok.encode(capabilities))
        };
        let mut tracker = Tracker::new();
        tracker.server_bytes(&login_bytes::greeting(capabilities));
        tracker.client_bytes(&login_bytes::login(capabilities));
        tracker.server_bytes(&ok(2, Status::empty()));
        let counters = Arc::new(ServerCounters::new(ServerName::new("a"), 1));
        let slot = ServerSlot::take(counters, ListenerRole::Writer, 0);
        let mut commits = SessionCommits::default();
        let mut run = |text: &str, status: Status| {
            let statement = query(text);
            commits.command(&statement, &tracker, &slot);
            let under_way = commits.under_way;
            tracker.client_bytes(&statement);
            tracker.server_bytes(&ok(1, status));
            commits.answered(&slot);
            under_way
        };
        let (open, none) = (Status::IN_TRANS, Status::empty());
        assert_eq!(run("INSERT INTO t VALUES (1)", open), None);
        assert_eq!(run("COMMIT", none), Some(Kind::InTransaction));
        assert_eq!(run("COMMIT", none), None, "nothing was written");
        run("INSERT INTO t VALUES (2)", open);
        run("ROLLBACK", none);
        run("SELECT 1", open);
        assert_eq!(run("COMMIT", none), None, "what was written was rolled back");
        run("SET autocommit = 1", Status::AUTOCOMMIT);
        assert_eq!(run("INSERT INTO t VALUES (3)", Status::AUTOCOMMIT), Some(Kind::Alone));
    }

    fn commits(begun: [u64; 2], ended: [u64; 2], given_up: [u64; 2]) -> Commits {
        Commits { begun, ended, given_up }
    }

    #[test]
    fn it_is_gray_once_commits_hang_and_none_ends_however_often_clients_give_up() {
        let (mut watch, t) = (GrayWatch::default(), Instant::now());
        let at = |seconds| t + Duration::from_secs(seconds);
        assert_eq!(watch.look(&commits([8, 0], [8, 0], [0, 0]), true, at(0)), None);
        assert_eq!(watch.look(&commits([16, 0], [8, 0], [0, 0]), true, at(1)), None);
        assert_eq!(watch.look(&commits([24, 0], [8, 0], [8, 0]), true, at(4)), None);
        let gray = watch.look(&commits([24, 0], [8, 0], [8, 0]), true, at(6)).unwrap();
        assert_eq!((gray.commits, gray.lasts), (8, Duration::from_secs(5)));
        assert!(gray.to_string().contains("no commit has ended for 5 s"), "{gray}");
        assert_eq!(watch.look(&commits([24, 0], [8, 0], [8, 0]), false, at(7)), None, "silent is not gray");
        assert_eq!(watch.look(&commits([24, 0], [9, 0], [8, 0]), true, at(8)), None, "one ended");
    }

    #[test]
    fn a_commit_that_was_given_up_before_a_pause_does_not_make_the_next_one_hang() {
        let (mut watch, t) = (GrayWatch::default(), Instant::now());
        let at = |seconds| t + Duration::from_secs(seconds);
        assert_eq!(watch.look(&commits([1, 0], [0, 0], [0, 0]), true, at(0)), None);
        for seconds in 1..3600 {
            assert_eq!(watch.look(&commits([1, 0], [0, 0], [1, 0]), true, at(seconds)), None);
        }
        assert_eq!(watch.look(&commits([2, 0], [0, 0], [1, 0]), true, at(3600)), None, "it has just begun");
        assert_eq!(watch.look(&commits([2, 0], [0, 0], [1, 0]), true, at(3604)), None);
        assert!(watch.look(&commits([2, 0], [0, 0], [1, 0]), true, at(3605)).is_some());
    }

    #[test]
    fn a_write_that_waits_for_a_row_lock_is_not_a_disk_that_hangs() {
        let (mut watch, t) = (GrayWatch::default(), Instant::now());
        let later = t + AFTER * 2;
        watch.look(&commits([0, 2], [0, 0], [0, 0]), true, t);
        assert_eq!(watch.look(&commits([0, 2], [0, 0], [0, 0]), true, later), None);
        assert!(watch.look(&commits([0, 3], [0, 0], [0, 0]), true, later).is_some());
        assert_eq!(watch.look(&commits([0, 3], [0, 0], [0, 3]), true, later), None, "nothing is under way");
    }
}
