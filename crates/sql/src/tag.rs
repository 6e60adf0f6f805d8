//! Tags: what a client writes into comments of a statement to say which endpoint or request it belongs to.
//!
//! Understood are sqlcommenter (`/*endpoint='%2Fcart',traceparent='00-...-01'*/`), plain pairs (`/*
//! endpoint=cart */`) and Ruby on Rails' query logs (`/*controller:carts,action:show*/`). Values in quotes
//! are URL-encoded; a backslash takes the next character as it is. Which keys matter is configured;
//! everything else in comments is passed over.

use std::borrow::Cow;

/// Keys told apart; configured keys beyond are ignored.
const KEYS: usize = 16;
/// Longest value that counts, bytes.
const LONGEST: usize = 256;

/// Which tags name the endpoint and the request.
#[derive(Clone, Debug, Default)]
pub struct TagKeys {
    keys: Vec<Box<[u8]>>,
    endpoint: Vec<Spec>,
    request: Vec<Spec>,
}

/// One key, or two whose values are joined; indices in `keys`.
#[derive(Clone, Copy, Debug)]
struct Spec {
    first: usize,
    second: Option<usize>,
}

/// The tags of one statement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tags<'t> {
    values: [Option<&'t [u8]>; KEYS],
}

/// The value of a tag, or of two joined, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagValue<'t> {
    first: &'t [u8],
    second: Option<&'t [u8]>,
}

impl TagKeys {
    /// For the configured keys; `a+b` joins two.
    pub fn new(endpoint: &[String], request: &[String]) -> Self {
        let mut keys = Self::default();
        keys.endpoint = endpoint.iter().filter_map(|spec| keys.spec(spec)).collect();
        keys.request = request.iter().filter_map(|spec| keys.spec(spec)).collect();
        keys
    }

    fn spec(&mut self, text: &str) -> Option<Spec> {
        let mut parts = text.split('+');
        let first = self.index(parts.next()?)?;
        let second = match parts.next() {
            Some(part) => Some(self.index(part)?),
            None => None,
        };
        Some(Spec { first, second })
    }

    fn index(&mut self, key: &str) -> Option<usize> {
        let known = self.keys.iter().position(|known| **known == *key.as_bytes());
        known.or_else(|| {
            (self.keys.len() < KEYS).then(|| {
                self.keys.push(key.as_bytes().into());
                self.keys.len() - 1
            })
        })
    }

    /// Notes a tag if its key matters and has no value yet.
    pub fn note<'t>(&self, tags: &mut Tags<'t>, key: &[u8], value: &'t [u8]) {
        if let Some(at) = self.keys.iter().position(|known| **known == *key)
            && !value.is_empty()
        {
            tags.values[at].get_or_insert(value);
        }
    }

    /// Notes the tags of a comment's content.
    pub fn read<'t>(&self, tags: &mut Tags<'t>, comment: &'t [u8]) {
        let mut rest = comment;
        while let Some((key, value)) = pair(&mut rest) {
            self.note(tags, key, value);
        }
    }

    /// The value that names the endpoint.
    pub fn endpoint<'t>(&self, tags: &Tags<'t>) -> Option<TagValue<'t>> {
        tags.first_of(&self.endpoint)
    }

    /// The value that names the request.
    pub fn request<'t>(&self, tags: &Tags<'t>) -> Option<TagValue<'t>> {
        tags.first_of(&self.request)
    }
}

impl<'t> Tags<'t> {
    fn first_of(&self, specs: &[Spec]) -> Option<TagValue<'t>> {
        specs.iter().find_map(|spec| {
            let second = match spec.second {
                Some(at) => Some(self.values[at]?),
                None => None,
            };
            Some(TagValue { first: self.values[spec.first]?, second })
        })
    }
}

impl<'t> TagValue<'t> {
    /// The bytes as they came, of both parts.
    pub fn raw(&self) -> (&'t [u8], &'t [u8]) {
        (self.first, self.second.unwrap_or_default())
    }

    /// What identifies the request: the trace id of a `traceparent`, else the whole value.
    pub fn request_id(&self) -> &'t [u8] {
        match self.first {
            [_, _, b'-', rest @ ..] if rest.len() >= 33 && rest[32] == b'-' => &rest[..32],
            whole => whole,
        }
    }

    /// The value for people: decoded, two parts joined with a slash, at most 256 bytes. Control characters
    /// are spaces: by them it would command a terminal, or end a line.
    pub fn decode(&self, text: &mut String) {
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        text.clear();
        text.extend(decoded(self.first).chars().map(shown));
        if let Some(second) = self.second {
            text.push('/');
            text.extend(decoded(second).chars().map(shown));
        }
        text.truncate(text.floor_char_boundary(LONGEST));
    }
}

/// The content of the comment that a text ends with, whose beginning is not known.
pub fn last_comment(tail: &[u8]) -> Option<&[u8]> {
    let end = memchr::memmem::rfind(tail, b"*/")?;
    let start = memchr::memmem::rfind(&tail[..end], b"/*")?;
    Some(&tail[start + 2..end])
}

/// The next `key=value` or `key:value`, taken off the front of `rest`.
fn pair<'t>(rest: &mut &'t [u8]) -> Option<(&'t [u8], &'t [u8])> {
    loop {
        let sign = memchr::memchr2(b'=', b':', rest)?;
        let (before, after) = (&rest[..sign], &rest[sign + 1..]);
        let key = before.trim_ascii_end();
        let start = key.iter().rposition(|byte| !is_key(*byte)).map_or(0, |at| at + 1);
        let key = &key[start..];
        let colon = rest[sign] == b':';
        let value = after.trim_ascii_start();
        let prose = colon && after.first().is_none_or(u8::is_ascii_whitespace);
        if key.is_empty() || prose {
            *rest = after;
            continue;
        }
        if let [b'\'', quoted @ ..] = value {
            let end = closing(quoted);
            *rest = quoted.get(end + 1..).unwrap_or_default();
            return Some((key, &quoted[..end]));
        }
        let ends = |byte: &u8| matches!(byte, b',' | b';') || byte.is_ascii_whitespace();
        let end = value.iter().position(ends).unwrap_or(value.len());
        *rest = &value[end..];
        return Some((key, &value[..end]));
    }
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Where a quoted value ends; a backslash takes the next byte as it is.
fn closing(quoted: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'\'', b'\\', &quoted[at..]) {
        at += found;
        if quoted[at] == b'\'' {
            return at;
        }
        at = (at + 2).min(quoted.len());
    }
    quoted.len()
}

/// A value with `%41` and `\'` made what they stand for; odd bytes replaced.
fn decoded(value: &[u8]) -> Cow<'_, str> {
    let value = &value[..value.len().min(3 * LONGEST)];
    if memchr::memchr2(b'%', b'\\', value).is_none() {
        return String::from_utf8_lossy(value);
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'%', [high, low, behind @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes.push(digit(*high) << 4 | digit(*low));
                rest = behind;
            }
            (b'\\', [escaped, behind @ ..]) => {
                bytes.push(*escaped);
                rest = behind;
            }
            (plain, _) => bytes.push(*plain),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}

fn digit(hex: u8) -> u8 {
    match hex {
        b'0'..=b'9' => hex - b'0',
        _ => (hex | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys() -> TagKeys {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        TagKeys::new(
            &words(&["endpoint", "route", "controller+action"]),
            &words(&["traceparent", "request_id"]),
        )
    }

    fn endpoint(comment: &str) -> Option<String> {
        let keys = keys();
        let mut tags = Tags::default();
        keys.read(&mut tags, comment.as_bytes());
        let mut text = String::new();
        keys.endpoint(&tags).map(|value| {
            value.decode(&mut text);
            text
        })
    }

    #[test]
    fn the_three_ways_of_tagging_are_understood() {
        let is =
            |comment, expected: &str| assert_eq!(endpoint(comment).as_deref(), Some(expected), "{comment}");
        is("endpoint='timeline'", "timeline");
        is("db_driver='x',route='%2Fusers%2F%3Cid%3E',traceparent='00-a-b-01'", "/users/<id>");
        is(" endpoint=cart ", "cart");
        is(" sent by shop: endpoint = cart; x = 1", "cart");
        is("application:Shop,controller:books,action:index", "books/index");
        is("action='show',controller='it\\'s'", "it's/show");
        is("route='b',endpoint='a'", "a");
        is("endpoint='a%1B%5B2Jb%0Ac'", "a [2Jb c");
    }

    #[test]
    fn comments_without_a_known_key_have_no_endpoint() {
        for comment in
            ["", "hello", "a=b", "controller=x", "endpoint=", "endpoint=''", "=endpoint", "xendpoint='a'"]
        {
            assert_eq!(endpoint(comment), None, "{comment}");
        }
    }

    #[test]
    fn of_a_traceparent_the_trace_id_counts() {
        let keys = keys();
        let id = |comment: &'static str| {
            let mut tags = Tags::default();
            keys.read(&mut tags, comment.as_bytes());
            keys.request(&tags).map(|value| value.request_id())
        };
        let trace = &b"4bf92f3577b34da6a3ce929d0e0e4736"[..];
        assert_eq!(id("traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'"), Some(trace));
        assert_eq!(id("request_id='r-17'"), Some(&b"r-17"[..]));
    }

    proptest! {
        #[test]
        fn any_value_comes_back_as_it_was_encoded(value in "\\PC{1,40}") {
            let encoded: String = value.bytes().map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") }).collect();
            let decoded = endpoint(&format!("a='b',endpoint='{encoded}',c='d'")).unwrap();
            prop_assert_eq!(decoded.as_str(), &value[..value.floor_char_boundary(LONGEST)]);
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let keys = keys();
            let mut tags = Tags::default();
            keys.read(&mut tags, &bytes);
            let mut text = String::new();
            if let Some(value) = keys.endpoint(&tags) {
                value.decode(&mut text);
                prop_assert!(text.len() <= LONGEST);
            }
        }
    }
}
