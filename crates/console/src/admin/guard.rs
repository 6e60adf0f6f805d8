//! What keeps a web page from elsewhere, shown by a browser of this machine or of the operator's, from
//! reading us.
//!
//! A page may let its own name resolve to our address and then is "the same origin". Then `Host` carries that
//! name: so only addresses, `localhost` and the names that the operator wrote (`[admin] names`) are answered,
//! on an open address too. Browsers always send `Host`. Health checks by HTTP/1.0 need not (HAProxy's `option
//! httpchk` does not), and are answered.

use super::Live;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;

/// Refuses names that are not the router's own.
pub(super) async fn own_names(State(live): State<Arc<dyn Live>>, request: Request, next: Next) -> Response {
    if !answers_to(request.headers(), &live.access().names) {
        return refuse_name();
    }
    next.run(request).await
}

/// Whether a request is for an address, for `localhost`, for one of these names, or names nobody.
pub fn answers_to(headers: &HeaderMap, names: &[String]) -> bool {
    let Some(host) = headers.get(header::HOST) else { return true };
    is_ours(host.to_str().unwrap_or_default(), names)
}

/// The answer to any other.
pub fn refuse_name() -> Response {
    let text = "this address answers to its number, to localhost and to the names that its configuration gives \
                ([admin] names = [\"...\"])\n";
    (StatusCode::MISDIRECTED_REQUEST, text).into_response()
}

fn is_ours(host: &str, names: &[String]) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((ipv6, _)) => ipv6,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_written_names_are_ours_and_others_are_not() {
        let names = ["db-host.example".to_owned()];
        for ours in [
            "127.0.0.1:9306",
            "localhost",
            "LOCALHOST:9306",
            "[::1]:9306",
            "127.0.0.1",
            "DB-Host.example:9306",
        ] {
            assert!(is_ours(ours, &names), "{ours}");
        }
        for foreign in
            ["evil.example:9306", "", "127.0.0.1.evil.example", "[evil]:9306", "db-host.example.evil.example"]
        {
            assert!(!is_ours(foreign, &names), "{foreign}");
        }
    }
}
