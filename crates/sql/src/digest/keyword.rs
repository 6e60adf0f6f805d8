//! Keyword: which token a word is, found by its first eight letters and its length without regard to case.
//!
//! Words are compared with bit 5 of each byte cleared. That makes letters equal whatever their case; digits
//! and `$` lose a bit too, and no two characters that words are made of become the same by it.

use super::words;

/// What a word means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keyword {
    /// Its token, from [`FIRST`] on.
    pub(super) token: u16,
    /// Only before a parenthesis.
    function: bool,
    mysql: bool,
    mariadb: bool,
    /// A sign after it belongs to the number that follows.
    pub(super) before_sign: bool,
    pub(super) before_sign_mysql: bool,
}

/// The token of the first keyword; below are single characters and what [`super`] makes of several.
pub(super) const FIRST: u16 = 512;

const SLOTS: usize = 4096;
const CASE: u64 = 0xdfdf_dfdf_dfdf_dfdf;
/// Longer words are no keywords.
const LONGEST: usize = 40;

/// All keywords; about 50 KiB, one a thread.
pub(super) struct Keywords {
    slots: Box<[u16]>,
    entries: Vec<(&'static str, Keyword)>,
    /// Word shown for each token.
    shown: Vec<&'static str>,
}

impl Keywords {
    pub(super) fn new() -> Self {
        let mut table = Self { slots: vec![u16::MAX; SLOTS].into(), entries: Vec::new(), shown: Vec::new() };
        let lists = [
            (words::BOTH, false, true, true),
            (words::MYSQL, false, true, false),
            (words::MARIADB, false, false, true),
            (words::FUNCTIONS, true, true, true),
            (words::MARIADB_FUNCTIONS, true, false, true),
        ];
        for (list, function, mysql, mariadb) in lists {
            for word in list.split_ascii_whitespace() {
                let token = table.token(word);
                let canonical = table.shown[usize::from(token - FIRST)];
                let before_sign = words::BEFORE_SIGN.contains(&canonical);
                let before_sign_mysql = before_sign || words::BEFORE_SIGN_MYSQL.contains(&canonical);
                let keyword = Keyword { token, function, mysql, mariadb, before_sign, before_sign_mysql };
                table.insert(word, keyword);
            }
        }
        table
    }

    /// The token for a word, that of its synonym if it has one.
    fn token(&mut self, word: &'static str) -> u16 {
        let synonyms = words::SYNONYMS.iter().find(|group| group.contains(&word));
        let shown = synonyms.map_or(word, |group| group[0]);
        let at = self.shown.iter().position(|known| *known == shown).unwrap_or_else(|| {
            self.shown.push(shown);
            self.shown.len() - 1
        });
        FIRST + at as u16
    }

    fn insert(&mut self, word: &'static str, keyword: Keyword) {
        let mut at = slot(word.as_bytes());
        while self.slots[at] != u16::MAX {
            at = (at + 1) % SLOTS;
        }
        self.slots[at] = self.entries.len() as u16;
        self.entries.push((word, keyword));
    }

    /// The keyword that a word is for this server; `call` when a parenthesis follows at once.
    pub(super) fn find(&self, word: &[u8], mariadb: bool, call: bool) -> Option<Keyword> {
        if word.len() > LONGEST {
            return None;
        }
        let mut at = slot(word);
        loop {
            let (known, keyword) = self.entries.get(usize::from(self.slots[at]))?;
            if same(known.as_bytes(), word) {
                let here = if mariadb { keyword.mariadb } else { keyword.mysql };
                if here && (call || !keyword.function) {
                    return Some(*keyword);
                }
            }
            at = (at + 1) % SLOTS;
        }
    }

    /// The word shown for a token.
    pub(super) fn shown(&self, token: u16) -> Option<&'static str> {
        self.shown.get(usize::from(token.checked_sub(FIRST)?)).copied()
    }

    /// The token of a word of both servers; [`FIRST`] when there is none.
    pub(super) fn named(&self, word: &str) -> u16 {
        self.find(word.as_bytes(), true, true).map_or(FIRST, |keyword| keyword.token)
    }
}

fn same(known: &[u8], word: &[u8]) -> bool {
    known.len() == word.len() && known.iter().zip(word).all(|(a, b)| (a ^ b) & 0xdf == 0)
}

fn slot(word: &[u8]) -> usize {
    let first = match word.first_chunk::<8>() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    };
    let last = word.last().map_or(0, |byte| u64::from(byte & 0xdf));
    let mixed = (first & CASE) ^ (word.len() as u64) << 56 ^ last << 48;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whatever_their_case_and_only_where_they_are_keywords() {
        let words = Keywords::new();
        let shown = |word: &str, mariadb, call| {
            words.find(word.as_bytes(), mariadb, call).and_then(|k| words.shown(k.token))
        };
        assert_eq!(shown("sElEcT", true, false), Some("SELECT"));
        assert_eq!(shown("distinctrow", false, false), Some("DISTINCT"));
        assert_eq!((shown("id", true, false), shown("id", false, false)), (Some("ID"), None));
        assert_eq!((shown("count", true, false), shown("count", true, true)), (None, Some("COUNT")));
        assert_eq!(shown("c", true, false), None);
        assert_eq!(shown("selec", true, false), None);
        assert_eq!(shown("", true, false), None);
    }

    #[test]
    fn every_keyword_is_found() {
        let words = Keywords::new();
        for (word, keyword) in &words.entries {
            let found = words.find(word.to_lowercase().as_bytes(), keyword.mariadb, true);
            assert_eq!(found.map(|k| k.token), Some(keyword.token), "{word}");
        }
    }
}
