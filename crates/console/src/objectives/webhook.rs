//! The webhook: one POST an incident's opening and end, in their order. What fails is tried again with
//! growing pauses for an hour; what waits has a limit. Its address may hold a secret: only scheme, host and
//! port of it are ever shown.

use super::view::WebhookView;
use crate::web::{Web, WebAddress};
use anyhow::{Context, bail};
use config::{PasswordFrom, Webhook};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// A call has this long.
const DEADLINE: Duration = Duration::from_secs(10);
/// The first pause, doubled after each failure up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// After this long a message is given up.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Messages that may wait.
const MOST: usize = 64;
/// Nobody reads the answer.
const LARGEST: usize = 64 << 10;

/// What is sent, as JSON.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Message {
    /// `opened` or `closed`.
    pub(super) event: &'static str,
    /// The same for the opening and the end of an incident.
    pub(super) id: String,
    pub(super) objective: String,
    pub(super) promise: String,
    /// One sentence; the key that chat programs show.
    pub(super) text: String,
    pub(super) pace: &'static str,
    pub(super) worst_burn: f64,
    pub(super) since_unix_s: u64,
    pub(super) lasted_s: f64,
    /// The host of the router that tells.
    pub(super) router: String,
}

/// Somebody who is told.
pub struct WebhookSender {
    web: Arc<Web>,
    from: Webhook,
    give: mpsc::Sender<Message>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    delivered: AtomicU64,
    tried_again: AtomicU64,
    lost: AtomicU64,
    waiting: AtomicU64,
    failed: Mutex<Option<String>>,
}

/// How a call went that is not to be repeated, or why it is.
enum Outcome {
    Delivered,
    Refused(String),
    Failed(String),
}

impl WebhookSender {
    /// Looks the address up, where the file names one in `variable`s of the environment, and stands by.
    ///
    /// # Errors
    /// A file or variable that is not there, an address that is none; nothing of it is shown.
    pub fn start(from: &Webhook, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let (text, place) = match &from.url {
            PasswordFrom::Written(text) => (text.clone(), "[webhook] url".to_owned()),
            PasswordFrom::Environment(name) => {
                let text = variable(name).with_context(|| {
                    format!("[webhook] url_env names the variable {name}, and it is not set; export it")
                })?;
                (text, format!("the variable {name}"))
            }
            PasswordFrom::File(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read [webhook] url_file {}", path.display()))?;
                (text.lines().next().unwrap_or_default().trim().to_owned(), path.display().to_string())
            }
        };
        let url = match WebAddress::parse(&text) {
            Ok(url) => url,
            Err(why) => bail!("{place} holds no address: {why}"),
        };
        let web = Web::new(url, from.ca.as_deref(), DEADLINE, LARGEST).context("[webhook]")?;
        let (give, take) = mpsc::channel(MOST);
        let (web, counts) = (Arc::new(web), Arc::new(Counts::default()));
        tokio::spawn(tell_all(web.clone(), take, counts.clone()));
        Ok(Self { web, from: from.clone(), give, counts })
    }

    /// What makes two of them the same.
    pub(super) fn id(&self) -> (&Webhook, &WebAddress) {
        (&self.from, self.web.address())
    }

    /// Puts a message in line; where the line is full it is counted as lost.
    pub(super) fn tell(&self, told: Message) {
        self.counts.waiting.fetch_add(1, Relaxed);
        if self.give.try_send(told).is_err() {
            self.counts.waiting.fetch_sub(1, Relaxed);
            self.counts.lost.fetch_add(1, Relaxed);
            tracing::error!(webhook = %self.web.address(), "{MOST} messages wait already; one is lost");
        }
    }

    /// What people see.
    pub(super) fn view(&self) -> WebhookView {
        let Counts { delivered, tried_again, lost, waiting, failed } = &*self.counts;
        WebhookView {
            to: self.web.address().to_string(),
            delivered: delivered.load(Relaxed),
            tried_again: tried_again.load(Relaxed),
            lost: lost.load(Relaxed),
            waiting: waiting.load(Relaxed),
            failed_because: failed.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// Until nobody has anything to tell any more.
async fn tell_all(web: Arc<Web>, mut take: mpsc::Receiver<Message>, counts: Arc<Counts>) {
    while let Some(told) = take.recv().await {
        let gone = tell(&web, &told, &counts).await;
        counts.waiting.fetch_sub(1, Relaxed);
        if gone { &counts.delivered } else { &counts.lost }.fetch_add(1, Relaxed);
    }
}

async fn tell(web: &Web, told: &Message, counts: &Counts) -> bool {
    let (began, mut pause) = (Instant::now(), PAUSE);
    let Ok(body) = serde_json::to_string(told) else { return false };
    let say = |why: Option<String>| *counts.failed.lock().unwrap_or_else(PoisonError::into_inner) = why;
    loop {
        match call(web, &body).await {
            Outcome::Delivered => {
                say(None);
                return true;
            }
            Outcome::Refused(why) => {
                tracing::error!("the webhook refuses what it is told, it is not repeated: {why}");
                say(Some(why));
                return false;
            }
            Outcome::Failed(why) if began.elapsed() + pause > PATIENCE => {
                tracing::error!("the webhook was not told within an hour: {why}");
                say(Some(why));
                return false;
            }
            Outcome::Failed(why) => {
                tracing::warn!("the webhook was not told, again in {} s: {why}", pause.as_secs());
                say(Some(why));
            }
        }
        counts.tried_again.fetch_add(1, Relaxed);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn call(web: &Web, body: &str) -> Outcome {
    match web.post(body.to_owned()).await {
        Ok((200..=299, _)) => Outcome::Delivered,
        Ok((code @ (408 | 425 | 429 | 500..=599), _)) => {
            Outcome::Failed(format!("{} answered {code}", web.address()))
        }
        Ok((code, _)) => Outcome::Refused(format!("{} answered {code}", web.address())),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}
