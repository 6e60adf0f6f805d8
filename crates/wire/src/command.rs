//! The commands a client may send: the first byte of every packet that starts an exchange.

use std::fmt;

macro_rules! commands {
    ($( $(#[$doc:meta])* $name:ident = $byte:literal, $words:literal; )*) => {
        /// A command byte.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Command {
            $( $(#[$doc])* $name, )*
            /// A byte that no server we know gives a meaning.
            Unknown(u8),
        }

        impl Command {
            /// The command of a byte; never fails.
            pub const fn from_byte(byte: u8) -> Self {
                match byte {
                    $( $byte => Self::$name, )*
                    other => Self::Unknown(other),
                }
            }

            /// The byte of a command.
            pub const fn byte(self) -> u8 {
                match self {
                    $( Self::$name => $byte, )*
                    Self::Unknown(byte) => byte,
                }
            }

            /// The command in the words of the manuals.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$name => $words, )*
                    Self::Unknown(_) => "unknown command",
                }
            }
        }
    };
}

commands! {
    /// Server-internal.
    Sleep = 0x00, "COM_SLEEP";
    /// The client says goodbye.
    Quit = 0x01, "COM_QUIT";
    /// Change the default database.
    InitDb = 0x02, "COM_INIT_DB";
    /// A statement as text.
    Query = 0x03, "COM_QUERY";
    /// The columns of a table.
    FieldList = 0x04, "COM_FIELD_LIST";
    /// Obsolete.
    CreateDb = 0x05, "COM_CREATE_DB";
    /// Obsolete.
    DropDb = 0x06, "COM_DROP_DB";
    /// FLUSH by bits.
    Refresh = 0x07, "COM_REFRESH";
    /// Stop the server.
    Shutdown = 0x08, "COM_SHUTDOWN";
    /// A line of text about the server.
    Statistics = 0x09, "COM_STATISTICS";
    /// The process list.
    ProcessInfo = 0x0a, "COM_PROCESS_INFO";
    /// Server-internal.
    Connect = 0x0b, "COM_CONNECT";
    /// Kill a connection.
    ProcessKill = 0x0c, "COM_PROCESS_KILL";
    /// Debug output to the server's log.
    Debug = 0x0d, "COM_DEBUG";
    /// Are you there?
    Ping = 0x0e, "COM_PING";
    /// Server-internal.
    Time = 0x0f, "COM_TIME";
    /// Server-internal.
    DelayedInsert = 0x10, "COM_DELAYED_INSERT";
    /// Log in again on the same connection.
    ChangeUser = 0x11, "COM_CHANGE_USER";
    /// Stream the binary log from a file position.
    BinlogDump = 0x12, "COM_BINLOG_DUMP";
    /// Stream a table (obsolete).
    TableDump = 0x13, "COM_TABLE_DUMP";
    /// Server-internal.
    ConnectOut = 0x14, "COM_CONNECT_OUT";
    /// A replica introduces itself.
    RegisterReplica = 0x15, "COM_REGISTER_SLAVE";
    /// Prepare a statement.
    StmtPrepare = 0x16, "COM_STMT_PREPARE";
    /// Execute a prepared statement.
    StmtExecute = 0x17, "COM_STMT_EXECUTE";
    /// A piece of a parameter; not answered.
    StmtSendLongData = 0x18, "COM_STMT_SEND_LONG_DATA";
    /// Forget a prepared statement; not answered.
    StmtClose = 0x19, "COM_STMT_CLOSE";
    /// Forget a statement's long data and cursor.
    StmtReset = 0x1a, "COM_STMT_RESET";
    /// Multi-statements on or off.
    SetOption = 0x1b, "COM_SET_OPTION";
    /// Rows of an open cursor.
    StmtFetch = 0x1c, "COM_STMT_FETCH";
    /// Server-internal.
    Daemon = 0x1d, "COM_DAEMON";
    /// Stream the binary log from a GTID set.
    BinlogDumpGtid = 0x1e, "COM_BINLOG_DUMP_GTID";
    /// A fresh session on the same connection.
    ResetConnection = 0x1f, "COM_RESET_CONNECTION";
    /// MySQL: clone a server.
    Clone = 0x20, "COM_CLONE";
    /// MySQL: group replication.
    SubscribeGroupReplication = 0x21, "COM_SUBSCRIBE_GROUP_REPLICATION_STREAM";
    /// MariaDB: execute a prepared statement with many parameter sets.
    StmtBulkExecute = 0xfa, "COM_STMT_BULK_EXECUTE";
}

impl Command {
    /// Does the server answer it?
    pub const fn is_answered(self) -> bool {
        !matches!(self, Self::Quit | Self::StmtClose | Self::StmtSendLongData)
    }

    /// Does it turn the connection into a stream from the server that has no end of its own?
    pub const fn is_stream(self) -> bool {
        matches!(
            self,
            Self::BinlogDump
                | Self::BinlogDumpGtid
                | Self::TableDump
                | Self::Clone
                | Self::SubscribeGroupReplication
        )
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(byte) => write!(f, "unknown command {byte:#04x}"),
            known => f.pad(known.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_command_and_comes_back() {
        for byte in 0..=u8::MAX {
            assert_eq!(Command::from_byte(byte).byte(), byte);
        }
    }
}
