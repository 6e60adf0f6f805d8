//! Log: any text is read as a general log and as a slow log, to its end or an error; sessions open before
//! they speak.
#![no_main]

use libfuzzer_sys::fuzz_target;
use recording::log::{Kind, read};
use recording::{Event, RecordingError};
use std::collections::HashSet;

fuzz_target!(|text: &[u8]| {
    for kind in [Kind::General, Kind::Slow] {
        let mut open = HashSet::new();
        let _ = read(kind, text, "fuzz", |event: &Event| {
            match event {
                Event::SessionStart(opened) => drop(open.insert(opened.session)),
                Event::Command(said) => assert!(open.contains(&said.session)),
                Event::SessionEnd(closed) => assert!(open.remove(&closed.session)),
                _ => {}
            }
            Ok::<(), RecordingError>(())
        });
    }
});
