//! Text: a digest for people, laid out as servers lay theirs out.

use super::keyword::Keywords;
use super::token;

/// The text of stored tokens.
pub(super) fn of(tokens: &[u8], words: &Keywords) -> String {
    let mut text = String::new();
    let mut rest = tokens;
    let mut glue = true;
    while let Some((&[low, high], after)) = rest.split_first_chunk::<2>() {
        rest = after;
        let number = u16::from_le_bytes([low, high]);
        if !glue {
            text.push(' ');
        }
        glue = number == u16::from(b'@');
        if number == token::NAME {
            rest = name(rest, &mut text);
        } else if let Some(word) = words.shown(number) {
            text.push_str(word);
        } else if let Ok(character) = u8::try_from(number) {
            text.push(char::from(character));
        } else {
            text.push_str(shown(number));
        }
    }
    text
}

/// A name with its length before it; returns what follows.
fn name<'t>(stored: &'t [u8], text: &mut String) -> &'t [u8] {
    let Some((&[low, high], after)) = stored.split_first_chunk::<2>() else { return &[] };
    let length = usize::from(u16::from_le_bytes([low, high])).min(after.len());
    let (name, rest) = after.split_at(length);
    text.push('`');
    text.push_str(&String::from_utf8_lossy(name));
    text.push('`');
    rest
}

fn shown(number: u16) -> &'static str {
    match number {
        token::VALUE => "?",
        token::VALUES => "?, ...",
        token::ROW => "(?)",
        token::ROWS => "(?) /* , ... */",
        token::LONG_ROW => "(...)",
        token::LONG_ROWS => "(...) /* , ... */",
        token::CHARSET => "(_charset)",
        token::HINT => "/*+",
        token::HINT_END => "*/",
        token::ASSIGN => ":=",
        token::NULL_SAFE => "<=>",
        token::LESS_EQUAL => "<=",
        token::GREATER_EQUAL => ">=",
        token::NOT_EQUAL => "!=",
        token::SHIFT_LEFT => "<<",
        token::SHIFT_RIGHT => ">>",
        token::AND => "&&",
        token::OR => "||",
        token::ARROW => "->",
        token::LONG_ARROW => "->>",
        token::HEX => "x'?'",
        _ => "(unknown)",
    }
}
