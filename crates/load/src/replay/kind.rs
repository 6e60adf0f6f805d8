//! StatementKind: may a recorded statement be sent again? Pure.
//!
//! Read-only replays send what is known to read, and nothing else: in doubt a statement writes. (The sessions
//! are read-only for the server too, which sees what functions and views hide from here.) What administers a
//! server or its accounts is never sent again: it would end the target's sessions, its replication, or its
//! users' access.
//!
//! Worked example: `SELECT a INTO OUTFILE 'x' FROM t` writes a file; `/* note */ (SELECT 1)` reads; `SET
//! NAMES utf8mb4` keeps the session as it was and reads; `SET GLOBAL x = 1` administers.

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

/// What this text does; of several statements the worst.
pub fn kind(text: &[u8]) -> StatementKind {
    statements(text).iter().map(|words| of(words)).max().unwrap_or(StatementKind::Reads)
}

fn of(words: &[String]) -> StatementKind {
    let word = |n: usize| words.get(n).map_or("", String::as_str);
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(&word.as_str()));
    let follows = |first: &str, then: &[&str]| {
        words.windows(2).any(|pair| pair[0] == first && then.contains(&pair[1].as_str()))
    };
    const DATA: [&str; 4] = ["INSERT", "UPDATE", "DELETE", "REPLACE"];
    match word(0) {
        "" | "SHOW" | "DESC" | "DESCRIBE" | "HELP" | "USE" | "VALUES" | "COMMIT" | "ROLLBACK"
        | "SAVEPOINT" | "RELEASE" | "BEGIN" | "DO" => StatementKind::Reads,
        "SELECT" | "TABLE" if follows("INTO", &["OUTFILE", "DUMPFILE"]) => StatementKind::Writes,
        "SELECT" | "TABLE" => StatementKind::Reads,
        "WITH" | "EXPLAIN" if has(&DATA) => StatementKind::Writes,
        "WITH" | "EXPLAIN" => StatementKind::Reads,
        "START" if word(1) != "TRANSACTION" => StatementKind::Administers,
        "START" if follows("READ", &["WRITE"]) => StatementKind::Writes,
        "START" => StatementKind::Reads,
        "SET" if has(&["GLOBAL", "PERSIST", "PERSIST_ONLY", "PASSWORD", "ROLE"]) => {
            StatementKind::Administers
        }
        "SET" if follows("READ", &["WRITE"]) || has(&["TX_READ_ONLY", "TRANSACTION_READ_ONLY"]) => {
            StatementKind::Writes
        }
        "SET" => StatementKind::Reads,
        "KILL" | "SHUTDOWN" | "RESET" | "PURGE" | "CHANGE" | "STOP" | "INSTALL" | "UNINSTALL" | "FLUSH"
        | "GRANT" | "REVOKE" | "LOAD" | "BINLOG" | "CLONE" | "RESTART" | "BACKUP" => {
            StatementKind::Administers
        }
        "CREATE" | "ALTER" | "DROP" | "RENAME"
            if words
                .iter()
                .take(5)
                .any(|word| ["USER", "ROLE", "SERVER", "INSTANCE"].contains(&word.as_str())) =>
        {
            StatementKind::Administers
        }
        _ => StatementKind::Writes,
    }
}

/// The words of each statement in capitals, without strings, quoted names and comments. Comments that servers
/// execute are code.
fn statements(text: &[u8]) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let rest = &text[at..];
        at += match byte {
            b'\'' | b'"' | b'`' => quoted(rest),
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

/// A doubled quote is two strings, which comes to the same here.
fn quoted(rest: &[u8]) -> usize {
    let quote = rest[0];
    let mut at = 1;
    while let Some(&byte) = rest.get(at) {
        at += match byte {
            b'\\' if quote != b'`' => 2,
            byte if byte == quote => return at + 1,
            _ => 1,
        };
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_is_known_and_everything_else_is_held_to_write() {
        for reads in [
            "SELECT 1",
            " /* INSERT */ (select a from t where b = 'DELETE; DROP')",
            "SELECT * FROM t FOR UPDATE",
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
        ] {
            assert_eq!(kind(administers.as_bytes()), StatementKind::Administers, "{administers}");
        }
    }
}
