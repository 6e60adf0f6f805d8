//! Variables of a real server: the cases that both flavours must meet.

use config::Credentials;
use fleet::Address;
use knob::apply::{self, Change, Manner, Outcome};
use knob::journal::{Author, End};
use knob::server::{Connection, Server};
use knob::session::{Connect, RestoreOutcome, Session, Which};
use knob::{Error, Host, Refusal};
use lab::{Account, Lab, Spec};
use mysql_async::prelude::Queryable;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A lab with one server, and a journal.
pub(crate) struct Scene {
    pub(crate) lab: Lab,
    base: tempfile::TempDir,
}

impl Scene {
    pub(crate) async fn up(spec: &Spec) -> Self {
        let base = tempfile::tempdir().unwrap();
        let lab = Lab::up(spec, base.path()).await.unwrap();
        Self { lab, base }
    }

    pub(crate) fn address(&self) -> String {
        format!("{}", Address::Unix(self.lab.socket("a1").unwrap()))
    }

    pub(crate) fn who(&self) -> Credentials {
        let password = Some(self.lab.password(Account::Root).to_owned());
        Credentials { user: Some("root".into()), password, ..Credentials::default() }
    }

    pub(crate) fn session(&self) -> Session {
        session(&self.base.path().join("knobs"), self.who())
    }

    /// What a server has of variables that a statement can set, as root sees them.
    pub(crate) async fn variables(&self) -> BTreeMap<String, String> {
        let mut root = self.lab.connect("a1").await.unwrap();
        let rows: Vec<(String, String)> = root.query("SHOW GLOBAL VARIABLES").await.unwrap();
        root.disconnect().await.unwrap();
        // These move by themselves.
        let moves = [
            "gtid_binlog_pos",
            "gtid_binlog_state",
            "gtid_current_pos",
            "timestamp",
            "gtid_executed",
            "innodb_buffer_pool_dump_status",
        ];
        rows.into_iter().filter(|(name, _)| !moves.contains(&name.as_str())).collect()
    }

    pub(crate) async fn root(&self, statement: &str) {
        let mut root = self.lab.connect("a1").await.unwrap();
        root.query_drop(statement).await.unwrap();
        root.disconnect().await.unwrap();
    }
}

/// A session that reaches servers with this login.
pub(crate) fn session(directory: &Path, who: Credentials) -> Session {
    let connect: Connect = Box::new(move |address| {
        let address: Address = address.parse().unwrap();
        Ok(Box::new(Connection::open(&address, &who)?) as Box<dyn Server>)
    });
    Session::open(Host::new("/"), directory, connect).unwrap()
}

pub(crate) fn manner(restart: Option<String>) -> Manner {
    Manner { author: Author::default(), keep: true, restart, patience: Duration::ZERO }
}

pub(crate) fn check(
    session: &mut Session,
    address: &str,
    changes: &[&str],
    dangers: &[&str],
) -> Result<Vec<Change>, Error> {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let server = session.server(address).unwrap();
    apply::check(&Host::new("/"), Some(server), &owned(changes), &owned(dangers))
}

pub(crate) fn set(session: &mut Session, address: &str, changes: &[&str], dangers: &[&str]) -> Vec<Outcome> {
    let checked = check(session, address, changes, dangers).unwrap();
    session.apply(&checked, Some(address), &manner(None))
}

fn refusal(outcome: &Outcome) -> &Refusal {
    match &outcome.status {
        apply::Status::Refused { refusal } => refusal,
        other => panic!("{other:?}"),
    }
}

/// Set, read back, put back: afterwards every variable of the server is as before.
pub(crate) async fn variables_are_set_and_put_back(scene: &Scene, changes: &[&str], dangers: &[&str]) {
    let (start, address) = (scene.variables().await, scene.address());
    let mut session = scene.session();
    for outcome in set(&mut session, &address, changes, dangers) {
        assert!(matches!(outcome.status, apply::Status::Applied { .. }), "{outcome:?}");
    }
    let now = scene.variables().await;
    let changed = start.iter().filter(|(name, value)| now.get(*name) != Some(value)).count();
    assert!(changed >= changes.len(), "{changed} of {}", changes.len());
    // Another process puts them back: it has nothing but the journal.
    drop(session);
    let restored = scene.session().restore(&Which::All, false);
    assert_eq!(restored.len(), changes.len());
    assert!(restored.iter().all(|one| one.end == Some(End::Restored)), "{restored:?}");
    assert_eq!(scene.variables().await, start);
}

/// What is dangerous, wrong, unknown or needs a restart.
pub(crate) fn wrong_values_are_refused_in_words(scene: &Scene, restart_only: &str) {
    let address = scene.address();
    let mut session = scene.session();
    let unnamed = check(&mut session, &address, &["server.sync_binlog=0"], &[]).unwrap_err().to_string();
    assert!(unnamed.contains("--danger sync_binlog"), "{unnamed}");
    let range = check(&mut session, &address, &["server.innodb_io_capacity=5"], &[]).unwrap_err();
    assert!(
        matches!(&range, Error::BadValue { source, .. } if source.to_string().contains("the server takes 100 to")),
        "{range}"
    );
    let outcomes = set(
        &mut session,
        &address,
        &["server.no_such_variable=1", restart_only, "server.max_connections=77"],
        &[],
    );
    assert!(matches!(refusal(&outcomes[0]), Refusal::Absent { .. }), "{outcomes:?}");
    let words = refusal(&outcomes[1]).to_string();
    assert!(words.contains("restart") && words.contains("--restart-with"), "{words}");
    assert!(outcomes[2].is_in_force(), "the rest goes on: {outcomes:?}");
    assert!(session.restore(&Which::All, false).iter().all(RestoreOutcome::is_back));
}

/// Somebody else's value stays.
pub(crate) async fn what_somebody_else_set_stays(scene: &Scene) {
    let address = scene.address();
    let mut session = scene.session();
    set(&mut session, &address, &["server.max_connections=77", "server.long_query_time=2.5"], &[]);
    scene.root("SET GLOBAL max_connections = 99").await;
    let restored = session.restore(&Which::All, false);
    let end = |name: &str| restored.iter().find(|one| one.knobs == [name]).unwrap().end.clone().unwrap();
    assert_eq!(end("server.long_query_time"), End::Restored);
    assert!(
        matches!(end("server.max_connections"), End::Left { why } if why.contains("'99'") && why.contains("'77'"))
    );
    assert_eq!(scene.variables().await["max_connections"], "99");
}

/// A value that comes out as another one.
pub(crate) async fn a_value_that_the_server_bends_is_refused_and_undone(scene: &Scene) {
    let start = scene.variables().await;
    let mut session = scene.session();
    // Cut to a multiple of 1024, with a warning that nobody reads.
    let outcomes = set(&mut session, &scene.address(), &["server.max_allowed_packet=1000001"], &[]);
    let words = refusal(&outcomes[0]).to_string();
    assert!(words.contains("wrote '1000001'") && words.contains("reads back '999424'"), "{words}");
    assert_eq!(scene.variables().await, start);
    assert!(session.restore(&Which::All, false).is_empty());
}

/// A restart of the server has put its variables back.
pub(crate) async fn after_a_restart_of_the_server_its_entries_are_closed(scene: &Scene) {
    let address = scene.address();
    let mut session = scene.session();
    set(&mut session, &address, &["server.max_connections=77"], &[]);
    drop(session);
    // A start within three seconds of the one before cannot be told from a rounding of the uptime.
    let mut root = scene.lab.connect("a1").await.unwrap();
    loop {
        let (_, uptime): (String, u64) =
            root.query_first("SHOW GLOBAL STATUS LIKE 'Uptime'").await.unwrap().unwrap();
        if uptime > 4 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    root.disconnect().await.unwrap();
    scene.lab.change("a1", "stop".parse().unwrap()).await.unwrap();
    scene.lab.change("a1", "start".parse().unwrap()).await.unwrap();
    scene.root("SET GLOBAL max_connections = 66").await;
    let restored = scene.session().restore(&Which::All, false);
    assert_eq!(restored[0].end, Some(End::Restarted), "{restored:?}");
    assert_eq!(scene.variables().await["max_connections"], "66", "not ours any more");
}
