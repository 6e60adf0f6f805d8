//! The PROXY protocol's header: any bytes are read or refused, and who was read is written and read back the
//! same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::SocketAddr;
use wire::proxy::{FIXED, ProxySource, length, read, read_line, write};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(source) = read_line(bytes) {
        assert!(bytes.starts_with(b"PROXY ") && bytes.ends_with(b"\r\n"), "{source:?}");
    }
    let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED>() else { return };
    let Ok(announced) = length(fixed) else { return };
    let _ = read(fixed, &rest[..announced.min(rest.len())]);
    if let Ok(ProxySource::Client(client)) = read(fixed, rest) {
        let own = SocketAddr::from(([127, 0, 0, 1], 3306));
        let written = write(client, own);
        let (fixed, rest) = written.split_first_chunk::<FIXED>().expect("a whole header");
        assert_eq!(length(fixed), Ok(rest.len()));
        assert_eq!(read(fixed, rest), Ok(ProxySource::Client(client)));
    }
});
