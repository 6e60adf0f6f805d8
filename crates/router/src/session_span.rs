//! The span of a session, in which everything about it is logged: whose it is, where it came in, which server
//! it got. It is entered while the client logs in and where a line is written, and never for a query.
//!
//! At its end it says why, for whoever collects spans; no line of the log shows that.

use fleet::Address;
use tracing::Span;
use tracing::field::Empty;

/// For a client that came in there; the rest is recorded as soon as it is known.
pub(crate) fn open(id: u64, listener: &Address) -> Span {
    tracing::info_span!(
        "session",
        id,
        client = Empty,
        %listener,
        server = Empty,
        end = Empty,
        error = Empty
    )
}

/// Why a session ended, in its field `end`, or `error` if it failed. Of several the first counts: a refusal
/// comes before the close that it causes.
pub(crate) fn record_end(session: &Span, why: &'static str, failed: bool) {
    session.record(if failed { "error" } else { "end" }, why);
}
