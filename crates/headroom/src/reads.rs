//! Reads: what a recording reads, ready to be sent to one server by an account of its own.

use crate::commands::load::{account_with_tls, tls::TlsArgs};
use crate::environment::Environment;
use crate::key::KeyArgs;
use anyhow::bail;
use fleet::Address;
use load::replay::{self, ReplayPlan, Script, ScriptOptions, compare};
use std::path::Path;
use std::time::Duration;
use term::terminal;

/// A recording may take this much memory.
const MEMORY: u64 = 1 << 30;

/// What is sent, and how.
pub(crate) struct Reads {
    pub script: Script,
    pub plan: ReplayPlan,
}

impl Reads {
    /// Of this recording, to this server, as the account of this option file.
    ///
    /// # Errors
    /// The recording cannot be read or has nothing that can be sent; no account is named.
    pub(crate) fn open(
        file: &Path,
        key: &KeyArgs,
        target: &Address,
        option_file: Option<&Path>,
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        let options = ScriptOptions { read_only: true, memory: MEMORY };
        let (script, _) = replay::open(file, key.key()?.as_ref(), options)?;
        if script.steps.is_empty() {
            bail!("{}: nothing of it can be sent: {}", file.display(), compare::why_nothing(&script));
        }
        let (account, tls) = account_with_tls(None, option_file, "", &TlsArgs::default(), environment)?;
        let plan = ReplayPlan {
            target: target.clone(),
            tls,
            account,
            speed: 1.0,
            read_only: true,
            threads: 1,
            grace: Duration::from_secs(1),
        };
        terminal::complain(&format!(
            "sending {target} the {} reads of {} as {}",
            script.steps.len(),
            file.display(),
            plan.account.user
        ));
        Ok(Self { script, plan })
    }
}
