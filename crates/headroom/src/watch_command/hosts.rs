//! `headroom watch --agent`: several hosts, each judged by the agent that runs on it, put together in one view.
//!
//! Agents see the same fleet. A server is told of by the agent on its own host, which has the host's evidence; those that no
//! agent stands beside are told of by the first that knows them (`together.rs`). Each agent is asked at its own pace
//! (`follow.rs`), so that one which is silent holds up nobody.

mod follow;
pub(super) mod page;
mod together;

pub(super) use follow::Followed;

use super::view::WatchView;
use crate::environment::Environment;
use crate::token::Token;
use crate::web::{Request, Url, Web};
use anyhow::{Context, bail};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use together::{Told, together};
use tokio::task::JoinSet;

/// An agent that has not answered after this long is shown as such.
const DEADLINE: Duration = Duration::from_secs(5);
/// A view of the most servers that are watched takes less.
const LARGEST: usize = 8 << 20;

/// The agent of this machine, where none is named.
const USUAL: &str = "http://127.0.0.1:9307";

/// Agents on other hosts.
#[derive(Args, Debug, Clone)]
pub(crate) struct AgentsArgs {
    /// An agent to ask, https://host:9307; http:// on this machine only. Repeatable.
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "server", "window"])]
    pub(crate) agent: Vec<String>,
    /// PEM file of the authority that vouches for the agents [default: those that the web trusts].
    #[arg(long, value_name = "FILE", requires = "agent")]
    pub(crate) agent_ca: Option<PathBuf>,
    /// File whose first line is the agents' token [default: $HEADROOM_AGENT_TOKEN].
    #[arg(long, value_name = "FILE", requires = "agent")]
    pub(crate) agent_token_file: Option<PathBuf>,
    /// Show the agents as a page here too: all hosts at a glance, and each with its history. On this machine only.
    #[arg(long, value_name = "ADDR", requires = "agent", conflicts_with_all = ["once", "compare"],
          value_parser = crate::listen::address)]
    pub(crate) listen: Option<SocketAddr>,
}

/// The agents that are asked.
pub(super) struct Agents {
    each: Vec<Web>,
    token: Option<Token>,
}

impl Agents {
    /// Those of the command line; `None` when it names none.
    ///
    /// # Errors
    /// An address that is none, or over which a token would go in the clear; a file that cannot be used.
    pub(super) fn of(args: &AgentsArgs, environment: &Environment) -> anyhow::Result<Option<Self>> {
        if args.agent.is_empty() {
            return Ok(None);
        }
        let mut each = Vec::new();
        for text in &args.agent {
            let url = Url::parse(text)
                .map_err(|why| anyhow::anyhow!("--agent: {why}; write --agent https://host:9307"))?;
            if !url.is_sealed() && !url.is_loopback() {
                bail!(
                    "--agent {url}: elsewhere than on this machine agents speak HTTPS only; write https://"
                );
            }
            let web = Web::new(url.at("/watch.json"), args.agent_ca.as_deref(), DEADLINE, LARGEST)
                .with_context(|| format!("--agent {url}"))?;
            each.push(web);
        }
        let token = Token::find(args.agent_token_file.as_deref(), environment)?;
        Ok(Some(Self { each, token }))
    }

    /// Asks all of them at once.
    pub(super) async fn ask(&self) -> WatchView {
        let mut asked = JoinSet::new();
        for (at, web) in self.each.iter().enumerate() {
            let (web, token) = (web.clone(), self.token.clone());
            asked.spawn(async move { (at, one(&web, token.as_ref()).await) });
        }
        let mut answers = asked.join_all().await;
        answers.sort_by_key(|(at, _)| *at);
        let told = |(at, answer): (usize, Result<WatchView, String>)| Told::now(self.name(at), answer);
        together(answers.into_iter().map(told).collect())
    }

    /// What one of them answers there, in the order of the command line; `None` where there is none such.
    async fn read(&self, at: usize, target: &str) -> Option<Result<Vec<u8>, String>> {
        let web = self.each.get(at)?.at(target);
        Some(answer(&web, self.token.as_ref()).await)
    }

    /// How one of them is called.
    fn name(&self, at: usize) -> String {
        self.each[at].url().to_string()
    }
}

/// What one agent answers there; without one named, that of this machine.
///
/// # Errors
/// Several are named, or it does not answer with what was asked for.
pub(super) async fn ask_one(
    args: &AgentsArgs,
    target: &str,
    environment: &Environment,
) -> anyhow::Result<Vec<u8>> {
    let usual = || AgentsArgs { agent: vec![USUAL.to_owned()], ..args.clone() };
    let args = if args.agent.is_empty() { usual() } else { args.clone() };
    let agents = Agents::of(&args, environment)?.context("no agent is named")?;
    let [web] = &agents.each[..] else { bail!("one agent's history is asked: name one with --agent") };
    answer(&web.at(target), agents.token.as_ref()).await.map_err(|why| anyhow::anyhow!(why))
}

async fn one(web: &Web, token: Option<&Token>) -> Result<WatchView, String> {
    serde_json::from_slice(&answer(web, token).await?)
        .map_err(|_| format!("{} does not answer like headroom agent of this version", web.url()))
}

async fn answer(web: &Web, token: Option<&Token>) -> Result<Vec<u8>, String> {
    let headers: Vec<String> = token.map(Token::header).into_iter().collect();
    let request = Request { method: "GET", headers: &headers, body: "" };
    let (code, body) = web.ask(request).await.map_err(|error| error.to_string())?;
    match code {
        200 => Ok(body),
        401 => Err(match token {
            Some(_) => format!("{} takes another token", web.url()),
            None => format!(
                "{} asks for its token: --agent-token-file FILE, or HEADROOM_AGENT_TOKEN in the environment",
                web.url()
            ),
        }),
        _ => Err(format!("{} answered {code}", web.url())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_sent_in_the_clear() {
        let args = |agent: &str| AgentsArgs {
            agent: vec![agent.into()],
            agent_ca: None,
            agent_token_file: None,
            listen: None,
        };
        let of = |agent: &str| Agents::of(&args(agent), &Environment::default()).map(|found| found.is_some());
        assert!(of("http://10.0.0.5:9307").unwrap_err().to_string().contains("https://"));
        assert!(of("http://127.0.0.1:9307").unwrap() && of("https://db1:9307").unwrap());
        let said = of("https://me:secret@db1").unwrap_err().to_string();
        assert!(!said.contains("secret"), "{said}");
    }
}
