//! Several hosts, each judged by the agent that runs on it, put together in one view.
//!
//! Agents see the same fleet. A server is told of by the agent on its own host, which has the host's
//! evidence; those that no agent stands beside are told of by the first that knows them (`merge.rs`). Each
//! agent is asked at its own pace (`follow.rs`), so that one which is silent delays nobody.

mod error;
mod follow;
mod merge;
pub mod page;

pub use error::AgentError;
pub use follow::FollowedAgents;

use anyhow::{Context, bail};
use console::token::Token;
use console::watch_view::{HostWatch, WatchView};
use console::web::{Web, WebAddress};
use merge::{AgentAnswer, merge};
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinSet;

/// An agent that has not answered after this long is shown as such.
const DEADLINE: Duration = Duration::from_secs(5);
/// A day of the most subjects that have a history takes less, and so does a view of the most servers.
const LARGEST: usize = 32 << 20;

/// The agent of this machine, where none is named.
pub const USUAL: &str = "http://127.0.0.1:9307";

/// The agents that are asked.
pub struct Agents {
    each: Vec<Web>,
    token: Option<Token>,
}

impl Agents {
    /// Those at these addresses, whose certificates come from `authority`; `token` opens them.
    ///
    /// # Errors
    /// An address that is none, or over which a token would go in the clear; a file that cannot be used.
    pub fn new(addresses: &[String], authority: Option<&Path>, token: Option<Token>) -> anyhow::Result<Self> {
        let mut each = Vec::new();
        for text in addresses {
            let url = WebAddress::parse(text)
                .map_err(|why| anyhow::anyhow!("--agent: {why}; write --agent https://host:9307"))?;
            if !url.is_https() && !url.is_loopback() {
                bail!(
                    "--agent {url}: elsewhere than on this machine agents speak HTTPS only; write https://"
                );
            }
            let web = Web::new(url.at("/watch.json"), authority, DEADLINE, LARGEST)
                .with_context(|| format!("--agent {url}"))?;
            each.push(web);
        }
        Ok(Self { each, token })
    }

    /// Asks all of them at once.
    pub async fn ask(&self) -> WatchView {
        let mut asked = JoinSet::new();
        for (at, web) in self.each.iter().enumerate() {
            let (web, token) = (web.clone(), self.token.clone());
            asked.spawn(async move { (at, one(&web, token.as_ref()).await) });
        }
        let mut answers = asked.join_all().await;
        answers.sort_by_key(|(at, _)| *at);
        let told = |(at, answer): (usize, Result<_, _>)| AgentAnswer::now(self.name(at), answer);
        merge(answers.into_iter().map(told).collect())
    }

    /// What the only one answers there.
    ///
    /// # Errors
    /// There are several, or it does not answer with what was asked for.
    pub async fn ask_one(&self, target: &str) -> anyhow::Result<Vec<u8>> {
        let [web] = &self.each[..] else { bail!("one agent's history is asked: name one with --agent") };
        Ok(answer(&web.at(target), self.token.as_ref()).await?)
    }

    /// What one of them answers there, in the order of the command line; `None` where there is none such.
    pub async fn read(&self, at: usize, target: &str) -> Option<Result<Vec<u8>, AgentError>> {
        let web = self.each.get(at)?.at(target);
        Some(answer(&web, self.token.as_ref()).await)
    }

    /// What each says of its host now, and of the stretch before in its history.
    pub async fn histories(&self, stretch: Duration) -> Vec<(HostWatch, Result<Vec<u8>, AgentError>)> {
        // As fine as an agent answers over a day: a peak of a minute counts.
        let step = (stretch.as_secs_f64() / 2000.0).max(1.0);
        let target = format!("/history.json?from=-{}&step={step}", stretch.as_secs());
        let mut all = Vec::new();
        for (at, now) in self.ask().await.hosts.into_iter().enumerate() {
            let history = self.read(at, &target).await;
            all.push((now, history.unwrap_or(Err(AgentError::NotAsked))));
        }
        all
    }

    /// How one of them is called.
    fn name(&self, at: usize) -> String {
        self.each[at].address().to_string()
    }
}

async fn one(web: &Web, token: Option<&Token>) -> Result<WatchView, AgentError> {
    serde_json::from_slice(&answer(web, token).await?)
        .map_err(|_| AgentError::OtherVersion { at: web.address().to_string() })
}

async fn answer(web: &Web, token: Option<&Token>) -> Result<Vec<u8>, AgentError> {
    let (code, body) = web.get(token).await?;
    let at = || web.address().to_string();
    match code {
        200 => Ok(body.to_vec()),
        401 if token.is_some() => Err(AgentError::OtherToken { at: at() }),
        401 => Err(AgentError::NoToken { at: at() }),
        _ => Err(AgentError::Status { at: at(), code }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{HistoryQuery, HistoryStore};
    use console::history_view::Subject;
    use diagnose::history::{MOST_SUBJECTS, Outcome, WIDTH};
    use std::time::{Instant, SystemTime};

    #[test]
    fn the_history_of_the_most_servers_is_an_answer_that_is_taken() {
        let ago = Duration::from_secs(2000);
        let began = Instant::now().checked_sub(ago).unwrap();
        let kept = HistoryStore::since(began, SystemTime::now() - ago);
        for second in 0..2000 {
            let at = began + Duration::from_secs(second);
            for number in 0..MOST_SUBJECTS {
                let name = Subject::Server(format!("db{number}.example.org:3306"));
                kept.lock().add(&name, at, [1234.0; WIDTH], Outcome::Free);
            }
        }
        let view = kept.view(&HistoryQuery { from: -2000.0, to: 0.0, step: 1.0 });
        let answer = serde_json::to_vec(&view).unwrap();
        assert!((8 << 20..LARGEST).contains(&answer.len()), "{}", answer.len());
    }

    #[test]
    fn a_token_is_never_sent_in_the_clear() {
        let of =
            |agent: &str| Agents::new(&[agent.to_owned()], None, None).map(|agents| agents.each.len() == 1);
        assert!(of("http://10.0.0.5:9307").unwrap_err().to_string().contains("https://"));
        assert!(of("http://127.0.0.1:9307").unwrap() && of("https://db1:9307").unwrap());
        let said = of("https://me:secret@db1").unwrap_err().to_string();
        assert!(!said.contains("secret"), "{said}");
    }
}
