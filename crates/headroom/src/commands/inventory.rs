//! `headroom inventory`: which guest runs on which host, and whether servers and agents say the same.

use crate::commands::knob::{blocking, credentials_as};
use crate::environment::Environment;
use ::agent::Agents;
use ::agent::hosts::AgentError;
use anyhow::Context;
use clap::{ArgGroup, Args};
use console::token::Token;
use console::watch_view::HostWatch;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use term::{exit, terminal};
use whatif::demand::HostAnswer;
use whatif::guests::Guests;
use whatif::inventory::{HostFacts, Inventory};
use whatif::server::Server;

/// Show which guest runs on which host, and compare that with what servers and agents say.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  headroom inventory inventory.toml\n  headroom inventory inventory.csv --ask \
                  --option-file admin.cnf --agent-ca ca.pem\n  headroom inventory inventory.toml --measure \
                  measured.toml\n      Demands of roles as the histories of the hosts' agents have them, for headroom \
                  plan placement measured.toml.\n\nThe format: docs/guide/plan.md. Exit code 1: a \
                  host is overfull, something differs, or no role could be measured.",
    group = ArgGroup::new("asked").multiple(true)
)]
pub(crate) struct InventoryArgs {
    /// Hosts and roles, TOML or CSV.
    inventory: PathBuf,
    /// Ask the servers and agents that it names.
    #[arg(long, group = "asked")]
    ask: bool,
    /// Write the inventory to this file (TOML, not there yet) with the demands of roles measured: the 95th
    /// percentile of what a host used, by its agent's history, where one role has it to itself.
    #[arg(long, value_name = "FILE", group = "asked")]
    measure: Option<PathBuf>,
    /// This much of the histories; agents keep a day.
    #[arg(long, value_name = "DURATION", default_value = "24h", requires = "measure", value_parser = fleet::parse_duration)]
    stretch: Duration,
    /// Account on the servers [default: from the option file, else $HEADROOM_USER].
    #[arg(long, short, value_name = "NAME", requires = "ask")]
    user: Option<String>,
    /// Option file with user and password, in the format of ~/.my.cnf (which is the default).
    #[arg(long, value_name = "FILE", requires = "ask")]
    option_file: Option<PathBuf>,
    /// PEM file of the authority that vouches for the agents [default: those that the web trusts].
    #[arg(long, value_name = "FILE", requires = "asked")]
    agent_ca: Option<PathBuf>,
    /// File whose first line is the agents' token [default: $HEADROOM_AGENT_TOKEN].
    #[arg(long, value_name = "FILE", requires = "asked")]
    agent_token_file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

const NO_ANSWER: &str = "no answer";

/// What an agent says of its host: now, and in its history.
fn host_answer(now: HostWatch, history: Vec<u8>) -> anyhow::Result<HostAnswer> {
    let host = now.sample()?;
    Ok(HostAnswer {
        history: String::from_utf8(history)?,
        cores: host.cpus(),
        memory_bytes: host.memory.level.total,
        request_bytes: host.request_bytes(),
    })
}

/// Does it.
pub(crate) async fn run(args: InventoryArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let inventory = Inventory::read(&args.inventory)?;
    if let Some(path) = args.measure.clone() {
        return args.write_measured(inventory, &path, environment).await;
    }
    let differences = if args.ask { Some(args.differences(&inventory, environment).await?) } else { None };
    let guests = Guests::new(&inventory, differences);
    if args.json {
        terminal::print_json(&guests)?;
    } else {
        terminal::print(&guests.text())?;
    }
    Ok(if guests.is_good() { exit::DONE } else { exit::no() })
}

impl InventoryArgs {
    fn agents(&self, inventory: &Inventory, environment: &Environment) -> anyhow::Result<Agents> {
        let addresses: Vec<String> = inventory.hosts.iter().filter_map(|host| host.agent.clone()).collect();
        let token = Token::find(self.agent_token_file.as_deref(), environment.agent_token.as_deref())?;
        Agents::new(&addresses, self.agent_ca.as_deref(), token)
    }

    async fn write_measured(
        &self,
        mut inventory: Inventory,
        path: &Path,
        environment: &Environment,
    ) -> anyhow::Result<ExitCode> {
        let mut answers = self.histories(&inventory, environment).await?;
        let found = inventory.measure(|host| answers.remove(&host).context(NO_ANSWER).flatten());
        if self.json {
            terminal::print_json(&found)?;
        } else {
            terminal::print(&found.text())?;
        }
        if found.roles.is_empty() {
            terminal::complain("headroom: no role could be measured; nothing is written");
            return Ok(exit::no());
        }
        // What somebody wrote by hand is never written over.
        let mut file = File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
        file.write_all(inventory.toml()?.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        terminal::complain(&format!("written: {0}; headroom plan placement {0} uses it", path.display()));
        Ok(exit::DONE)
    }

    /// What the agents say of their hosts, by the host's place.
    async fn histories(
        &self,
        inventory: &Inventory,
        environment: &Environment,
    ) -> anyhow::Result<HashMap<usize, anyhow::Result<HostAnswer>>> {
        let agents = self.agents(inventory, environment)?;
        let with_agent = inventory.hosts.iter().enumerate().filter(|(_, host)| host.agent.is_some());
        let answers = with_agent.zip(agents.histories(self.stretch).await);
        let answer = |((at, _), (now, history)): ((usize, _), (_, Result<_, AgentError>))| {
            (at, history.map_err(Into::into).and_then(|history| host_answer(now, history)))
        };
        Ok(answers.map(answer).collect())
    }

    async fn differences(
        &self,
        inventory: &Inventory,
        environment: &Environment,
    ) -> anyhow::Result<Vec<String>> {
        let mut differences = Vec::new();
        if inventory.roles.iter().any(|role| role.server.is_some()) {
            let who = credentials_as(self.user.as_deref(), self.option_file.as_deref(), environment)?;
            let asked = inventory.clone();
            differences = blocking(move || Ok(asked.differences(|server| Server::ask(server, &who)))).await?;
        }
        let agents = self.agents(inventory, environment)?;
        let mut hosts = agents.ask().await.hosts.into_iter();
        differences.extend(inventory.host_differences(|_| {
            let host = hosts.next().context(NO_ANSWER)?.sample()?;
            anyhow::Ok(HostFacts { cores: host.cpus(), memory_bytes: host.memory.level.total })
        }));
        Ok(differences)
    }
}
