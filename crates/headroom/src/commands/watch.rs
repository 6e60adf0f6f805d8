//! `headroom watch`: this host and its servers, each with its bottleneck.

mod args;

use crate::commands::probe::known_ceilings;
use crate::environment::Environment;
use crate::{credentials, source};
use ::agent::compare::{self, PastStretch};
use ::agent::{Agents, EVERY, FollowedAgents, Monitor, MonitorOptions, RuleView, Views, hosts, text};
use anyhow::{Context, anyhow};
use config::{Config, FleetConfig, Objective, Webhook};
use console::admin_client::AdminClient;
use console::objectives::Objectives;
use console::token::Token;
use console::watch_view::WatchView;
use console::web::WebError;
use std::io::ErrorKind;
use std::process::ExitCode;
use std::sync::Arc;
use term::no_room::{Lines, is_no_room};
use term::{Paint, exit, interrupted, pager, terminal};

use args::AgentsArgs;
pub(crate) use args::{WatchArgs, WatchTargetArgs};

/// Runs `headroom watch`.
pub(crate) async fn run(args: WatchArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    if let Some(rule) = &args.explain {
        let rule = RuleView::find(rule).map_err(|error| exit::usage_error(error.to_string()))?;
        if args.json {
            terminal::print_json(&rule)?;
        } else {
            terminal::print(&rule.text())?;
        }
        return Ok(exit::DONE);
    }
    if let Some(stretches) = &args.compare {
        return compare_stretches(&args, stretches, environment).await;
    }
    if !args.agents.agent.is_empty() {
        let agents = agents(&args.agents, &args.agents.agent, environment)?;
        return tokio::select! {
            outcome = watch_agents(agents, &args, environment) => outcome,
            () = interrupted() => stopped(&args),
        };
    }
    let WatchTarget { fleet, router, objectives, .. } = watch_target(&args.target, environment)?;
    // Shown and told to nobody: that is what an agent, which stays, is for.
    let ceilings = known_ceilings(args.target.store.as_deref(), environment)?;
    let watching = MonitorOptions::against(ceilings, args.target.window)
        .asking(router)
        .promising(Objectives::new(&objectives, None));
    let monitor = Monitor::start(fleet, watching);
    let outcome = tokio::select! {
        outcome = watch_monitor(&monitor, &args, environment) => outcome,
        () = interrupted() => stopped(&args),
    };
    monitor.stop().await;
    outcome
}

/// The agents at these addresses, with what the command line and the environment have to open them.
fn agents(args: &AgentsArgs, addresses: &[String], environment: &Environment) -> anyhow::Result<Agents> {
    let token = Token::find(args.agent_token_file.as_deref(), environment.agent_token.as_deref())?;
    Agents::new(addresses, args.agent_ca.as_deref(), token)
}

/// Asks an agent to compare two stretches of its history, and prints its answer.
async fn compare_stretches(
    args: &WatchArgs,
    stretches: &[PastStretch],
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let &[before, after] = stretches else {
        anyhow::bail!("--compare takes two stretches: 20m..10m 10m..now")
    };
    let usual = [hosts::USUAL.to_owned()];
    let addresses = if args.agents.agent.is_empty() { &usual } else { &args.agents.agent[..] };
    let agents = agents(&args.agents, addresses, environment)?;
    let answer = agents.ask_one(&compare::target(before, after)).await.map_err(unreached)?;
    if args.json {
        let value: serde_json::Value = serde_json::from_slice(&answer)?;
        terminal::print_json(&value)?;
        return Ok(exit::DONE);
    }
    let view =
        serde_json::from_slice(&answer).context("the agent does not answer like one of this version")?;
    terminal::print(&compare::text(&view, Paint::for_stdout(environment.no_colour)))?;
    Ok(exit::DONE)
}

/// Without an agent there is no history: the first who asks for one may not run any.
fn unreached(error: anyhow::Error) -> anyhow::Error {
    if let Some(hosts::AgentError::Web(WebError::Unreached { .. })) = error.downcast_ref() {
        return anyhow!(
            "{error}; is headroom agent running there? Its history is compared (--agent ADDRESS)"
        );
    }
    error
}

/// Whoever follows has seen enough; whoever asked for one answer has none.
fn stopped(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(!args.once, "interrupted before the window was over; there is no answer");
    Ok(exit::DONE)
}

async fn watch_monitor(
    monitor: &Monitor,
    args: &WatchArgs,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let mut views = monitor.views();
    if args.once {
        // A window, and the windows that a verdict needs to be named.
        let until = tokio::time::Instant::now() + args.target.window + EVERY * 3;
        tokio::time::sleep_until(until).await;
        let view = views.borrow_and_update().clone();
        return show_once(&view, args.json, Paint::for_stdout(environment.no_colour));
    }
    show(views, None, args.json, environment).await
}

/// The agents have watched all along: their windows are full.
async fn watch_agents(
    agents: Agents,
    args: &WatchArgs,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    if args.once {
        let view = agents.ask().await;
        let said: Vec<_> = view.hosts.iter().filter_map(|host| host.unanswered.as_deref()).collect();
        if said.len() == view.hosts.len() {
            if args.json {
                terminal::print_json(&view)?;
            }
            anyhow::bail!("no agent has answered: {}", said.join("; "));
        }
        return show_once(&view, args.json, Paint::for_stdout(environment.no_colour));
    }
    let listener = match args.agents.listen {
        Some(address) => Some(hosts::page::bind(address).await?),
        None => None,
    };
    let agents = Arc::new(agents);
    let followed = FollowedAgents::start(&agents);
    let views = followed.views.clone();
    let Some(listener) = listener else { return show(views, None, args.json, environment).await };
    let page = format!("the page: http://{}/", listener.local_addr()?);
    terminal::complain(&page);
    let shown = show(views, Some(page), args.json, environment);
    tokio::select! {
        shown = shown => shown,
        served = hosts::page::serve(listener, agents, &followed) => served.map(|()| exit::DONE),
    }
}

fn show_once(view: &WatchView, json: bool, paint: Paint) -> anyhow::Result<ExitCode> {
    let nothing = view.nothing_of_servers();
    let first = nothing.as_ref().map(|why| paint.red(&format!("There are no figures of any server: {why}")));
    if json {
        first.iter().for_each(|line| terminal::complain(line));
        terminal::print_json(view)?;
    } else {
        let first = first.map_or_else(String::new, |line| line + "\n\n");
        terminal::print(&(first + &text::text(view, paint)))?;
    }
    // What was asked for is not known: whether this host has a bottleneck does not answer it.
    if nothing.is_some() {
        return Ok(exit::error());
    }
    if view.has_bottleneck() {
        return Ok(exit::no());
    }
    // Of what was not read nothing is known, least of all that it has no bottleneck.
    if let Some(unread) = view.unread() {
        terminal::complain(&format!("no bottleneck is named, but not everything could be read: {unread}"));
        return Ok(exit::error());
    }
    Ok(exit::DONE)
}

async fn show(
    mut views: Views,
    note: Option<String>,
    json: bool,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    if environment.has_screen() && !json {
        let (mut begun, paint) = (false, Paint::for_stdout(environment.no_colour));
        let next = move || {
            let is_new = views.has_changed()? || !std::mem::replace(&mut begun, true);
            Ok(is_new.then(|| text::text(&views.borrow_and_update().clone(), paint)))
        };
        return pager::run(next, note, paint).await.map(|()| exit::DONE);
    }
    let log = Lines::new(if json { missing_as_json } else { missing_in_words });
    let mut said = String::new();
    loop {
        views.changed().await?;
        let view = views.borrow_and_update().clone();
        let news = if json { String::new() } else { text::news(&view) };
        if json || news != said {
            let lines = if json { serde_json::to_string(&*view)? + "\n" } else { text::lines(&view) };
            match log.write(&mut std::io::stdout().lock(), lines.as_bytes()) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(exit::DONE),
                Err(error) if !is_no_room(&error) => return Err(error).context("standard output"),
                _ => said = news,
            }
        }
    }
}

fn missing_in_words(lines: u64, why: &str) -> String {
    format!("{lines} lines are missing here: {why}")
}

fn missing_as_json(lines: u64, why: &str) -> String {
    serde_json::json!({ "missing_lines": lines, "why": why }).to_string()
}

/// What is watched.
pub(crate) struct WatchTarget {
    pub(crate) fleet: Option<FleetConfig>,
    pub(crate) router: Option<AdminClient>,
    /// What is promised, and who is told of incidents.
    pub(crate) objectives: Vec<Objective>,
    pub(crate) webhook: Option<Webhook>,
}

/// The fleet to watch and the router to ask; no fleet when no server is named anywhere: then it is this host
/// alone. The router is the one that is named, else that of the environment, of the file, or the usual
/// address.
pub(crate) fn watch_target(args: &WatchTargetArgs, environment: &Environment) -> anyhow::Result<WatchTarget> {
    let router = args.router.as_deref();
    let named = router.filter(|name| *name != "off");
    let mut sourced = match source::for_fleet(&args.source) {
        Ok(sourced) => sourced,
        Err(error) if error.is_usage() => {
            let router = named.map(|name| AdminClient::new(Some(name)));
            return Ok(WatchTarget { fleet: None, router, objectives: Vec::new(), webhook: None });
        }
        Err(error) => return Err(error.into()),
    };
    sourced.config.fleet.credentials = credentials::resolve(&sourced.config, environment)?;
    let of_file = sourced.config.admin.map(|address| address.to_string());
    let name = named.map(str::to_owned).or_else(|| environment.admin.clone()).or(of_file);
    let router = name.filter(|_| router != Some("off")).map(|name| AdminClient::new(Some(&name)));
    let Config { fleet, objectives, webhook, .. } = sourced.config;
    Ok(WatchTarget { fleet: Some(fleet), router, objectives, webhook })
}
