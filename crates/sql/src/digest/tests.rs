//! The rules one by one. The texts were taken from the servers (MariaDB 10.11, MySQL 9.7) that were given the
//! same.

use super::*;
use proptest::prelude::*;

const MARIADB: Dialect = Dialect { mariadb: true, plain_backslash: false, ansi_quotes: false };
const MYSQL: Dialect = Dialect { mariadb: false, ..MARIADB };

fn text(sql: &str, dialect: Dialect) -> String {
    let mut digester = Digester::new();
    digester.read(sql.as_bytes(), dialect);
    digester.text()
}

#[track_caller]
fn both(sql: &str, expected: &str) {
    assert_eq!(text(sql, MARIADB), expected, "MariaDB");
    assert_eq!(text(sql, MYSQL), expected, "MySQL");
}

#[track_caller]
fn each(sql: &str, mariadb: &str, mysql: &str) {
    assert_eq!(text(sql, MARIADB), mariadb, "MariaDB");
    assert_eq!(text(sql, MYSQL), mysql, "MySQL");
}

#[test]
fn literals_become_question_marks_and_names_keep_their_case() {
    both(
        "select count(*), Count( * ), concat(a,'x'), CONCAT(a,\"y\"), now(), now(6) from t1 t",
        "SELECT COUNT ( * ) , COUNT ( * ) , `concat` ( `a` , ? ) , `CONCAT` ( `a` , ? ) , NOW ( ) , NOW (?) FROM `t1` `t`",
    );
    both(
        "select a from t1 where b <> 1 or b != 2 || c && d",
        "SELECT `a` FROM `t1` WHERE `b` != ? OR `b` != ? || `c` && `d`",
    );
    both("select 'a' 'b', \"c\" \"d\"", "SELECT ? ?, ... ?");
    both(
        "select a.Ünicode, $foo, _bar, a$b from tÉ",
        "SELECT `a` . `Ünicode` , `$foo` , `_bar` , `a$b` FROM `tÉ`",
    );
    both("select true, false, null, 'it''s', \"a\\\"b\", 'back\\\\'", "SELECT TRUE , FALSE , ?, ...");
    both("select a from t1;", "SELECT `a` FROM `t1`");
    each(
        "select name, `name`, value, status, count, id from t1 limit 10, 20",
        "SELECT NAME , `name` , VALUE , STATUS , `count` , ID FROM `t1` LIMIT ?, ...",
        "SELECT NAME , `name` , VALUE , STATUS , `count` , `id` FROM `t1` LIMIT ?, ...",
    );
}

#[test]
fn numbers_are_told_from_names_that_start_with_digits() {
    each(
        "select distinctrow a, 1.5, .5, 1e10, 0x1F, x'1f', 0b01, n'abc', _utf8'abc' 'def', date'2020-01-01', 1a, t1.a, t1 . a, db.t1.a",
        "SELECT DISTINCT `a` , ?, ... , x'?' , ?, ... , (_charset) ? ? , DATE ? , `1a` , `t1` . `a` , `t1` . `a` , `db` . `t1` . `a`",
        "SELECT DISTINCT `a` , ?, ... , (_charset) ? ? , DATE ? , `1a` , `t1` . `a` , `t1` . `a` , `db` . `t1` . `a`",
    );
    both("select 1.e5 , 2. , t.1a, 1e, 1e+", "SELECT ?, ... , `t` . `1a` , `1e` , `1e` +");
}

#[test]
fn lists_and_rows_are_folded() {
    both("insert into t1 values (1)", "INSERT INTO `t1` VALUES (?)");
    both("insert into t1 values (1),(2)", "INSERT INTO `t1` VALUES (?) /* , ... */");
    both(
        "insert into t1 (a,b) values (1,'x'),(-2,'y'),(3,null)",
        "INSERT INTO `t1` ( `a` , `b` ) VALUES (...) /* , ... */",
    );
    both(
        "insert into t1 (a,b) values (default,1,2)",
        "INSERT INTO `t1` ( `a` , `b` ) VALUES ( DEFAULT , ?, ... )",
    );
    both(
        "insert into t1 values (1,now()),(2,now())",
        "INSERT INTO `t1` VALUES ( ? , NOW ( ) ) , ( ? , NOW ( ) )",
    );
    both("insert into t1 values ((1)),((2))", "INSERT INTO `t1` VALUES ( (?) ) , ( (?) )");
    both(
        "select (1),(2),((3)), (1,2),(3,4), f(1), f(1,2), ((1),(2))",
        "SELECT (?) /* , ... */ , ( (?) ) , (...) /* , ... */ , `f` (?) , `f` (...) , ( (?) /* , ... */ )",
    );
    both(
        "select f(), f(-1), f(a,-1), (a), (a,1), (1,a), (1,2,a)",
        "SELECT `f` ( ) , `f` (?) , `f` ( `a` , ? ) , ( `a` ) , ( `a` , ? ) , ( ? , `a` ) , ( ?, ... , `a` )",
    );
    each(
        "select * from t1 where x in (-1) and y in (-1,-2) and z in ('a') and w in (select 1) and w not in (1)",
        "SELECT * FROM `t1` WHERE `x` IN (?) AND `y` IN (...) AND `z` IN (?) AND `w` IN ( SELECT ? ) AND `w` NOT IN (?)",
        "SELECT * FROM `t1` WHERE `x` IN (...) AND `y` IN (...) AND `z` IN (...) AND `w` IN ( SELECT ? ) AND `w` NOT IN (...)",
    );
    each(
        "update t1 set a=1 where id1 in ((1),(2)) and (a,b) in ((1,2),(3,4))",
        "UPDATE `t1` SET `a` = ? WHERE `id1` IN ( (?) /* , ... */ ) AND ( `a` , `b` ) IN ( (...) /* , ... */ )",
        "UPDATE `t1` SET `a` = ? WHERE `id1` IN ( (?) /* , ... */ ) AND ( `a` , `b` ) IN ( (...) /* , ... */ )",
    );
}

#[test]
fn a_sign_belongs_to_a_number_where_no_operand_stands_before_it() {
    each(
        "update t1 set a = a + 1, b = -1, c = - -1, d=(-1), e = 5 - -3, f=a*-1",
        "UPDATE `t1` SET `a` = `a` + ? , `b` = - ? , `c` = - ? , `d` = (?) , `e` = ? - ? , `f` = `a` * ?",
        "UPDATE `t1` SET `a` = `a` + ? , `b` = ? , `c` = ? , `d` = (?) , `e` = ? - ? , `f` = `a` * ?",
    );
    each(
        "select case when a=1 then -1 else -2 end from t1 order by -a, -1 desc",
        "SELECT CASE WHEN `a` = ? THEN - ? ELSE - ? END FROM `t1` ORDER BY - `a` , ? DESC",
        "SELECT CASE WHEN `a` = ? THEN ? ELSE ? END FROM `t1` ORDER BY - `a` , ? DESC",
    );
    both("select - 1, +1, ~1, !1, not 1", "SELECT ?, ... , ~ ? , ! ? , NOT ?");
    both("select ~ -1, ! -1, binary -1", "SELECT ~ - ? , ! - ? , BINARY - ?");
    both("select 1 where a between -1 and -2", "SELECT ? WHERE `a` BETWEEN ? AND ?");
    both("select a-5, a -5", "SELECT `a` - ? , `a` - ?");
    both("select a from t where -1", "SELECT `a` FROM `t` WHERE - ?");
}

#[test]
fn null_is_a_value_where_it_is_one() {
    both(
        "select null, null is null, not null, (null), coalesce(null,1), coalesce(1,null), a = null or null, case when null then null else null end, null + 1, null = 1",
        "SELECT ?, ... IS NULL , NOT ? , (?) , COALESCE (...) , COALESCE (...) , `a` = ? OR ? , CASE WHEN ? THEN ? ELSE ? END , ? + ?, ... = ?",
    );
    both(
        "create table tx (a int null default null, b int not null default 5)",
        "CREATE TABLE `tx` ( `a` INT NULL DEFAULT ? , `b` INT NOT NULL DEFAULT ? )",
    );
    both(
        "select a from t where b is not null and c is null",
        "SELECT `a` FROM `t` WHERE `b` IS NOT NULL AND `c` IS NULL",
    );
}

#[test]
fn variables_and_accounts() {
    both(
        "select @x, @@version, @x := 5, @`foo`, @'bar', @@session.sql_mode",
        "SELECT @? , @@`version` , @? := ? , @`foo` , @? , @@SESSION . `sql_mode`",
    );
    both("create user 'a'@'localhost' identified by 'x'", "CREATE USER ? @? IDENTIFIED BY ?");
    both(
        "set @a=1, autocommit=0, session sql_mode=''",
        "SET @? = ? , `autocommit` = ? , SESSION `sql_mode` = ?",
    );
}

#[test]
fn comments_are_left_out_but_for_those_that_servers_execute() {
    both(
        "select /*! straight_join */ a /*!50000 , b */ from t1 /* hello */ -- foo",
        "SELECT STRAIGHT_JOIN `a` , `b` FROM `t1`",
    );
    each(
        "select /*+ MAX_EXECUTION_TIME(1000) */ a from t1",
        "SELECT `a` FROM `t1`",
        "SELECT /*+ `MAX_EXECUTION_TIME` (?) */ `a` FROM `t1`",
    );
    both("select 1 --2", "SELECT ? - ?");
    both("select 1 # a ' b\n, 2", "SELECT ?, ...");
    let sql = "/* first */ select 1 /*a=1*/ -- x\n";
    let mut digester = Digester::new();
    digester.read(sql.as_bytes(), MARIADB);
    let comments: Vec<&str> = digester.comments().map(|(from, to)| &sql[from..to]).collect();
    assert_eq!(comments, [" x", "a=1", " first "]);
}

#[test]
fn quotes_are_read_as_the_session_reads_them() {
    let plain = Dialect { plain_backslash: true, ..MARIADB };
    assert_eq!(text(r"select 'a\', b", plain), "SELECT ? , `b`");
    let ansi = Dialect { ansi_quotes: true, ..MARIADB };
    assert_eq!(text(r#"select "a" from "b"."c""#, ansi), "SELECT `a` FROM `b` . `c`");
}

#[test]
fn a_statement_without_an_end_is_cut_at_the_limit() {
    let mut digester = Digester::new();
    let long = |names: usize| (0..names).fold("select 1".to_owned(), |sql, n| format!("{sql} + column_{n}"));
    let first = digester.read(long(500).as_bytes(), MARIADB);
    assert!(digester.tokens.stored().len() <= LIMIT);
    assert_eq!(first, digester.read(long(501).as_bytes(), MARIADB));
    assert_ne!(first, digester.read(long(5).as_bytes(), MARIADB));
}

/// Statements with places for literals.
const SHAPES: [&str; 5] = [
    "SELECT a FROM t WHERE id = {} AND name = {} LIMIT {}",
    "INSERT INTO t (a, b) VALUES ({}, {}), ({}, {})",
    "UPDATE t SET a = a + {}, b = {} WHERE c IN ({}, {}, {})",
    "SELECT f({}), g(x, {}) FROM t WHERE a BETWEEN {} AND {} ORDER BY c",
    "CALL p({}, {}) /* {} */",
];

fn literal() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<u32>().prop_map(|n| n.to_string()),
        (0u32..10_000, 0u32..100).prop_map(|(a, b)| format!("{a}.{b}")),
        "[a-zA-Z0-9 ,()%=-]{0,20}".prop_map(|s| format!("'{s}'")),
        "[a-z ]{0,8}".prop_map(|s| format!("\"{s}\"\"{s}\"")),
        "[0-9A-F]{2,8}".prop_map(|s| format!("0x{s}")),
        Just("1e10".to_owned()),
        Just("'it\\'s'".to_owned()),
    ]
}

fn fill(shape: &str, literals: &[String]) -> String {
    let mut parts = shape.split("{}");
    let mut sql = parts.next().unwrap_or_default().to_owned();
    for (part, literal) in parts.zip(literals.iter().cycle()) {
        sql.push_str(literal);
        sql.push_str(part);
    }
    sql
}

proptest! {
    #[test]
    fn a_change_of_literals_space_and_case_of_keywords_changes_nothing(
        shape in 0..SHAPES.len(),
        one in prop::collection::vec(literal(), 5),
        two in prop::collection::vec(literal(), 5),
        space in "[ \t\n]{1,4}",
    ) {
        let mut digester = Digester::new();
        for dialect in [MARIADB, MYSQL] {
            let first = digester.read(fill(SHAPES[shape], &one).as_bytes(), dialect);
            prop_assert_eq!(first, digester.read(fill(SHAPES[shape], &two).as_bytes(), dialect));
            let spaced = SHAPES[shape].replace(' ', &space).replace("SELECT", "select").replace("WHERE", "wHere");
            prop_assert_eq!(first, digester.read(fill(&spaced, &two).as_bytes(), dialect));
            let others = (0..SHAPES.len()).filter(|other| *other != shape);
            for other in others {
                prop_assert_ne!(first, digester.read(fill(SHAPES[other], &one).as_bytes(), dialect));
            }
        }
    }

    #[test]
    fn any_bytes_are_read_within_the_limit(bytes in prop::collection::vec(any::<u8>(), 0..400), flags in 0u8..8) {
        let mut digester = Digester::new();
        let dialect = Dialect { mariadb: flags & 1 != 0, plain_backslash: flags & 2 != 0, ansi_quotes: flags & 4 != 0 };
        digester.read(&bytes, dialect);
        prop_assert!(digester.tokens.stored().len() <= LIMIT);
        prop_assert!(digester.comments().all(|(from, to)| from <= to && to <= bytes.len()));
        let _ = digester.text();
    }
}
