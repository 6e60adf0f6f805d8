//! The reads of a recording, with the key and the account that flags name.

use crate::commands::load::{account_with_tls, tls::TlsArgs};
use crate::environment::Environment;
use crate::key::KeyArgs;
use fleet::Address;
use load::replay::Reads;
use std::path::Path;
use term::terminal;

/// Those of this recording, ready to be sent to this server as the account of this option file.
///
/// # Errors
/// The recording cannot be read or has nothing that can be sent; no account is named.
pub(crate) fn open(
    file: &Path,
    key: &KeyArgs,
    target: &Address,
    option_file: Option<&Path>,
    environment: &Environment,
) -> anyhow::Result<Reads> {
    let (account, tls) = account_with_tls(None, option_file, "", &TlsArgs::default(), environment)?;
    let reads = Reads::open(file, key.key()?.as_ref(), target, account, tls)?;
    terminal::complain(&format!(
        "sending {target} the {} reads of {} as {}",
        reads.script.steps.len(),
        file.display(),
        reads.plan.account.user
    ));
    Ok(reads)
}
