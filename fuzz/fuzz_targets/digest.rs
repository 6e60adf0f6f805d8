//! Digests: any text of any dialect is read within the limit, its comments lie within it, and reading again
//! finds the same, whatever was read before.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sql::{Dialect, Digester};
use std::cell::RefCell;

thread_local! {
    /// One for all inputs, as a thread of the router has one: its table of keywords is made once.
    static DIGESTER: RefCell<Digester> = RefCell::new(Digester::new());
}

fuzz_target!(|input: (u8, &[u8])| {
    let (flags, text) = input;
    let dialect =
        Dialect { mariadb: flags & 1 != 0, plain_backslash: flags & 2 != 0, ansi_quotes: flags & 4 != 0 };
    DIGESTER.with_borrow_mut(|digester| {
        let first = digester.read(text, dialect);
        assert!(digester.comments().all(|(from, to)| from <= to && to <= text.len()));
        let shown = digester.text();
        digester.read(b"SELECT a FROM `b` /* c */ WHERE d IN (1, 'e') -- f", Dialect::default());
        assert_eq!((digester.read(text, dialect), digester.text()), (first, shown));
    });
});
