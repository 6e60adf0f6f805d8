//! Agents that are asked all the while, each at its own pace, and the history of what they said: an agent or
//! a server that falls silent has a gap in it, with the reason. The history is kept here, beside the longer
//! ones of the agents themselves, because who does not answer cannot tell when that began.

use super::merge::{AgentAnswer, merge};
use super::{AgentError, Agents, one};
use crate::history::{HistoryStore, said};
use crate::series::{self, HostNow, ServerNow};
use crate::{EVERY, Views};
use console::history_view::Subject;
use console::watch_view::{ServerWatch, WatchView};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

/// What several agents say, as long as it is there.
pub struct FollowedAgents {
    /// Put together once a second.
    pub views: Views,
    /// Of the hosts and servers, since the beginning.
    pub(crate) kept: HistoryStore,
}

/// One agent, as it was last heard.
#[derive(Default)]
struct LastAnswer {
    answer: Option<Result<WatchView, AgentError>>,
    at: Option<Instant>,
    before: Vec<ServerWatch>,
}

type Answered = (usize, Instant, Result<WatchView, AgentError>);

impl FollowedAgents {
    /// Begins to ask.
    pub fn start(agents: &Arc<Agents>) -> Self {
        let (publish, views) = watch::channel(Arc::new(WatchView::default()));
        let (tell, news) = mpsc::channel(64);
        for at in 0..agents.each.len() {
            tokio::spawn(ask(agents.clone(), at, tell.clone()));
        }
        let kept = HistoryStore::new();
        tokio::spawn(listen(agents.clone(), news, kept.clone(), publish));
        Self { views, kept }
    }
}

/// Asks one agent for as long as anybody listens.
async fn ask(agents: Arc<Agents>, at: usize, tell: mpsc::Sender<Answered>) {
    loop {
        let answer = one(&agents.each[at], agents.token.as_ref()).await;
        if tell.send((at, Instant::now(), answer)).await.is_err() {
            return;
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn listen(
    agents: Arc<Agents>,
    mut news: mpsc::Receiver<Answered>,
    kept: HistoryStore,
    publish: watch::Sender<Arc<WatchView>>,
) {
    let mut heard: Vec<LastAnswer> = agents.each.iter().map(|_| LastAnswer::default()).collect();
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = publish.closed() => return,
            Some((at, when, answer)) = news.recv() => heard[at].hear(when, answer),
            _ = tick.tick() => {
                kept.tick(Instant::now());
                let told = heard.iter().enumerate().map(|(at, heard)| {
                    let answer = heard.answer.clone()?;
                    Some(AgentAnswer { agent: agents.name(at), answer, before: heard.before.clone() })
                });
                // Until each has answered, or its deadline has passed, there is nothing to say of all.
                let Some(told) = told.collect() else { continue };
                let view = merge(told);
                keep(&kept, &view, &heard);
                publish.send_replace(Arc::new(view));
            }
        }
    }
}

impl LastAnswer {
    fn hear(&mut self, when: Instant, answer: Result<WatchView, AgentError>) {
        if let Ok(view) = &answer {
            self.before.clone_from(&view.servers);
        }
        (self.answer, self.at) = (Some(answer), Some(when));
    }
}

/// What was said goes into the history, each answer once: a point that is not later than the last is left
/// out.
fn keep(kept: &HistoryStore, view: &WatchView, heard: &[LastAnswer]) {
    let mut history = kept.lock();
    for (host, heard) in view.hosts.iter().zip(heard) {
        let subject = Subject::Agent(host.agent.clone());
        match (&host.unanswered, &host.host, heard.at) {
            (Some(why), _, Some(at)) => history.lose(&subject, at, why),
            (None, Some(sample), Some(at)) => {
                let now = HostNow { sample: sample.clone(), disk: None };
                history.add(&subject, at, series::figures(series::HOST, &now), said(&host.verdict));
            }
            _ => {}
        }
    }
    for server in &view.servers {
        let told_by = view.hosts.iter().position(|host| server.agent.as_ref() == Some(&host.agent));
        let Some(at) = told_by.and_then(|at| heard.get(at)?.at) else { continue };
        let subject = Subject::Server(view.called(server));
        if let Some(sample) = &server.sample {
            let now = ServerNow {
                sample: sample.clone(),
                quantiles: sample.quantiles.clone(),
                lag_ms: server.lag_ms,
            };
            history.add(&subject, at, series::figures(series::SERVER, &now), said(&server.verdict));
        } else if let Some(why) = server.unanswered.as_ref().filter(|_| history.track(&subject).is_some()) {
            // One that was never read is not lost: its agent may not have asked it yet.
            history.lose(&subject, at, why);
        }
    }
}
