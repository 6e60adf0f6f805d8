//! `headroom record`: what clients send, from a running router or from a server's log, into a file for
//! `headroom replay`.

mod from_log;
mod live;
mod output;

use crate::environment::Environment;
use crate::key::KeyArgs;
use clap::Args;
use recording::log::Kind;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use term::terminal;

const EXAMPLES: &str = "\
Examples:
  openssl rand -hex 32 > record.key; chmod 600 record.key
  headroom record --for 60s --out monday.hrec --key-file record.key
      Everything that passes through the router of this host for a minute, sealed.
  headroom record --for 10m --sample 1/10 --out sample.hrec --key-file record.key
      One session in ten, each whole.
  headroom record --from-general-log /var/log/mysql/mysql.log --out log.hrec --key-file record.key
      What a server has logged; moments are as exact as its log.
  headroom replay monday.hrec --key-file record.key --server test-db:3306 --user replay

A recording holds what your clients sent: literals of people's data. Without a key they stand in the file as they are.
Passwords are not knowingly recorded. While it goes on, the router's status page, `headroom status` and the metric
headroom_recording say so, and it ends by itself. Ctrl-C ends it early, with a whole file. What is kept and what is not:
docs/guide/record.md.";

/// Record what clients send, for a replay.
///
/// Takes the commands that pass through a running `headroom route` of this host, with their moments and what
/// came of them, and writes them to a file. Or takes them from what a server has logged.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecordArgs {
    /// Admin address of the running router (its first listener, if it has none) [default: $HEADROOM_ADMIN,
    /// else 127.0.0.1:9306]. Only its own user may record.
    #[arg(long, value_name = "ADDR")]
    router: Option<String>,
    /// For how long, at most 24h.
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = fleet::parse_duration)]
    time: Duration,
    /// One session in this many, as 1/N.
    #[arg(long, value_name = "1/N", default_value = "1/1", value_parser = sample)]
    sample: u32,
    /// Take it from a slow log of MariaDB or MySQL in place of a router ('-' is standard input).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["router", "time", "sample", "from_general_log"])]
    from_slow_log: Option<PathBuf>,
    /// The same from a general log.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["router", "time", "sample"])]
    from_general_log: Option<PathBuf>,
    /// The file. It is made for you alone (mode 600).
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    key: KeyArgs,
    /// Print what was recorded as JSON.
    #[arg(long)]
    json: bool,
}

/// What was recorded.
#[derive(Clone, Debug, Default, Serialize)]
struct Recorded {
    file: PathBuf,
    sealed: bool,
    seconds: f64,
    sessions: u64,
    commands: u64,
    /// Events that are missing because this command could not keep up.
    lost: u64,
    /// Sessions that bypassed the router when it began.
    bypassed: u64,
    /// Sessions that it relayed then.
    relayed: u64,
    bytes: u64,
    /// Why it ended.
    ended: String,
    /// Where nothing was recorded: what to do.
    advice: Vec<String>,
}

/// Runs `headroom record`.
pub(crate) async fn run(args: RecordArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let key = args.key.key()?;
    if key.is_none() {
        terminal::complain(
            "note: no key is given, so literals stand in the file as they are (--key-file seals it)",
        );
    }
    let mut recorded = match (&args.from_slow_log, &args.from_general_log) {
        (Some(log), _) => from_log::record(&args, Kind::Slow, log, key.as_ref())?,
        (None, Some(log)) => from_log::record(&args, Kind::General, log, key.as_ref())?,
        (None, None) => live::record(&args, key.as_ref(), environment).await?,
    };
    recorded.advice = recorded.advise(args.from_slow_log.is_none() && args.from_general_log.is_none());
    if args.json {
        terminal::print_json(&recorded)?;
    } else {
        terminal::print(&recorded.text())?;
    }
    Ok(if recorded.commands == 0 { term::exit::no() } else { term::exit::DONE })
}

impl Recorded {
    fn text(&self) -> String {
        let Self { seconds, sessions, commands, lost, bypassed, bytes, ended, .. } = self;
        let mut text = format!(
            "{commands} commands of {sessions} sessions in {seconds:.1} s, {:.1} MB{}, in {}; {ended}.\n",
            *bytes as f64 / 1e6,
            if self.sealed { " sealed" } else { "" },
            self.file.display()
        );
        if *lost > 0 {
            text += &format!(
                "{lost} events are missing: this command could not keep up with them. A sample (--sample) is smaller.\n"
            );
        }
        if *bypassed > 0 {
            text += &format!(
                "{bypassed} sessions bypassed the router when it began (zero-hop) and are not in it; those opened since are.\n"
            );
        }
        for line in &self.advice {
            text += &format!("Nothing was recorded: {line}.\n");
        }
        text
    }

    /// What to do where nothing came.
    fn advise(&self, live: bool) -> Vec<String> {
        if self.commands > 0 {
            return Vec::new();
        }
        if !live {
            return vec![
                "the log has no statement that was understood; is it the right file and kind?".to_owned(),
            ];
        }
        let mut advice = Vec::new();
        if self.bypassed > 0 {
            advice.push(format!(
                "{} sessions bypass the router, and the router does not see what they send. While it records, new sessions \
                 pass through it: have the pool open its connections anew (restart it, or wait for their maximal age) while \
                 this command runs, or set zero_hop = \"off\" first and reload",
                self.bypassed
            ));
        }
        if self.relayed > 0 {
            advice.push(format!(
                "{} sessions were relayed, and none sent a command that begins outside a transaction and can be read; record \
                 for longer (--for)",
                self.relayed
            ));
        }
        if self.bypassed + self.relayed == 0 {
            advice.push(
                "no client was connected; is it the router that your clients use (--router)?".to_owned(),
            );
        }
        advice
    }
}

fn sample(text: &str) -> Result<u32, String> {
    let n = text.strip_prefix("1/").and_then(|n| n.parse().ok()).filter(|n| *n > 0);
    n.ok_or_else(|| format!("'{text}' is no sample; write 1/10 for one session in ten"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_came_it_says_why_and_what_to_do() {
        let of = |bypassed, relayed, commands| {
            Recorded { bypassed, relayed, commands, ..Recorded::default() }.advise(true).join("\n")
        };
        assert!(of(20, 0, 0).contains("20 sessions bypass the router"), "{}", of(20, 0, 0));
        assert!(of(0, 3, 0).contains("outside a transaction") && !of(0, 3, 0).contains("bypass"));
        assert!(of(0, 0, 0).contains("--router"));
        assert_eq!(of(20, 3, 1), "");
        assert!(Recorded::default().advise(false)[0].contains("log"));
    }

    #[test]
    fn a_sample_is_one_in_so_many() {
        assert_eq!((sample("1/1"), sample("1/16")), (Ok(1), Ok(16)));
        for wrong in ["1/0", "0.1", "10", "2/3", ""] {
            assert!(sample(wrong).is_err(), "{wrong}");
        }
    }
}
