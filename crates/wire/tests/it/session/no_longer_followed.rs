//! The tracker against scripted sessions that it cannot follow, or that end: each says why.

use super::script::{IDLE, PLAIN, Script, framed, greeting, login, ok};
use wire::tracker::{ClosedBecause, LostBecause, OpaqueBecause, Side};
use wire::{Capabilities, ErrPacket, Phase, Tracker};

#[test]
fn a_flood_of_commands_sent_ahead_is_refused_to_be_followed() {
    let mut s = Script::new(PLAIN);
    for _ in 0..2000 {
        s.command(b"\x0e");
    }
    assert_eq!(s.tracker.phase(), Phase::Lost(LostBecause::TooManyCommands { limit: 1024 }));
}

#[test]
fn what_cannot_be_read_is_opaque_with_its_reason() {
    let phase = |offered: Capabilities, client: &[u8], answer: &[u8]| {
        let mut tracker = Tracker::new();
        tracker.server_bytes(&greeting(offered));
        tracker.client_bytes(client);
        tracker.server_bytes(answer);
        tracker.client_bytes(&[0x16, 3, 1, 2, 0, 1, 0]);
        tracker.phase()
    };
    let tls = PLAIN | Capabilities::SSL;
    let request = framed(1, &login(tls)[4..36]);
    assert_eq!(phase(tls, &request, b""), Phase::Opaque(OpaqueBecause::Tls));
    assert_eq!(
        phase(PLAIN, &framed(1, &[5, 0, 0, 0, 1, b'u', 0]), b""),
        Phase::Opaque(OpaqueBecause::OldProtocol)
    );
    let login_ok = framed(2, &ok(IDLE).encode(PLAIN));
    for flag in [Capabilities::COMPRESS, Capabilities::ZSTD_COMPRESSION] {
        let both = PLAIN | flag;
        assert_eq!(phase(both, &login(both), &login_ok), Phase::Opaque(OpaqueBecause::Compression));
        assert_ne!(phase(PLAIN, &login(both), &login_ok), Phase::Opaque(OpaqueBecause::Compression));
    }
    let mut old_server = Tracker::new();
    old_server.server_bytes(&framed(0, b"\x093.23\0"));
    assert_eq!(old_server.phase(), Phase::Opaque(OpaqueBecause::OldProtocol));
}

#[test]
fn a_server_that_leaves_says_why() {
    let mut refused = Tracker::new();
    refused.server_bytes(&ErrPacket::new(1040, b"08004", "Too many connections").before_greeting());
    assert_eq!(refused.phase(), Phase::Closing(ClosedBecause::Refused(1040)));

    let mut s = Script::new(PLAIN);
    s.sequence = 0;
    s.error(4031);
    assert_eq!(s.tracker.phase(), Phase::Closing(ClosedBecause::ServerLeft(4031)));

    let mut s = Script::new(PLAIN);
    s.command(b"\x01");
    assert_eq!(s.tracker.phase(), Phase::Closing(ClosedBecause::ClientQuit));
}

#[test]
fn what_makes_no_sense_loses_the_session_with_its_reason() {
    let lost = |f: &dyn Fn(&mut Script)| {
        let mut s = Script::new(PLAIN);
        f(&mut s);
        assert!(!s.tracker.is_idle());
        match s.tracker.phase() {
            Phase::Lost(because) => because,
            other => panic!("{other:?}"),
        }
    };
    let unexpected = |first| LostBecause::Unexpected { side: Side::Server, first };
    assert_eq!(lost(&|s| s.server(&[0, 0, 0, 2, 0, 0, 0])), unexpected(0));
    assert_eq!(
        lost(&|s| {
            s.query("SELECT 1");
            s.sequence = 5;
            s.ok(IDLE);
        }),
        LostBecause::OutOfSequence { side: Side::Server, expected: 1, got: 5 }
    );
    assert_eq!(
        lost(&|s| {
            s.sequence = 1;
            s.client(b"\x03SELECT 1");
        }),
        LostBecause::OutOfSequence { side: Side::Client, expected: 0, got: 1 }
    );
    assert_eq!(
        lost(&|s| {
            s.command(b"\x0e");
            s.server(b"\x05rows?");
        }),
        unexpected(5)
    );
    assert_eq!(
        lost(&|s| {
            s.query("SELECT 1");
            s.server(&[0, 0]);
        }),
        LostBecause::Malformed { packet: "OK" }
    );
}
