//! `headroom inventory`: which guest runs on which host, and whether servers and agents say the same.

use crate::commands::knob::{blocking, credentials_as};
use crate::environment::Environment;
use ::agent::Agents;
use clap::Args;
use console::token::Token;
use std::path::PathBuf;
use std::process::ExitCode;
use term::{exit, terminal};
use whatif::guests::Guests;
use whatif::inventory::{HostFacts, Inventory};
use whatif::server::Server;

/// Show which guest runs on which host, and compare that with what servers and agents say.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  headroom inventory inventory.toml\n  headroom inventory inventory.csv --ask \
                  --option-file admin.cnf --agent-ca ca.pem\n\nThe format: docs/guide/plan.md. Exit code 1: a \
                  host is overfull, or something differs."
)]
pub(crate) struct InventoryArgs {
    /// Hosts and roles, TOML or CSV.
    inventory: PathBuf,
    /// Ask the servers and agents that it names.
    #[arg(long)]
    ask: bool,
    /// Account on the servers [default: from the option file, else $HEADROOM_USER].
    #[arg(long, short, value_name = "NAME", requires = "ask")]
    user: Option<String>,
    /// Option file with user and password, in the format of ~/.my.cnf (which is the default).
    #[arg(long, value_name = "FILE", requires = "ask")]
    option_file: Option<PathBuf>,
    /// PEM file of the authority that vouches for the agents [default: those that the web trusts].
    #[arg(long, value_name = "FILE", requires = "ask")]
    agent_ca: Option<PathBuf>,
    /// File whose first line is the agents' token [default: $HEADROOM_AGENT_TOKEN].
    #[arg(long, value_name = "FILE", requires = "ask")]
    agent_token_file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Does it.
pub(crate) async fn run(args: InventoryArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let inventory = Inventory::read(&args.inventory)?;
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
        let addresses: Vec<String> = inventory.hosts.iter().filter_map(|host| host.agent.clone()).collect();
        let token = Token::find(self.agent_token_file.as_deref(), environment.agent_token.as_deref())?;
        let agents = Agents::new(&addresses, self.agent_ca.as_deref(), token)?;
        let mut hosts = agents.ask().await.hosts.into_iter();
        differences.extend(inventory.host_differences(|_| {
            let answer = hosts.next().ok_or("no answer")?;
            let host =
                answer.host.ok_or(answer.unanswered.unwrap_or_else(|| "it has no sample yet".to_owned()))?;
            Ok(HostFacts { cores: host.cpus(), memory_bytes: host.memory.level.total })
        }));
        Ok(differences)
    }
}
