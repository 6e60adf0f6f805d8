//! OK, EOF and ERR packets: any bytes are read or refused, and what was read is written and read back the
//! same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Capabilities;
use wire::response::{Eof, ErrPacket, OkPacket, error_code};

fuzz_target!(|input: (bool, &[u8])| {
    let (tracks, payload) = input;
    let capabilities = Capabilities::ORDINARY
        | Capabilities::DEPRECATE_EOF
        | if tracks { Capabilities::SESSION_TRACK } else { Capabilities::empty() };
    if let Ok(ok) = OkPacket::parse(payload, capabilities) {
        let _ = ok.changes().count();
        assert_eq!(OkPacket::parse(&ok.encode(capabilities), capabilities), Ok(ok));
    }
    if let Ok(eof) = Eof::parse(payload) {
        assert_eq!(Eof::parse(&eof.encode()), Ok(eof));
    }
    if let Ok(err) = ErrPacket::parse(payload) {
        assert_eq!(error_code(payload), Some(err.code));
        assert_eq!(ErrPacket::parse(&err.encode(capabilities)), Ok(err));
    }
});
