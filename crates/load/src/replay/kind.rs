//! StatementKind: may a recorded statement be sent again? Pure.
//!
//! Read-only replays send what is known to read, and nothing else: in doubt a statement writes. (The sessions
//! are read-only for the server too, which sees what functions and views hide from here.) What administers a
//! server or its accounts is never sent again: it would end the target's sessions, its replication, or its
//! users' access.
//!
//! Worked example: `SELECT a INTO OUTFILE 'x' FROM t` writes a file; `/* note */ (SELECT 1)` reads; `SET
//! NAMES utf8mb4` keeps the session as it was and reads; `SET GLOBAL x = 1` administers; `SET STATEMENT
//! max_statement_time = 1 FOR DELETE FROM t` writes, as what follows `FOR` does.

/// What a statement does, the least harmful first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatementKind {
    /// It reads, or sets up its own session.
    Reads,
    /// It may change data.
    Writes,
    /// It changes the server, its accounts or its replication, or needs a file that is not recorded.
    Administers,
}

/// Verbs of statements that administer, whatever follows.
const ADMINISTERS: [&str; 16] = [
    "KILL",
    "SHUTDOWN",
    "RESET",
    "PURGE",
    "CHANGE",
    "STOP",
    "INSTALL",
    "UNINSTALL",
    "FLUSH",
    "GRANT",
    "REVOKE",
    "LOAD",
    "BINLOG",
    "CLONE",
    "RESTART",
    "BACKUP",
];
/// How functions begin that change a group of servers or its replication.
const ADMINISTERING_FUNCTIONS: [&str; 3] =
    ["GROUP_REPLICATION_SET_", "GROUP_REPLICATION_SWITCH_", "ASYNCHRONOUS_CONNECTION_FAILOVER_"];
const DATA: [&str; 4] = ["INSERT", "UPDATE", "DELETE", "REPLACE"];
/// Whoever sets one of these may write again.
const READ_ONLY: [&str; 2] = ["TX_READ_ONLY", "TRANSACTION_READ_ONLY"];
/// Functions of MariaDB's sequences.
const SEQUENCES: [&str; 2] = ["NEXTVAL", "SETVAL"];

/// What this text does; of several statements the worst.
pub fn kind(text: &[u8]) -> StatementKind {
    let statements = statements(text, true);
    let mut found = of_all(&statements);
    // With NO_BACKSLASH_ESCAPES, which is not recorded, the string ends there and others may follow.
    if text.windows(2).any(|two| matches!(two, [b'\\', b'\'' | b'"'])) {
        found = found.max(of_all(&self::statements(text, false)));
    }
    if statements.iter().any(|words| is_in_string(words)) {
        let quote = text.iter().position(|byte| matches!(byte, b'\'' | b'"'));
        return quote.map_or(found, |at| found.max(worst(&self::statements(&text[at + 1..], true))));
    }
    found
}

fn of_all(statements: &[Vec<String>]) -> StatementKind {
    let found = worst(statements);
    if statements.iter().any(|words| is_compound(words)) {
        // Its own semicolons have cut it, and what it does may stand anywhere in it.
        let administers = statements.iter().any(|words| has(words, &ADMINISTERS));
        return found.max(if administers { StatementKind::Administers } else { StatementKind::Writes });
    }
    found
}

fn worst(statements: &[Vec<String>]) -> StatementKind {
    statements.iter().map(|words| of(words)).max().unwrap_or(StatementKind::Reads)
}

/// A compound statement outside of a procedure, as MariaDB runs them.
fn is_compound(words: &[String]) -> bool {
    match words.first().map(String::as_str) {
        Some("IF" | "CASE" | "LOOP" | "REPEAT" | "WHILE" | "FOR") => true,
        Some("BEGIN") => words.get(1).is_some_and(|second| second == "NOT"),
        _ => false,
    }
}

/// A statement whose own statement stands in a string.
fn is_in_string(words: &[String]) -> bool {
    matches!(words.first().map(String::as_str), Some("PREPARE" | "EXECUTE"))
}

fn of(words: &[String]) -> StatementKind {
    let mut rest = words;
    // SET STATEMENT ... FOR ... (MariaDB) does what follows.
    while let [first, second, ..] = rest
        && first == "SET"
        && second == "STATEMENT"
    {
        let Some(at) = rest.iter().position(|word| word == "FOR") else { return StatementKind::Writes };
        rest = &rest[at + 1..];
    }
    let may_write = rest.len() < words.len() && has(words, &READ_ONLY);
    plain(rest).max(if may_write { StatementKind::Writes } else { StatementKind::Reads })
}

fn plain(words: &[String]) -> StatementKind {
    let word = |n: usize| words.get(n).map_or("", String::as_str);
    match word(0) {
        "BEGIN" if word(1) == "NOT" => StatementKind::Writes,
        "" | "SHOW" | "HELP" | "USE" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" | "BEGIN" => {
            StatementKind::Reads
        }
        "SELECT" | "TABLE" | "VALUES" | "DO" => query(words, false),
        "WITH" | "EXPLAIN" | "DESC" | "DESCRIBE" => query(words, true),
        "START" if word(1) != "TRANSACTION" => StatementKind::Administers,
        "START" if follows(words, "READ", &["WRITE"]) => StatementKind::Writes,
        "START" => StatementKind::Reads,
        "SET" if has(words, &["GLOBAL", "PERSIST", "PERSIST_ONLY", "PASSWORD", "ROLE"]) => {
            StatementKind::Administers
        }
        "SET" if follows(words, "READ", &["WRITE"]) || has(words, &READ_ONLY) || has(words, &SEQUENCES) => {
            StatementKind::Writes
        }
        "SET" => StatementKind::Reads,
        "CREATE" | "ALTER" | "DROP" | "RENAME" => {
            // A table may be called user.
            let object = words[1..].iter().find(|word| !["OR", "REPLACE"].contains(&word.as_str()));
            match object.map(String::as_str) {
                Some("USER" | "ROLE" | "SERVER" | "INSTANCE") => StatementKind::Administers,
                _ => StatementKind::Writes,
            }
        }
        verb if ADMINISTERS.contains(&verb) => StatementKind::Administers,
        _ => StatementKind::Writes,
    }
}

/// What begins as a query, and may be one; `holds_others`: a statement that changes data may follow.
fn query(words: &[String], holds_others: bool) -> StatementKind {
    let administers = |word: &String| ADMINISTERING_FUNCTIONS.iter().any(|begins| word.starts_with(begins));
    if words.iter().any(administers) {
        return StatementKind::Administers;
    }
    // Rows locked for an update are refused to a session that is read-only (error 1792).
    let writes = follows(words, "INTO", &["OUTFILE", "DUMPFILE"])
        || follows(words, "FOR", &["UPDATE"])
        || words.windows(3).any(|three| three == ["NEXT", "VALUE", "FOR"])
        || has(words, &SEQUENCES)
        || holds_others && has(words, &DATA);
    if writes { StatementKind::Writes } else { StatementKind::Reads }
}

fn has(words: &[String], wanted: &[&str]) -> bool {
    words.iter().any(|word| wanted.contains(&word.as_str()))
}

fn follows(words: &[String], first: &str, then: &[&str]) -> bool {
    words.windows(2).any(|pair| pair[0] == first && then.contains(&pair[1].as_str()))
}

/// The words of each statement in capitals, without strings, quoted names and comments. Comments that servers
/// execute are code. `escapes`: a backslash in a string takes the next byte as it is.
fn statements(text: &[u8], escapes: bool) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let rest = &text[at..];
        at += match byte {
            b'\'' | b'"' | b'`' => quoted(rest, escapes).unwrap_or_else(|| {
                // Where backslashes are plain it is no statement then, and is refused.
                if !escapes {
                    all.pop();
                }
                rest.len()
            }),
            b'#' => line(rest),
            b'-' if rest.starts_with(b"--") && rest.get(2).is_none_or(|next| *next <= b' ') => line(rest),
            b'/' if rest.starts_with(b"/*!") || rest.starts_with(b"/*M!") => {
                let mark = if rest[2] == b'!' { 3 } else { 4 };
                mark + rest[mark..].iter().take_while(|b| b.is_ascii_digit()).count()
            }
            b'/' if rest.starts_with(b"/*") => {
                rest[2..].windows(2).position(|end| end == b"*/").map_or(rest.len(), |end| end + 4)
            }
            b';' => {
                all.push(Vec::new());
                1
            }
            _ if is_word(byte) => {
                let length = rest.iter().take_while(|b| is_word(**b)).count();
                let word = String::from_utf8_lossy(&rest[..length]).to_ascii_uppercase();
                if let Some(words) = all.last_mut() {
                    words.push(word);
                }
                length
            }
            _ => 1,
        };
    }
    all.retain(|words| !words.is_empty());
    all
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

fn line(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1)
}

/// Where it ends; `None` if it does not. A doubled quote is two strings, which comes to the same here.
fn quoted(rest: &[u8], escapes: bool) -> Option<usize> {
    let quote = rest[0];
    let mut at = 1;
    while let Some(&byte) = rest.get(at) {
        at += match byte {
            b'\\' if escapes && quote != b'`' => 2,
            byte if byte == quote => return Some(at + 1),
            _ => 1,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_is_known_and_everything_else_is_held_to_write() {
        for reads in [
            "SELECT 1",
            " /* INSERT */ (select a from t where b = 'DELETE; DROP')",
            "SELECT * FROM t LOCK IN SHARE MODE",
            "SET NAMES utf8mb4",
            "set autocommit=0",
            "SET @a = 1",
            "START TRANSACTION",
            "start transaction with consistent snapshot, read only",
            "BEGIN",
            "COMMIT",
            "SHOW GRANTS",
            "USE shop",
            "-- nothing",
            "",
            "WITH x AS (SELECT 1) SELECT * FROM x",
            "SELECT 1; SELECT 2",
            "SET STATEMENT max_statement_time = 1 FOR SELECT 1",
            "DESC t",
            "SELECT next, value FROM t",
            r"SELECT 'it\'s; stop'",
            r"SELECT 'a\'b\'c'",
        ] {
            assert_eq!(kind(reads.as_bytes()), StatementKind::Reads, "{reads}");
        }
        for writes in [
            "INSERT INTO t VALUES (1)",
            "/*!40000 DELETE FROM t */",
            "/*M!100100 UPDATE t SET a = 1 */",
            "SELECT 1; DELETE FROM t",
            "SELECT a INTO OUTFILE '/tmp/x' FROM t",
            "CALL p()",
            "WITH x AS (SELECT 1) DELETE FROM t",
            "SET SESSION TRANSACTION READ WRITE",
            "SET tx_read_only = 0",
            "SET @@session.transaction_read_only = OFF",
            "START TRANSACTION READ WRITE",
            "EXECUTE s",
            "CREATE TABLE t (a INT)",
            "LOCK TABLES t WRITE",
            "SELECT * FROM t FOR UPDATE",
            "WITH x AS (SELECT 1) SELECT * FROM x INTO OUTFILE '/tmp/x'",
            "DESCRIBE ANALYZE DELETE t FROM t JOIN u",
            "SELECT NEXTVAL(s)",
            "SELECT NEXT VALUE FOR s",
            "SET @a = SETVAL(s, 9)",
            "SET STATEMENT max_statement_time = 1 FOR DELETE FROM t",
            "SET STATEMENT a = 1 FOR SET STATEMENT b = 1 FOR INSERT INTO t VALUES (1)",
            "SET STATEMENT tx_read_only = 0 FOR SELECT f()",
            "SET STATEMENT a = 1",
            "BEGIN NOT ATOMIC DELETE FROM t; END",
            "IF 1 THEN DELETE FROM t; END IF",
            "PREPARE s FROM 'SELECT 1'",
            "CREATE TABLE user (a INT)",
            "DROP TABLE IF EXISTS server",
            r"SELECT 'C:\'; DELETE FROM t",
        ] {
            assert_eq!(kind(writes.as_bytes()), StatementKind::Writes, "{writes}");
        }
    }

    #[test]
    fn servers_and_accounts_are_never_administered_again() {
        for administers in [
            "KILL 5",
            "SET GLOBAL read_only = 0",
            "SET @@global.read_only = 0",
            "START SLAVE",
            "STOP REPLICA",
            "CHANGE MASTER TO MASTER_HOST = 'x'",
            "CREATE OR REPLACE USER a",
            "DROP USER IF EXISTS a",
            "GRANT ALL ON *.* TO a",
            "SELECT 1; SHUTDOWN",
            "LOAD DATA LOCAL INFILE 'x' INTO TABLE t",
            "FLUSH TABLES",
            "SET STATEMENT max_statement_time = 1 FOR KILL 5",
            "BEGIN NOT ATOMIC SELECT 1; KILL 5; END",
            "IF 1 THEN SELECT 1; ELSE KILL 5; END IF",
            "PREPARE s FROM 'DROP USER a'",
            "EXECUTE IMMEDIATE \"SHUTDOWN\"",
            "SELECT group_replication_set_as_primary('x')",
            "ALTER INSTANCE ROTATE INNODB MASTER KEY",
            r"SELECT 'C:\'; KILL 5",
            r"SELECT 'a\'; KILL 5; SELECT '\'",
        ] {
            assert_eq!(kind(administers.as_bytes()), StatementKind::Administers, "{administers}");
        }
    }
}
