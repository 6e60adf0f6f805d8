//! Tags: any comment is read, and no value is longer than what is kept.
#![no_main]

use insight::{Found, Keys};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|comment: &[u8]| {
    let keys = Keys::new(&["endpoint".to_owned(), "a+b".to_owned()], &["traceparent".to_owned()]);
    let mut found = Found::default();
    keys.read(&mut found, comment);
    let mut text = String::new();
    if let Some(value) = keys.endpoint(&found) {
        value.decode(&mut text);
        assert!(text.len() <= 256);
    }
    if let Some(value) = keys.request(&found) {
        let _ = value.request_id();
    }
});
