//! What statements leave behind, whatever quotes, comments and spelling hide it in.

use super::*;
use proptest::prelude::*;

fn leaves(text: &str) -> Sticky {
    scan(text.as_bytes(), false).leaves
}

fn ends(text: &str) -> Sticky {
    scan(text.as_bytes(), false).ends
}

#[test]
fn ordinary_statements_leave_nothing() {
    for text in [
        "SELECT c FROM sbtest1 WHERE id=5012",
        "select a - b, a -- b\n, c from t # @x\n where d = 'me@example.com' /* GET_LOCK(@y) */",
        "INSERT INTO t (mail) VALUES ('a@b.c'), (\"it's @x\"), ('it''s @y'), ('\\'@z')",
        "UPDATE t SET a=1 WHERE `@odd` = 2",
        "SELECT @@autocommit, @@session.sql_mode",
        "SET NAMES utf8mb4",
        "SET SESSION TRANSACTION READ ONLY",
        "SELECT * FROM t WHERE a = 1 LOCK IN SHARE MODE",
        "DROP TABLE t; CREATE TABLE locks (lock_id INT)",
        "BEGIN",
        "COMMIT",
        "FLUSH STATUS",
        "SELECT temporary_x, my_get_lock FROM t",
        "",
    ] {
        assert!(leaves(text).is_empty(), "{text}: {:?}", leaves(text));
    }
}

#[test]
fn state_is_seen_however_it_is_written() {
    for (text, sticky) in [
        ("CREATE TEMPORARY TABLE t (a INT)", Sticky::TEMPORARY_TABLE),
        ("create /* x */ or replace\ttemporary table t select 1", Sticky::TEMPORARY_TABLE),
        ("CREATE /*!40101 TEMPORARY */ TABLE t (a INT)", Sticky::TEMPORARY_TABLE),
        ("CREATE /*M!100100 TEMPORARY*/ TABLE t (a INT)", Sticky::TEMPORARY_TABLE),
        ("SET @a = 1", Sticky::USER_VARIABLE),
        ("SELECT a INTO @a FROM t", Sticky::USER_VARIABLE),
        ("SELECT @`odd name`:=1", Sticky::USER_VARIABLE),
        ("/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */", Sticky::USER_VARIABLE),
        ("SELECT 2*/*c*/3, @x", Sticky::USER_VARIABLE),
        ("SELECT 'a\\\\', @x, 'b'", Sticky::USER_VARIABLE),
        ("LOCK TABLES t READ", Sticky::TABLE_LOCK),
        ("SELECT 1; lock table t write", Sticky::TABLE_LOCK),
        ("FLUSH TABLES WITH READ LOCK", Sticky::TABLE_LOCK),
        ("flush local tables t1 for export", Sticky::TABLE_LOCK),
        ("LOCK INSTANCE FOR BACKUP", Sticky::BACKUP_LOCK),
        ("BACKUP STAGE START", Sticky::BACKUP_LOCK),
        ("(SELECT get_lock('a', 1))", Sticky::NAMED_LOCK),
        ("DO GET_LOCK('a',0)", Sticky::NAMED_LOCK),
        ("HANDLER t OPEN", Sticky::HANDLER),
        ("CALL p()", Sticky::STORED_PROCEDURE),
        ("-- note\nCALL p()", Sticky::STORED_PROCEDURE),
        ("XA START 'x'", Sticky::XA),
        ("set /* once */ transaction read only", Sticky::NEXT_TRANSACTION),
        ("SELECT SQL_CALC_FOUND_ROWS * FROM t LIMIT 1", Sticky::FOUND_ROWS),
        ("UPDATE s SET id = LAST_INSERT_ID(id + 1)", Sticky::LAST_INSERT_ID),
        ("EXECUTE IMMEDIATE 'CREATE TEMPORARY TABLE x (a INT)'", Sticky::TEMPORARY_TABLE),
        ("PREPARE s FROM \"LOCK TABLES t READ\"", Sticky::TABLE_LOCK),
        ("PREPARE s FROM 'SELECT ''a'', @x'", Sticky::USER_VARIABLE),
        ("PREPARE s FROM 'SELECT ''# '', GET_LOCK(1, 1)'", Sticky::NAMED_LOCK),
        ("PREPARE s FROM 'SELECT ''a -- '', @x'", Sticky::USER_VARIABLE),
        ("SELECT 'never closed", Sticky::UNREAD),
    ] {
        assert!(leaves(text).contains(sticky), "{text}: {:?}", leaves(text));
        let mut piecewise = Scanner::new(false);
        text.as_bytes().chunks(1).for_each(|byte| piecewise.feed(byte));
        assert_eq!(piecewise.finish(), scan(text.as_bytes(), false), "{text}, byte by byte");
    }
}

#[test]
fn a_backslash_that_may_be_half_a_letter_makes_the_walk_wary() {
    // In Shift-JIS the two bytes 0x95 0x5c are one letter, and the string ends after it.
    let text = b"SELECT '\x95\\', @x, 'b'";
    assert!(scan(text, false).leaves.contains(Sticky::USER_VARIABLE));
    // Behind an ordinary escape what looks like a comment is still in the string.
    let text = "DO 'é\\' /* ', GET_LOCK('a', 1)".as_bytes();
    assert!(scan(text, false).leaves.contains(Sticky::NAMED_LOCK));
}

#[test]
fn backslash_is_plain_when_the_session_says_so() {
    let text = b"SELECT 'a\\', @x, 'b'";
    assert!(scan(text, true).leaves.contains(Sticky::USER_VARIABLE));
    assert!(!scan(text, false).leaves.contains(Sticky::USER_VARIABLE));
}

#[test]
fn only_a_statement_that_stands_alone_ends_anything() {
    assert_eq!(ends("UNLOCK TABLES"), Sticky::TABLE_LOCK);
    assert_eq!(ends("unlock tables ;"), Sticky::TABLE_LOCK);
    assert_eq!(ends("SELECT RELEASE_ALL_LOCKS()"), Sticky::NAMED_LOCK);
    assert!(ends("SELECT RELEASE_ALL_LOCKS(), GET_LOCK('a', 1)").is_empty(), "it takes one again");
    assert_eq!(ends("XA COMMIT 'x' ONE PHASE"), Sticky::XA);
    assert!(ends("UNLOCK TABLES; LOCK TABLES t READ").is_empty());
    assert!(ends("UNLOCK INSTANCE").is_empty());
    assert!(scan(b"DEALLOCATE PREPARE s", false).deallocates);
    assert!(scan(b"DROP PREPARE s", false).deallocates);
    assert!(!scan(b"DROP TABLE s", false).deallocates);
}

#[test]
fn statements_are_counted_and_the_first_verb_is_told() {
    let found = scan(b" /* tag */ (SELECT 1) UNION (SELECT 2); ; UPDATE t SET a=1;", false);
    assert_eq!((found.verb, found.statements), (Verb::Select, 2));
    assert_eq!(scan(b"PREPARE s FROM 'SELECT 1'", false).prepares, 1);
    assert!(scan(b"SELECT @@identity", false).asks_back);
}

#[test]
fn use_names_a_database() {
    for (text, name) in [
        ("USE shop", Some("shop")),
        (" use `my shop` ; ", Some("my shop")),
        ("USE`x`", Some("x")),
        ("USER", None),
        ("SELECT 1", None),
        ("USE", None),
        ("USE shop /* x */", Some("shop")),
        ("/* x */ USE shop;", Some("shop")),
        ("-- x\nUSE/* y */`my ``shop`# z", Some("my ``shop")),
        ("USE \"shop\"", Some("shop")),
        ("USE /*!40000 shop */", None),
        ("USE `shop", None),
        ("/*/ USE shop", None),
        ("# USE shop", None),
    ] {
        assert_eq!(used_database(text.as_bytes()), name.map(str::as_bytes), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_split_makes_no_difference(text in "[ -~]{0,60}|[-@'\"`/*!#;\\\\a \n]{0,40}", step in 1usize..9) {
        let mut pieces = Scanner::new(false);
        text.as_bytes().chunks(step).for_each(|piece| pieces.feed(piece));
        prop_assert_eq!(pieces.finish(), scan(text.as_bytes(), false));
    }
}
