//! Sessions that have ended, on their way from the threads of the data plane to the exporter. A layer beside
//! the log sees the span of each session; when it closes, what it held is put into a queue that has a limit.
//! Nothing here waits: what finds no room is counted, and the exporter tells.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Sessions that may wait: at some 400 bytes each, under a megabyte.
const QUEUE: usize = 2048;

/// A session, from its accept to its end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndedSession {
    pub(crate) fields: Fields,
    pub(crate) began: SystemTime,
    /// By a clock that does not jump.
    pub(crate) lasted: Duration,
}

/// What its span holds, under the names that the router gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fields {
    pub(crate) id: u64,
    pub(crate) listener: String,
    pub(crate) client: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) end: Option<End>,
}

/// Why it ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) why: String,
    pub(crate) failed: bool,
}

/// The exporter's end of the queue.
#[derive(Debug)]
pub struct Sessions {
    pub(crate) ended: mpsc::Receiver<EndedSession>,
    /// Found no room.
    lost: Arc<AtomicU64>,
}

impl Sessions {
    /// How many were lost since the last call.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.swap(0, Relaxed)
    }
}

/// A layer for the log's subscriber that collects a share of all sessions, and where they arrive.
pub fn collect<S>(sampled: f64) -> (Box<dyn Layer<S> + Send + Sync>, Sessions)
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    let (queue, ended) = mpsc::channel(QUEUE);
    let lost = Arc::<AtomicU64>::default();
    let layer = Collector { queue, lost: lost.clone(), sampled };
    // Without the hint every line of every level would be looked at.
    let filter = filter_fn(is_session).with_max_level_hint(LevelFilter::INFO);
    (layer.with_filter(filter).boxed(), Sessions { ended, lost })
}

fn is_session(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.name() == "session" && metadata.target().starts_with("router")
}

struct Collector {
    queue: mpsc::Sender<EndedSession>,
    lost: Arc<AtomicU64>,
    sampled: f64,
}

struct OpenSession {
    fields: Fields,
    began: SystemTime,
    since: Instant,
}

impl<S> Layer<S> for Collector
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let chosen = self.sampled >= 1.0 || rand::random::<f64>() < self.sampled;
        let Some(span) = context.span(id).filter(|_| chosen) else { return };
        let mut session =
            OpenSession { fields: Fields::default(), began: SystemTime::now(), since: Instant::now() };
        attributes.record(&mut session.fields);
        span.extensions_mut().insert(session);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(session) = span.extensions_mut().get_mut::<OpenSession>() {
            values.record(&mut session.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(session) = span.extensions_mut().remove::<OpenSession>() else { return };
        let OpenSession { fields, began, since } = session;
        // A health check that left before it got a server is no session.
        if fields.server.is_none() && fields.end.is_none() {
            return;
        }
        let ended = EndedSession { fields, began, lasted: since.elapsed() };
        if self.queue.try_send(ended).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

impl Fields {
    /// Of several ends the first counts.
    fn end(&mut self, why: &str, failed: bool) {
        self.end.get_or_insert_with(|| End { why: why.to_owned(), failed });
    }
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "id" {
            self.id = value;
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "listener" => value.clone_into(&mut self.listener),
            "client" => self.client = Some(value.to_owned()),
            "server" => self.server = Some(value.to_owned()),
            "end" => self.end(value, false),
            "error" => self.end(value, true),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::field::{Empty, display};
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt;

    /// As the router makes it.
    macro_rules! session {
        ($id:expr) => {
            tracing::info_span!(target: "router::session", "session", id = $id, client = Empty,
                listener = %"127.0.0.1:3306", server = Empty, end = Empty, error = Empty)
        };
    }

    fn collected(sampled: f64, run: impl FnOnce()) -> (Vec<EndedSession>, u64) {
        let (layer, mut sessions) = collect::<Registry>(sampled);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), run);
        let lost = sessions.lost();
        (std::iter::from_fn(|| sessions.ended.try_recv().ok()).collect(), lost)
    }

    #[test]
    fn a_session_arrives_when_the_last_that_knows_it_lets_go() {
        let (ended, lost) = collected(1.0, || {
            let session = session!(7u64);
            session.record("client", display("10.0.0.5:999"));
            session.record("server", display("db2"));
            let held = session.clone();
            session.record("error", "server silent");
            session.record("end", "client left");
            drop(session);
            std::thread::sleep(Duration::from_millis(5));
            drop(held);
        });
        let [session] = &ended[..] else { panic!("{ended:?}") };
        let wanted = Fields {
            id: 7,
            listener: "127.0.0.1:3306".to_owned(),
            client: Some("10.0.0.5:999".to_owned()),
            server: Some("db2".to_owned()),
            end: Some(End { why: "server silent".to_owned(), failed: true }),
        };
        assert_eq!((&session.fields, lost), (&wanted, 0), "of several ends the first counts");
        assert!(session.lasted >= Duration::from_millis(5));
    }

    #[test]
    fn what_is_no_session_is_not_collected() {
        let (ended, _) = collected(1.0, || {
            drop(session!(1u64));
            let other = tracing::info_span!(target: "router::session", "other", server = "db2");
            drop(other);
            let foreign = tracing::info_span!(target: "hyper", "session", server = "db2");
            drop(foreign);
            session!(2u64).record("error", "no_server");
        });
        assert_eq!(ended.iter().map(|session| session.fields.id).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn whoever_ends_a_session_never_waits_and_what_finds_no_room_is_counted() {
        let (ended, lost) = collected(1.0, || {
            for id in 0..QUEUE as u64 + 10 {
                session!(id).record("end", "client left");
            }
        });
        assert_eq!((ended.len(), lost), (QUEUE, 10));
    }

    #[test]
    fn a_share_of_sessions_is_a_share() {
        let (ended, _) = collected(0.25, || {
            for id in 0..2000u64 {
                session!(id).record("end", "client left");
            }
        });
        // 500 expected; ten standard deviations.
        assert!((300..700).contains(&ended.len()), "{}", ended.len());
    }
}
