//! Log lines on standard error, for people or as JSON. A full disk below them stops nobody: see [`Lines`].

use crate::cli::LogFormat;
use crate::no_room::Lines;
use std::io::{self, Write};
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

/// Sets up logging. `filter` is the flag or the variable, e.g. `info` or `router=debug`; once per process.
///
/// # Errors
/// The filter cannot be understood.
pub(crate) fn start(format: LogFormat, filter: Option<&str>) -> anyhow::Result<()> {
    let filter = filter.unwrap_or("info");
    crate::log_filter::right(filter).map_err(|why| anyhow::anyhow!("HEADROOM_LOG: {why}"))?;
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        anyhow::anyhow!(
            "--log {filter}: {error}; write a level (warn, info, debug) or part=level (router=debug)"
        )
    })?;
    let to = Arc::new(Lines::new(match format {
        LogFormat::Text => missing_in_words,
        LogFormat::Json => missing_as_json,
    }));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Log(to.clone()))
        .with_target(false);
    let started = match format {
        LogFormat::Text => lines.compact().with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}

/// Takes one event at a time, as a whole line.
struct Log(Arc<Lines>);

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Nobody else can be told: what is missing is told here, when it can be.
        let _ = self.0.write(&mut io::stderr().lock(), line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn missing_in_words(lines: u64, why: &str) -> String {
    format!("WARN {lines} log lines are missing here: {why}")
}

fn missing_as_json(lines: u64, why: &str) -> String {
    let message = "log lines are missing here";
    serde_json::json!({ "level": "WARN", "message": message, "lines": lines, "why": why }).to_string()
}
