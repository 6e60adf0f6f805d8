//! What keeps a web page from elsewhere, shown by a browser of this machine, from reading or commanding us.
//!
//! - A page from elsewhere may send a plain form anywhere. It may not add a header of its own nor send JSON without
//!   asking first, which we never grant: so commands need both.
//! - It may let its own name resolve to 127.0.0.1 and then is "the same origin". Then `Host` carries that name: so on
//!   loopback only addresses and `localhost` are answered.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;

/// The header that commands carry.
pub(crate) const HEADER: &str = "x-headroom";

/// Lets a command pass that a program or person sent on purpose.
pub(super) async fn meant_by_a_person(request: Request, next: Next) -> Response {
    if let Err(why) = is_meant(request.headers()) {
        return (StatusCode::FORBIDDEN, format!("{why}; use headroom drain and headroom undrain\n"))
            .into_response();
    }
    next.run(request).await
}

/// Refuses names other than `localhost` on a loopback address; an open address answers to any.
pub(crate) async fn no_foreign_name(State(open): State<bool>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !open && !is_ours(host) {
        let text = "this address answers to its number and to localhost only\n";
        return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
    }
    next.run(request).await
}

fn is_meant(headers: &HeaderMap) -> Result<(), &'static str> {
    if !headers.contains_key(HEADER) {
        return Err("a command needs the header X-Headroom");
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().is_none_or(|kind| kind.trim() != "application/json") {
        return Err("a command needs the content type application/json");
    }
    Ok(())
}

fn is_ours(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((ipv6, _)) => ipv6,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_are_ours_and_other_names_are_not() {
        for ours in ["127.0.0.1:9306", "localhost", "LOCALHOST:9306", "[::1]:9306", "127.0.0.1"] {
            assert!(is_ours(ours), "{ours}");
        }
        for foreign in ["evil.example:9306", "", "127.0.0.1.evil.example", "[evil]:9306"] {
            assert!(!is_ours(foreign), "{foreign}");
        }
    }
}
