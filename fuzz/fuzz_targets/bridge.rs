//! A login across transports: any greeting, then packets of both sides in any order. No panic, an end is an
//! end, what is sent on is no more than what came and the fixed parts that the bridge adds, and there is no
//! way around the terms:
//!
//! - only a session that passes through becomes opaque, and where TLS to the server is due, only by a request
//!   for TLS;
//! - where the client must have TLS, no byte of it reaches the server before it has;
//! - where the server offers TLS that is wanted, it gets a request for TLS before anything else;
//! - a password is refused for want of a key only where none is known and none may be asked for.
//!
//! The input: a byte of terms, a byte of a kind of greeting, a length and this many bytes of greeting, then
//! turns of a kind, a length and this many bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::bridge::{Bridge, FromClient, Keys, Secret, Step, Terms};
use wire::{Capabilities, Greeting, Status, login, packet};

/// What the bridge may add of its own to one turn: a request for TLS, a key, a packet's header.
const ADDED: usize = 4096;

/// Cryptography that only marks what it was given.
struct Marks {
    pinned: bool,
}

impl Keys for Marks {
    fn public_key(&self) -> &[u8] {
        b"-----BEGIN our key"
    }

    fn server_key(&self) -> Option<&[u8]> {
        self.pinned.then_some(b"-----BEGIN its key")
    }

    fn seal(&self, pem: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        pem.starts_with(b"-").then(|| [b"s", plain].concat())
    }
}

fn open(sealed: &[u8]) -> Option<Secret> {
    sealed.strip_prefix(b"o").map(|plain| Secret::new(plain.to_vec()))
}

/// What a login may do by its terms.
struct Policy {
    terms: Terms,
    offers: bool,
    pinned: bool,
    client_has_tls: bool,
    server_has_tls: bool,
}

impl Policy {
    fn holds(&mut self, step: &Step) {
        let Terms { from_client, to_server, client_is_local, server_is_local, retrieves_key } = self.terms;
        match step {
            Step::AcceptTls => self.client_has_tls = true,
            Step::BeginTls => self.server_has_tls = true,
            Step::Opaque => assert_eq!(from_client, FromClient::Passthrough),
            Step::ToServer(bytes) => {
                let payload = &bytes[packet::HEADER..];
                if from_client == FromClient::Required {
                    assert!(self.client_has_tls || client_is_local, "bytes of a client without TLS");
                }
                if to_server && self.offers && !server_is_local && !self.server_has_tls {
                    assert!(login::is_ssl_request(payload), "in the open: {payload:?}");
                }
            }
            Step::Refuse(wire::bridge::Refusal::KeyInClear, _) => assert!(!retrieves_key && !self.pinned),
            _ => {}
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&terms, rest)) = input.split_first() else { return };
    let Some((&kind, rest)) = rest.split_first() else { return };
    let Some((&length, rest)) = rest.split_first() else { return };
    let (bytes, mut rest) = rest.split_at(usize::from(length).min(rest.len()));
    let greeting = greeting(kind, bytes);
    let from_client = [FromClient::Passthrough, FromClient::Off, FromClient::Preferred, FromClient::Required];
    let pinned = terms & 64 != 0;
    let terms = Terms {
        from_client: from_client[usize::from(terms & 3)],
        to_server: terms & 4 != 0,
        client_is_local: terms & 8 != 0,
        server_is_local: terms & 16 != 0,
        retrieves_key: terms & 32 != 0,
    };
    let (mut bridge, shown) = Bridge::new(terms, &greeting);
    assert!(shown.len() <= greeting.len() + ADDED);
    let offers = Greeting::parse(&greeting).is_ok_and(|g| g.capabilities.contains(Capabilities::SSL));
    let mut policy = Policy { terms, offers, pinned, client_has_tls: false, server_has_tls: false };
    let keys = Marks { pinned };
    // The next sequence ids of client and server: most turns use them, so that more than the first packet is
    // looked at.
    let mut due = [1, 1];
    let mut came = greeting.len();
    while let [kind, length, after @ ..] = rest {
        let (payload, next) = after.split_at(usize::from(*length).min(after.len()));
        rest = next;
        came += payload.len();
        let side = usize::from(kind & 1);
        let sequence = if kind & 2 != 0 { kind >> 2 } else { due[side] };
        let mut steps = match side {
            0 => bridge.client(sequence, payload, &keys),
            _ => bridge.server(sequence, payload, &keys),
        };
        due[side] = sequence.wrapping_add(1);
        if let [Step::Decrypt(sealed)] = steps.as_slice() {
            steps = bridge.decrypted(open(sealed));
        }
        let sent: usize = steps.iter().map(sent).sum();
        assert!(sent <= came + ADDED, "{sent} bytes of {came}");
        for step in &steps {
            policy.holds(step);
            match step {
                Step::ToClient(bytes) => due[0] = bytes[3].wrapping_add(1),
                Step::ToServer(bytes) => due[1] = bytes[3].wrapping_add(1),
                _ => {}
            }
        }
        let over = |step: &Step| matches!(step, Step::Opaque | Step::Open | Step::Denied | Step::Refuse(..));
        if let Some(at) = steps.iter().position(over) {
            assert_eq!(at + 1, steps.len(), "nothing after the end: {steps:?}");
            return;
        }
    }
});

/// A greeting of these bytes, or a sound one with their capabilities: few inputs are a greeting by
/// themselves.
fn greeting(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let plugin = match kind & 3 {
        0 => return bytes.to_vec(),
        1 => "caching_sha2_password",
        2 => "sha256_password",
        _ => "mysql_native_password",
    };
    let tls = if kind & 4 != 0 { Capabilities::SSL } else { Capabilities::default() };
    Greeting {
        version: "9.7.4".to_owned(),
        connection_id: 1,
        nonce: vec![b'n'; 20],
        capabilities: Capabilities::ORDINARY | tls,
        charset: 45,
        status: Status::AUTOCOMMIT,
        auth_plugin: plugin.to_owned(),
    }
    .encode()
}

fn sent(step: &Step) -> usize {
    match step {
        Step::ToClient(bytes) => bytes.len(),
        Step::ToServer(bytes) => bytes.len(),
        _ => 0,
    }
}
