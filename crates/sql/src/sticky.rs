//! State that a session keeps on its server and would lose if it were moved or closed.
//!
//! Not counted: session variables, `SET NAMES`, the default database, roles. Pools set them up on every new
//! connection, and do so again; if they counted, every session would be sticky from its first statement on.

bitflags::bitflags! {
    /// Why a session should rather wait for a better moment. When in doubt a bit is set: that makes a session
    /// wait longer, while a missing bit would lose state.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Sticky: u16 {
        /// `CREATE TEMPORARY TABLE` was seen. Not cleared by `DROP`: we do not follow names.
        const TEMPORARY_TABLE = 1;
        /// A statement named a `@variable`.
        const USER_VARIABLE = 1 << 1;
        /// `LOCK TABLES` or `FLUSH TABLES WITH READ LOCK`, until `UNLOCK TABLES`.
        const TABLE_LOCK = 1 << 2;
        /// `GET_LOCK()`, until `RELEASE_ALL_LOCKS()`.
        const NAMED_LOCK = 1 << 3;
        /// A prepared statement is open, by `COM_STMT_PREPARE` or `PREPARE`.
        const PREPARED_STATEMENT = 1 << 4;
        /// A cursor is open and has rows left.
        const CURSOR = 1 << 5;
        /// The last statement gave an insert id that the next one may ask for.
        const LAST_INSERT_ID = 1 << 6;
        /// `SQL_CALC_FOUND_ROWS`: the next statement may ask for `FOUND_ROWS()`.
        const FOUND_ROWS = 1 << 7;
        /// `HANDLER ... OPEN`.
        const HANDLER = 1 << 8;
        /// `XA START`, until `XA COMMIT` or `XA ROLLBACK`.
        const XA = 1 << 9;
        /// `CALL`: the procedure may have left any of the above, which is not visible from here.
        const STORED_PROCEDURE = 1 << 10;
        /// A statement's text could not be read to its end (an unbalanced quote, attributes that do not
        /// parse).
        const UNREAD = 1 << 11;
        /// `LOCK INSTANCE FOR BACKUP` or `BACKUP`. Not cleared by what gives it back.
        const BACKUP_LOCK = 1 << 12;
        /// `SET TRANSACTION` (not of the session): the next one has this isolation level or access mode.
        const NEXT_TRANSACTION = 1 << 13;
    }
}
