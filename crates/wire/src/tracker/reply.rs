//! The grammar of answers: what the server may send next for the command in front.

use crate::capability::Capabilities;
use crate::command::Command;
use crate::read::Reader;

/// What the server may send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// OK, ERR, LOCAL INFILE or a column count: the start of a result.
    Result,
    /// This many column definitions.
    Columns(u64),
    /// The EOF packet after the column definitions.
    ColumnsEnd,
    /// Rows, until their end.
    Rows,
    /// OK or ERR, after the client's file.
    InfileEnd,
    /// What a prepared statement has: its first packet.
    Prepared,
    /// This many parameter definitions, then this many columns.
    PreparedParameters(u16, u16),
    /// The EOF packet after the parameters, then this many columns.
    PreparedParametersEnd(u16),
    /// This many column definitions, the last thing of the answer.
    PreparedColumns(u16),
    /// The EOF packet after them.
    PreparedColumnsEnd,
    /// The EOF packets of parameters and of columns whose definitions are left out.
    PreparedEnds,
    /// One of OK, EOF, ERR.
    Simple,
    /// Any one packet.
    Anything,
    /// Column definitions, until their end.
    Fields,
    /// The proofs of `COM_CHANGE_USER`, until OK or ERR.
    Proofs,
}

impl Reply {
    /// What an answer to `command` starts with.
    pub(super) const fn to(command: Command) -> Self {
        match command {
            Command::Query | Command::StmtExecute | Command::StmtBulkExecute | Command::ProcessInfo => {
                Self::Result
            }
            Command::StmtPrepare => Self::Prepared,
            Command::StmtFetch => Self::Rows,
            Command::FieldList => Self::Fields,
            Command::Statistics => Self::Anything,
            Command::ChangeUser => Self::Proofs,
            _ => Self::Simple,
        }
    }

    /// What follows a definition of a prepared statement, or the end of some (`ends`); `None` when that was
    /// all.
    pub(super) const fn after_definition(
        self,
        deprecate_eof: bool,
        ends: bool,
    ) -> Result<Option<Self>, Unexpected> {
        Ok(match self {
            Self::PreparedParametersEnd(columns) if ends => prepared_columns(columns),
            Self::PreparedEnds if ends => Some(Self::PreparedColumnsEnd),
            Self::PreparedColumnsEnd if ends => None,
            Self::PreparedParameters(1, columns) if deprecate_eof => prepared_columns(columns),
            Self::PreparedParameters(1, columns) => Some(Self::PreparedParametersEnd(columns)),
            Self::PreparedParameters(left, columns) => Some(Self::PreparedParameters(left - 1, columns)),
            Self::PreparedColumns(1) if deprecate_eof => None,
            Self::PreparedColumns(1) => Some(Self::PreparedColumnsEnd),
            Self::PreparedColumns(left) => Some(Self::PreparedColumns(left - 1)),
            _ => return Err(Unexpected),
        })
    }
}

/// A packet that the grammar has no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unexpected;

/// The first packet of a result set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ColumnCount {
    pub(super) columns: u64,
    /// Do definitions follow? Clients may have them already.
    pub(super) defined: bool,
}

impl ColumnCount {
    pub(super) fn parse(payload: &[u8], capabilities: Capabilities) -> Option<Self> {
        let mut r = Reader::new(payload);
        let columns = r.lenenc().filter(|n| *n > 0)?;
        let optional = Capabilities::MARIADB_CACHE_METADATA.union(Capabilities::OPTIONAL_RESULTSET_METADATA);
        let defined = !capabilities.intersects(optional) || r.u8().is_none_or(|flag| flag != 0);
        Some(Self { columns, defined })
    }

    /// What follows it.
    pub(super) const fn then(self, capabilities: Capabilities) -> Reply {
        if self.defined { Reply::Columns(self.columns) } else { after_columns(capabilities) }
    }
}

/// What follows the last column definition of a result set.
pub(super) const fn after_columns(capabilities: Capabilities) -> Reply {
    if capabilities.contains(Capabilities::DEPRECATE_EOF) { Reply::Rows } else { Reply::ColumnsEnd }
}

/// The first packet of an answer to `COM_STMT_PREPARE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PreparedHead {
    pub(super) statement: u32,
    columns: u16,
    pub(super) parameters: u16,
    defined: bool,
}

impl PreparedHead {
    pub(super) fn parse(payload: &[u8], capabilities: Capabilities) -> Option<Self> {
        let mut r = Reader::new(payload);
        r.u8().filter(|first| *first == 0)?;
        let (statement, columns, parameters) = (r.u32()?, r.u16()?, r.u16()?);
        // A filler, and a count of warnings that old servers leave out.
        let optional = capabilities.contains(Capabilities::OPTIONAL_RESULTSET_METADATA);
        let defined = !optional || r.skip(3).and_then(|()| r.u8()).is_none_or(|flag| flag != 0);
        Some(Self { statement, columns, parameters, defined })
    }

    /// What follows it; `None` when that was all. Where definitions are left out their EOF packets still
    /// come.
    pub(super) const fn then(self, capabilities: Capabilities) -> Option<Reply> {
        let Self { defined, parameters, columns, .. } = self;
        if !defined && capabilities.contains(Capabilities::DEPRECATE_EOF) {
            return None;
        }
        match (defined, parameters, columns) {
            (true, 0, columns) => prepared_columns(columns),
            (true, parameters, columns) => Some(Reply::PreparedParameters(parameters, columns)),
            (false, 0, 0) => None,
            (false, 0, _) => Some(Reply::PreparedColumnsEnd),
            (false, _, 0) => Some(Reply::PreparedParametersEnd(0)),
            (false, _, _) => Some(Reply::PreparedEnds),
        }
    }
}

/// The columns of a prepared statement, if it has any.
const fn prepared_columns(columns: u16) -> Option<Reply> {
    if columns == 0 { None } else { Some(Reply::PreparedColumns(columns)) }
}
