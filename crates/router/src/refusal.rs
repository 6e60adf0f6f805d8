//! Refusal: every way in which a client that came gets no session from us. The same words in metrics, status
//! and log.
//!
//! The log has one line a second at most for each reason at a listener, with how many there were and what the
//! last one was: a storm of clients that may not come must not fill a disk, nor wait for it.

use fleet::{Address, Blame, ServerName};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The shortest time between two lines about one reason.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Why a client got no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
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
    /// It left before it had said anything, as a health check does.
    LeftAtOnce,
}

/// How many clients were refused, by reason.
#[derive(Debug, Default)]
pub(crate) struct RefusalCounts {
    counts: [AtomicU64; RefusalReason::WORDS.len()],
    lines: [Mutex<LogThrottle>; RefusalReason::WORDS.len()],
}

/// One client that was refused, for the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RefusalDetails {
    pub(crate) client: Option<IpAddr>,
    pub(crate) server: Option<ServerName>,
    /// MySQL's number of the error that it got; 0 when it was sent nothing.
    pub(crate) code: u16,
    /// What it was sent, or what happened.
    pub(crate) text: String,
}

/// The lines about one reason.
#[derive(Debug, Default)]
struct LogThrottle {
    /// When the last one was written.
    written: Option<Instant>,
    /// Clients since then, and the last of them.
    waiting: Option<(u64, RefusalDetails)>,
}

/// What to do about one more client.
#[derive(Debug, PartialEq, Eq)]
enum LogDecision {
    /// Write it now.
    Now(RefusalDetails),
    /// Look again at this time.
    At(Instant),
    /// Somebody will look.
    Later,
}

impl RefusalReason {
    /// Whose fault it is, and with that the level of its log line: what an application does wrong is news for
    /// its author, all else for whoever runs the servers or this router.
    pub fn blame(self) -> Blame {
        match self {
            Self::NotAllowed
            | Self::ProxyHeader
            | Self::LoginDeadline
            | Self::BadLogin
            | Self::TlsRequired
            | Self::ClientTls
            | Self::ClientCertificate
            | Self::LeftAtOnce => Blame::Client,
            Self::MaxSessions | Self::MaxConnecting | Self::NoDescriptor => Blame::Config,
            Self::NoServer | Self::ServerTls | Self::ServerFailed => Blame::Server,
        }
    }

    /// Every reason as a label, in the order of the kinds.
    pub const WORDS: [&'static str; 14] = [
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
        "left_at_once",
    ];
}

impl RefusalDetails {
    /// A client that was sent this.
    pub(crate) fn sent(error: &wire::ErrPacket) -> Self {
        Self { code: error.code, text: error.message.clone(), ..Self::default() }
    }

    /// What happened, to a client that was sent nothing.
    pub(crate) fn because(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    /// The same, of a client from there.
    pub(crate) fn from(self, client: Option<IpAddr>) -> Self {
        Self { client, ..self }
    }

    /// The same, with the server that it had been given.
    pub(crate) fn at(self, server: &ServerName) -> Self {
        Self { server: Some(server.clone()), ..self }
    }
}

impl LogThrottle {
    fn add(&mut self, refused: RefusalDetails, now: Instant) -> LogDecision {
        let due = self.written.map(|written| written + LINE_EVERY);
        match (&mut self.waiting, due) {
            (Some((count, last)), _) => {
                *count += 1;
                *last = refused;
                LogDecision::Later
            }
            (None, Some(due)) if now < due => {
                self.waiting = Some((1, refused));
                LogDecision::At(due)
            }
            (None, _) => {
                self.written = Some(now);
                LogDecision::Now(refused)
            }
        }
    }

    fn take(&mut self, now: Instant) -> Option<(u64, RefusalDetails)> {
        let waiting = self.waiting.take()?;
        self.written = Some(now);
        Some(waiting)
    }
}

impl RefusalCounts {
    pub(crate) fn add(&self, why: RefusalReason) {
        self.counts[why as usize].fetch_add(1, Relaxed);
    }

    /// Counts one, and logs it: now, or together with others within a second. On a thread of the data plane.
    pub(crate) fn refuse(self: &Arc<Self>, listener: &Address, why: RefusalReason, refused: RefusalDetails) {
        self.add(why);
        match self.lines(why).add(refused, Instant::now()) {
            LogDecision::Now(refused) => write(listener, why, 1, &refused),
            LogDecision::Later => {}
            LogDecision::At(due) => {
                let (counts, listener) = (self.clone(), listener.clone());
                tokio::spawn(async move {
                    tokio::time::sleep_until(due).await;
                    let taken = counts.lines(why).take(Instant::now());
                    if let Some((count, refused)) = taken {
                        write(&listener, why, count, &refused);
                    }
                });
            }
        }
    }

    fn lines(&self, why: RefusalReason) -> MutexGuard<'_, LogThrottle> {
        self.lines[why as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every reason with its count, those that never came up too.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RefusalReason::WORDS.into_iter().zip(&self.counts).map(|(word, count)| (word, count.load(Relaxed)))
    }
}

/// The words are fixed fields, so that a log can be counted by them.
fn write(listener: &Address, why: RefusalReason, clients: u64, last: &RefusalDetails) {
    let reason = RefusalReason::WORDS[why as usize];
    let client = last.client.map_or_else(|| "(unix socket)".to_owned(), |client| client.to_string());
    let (code, text) = (last.code, last.text.as_str());
    let server = last.server.as_ref().map(tracing::field::display);
    if why.blame() == Blame::Client {
        tracing::info!(%listener, reason, clients, last = %client, server, code, text, "clients refused");
    } else {
        tracing::warn!(%listener, reason, clients, last = %client, server, code, text, "clients refused");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16) -> RefusalDetails {
        RefusalDetails { code, ..RefusalDetails::default() }
    }

    #[test]
    fn the_first_of_a_storm_is_written_at_once_and_the_rest_once_a_second() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut lines = LogThrottle::default();
        assert_eq!(lines.add(refused(1), at(0)), LogDecision::Now(refused(1)));
        assert_eq!(lines.add(refused(2), at(1)), LogDecision::At(at(1000)));
        for n in 3..1000 {
            assert_eq!(lines.add(refused(n), at(u64::from(n))), LogDecision::Later);
        }
        assert_eq!(
            lines.take(at(1000)),
            Some((998, refused(999))),
            "all are counted, and the last one named"
        );
        assert_eq!(lines.take(at(1000)), None);
        assert_eq!(lines.add(refused(7), at(1500)), LogDecision::At(at(2000)));
        assert_eq!(lines.take(at(2000)), Some((1, refused(7))));
        assert_eq!(
            lines.add(refused(8), at(3000)),
            LogDecision::Now(refused(8)),
            "after a pause the first is written at once"
        );
    }

    #[test]
    fn what_an_application_does_wrong_is_logged_as_news_and_all_else_as_a_warning() {
        let level = |why| {
            let levels = std::sync::Arc::new(Mutex::new(Vec::new()));
            let seen = Levels(levels.clone());
            let log = tracing_subscriber::layer::SubscriberExt::with(tracing_subscriber::registry(), seen);
            tracing::subscriber::with_default(log, || {
                write(&Address::tcp("127.0.0.1", 1), why, 1, &refused(1));
            });
            levels.lock().unwrap().clone()
        };
        assert_eq!(level(RefusalReason::BadLogin), [tracing::Level::INFO]);
        assert_eq!(level(RefusalReason::NoServer), [tracing::Level::WARN]);
        assert_eq!(level(RefusalReason::MaxSessions), [tracing::Level::WARN]);
    }

    /// Takes the level of each line.
    struct Levels(std::sync::Arc<Mutex<Vec<tracing::Level>>>);

    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Levels {
        fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
            self.0.lock().unwrap().push(*event.metadata().level());
        }
    }
}
