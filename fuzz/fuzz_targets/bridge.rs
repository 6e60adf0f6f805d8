//! A login across transports: any greeting, then packets of both sides in any order. No panic, an end is an end, and what
//! is sent on is no more than what came and the fixed parts that the bridge adds.
//!
//! The input: a byte of terms, a length and so many bytes of greeting, then turns of a kind, a length and so many bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::bridge::{Bridge, FromClient, Keys, Secret, Step, Terms};

/// What the bridge may add of its own to one turn: a request for TLS, a key, a packet's header.
const ADDED: usize = 4096;

/// Cryptography that only marks what it was given.
struct Marks;

impl Keys for Marks {
    fn public_key(&self) -> &[u8] {
        b"-----BEGIN our key"
    }

    fn open(&self, sealed: &[u8]) -> Option<Secret> {
        sealed.strip_prefix(b"o").map(|plain| Secret::new(plain.to_vec()))
    }

    fn seal(&self, pem: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        pem.starts_with(b"-").then(|| [b"s", plain].concat())
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&terms, rest)) = input.split_first() else { return };
    let Some((&length, rest)) = rest.split_first() else { return };
    let (greeting, mut rest) = rest.split_at(usize::from(length).min(rest.len()));
    let from_client = [FromClient::Passthrough, FromClient::Off, FromClient::Preferred, FromClient::Required];
    let (mut bridge, shown) = Bridge::new(
        Terms {
            from_client: from_client[usize::from(terms & 3)],
            to_server: terms & 4 != 0,
            client_is_local: terms & 8 != 0,
            server_is_local: terms & 16 != 0,
        },
        greeting,
    );
    assert!(shown.len() <= greeting.len() + ADDED);
    let mut came = greeting.len();
    while let [kind, length, after @ ..] = rest {
        let (payload, next) = after.split_at(usize::from(*length).min(after.len()));
        rest = next;
        came += payload.len();
        let steps = match kind & 1 {
            0 => bridge.client(kind >> 1, payload, &Marks),
            _ => bridge.server(kind >> 1, payload, &Marks),
        };
        let sent: usize = steps.iter().map(sent).sum();
        assert!(sent <= came + ADDED, "{sent} bytes of {came}");
        let over = |step: &Step| {
            matches!(step, Step::Opaque | Step::Open | Step::Denied | Step::Refuse(..))
        };
        if let Some(at) = steps.iter().position(over) {
            assert_eq!(at + 1, steps.len(), "nothing after the end: {steps:?}");
            return;
        }
    }
});

fn sent(step: &Step) -> usize {
    match step {
        Step::ToClient(bytes) => bytes.len(),
        Step::ToServer(bytes) => bytes.len(),
        _ => 0,
    }
}
