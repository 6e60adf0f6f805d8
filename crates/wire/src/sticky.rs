//! State that a session keeps on its server and would lose if it were moved or closed.
//!
//! Not counted: session variables, `SET NAMES`, the default database, roles. Pools set them up on every new connection, and
//! do so again; if they counted, every session would be sticky from its first statement on.

use crate::flags::flags;

flags! {
    /// Why a session should rather wait for a better moment, in words. When in doubt a bit is set: that makes a session wait
    /// longer, while a missing bit would lose state.
    pub struct Sticky: u16 {
        /// `CREATE TEMPORARY TABLE` was seen. Not cleared by `DROP`: we do not follow names.
        TEMPORARY_TABLE = 1, "temporary table";
        /// A statement named a `@variable`.
        USER_VARIABLE = 1 << 1, "user variable";
        /// `LOCK TABLES` or `FLUSH TABLES WITH READ LOCK`, until `UNLOCK TABLES`.
        TABLE_LOCK = 1 << 2, "table lock";
        /// `GET_LOCK()` or a backup lock, until `RELEASE_ALL_LOCKS()`.
        NAMED_LOCK = 1 << 3, "named lock";
        /// A prepared statement is open, by `COM_STMT_PREPARE` or `PREPARE`.
        PREPARED_STATEMENT = 1 << 4, "prepared statement";
        /// A cursor is open and has rows left.
        CURSOR = 1 << 5, "open cursor";
        /// The last statement gave an insert id that the next one may ask for.
        LAST_INSERT_ID = 1 << 6, "last insert id";
        /// `SQL_CALC_FOUND_ROWS`: the next statement may ask for `FOUND_ROWS()`.
        FOUND_ROWS = 1 << 7, "found rows";
        /// `HANDLER ... OPEN`.
        HANDLER = 1 << 8, "open handler";
        /// `XA START`, until `XA COMMIT` or `XA ROLLBACK`.
        XA = 1 << 9, "xa transaction";
        /// `CALL`: the procedure may have left any of the above, which is not visible from here.
        STORED_PROCEDURE = 1 << 10, "called a stored procedure";
        /// A statement's text could not be read to its end (an unbalanced quote, attributes that do not parse).
        UNREAD = 1 << 11, "a statement that could not be read";
    }
}
