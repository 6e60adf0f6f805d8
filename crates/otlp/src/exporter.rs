//! The tasks that send: one for the metrics, at each interval, and one for spans, a batch at a time. Both run
//! beside the data plane, never in it, and end with what is left, within a time that the caller sets.

use crate::client::Signal;
use crate::error::OtlpError;
use crate::exposition;
use crate::metrics::{self, Times};
use crate::pace::Pace;
use crate::proto::collector::metrics::v1::ExportMetricsServiceResponse;
use crate::proto::collector::trace::v1::ExportTraceServiceResponse;
use crate::resource::Resource;
use crate::retry;
use crate::sessions::{EndedSession, Sessions};
use crate::settings::Settings;
use crate::span::{self, Names};
use hyper::body::Bytes;
use prost::Message;
use std::pin::{Pin, pin};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Spans in one message at most, and how long the first of them waits for more: the specification's own.
const BATCH: usize = 512;
const WAIT: Duration = Duration::from_secs(5);
/// A batch is tried again for this long; what ends meanwhile waits in the queue, as far as there is room.
const PATIENCE: Duration = Duration::from_secs(300);
/// Of what a collector writes, this much is logged.
const LONGEST: usize = 200;

/// Something that is still to come.
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What is sent, and whose it is.
pub struct Source {
    pub resource: Resource,
    /// Counters count since then.
    pub started: SystemTime,
    /// What `/metrics` says now; nothing where there is nothing to say any more.
    pub exposition: Box<dyn Fn() -> Pending<Option<String>> + Send + Sync>,
    /// The servers and listeners that sessions name.
    pub names: Box<dyn Fn() -> Names + Send + Sync>,
    /// Over when another process says the metrics in place of this one.
    pub superseded: Pending<()>,
}

/// The tasks; dropped, they end at once.
pub struct Exporter {
    stop: CancellationToken,
    tasks: Vec<AbortOnDropHandle<()>>,
}

impl Exporter {
    /// Begins to send.
    pub fn start(settings: Settings, source: Source, sessions: Option<Sessions>) -> Self {
        let Source { resource, started, exposition, names, superseded } = source;
        let Settings { metrics, traces, interval, sampled, .. } = settings;
        let stop = CancellationToken::new();
        let mut tasks = Vec::new();
        if let Some(signal) = metrics {
            announce(&signal, "metrics");
            tracing::info!(to = %signal.address(), interval_s = interval.as_secs_f64(), "metrics are sent by OTLP");
            let metrics = MetricsTask {
                signal,
                interval,
                resource: resource.clone(),
                started,
                exposition,
                failures: 0,
                failed: Pace::default(),
                refused: Pace::default(),
            };
            tasks.push(AbortOnDropHandle::new(tokio::spawn(metrics.run(superseded, stop.clone()))));
        }
        if let (Some(signal), Some(sessions)) = (traces, sessions) {
            announce(&signal, "spans");
            tracing::info!(to = %signal.address(), share = sampled, "spans of sessions are sent by OTLP");
            let spans = SpansTask {
                signal,
                resource,
                names,
                sessions,
                stop: stop.clone(),
                failed: Pace::default(),
                refused: Pace::default(),
                dropped: Pace::default(),
            };
            tasks.push(AbortOnDropHandle::new(tokio::spawn(spans.run())));
        }
        Self { stop, tasks }
    }

    /// Sends the last values and what waits, for no longer than this.
    pub async fn stop(self, within: Duration) {
        self.stop.cancel();
        let ended = async {
            for task in self.tasks {
                // One that has panicked has nothing left.
                let _ = task.await;
            }
        };
        if timeout(within, ended).await.is_err() {
            tracing::warn!(
                "OTLP: the last metrics and spans did not arrive within {} s",
                within.as_secs_f64()
            );
        }
    }
}

fn announce(signal: &Signal, what: &str) {
    if signal.shows_headers() {
        tracing::warn!(
            to = %signal.address(),
            "the headers of OTLP's {what}, which may hold a secret, go there unencrypted; use https"
        );
    }
}

struct MetricsTask {
    signal: Signal,
    interval: Duration,
    resource: Resource,
    started: SystemTime,
    exposition: Box<dyn Fn() -> Pending<Option<String>> + Send + Sync>,
    /// In a row.
    failures: u32,
    failed: Pace,
    refused: Pace,
}

impl MetricsTask {
    /// Until another process says them or this one ends; then once more.
    async fn run(mut self, superseded: Pending<()>, stop: CancellationToken) {
        let over = async {
            tokio::select! {
                () = superseded => {}
                () = stop.cancelled() => {}
            }
        };
        let mut over = pin!(over);
        let mut next = Instant::now() + self.interval;
        loop {
            let last = tokio::select! {
                biased;
                () = &mut over => true,
                () = sleep_until(next) => false,
            };
            let began = Instant::now();
            let outcome = tokio::select! {
                outcome = self.export() => outcome,
                // What a collector leaves unanswered does not stand in the way of the last values.
                () = stop.cancelled(), if !last => continue,
            };
            let pause = self.note(outcome);
            if last {
                return;
            }
            next = began + pause;
        }
    }

    async fn export(&self) -> Result<Bytes, OtlpError> {
        let text = (self.exposition)().await.ok_or(OtlpError::NoExposition)?;
        let times = Times::new(self.started, SystemTime::now());
        let message = metrics::message(&exposition::parse(&text)?, &self.resource, times);
        self.signal.export(&message).await
    }

    /// Logs how it went; when to begin the next.
    fn note(&mut self, outcome: Result<Bytes, OtlpError>) -> Duration {
        let failed = match outcome {
            Ok(answer) => {
                self.failures = 0;
                if self.failed.over() {
                    tracing::info!(to = %self.signal.address(), "metrics arrive again by OTLP");
                }
                let answer = ExportMetricsServiceResponse::decode(answer).unwrap_or_default();
                if let Some(part) = answer.partial_success.filter(|part| part.rejected_data_points > 0) {
                    let points = part.rejected_data_points.unsigned_abs();
                    refuses(&mut self.refused, points, "points of metrics", &part.error_message);
                }
                None
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                if let Some(times) = self.failed.add(1, Instant::now().into_std()) {
                    tracing::warn!(times, blame = %error.blame(), "metrics did not arrive by OTLP: {error}");
                }
                Some(error)
            }
        };
        retry::next_metrics(failed.as_ref(), self.failures, self.interval, rand::random())
    }
}

struct SpansTask {
    signal: Signal,
    resource: Resource,
    names: Box<dyn Fn() -> Names + Send + Sync>,
    sessions: Sessions,
    stop: CancellationToken,
    failed: Pace,
    refused: Pace,
    dropped: Pace,
}

impl SpansTask {
    async fn run(mut self) {
        loop {
            let batch = batch(&mut self.sessions.ended, WAIT, &self.stop).await;
            let lost = self.sessions.lost();
            self.lose(lost);
            if batch.is_empty() {
                return;
            }
            self.send(&batch).await;
        }
    }

    /// Until they have arrived, or cannot, or for as long as patience lasts.
    async fn send(&mut self, batch: &[EndedSession]) {
        let message = span::message(batch, &self.resource, &(self.names)());
        let (began, mut failures) = (Instant::now(), 0);
        loop {
            let error = match self.signal.export(&message).await {
                Ok(answer) => return self.arrived(answer),
                Err(error) => error,
            };
            failures += 1;
            if let Some(times) = self.failed.add(1, Instant::now().into_std()) {
                tracing::warn!(times, blame = %error.blame(), "spans did not arrive by OTLP: {error}");
            }
            let pause = retry::pause(&error, failures, rand::random());
            let again =
                pause.filter(|pause| began.elapsed() + *pause < PATIENCE && !self.stop.is_cancelled());
            let Some(pause) = again else { return self.lose(batch.len() as u64) };
            tokio::select! {
                () = sleep(pause) => {}
                // Once more, and no later.
                () = self.stop.cancelled() => {}
            }
        }
    }

    fn arrived(&mut self, answer: Bytes) {
        if self.failed.over() {
            tracing::info!(to = %self.signal.address(), "spans arrive again by OTLP");
        }
        let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
        if let Some(part) = answer.partial_success.filter(|part| part.rejected_spans > 0) {
            refuses(&mut self.refused, part.rejected_spans.unsigned_abs(), "spans", &part.error_message);
        }
    }

    fn lose(&mut self, spans: u64) {
        if let Some(spans) = self.dropped.add(spans, Instant::now().into_std()) {
            let why = "the collector does not take them, or not as fast as sessions end";
            tracing::warn!(spans, "spans of sessions were dropped: {why}");
        }
    }
}

/// The next sessions that are sent together; none when there will be no more. The first of them waits this
/// long for others.
async fn batch(
    ended: &mut Receiver<EndedSession>,
    wait: Duration,
    stop: &CancellationToken,
) -> Vec<EndedSession> {
    let mut batch = Vec::new();
    tokio::select! {
        biased;
        _ = ended.recv_many(&mut batch, BATCH) => {}
        () = stop.cancelled() => return batch,
    }
    let full = async {
        while (1..BATCH).contains(&batch.len()) {
            let room = BATCH - batch.len();
            if ended.recv_many(&mut batch, room).await == 0 {
                return;
            }
        }
    };
    tokio::select! {
        () = full => {}
        () = sleep(wait) => {}
        () = stop.cancelled() => {}
    }
    batch
}

/// The collector took the message and not all of what is in it.
fn refuses(pace: &mut Pace, count: u64, what: &str, because: &str) {
    if let Some(count) = pace.add(count, Instant::now().into_std()) {
        let because: String = because.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
        tracing::warn!(count, "the collector refuses {what} that came by OTLP: {because}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::Fields;
    use tokio::sync::mpsc;

    fn ended(id: u64) -> EndedSession {
        let fields = Fields { id, ..Fields::default() };
        EndedSession { fields, began: SystemTime::now(), lasted: Duration::ZERO }
    }

    #[tokio::test]
    async fn the_first_of_a_batch_waits_for_more_and_a_full_one_does_not() {
        let (queue, mut sessions) = mpsc::channel(2048);
        let (wait, stop) = (Duration::from_secs(1), CancellationToken::new());
        let begun = Instant::now();
        queue.try_send(ended(1)).unwrap();
        let sending = queue.clone();
        tokio::spawn(async move {
            sleep(wait / 4).await;
            sending.try_send(ended(2)).unwrap();
        });
        assert_eq!(batch(&mut sessions, wait, &stop).await.len(), 2);
        assert!(begun.elapsed() >= wait);
        for id in 0..BATCH as u64 + 1 {
            queue.try_send(ended(id)).unwrap();
        }
        let for_ever = Duration::from_secs(3600);
        assert_eq!(batch(&mut sessions, for_ever, &stop).await.len(), BATCH);
    }

    #[tokio::test]
    async fn at_the_end_what_waits_is_taken_and_nothing_is_waited_for() {
        let (queue, mut sessions) = mpsc::channel(2048);
        let (for_ever, stop) = (Duration::from_secs(3600), CancellationToken::new());
        stop.cancel();
        for id in 0..BATCH as u64 + 1 {
            queue.try_send(ended(id)).unwrap();
        }
        for size in [BATCH, 1, 0] {
            assert_eq!(batch(&mut sessions, for_ever, &stop).await.len(), size);
        }
    }
}
