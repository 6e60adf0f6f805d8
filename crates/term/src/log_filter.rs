//! Which log filters are right: a level, or `part=level`, separated by commas. The library behind takes any
//! word for a part, so that `verbose` would be accepted and nothing be logged.

use std::str::FromStr;
use tracing_subscriber::filter::LevelFilter;

/// Our crates that log.
const OURS: [&str; 13] = [
    "headroom",
    "daemon",
    "router",
    "observe",
    "console",
    "agent",
    "diagnose",
    "knob",
    "switchover",
    "load",
    "lab",
    "otlp",
    "probe",
];
/// Libraries below them that have something to say.
const LIBRARIES: [&str; 10] =
    ["axum", "h2", "hyper", "hyper_util", "mio", "mysql_async", "rustls", "tokio", "tokio_util", "tower"];

const RIGHT: &str =
    "write a level (error, warn, info, debug, trace, off) or part=level (router=debug), with commas";

/// Why a filter is not right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// Not one of the words for how much is logged.
    #[error("'{level}' is no level; {RIGHT}")]
    Level { level: String },
    /// Nothing that logs has this name.
    #[error("no part is called '{part}': there are {}; {RIGHT}", OURS.join(", "))]
    Part { part: String },
}

/// The filter as it was given.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn right(filter: &str) -> Result<String, FilterError> {
    for one in filter.split(',').map(str::trim) {
        let (part, level) = match one.split_once('=') {
            Some((part, level)) => (Some(part), level),
            None => (None, one),
        };
        if LevelFilter::from_str(level).is_err() || level.is_empty() {
            return Err(FilterError::Level { level: level.to_owned() });
        }
        let logs = |part: &str| {
            let name = part.split("::").next().unwrap_or(part);
            OURS.contains(&name) || LIBRARIES.contains(&name)
        };
        if let Some(part) = part.filter(|part| !logs(part)) {
            return Err(FilterError::Part { part: part.to_owned() });
        }
    }
    Ok(filter.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_parts_are_accepted_and_other_words_refused_with_what_would_be_right() {
        for good in [
            "info",
            "WARN",
            "off",
            "router=debug",
            "warn,router=debug, observe::watch=trace",
            "info,hyper=warn",
            "switchover=debug",
            "probe=debug",
        ] {
            assert_eq!(right(good).as_deref(), Ok(good));
        }
        for (bad, says) in [
            ("verbose", "'verbose' is no level"),
            ("", "'' is no level"),
            ("router=", "'' is no level"),
            ("router=loud", "'loud' is no level"),
            ("ruoter=debug", "no part is called 'ruoter'"),
            ("info,", "'' is no level"),
        ] {
            let said = right(bad).unwrap_err().to_string();
            assert!(said.contains(says) && said.contains("router=debug"), "{bad}: {said}");
        }
    }
}
