//! Which log filters are right: a level, or `part=level`, separated by commas. The library behind takes any
//! word for a part, so that `verbose` would be accepted and nothing be logged.

use std::str::FromStr;
use tracing_subscriber::filter::LevelFilter;

/// Our crates that log.
const OURS: [&str; 10] =
    ["headroom", "router", "observe", "console", "agent", "diagnose", "knob", "switchover", "load", "lab"];
/// Libraries below them that have something to say.
const LIBRARIES: [&str; 10] =
    ["axum", "h2", "hyper", "hyper_util", "mio", "mysql_async", "rustls", "tokio", "tokio_util", "tower"];

/// The filter as it was given.
///
/// # Errors
/// A sentence that says what is wrong and what would be right.
pub fn right(filter: &str) -> Result<String, String> {
    let complain = |what: &str| {
        format!(
            "{what}; write a level (error, warn, info, debug, trace, off) or part=level (router=debug), with commas"
        )
    };
    for one in filter.split(',').map(str::trim) {
        let (part, level) = match one.split_once('=') {
            Some((part, level)) => (Some(part), level),
            None => (None, one),
        };
        if LevelFilter::from_str(level).is_err() || level.is_empty() {
            return Err(complain(&format!("'{level}' is no level")));
        }
        let logs = |part: &str| {
            let name = part.split("::").next().unwrap_or(part);
            OURS.contains(&name) || LIBRARIES.contains(&name)
        };
        if let Some(part) = part.filter(|part| !logs(part)) {
            return Err(complain(&format!("no part is called '{part}': there are {}", OURS.join(", "))));
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
            let said = right(bad).unwrap_err();
            assert!(said.contains(says) && said.contains("router=debug"), "{bad}: {said}");
        }
    }
}
