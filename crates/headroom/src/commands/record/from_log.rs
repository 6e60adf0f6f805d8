//! From a log: what a server has logged, as a recording.

use super::output::Output;
use super::{RecordArgs, Recorded};
use anyhow::Context;
use recording::log::{self, Kind};
use recording::{Event, Key};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Reads a log to its end.
///
/// # Errors
/// A file that cannot be read or made, or that is no such log; then no recording is left.
pub(super) fn record(
    args: &RecordArgs,
    kind: Kind,
    path: &Path,
    key: Option<&Key>,
) -> anyhow::Result<Recorded> {
    let named = || path.display().to_string();
    let input: Box<dyn BufRead> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin().lock()),
        _ => Box::new(BufReader::new(File::open(path).with_context(|| format!("cannot open {}", named()))?)),
    };
    let mut output = Output::create(&args.out, args.force, key)?;
    let mut recorded = Recorded { file: args.out.clone(), sealed: key.is_some(), ..Recorded::default() };
    let what = if kind == Kind::Slow { "slow log" } else { "general log" };
    let read = log::read(kind, input, &format!("{what} {}", named()), |event: &Event| {
        recorded.count(event);
        output.push(event)
    });
    if let Err(error) = read {
        // Only we have written to it.
        let _ = std::fs::remove_file(&args.out);
        return Err(error).with_context(named);
    }
    recorded.bytes = output.finish()?;
    Ok(recorded)
}
