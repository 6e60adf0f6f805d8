//! Key: where the key of a recording comes from. Never from the command line, where every user of the machine
//! could read it.

use crate::environment;
use anyhow::{Context, bail};
use clap::Args;
use recording::Key;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Flags that name a key.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct KeyArgs {
    /// The recording is sealed with the key in this file: 64 hexadecimal digits (openssl rand -hex 32 > FILE;
    /// chmod 600 FILE).
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The same with the key in this environment variable.
    #[arg(long, value_name = "VARIABLE", conflicts_with = "key_file")]
    key_env: Option<String>,
}

impl KeyArgs {
    /// The key, if one is named.
    ///
    /// # Errors
    /// A file that others may read, or that cannot be read; a variable that is not set; a text that is no
    /// key.
    pub(crate) fn key(&self) -> anyhow::Result<Option<Key>> {
        let (text, from) = match (&self.key_file, &self.key_env) {
            (Some(path), _) => {
                let from = path.display().to_string();
                let mode = std::fs::metadata(path).map_or(0, |found| found.permissions().mode());
                if mode & 0o077 != 0 {
                    bail!(
                        "{from} holds a key and others may read it (mode {:03o}); run chmod 600 {from}",
                        mode & 0o777
                    );
                }
                (
                    std::fs::read_to_string(path)
                        .with_context(|| format!("cannot read the key file {from}"))?,
                    from,
                )
            }
            (None, Some(name)) => {
                let text = environment::variable(name).with_context(|| {
                    format!("--key-env names the variable {name}, and it is not set; export it")
                })?;
                (text, format!("${name}"))
            }
            (None, None) => return Ok(None),
        };
        Key::parse(&text).with_context(|| format!("the key in {from} cannot be used")).map(Some)
    }
}
