//! What client and server say they can do. Both flavours, in one set of 64 bits.
//!
//! The low 32 bits are the classic flags. MariaDB announces 32 more in bytes that MySQL leaves zero, and shows that it
//! does so by *not* setting the lowest classic flag ([`Capabilities::LONG_PASSWORD`], which MariaDB calls `CLIENT_MYSQL`).
//! Those live in the high 32 bits here, as in MariaDB's own sources. What holds for a session is what both sides have.

use crate::flags::flags;

flags! {
    /// The capability flags of one side, or of a session (the flags that both sides have).
    pub struct Capabilities: u64 {
        /// Always set by MySQL; unset by MariaDB to announce its own flags (`CLIENT_MYSQL`).
        LONG_PASSWORD = 1, "long password";
        /// Affected rows count the rows found, not those changed.
        FOUND_ROWS = 1 << 1, "found rows";
        /// Long column flags.
        LONG_FLAG = 1 << 2, "long flag";
        /// The login names a database.
        CONNECT_WITH_DB = 1 << 3, "connect with db";
        /// `database.table.column` is not allowed.
        NO_SCHEMA = 1 << 4, "no schema";
        /// zlib compression after the handshake.
        COMPRESS = 1 << 5, "compress";
        /// ODBC behaviour.
        ODBC = 1 << 6, "odbc";
        /// The client may be asked for a file (`LOAD DATA LOCAL`).
        LOCAL_FILES = 1 << 7, "local files";
        /// Spaces before `(` are ignored.
        IGNORE_SPACE = 1 << 8, "ignore space";
        /// The protocol of MySQL 4.1 and later.
        PROTOCOL_41 = 1 << 9, "protocol 4.1";
        /// An interactive client (`interactive_timeout`).
        INTERACTIVE = 1 << 10, "interactive";
        /// TLS: the rest of the session is opaque to us.
        SSL = 1 << 11, "tls";
        /// Do not signal when the peer goes away.
        IGNORE_SIGPIPE = 1 << 12, "ignore sigpipe";
        /// Transactions, and status flags in OK packets.
        TRANSACTIONS = 1 << 13, "transactions";
        /// Old name of the 4.1 protocol.
        RESERVED = 1 << 14, "reserved";
        /// 20-byte authentication data.
        SECURE_CONNECTION = 1 << 15, "secure connection";
        /// Several statements in one command.
        MULTI_STATEMENTS = 1 << 16, "multi statements";
        /// Several results to one command.
        MULTI_RESULTS = 1 << 17, "multi results";
        /// The same for prepared statements.
        PS_MULTI_RESULTS = 1 << 18, "prepared multi results";
        /// Authentication plugins.
        PLUGIN_AUTH = 1 << 19, "plugin auth";
        /// Connection attributes in the login.
        CONNECT_ATTRS = 1 << 20, "connect attributes";
        /// The authentication data may be longer than 255 bytes.
        PLUGIN_AUTH_LENENC_DATA = 1 << 21, "long auth data";
        /// Expired passwords can be handled.
        CAN_HANDLE_EXPIRED_PASSWORDS = 1 << 22, "expired passwords";
        /// OK packets tell changes of the session's state.
        SESSION_TRACK = 1 << 23, "session track";
        /// No EOF packets: an OK packet with the EOF byte ends rows.
        DEPRECATE_EOF = 1 << 24, "deprecate eof";
        /// The server may leave out column definitions (MySQL 8).
        OPTIONAL_RESULTSET_METADATA = 1 << 25, "optional metadata";
        /// zstd compression after the handshake (MySQL 8).
        ZSTD_COMPRESSION = 1 << 26, "zstd";
        /// Attributes before the statement text (MySQL 8.0.23).
        QUERY_ATTRIBUTES = 1 << 27, "query attributes";
        /// Multi-factor authentication (MySQL 8).
        MULTI_FACTOR_AUTHENTICATION = 1 << 28, "multi-factor auth";
        /// MariaDB before 10.2: progress reports. (MySQL: an extension of this field.)
        PROGRESS_OLD = 1 << 29, "progress (old)";
        /// Check the server certificate.
        SSL_VERIFY_SERVER_CERT = 1 << 30, "verify certificate";
        /// Remember options over a reconnect.
        REMEMBER_OPTIONS = 1 << 31, "remember options";
        /// MariaDB: progress reports as error packets with code 0xffff.
        MARIADB_PROGRESS = 1 << 32, "mariadb progress";
        /// MariaDB: `COM_MULTI` (never released).
        MARIADB_COM_MULTI = 1 << 33, "mariadb com_multi";
        /// MariaDB: `COM_STMT_BULK_EXECUTE`.
        MARIADB_BULK = 1 << 34, "mariadb bulk";
        /// MariaDB: extended type information in column definitions.
        MARIADB_EXTENDED_TYPES = 1 << 35, "mariadb extended types";
        /// MariaDB: column definitions may be left out when the client has them already.
        MARIADB_CACHE_METADATA = 1 << 36, "mariadb cache metadata";
        /// MariaDB: a bulk execute may answer with a result set of one row per parameter set.
        MARIADB_BULK_UNIT_RESULTS = 1 << 37, "mariadb bulk unit results";
    }
}

impl Capabilities {
    /// What a plain client or scripted server of today needs: 4.1 protocol, plugins, transactions, multi results.
    pub const ORDINARY: Self = Self::LONG_PASSWORD
        .with(Self::LONG_FLAG)
        .with(Self::CONNECT_WITH_DB)
        .with(Self::PROTOCOL_41)
        .with(Self::TRANSACTIONS)
        .with(Self::SECURE_CONNECTION)
        .with(Self::MULTI_STATEMENTS)
        .with(Self::MULTI_RESULTS)
        .with(Self::PS_MULTI_RESULTS)
        .with(Self::PLUGIN_AUTH)
        .with(Self::CONNECT_ATTRS)
        .with(Self::PLUGIN_AUTH_LENENC_DATA);

    /// The classic half, as sent in greeting and login.
    pub(crate) const fn classic(self) -> u32 {
        (self.0 & 0xffff_ffff) as u32
    }

    /// MariaDB's half, as sent in the bytes that MySQL leaves zero.
    pub(crate) const fn extended(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Both halves; the extended one counts only from a side that leaves [`Capabilities::LONG_PASSWORD`] unset.
    pub(crate) const fn from_halves(classic: u32, extended: u32) -> Self {
        let low = classic as u64;
        if low & Self::LONG_PASSWORD.0 != 0 { Self(low) } else { Self(low | (extended as u64) << 32) }
    }
}
