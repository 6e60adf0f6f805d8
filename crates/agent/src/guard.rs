//! Who may read an agent: everybody of this machine on loopback, beyond it whoever brings the token, over
//! TLS.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{AppendHeaders, IntoResponse, Response};
use console::token::Token;
use std::net::SocketAddr;
use tokio::sync::watch;

type Tokens = watch::Receiver<Option<Token>>;

/// Whether an agent may answer at `listen` with what it has.
///
/// # Errors
/// What is missing, and how to give it.
pub(crate) fn may_listen(listen: SocketAddr, token: bool, tls: bool) -> Result<(), String> {
    if listen.ip().is_loopback() || (token && tls) {
        return Ok(());
    }
    let mut missing = Vec::new();
    if !token {
        missing.push("a token (--token-file FILE, or HEADROOM_AGENT_TOKEN in the environment)");
    }
    if !tls {
        missing.push("a certificate (--tls-cert FILE and --tls-key FILE)");
    }
    Err(format!(
        "others can reach {listen}, so the agent takes a token and TLS there; what is missing: {}. \
         Or let it answer this machine only: --listen 127.0.0.1:{}",
        missing.join(" and "),
        listen.port()
    ))
}

/// Every request must bring the token, where there is one.
pub(crate) fn guarded(routes: Router, tokens: Tokens) -> Router {
    routes.layer(middleware::from_fn_with_state(tokens, asked_for))
}

async fn asked_for(State(tokens): State<Tokens>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let refused = match &*tokens.borrow() {
        None => None,
        Some(token) => match given {
            Some(given) if token.opens(given) => None,
            Some(_) => Some("this is not the token\n"),
            None => Some("this agent asks for its token: Authorization: Bearer ...\n"),
        },
    };
    match refused {
        // Basic is for browsers, which ask a person for it. A line each: Chromium understands no way where
        // two share a line.
        Some(why) => {
            let ways = ["Basic realm=\"headroom agent\"", "Bearer"];
            let ways = AppendHeaders(ways.map(|way| (header::WWW_AUTHENTICATE, way)));
            (StatusCode::UNAUTHORIZED, ways, why).into_response()
        }
        None => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_it_takes_both_and_says_what_is_missing() {
        let here = "127.0.0.1:9307".parse().unwrap();
        let anywhere = "0.0.0.0:9307".parse().unwrap();
        for (token, tls) in [(false, false), (true, false), (false, true), (true, true)] {
            assert_eq!(may_listen(here, token, tls), Ok(()));
        }
        assert_eq!(may_listen(anywhere, true, true), Ok(()));
        let words = |token, tls| may_listen(anywhere, token, tls).unwrap_err();
        assert!(words(false, true).contains("--token-file") && !words(false, true).contains("--tls-cert"));
        assert!(words(true, false).contains("--tls-cert") && !words(true, false).contains("--token-file"));
        assert!(words(false, false).contains("--listen 127.0.0.1:9307"));
    }
}
