//! Tags: any comment is read, and no value is longer than what is kept.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sql::{TagKeys, Tags};

fuzz_target!(|comment: &[u8]| {
    let keys = TagKeys::new(&["endpoint".to_owned(), "a+b".to_owned()], &["traceparent".to_owned()]);
    let mut tags = Tags::default();
    keys.read(&mut tags, comment);
    let mut text = String::new();
    if let Some(value) = keys.endpoint(&tags) {
        value.decode(&mut text);
        assert!(text.len() <= 256);
    }
    if let Some(value) = keys.request(&tags) {
        let _ = value.request_id();
    }
});
