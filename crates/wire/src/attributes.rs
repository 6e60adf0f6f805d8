//! Query attributes: names and values that a client sends beside a statement
//! ([`Capabilities::QUERY_ATTRIBUTES`](crate::Capabilities::QUERY_ATTRIBUTES)).
//!
//! In front of the text of `COM_QUERY` stand their number, a 1, and for a number above 0 a bitmap of NULLs, a
//! 1, for each its type and name, then for each its value. `COM_STMT_EXECUTE` has the same behind its
//! parameters, whose names are empty.

use crate::read::Reader;

/// Attributes one by one: the name, and the value of those that are text.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    types: Reader<'a>,
    values: Reader<'a>,
    nulls: &'a [u8],
    count: usize,
    index: usize,
}

/// Bit of `COM_STMT_EXECUTE`'s flags: the number of parameters is there.
const PARAMETER_COUNT_AVAILABLE: u8 = 8;

/// The attributes of a `COM_QUERY` and its text, from what follows the command byte. `None` when they do not
/// parse.
pub fn of_query(body: &[u8]) -> Option<(Attributes<'_>, &[u8])> {
    let mut r = Reader::new(body);
    let count = usize::try_from(r.lenenc()?).ok()?;
    r.lenenc()?;
    let attributes = Attributes::read(&mut r, count)?;
    Some((attributes, r.rest()))
}

/// The parameters and attributes of a `COM_STMT_EXECUTE`, from what follows the command byte; only where they
/// carry names.
pub fn of_execute(body: &[u8]) -> Option<Attributes<'_>> {
    let mut r = Reader::new(body);
    r.skip(4)?;
    let flags = r.u8()?;
    r.skip(4)?;
    if flags & PARAMETER_COUNT_AVAILABLE == 0 {
        return None;
    }
    let count = usize::try_from(r.lenenc()?).ok()?;
    Attributes::read(&mut r, count)
}

/// A `COM_STMT_EXECUTE` of a session with attributes (from what follows the command byte) as one without
/// would send it: parameters have no names, and what has one is left out. `None` when it does not parse.
pub fn without(body: &[u8]) -> Option<Vec<u8>> {
    let mut r = Reader::new(body);
    let id = r.bytes(4)?;
    let flags = r.u8()? & !PARAMETER_COUNT_AVAILABLE;
    let mut plain = [id, &[flags], r.bytes(4)?].concat();
    if r.rest().is_empty() {
        return Some(plain);
    }
    let count = usize::try_from(r.lenenc()?).ok()?;
    if count == 0 {
        return Some(plain);
    }
    let nulls = r.bytes(count.div_ceil(8))?;
    let new_types = r.u8()?;
    let (mut types, mut parameters) = (Vec::new(), 0);
    let mut kinds = Vec::new();
    for _ in 0..if new_types == 1 { count } else { 0 } {
        let kind = r.bytes(2)?;
        if r.lenenc_bytes()?.is_empty() {
            types.extend_from_slice(kind);
            parameters += 1;
        }
        kinds.push(kind[0]);
    }
    if new_types != 1 {
        // Types as before, names too: then nothing tells where attributes begin, and there are none that
        // matter.
        plain.extend_from_slice(nulls);
        plain.push(new_types);
        plain.extend_from_slice(r.rest());
        return Some(plain);
    }
    // Attributes come behind the parameters. Where there are none, all values are those of parameters: some
    // may be missing, because they were sent before (COM_STMT_SEND_LONG_DATA).
    let values = r.rest();
    let walked = if parameters < count { parameters } else { 0 };
    for (n, kind) in kinds.iter().enumerate().take(walked) {
        if nulls[n / 8] & (1 << (n % 8)) == 0 {
            value(&mut r, *kind)?;
        }
    }
    if walked == 0 && parameters > 0 {
        r.skip(values.len())?;
    }
    if parameters > 0 {
        plain.extend_from_slice(&nulls[..parameters.div_ceil(8)]);
        plain.push(1);
        plain.extend_from_slice(&types);
        plain.extend_from_slice(&values[..values.len() - r.rest().len()]);
    }
    Some(plain)
}

impl<'a> Attributes<'a> {
    /// Reads this many, and moves `r` behind them.
    fn read(r: &mut Reader<'a>, count: usize) -> Option<Self> {
        let none = Self { types: *r, values: *r, nulls: &[], count: 0, index: 0 };
        if count == 0 {
            return Some(none);
        }
        let nulls = r.bytes(count.div_ceil(8))?;
        let new_types = r.u8()?;
        if new_types != 1 || count > r.rest().len() {
            return None;
        }
        let types = *r;
        for _ in 0..count {
            r.skip(2)?;
            r.lenenc_bytes()?;
        }
        let all = Self { types, values: *r, nulls, count, index: 0 };
        let mut walk = all;
        while walk.index < count {
            walk.advance()?;
        }
        *r = walk.values;
        Some(all)
    }

    fn advance(&mut self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let kind = self.types.u16()? as u8;
        let name = self.types.lenenc_bytes()?;
        let is_null = self.nulls[self.index / 8] & (1 << (self.index % 8)) != 0;
        let value = if is_null { None } else { value(&mut self.values, kind)? };
        self.index += 1;
        Some((name, value))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        (self.index < self.count).then(|| self.advance())?
    }
}

/// Reads a value in binary form, by the protocol's type number: the bytes of a text, nothing of any other.
fn value<'a>(r: &mut Reader<'a>, kind: u8) -> Option<Option<&'a [u8]>> {
    let skipped = match kind {
        6 => Some(()),
        1 => r.skip(1),
        2 | 13 => r.skip(2),
        3 | 4 | 9 => r.skip(4),
        5 | 8 => r.skip(8),
        7 | 10 | 11 | 12 => {
            let length = r.u8()?;
            r.skip(usize::from(length))
        }
        _ => return r.lenenc_bytes().map(Some),
    };
    skipped.map(|()| None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_told_by_name_and_the_statement_follows() {
        let mut body = vec![3, 1, 0b010, 1];
        for (kind, name) in [(254u8, "endpoint"), (254, "nothing"), (8, "n")] {
            body.extend_from_slice(&[kind, 0, name.len() as u8]);
            body.extend_from_slice(name.as_bytes());
        }
        body.extend_from_slice(b"\x05cart/\x01\0\0\0\0\0\0\0SELECT 1");
        let (attributes, text) = of_query(&body).expect("attributes");
        assert_eq!(text, b"SELECT 1");
        let found: Vec<_> = attributes.collect();
        assert_eq!(found, [(&b"endpoint"[..], Some(&b"cart/"[..])), (b"nothing", None), (b"n", None)]);
        for cut in 0..body.len() - 8 {
            assert!(of_query(&body[..cut]).is_none(), "{cut}");
        }
    }

    #[test]
    fn an_execution_loses_its_attributes_and_keeps_its_parameters() {
        let head = [7, 0, 0, 0, 8, 1, 0, 0, 0];
        let with = [&head[..], &[2, 0, 1, 3, 0, 0, 254, 0, 5], b"trace", &[9, 0, 0, 0, 2], b"ab"].concat();
        let plain = [&[7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 0][..], &[9, 0, 0, 0]].concat();
        assert_eq!(without(&with), Some(plain));
        assert_eq!(without(&head), Some(vec![7, 0, 0, 0, 0, 1, 0, 0, 0]));
        for cut in 10..with.len() - 3 {
            assert_eq!(without(&with[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn a_parameter_that_was_sent_before_has_no_value() {
        // A blob, whose value came as long data, and a number.
        let head = [7, 0, 0, 0, 8, 1, 0, 0, 0];
        let with = [&head[..], &[2, 0, 1, 252, 0, 0, 3, 0, 0], &[9, 0, 0, 0]].concat();
        let plain = [&[7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 252, 0, 3, 0][..], &[9, 0, 0, 0]].concat();
        assert_eq!(without(&with), Some(plain));
        let alone = [&head[..], &[1, 0, 1, 252, 0, 0]].concat();
        assert_eq!(without(&alone), Some(vec![7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 252, 0]));
    }

    #[test]
    fn a_statement_without_attributes_is_all_text() {
        let (attributes, text) = of_query(b"\0\x01SELECT 1").expect("no attributes");
        assert_eq!((attributes.count(), text), (0, &b"SELECT 1"[..]));
    }
}
