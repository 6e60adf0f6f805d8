//! Secret: which statements hold a password, and so are neither recorded nor kept as an example. In doubt one
//! is.
//!
//! Passwords stand in `CREATE USER ... IDENTIFIED BY`, `SET PASSWORD`, `CHANGE MASTER TO ...
//! MASTER_PASSWORD`, `CREATE SERVER ... PASSWORD`, and in the `CONNECTION` of a table that lives elsewhere. A
//! cloud that keeps such statements to itself has procedures in their place, which take passwords and private
//! keys without a word that tells them: `CALL mysql.rds_set_external_source('host', 3306, 'user', ...)`.
//! Statements about rows may name a column `password` and are data like any other, unless others stand beside
//! them in the same text, or the rows are accounts: `mysql.user`, `global_priv`, `authentication_string`.
//!
//! Does not ask the lexer, on purpose: a word counts wherever it stands, in strings (`PREPARE`), comments
//! (that servers may execute) and parts of words (`MASTER_PASSWORD`), so that no way of quoting can hide it.

const WORDS: [&[u8]; 3] = [b"IDENTIFIED", b"PASSWORD", b"CONNECTION"];
const DATA: [&[u8]; 5] = [b"SELECT", b"INSERT", b"UPDATE", b"DELETE", b"REPLACE"];

/// A table of accounts and the column of their passwords, each with the place of its rarest byte: rows may be
/// long, and are searched for that.
const ACCOUNTS: [(&[u8], usize); 2] = [(b"GLOBAL_PRIV", 6), (b"AUTHENTICATION_STRING", 14)];
/// The same of the database that `user` is in.
const SCHEMA: (&[u8], usize) = (b"MYSQL", 3);

/// Whether this statement may hold a password.
pub fn is_secret(text: &[u8]) -> bool {
    if names_accounts(text) {
        return true;
    }
    let start = text.trim_ascii_start();
    let begins = |word: &[u8]| start.get(..word.len()).is_some_and(|first| first.eq_ignore_ascii_case(word));
    if DATA.iter().any(|word| begins(word)) && !start.contains(&b';') {
        return false;
    }
    WORDS.iter().any(|word| text.windows(word.len()).any(|at| at.eq_ignore_ascii_case(word)))
}

fn names_accounts(text: &[u8]) -> bool {
    ACCOUNTS.into_iter().any(|wanted| ends(text, wanted).next().is_some())
        || ends(text, SCHEMA).any(|end| {
            let (before, behind) = (&text[..end - SCHEMA.0.len()], &text[end..]);
            is_dot_user(behind) || is_called(before, behind)
        })
}

/// Where each place ends at which this word stands.
fn ends(text: &[u8], (word, rare): (&'static [u8], usize)) -> impl Iterator<Item = usize> {
    let byte = word[rare];
    memchr::memchr2_iter(byte, byte.to_ascii_lowercase(), text).filter_map(move |at| {
        let start = at.checked_sub(rare)?;
        let end = start + word.len();
        text.get(start..end)?.eq_ignore_ascii_case(word).then_some(end)
    })
}

/// Behind the name of a database, in quotes or not: its table `user`.
fn is_dot_user(behind: &[u8]) -> bool {
    let mut bytes = behind.iter().copied().filter(counts);
    b".USER".iter().all(|wanted| bytes.next().is_some_and(|byte| byte.eq_ignore_ascii_case(wanted)))
}

/// Around the name of a database, in quotes or not: a call of one of its procedures. A comment may hide that.
fn is_called(before: &[u8], behind: &[u8]) -> bool {
    let end = before.iter().rposition(counts).map_or(0, |last| last + 1);
    let last = |length: usize| &before[end.saturating_sub(length)..end];
    let calls = last(4).eq_ignore_ascii_case(b"CALL") || last(2) == b"*/";
    calls && behind.iter().find(|byte| counts(byte)) == Some(&b'.')
}

/// Neither space nor the quote of a name.
fn counts(byte: &u8) -> bool {
    !byte.is_ascii_whitespace() && !matches!(byte, b'`' | b'"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_and_their_passwords_are_left_out_and_rows_are_not() {
        for secret in [
            "create user a identified by 'x'",
            "  SET PASSWORD = 'x'",
            "/*!40101 SET password for a = 'x' */",
            "CHANGE MASTER TO MASTER_PASSWORD='x'",
            "SELECT 1; ALTER USER a IDENTIFIED BY 'x'",
            "PREPARE s FROM 'ALTER USER a IDENTIFIED BY ?'",
            "UPDATE user SET Authentication_string = '*94BD' WHERE user = 'a'",
            "insert into mysql.user values ('%', 'a', '*94BD')",
            "REPLACE INTO `mysql` . `user` VALUES ('%', 'a', '*94BD')",
            "UPDATE mysql.global_priv SET priv = '{}'",
            "CALL mysql.rds_set_external_source('10.0.0.1', 3306, 'repl', 'x', 'bin.000031', 107, 0)",
            "call\n`MySQL` . az_replication_change_master('10.0.0.1', 'repl', 'x', 3306, 'bin', 1, '')",
            "CALL /* of the cloud */ mysql.rds_import_binlog_ssl_material('{\"ssl_key\":\"x\"}')",
        ] {
            assert!(is_secret(secret.as_bytes()), "{secret}");
        }
        for open in [
            "SELECT * FROM users WHERE password = 'x'",
            " insert into t (password) values ('x')",
            "SET NAMES utf8",
            "SELECT mysql, user FROM servers WHERE mysql_user = 'x'",
            "INSERT INTO t VALUES ('mysql')",
            "CALL shop.moves('mysql.5')",
            "SELECT * FROM mysql.general_log",
            "",
        ] {
            assert!(!is_secret(open.as_bytes()), "{open}");
        }
    }
}
