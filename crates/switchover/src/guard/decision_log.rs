//! `guard.jsonl`: each decision that differs from the one before, and what came of it.

use crate::Error;
use crate::error::JournalError;
use crate::journal;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

pub(super) struct DecisionLog {
    file: File,
    path: PathBuf,
}

#[derive(Serialize)]
struct DecisionLine<'a> {
    at_ms: u64,
    decision: &'a str,
    why: &'a str,
}

/// Then it begins anew, and the old one is kept beside it.
const DECISIONS_BYTES: u64 = 8 << 20;

impl DecisionLog {
    pub(super) fn open(path: PathBuf) -> Result<Self, Error> {
        let file = Self::file(&path)
            .map_err(|error| Error::Journal { path: path.clone(), source: JournalError::Io(error) })?;
        Ok(Self { file, path })
    }

    fn file(path: &PathBuf) -> std::io::Result<File> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        OpenOptions::new().append(true).create(true).mode(0o600).open(path)
    }

    /// What cannot be written is logged: a guard that stopped for a full disk would guard nothing.
    pub(super) fn note(&mut self, why: &str, decision: &str) {
        let written = self.try_note(&DecisionLine { at_ms: journal::now_ms(), decision, why });
        if let Err(error) = written {
            tracing::error!(%error, "{} cannot be written", self.path.display());
        }
    }

    fn try_note(&mut self, line: &DecisionLine<'_>) -> std::io::Result<()> {
        if self.file.metadata()?.len() > DECISIONS_BYTES {
            std::fs::rename(&self.path, self.path.with_extension("jsonl.1"))?;
            self.file = Self::file(&self.path)?;
        }
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes())?;
        self.file.sync_data()
    }
}
