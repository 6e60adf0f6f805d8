//! The tracker against scripted sessions: the turns that recordings do not take.

use super::script::{IDLE, PLAIN, Script, framed, greeting, login, ok};
use sql::Verb;
use wire::{Capabilities, Command, ErrPacket, Phase, Status, Sticky, Tracker};

const NO_EOF: Capabilities = PLAIN.union(Capabilities::DEPRECATE_EOF);
const MORE: Status = Status::AUTOCOMMIT.union(Status::MORE_RESULTS_EXISTS);

#[test]
fn a_command_is_started_then_answered_then_completed() {
    for capabilities in [PLAIN, NO_EOF] {
        let mut s = Script::new(capabilities);
        let told = |s: &Script| {
            let p = s.tracker.progress();
            (p.started, p.answering, p.completed)
        };
        s.query("SELECT 1");
        assert_eq!((told(&s), s.tracker.command()), ((1, 0, 0), Some(Command::Query)));
        assert_eq!(s.tracker.next_sequence(), 1);
        s.tracker.server_bytes(&[1]);
        assert_eq!(told(&s), (1, 1, 0), "one byte begins the answer");
        s.tracker.server_bytes(&[0, 0, 1, 1]);
        s.sequence = 2;
        s.server(&wire::response::Column::text("c").encode());
        if capabilities == PLAIN {
            s.end_of_rows(IDLE);
        }
        s.server(&wire::response::text_row([Some(b"x".as_slice())]));
        assert!(!s.tracker.is_idle());
        s.end_of_rows(IDLE);
        assert_eq!((told(&s), s.tracker.command(), s.tracker.is_idle()), ((1, 1, 1), None, true));
    }
}

#[test]
fn half_a_packet_in_either_direction_is_not_idle() {
    let mut s = Script::new(PLAIN);
    s.tracker.client_bytes(&[9, 0]);
    assert_eq!((s.tracker.phase(), s.tracker.is_idle()), (Phase::Idle, false));
    let mut s = Script::new(PLAIN);
    s.tracker.server_bytes(&[9]);
    assert!(!s.tracker.is_idle());
}

/// Found by fuzzing, as a difference between whole and split bytes: two bytes of a header began no answer.
#[test]
fn a_part_of_a_header_begins_an_answer_at_any_length() {
    for length in 1..=4 {
        let mut s = Script::new(PLAIN);
        s.query("SELECT 1");
        s.tracker.server_bytes(&framed(1, &ok(IDLE).encode(PLAIN))[..length]);
        assert_eq!(s.tracker.progress().answering, 1, "{length} bytes");
        assert!(!s.tracker.is_idle());
    }
}

/// Found by fuzzing: the body of an answer that had been counted began the answer of the command behind it.
#[test]
fn the_rest_of_an_answer_does_not_begin_the_next() {
    let mut s = Script::new(PLAIN);
    s.query("SELECT 1");
    s.query("SELECT 2");
    let error = framed(1, &ErrPacket::new(1064, b"42000", "no ".repeat(400)).encode(PLAIN));
    let (most, rest) = error.split_at(error.len() - 3);
    s.tracker.server_bytes(most);
    let before = s.tracker.progress();
    s.tracker.server_bytes(&rest[..2]);
    assert_eq!(s.tracker.progress(), before);
    assert_eq!(before.answering, 1);
    s.tracker.server_bytes(&rest[2..]);
    assert_eq!((s.tracker.progress().answering, s.tracker.progress().completed), (1, 1));
}

#[test]
fn several_results_are_one_command() {
    for capabilities in [PLAIN, NO_EOF] {
        let mut s = Script::new(capabilities);
        s.query("SELECT 1; UPDATE t SET a = 1; SELECT 2");
        s.rows(2, MORE);
        s.ok(MORE);
        assert_eq!(s.tracker.phase(), Phase::Busy);
        s.rows(0, IDLE);
        assert!(s.tracker.is_idle());
        assert_eq!(s.tracker.commands_completed(), 1);
    }
}

#[test]
fn an_error_ends_a_command_in_the_middle_of_its_rows() {
    let mut s = Script::new(NO_EOF);
    s.query("SELECT 1");
    s.server(&[1]);
    s.server(&wire::response::Column::text("c").encode());
    s.server(b"\x01x");
    s.error(1317);
    assert!(s.tracker.is_idle());
    assert_eq!(s.tracker.progress().failed, 1);
}

#[test]
fn after_an_error_the_count_goes_on_from_it_however_it_was_split() {
    for size in [usize::MAX, 1] {
        let mut s = Script::new(NO_EOF);
        s.query("SELECT 1");
        for piece in framed(1, b"\xff\x28\x04#42000no such thing").chunks(size) {
            s.tracker.server_bytes(piece);
        }
        assert_eq!((s.tracker.is_idle(), s.tracker.next_sequence()), (true, 2), "pieces of {size} bytes");
    }
}

#[test]
fn commands_sent_ahead_are_answered_in_order() {
    let mut s = Script::new(NO_EOF);
    for text in ["SELECT 1", "DO 0", "SELECT 2"] {
        s.query(text);
    }
    assert_eq!(s.tracker.progress().started, 3);
    for answered in 1..=3 {
        s.sequence = 1;
        match answered {
            2 => s.ok(IDLE),
            _ => s.rows(1, IDLE),
        }
        assert_eq!(s.tracker.commands_completed(), answered);
    }
    assert!(s.tracker.is_idle());
}

#[test]
fn payloads_of_sixteen_mebibytes_are_followed_both_ways() {
    let mut s = Script::new(NO_EOF);
    let long = "x".repeat(wire::packet::MAX_PIECE);
    s.query(&format!("SELECT '{long}', @a"));
    assert_eq!((s.sequence, s.tracker.next_sequence()), (2, 2));
    s.server(&[1]);
    s.server(&wire::response::Column::text("c").encode());
    s.server(&wire::response::text_row([Some(long.as_bytes())]));
    s.end_of_rows(IDLE);
    assert!(s.tracker.is_idle());
    assert_eq!(s.tracker.sticky(), Sticky::USER_VARIABLE);
}

#[test]
fn an_error_may_come_before_a_long_statement_has_ended() {
    let mut s = Script::new(PLAIN);
    let statement = framed(0, &[b"\x03INSERT ".as_slice(), &[b'x'; 5000]].concat());
    s.tracker.client_bytes(&statement[..2000]);
    s.sequence = 1;
    s.error(1153);
    assert!(!s.tracker.is_idle(), "the client is still sending");
    s.tracker.client_bytes(&statement[2000..]);
    assert!(s.tracker.is_idle());
}

#[test]
fn an_error_without_autocommit_may_leave_a_transaction_open() {
    let mut s = Script::new(PLAIN);
    s.query("SET autocommit = 0");
    s.ok(Status::empty());
    assert!(!s.tracker.in_transaction());
    s.query("INSERT INTO t VALUES (1)");
    s.error(1062);
    assert!(s.tracker.in_transaction());
    s.query("COMMIT");
    s.ok(Status::empty());
    assert!(!s.tracker.in_transaction());
}

#[test]
fn an_error_of_a_procedure_may_leave_a_transaction_open() {
    let mut s = Script::new(PLAIN);
    let fails = |s: &mut Script, command: &[u8]| {
        s.command(command);
        s.error(1062);
        let open = s.tracker.in_transaction();
        s.query("ROLLBACK");
        s.ok(IDLE);
        assert!(!s.tracker.in_transaction());
        open
    };
    let execute = b"\x17\x07\0\0\0\0\x01\0\0\0";
    assert!(!fails(&mut s, b"\x03INSERT INTO t VALUES (1)"));
    assert!(!fails(&mut s, execute), "nothing was prepared that calls one");
    assert!(fails(&mut s, b"\x03CALL moves()"));
    assert!(!fails(&mut s, b"\x03INSERT INTO t VALUES (1)"));
    assert!(fails(&mut s, execute), "it may be a call");
}

#[test]
fn an_error_in_a_body_or_of_what_was_prepared_by_text_may_leave_a_transaction_open() {
    for text in [
        "BEGIN NOT ATOMIC START TRANSACTION; INSERT INTO t VALUES (1); END",
        "IF 1 THEN START TRANSACTION; INSERT INTO t VALUES (1); END IF",
        "EXECUTE moves",
    ] {
        let mut s = Script::new(PLAIN);
        s.query(text);
        s.error(1062);
        assert!(s.tracker.in_transaction(), "{text}");
        s.query("ROLLBACK");
        s.ok(IDLE);
        assert!(!s.tracker.in_transaction(), "{text}");
    }
    let mut s = Script::new(PLAIN);
    s.query("PREPARE one FROM 'DO'");
    s.error(1064);
    assert!(!s.tracker.in_transaction(), "nothing has run");
}

#[test]
fn an_insert_id_sticks_until_another_statement_on_rows() {
    let mut s = Script::new(PLAIN);
    s.query("INSERT INTO t () VALUES ()");
    let inserted = wire::response::OkPacket { last_insert_id: 9, ..ok(IDLE) }.encode(PLAIN);
    s.server(&inserted);
    for text in ["COMMIT", "SELECT LAST_INSERT_ID()", "SET NAMES utf8mb4"] {
        s.query(text);
        s.ok(IDLE);
        assert_eq!(s.tracker.sticky(), Sticky::LAST_INSERT_ID, "{text}");
    }
    s.query("SELECT 1");
    s.rows(1, IDLE);
    assert!(s.tracker.sticky().is_empty());
}

#[test]
fn a_lock_is_not_believed_to_be_gone_while_a_prepared_statement_may_take_it_again() {
    let mut s = Script::new(PLAIN);
    s.query("LOCK TABLES t READ");
    s.ok(IDLE);
    s.query("PREPARE s FROM 'DO 1'");
    s.ok(IDLE);
    s.query("UNLOCK TABLES");
    s.ok(IDLE);
    assert!(s.tracker.sticky().contains(Sticky::TABLE_LOCK));
    s.query("DROP PREPARE s");
    s.ok(IDLE);
    s.query("UNLOCK TABLES");
    s.error(1205);
    assert!(s.tracker.sticky().contains(Sticky::TABLE_LOCK), "it failed");
    s.query("UNLOCK TABLES");
    s.ok(IDLE);
    assert!(s.tracker.sticky().is_empty());
}

#[test]
fn a_backup_lock_is_not_given_back_with_the_named_ones() {
    for takes in ["LOCK INSTANCE FOR BACKUP", "BACKUP STAGE START"] {
        let mut s = Script::new(PLAIN);
        for text in [takes, "DO GET_LOCK('a', 1)", "DO RELEASE_ALL_LOCKS()"] {
            s.query(text);
            s.ok(IDLE);
        }
        assert_eq!(s.tracker.sticky(), Sticky::BACKUP_LOCK, "{takes}");
    }
}

#[test]
fn what_commands_sent_ahead_leave_is_not_ended_by_the_ones_before_them() {
    let ahead = |first: &[u8], then: &str| {
        let mut s = Script::new(PLAIN);
        s.query("LOCK TABLES t READ");
        s.ok(IDLE);
        s.command(first);
        s.query(then);
        for left in [1, 0] {
            s.sequence = 1;
            s.ok(IDLE);
            assert_eq!(s.tracker.is_idle(), left == 0);
        }
        s.tracker.sticky()
    };
    assert_eq!(ahead(b"\x03UNLOCK TABLES", "LOCK TABLES u WRITE"), Sticky::TABLE_LOCK);
    assert_eq!(ahead(b"\x03UNLOCK TABLES", "SET @a = 1"), Sticky::USER_VARIABLE);
    assert_eq!(ahead(b"\x03LOCK TABLES u WRITE", "UNLOCK TABLES"), Sticky::empty());
    assert_eq!(ahead(b"\x1f", "SELECT GET_LOCK('l', 1)"), Sticky::NAMED_LOCK);
    assert_eq!(ahead(b"\x1f", "PREPARE s FROM 'DO 1'"), Sticky::PREPARED_STATEMENT);
    assert_eq!(ahead(b"\x1f", "DO 1"), Sticky::empty());
    let found_rows = Sticky::TABLE_LOCK | Sticky::FOUND_ROWS;
    assert_eq!(ahead(b"\x03SELECT 1", "SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1"), found_rows);
}

#[test]
fn what_is_set_for_the_next_transaction_stays_until_a_statement_has_used_it() {
    let mut s = Script::new(PLAIN);
    let mut after = |statement: &str| {
        s.query(statement);
        s.ok(IDLE);
        s.tracker.sticky()
    };
    assert_eq!(after("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"), Sticky::NEXT_TRANSACTION);
    assert_eq!(after("BEGIN"), Sticky::NEXT_TRANSACTION);
    assert_eq!(after("UPDATE t SET a = 1"), Sticky::empty());
    assert_eq!(after("SELECT 1; SET TRANSACTION READ ONLY"), Sticky::NEXT_TRANSACTION);
}

#[test]
fn a_change_of_user_with_a_full_exchange_of_proofs_is_one_command() {
    let mut s = Script::new(PLAIN);
    s.query("SET @a = 1");
    s.ok(IDLE);
    s.command(b"\x11other\0\x00stock\0\x2d\x00caching_sha2_password\0");
    s.server(b"\xfecaching_sha2_password\0nonce-of-twenty-bytes\0");
    s.client(&[7; 32]);
    s.server(&[1, 4]);
    s.client(&[2]);
    s.server(b"\x01-----BEGIN PUBLIC KEY-----");
    s.client(&[8; 256]);
    assert_eq!(s.tracker.user(), Some("shop"));
    s.ok(IDLE);
    assert!(s.tracker.is_idle());
    assert_eq!((s.tracker.user(), s.tracker.database()), (Some("other"), Some("stock")));
    assert_eq!((s.tracker.sticky(), s.tracker.commands_completed()), (Sticky::empty(), 2));
}

#[test]
fn a_login_with_a_full_exchange_of_proofs_ends_with_ok() {
    for answers in [vec![3], vec![4]] {
        let mut tracker = Tracker::new();
        tracker.server_bytes(&greeting(PLAIN));
        tracker.client_bytes(&login(PLAIN));
        tracker.server_bytes(&framed(2, &[&[1], answers.as_slice()].concat()));
        let mut next = 3;
        if answers == [4] {
            tracker.client_bytes(&framed(3, b"secret\0"));
            next = 4;
        }
        assert_eq!(tracker.phase(), Phase::Authenticating);
        tracker.server_bytes(&framed(next, &ok(IDLE).encode(PLAIN)));
        assert!(tracker.is_idle());
        assert_eq!((tracker.user(), tracker.database()), (Some("shop"), Some("orders")));
    }
}

#[test]
fn of_prepared_statements_it_is_known_which_ones_write_until_they_are_closed() {
    let mut s = Script::new(PLAIN);
    let prepare = |s: &mut Script, id: u32, text: &str| {
        s.command(&[b"\x16", text.as_bytes()].concat());
        // No columns and no parameters.
        s.server(&[&[0], id.to_le_bytes().as_slice(), &[0; 7]].concat());
        assert!(s.tracker.is_idle());
    };
    prepare(&mut s, 1, "SELECT a FROM t");
    prepare(&mut s, 2, "/* cart */ insert into t values (1)");
    prepare(&mut s, 3, "COMMIT");
    let writes = |s: &Script| [1, 2, 3, 4, u32::MAX].map(|id| s.tracker.prepared_write(id));
    let commit = Some(Verb::Commit);
    assert_eq!(writes(&s), [None, Some(Verb::Insert), commit, None, commit], "all ones is the newest");
    s.command(&[&[0x19], 2u32.to_le_bytes().as_slice()].concat());
    assert_eq!(s.tracker.prepared_write(2), None);
    s.command(b"\x16UPDATE");
    s.error(1064);
    assert_eq!(writes(&s), [None, None, commit, None, commit], "nothing was prepared");
    for id in 10..1000 {
        prepare(&mut s, id, "DELETE FROM t");
    }
    let known = (10..1000).filter(|id| s.tracker.prepared_write(*id).is_some()).count();
    assert_eq!((known, s.tracker.prepared_write(3)), (255, commit), "bounded, and what is known stays");
    s.command(b"\x1f");
    s.ok(IDLE);
    assert_eq!(s.tracker.prepared_write(3), None);
}

#[test]
fn an_error_in_the_middle_of_a_file_lets_the_client_finish_it() {
    let mut s = Script::new(PLAIN);
    s.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t");
    s.server(b"\xfbx");
    assert_eq!(s.tracker.phase(), Phase::Infile);
    s.client(b"1\n");
    s.error(1317);
    assert!(!s.tracker.is_idle(), "the client does not know yet");
    s.client(b"2\n");
    s.client(b"");
    assert!(s.tracker.is_idle());
}

#[test]
fn a_long_file_wraps_the_sequence_id() {
    let mut s = Script::new(PLAIN);
    s.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t");
    s.server(b"\xfbx");
    for _ in 0..600 {
        s.client(b"some rows\n");
    }
    s.client(b"");
    s.ok(IDLE);
    assert!(s.tracker.is_idle());
}

#[test]
fn query_attributes_are_left_out_of_the_statement() {
    let capabilities = NO_EOF | Capabilities::QUERY_ATTRIBUTES;
    let sticky = |body: &[u8]| {
        let mut s = Script::new(capabilities);
        s.command(&[b"\x03".as_slice(), body].concat());
        s.ok(IDLE);
        assert!(s.tracker.is_idle());
        s.tracker.sticky()
    };
    assert_eq!(sticky(b"\x00\x01SELECT 1"), Sticky::empty());
    // One attribute, a string that would open a quote.
    let named = b"\x01\x01\x00\x01\xfd\x00\x01n\x03it'SELECT 1";
    assert_eq!(sticky(named), Sticky::empty());
    assert_eq!(sticky(&[&named[..], b", @a"].concat()), Sticky::USER_VARIABLE);
    // Two numbers and a NULL: 8 bytes, 4 bytes, nothing.
    let numbers =
        b"\x03\x01\x04\x01\x08\x00\x01a\x03\x00\x01b\x06\x00\x01c\x01\x02\x03\x04\x05\x06\x07\x08\x01\x02\x03\x04DO @a";
    assert_eq!(sticky(numbers), Sticky::USER_VARIABLE);
    // Cut short: the whole is read warily.
    assert!(sticky(b"\x09\x01\x00\x01'x', CALL p()").contains(Sticky::STORED_PROCEDURE));
}

#[test]
fn the_default_database_is_followed() {
    let capabilities = NO_EOF | Capabilities::SESSION_TRACK;
    let mut s = Script::new(capabilities);
    s.query("USE `other`");
    s.error(1049);
    assert_eq!(s.tracker.database(), Some("orders"));
    s.query("USE `other`");
    s.ok(IDLE);
    assert_eq!(s.tracker.database(), Some("other"));
    s.query("CALL moves()");
    let changed = wire::response::OkPacket {
        status: IDLE | Status::SESSION_STATE_CHANGED,
        raw_changes: b"\x01\x06\x05third",
        ..ok(IDLE)
    };
    s.server(&changed.encode(capabilities));
    assert_eq!(s.tracker.database(), Some("third"));
    s.command(&[b"\x02".as_slice(), &[b'n'; 5000]].concat());
    s.ok(IDLE);
    assert_eq!(s.tracker.database().map(str::len), Some(256));
}
