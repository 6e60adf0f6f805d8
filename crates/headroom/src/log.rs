//! Log lines on standard error, for people or as JSON.

use crate::cli::LogFormat;
use tracing_subscriber::EnvFilter;

/// Sets up logging. `filter` is the flag or the variable, e.g. `info` or `router=debug`; once per process.
///
/// # Errors
/// The filter cannot be understood.
pub(crate) fn start(format: LogFormat, filter: Option<&str>) -> anyhow::Result<()> {
    let filter = filter.unwrap_or("info");
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        anyhow::anyhow!(
            "--log {filter}: {error}; write a level (warn, info, debug) or part=level (router=debug)"
        )
    })?;
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let started = match format {
        LogFormat::Text => lines.compact().with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}
