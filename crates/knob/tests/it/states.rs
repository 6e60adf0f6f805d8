//! Variables of a server that change each other: they are put back together. The server is made up and does
//! as MySQL 8 does; what MariaDB does is tried on a real one.

use knob::apply::{self, Manner, Outcome, Status};
use knob::identity::Facts;
use knob::journal::{Author, End};
use knob::server::{Kind, Server, ServerError, Variable};
use knob::session::{Connect, Session, Which};
use knob::{Host, Refusal, text};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Variables = Arc<Mutex<BTreeMap<String, String>>>;

/// Its variables, a change that it has not answered yet and makes before the next one among them; and its
/// address.
struct MySql(Variables, String);

/// When it was started, as its uptime says; among its variables, so that a test can change it.
const STARTED: &str = "(started)";

/// A value that this server takes and does not answer to.
const SLOW: &str = "777";

fn variables(pairs: &[(&str, &str)]) -> Variables {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Arc::new(Mutex::new(pairs.iter().map(owned).collect()))
}

impl Server for MySql {
    fn identity(&mut self) -> Result<Facts, ServerError> {
        let mut facts = Facts::from([(knob::identity::ADDRESS.to_owned(), self.1.clone())]);
        // By its socket it is the same one.
        facts.insert("server_uuid".to_owned(), format!("of {}", self.1.trim_end_matches(".sock")));
        let started = self.0.lock().unwrap().get(STARTED).cloned();
        facts.extend(started.map(|at| (knob::identity::STARTED_SINCE_BOOT.to_owned(), at)));
        Ok(facts)
    }

    fn describe(&mut self, variable: &str) -> Result<Option<Variable>, ServerError> {
        let known = self.0.lock().unwrap().contains_key(variable);
        Ok(known.then_some(Variable { kind: Kind::Text, dynamic: None }))
    }

    fn global(&mut self, variable: &str) -> Result<String, ServerError> {
        let unknown = || ServerError::Answered { code: 1193, message: variable.to_owned(), hint: "" };
        self.0.lock().unwrap().get(variable).cloned().ok_or_else(unknown)
    }

    fn set_global(&mut self, variable: &str, value: &str) -> Result<(), ServerError> {
        let mut all = self.0.lock().unwrap();
        let number = |text: &str| text.parse::<u64>().unwrap_or(0);
        if let Some(pending) = all.remove("pending") {
            all.insert("max_connections".to_owned(), pending);
        }
        if value == SLOW {
            all.insert("pending".to_owned(), value.to_owned());
            return Err(ServerError::Unanswered { address: self.1.clone(), why: "no answer".to_owned() });
        }
        let mut value = value.to_owned();
        let mut also = None;
        match (variable, value.as_str()) {
            ("super_read_only", "ON") => also = Some(("read_only", "ON".to_owned())),
            ("read_only", "OFF") => also = Some(("super_read_only", "OFF".to_owned())),
            ("innodb_io_capacity", asked) => {
                value = number(asked).min(number(&all["innodb_io_capacity_max"])).to_string();
            }
            ("innodb_io_capacity_max", most) if number(most) < number(&all["innodb_io_capacity"]) => {
                also = Some(("innodb_io_capacity", most.to_owned()));
            }
            _ => {}
        }
        all.insert(variable.to_owned(), value);
        all.extend(also.map(|(name, value)| (name.to_owned(), value)));
        Ok(())
    }

    fn reconnect(&mut self) -> Result<(), ServerError> {
        Ok(())
    }
}

fn session(dir: &Path, variables: &Variables) -> Session {
    let variables = Arc::clone(variables);
    let connect: Connect = Box::new(move |address| {
        Ok(Box::new(MySql(Arc::clone(&variables), address.to_owned())) as Box<dyn Server>)
    });
    let mut session = Session::open(Host::new("/nowhere"), dir, connect).unwrap();
    session.server("a").unwrap();
    session
}

/// Two servers, a and b.
fn two_servers(dir: &Path, a: &Variables, b: &Variables) -> Session {
    let (a, b) = (Arc::clone(a), Arc::clone(b));
    let connect: Connect = Box::new(move |address| {
        let variables = if address == "a" { &a } else { &b };
        Ok(Box::new(MySql(Arc::clone(variables), address.to_owned())) as Box<dyn Server>)
    });
    Session::open(Host::new("/nowhere"), dir, connect).unwrap()
}

/// Where no server answers.
fn without_servers(dir: &Path) -> Session {
    let connect: Connect = Box::new(|address| {
        Err(ServerError::Unreachable { address: address.to_owned(), why: "no server here".to_owned() })
    });
    Session::open(Host::new("/nowhere"), dir, connect).unwrap()
}

fn set(session: &mut Session, changes: &[&str]) -> Vec<Outcome> {
    set_at(session, "a", changes)
}

fn set_at(session: &mut Session, address: &str, changes: &[&str]) -> Vec<Outcome> {
    let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
    let dangers = ["read_only", "super_read_only"].map(str::to_owned);
    let host = Host::new("/nowhere");
    let checked = apply::check(&host, Some(session.server(address).unwrap()), &changes, &dangers).unwrap();
    let manner = Manner { author: Author::default(), keep: true, restart: None, patience: Duration::ZERO };
    session.apply(&checked, Some(address), &manner)
}

#[test]
fn variables_that_change_each_other_are_put_back_together() {
    /// What it is at the start, and what is set.
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
    let cases: [Case<'_>; 5] = [
        (&[("read_only", "OFF"), ("super_read_only", "OFF")], &["server.super_read_only=ON"]),
        (&[("read_only", "ON"), ("super_read_only", "ON")], &["server.read_only=OFF"]),
        (&[("read_only", "ON"), ("super_read_only", "OFF")], &["server.read_only=OFF"]),
        (
            &[("innodb_io_capacity", "5000"), ("innodb_io_capacity_max", "9000")],
            &["server.innodb_io_capacity_max=1000"],
        ),
        // The order that was asked for would cut the first.
        (
            &[("innodb_io_capacity", "200"), ("innodb_io_capacity_max", "2000")],
            &["server.innodb_io_capacity=4000", "server.innodb_io_capacity_max=8000"],
        ),
    ];
    for (start, changes) in cases {
        let (dir, variables) = (tempfile::tempdir().unwrap(), variables(start));
        let before = variables.lock().unwrap().clone();
        let mut first = session(dir.path(), &variables);
        for outcome in set(&mut first, changes) {
            assert!(matches!(outcome.status, Status::Applied { .. }), "{outcome:?}");
        }
        drop(first);
        assert_ne!(*variables.lock().unwrap(), before);
        let restored = session(dir.path(), &variables).restore(&Which::All, false);
        assert!(restored.iter().all(|one| one.end == Some(End::Restored)), "{restored:?}");
        assert_eq!(*variables.lock().unwrap(), before, "after {changes:?}");
    }
}

/// MariaDB has read_only alone.
#[test]
fn a_variable_that_this_server_lacks_is_no_part_of_the_state() {
    let (dir, variables) = (tempfile::tempdir().unwrap(), variables(&[("read_only", "ON")]));
    let outcomes = set(&mut session(dir.path(), &variables), &["server.read_only=OFF"]);
    assert!(outcomes[0].is_in_force(), "{outcomes:?}");
    let restored = session(dir.path(), &variables).restore(&Which::All, false);
    assert_eq!(restored[0].end, Some(End::Restored), "{restored:?}");
}

/// Whether the server makes the change before it is put back, or after that was asked.
#[test]
fn a_change_without_an_answer_stays_in_the_journal_until_it_is_put_back() {
    for comes_first in [true, false] {
        let (dir, variables) = (tempfile::tempdir().unwrap(), variables(&[("max_connections", "151")]));
        let mut first = session(dir.path(), &variables);
        let outcomes = set(&mut first, &["server.max_connections=777"]);
        let Status::Refused { refusal } = &outcomes[0].status else { panic!("{outcomes:?}") };
        assert!(refusal.to_string().contains("stays in the journal"), "{refusal}");
        assert_eq!(first.journal().open_entries().count(), 1);
        drop(first);
        if comes_first {
            let pending = variables.lock().unwrap().remove("pending").unwrap();
            variables.lock().unwrap().insert("max_connections".to_owned(), pending);
        }
        let restored = session(dir.path(), &variables).restore(&Which::All, false);
        let end = if comes_first { End::Restored } else { End::Already };
        assert_eq!(restored[0].end, Some(end), "{restored:?}");
        let all = variables.lock().unwrap();
        assert_eq!((all["max_connections"].as_str(), all.get("pending")), ("151", None));
    }
}

/// The uptime of a server is a difference of wall-clock times.
#[test]
fn a_clock_that_was_set_back_is_no_restart_where_the_variable_is_as_it_was_left() {
    for (found, end, then) in
        [("776", End::Restored, "151"), ("151", End::Restarted, "151"), ("66", End::Restarted, "66")]
    {
        let (dir, variables) =
            (tempfile::tempdir().unwrap(), variables(&[("max_connections", "151"), (STARTED, "100")]));
        let outcomes = set(&mut session(dir.path(), &variables), &["server.max_connections=776"]);
        assert!(outcomes[0].is_in_force(), "{outcomes:?}");
        let now = [(STARTED, "160"), ("max_connections", found)];
        variables.lock().unwrap().extend(now.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let restored = session(dir.path(), &variables).restore(&Which::All, false);
        assert_eq!(restored[0].end, Some(end), "{found}: {restored:?}");
        assert_eq!(variables.lock().unwrap()["max_connections"], then);
    }
}

#[test]
fn what_was_set_at_a_server_that_is_removed_is_closed_on_request_with_its_values_in_words() {
    let (dir, variables) = (tempfile::tempdir().unwrap(), variables(&[("max_connections", "151")]));
    set(&mut session(dir.path(), &variables), &["server.max_connections=776"]);
    let name = ["server.max_connections".to_owned()];

    let mut without = without_servers(dir.path());
    let restored = without.restore(&Which::All, true);
    let failed = &restored[0].failed;
    assert!(matches!(failed, Some(Refusal::Unreachable { .. })), "force does not reach it: {restored:?}");
    let words = text::restored(&restored, "headroom knob restore");
    assert!(words.contains("before: @@GLOBAL.max_connections = 151"), "{words}");
    assert!(
        words.contains("headroom knob restore --server 'a' --forget 'server.max_connections'"),
        "{words}"
    );
    let server = |address: &str, uuid: &str| {
        let facts = [(knob::identity::ADDRESS, address), ("server_uuid", uuid)];
        facts.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect::<Facts>()
    };
    assert!(restored[0].concerns(&[server("b", "of b"), server("a", "of a")]));
    assert!(restored[0].concerns(&[server("/run/a.sock", "of a")]), "the same by another address");
    assert!(!restored[0].concerns(&[server("b", "of b")]), "it hinders nobody else");

    assert_eq!(without.forget(&name, Some("b")).unwrap(), []);
    let forgotten = without.forget(&name, None).unwrap();
    let end = End::Forgotten { left: "@@GLOBAL.max_connections = 776".to_owned() };
    assert_eq!(forgotten[0].end, Some(end));
    assert!(!forgotten[0].is_back());
    let words = text::restored(&forgotten, "headroom knob restore");
    assert!(words.contains("776") && words.contains("before: @@GLOBAL.max_connections = 151"), "{words}");
    drop(without);
    let again = session(dir.path(), &variables);
    assert_eq!(again.journal().open_entries().count(), 0, "it is in the journal, closed");
    assert_eq!(again.journal().entries().len(), 1);
    assert_eq!(variables.lock().unwrap()["max_connections"], "776", "nothing was put back");
}

#[test]
fn what_was_set_at_several_servers_is_closed_only_for_one_that_is_named() {
    let (dir, variables) = (tempfile::tempdir().unwrap(), variables(&[("max_connections", "151")]));
    let mut first = session(dir.path(), &variables);
    set_at(&mut first, "a", &["server.max_connections=77"]);
    set_at(&mut first, "b", &["server.max_connections=88"]);
    let name = ["server.max_connections".to_owned()];
    let words = first.forget(&name, None).unwrap_err().to_string();
    assert!(words.contains("a, b") && words.contains("--server"), "{words}");
    assert_eq!(first.journal().open_entries().count(), 2);
    assert_eq!(first.forget(&name, Some("b")).unwrap().len(), 1);
    let open: Vec<&str> = first.journal().open_entries().map(|entry| entry.intent.value.as_str()).collect();
    assert_eq!(open, ["77"]);
}

#[test]
fn what_was_set_at_one_server_by_two_addresses_is_closed_by_either() {
    let (dir, variables) = (tempfile::tempdir().unwrap(), variables(&[("max_connections", "151")]));
    let mut session = session(dir.path(), &variables);
    let name = ["server.max_connections".to_owned()];
    let set_by_both = |session: &mut Session| {
        set_at(session, "a", &["server.max_connections=77"]);
        set_at(session, "a.sock", &["server.max_connections=88"]);
    };
    set_by_both(&mut session);
    assert_eq!(session.forget(&name, None).unwrap().len(), 1, "no other server has it");
    assert_eq!(session.journal().open_entries().count(), 0);

    set_by_both(&mut session);
    set_at(&mut session, "b", &["server.max_connections=99"]);
    let words = session.forget(&name, None).unwrap_err().to_string();
    assert!(words.contains("a, a.sock, b"), "{words}");
    assert_eq!(session.forget(&name, Some("a")).unwrap().len(), 1);
    let open: Vec<&str> = session.journal().open_entries().map(|entry| entry.intent.value.as_str()).collect();
    assert_eq!(open, ["99"]);
}

#[test]
fn force_reaches_what_was_left_at_one_server_after_a_change_of_the_same_variable_at_another() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (variables(&[("max_connections", "151")]), variables(&[("max_connections", "151")]));
    let mut session = two_servers(dir.path(), &a, &b);
    for (address, variables) in [("a", &a), ("b", &b)] {
        set_at(&mut session, address, &["server.max_connections=88"]);
        variables.lock().unwrap().insert("max_connections".to_owned(), "66".to_owned());
    }
    let left = session.restore(&Which::All, false);
    assert!(left.len() == 2 && left.iter().all(|one| matches!(one.end, Some(End::Left { .. }))), "{left:?}");
    set_at(&mut session, "b", &["server.max_connections=99"]);
    let restored = session.restore(&Which::All, true);
    assert!(restored.iter().all(|one| one.end == Some(End::Restored)), "{restored:?}");
    assert_eq!(a.lock().unwrap()["max_connections"], "151");
    assert_eq!(b.lock().unwrap()["max_connections"], "66", "what somebody set before our last change");
}

#[test]
fn what_was_set_at_several_servers_is_put_back_at_the_one_that_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (variables(&[("max_connections", "151")]), variables(&[("max_connections", "151")]));
    let mut session = two_servers(dir.path(), &a, &b);
    let at = |variables: &Variables| variables.lock().unwrap()["max_connections"].clone();
    for address in ["a", "b"] {
        set_at(&mut session, address, &["server.max_connections=88"]);
    }
    assert_eq!(session.restore_at(&Which::All, false, Some("c")), []);
    let name = Which::Knobs(vec!["server.max_connections".to_owned()]);
    let restored = session.restore_at(&name, false, Some("a"));
    assert_eq!((restored.len(), restored[0].server()), (1, Some("a")), "{restored:?}");
    assert_eq!((at(&a), at(&b)), ("151".to_owned(), "88".to_owned()));

    // What is left at several is overwritten at one, and the line that is shown names it.
    set_at(&mut session, "a", &["server.max_connections=88"]);
    for variables in [&a, &b] {
        variables.lock().unwrap().insert("max_connections".to_owned(), "66".to_owned());
    }
    let words = text::restored(&session.restore(&Which::All, false), "headroom knob restore");
    let line = "headroom knob restore --server 'b' --force 'server.max_connections'";
    assert!(words.contains(line), "{words}");
    session.restore_at(&name, true, Some("b"));
    assert_eq!((at(&a), at(&b)), ("66".to_owned(), "151".to_owned()));
}
