//! The bridge of a login, fed with packets: recorded ones, written ones, and any.

mod properties;
mod recordings;
mod script;

use script::{Ends, KEY_OF_SERVER, NONCE, PASSWORD, masked, open_side, secret_side};
use wire::Phase;
use wire::bridge::{FromClient, Refusal, Step, Terms};

#[test]
fn a_password_in_the_clear_goes_on_encrypted_with_the_servers_key() {
    let mut ends = Ends::new(FromClient::Required, false);
    ends.client_begins_tls();
    ends.client(&[&ends.login(b"caching_sha2_password", &[7; 32])]);
    ends.server(&[&[1, 4]]);
    assert_eq!(ends.heard_by_client(), [(3, vec![1, 4])], "after SSLRequest (1) and login (2)");
    ends.client(&[&[PASSWORD, &[0]].concat()]);
    assert_eq!(ends.heard_by_server().pop(), Some((3, vec![2])), "the key is asked for");
    ends.server(&[&[&[1], KEY_OF_SERVER].concat()]);
    let sealed = [b"sealed:", masked(&[PASSWORD, &[0]].concat(), NONCE).as_slice()].concat();
    assert_eq!(ends.heard_by_server(), [(5, sealed)]);
    ends.server(&[&script::ok()]);
    assert_eq!(ends.heard_by_client(), [(5, script::ok())]);
    ends.is_open_for("shop");
}

#[test]
fn an_encrypted_password_goes_on_in_the_clear_inside_tls() {
    let mut ends = Ends::new(FromClient::Off, true);
    ends.client(&[&ends.login(b"caching_sha2_password", &[7; 32])]);
    let told = ends.heard_by_server();
    assert_eq!((told[0].0, told[0].1.len()), (1, 32), "a request for TLS first");
    assert_eq!(told[1].0, 2);
    assert!(ends.steps.contains(&Step::BeginTls));
    ends.server(&[&[1, 4]]);
    ends.client(&[&[2]]);
    assert!(ends.heard_by_server().is_empty(), "a server with TLS would take this for the password");
    assert_eq!(ends.heard_by_client().pop(), Some((4, b"\x01our key".to_vec())));
    let sealed = [b"ours:", masked(&[PASSWORD, &[0]].concat(), NONCE).as_slice()].concat();
    ends.client(&[&sealed]);
    assert_eq!(ends.heard_by_server(), [(4, [PASSWORD, &[0]].concat())]);
    ends.server(&[&script::ok()]);
    assert_eq!(ends.heard_by_client(), [(6, script::ok())]);
    assert_eq!(ends.bridge.tracker().phase(), Phase::Idle);
}

#[test]
fn a_switch_of_plugin_brings_the_nonce_that_counts() {
    let mut ends = Ends::new(FromClient::Off, true);
    ends.client(&[&ends.login(b"mysql_native_password", &[7; 20])]);
    ends.server(&[b"\xfecaching_sha2_password\0other-nonce-of-twenty\0"]);
    ends.client(&[&[9; 32]]);
    ends.server(&[&[1, 4]]);
    let sealed = [b"ours:", masked(&[PASSWORD, &[0]].concat(), b"other-nonce-of-twent").as_slice()].concat();
    ends.heard_by_server();
    ends.client(&[&sealed]);
    assert_eq!(ends.heard_by_server()[0].1, [PASSWORD, &[0]].concat());
}

#[test]
fn a_password_sealed_with_another_key_is_refused_in_words() {
    let mut ends = Ends::new(FromClient::Off, true);
    ends.client(&[&ends.login(b"caching_sha2_password", &[7; 32])]);
    ends.server(&[&[1, 4]]);
    ends.client(&[&[5; 256]]);
    assert_eq!(ends.steps.pop(), Some(Step::Refuse(Refusal::OtherKey, 4)));
}

#[test]
fn sha256_password_is_asked_anew_by_the_server_in_the_form_of_its_transport() {
    let mut ends = Ends::new(FromClient::Preferred, false);
    ends.client_begins_tls();
    ends.client(&[&ends.login(b"sha256_password", &[PASSWORD, &[0]].concat())]);
    let (_, login) = ends.heard_by_server().pop().unwrap();
    assert!(!login.windows(PASSWORD.len()).any(|w| w == PASSWORD), "the password does not go on in the open");
    ends.server(&[b"\xfesha256_password\0nonce-nonce-nonce-no\0"]);
    ends.client(&[&[PASSWORD, &[0]].concat()]);
    assert_eq!(ends.heard_by_server().pop().unwrap().1, [1], "its key is asked for");
    ends.server(&[&[&[1], KEY_OF_SERVER].concat()]);
    assert!(ends.heard_by_server()[0].1.starts_with(b"sealed:"));
}

#[test]
fn a_plugin_that_sends_the_password_as_it_is_gets_no_open_way() {
    for plugin in ["mysql_clear_password", "dialog", "authentication_openid_connect_client"] {
        let mut ends = Ends::new(FromClient::Required, false);
        ends.client_begins_tls();
        ends.client(&[&ends.login(b"caching_sha2_password", &[7; 32])]);
        ends.heard_by_client();
        ends.server(&[&[b"\xfe", plugin.as_bytes(), b"\0"].concat()]);
        assert!(ends.heard_by_client().is_empty(), "{plugin}: the client is not even asked");
        assert_eq!(ends.steps.pop(), Some(Step::Refuse(Refusal::WouldLeak, 3)));
    }
}

#[test]
fn what_the_listener_demands_is_asked_of_the_client() {
    let mut ends = Ends::new(FromClient::Required, true);
    ends.client(&[&ends.login(b"caching_sha2_password", &[7; 32])]);
    assert_eq!(ends.steps.pop(), Some(Step::Refuse(Refusal::TlsRequired, 2)));

    let mut ends = Ends::new(FromClient::Off, false);
    let request = ends.request_for_tls();
    ends.client(&[&request]);
    assert!(matches!(ends.steps.pop(), Some(Step::Refuse(Refusal::BadHandshake { .. }, 2))));

    let mut ends = Ends::new(FromClient::Passthrough, true);
    let request = ends.request_for_tls();
    ends.client(&[&request]);
    assert_eq!(ends.heard_by_server(), [(1, request)], "as it came");
    assert_eq!(ends.steps.pop(), Some(Step::Opaque));
    assert!(matches!(ends.bridge.tracker().phase(), Phase::Opaque(_)));
}

#[test]
fn what_cannot_be_read_reaches_no_server_where_anything_is_asked_of_tls() {
    for mode in [FromClient::Required, FromClient::Preferred, FromClient::Off, FromClient::Passthrough] {
        // A login of the protocol before 4.1, which MariaDB takes; two bytes; nothing at all.
        for payload in [&b"\x05\x80\0\0\x01app\0\0"[..], b"\x01\x02", b""] {
            let mut ends = Ends::new(mode, true);
            ends.client(&[payload]);
            assert!(ends.heard_by_server().is_empty(), "{mode:?} {payload:?}");
            assert!(
                matches!(ends.steps.pop(), Some(Step::Refuse(Refusal::BadHandshake { .. }, 2))),
                "{mode:?}"
            );
        }
    }
    let mut ends = Ends::new(FromClient::Passthrough, false);
    ends.client(&[b"\x05\x80\0\0\x01app\0\0"]);
    assert_eq!(ends.heard_by_server().len(), 1, "plain passthrough: it is the server's to judge");
    assert_eq!(ends.steps.pop(), Some(Step::Opaque));
}

#[test]
fn a_login_in_the_open_with_the_flag_of_tls_is_no_request_for_tls() {
    let mut ends = Ends::new(FromClient::Passthrough, true);
    let mut login = ends.login(b"mysql_native_password", &[7; 20]);
    login[1] |= 8;
    ends.client(&[&login]);
    assert!(ends.heard_by_server().is_empty());
    let mut ends = Ends::with_offer(FromClient::Passthrough, true, false);
    let request = ends.request_for_tls();
    ends.client(&[&request]);
    assert!(ends.heard_by_server().is_empty(), "a server that offers none");
}

#[test]
fn no_key_is_fetched_in_clear_for_a_client_with_tls_unless_that_is_allowed() {
    let terms = Terms { retrieves_key: false, ..script::terms(FromClient::Required, false) };
    for plugin in [&b"caching_sha2_password"[..], b"sha256_password"] {
        for pinned in [false, true] {
            let mut ends = Ends::by(terms, true);
            ends.keys.pinned = pinned;
            ends.client_begins_tls();
            ends.client(&[&ends.login(plugin, &[7; 32])]);
            ends.heard_by_server();
            match plugin {
                b"sha256_password" => ends.server(&[b"\xfesha256_password\0nonce-nonce-nonce-no\0"]),
                _ => ends.server(&[&[1, 4]]),
            }
            ends.client(&[&[PASSWORD, &[0]].concat()]);
            let heard = ends.heard_by_server();
            if pinned {
                assert_eq!(heard.len(), 1);
                assert!(
                    heard[0].1.starts_with(b"sealed:"),
                    "with the key that we were given, and none was asked for"
                );
            } else {
                assert!(heard.is_empty(), "neither a question for a key nor a password");
                let Some(Step::Refuse(why, _)) = ends.steps.pop() else { panic!("refused") };
                assert_eq!((why, why.code().0), (Refusal::KeyInClear, 3159));
                assert!(why.to_string().contains("allow_public_key_retrieval"), "{why}");
            }
        }
    }
}

#[test]
fn the_greeting_offers_tls_as_the_listener_does() {
    for (from_client, server_offers, shown) in [
        (FromClient::Passthrough, true, true),
        (FromClient::Passthrough, false, false),
        (FromClient::Off, true, false),
        (FromClient::Preferred, false, true),
        (FromClient::Required, false, true),
    ] {
        assert_eq!(script::shows_tls(from_client, server_offers), shown, "{from_client:?} {server_offers}");
    }
}

#[test]
fn compression_hides_no_change_of_user_that_could_give_a_password_away() {
    use FromClient::{Off, Passthrough, Preferred, Required};
    for (from_client, to_server, server_offers, shown) in [
        (Required, false, true, false),
        (Preferred, false, true, false),
        (Required, true, false, false),
        (Required, true, true, true),
        (Off, false, true, true),
        (Passthrough, false, true, true),
    ] {
        let terms = script::terms(from_client, to_server);
        assert_eq!(
            script::shows_compression(terms, server_offers),
            shown,
            "{from_client:?} {to_server} {server_offers}"
        );
    }
    let of_a_socket = Terms { client_is_local: true, ..script::terms(Off, false) };
    assert!(!script::shows_compression(of_a_socket, true));
    assert!(script::shows_compression(Terms { server_is_local: true, ..of_a_socket }, true));

    let mut ends = Ends::new(Required, false);
    ends.client_begins_tls();
    let mut login = ends.login(b"mysql_native_password", &[7; 20]);
    login[0] |= 1 << 5;
    ends.client(&[&login]);
    let (_, onward) = ends.heard_by_server().pop().unwrap();
    assert_eq!(onward[0] & (1 << 5), 0, "nor does one that asks without an offer get it");
}

#[test]
fn a_server_that_offers_no_tls_gets_none_even_where_it_is_wanted() {
    let mut ends = Ends::with_offer(FromClient::Off, true, false);
    ends.client(&[&ends.login(b"caching_sha2_password", &[7; 32])]);
    assert_eq!(ends.heard_by_server().len(), 1);
    assert!(!ends.steps.contains(&Step::BeginTls) && !ends.bridge.translates());
}

#[test]
fn a_refusal_of_the_server_reaches_the_client_with_the_clients_count() {
    let mut ends = Ends::new(FromClient::Required, false);
    ends.client_begins_tls();
    ends.client(&[&ends.login(b"caching_sha2_password", &[7; 32])]);
    ends.server(&[b"\xff\x15\x04#28000Access denied"]);
    assert_eq!(ends.heard_by_client(), [(3, b"\xff\x15\x04#28000Access denied".to_vec())]);
    assert_eq!(ends.steps.pop(), Some(Step::Denied));
}

#[test]
fn the_sides_of_a_unix_socket_count_as_secret() {
    assert!(open_side().translates_with(secret_side()) && !open_side().translates_with(open_side()));
}

/// A session of `shop` whose client has sent a change of user.
fn asked_to_become_another() -> Ends {
    let mut ends = Ends::new(FromClient::Required, false);
    ends.client_begins_tls();
    ends.client(&[&ends.login(b"caching_sha2_password", &[7; 32])]);
    ends.server(&[&script::ok()]);
    let mut tracker = ends.bridge.take_tracker();
    tracker.client_bytes(&script::framed(0, b"\x11other\0\0\0\x2d\0caching_sha2_password\0"));
    ends.restart(tracker);
    ends
}

#[test]
fn a_change_of_user_asks_for_the_password_again() {
    let mut ends = asked_to_become_another();
    ends.server(&[b"\xfecaching_sha2_password\0other-nonce-of-twenty\0"]);
    assert_eq!(ends.heard_by_client()[0].0, 1);
    ends.client(&[&[9; 32]]);
    ends.server(&[&[1, 4]]);
    ends.client(&[&[PASSWORD, &[0]].concat()]);
    assert_eq!(ends.heard_by_server().pop().unwrap().1, [2]);
    ends.server(&[&[&[1], KEY_OF_SERVER].concat()]);
    ends.server(&[&script::ok()]);
    ends.is_open_for("other");
}

#[test]
fn a_change_of_user_that_is_refused_leaves_the_session_as_it_was() {
    let mut ends = asked_to_become_another();
    assert!(ends.bridge.tracker().changes_user());
    ends.server(&[b"\xff\x15\x04#28000Access denied"]);
    assert_eq!(ends.steps.pop(), Some(Step::Open));
    let tracker = ends.bridge.tracker();
    assert_eq!((tracker.phase(), tracker.user()), (Phase::Idle, Some("shop")));
    assert!(!tracker.changes_user());
}
