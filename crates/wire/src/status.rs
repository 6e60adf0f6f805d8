//! The status flags of OK and EOF packets: what the server says about the session after a statement.

use crate::flags::flags;

flags! {
    /// Server status flags.
    pub struct Status: u16 {
        /// A transaction is open.
        IN_TRANS = 1, "in transaction";
        /// `autocommit` is on.
        AUTOCOMMIT = 1 << 1, "autocommit";
        /// Another result of the same command follows.
        MORE_RESULTS_EXISTS = 1 << 3, "more results";
        /// No good index was used.
        NO_GOOD_INDEX_USED = 1 << 4, "no good index";
        /// No index was used.
        NO_INDEX_USED = 1 << 5, "no index";
        /// A read-only cursor was opened: rows come by `COM_STMT_FETCH`.
        CURSOR_EXISTS = 1 << 6, "cursor";
        /// The cursor has given its last row.
        LAST_ROW_SENT = 1 << 7, "last row sent";
        /// A database was dropped.
        DB_DROPPED = 1 << 8, "database dropped";
        /// Backslash is no escape in strings.
        NO_BACKSLASH_ESCAPES = 1 << 9, "no backslash escapes";
        /// The prepared statement's metadata changed.
        METADATA_CHANGED = 1 << 10, "metadata changed";
        /// The statement was slow by `long_query_time`.
        QUERY_WAS_SLOW = 1 << 11, "slow";
        /// The result holds OUT parameters of a procedure.
        PS_OUT_PARAMS = 1 << 12, "out parameters";
        /// A read-only transaction is open.
        IN_TRANS_READONLY = 1 << 13, "in read-only transaction";
        /// The OK packet tells changes of the session's state.
        SESSION_STATE_CHANGED = 1 << 14, "session state changed";
        /// MariaDB: double quotes are identifiers.
        ANSI_QUOTES = 1 << 15, "ansi quotes";
    }
}

impl Status {
    /// Is a transaction of any kind open?
    pub const fn in_transaction(self) -> bool {
        self.intersects(Self::IN_TRANS.with(Self::IN_TRANS_READONLY))
    }
}
