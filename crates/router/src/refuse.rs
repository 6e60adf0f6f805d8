//! Refuse: what a client may see when it gets no session. One function a case; no secrets; bounded length.
//!
//! Refusals are ERR packets in the place of the server's greeting, as servers send them themselves. Why these
//! codes: docs/decisions/0005-what-a-refused-client-sees.md.

use crate::find::FindError;
use crate::hold::Hold;
use crate::pick::NoEligibleServer;
use fleet::{ListenerRole, ServerName};
use std::net::IpAddr;
use std::time::Duration;
use wire::ErrPacket;

/// "Too many connections": the one code that every client library and pool takes for "come back later".
const TOO_MANY: (u16, &[u8; 5]) = (1040, b"08004");
/// "Server shutdown in progress", the one code of servers for "not here, not now": drivers file it under
/// failures of the connection (08S01) and go on to the next address they have.
const NOT_NOW: (u16, &[u8; 5]) = (1053, b"08S01");
/// Clients keep at most 512 bytes of a message.
const LONGEST: usize = 500;

/// The listener has as many sessions as it may have.
pub(crate) fn too_many(limit: usize) -> ErrPacket {
    let text = format!("Too many connections: headroom's listener has {limit} sessions (max_sessions)");
    ErrPacket::new(TOO_MANY.0, TOO_MANY.1, text)
}

/// As many clients as may are logging in at this listener.
pub(crate) fn too_many_connecting(limit: usize) -> ErrPacket {
    let text = format!(
        "Too many connections: {limit} clients are logging in at headroom's listener (max_connecting)"
    );
    ErrPacket::new(TOO_MANY.0, TOO_MANY.1, text)
}

/// Clients from there may not come (ER_HOST_NOT_PRIVILEGED).
pub(crate) fn not_allowed(client: IpAddr) -> ErrPacket {
    let text = format!("Host '{client}' is not allowed to connect to this headroom listener (allow)");
    ErrPacket::new(1130, b"HY000", text)
}

/// A proxy whose word counts did not tell who its client is.
pub(crate) fn no_proxy_header(why: &str) -> ErrPacket {
    let text = format!("Bad handshake: {why}, which proxy_protocol_from demands of this address");
    ErrPacket::new(1043, b"08S01", text)
}

/// The limit of file descriptors leaves no room for another session.
pub(crate) fn no_descriptor(limit: usize) -> ErrPacket {
    let text =
        format!("Too many connections: headroom's file descriptors are for {limit} sessions (ulimit -n)");
    ErrPacket::new(TOO_MANY.0, TOO_MANY.1, text)
}

/// The client was not logged in within the deadline.
pub(crate) fn slow(deadline: Duration) -> ErrPacket {
    let text =
        format!("Got timeout reading communication packets: no login within {} s", deadline.as_secs_f64());
    ErrPacket::new(1159, b"08S01", text)
}

/// The server did not wait for the client any longer.
pub(crate) fn too_slow_for(server: &ServerName, waited: Duration) -> ErrPacket {
    let waited = waited.as_secs_f64();
    let text = format!(
        "Got timeout reading communication packets: no login within {waited:.1} s, and {server} closed the \
         connection (its connect_timeout)"
    );
    ErrPacket::new(1159, b"08S01", bounded(text))
}

/// The login cannot go on.
pub(crate) fn login(why: wire::bridge::Refusal) -> ErrPacket {
    let (code, sqlstate) = why.code();
    ErrPacket::new(code, sqlstate, bounded(format!("headroom: {why}")))
}

/// The client's certificate does not let it in, or it has shown none (ER_ACCESS_DENIED_ERROR).
pub(crate) fn client_certificate(why: &str) -> ErrPacket {
    ErrPacket::new(1045, b"28000", bounded(format!("Access denied by headroom's listener: {why}")))
}

/// The server broke off during the login, after the client had seen its greeting: no other can take over.
pub(crate) fn broke_off(server: &ServerName, why: &str) -> ErrPacket {
    ErrPacket::new(NOT_NOW.0, NOT_NOW.1, bounded(format!("headroom: {server} failed this login: {why}")))
}

/// As many writer sessions as may wait for a primary do so already.
fn too_many_held(limit: usize) -> ErrPacket {
    let text = format!("Too many connections: no primary is known and {limit} sessions already wait for one");
    ErrPacket::new(TOO_MANY.0, TOO_MANY.1, text)
}

/// This host has run out of something; no server is to blame.
pub(crate) fn own_fault(why: &str) -> ErrPacket {
    ErrPacket::new(TOO_MANY.0, TOO_MANY.1, bounded(format!("headroom cannot open another connection: {why}")))
}

/// No server could be found for a session.
pub(crate) fn no_server(role: ListenerRole, error: &FindError) -> ErrPacket {
    match error {
        FindError::NoServer(reasons) => nobody(role, reasons),
        FindError::TooManyHeld => too_many_held(Hold::MOST),
        FindError::OwnHost(why) => own_fault(why),
        // It hears nothing any more.
        FindError::ClientLeft => own_fault("the client has left"),
    }
}

/// No server may be picked: each is named with its reason.
pub(crate) fn nobody(role: ListenerRole, refused: &NoEligibleServer) -> ErrPacket {
    let mut text = match role {
        ListenerRole::Reader => "headroom: no server for reads".to_owned(),
        ListenerRole::Writer => "headroom: no server takes writes".to_owned(),
    };
    if refused.reasons.is_empty() {
        text.push_str(": no server is known yet");
    }
    // Each server gets an equal part of what fits, so that a long reason hides no other server.
    let part = LONGEST.saturating_sub(text.len()) / refused.reasons.len().max(1);
    for (at, (name, why)) in refused.reasons.iter().enumerate() {
        text.push_str(if at == 0 { ": " } else { "; " });
        text.push_str(&cut(&format!("{name}: {why}"), part.saturating_sub(2).max(16)));
    }
    ErrPacket::new(NOT_NOW.0, NOT_NOW.1, bounded(text))
}

fn bounded(text: String) -> String {
    if text.len() <= LONGEST { text } else { cut(&text, LONGEST) }
}

/// At most `most` bytes, cut at a character, with a sign that something is missing.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub(3));
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(n: usize, why: &str) -> NoEligibleServer {
        NoEligibleServer {
            reasons: (0..n).map(|i| (ServerName::new(&format!("r{i}")), why.to_owned())).collect(),
        }
    }

    #[test]
    fn every_server_is_named_with_its_reason() {
        let err = nobody(ListenerRole::Reader, &refused(2, "12.0 s behind"));
        assert_eq!(err.code, 1053);
        assert_eq!(err.message, "headroom: no server for reads: r0: 12.0 s behind; r1: 12.0 s behind");
    }

    #[test]
    fn a_long_reason_hides_no_other_server_and_the_text_stays_bounded() {
        let err = nobody(ListenerRole::Writer, &refused(6, &"é".repeat(400)));
        assert!(err.message.len() <= LONGEST, "{}", err.message.len());
        assert!((0..6).all(|i| err.message.contains(&format!("r{i}: "))), "{}", err.message);
        assert!(nobody(ListenerRole::Writer, &refused(500, "x")).message.len() <= LONGEST);
    }
}
