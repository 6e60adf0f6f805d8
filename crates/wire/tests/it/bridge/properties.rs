//! Whatever comes, a bridge does not panic, always says what is next, and keeps to what its terms say about
//! TLS.

use super::script::{GlassKeys, PASSWORD, greeting};
use proptest::prelude::*;
use wire::bridge::{Bridge, FromClient, Step, Terms};
use wire::{Capabilities, Login, login, packet};

fn packets() -> impl Strategy<Value = Vec<(bool, u8, Vec<u8>)>> {
    let first = |capabilities: Capabilities, length: usize| {
        let login = Login { capabilities, user: b"shop", ..Login::default() }.encode();
        Just(login[..length.min(login.len())].to_vec())
    };
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        // Flags with few of them set, so that each combination of the two that matter comes up.
        (0u8..4, prop::collection::vec(any::<u8>(), 0..80)).prop_map(|(flags, rest)| {
            [&[5, [0x80, 0x82, 0x88, 0x8a][usize::from(flags)], 0, 0], rest.as_slice()].concat()
        }),
        first(Capabilities::ORDINARY, 999),
        first(Capabilities::ORDINARY | Capabilities::SSL, 32),
        first(Capabilities::ORDINARY | Capabilities::SSL, 999),
        Just(vec![1, 4]),
        Just(vec![1, 3]),
        Just(vec![2]),
        Just([PASSWORD, &[0]].concat()),
        Just([b"ours:", PASSWORD].concat()),
        Just(b"\xfecaching_sha2_password\0other-nonce-of-twenty\0".to_vec()),
        Just(b"\xfesha256_password\0other-nonce-of-twenty\0".to_vec()),
        Just(b"\x01-----BEGIN PUBLIC KEY-----".to_vec()),
        Just(super::script::ok()),
    ];
    prop::collection::vec((any::<bool>(), 0u8..8, payload), 0..12)
}

fn terms() -> impl Strategy<Value = Terms> {
    let modes = [FromClient::Passthrough, FromClient::Off, FromClient::Preferred, FromClient::Required];
    (0usize..4, any::<[bool; 4]>()).prop_map(move |(from, flags)| {
        let [to_server, client_is_local, server_is_local, retrieves_key] = flags;
        Terms { from_client: modes[from], to_server, client_is_local, server_is_local, retrieves_key }
    })
}

/// What a login may do by its terms, checked step by step.
struct Policy {
    terms: Terms,
    offers: bool,
    client_has_tls: bool,
    server_has_tls: bool,
}

impl Policy {
    fn holds(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let Terms { from_client, to_server, client_is_local, server_is_local, .. } = self.terms;
        match step {
            Step::AcceptTls => self.client_has_tls = true,
            Step::BeginTls => self.server_has_tls = true,
            Step::Opaque => {
                prop_assert_eq!(from_client, FromClient::Passthrough, "only what passes through is not read");
            }
            Step::ToServer(bytes) => {
                let payload = &bytes[packet::HEADER..];
                if from_client == FromClient::Required {
                    prop_assert!(self.client_has_tls || client_is_local, "bytes of a client without TLS");
                }
                if to_server && self.offers && !server_is_local && !self.server_has_tls {
                    prop_assert!(login::is_ssl_request(payload), "the server offers TLS: {:?}", payload);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn no_packets_make_it_panic_or_find_a_way_around_its_terms(
        terms in terms(),
        offers in any::<bool>(),
        pinned in any::<bool>(),
        counts in any::<bool>(),
        said in packets(),
    ) {
        let keys = GlassKeys { pinned };
        let (mut bridge, _) = Bridge::new(terms, &greeting(offers));
        let mut policy = Policy { terms, offers, client_has_tls: false, server_has_tls: false };
        // With `counts` the packets are in sequence, so that more than the first is looked at.
        let mut next = [1, 1];
        for (from_client, sequence, payload) in said {
            let sequence = if counts { next[usize::from(from_client)] } else { sequence };
            let mut steps = match from_client {
                true => bridge.client(sequence, &payload, &keys),
                false => bridge.server(sequence, &payload, &keys),
            };
            next[usize::from(from_client)] = sequence.wrapping_add(1);
            if let [Step::Decrypt(sealed)] = steps.as_slice() {
                steps = bridge.decrypted(keys.open(sealed));
            }
            prop_assert!(!steps.is_empty());
            for step in &steps {
                policy.holds(step)?;
                match step {
                    Step::ToClient(bytes) => next[1] = bytes[3].wrapping_add(1),
                    Step::ToServer(bytes) => next[0] = bytes[3].wrapping_add(1),
                    _ => {}
                }
            }
            if steps.iter().any(|s| matches!(s, Step::Opaque | Step::Open | Step::Denied | Step::Refuse(..))) {
                break;
            }
        }
    }
}
