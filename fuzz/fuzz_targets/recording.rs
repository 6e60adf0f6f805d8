//! Recording: any file is read to an end or an error, and an event that was read is written as it can be read
//! again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use recording::{Event, Reader};

fuzz_target!(|file: &[u8]| {
    if let Ok(mut reader) = Reader::new(file, None) {
        while let Ok(Some(_)) = reader.next() {}
        let _ = reader.ending();
    }
    let mut rest = file;
    while let Some(event) = Event::read(&mut rest) {
        let mut bytes = Vec::new();
        event.write(&mut bytes);
        assert_eq!(Event::read(&mut bytes.as_slice()), Some(event));
    }
});
