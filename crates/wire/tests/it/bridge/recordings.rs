//! Recorded sessions through a bridge whose sides are alike: every byte of the login passes as it came.

use super::script::{GlassKeys, terms};
use std::path::PathBuf;
use wire::bridge::{Bridge, FromClient, Step};
use wire::packet;

#[test]
fn every_recorded_login_passes_unchanged_where_nothing_is_to_be_translated() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let mut logins = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let text = std::fs::read_to_string(&path).unwrap();
            logins += usize::from(passes(&text, &path.display().to_string()));
        }
    }
    assert!(logins > 25, "only {logins} recordings have a login");
}

/// Replays up to the end of the login; whether there was one.
fn passes(text: &str, name: &str) -> bool {
    let mut bridge: Option<Bridge> = None;
    for line in text.lines() {
        let Some((side @ ("C" | "S"), hex)) = line.split_once(' ') else { continue };
        let bytes: Vec<u8> =
            (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
        let mut rest = bytes.as_slice();
        while let Some(packet) = packet::first(rest) {
            let raw = &rest[..packet.used];
            rest = &rest[packet.used..];
            let Some(bridge) = &mut bridge else {
                if packet.payload.first() != Some(&10) {
                    return false;
                }
                let (new, shown) = Bridge::new(terms(FromClient::Passthrough, false), packet.payload);
                assert_eq!(shown, raw, "{name}: the greeting");
                bridge = Some(new);
                continue;
            };
            let steps = match side {
                "C" => bridge.client(packet.sequence, packet.payload, &GlassKeys::default()),
                _ => bridge.server(packet.sequence, packet.payload, &GlassKeys::default()),
            };
            match (&steps[0], side) {
                (Step::ToServer(onward), "C") => assert_eq!(onward.as_slice(), raw, "{name}"),
                (Step::ToClient(onward), "S") => assert_eq!(onward, raw, "{name}"),
                (other, _) => panic!("{name}: {other:?} after a packet of {side}"),
            }
            if steps.len() > 1 {
                assert!(matches!(steps[1], Step::Open | Step::Denied | Step::Opaque), "{name}: {steps:?}");
                return true;
            }
        }
    }
    panic!("{name}: the login does not end");
}
