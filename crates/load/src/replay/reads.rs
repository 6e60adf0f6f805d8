//! The reads of a recording, ready to be sent to one server again and again: to warm it, or to time it.

use super::{ReplayPlan, Script, ScriptOptions, compare, open};
use crate::error::LoadError;
use crate::login::Account;
use config::Tls;
use fleet::Address;
use recording::Key;
use std::path::Path;
use std::time::Duration;

/// A recording may take this much memory.
const MEMORY: u64 = 1 << 30;

/// What is sent, and how.
#[derive(Debug)]
pub struct Reads {
    pub script: Script,
    pub plan: ReplayPlan,
}

impl Reads {
    /// Of this recording, at its own pace, to this server as this account.
    ///
    /// # Errors
    /// The recording cannot be read or has nothing that can be sent.
    pub fn open(
        file: &Path,
        key: Option<&Key>,
        target: &Address,
        account: Account,
        tls: Option<Tls>,
    ) -> Result<Self, LoadError> {
        let (script, _) = open(file, key, ScriptOptions { read_only: true, memory: MEMORY })?;
        if script.steps.is_empty() {
            let why = compare::why_nothing(&script);
            return Err(LoadError::NothingToSend { path: file.to_owned(), why });
        }
        let plan = ReplayPlan {
            target: target.clone(),
            tls,
            account,
            speed: 1.0,
            read_only: true,
            threads: 1,
            grace: Duration::from_secs(1),
        };
        Ok(Self { script, plan })
    }
}
