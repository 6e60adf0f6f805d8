//! Digests: any text of any dialect is read within the limit, its comments lie within it, and reading again finds the same.
#![no_main]

use insight::{Dialect, Digester};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (flags, text) = input;
    let dialect =
        Dialect { mariadb: flags & 1 != 0, plain_backslash: flags & 2 != 0, ansi_quotes: flags & 4 != 0 };
    let mut digester = Digester::new();
    let first = digester.read(text, dialect);
    assert!(digester.comments().all(|(from, to)| from <= to && to <= text.len()));
    let shown = digester.text();
    assert_eq!((digester.read(text, dialect), digester.text()), (first, shown));
});
