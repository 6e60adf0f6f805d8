//! The option file format of MySQL and MariaDB (`~/.my.cnf`): read as text, without touching a file system.
//!
//! ```ini
//! [client]
//! user = "watch"
//! password = 'it''s # no comment here'   # but this is one
//! !include /etc/mysql/tls.cnf
//! !includedir /etc/mysql/conf.d
//! ```
//!
//! As both flavours define it: `-` and `_` in names are the same, `loose-` may precede a name, values may be
//! quoted, `\b \t \n \r \\ \s` are escapes, `#` starts a comment anywhere outside quotes and `;` at the start
//! of a line. Later lines win. Options that do not concern a login are passed over: these files serve many
//! programs.
//!
//! Inclusion is left to the caller ([`expand`]), who reads files; everything here is a function of text.

mod login;

use std::path::PathBuf;

pub use login::{GROUPS, Login};

/// One line that means something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Line in its file, counted from 1.
    pub line: usize,
    pub says: Says,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Says {
    /// `[group]`: what follows belongs to it.
    Group(String),
    /// `name` or `name=value`; the name with dashes and without `loose-`.
    Option {
        name: String,
        /// Its value, unquoted; `None` when there is no equals sign.
        value: Option<String>,
    },
    /// `!include file`.
    Include(PathBuf),
    /// `!includedir directory`: every `.cnf` file in it, in the order of their names.
    IncludeDir(PathBuf),
}

/// Why a text is not an option file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct OptionFileError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong and what would be right. Shows no value: it may be a password.
    pub why: String,
}

/// Files that include files are followed this deep, as the servers do.
const DEEPEST: usize = 10;

/// Reads the text of an option file.
pub fn parse(text: &str) -> Result<Vec<Item>, OptionFileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut items = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |why: &str| OptionFileError { line: at + 1, why: why.to_owned() };
        let line_text = line.trim();
        let says = if line_text.is_empty() || line_text.starts_with(['#', ';']) {
            continue;
        } else if let Some(rest) = line_text.strip_prefix('[') {
            let (name, _) =
                rest.split_once(']').ok_or_else(|| wrong("a group needs a closing bracket: [client]"))?;
            Says::Group(name.trim().to_owned())
        } else if let Some(rest) = line_text.strip_prefix('!') {
            directive(rest).ok_or_else(|| wrong("after '!' comes include or includedir, and a path"))?
        } else {
            option(without_comment(line_text))
                .ok_or_else(|| wrong("an option needs a name before the equals sign"))?
        };
        items.push(Item { line: at + 1, says });
    }
    Ok(items)
}

/// Puts the items of included files in the place of the directives that name them; `read` reads a file or all
/// files of a directory. Inclusion deeper than ten files ends there. Behind them the group goes on that the
/// directive stands in.
pub fn expand<E>(
    items: Vec<Item>,
    read: &mut impl FnMut(&Says) -> Result<Vec<Item>, E>,
) -> Result<Vec<Item>, E> {
    expand_to(items, read, DEEPEST, None)
}

fn expand_to<E>(
    items: Vec<Item>,
    read: &mut impl FnMut(&Says) -> Result<Vec<Item>, E>,
    depth: usize,
    mut group: Option<Item>,
) -> Result<Vec<Item>, E> {
    let mut all = Vec::with_capacity(items.len());
    for item in items {
        match &item.says {
            Says::Include(_) | Says::IncludeDir(_) if depth == 0 => {}
            Says::Include(_) | Says::IncludeDir(_) => {
                let included = read(&item.says)?;
                all.extend(expand_to(included, read, depth - 1, group.clone())?);
                // With whatever group that has ended, what follows here belongs to the group of here.
                let none = || Item { line: item.line, says: Says::Group(String::new()) };
                all.push(group.clone().unwrap_or_else(none));
            }
            Says::Group(_) => {
                group = Some(item.clone());
                all.push(item);
            }
            Says::Option { .. } => all.push(item),
        }
    }
    Ok(all)
}

fn directive(rest: &str) -> Option<Says> {
    let (word, path) = rest.split_once(char::is_whitespace)?;
    let path = PathBuf::from(path.trim());
    match word {
        "include" => Some(Says::Include(path)),
        "includedir" => Some(Says::IncludeDir(path)),
        _ => None,
    }
}

fn option(text: &str) -> Option<Says> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(unquoted(value.trim()))),
        None => (text, None),
    };
    let name = name.trim().replace('_', "-").to_ascii_lowercase();
    let name = name.strip_prefix("loose-").unwrap_or(&name).to_owned();
    (!name.is_empty()).then_some(Says::Option { name, value })
}

/// Cuts the comment off: from the first `#` that stands in no quotes.
fn without_comment(text: &str) -> &str {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c && !escaped => quote = None,
            (None, '#') => return text[..at].trim_end(),
            _ => {}
        }
        escaped = quote.is_some() && c == '\\' && !escaped;
    }
    text
}

/// Takes the quotes off, if it begins and ends with the same one, and resolves escapes. A backslash before
/// any other character stays.
fn unquoted(value: &str) -> String {
    let bare = ['\'', '"'].iter().find_map(|&q| value.strip_prefix(q)?.strip_suffix(q)).unwrap_or(value);
    let mut out = String::with_capacity(bare.len());
    let mut chars = bare.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('b') => out.push('\u{8}'),
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('s') => out.push(' '),
            Some(q @ ('\\' | '\'' | '"')) => out.push(q),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

/// Shows no value: it may be a password.
impl std::fmt::Debug for Says {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Group(name) => write!(f, "[{name}]"),
            Self::Option { name, value } => {
                write!(f, "{name}{}", if value.is_some() { "=(hidden)" } else { "" })
            }
            Self::Include(path) => write!(f, "!include {}", path.display()),
            Self::IncludeDir(path) => write!(f, "!includedir {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(String, Option<String>)> {
        let items = parse(text).unwrap();
        items
            .into_iter()
            .filter_map(|item| match item.says {
                Says::Option { name, value } => Some((name, value)),
                _ => None,
            })
            .collect()
    }

    fn value(text: &str) -> String {
        values(text).remove(0).1.unwrap()
    }

    #[test]
    fn quotes_escapes_and_comments_are_as_in_the_servers() {
        for (text, wanted) in [
            ("password=plain", "plain"),
            ("password = spaced out  ", "spaced out"),
            ("password='quo ted'", "quo ted"),
            ("password=\"a#b\" # comment", "a#b"),
            ("password=a#b", "a"),
            (r"password='it\'s'", "it's"),
            (r"password=tab\there\s", "tab\there "),
            (r"password=C:\new\\x", "C:\new\\x"),
            (r"password=\q", r"\q"),
            ("password=", ""),
            ("password=a=b", "a=b"),
            ("password='unclosed", "'unclosed"),
        ] {
            assert_eq!(value(text), wanted, "{text}");
        }
    }

    #[test]
    fn names_are_the_same_with_dashes_and_underscores_and_loose() {
        let names: Vec<String> = values("ssl_ca=x\nSSL-CA=x\nloose-ssl_ca=x\nloose_ssl-ca=x")
            .into_iter()
            .map(|(n, _)| n)
            .collect();
        assert!(names.iter().all(|n| n == "ssl-ca"), "{names:?}");
        assert_eq!(values("skip-ssl"), [("skip-ssl".to_owned(), None)]);
    }

    #[test]
    fn groups_and_directives_are_told_with_their_lines() {
        let items = parse("# top\n[ client ]\n\n!include /a b.cnf\n!includedir /etc/d\n; end\n").unwrap();
        let lines: Vec<usize> = items.iter().map(|item| item.line).collect();
        assert_eq!(lines, [2, 4, 5]);
        assert_eq!(items[0].says, Says::Group("client".into()));
        assert_eq!(items[1].says, Says::Include("/a b.cnf".into()));
        assert_eq!(items[2].says, Says::IncludeDir("/etc/d".into()));
    }

    #[test]
    fn what_is_no_option_file_is_refused_with_its_line_and_without_its_values() {
        for (text, line, part) in [
            ("\n[client", 2, "closing bracket"),
            ("!frobnicate x", 1, "include or includedir"),
            ("[client]\n=secret", 2, "name before"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line);
            assert!(error.why.contains(part) && !error.to_string().contains("secret"), "{error}");
        }
        let shown = format!("{:?}", parse("password=secret").unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn included_items_stand_in_the_place_of_their_directive_and_circles_end() {
        let items = parse("[client]\nuser=a\n!include other\nuser=c").unwrap();
        let mut read = |_: &Says| Ok::<_, ()>(parse("user=b\n!include other").unwrap());
        let all = expand(items, &mut read).unwrap();
        let users = all.iter().filter(|item| matches!(item.says, Says::Option { .. })).count();
        assert_eq!(users, 1 + DEEPEST + 1);
        assert!(matches!(&all.last().unwrap().says, Says::Option { value: Some(v), .. } if v == "c"));
    }

    #[test]
    fn behind_an_included_file_the_group_goes_on_that_it_was_included_in() {
        let user = |text: &str, included: &str| {
            let mut read = |_: &Says| Ok::<_, ()>(parse(included).unwrap());
            let all = expand(parse(text).unwrap(), &mut read).unwrap();
            Login::of(&all, &GROUPS).unwrap().user
        };
        assert_eq!(user("[client]\n!include x\nuser=a", "[mysqld]\nuser=b").as_deref(), Some("a"));
        assert_eq!(user("[mysqld]\n!include x\nuser=a", "[client]\nport=1").as_deref(), None);
        assert_eq!(user("!include x\nuser=a", "[client]\nuser=b").as_deref(), Some("b"));
    }
}
