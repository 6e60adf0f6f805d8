//! Secret: which statements hold a password, and so are neither recorded nor kept as an example. In doubt one
//! is.
//!
//! Passwords stand in `CREATE USER ... IDENTIFIED BY`, `SET PASSWORD`, `CHANGE MASTER TO ...
//! MASTER_PASSWORD`, `CREATE SERVER ... PASSWORD`, and in the `CONNECTION` of a table that lives elsewhere.
//! Statements about rows may name a column `password` and are data like any other, unless others stand beside
//! them in the same text.
//!
//! Does not ask the lexer, on purpose: a word counts wherever it stands, in strings (`PREPARE`), comments
//! (that servers may execute) and parts of words (`MASTER_PASSWORD`), so that no way of quoting can hide it.

const WORDS: [&[u8]; 3] = [b"IDENTIFIED", b"PASSWORD", b"CONNECTION"];
const DATA: [&[u8]; 5] = [b"SELECT", b"INSERT", b"UPDATE", b"DELETE", b"REPLACE"];

/// Whether this statement may hold a password.
pub fn is_secret(text: &[u8]) -> bool {
    let start = text.trim_ascii_start();
    let begins = |word: &[u8]| start.get(..word.len()).is_some_and(|first| first.eq_ignore_ascii_case(word));
    if DATA.iter().any(|word| begins(word)) && !start.contains(&b';') {
        return false;
    }
    WORDS.iter().any(|word| text.windows(word.len()).any(|at| at.eq_ignore_ascii_case(word)))
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
        ] {
            assert!(is_secret(secret.as_bytes()), "{secret}");
        }
        for open in [
            "SELECT * FROM users WHERE password = 'x'",
            " insert into t (password) values ('x')",
            "SET NAMES utf8",
            "",
        ] {
            assert!(!is_secret(open.as_bytes()), "{open}");
        }
    }
}
