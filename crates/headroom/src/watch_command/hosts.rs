//! `headroom watch --agent`: several hosts, each judged by the agent that runs on it, put together in one view.
//!
//! Agents see the same fleet. A server is told of by the agent on its own host, which has the host's evidence; those that no
//! agent stands beside are told of by the first that knows them. The same server is known by what it calls itself (its host's
//! name, port and id), else by its name.

use super::view::{HostWatch, ServerWatch, WatchView};
use crate::environment::Environment;
use crate::token::Token;
use crate::web::{Request, Url, Web};
use anyhow::{Context, bail};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
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
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "server"])]
    pub(crate) agent: Vec<String>,
    /// PEM file of the authority that vouches for the agents [default: those that the web trusts].
    #[arg(long, value_name = "FILE", requires = "agent")]
    pub(crate) agent_ca: Option<PathBuf>,
    /// File whose first line is the agents' token [default: $HEADROOM_AGENT_TOKEN].
    #[arg(long, value_name = "FILE", requires = "agent")]
    pub(crate) agent_token_file: Option<PathBuf>,
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
        let named =
            |(at, answer): (usize, Result<WatchView, String>)| (self.each[at].url().to_string(), answer);
        together(answers.into_iter().map(named).collect())
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
    let web = Web::new(web.url().at(target), args.agent_ca.as_deref(), DEADLINE, LARGEST)?;
    answer(&web, agents.token.as_ref()).await.map_err(|why| anyhow::anyhow!(why))
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

/// One view of what the agents say, in their order.
fn together(answers: Vec<(String, Result<WatchView, String>)>) -> WatchView {
    let mut whole = WatchView { version: env!("CARGO_PKG_VERSION").to_owned(), ..WatchView::default() };
    let mut told: Vec<ServerWatch> = Vec::new();
    for (agent, answer) in answers {
        let view = match answer {
            Ok(view) => view,
            Err(why) => {
                whole.hosts.push(HostWatch { agent, unanswered: Some(why), ..HostWatch::default() });
                continue;
            }
        };
        whole.window_s = whole.window_s.max(view.window_s);
        whole.gaps += view.gaps;
        // Agents with the same file promise the same.
        for objective in view.objectives {
            if !whole.objectives.iter().any(|known| known.name == objective.name) {
                whole.objectives.push(objective);
            }
        }
        told.extend(
            view.servers.into_iter().map(|server| ServerWatch { agent: Some(agent.clone()), ..server }),
        );
        let (host, verdict, cost) = (view.host, view.verdict, view.cost);
        whole.hosts.push(HostWatch { agent, unanswered: None, host, verdict, cost });
    }
    // Those who stand beside a server first, then those whom it answers; the order of the agents otherwise.
    told.sort_by_key(|server| (!(server.on_this_host && server.sample.is_some()), server.sample.is_none()));
    for server in told {
        if !whole.servers.iter().any(|known| is_same(known, &server)) {
            whole.servers.push(server);
        }
    }
    whole.servers.sort_by(|a, b| (a.role != "primary", &a.name).cmp(&(b.role != "primary", &b.name)));
    whole
}

fn is_same(one: &ServerWatch, other: &ServerWatch) -> bool {
    let identity = |server: &ServerWatch| {
        let settings = &server.sample.as_ref()?.settings;
        (!settings.hostname.is_empty())
            .then(|| (settings.hostname.clone(), settings.port, settings.server_id))
    };
    match (identity(one), identity(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.name == other.name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::server::{Sample, Settings};

    fn server(name: &str, host: &str, here: bool) -> ServerWatch {
        let settings = Settings { hostname: host.to_owned(), port: 3306, ..Settings::default() };
        ServerWatch {
            name: name.to_owned(),
            role: "replica".to_owned(),
            on_this_host: here,
            sample: Some(Sample { settings, ..Sample::default() }),
            ..ServerWatch::default()
        }
    }

    fn view(servers: Vec<ServerWatch>) -> WatchView {
        WatchView { servers, gaps: 1, window_s: 10.0, ..WatchView::default() }
    }

    #[test]
    fn each_server_is_told_of_by_the_agent_beside_it() {
        let one = view(vec![server("127.0.0.1:3306", "db1", true), server("db2:3306", "db2", false)]);
        let two = view(vec![server("db1:3306", "db1", false), server("127.0.0.1:3306", "db2", true)]);
        let whole =
            together(vec![("https://db1:9307".into(), Ok(one)), ("https://db2:9307".into(), Ok(two))]);
        let told: Vec<_> =
            whole.servers.iter().map(|s| (s.on_this_host, s.agent.as_deref().unwrap())).collect();
        assert_eq!(told, [(true, "https://db1:9307"), (true, "https://db2:9307")]);
        assert_eq!((whole.hosts.len(), whole.gaps, whole.window_s), (2, 2, 10.0));
    }

    #[test]
    fn an_agent_that_is_silent_is_shown_and_others_tell_of_its_server() {
        let one = view(vec![server("db1:3306", "db1", true), server("db2:3306", "db2", false)]);
        let whole =
            together(vec![("https://db1".into(), Ok(one)), ("https://db2".into(), Err("late".into()))]);
        assert_eq!(whole.hosts[1].unanswered.as_deref(), Some("late"));
        let names: Vec<_> = whole.servers.iter().map(|s| (s.name.as_str(), s.on_this_host)).collect();
        assert_eq!(names, [("db1:3306", true), ("db2:3306", false)]);
    }

    #[test]
    fn a_token_is_never_sent_in_the_clear() {
        let args =
            |agent: &str| AgentsArgs { agent: vec![agent.into()], agent_ca: None, agent_token_file: None };
        let of = |agent: &str| Agents::of(&args(agent), &Environment::default()).map(|found| found.is_some());
        assert!(of("http://10.0.0.5:9307").unwrap_err().to_string().contains("https://"));
        assert!(of("http://127.0.0.1:9307").unwrap() && of("https://db1:9307").unwrap());
        let said = of("https://me:secret@db1").unwrap_err().to_string();
        assert!(!said.contains("secret"), "{said}");
    }
}
