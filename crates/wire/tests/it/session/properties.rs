//! What must hold for any bytes: no panic, no difference by the split, and what is written can be read.

use super::script::{Script, greeting, login};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::response::{Eof, ErrPacket, OkPacket};
use wire::{Capabilities, Greeting, Login, Status, Tracker, packet, read::Reader, write};

/// What can be seen of a tracker.
fn seen(tracker: &Tracker) -> String {
    format!(
        "{:?} idle={} tx={} {:?} {:?} {:?} {:?} {:?} next={}",
        tracker.phase(),
        tracker.is_idle(),
        tracker.in_transaction(),
        tracker.sticky(),
        tracker.progress(),
        tracker.command(),
        tracker.user(),
        tracker.database(),
        tracker.next_sequence(),
    )
}

/// A run of bytes of one side.
type Run = (bool, Vec<u8>);

fn feed(tracker: &mut Tracker, (from_client, bytes): (bool, &[u8])) {
    if from_client {
        tracker.client_bytes(bytes);
    } else {
        tracker.server_bytes(bytes);
    }
}

/// Bytes that often make a packet, with a small length and a low sequence id.
fn packetish() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        vec(any::<u8>(), 0..24),
        Just(vec![0, 0, 0, 2, 0, 0, 0]),
        Just(vec![0xfe, 0, 0, 2, 0]),
        Just(vec![0xff, 0x10, 0x04, b'x']),
        Just(vec![0xfb, b'f']),
        Just(vec![1]),
        Just(vec![2]),
        "[ -~]{0,40}".prop_map(|text| [b"\x03", text.as_bytes()].concat()),
        (0u8..0x22, vec(any::<u8>(), 0..12)).prop_map(|(byte, rest)| [vec![byte], rest].concat()),
        vec(any::<u8>(), 500..1500),
    ];
    (payload, prop_oneof![4 => 0u8..6, 1 => any::<u8>()]).prop_map(|(payload, mut sequence)| {
        let mut out = Vec::new();
        packet::write(&mut out, &mut sequence, &payload);
        out
    })
}

/// Who sends what: with the sequence id that is due, so that the session goes deep, or any bytes.
#[derive(Clone, Debug)]
enum Turn {
    Command(Vec<u8>),
    Client(Vec<u8>),
    Server(Vec<u8>),
    Stray(Run),
}

/// The bytes of turns, sequence ids filled in.
fn sequenced(turns: Vec<Turn>) -> Vec<Run> {
    let mut sequence = 0;
    let mut framed = |payload: &[u8], first| {
        sequence = if first { 0 } else { sequence };
        let mut out = Vec::new();
        packet::write(&mut out, &mut sequence, payload);
        out
    };
    let run = |turn| match turn {
        Turn::Command(payload) => (true, framed(&payload, true)),
        Turn::Client(payload) => (true, framed(&payload, false)),
        Turn::Server(payload) => (false, framed(&payload, false)),
        Turn::Stray(run) => run,
    };
    turns.into_iter().map(run).collect()
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let any_status = prop_oneof![Just(2u8), Just(2 | 8), Just(2 | 64), Just(2 | 128), Just(3), Just(0)];
    prop_oneof![
        3 => any_status.clone().prop_map(|status| vec![0, 0, 0, status, 0, 0, 0]),
        3 => any_status.clone().prop_map(|status| vec![0xfe, 0, 0, status, 0]),
        3 => any_status.prop_map(|status| vec![0xfe, 0, 0, status, 0, 0, 0]),
        1 => Just(vec![0xff, 0x10, 0x04, b'x']),
        1 => Just(vec![0xff, 0xff, 0xff, 1, 1, 1]),
        1 => Just(vec![0xfb, b'f']),
        4 => (0u8..4).prop_map(|columns| vec![columns]),
        3 => Just(vec![3, b'd', b'e', b'f', 0, 0, 0, 1, b'c', 0]),
        2 => (0u8..3, 0u8..3).prop_map(|(columns, parameters)| vec![0, 7, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0]),
        1 => Just(vec![]),
        1 => vec(any::<u8>(), 0..24),
        1 => vec(any::<u8>(), 500..700),
    ]
}

fn command() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![Just("SELECT 1".to_owned()), Just("UNLOCK TABLES".to_owned()), "[ -~]{0,40}"];
    prop_oneof![
        4 => (prop_oneof![Just(3u8), Just(0x16)], text).prop_map(|(byte, text)| [&[byte], text.as_bytes()].concat()),
        2 => prop_oneof![Just(0x17u8), Just(0x19), Just(0x1a), Just(0x1c)].prop_map(|byte| vec![byte, 7, 0, 0, 0, 1, 0, 0, 0]),
        2 => (2u8..0x22, vec(any::<u8>(), 0..12)).prop_map(|(byte, rest)| [vec![byte], rest].concat()),
    ]
}

fn turns() -> impl Strategy<Value = Vec<Run>> {
    let turn = prop_oneof![
        8 => command().prop_map(Turn::Command),
        2 => payload().prop_map(Turn::Client),
        16 => payload().prop_map(Turn::Server),
        1 => (any::<bool>(), packetish()).prop_map(Turn::Stray),
    ];
    vec(turn, 0..40).prop_map(sequenced)
}

fn runs() -> impl Strategy<Value = Vec<Run>> {
    vec((any::<bool>(), prop_oneof![6 => packetish(), 1 => vec(any::<u8>(), 0..40)]), 0..24)
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    let optional = [
        Capabilities::DEPRECATE_EOF,
        Capabilities::SESSION_TRACK,
        Capabilities::QUERY_ATTRIBUTES,
        Capabilities::OPTIONAL_RESULTSET_METADATA,
        Capabilities::CONNECT_ATTRS,
        Capabilities::PLUGIN_AUTH_LENENC_DATA,
    ];
    any::<u8>().prop_map(move |bits| {
        let chosen = optional.iter().enumerate().filter(|(i, _)| bits & (1 << i) != 0);
        chosen.fold(
            Capabilities::ORDINARY
                .difference(Capabilities::CONNECT_ATTRS | Capabilities::PLUGIN_AUTH_LENENC_DATA),
            |all, (_, flag)| all | *flag,
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_never_panic(runs in prop_oneof![turns(), runs()], logged_in in any::<bool>(), capabilities in capabilities()) {
        let mut tracker = if logged_in { Script::new(capabilities).tracker } else { Tracker::new() };
        for (from_client, bytes) in &runs {
            feed(&mut tracker, (*from_client, bytes));
            let progress = tracker.progress();
            prop_assert!(progress.started >= progress.answering);
            prop_assert!(progress.answering >= progress.completed);
            prop_assert!(progress.completed >= progress.failed);
        }
    }

    #[test]
    fn the_split_makes_no_difference(runs in prop_oneof![3 => turns(), 1 => runs()], step in 1usize..40, capabilities in capabilities()) {
        let mut whole = Script::new(capabilities).tracker;
        let mut cut = Script::new(capabilities).tracker;
        for (from_client, bytes) in &runs {
            feed(&mut whole, (*from_client, bytes));
            for piece in bytes.chunks(step) {
                feed(&mut cut, (*from_client, piece));
            }
            prop_assert_eq!(seen(&whole), seen(&cut));
        }
    }

    #[test]
    fn parsers_take_any_bytes(bytes in vec(any::<u8>(), 0..300), capabilities in capabilities()) {
        let _ = Greeting::parse(&bytes);
        let _ = Login::parse(&bytes).map(|login| login.attributes().count());
        let _ = OkPacket::parse(&bytes, capabilities).map(|ok| ok.changes().count());
        let _ = (ErrPacket::parse(&bytes), Eof::parse(&bytes), packet::first(&bytes));
        let mut tracker = Tracker::new();
        tracker.server_bytes(&greeting(capabilities));
        tracker.client_bytes(&login(capabilities));
        tracker.server_bytes(&bytes);
    }

    #[test]
    fn integers_and_strings_come_back(value: u64, bytes in vec(any::<u8>(), 0..400)) {
        let mut out = Vec::new();
        write::lenenc(&mut out, value);
        write::lenenc_bytes(&mut out, &bytes);
        let mut r = Reader::new(&out);
        prop_assert_eq!(r.lenenc(), Some(value));
        prop_assert_eq!(r.lenenc_bytes(), Some(bytes.as_slice()));
        prop_assert!(r.is_empty());
    }

    #[test]
    fn greetings_come_back(
        version in "[0-9]{1,2}\\.[0-9]{1,2}[-a-zA-Z]{0,20}",
        connection_id: u32,
        nonce in vec(1u8.., 20),
        bits: u64,
        charset: u8,
        status: u16,
        auth_plugin in "[a-z_]{0,30}",
    ) {
        let bits = bits & 0x3f_ffff_ffff | (Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION | Capabilities::PLUGIN_AUTH).bits();
        // A side that sets the lowest flag has no extended ones.
        let capabilities = Capabilities::from_bits_retain(if bits & 1 == 1 { bits & 0xffff_ffff } else { bits });
        let greeting = Greeting { version, connection_id, nonce, capabilities, charset, status: Status::from_bits_retain(status), auth_plugin };
        prop_assert_eq!(Greeting::parse(&greeting.encode()), Ok(greeting));
    }

    #[test]
    fn logins_come_back(
        user in vec(1u8.., 0..40),
        auth_response in vec(1u8.., 0..100),
        database in vec(1u8.., 0..40),
        attributes in vec((vec(any::<u8>(), 0..10), vec(any::<u8>(), 0..300)), 0..4),
        capabilities in capabilities(),
    ) {
        let mut raw = Vec::new();
        for (name, value) in &attributes {
            wire::login::push_attribute(&mut raw, name, value);
        }
        let raw_attributes = if capabilities.contains(Capabilities::CONNECT_ATTRS) { raw.as_slice() } else { &[] };
        let login = Login {
            capabilities, max_packet: 7, charset: 45, user: &user, auth_response: &auth_response, database: &database,
            auth_plugin: b"mysql_native_password", raw_attributes,
        };
        let bytes = login.encode();
        prop_assert_eq!(Login::parse(&bytes), Ok(login.clone()));
        if !raw_attributes.is_empty() {
            let found: Vec<_> = login.attributes().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
            prop_assert_eq!(found, attributes);
        }
    }

    #[test]
    fn ok_and_error_packets_come_back(affected_rows: u64, last_insert_id: u64, bits: u16, warnings: u16, info in vec(any::<u8>(), 0..300), changes in vec(any::<u8>(), 0..300), code: u16, message in "[^#].{0,60}", capabilities in capabilities()) {
        let status = Status::from_bits_retain(bits);
        let tracks = capabilities.contains(Capabilities::SESSION_TRACK) && status.contains(Status::SESSION_STATE_CHANGED);
        let raw_changes = if tracks { changes.as_slice() } else { &[] };
        let ok = OkPacket { affected_rows, last_insert_id, status, warnings, info: &info, raw_changes };
        let bytes = ok.encode(capabilities);
        prop_assert_eq!(OkPacket::parse(&bytes, capabilities), Ok(ok));
        let eof = Eof { warnings, status };
        prop_assert_eq!(Eof::parse(&eof.encode()), Ok(eof));
        let err = ErrPacket::new(code, b"42S02", message);
        prop_assert_eq!(ErrPacket::parse(&err.encode(capabilities)), Ok(err));
    }
}
