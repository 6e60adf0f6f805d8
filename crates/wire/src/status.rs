//! The status flags of OK and EOF packets: what the server says about the session after a statement.

bitflags::bitflags! {
    /// Server status flags.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Status: u16 {
        /// A transaction is open.
        const IN_TRANS = 1;
        /// `autocommit` is on.
        const AUTOCOMMIT = 1 << 1;
        /// Another result of the same command follows.
        const MORE_RESULTS_EXISTS = 1 << 3;
        /// No good index was used.
        const NO_GOOD_INDEX_USED = 1 << 4;
        /// No index was used.
        const NO_INDEX_USED = 1 << 5;
        /// A read-only cursor was opened: rows come by `COM_STMT_FETCH`.
        const CURSOR_EXISTS = 1 << 6;
        /// The cursor has given its last row.
        const LAST_ROW_SENT = 1 << 7;
        /// A database was dropped.
        const DB_DROPPED = 1 << 8;
        /// Backslash is no escape in strings.
        const NO_BACKSLASH_ESCAPES = 1 << 9;
        /// The prepared statement's metadata changed.
        const METADATA_CHANGED = 1 << 10;
        /// The statement was slow by `long_query_time`.
        const QUERY_WAS_SLOW = 1 << 11;
        /// The result holds OUT parameters of a procedure.
        const PS_OUT_PARAMS = 1 << 12;
        /// A read-only transaction is open.
        const IN_TRANS_READONLY = 1 << 13;
        /// The OK packet tells changes of the session's state.
        const SESSION_STATE_CHANGED = 1 << 14;
        /// MariaDB: double quotes are identifiers.
        const ANSI_QUOTES = 1 << 15;
    }
}

impl Status {
    /// Is a transaction of any kind open?
    pub const fn in_transaction(self) -> bool {
        self.intersects(Self::IN_TRANS.union(Self::IN_TRANS_READONLY))
    }
}
