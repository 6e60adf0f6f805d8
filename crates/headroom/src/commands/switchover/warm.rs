//! `--wait-warm`: nothing moves before the candidate reads from disk about as seldom as the primary. With
//! `--warm-with` it is sent the reads of a recording meanwhile.

use crate::environment::Environment;
use crate::key::KeyArgs;
use crate::reads;
use anyhow::Context;
use clap::Args;
use config::Credentials;
use fleet::{Address, ServerName, Snapshot};
use load::replay::{self, Reads};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use switchover::warmth::{self, Waited, Warmth};
use term::{StopFlag, terminal};

/// How warm the candidate has to be, and what warms it.
#[derive(Args, Debug, Clone)]
pub(crate) struct WarmArgs {
    /// Before the checks, wait until the candidate reads from disk about as seldom as the primary; at most
    /// this long (10m if no time is written), else nothing moves.
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10m",
        conflicts_with_all = ["resume", "undo"],
        value_parser = fleet::parse_duration
    )]
    wait_warm: Option<Duration>,
    /// Meanwhile send the candidate the reads of this recording (`headroom record`), again and again at their
    /// own pace. Nothing that writes is sent, and the server is told to refuse it.
    #[arg(long, value_name = "RECORDING", requires_all = ["wait_warm", "warm_option_file"])]
    warm_with: Option<PathBuf>,
    /// Option file with the account that sends them: it may read the tables.
    #[arg(long, value_name = "FILE", requires = "warm_with")]
    warm_option_file: Option<PathBuf>,
    #[command(flatten)]
    key: KeyArgs,
}

impl WarmArgs {
    /// Waits, if that was asked for; `false` when the candidate is not warm in time.
    ///
    /// # Errors
    /// A server does not answer, or the recording cannot be read or sent.
    pub(super) async fn wait(
        &self,
        snapshot: &Snapshot,
        candidate: &ServerName,
        admin: &Credentials,
        json: bool,
        environment: &Environment,
    ) -> anyhow::Result<bool> {
        let Some(patience) = self.wait_warm else { return Ok(true) };
        let (Some(primary), Some(server)) = (snapshot.primary(), snapshot.server(candidate)) else {
            // The survey says what is wrong, with the servers that there are.
            return Ok(true);
        };
        let stop = StopFlag::listen(|| ());
        let over = Arc::new(AtomicBool::new(false));
        let sending = match &self.warm_with {
            Some(_) => {
                Some(tokio::task::spawn_blocking(self.sender(&server.reach, over.clone(), environment)?))
            }
            None => None,
        };
        let servers = [(&primary.name, &primary.reach), (&server.name, &server.reach)];
        let mut progress = |warmth: Warmth| terminal::complain(&warmth.text());
        // One that could not be sent has said so by its end.
        let given_up = || stop.is_set() || sending.as_ref().is_some_and(tokio::task::JoinHandle::is_finished);
        let waited =
            warmth::wait(servers, admin, Duration::from_secs(5), patience, &given_up, &mut progress).await;
        drop(stop);
        over.store(true, Relaxed);
        if let Some(sending) = sending {
            sending.await.context("sending the reads ended by a panic")??;
        }
        match waited? {
            Waited::Warm { .. } => Ok(true),
            waited @ Waited::NotWarm { last } => {
                if json {
                    terminal::print_json(&waited)?;
                }
                let last = last.map_or_else(|| "nothing was seen".to_owned(), Warmth::text);
                terminal::complain(&format!("{candidate} is not warm: {last}; nothing moves"));
                Ok(false)
            }
        }
    }

    /// What sends the recording's reads until it is over.
    fn sender(
        &self,
        target: &Address,
        over: Arc<AtomicBool>,
        environment: &Environment,
    ) -> anyhow::Result<impl FnOnce() -> anyhow::Result<()> + Send + use<>> {
        let file = self.warm_with.clone().unwrap_or_default();
        let login = self.warm_option_file.as_deref();
        let Reads { script, plan } = reads::open(&file, &self.key, target, login, environment)?;
        Ok(move || Ok(replay::repeat(&script, &plan, &over)?))
    }
}
