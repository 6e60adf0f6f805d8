//! What client and server say they can do. Both flavours, in one set of 64 bits.
//!
//! The low 32 bits are the classic flags. MariaDB announces 32 more in bytes that MySQL leaves zero, and
//! shows that it does so by *not* setting the lowest classic flag ([`Capabilities::LONG_PASSWORD`], which
//! MariaDB calls `CLIENT_MYSQL`). Those live in the high 32 bits here, as in MariaDB's own sources. What
//! holds for a session is what both sides have.

bitflags::bitflags! {
    /// The capability flags of one side, or of a session (the flags that both sides have).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Capabilities: u64 {
        /// Always set by MySQL; unset by MariaDB to announce its own flags (`CLIENT_MYSQL`).
        const LONG_PASSWORD = 1;
        /// Affected rows count the rows found, not those changed.
        const FOUND_ROWS = 1 << 1;
        /// Long column flags.
        const LONG_FLAG = 1 << 2;
        /// The login names a database.
        const CONNECT_WITH_DB = 1 << 3;
        /// `database.table.column` is not allowed.
        const NO_SCHEMA = 1 << 4;
        /// zlib compression after the handshake.
        const COMPRESS = 1 << 5;
        /// ODBC behaviour.
        const ODBC = 1 << 6;
        /// The client may be asked for a file (`LOAD DATA LOCAL`).
        const LOCAL_FILES = 1 << 7;
        /// Spaces before `(` are ignored.
        const IGNORE_SPACE = 1 << 8;
        /// The protocol of MySQL 4.1 and later.
        const PROTOCOL_41 = 1 << 9;
        /// An interactive client (`interactive_timeout`).
        const INTERACTIVE = 1 << 10;
        /// TLS: the rest of the session is opaque to us.
        const SSL = 1 << 11;
        /// Do not signal when the peer goes away.
        const IGNORE_SIGPIPE = 1 << 12;
        /// Transactions, and status flags in OK packets.
        const TRANSACTIONS = 1 << 13;
        /// Old name of the 4.1 protocol.
        const RESERVED = 1 << 14;
        /// 20-byte authentication data.
        const SECURE_CONNECTION = 1 << 15;
        /// Several statements in one command.
        const MULTI_STATEMENTS = 1 << 16;
        /// Several results to one command.
        const MULTI_RESULTS = 1 << 17;
        /// The same for prepared statements.
        const PS_MULTI_RESULTS = 1 << 18;
        /// Authentication plugins.
        const PLUGIN_AUTH = 1 << 19;
        /// Connection attributes in the login.
        const CONNECT_ATTRS = 1 << 20;
        /// The authentication data may be longer than 255 bytes.
        const PLUGIN_AUTH_LENENC_DATA = 1 << 21;
        /// Expired passwords can be handled.
        const CAN_HANDLE_EXPIRED_PASSWORDS = 1 << 22;
        /// OK packets tell changes of the session's state.
        const SESSION_TRACK = 1 << 23;
        /// No EOF packets: an OK packet with the EOF byte ends rows.
        const DEPRECATE_EOF = 1 << 24;
        /// The server may leave out column definitions (MySQL 8).
        const OPTIONAL_RESULTSET_METADATA = 1 << 25;
        /// zstd compression after the handshake (MySQL 8).
        const ZSTD_COMPRESSION = 1 << 26;
        /// Attributes before the statement text (MySQL 8.0.23).
        const QUERY_ATTRIBUTES = 1 << 27;
        /// Multi-factor authentication (MySQL 8).
        const MULTI_FACTOR_AUTHENTICATION = 1 << 28;
        /// MariaDB before 10.2: progress reports. (MySQL: an extension of this field.)
        const PROGRESS_OLD = 1 << 29;
        /// Check the server certificate.
        const SSL_VERIFY_SERVER_CERT = 1 << 30;
        /// Remember options over a reconnect.
        const REMEMBER_OPTIONS = 1 << 31;
        /// MariaDB: progress reports as error packets with code 0xffff.
        const MARIADB_PROGRESS = 1 << 32;
        /// MariaDB: `COM_MULTI` (never released).
        const MARIADB_COM_MULTI = 1 << 33;
        /// MariaDB: `COM_STMT_BULK_EXECUTE`.
        const MARIADB_BULK = 1 << 34;
        /// MariaDB: extended type information in column definitions.
        const MARIADB_EXTENDED_TYPES = 1 << 35;
        /// MariaDB: column definitions may be left out when the client has them already.
        const MARIADB_CACHE_METADATA = 1 << 36;
        /// MariaDB: a bulk execute may answer with a result set of one row per parameter set.
        const MARIADB_BULK_UNIT_RESULTS = 1 << 37;
    }
}

impl Capabilities {
    /// What a plain client or scripted server of today needs: 4.1 protocol, plugins, transactions, multi
    /// results.
    pub const ORDINARY: Self = Self::LONG_PASSWORD
        .union(Self::LONG_FLAG)
        .union(Self::CONNECT_WITH_DB)
        .union(Self::PROTOCOL_41)
        .union(Self::TRANSACTIONS)
        .union(Self::SECURE_CONNECTION)
        .union(Self::MULTI_STATEMENTS)
        .union(Self::MULTI_RESULTS)
        .union(Self::PS_MULTI_RESULTS)
        .union(Self::PLUGIN_AUTH)
        .union(Self::CONNECT_ATTRS)
        .union(Self::PLUGIN_AUTH_LENENC_DATA);

    /// What compresses the session from the end of its login on.
    pub(crate) const COMPRESSION: Self = Self::COMPRESS.union(Self::ZSTD_COMPRESSION);

    /// The classic half, as sent in greeting and login.
    pub(crate) const fn classic(self) -> u32 {
        (self.bits() & 0xffff_ffff) as u32
    }

    /// MariaDB's half, as sent in the bytes that MySQL leaves zero.
    pub(crate) const fn extended(self) -> u32 {
        (self.bits() >> 32) as u32
    }

    /// Both halves; the extended one counts only from a side that leaves [`Capabilities::LONG_PASSWORD`]
    /// unset.
    pub(crate) const fn from_halves(classic: u32, extended: u32) -> Self {
        let low = classic as u64;
        if low & Self::LONG_PASSWORD.bits() != 0 {
            Self::from_bits_retain(low)
        } else {
            Self::from_bits_retain(low | (extended as u64) << 32)
        }
    }
}
