//! What an error number of a server means for a load, and what to do about it: a number alone sends its
//! reader to a manual.

/// The numbers that a load meets, with what they mean and what to do.
const MEANINGS: [(u16, &str); 18] = [
    (
        1040,
        "too many connections: the server's max_connections, or a router's max_sessions, is reached; use fewer --clients",
    ),
    (1044, "the account may not use this database; grant it, or name another account with --user"),
    (1045, "user or password refused; see --user and --option-file"),
    (1049, "there is no such database; name another with --database"),
    (
        1053,
        "the server or the router shuts down, or the router knows no server for this role; ask headroom status",
    ),
    (
        1062,
        "a key is there already: a run with the same --seed has sent it (prepare again, or take another seed), another load uses the same tables, or a file inserts fixed keys",
    ),
    (1142, "the account lacks a privilege on the table; grant what the workload does"),
    (1146, "there is no such table; make them with headroom load prepare"),
    (1205, "a lock was not had in time (innodb_lock_wait_timeout); use fewer --clients or more rows"),
    (1213, "a deadlock: the server undid the transaction; use fewer --clients or more rows"),
    (1226, "the account's limit (MAX_USER_CONNECTIONS and the like) is reached; use fewer --clients"),
    (
        1290,
        "the server refuses writes (read_only): it is a replica; send writes to the primary with --writer, or use a workload that only reads",
    ),
    (1317, "the statement was ended by KILL or at shutdown"),
    (
        1461,
        "the server's max_prepared_stmt_count is reached: each connection prepares its statements for each table; raise it, use fewer --clients or --tables, or send text (--text)",
    ),
    (1792, "a write in a read-only session; leave --read-only out, or use a workload that only reads"),
    (1836, "the server is in read-only mode; send writes to the primary with --writer"),
    (1969, "the statement took longer than max_statement_time allows"),
    (3024, "the statement took longer than max_execution_time allows"),
];

/// In words, for the numbers that are known here.
pub(crate) fn meaning(code: u16) -> Option<&'static str> {
    MEANINGS.iter().find(|(known, _)| *known == code).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_refuses_writes_is_named_with_what_to_do() {
        let words = meaning(1290).unwrap();
        assert!(words.contains("read_only") && words.contains("--writer"), "{words}");
        assert_eq!(meaning(9999), None);
    }

    #[test]
    fn each_number_stands_once_and_in_order() {
        assert!(MEANINGS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
