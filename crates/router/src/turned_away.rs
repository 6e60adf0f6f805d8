//! Turned away: every way in which a client that came gets no session from us. The same words in metrics and status.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a client got no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnedAway {
    /// Its address is not among those that may come.
    NotAllowed,
    /// It came from a proxy that did not tell who it is.
    ProxyHeader,
    /// The listener has as many sessions as it may have.
    MaxSessions,
    /// As many clients as may are logging in.
    MaxConnecting,
    /// This host had no file descriptor or port left for it.
    NoDescriptor,
    /// No server could take it in time.
    NoServer,
    /// It was not logged in within the deadline.
    LoginDeadline,
    /// It sent something else than a login, or a password that cannot be passed on.
    BadLogin,
    /// It came without TLS, which is demanded.
    TlsRequired,
    /// Its TLS did not come about.
    ClientTls,
    /// It has shown no certificate where one is demanded, or a wrong one.
    ClientCertificate,
    /// TLS with the server did not come about.
    ServerTls,
    /// The server broke off during the login.
    ServerFailed,
}

/// How many clients were turned away, by reason.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicU64; TurnedAway::WORDS.len()]);

impl TurnedAway {
    /// Every reason as a label, in the order of the kinds.
    pub const WORDS: [&'static str; 13] = [
        "not_allowed",
        "proxy_header",
        "max_sessions",
        "max_connecting",
        "no_descriptor",
        "no_server",
        "login_deadline",
        "bad_login",
        "tls_required",
        "client_tls",
        "client_certificate",
        "server_tls",
        "server_failed",
    ];
}

impl Counts {
    pub(crate) fn add(&self, why: TurnedAway) {
        self.0[why as usize].fetch_add(1, Relaxed);
    }

    /// Every reason with its count, those that never came up too.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        TurnedAway::WORDS.into_iter().zip(&self.0).map(|(word, count)| (word, count.load(Relaxed)))
    }
}
