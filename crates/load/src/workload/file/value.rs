//! The language of values: `uniform 1..100`, `template ###-@@`, `last insert id` ...

use crate::distribution::Distribution;
use crate::workload::{Column, Draw, Parameter};

/// A value as a file describes it.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Drawn.
    Draw(Draw),
    /// Bytes that follow from another value.
    Digest {
        /// Its name.
        of: String,
        length: usize,
    },
    /// Another value and this much more.
    Sum(String, i64),
}

/// What may be written, for complaints.
pub(super) const FORMS: &str = "write 'uniform 1..100' (or gaussian, special, pareto, zipfian), 'fixed 7', \
    'template ###-@@', 'one of red, green', 'number from SELECT id FROM item', 'text from SELECT ...', 'bytes 32', 'unique', 'last insert id', 'digest of NAME, 32 bytes' or 'NAME + 99'";

impl Value {
    /// Reads a value; `None` when it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        if let Some(distribution) = Distribution::named(word) {
            let (low, high) = rest.split_once("..")?;
            let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            return (low <= high).then(|| Self::Draw(Draw::key(distribution, low, high)));
        }
        Some(match (word, rest) {
            ("fixed", number) => Self::Draw(Draw::Fixed(number.parse().ok()?)),
            ("template", "") => return None,
            ("template", template) => Self::Draw(Draw::Template(template.as_bytes().into())),
            ("number", query) => Self::Draw(Draw::Number(Column::from_query(select(query)?))),
            ("text", query) => Self::Draw(Draw::Text(Column::from_query(select(query)?))),
            ("one", list) => {
                let texts: Vec<&str> = list.strip_prefix("of ")?.split(',').map(str::trim).collect();
                let texts = texts.into_iter().map(|text| text.as_bytes().into());
                Self::Draw(Draw::Text(Column::of(texts)))
            }
            ("bytes", count) => Self::Draw(Draw::Bytes(count.parse().ok()?)),
            ("unique", "") => Self::Draw(Draw::Unique),
            ("last", "insert id") => Self::Draw(Draw::LastInsertId),
            ("digest", rest) => {
                let (of, length) = rest.strip_prefix("of ")?.split_once(',')?;
                let length = length.trim().strip_suffix("bytes")?.trim().parse().ok()?;
                Self::Digest { of: of.trim().to_owned(), length }
            }
            (name, sum) => {
                let (sign, number) = match (sum.strip_prefix('+'), sum.strip_prefix('-')) {
                    (Some(more), _) => (1, more),
                    (_, Some(less)) => (-1, less),
                    _ => return None,
                };
                Self::Sum(name.to_owned(), sign * number.trim().parse::<i64>().ok()?)
            }
        })
    }

    /// The parameter for it where nothing was set by `let`.
    pub(super) fn drawn(&self) -> Option<Parameter> {
        match self {
            Self::Draw(draw) => Some(Parameter::Draw(draw.clone())),
            Self::Digest { .. } | Self::Sum(..) => None,
        }
    }
}

/// The query behind `from`; anything that does not plainly read is none.
fn select(words: &str) -> Option<&str> {
    let query = words.strip_prefix("from ")?.trim();
    query.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("select ")).then_some(query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_they_say() {
        for good in [
            "uniform 1..100",
            "zipfian 0 .. 9",
            "fixed -3",
            "template ###, and more",
            "bytes 32",
            "unique",
            "one of red, green",
            "number from SELECT id FROM item",
            "text from select name FROM account LIMIT 1000",
            "last insert id",
            "digest of order, 32 bytes",
            "item + 99",
            "item - 1",
        ] {
            assert!(Value::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "uniform",
            "uniform 9..1",
            "uniform 1-9",
            "fixed x",
            "bytes",
            "digest of a",
            "one red",
            "number SELECT id FROM item",
            "text from DELETE FROM item",
            "item 7",
            "item",
        ] {
            assert!(Value::parse(bad).is_none(), "{bad}");
        }
    }
}
