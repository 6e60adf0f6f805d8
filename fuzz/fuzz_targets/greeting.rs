//! A greeting: any bytes are read or refused, and what was read is written and read back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Capabilities, Greeting};

fuzz_target!(|payload: &[u8]| {
    let Ok(greeting) = Greeting::parse(payload) else { return };
    let _ = (greeting.flavour(), greeting.plain_version());
    // The writer cuts names at a NUL, makes the nonce whole, and cannot write a nonce longer than a byte
    // counts.
    let writable = greeting.capabilities.contains(Capabilities::SECURE_CONNECTION)
        && (20..=246).contains(&greeting.nonce.len())
        && !greeting.auth_plugin.contains('\0');
    if writable {
        assert_eq!(Greeting::parse(&greeting.encode()), Ok(greeting));
    }
});
