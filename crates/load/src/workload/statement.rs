//! One statement: its text for each table, its parameters, and how both become a command.

use super::draw::{Draws, Parameter, ParameterType, Value};
use super::{Lane, Protocol, WorkloadError};
use wire::{Command, packet, write};

/// A statement with parameters, in one variant for each table it may be sent to.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Its name in tables.
    pub name: String,
    /// Where it goes.
    pub lane: Lane,
    /// How it travels.
    pub protocol: Protocol,
    /// What stands for the question marks, in order.
    pub parameters: Vec<Parameter>,
    variants: Vec<Variant>,
}

#[derive(Clone, Debug)]
struct Variant {
    sql: String,
    /// The text around the question marks: one piece more than there are parameters.
    pieces: Vec<Box<[u8]>>,
}

/// A statement prepared on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// The server's number for it.
    pub(crate) id: u32,
    /// Whether the server has heard the parameters' types already.
    pub(crate) bound: bool,
}

/// Types in the binary protocol.
const LONGLONG: u8 = 8;
const BLOB: u8 = 252;
const VAR_STRING: u8 = 253;

impl Statement {
    /// A statement with a text for each variant, question marks for parameters.
    pub fn new(
        name: &str,
        lane: Lane,
        protocol: Protocol,
        variants: impl IntoIterator<Item = String>,
        parameters: Vec<Parameter>,
    ) -> Self {
        let variants = variants.into_iter().map(|sql| Variant { pieces: pieces(&sql), sql }).collect();
        Self { name: name.to_owned(), lane, protocol, parameters, variants }
    }

    pub fn variants(&self) -> usize {
        self.variants.len()
    }

    /// The text of a variant, with question marks.
    pub fn sql(&self, variant: usize) -> &str {
        &self.variants[variant].sql
    }

    pub(super) fn fault(&self) -> Option<WorkloadError> {
        let (statement, parameters) = (self.name.clone(), self.parameters.len());
        let marks = |variant: &Variant| variant.pieces.len() - 1;
        match self.variants.iter().find(|variant| marks(variant) != parameters) {
            Some(variant) => {
                let (sql, marks) = (variant.sql.clone(), marks(variant));
                Some(WorkloadError::Parameters { statement, sql, marks, parameters })
            }
            None => self.variants.is_empty().then_some(WorkloadError::NoText { statement }),
        }
    }

    /// Appends COM_QUERY with the parameters in the text.
    pub(super) fn query(&self, variant: usize, draws: &mut Draws<'_>, out: &mut Vec<u8>) {
        let start = begin(out, Command::Query);
        let pieces = &self.variants[variant].pieces;
        out.extend_from_slice(&pieces[0]);
        for (parameter, piece) in self.parameters.iter().zip(&pieces[1..]) {
            match parameter.value(draws) {
                Value::Integer(number) => decimal(number, out),
                Value::Text(text) => quoted(text, out),
                Value::Bytes(bytes) => hexadecimal(bytes, out),
            }
            out.extend_from_slice(piece);
        }
        end(out, start);
    }

    /// Appends COM_STMT_EXECUTE.
    pub(super) fn execute(&self, prepared: Prepared, draws: &mut Draws<'_>, out: &mut Vec<u8>) {
        let start = begin(out, Command::StmtExecute);
        out.extend_from_slice(&prepared.id.to_le_bytes());
        // No cursor; executed once.
        out.extend_from_slice(&[0, 1, 0, 0, 0]);
        if !self.parameters.is_empty() {
            out.resize(out.len() + self.parameters.len().div_ceil(8), 0);
            out.push(u8::from(!prepared.bound));
            if !prepared.bound {
                for parameter in &self.parameters {
                    let kind = match parameter.kind() {
                        ParameterType::Number => LONGLONG,
                        ParameterType::Text => VAR_STRING,
                        ParameterType::Bytes => BLOB,
                    };
                    out.extend_from_slice(&[kind, 0]);
                }
            }
            for parameter in &self.parameters {
                match parameter.value(draws) {
                    Value::Integer(number) => out.extend_from_slice(&number.to_le_bytes()),
                    Value::Text(bytes) | Value::Bytes(bytes) => write::lenenc_bytes(out, bytes),
                }
            }
        }
        end(out, start);
    }
}

/// Starts a packet whose length is not known yet.
fn begin(out: &mut Vec<u8>, command: Command) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, command.byte()]);
    start
}

/// Puts the length of the packet that began at `start`. Statements of 16 MiB and more are cut into pieces.
fn end(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start - packet::HEADER;
    if length < packet::MAX_PIECE {
        let header = packet::Header { length: length as u32, sequence: 0 }.encode();
        out[start..start + packet::HEADER].copy_from_slice(&header);
    } else {
        let payload = out.split_off(start + packet::HEADER);
        out.truncate(start);
        packet::write(out, &mut 0, &payload);
    }
}

/// The text around the question marks that stand for parameters, not those in quotes.
fn pieces(sql: &str) -> Vec<Box<[u8]>> {
    let (mut found, mut piece, mut quote) = (Vec::new(), Vec::new(), None);
    for byte in sql.bytes() {
        match (byte, quote) {
            (b'?', None) => {
                found.push(std::mem::take(&mut piece).into_boxed_slice());
                continue;
            }
            (b'\'' | b'"' | b'`', None) => quote = Some(byte),
            (byte, Some(open)) if byte == open => quote = None,
            _ => {}
        }
        piece.push(byte);
    }
    found.push(piece.into_boxed_slice());
    found
}

/// Writes a number without allocating.
fn decimal(number: i64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes a string literal as both flavours read it in their default SQL mode.
fn quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    for &byte in text {
        if matches!(byte, b'\'' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'\'');
}

/// Writes a literal of bytes without a character set.
fn hexadecimal(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"x'");
    for byte in bytes {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    out.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::super::Draw;
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    fn encoded(statement: &Statement, prepared: Option<Prepared>) -> Vec<u8> {
        let mut rng = SmallRng::seed_from_u64(1);
        let (mut slots, mut scratch, mut out) = ([-7, i64::MIN], Vec::new(), Vec::new());
        let mut draws = Draws {
            rng: &mut rng,
            slots: &mut slots,
            client: (0, 1),
            last_insert_id: 0,
            scratch: &mut scratch,
        };
        match prepared {
            Some(prepared) => statement.execute(prepared, &mut draws, &mut out),
            None => statement.query(0, &mut draws, &mut out),
        }
        out
    }

    fn statement(sql: &str) -> Statement {
        let parameters = vec![
            Parameter::Slot(0),
            Parameter::Draw(Draw::Template(b"it's \\".as_slice().into())),
            Parameter::Slot(1),
        ];
        Statement::new("s", Lane::Writer, Protocol::Prepared, [sql.to_owned()], parameters)
    }

    #[test]
    fn question_marks_in_quotes_are_no_parameters() {
        let statement = statement("SELECT '?' WHERE a=? AND b=? AND `?`=?");
        assert_eq!(statement.fault(), None);
        let text = encoded(&statement, None);
        let expected = r"SELECT '?' WHERE a=-7 AND b='it\'s \\' AND `?`=-9223372036854775808";
        assert_eq!(String::from_utf8_lossy(&text[5..]), expected);
        assert_eq!(&text[..5], &[expected.len() as u8 + 1, 0, 0, 0, 3]);
    }

    #[test]
    fn types_travel_with_the_first_execution_only() {
        let statement = statement("SELECT ?, ?, ?");
        let first = encoded(&statement, Some(Prepared { id: 0x0102, bound: false }));
        let later = encoded(&statement, Some(Prepared { id: 0x0102, bound: true }));
        assert_eq!(first.len(), later.len() + 6);
        assert_eq!(&later[4..14], &[0x17, 2, 1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(&first[14..22], &[0, 1, LONGLONG, 0, VAR_STRING, 0, LONGLONG, 0]);
        assert_eq!(&later[16..24], &(-7i64).to_le_bytes());
        assert_eq!(&later[24..31], b"\x06it's \\");
    }

    #[test]
    fn bytes_are_written_as_hex() {
        let mut out = Vec::new();
        hexadecimal(&[0xff, 0x0a], &mut out);
        assert_eq!(out, b"x'ff0a'");
    }
}
