//! Whatever comes, a bridge does not panic and always says what is next.

use crate::script::{GlassKeys, PASSWORD, greeting};
use proptest::prelude::*;
use wire::bridge::{Bridge, FromClient, Step, Terms};

fn packets() -> impl Strategy<Value = Vec<(bool, u8, Vec<u8>)>> {
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        Just(vec![1, 4]),
        Just(vec![1, 3]),
        Just(vec![2]),
        Just([PASSWORD, &[0]].concat()),
        Just(b"\xfecaching_sha2_password\0other-nonce-of-twenty\0".to_vec()),
        Just(b"\xfesha256_password\0other-nonce-of-twenty\0".to_vec()),
        Just(b"\x01-----BEGIN PUBLIC KEY-----".to_vec()),
        Just(crate::script::ok()),
    ];
    prop::collection::vec((any::<bool>(), 0u8..8, payload), 0..12)
}

proptest! {
    #[test]
    fn no_packets_make_it_panic(
        from in 0usize..4,
        flags in any::<[bool; 4]>(),
        said in packets(),
    ) {
        let modes = [FromClient::Passthrough, FromClient::Off, FromClient::Preferred, FromClient::Required];
        let [to_server, client_is_local, server_is_local, offers] = flags;
        let terms = Terms { from_client: modes[from], to_server, client_is_local, server_is_local };
        let (mut bridge, _) = Bridge::new(terms, &greeting(offers));
        for (from_client, sequence, payload) in said {
            let steps = match from_client {
                true => bridge.client(sequence, &payload, &GlassKeys),
                false => bridge.server(sequence, &payload, &GlassKeys),
            };
            prop_assert!(!steps.is_empty());
            if steps.iter().any(|s| matches!(s, Step::Opaque | Step::Open | Step::Denied | Step::Refuse(..))) {
                break;
            }
        }
    }
}
