//! File: a head, then frames one behind the other, each with its length and checksum; only ever appended to.
//!
//! ```text
//! head   "headrec\n"  version u16  flags u16 (1: sealed)  32 random bytes  crc32 of these        48 bytes
//! frame  length u32   crc32 of length and bytes           events, sealed if the head says so
//! ```
//! Little-endian. A frame is written with one call and holds what came in about a fifth of a second, at most
//! some 64 KiB (or one longer event). Whoever kills the writer or fills the disk tears the last frame at
//! most: reading ends before it and says so ([`Ending::Torn`]). The checksum tells a torn or damaged frame
//! from a wrong key.

mod layout;
mod reader;
mod writer;

pub use reader::{Ending, Reader};
pub use writer::Writer;

#[cfg(test)]
mod tests {
    use super::layout::HEAD;
    use super::*;
    use crate::{Event, Key, RecordedCommand, RecordingEnd, RecordingError, RecordingStart, SessionEnd};

    fn events() -> Vec<Event> {
        let began = RecordingStart { source: "a test".to_owned(), one_in: 1, ..RecordingStart::default() };
        let mut events = vec![Event::RecordingStart(began)];
        for n in 0..40u64 {
            let body = format!("SELECT {n}").into_bytes();
            events.push(Event::Command(RecordedCommand {
                session: n % 3,
                at_us: n,
                command: 3,
                body,
                ..RecordedCommand::default()
            }));
        }
        events.push(Event::SessionEnd(SessionEnd { session: 1, at_us: 41 }));
        events.push(Event::RecordingEnd(RecordingEnd { commands: 40, ..RecordingEnd::default() }));
        events
    }

    /// A file with a frame for every five events; also where its frames end.
    fn written(key: Option<&Key>) -> (Vec<u8>, Vec<usize>) {
        let mut ends = Vec::new();
        let mut writer = Writer::new(Vec::new(), key).unwrap();
        for (n, event) in events().iter().enumerate() {
            writer.push(event).unwrap();
            if n % 5 == 4 {
                writer.flush().unwrap();
                ends.push(writer.written() as usize);
            }
        }
        let bytes = writer.finish().unwrap();
        ends.push(bytes.len());
        (bytes, ends)
    }

    fn read(bytes: &[u8], key: Option<&Key>) -> Result<(Vec<Event>, Ending), RecordingError> {
        let mut reader = Reader::new(bytes, key)?;
        let mut found = Vec::new();
        while let Some(event) = reader.next()? {
            found.push(event);
        }
        Ok((found, reader.ending()))
    }

    fn key(digits: &str) -> Key {
        Key::parse(&digits.repeat(32)).unwrap()
    }

    #[test]
    fn what_was_written_is_read_sealed_or_not() {
        let ours = key("a1");
        for key in [None, Some(&ours)] {
            let (bytes, _) = written(key);
            assert_eq!(read(&bytes, key).unwrap(), (events(), Ending::Whole));
            let legible = bytes.windows(6).any(|text| text == b"SELECT");
            assert_eq!(legible, key.is_none());
        }
    }

    #[test]
    fn a_file_cut_anywhere_gives_every_whole_frame_and_says_what_is_left_out() {
        let ours = key("a1");
        for key in [None, Some(&ours)] {
            let (bytes, ends) = written(key);
            for cut in HEAD..bytes.len() {
                let (found, ending) = match read(&bytes[..cut], key) {
                    Ok(read) => read,
                    Err(error) => panic!("cut at {cut}: {error}"),
                };
                let frames = ends.iter().filter(|end| **end <= cut).count();
                assert_eq!(found, events()[..(5 * frames).min(events().len())], "cut at {cut}");
                let whole = if frames == 0 { HEAD } else { ends[frames - 1] };
                let torn = Ending::Torn { left_out: (cut - whole) as u64 };
                assert_eq!(ending, if cut == whole { Ending::Unfinished } else { torn });
            }
            assert!(matches!(read(&bytes[..HEAD - 1], key), Err(RecordingError::NoHead { .. })));
        }
    }

    #[test]
    fn a_changed_byte_ends_the_reading_before_it() {
        let (mut bytes, ends) = written(None);
        bytes[ends[2] + 20] ^= 1;
        let (found, ending) = read(&bytes, None).unwrap();
        assert_eq!(found, events()[..15]);
        assert!(matches!(ending, Ending::Torn { .. }));
    }

    #[test]
    fn no_key_a_wrong_key_and_other_files_are_told_apart() {
        let (bytes, _) = written(Some(&key("a1")));
        assert!(matches!(read(&bytes, None), Err(RecordingError::NeedsKey)));
        assert!(matches!(read(&bytes, Some(&key("a2"))), Err(RecordingError::WrongKey)));
        assert!(matches!(read(&[b'x'; 100], None), Err(RecordingError::NoRecording)));
        let (bytes, _) = written(None);
        assert!(read(&bytes, Some(&key("a1"))).is_ok(), "a key that is not needed does no harm");
        let mut later = bytes;
        later[8] = 9;
        assert!(matches!(read(&later, None), Err(RecordingError::Version { found: 9, .. })));
    }
}
