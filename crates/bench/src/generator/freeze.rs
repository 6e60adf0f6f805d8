//! A server that stands still for half a second once (SIGSTOP), as three clients see it: the tail of an open
//! loop has it in full, that of a closed loop hardly, because while nothing is answered a closed loop asks
//! nothing.

use super::super::report::section::section;
use super::super::sysbench;
use super::env::{self, BenchEnv, client, figure, ourselves};
use super::{CLIENTS, Tool};
use crate::promise::Promise;
use lab::process::command;
use serde::Serialize;
use std::time::Duration;

/// How long the server stands still.
const STILL: Duration = Duration::from_millis(500);
/// Seconds of each load; the server stands still in the middle.
pub(super) const SECONDS: u32 = 10;
/// Transactions a second of the open loop: far below what the server can serve, so that only the stall shows.
const RATE: u32 = 500;
/// Those who come during the stall need a client each, and some more.
pub(super) const OPEN_CLIENTS: u32 = 350;
/// What of the stall must show at p99.9 to be called in full: with one in twenty arrivals in it, the last of
/// a thousand came within the first hundredth of a second.
const IN_FULL: f64 = 0.9;
/// What may show of it at most to be called hidden.
const HIDDEN: f64 = 0.2;

/// One client's view.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FreezeResult {
    tool: Tool,
    open: bool,
    done: u64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
}

/// Lets each client see it, one after the other.
pub(super) async fn measure(env: &BenchEnv<'_>) -> anyhow::Result<Vec<FreezeResult>> {
    let mut seen = Vec::new();
    for (tool, open) in [(Tool::Headroom, true), (Tool::Headroom, false), (Tool::Sysbench, false)] {
        let load = async {
            let (address, rows) = (env.server.address, env.args.rows);
            match tool {
                Tool::Sysbench => {
                    let arguments = sysbench::run(address, rows, CLIENTS, SECONDS);
                    let (text, _) = client(command(&env.tools[0]), &arguments, &env.log, SECONDS).await?;
                    let found = sysbench::parse(&text)?;
                    let (done, max_ms) = (found.queries, found.max_ms);
                    let (p50_ms, p99_ms, p999_ms) = (found.p50_ms, found.p99_ms, found.p999_ms);
                    anyhow::Ok(FreezeResult { tool, open, done, p50_ms, p99_ms, p999_ms, max_ms })
                }
                Tool::Headroom => {
                    let mut given = vec![
                        ("--table-size", rows.to_string()),
                        ("--time", format!("{SECONDS}s")),
                        ("--text", String::new()),
                        ("--clients", if open { OPEN_CLIENTS } else { CLIENTS }.to_string()),
                    ];
                    given.extend(open.then(|| ("--rate", RATE.to_string())));
                    let arguments = env::load("oltp_point_select", address, &given);
                    let (text, _) = client(command(&ourselves()?), &arguments, &env.log, SECONDS).await?;
                    let found = env::outcome(&text)?;
                    let number = |pointer: &str| figure(&found, pointer);
                    Ok(FreezeResult {
                        tool,
                        open,
                        done: number("/totals/done")? as u64,
                        p50_ms: number("/response/p50_ms")?,
                        p99_ms: number("/response/p99_ms")?,
                        p999_ms: number("/response/p999_ms")?,
                        max_ms: number("/response/max_ms")?,
                    })
                }
            }
        };
        let stall = async {
            tokio::time::sleep(Duration::from_secs(u64::from(SECONDS) / 2)).await;
            env.server.freeze(STILL).await
        };
        seen.push(tokio::try_join!(load, stall)?.0);
    }
    Ok(seen)
}

/// What was asked.
pub(super) fn promise(seen: &[FreezeResult]) -> Promise {
    let still = STILL.as_secs_f64() * 1e3;
    let met = seen
        .iter()
        .all(|seen| if seen.open { seen.p999_ms >= IN_FULL * still } else { seen.p999_ms <= HIDDEN * still });
    let words = |seen: &FreezeResult| format!("{} {:.1} ms", name(seen), seen.p999_ms);
    Promise::new(
        "a stall of 500 ms shows in full at p99.9 in the open loop, and in neither closed one",
        seen.iter().map(words).collect::<Vec<_>>().join(", "),
        met,
    )
}

/// The table.
pub(super) fn table(seen: &[FreezeResult]) -> String {
    let head = ["client", ">done", ">p50 ms", ">p99 ms", ">p99.9 ms", ">max ms"];
    let rows = seen.iter().map(|seen| {
        let mut cells = vec![name(seen), seen.done.to_string()];
        cells.extend([seen.p50_ms, seen.p99_ms, seen.p999_ms, seen.max_ms].map(|ms| format!("{ms:.2}")));
        cells
    });
    section("The server stood still for 500 ms once, point selects for 10 s", &head, rows)
}

fn name(seen: &FreezeResult) -> String {
    let tool = match seen.tool {
        Tool::Sysbench => "sysbench",
        Tool::Headroom => "headroom",
    };
    let how = if seen.open {
        format!("open loop, {RATE} a second")
    } else {
        format!("closed loop, {CLIENTS} clients")
    };
    format!("{tool}, {how}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(tool: Tool, open: bool, p999_ms: f64) -> FreezeResult {
        FreezeResult { tool, open, done: 1000, p50_ms: 0.1, p99_ms: 1.0, p999_ms, max_ms: 501.0 }
    }

    #[test]
    fn the_promise_is_kept_when_only_the_open_loop_shows_the_stall() {
        let kept = [
            seen(Tool::Headroom, true, 496.0),
            seen(Tool::Headroom, false, 1.2),
            seen(Tool::Sysbench, false, 1.3),
        ];
        assert_eq!(promise(&kept).met, Some(true));
        let hidden = [seen(Tool::Headroom, true, 300.0), seen(Tool::Sysbench, false, 1.3)];
        assert_eq!(promise(&hidden).met, Some(false));
        let shown = [seen(Tool::Headroom, true, 496.0), seen(Tool::Sysbench, false, 480.0)];
        assert_eq!(promise(&shown).met, Some(false));
        assert!(table(&kept).contains("| headroom, open loop, 500 a second |"), "{}", table(&kept));
    }
}
