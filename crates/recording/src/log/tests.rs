//! Logs of both flavours, as servers write them, and the recordings that come of them.

use super::*;

fn events(kind: Kind, text: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let each = |event: &Event| {
        events.push(event.clone());
        Ok::<(), RecordingError>(())
    };
    read(kind, text.as_bytes(), "a test", each).unwrap();
    events
}

/// Moment in milliseconds, session, command and text of everything that was said.
fn said(events: &[Event]) -> Vec<(u64, u64, u8, String)> {
    let said = |event: &Event| match event {
        Event::Command(said) => {
            let text = String::from_utf8_lossy(&said.body).into_owned();
            Some((said.at_us / 1000, said.session, said.command, text))
        }
        _ => None,
    };
    events.iter().filter_map(said).collect()
}

const MARIADB_GENERAL: &str = "\
/usr/sbin/mariadbd, Version: 10.11.14-MariaDB-log (Debian 12). started with:
Tcp port: 3306  Unix socket: /run/mysqld/mysqld.sock
Time\t\t    Id Command\tArgument
261120 19:40:01\t     8 Connect\tapp@localhost on shop using Socket
\t\t     8 Query\tSELECT 1
\t\t     9 Connect\tapp@localhost on  using TCP/IP
261120 19:40:03\t     8 Query\tSELECT
  'two lines'
\t\t     8 Prepare\tSELECT a FROM t WHERE b = ?
\t\t     8 Execute\tSELECT a FROM t WHERE b = 7
\t\t     9 Init DB\tshop
\t\t     8 Quit\t
";

#[test]
fn a_general_log_of_mariadb_knows_seconds_that_are_spread() {
    let events = events(Kind::General, MARIADB_GENERAL);
    let Event::RecordingStart(began) = &events[0] else { panic!("{events:?}") };
    assert_eq!((began.resolution_us, began.one_in), (1_000_000, 1));
    let expected = [
        (333, 8, QUERY, "SELECT 1"),
        (2000, 8, QUERY, "SELECT\n  'two lines'"),
        (2250, 8, QUERY, "SELECT a FROM t WHERE b = 7"),
        (2500, 9, INIT_DB, "shop"),
    ];
    assert_eq!(
        said(&events),
        expected.map(|(at, session, command, text)| (at, session, command, text.to_owned()))
    );
    let opened: Vec<_> = events
        .iter()
        .filter_map(|e| {
            if let Event::SessionStart(o) = e { Some((o.user.as_str(), o.database.as_str())) } else { None }
        })
        .collect();
    assert_eq!(opened, [("app", "shop"), ("app", "")]);
    assert!(events.iter().any(|e| matches!(e, Event::SessionEnd(closed) if closed.session == 8)));
    assert!(matches!(events.last(), Some(Event::RecordingEnd(stopped)) if stopped.commands == 4));
}

#[test]
fn a_general_log_of_mysql_knows_microseconds_and_sessions_that_were_there_before() {
    let text = "\
2026-11-20T19:40:01.000000Z\t    8 Query\tSELECT 1
2026-11-20T19:40:01.250000Z\t    9 Connect\tapp@localhost on shop using SSL/TLS
2026-11-20T19:40:01.500000Z\t    9 Query\tALTER USER a IDENTIFIED BY 'geheim'
";
    let events = events(Kind::General, text);
    let Event::SessionStart(first) = &events[1] else { panic!("{events:?}") };
    assert_eq!((first.session, first.at_us, first.fresh), (8, 0, false));
    assert_eq!(said(&events)[1], (500, 9, QUERY, String::new()), "passwords are left out");
}

#[test]
fn a_slow_log_of_mariadb_has_times_rows_and_databases() {
    let text = "\
/usr/sbin/mariadbd, Version: 10.11.14-MariaDB-log (Debian 12). started with:
# Time: 261120 19:40:01
# User@Host: app[app] @ localhost []
# Thread_id: 8  Schema: shop  QC_hit: No
# Query_time: 0.001500  Lock_time: 0.000010  Rows_sent: 2  Rows_examined: 2
# Rows_affected: 0  Bytes_sent: 100
use shop;
SET timestamp=1795203601;
SELECT a
FROM t;
# User@Host: app[app] @ localhost []
# Thread_id: 9  Schema:   QC_hit: No
# Query_time: 0.000100  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 3  Bytes_sent: 10
SET timestamp=1795203601;
UPDATE x.t SET a = 1;
# Time: 261120 19:40:02
# User@Host: app[app] @ localhost []
# Thread_id: 8  Schema: other  QC_hit: No
# Query_time: 0.000100  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 0  Bytes_sent: 10
use other;
SET timestamp=1795203602;
# administrator command: Quit;
# User@Host: app[app] @ localhost []
# Thread_id: 8  Schema: other  QC_hit: No
# Query_time: 0.000100  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 0  Bytes_sent: 10
SET timestamp=1795203602;
SELECT 2;
";
    let events = events(Kind::Slow, text);
    let all = said(&events);
    let texts: Vec<_> = all.iter().map(|(_, session, _, text)| (*session, text.as_str())).collect();
    assert_eq!(texts, [(8, "SELECT a\nFROM t"), (9, "UPDATE x.t SET a = 1"), (8, "other"), (8, "SELECT 2")]);
    assert!(all[0].0 < all[1].0 && all[1].0 < 1000 && all[2].0 >= 1000, "{all:?}");
    let answers: Vec<_> =
        events.iter().filter_map(|e| if let Event::Command(said) = e { said.answer } else { None }).collect();
    assert_eq!((answers[0].took_us, answers[0].rows, answers[1].affected), (1500, 2, Some(3)));
}

#[test]
fn in_a_slow_log_of_seconds_a_statement_that_took_long_stays_where_it_began() {
    let entry = |session: u32, second: u32, took: &str, text: &str| {
        format!(
            "# User@Host: app[app] @ localhost []\n# Thread_id: {session}  Schema: shop  QC_hit: No\n\
             # Query_time: {took}  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 0\n\
             SET timestamp=17952036{second:02};\n{text};\n"
        )
    };
    let log = [
        entry(8, 1, "0.001", "SELECT 1"),
        entry(9, 10, "0.001", "SELECT 2"),
        entry(8, 2, "8.5", "SELECT 3"),
        entry(9, 10, "0.001", "SELECT 4"),
        entry(8, 9, "0.01", "SELECT 5"),
    ];
    let all = said(&events(Kind::Slow, &log.concat()));
    let moments: Vec<_> = all.iter().map(|(at, .., text)| (*at, text.as_str())).collect();
    let expected = [
        (500, "SELECT 1"),
        (9200, "SELECT 2"),
        (1000, "SELECT 3"),
        (9600, "SELECT 4"),
        // It crossed from one second into the next.
        (8990, "SELECT 5"),
    ];
    assert_eq!(moments, expected);
}

const HEADING: &str = "\
/usr/sbin/mysqld, Version: 8.0.43 (MySQL Community Server - GPL). started with:
Tcp port: 3306  Unix socket: /run/mysqld/mysqld.sock
Time                 Id Command    Argument
";

#[test]
fn what_a_server_writes_when_it_starts_is_no_part_of_the_statement_before() {
    let entry = |second: u32, text: &str| {
        format!(
            "# Time: 2026-11-20T19:40:0{second}.000000Z\n# User@Host: app[app] @ localhost []  Id:     8\n\
             # Query_time: 0.500000  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 0\n\
             SET timestamp=1795203600;\n{text};\n"
        )
    };
    let texts = |kind: Kind, log: &str| -> Vec<String> {
        said(&events(kind, log)).into_iter().map(|(.., text)| text).collect()
    };
    let quoted = format!("INSERT INTO t VALUES ('\n{HEADING}')");
    let slow = [HEADING, &entry(1, "SELECT 1"), HEADING, &entry(2, &quoted)].concat();
    assert_eq!(texts(Kind::Slow, &slow), ["SELECT 1", quoted.as_str()]);
    let general = [MARIADB_GENERAL.trim_end_matches("\t\t     8 Quit\t\n"), HEADING].concat();
    assert_eq!(texts(Kind::General, &general), texts(Kind::General, MARIADB_GENERAL));
}

#[test]
fn a_slow_log_of_mysql_tells_the_end_and_the_beginning_is_worked_out() {
    let text = "\
# Time: 2026-11-20T19:40:01.000000Z
# User@Host: app[app] @ localhost []  Id:     8
# Query_time: 0.500000  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 0
use shop;
SET timestamp=1795203600;
SELECT 1;
# Time: 2026-11-20T19:40:02.000000Z
# User@Host: app[app] @ localhost []  Id:     8
# Query_time: 0.250000  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 0
SET timestamp=1795203601;
UPDATE t SET a = 2;
";
    let events = events(Kind::Slow, text);
    assert_eq!(
        said(&events),
        [(0, 8, QUERY, "SELECT 1".to_owned()), (1250, 8, QUERY, "UPDATE t SET a = 2".to_owned())]
    );
    let answers = events.iter().filter_map(|e| if let Event::Command(c) = e { c.answer } else { None });
    let changed: Vec<_> = answers.map(|answer| answer.affected).collect();
    assert_eq!(changed, [None, None], "it does not say how many rows were changed");
    assert!(matches!(&events[1], Event::SessionStart(opened) if opened.database == "shop"));
}

#[test]
fn in_a_slow_log_of_mysql_a_session_is_in_the_database_of_the_entry_before() {
    let entry = |second: u32, session: u32, text: &str| {
        format!(
            "# Time: 2026-11-20T19:40:0{second}.000000Z\n\
             # User@Host: app[app] @ localhost []  Id: {session:>5}\n\
             # Query_time: 0.000000  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 0\n{text};\n"
        )
    };
    let log = [
        HEADING,
        &entry(1, 8, "use shop;\nSET timestamp=1795203601;\nSELECT 1"),
        &entry(2, 9, "SET timestamp=1795203602;\nSELECT 2"),
        &entry(3, 9, "use other;\nSET timestamp=1795203603;\n# administrator command: Init DB"),
        &entry(4, 9, "SET timestamp=1795203604;\nSELECT 3"),
        &entry(5, 8, "SET timestamp=1795203605;\nSELECT 4"),
        HEADING,
        &entry(6, 10, "SET timestamp=1795203606;\nSELECT 5"),
    ];
    let events = events(Kind::Slow, &log.concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let of = |event: &Event| match event {
        Event::SessionStart(start) => Some((start.session, start.database.clone())),
        Event::Command(command) => Some((command.session, text(&command.body))),
        _ => None,
    };
    let expected = [
        (8, "shop"),
        (8, "SELECT 1"),
        (9, "shop"),
        (9, "SELECT 2"),
        (9, "other"),
        (9, "SELECT 3"),
        (8, "SELECT 4"),
        (10, ""),
        (10, "SELECT 5"),
    ];
    assert_eq!(
        events.iter().filter_map(of).collect::<Vec<_>>(),
        expected.map(|(session, text)| (session, text.to_owned()))
    );
}

#[test]
fn a_slow_log_of_mysql_with_extras_tells_which_statements_failed() {
    let entry = |second: u32, error: u16| {
        format!(
            "# Time: 2026-11-20T19:40:0{second}.000000Z\n# User@Host: app[app] @ localhost []  Id:     8\n\
             # Query_time: 0.500000  Lock_time: 0.000001 Rows_sent: 0  Rows_examined: 0 Thread_id: 8 \
             Errno: {error} Killed: 0 Bytes_received: 0 Bytes_sent: 52\n\
             SET timestamp=1795203600;\nUPDATE t SET a = 1;\n"
        )
    };
    let events = events(Kind::Slow, &[entry(1, 0), entry(2, 1213)].concat());
    let answers = events.iter().filter_map(|e| if let Event::Command(c) = e { c.answer } else { None });
    let errors: Vec<_> = answers.map(|answer| (answer.error, answer.error_unknown)).collect();
    assert_eq!(errors, [(None, false), (Some(1213), false)]);
}

#[test]
fn a_slow_log_of_percona_server_tells_which_statements_failed_and_others_do_not() {
    let entry = |second: u32, error: &str| {
        format!(
            "# Time: 2026-11-20T19:40:0{second}.000000Z\n# User@Host: app[app] @ localhost []  Id:     8\n\
             {error}# Query_time: 0.500000  Lock_time: 0.000001  Rows_sent: 0  Rows_examined: 0  \
             Rows_affected: 1\nSET timestamp=1795203600;\nUPDATE t SET a = 1;\n"
        )
    };
    let percona = |code: u16| format!("# Schema: shop  Last_errno: {code}  Killed: 0\n");
    let log = [entry(1, &percona(0)), entry(2, &percona(1213)), entry(3, "")].concat();
    let events = events(Kind::Slow, &log);
    let answers = events.iter().filter_map(|e| if let Event::Command(c) = e { c.answer } else { None });
    let errors: Vec<_> = answers.map(|answer| (answer.error, answer.error_unknown)).collect();
    assert_eq!(errors, [(None, false), (Some(1213), false), (None, true)]);
}

#[test]
fn what_is_no_log_is_told_in_words() {
    for kind in [Kind::General, Kind::Slow] {
        let refused =
            read(kind, &b"hello\nworld\n"[..], "a test", |_| Ok::<(), RecordingError>(())).unwrap_err();
        assert!(refused.to_string().contains("no statement with a time"), "{refused}");
    }
}
