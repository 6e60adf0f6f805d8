//! The scan of a statement: any text, and any split of it finds the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sql::{Scanner, scan, used_database};

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (step, plain_backslash, text) = input;
    let _ = used_database(text);
    let mut pieces = Scanner::new(plain_backslash);
    text.chunks(usize::from(step).max(1)).for_each(|piece| pieces.feed(piece));
    assert_eq!(pieces.finish(), scan(text, plain_backslash));
});
