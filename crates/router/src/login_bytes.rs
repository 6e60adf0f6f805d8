//! What a server and a client say first, as bytes, for tests.

use wire::{Capabilities, Greeting, Status};

/// A packet with this sequence id.
pub(crate) fn framed(mut sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    wire::packet::write(&mut out, &mut sequence, payload);
    out
}

/// A server's greeting, without TLS and without a plugin of its own.
pub(crate) fn greeting(capabilities: Capabilities) -> Vec<u8> {
    let greeting = Greeting {
        version: "11.8.3-MariaDB".to_owned(),
        connection_id: 1,
        nonce: vec![b'n'; 20],
        capabilities,
        charset: 45,
        status: Status::AUTOCOMMIT,
        auth_plugin: String::new(),
    };
    framed(0, &greeting.encode())
}

/// A client's answer to that.
pub(crate) fn login(capabilities: Capabilities) -> Vec<u8> {
    let login = wire::Login { capabilities, charset: 45, user: b"app", ..wire::Login::default() };
    framed(1, &login.encode())
}
