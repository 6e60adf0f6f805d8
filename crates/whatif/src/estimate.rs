//! What a larger buffer pool would miss, estimated from the reads of the disk while the server works: nothing
//! is resized and no load is sent. An estimate, less sure than sizes that are tried ([`crate::memory`]);
//! where such a curve of the same server is in the ledger, the two are set beside each other.

use crate::block_reads::{self, BlockReads, PAGE_BYTES, TraceError};
use crate::ledger::{Answer, Entry, Kind, Observed, Prediction};
use crate::load_answer::LEVEL;
use crate::memory::MemoryAnswer;
use crate::server::{POOL_SIZE, Server, ServerError, bytes_of_pool};
use crate::words::{assumed, bytes, figure, percent};
use plan::Interval;
use plan::memory::Curve;
use plan::reads::Request;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use term::Table;

/// What the estimate may be off by, as a share of the misses that it says are saved. From simulated lists; on
/// a real server it has not been held against sizes that were tried.
const MODEL_ERROR: f64 = 0.25;
/// Fewer reads tell nothing.
const FEWEST: usize = 2_000;
/// Where the kernel dropped more than this share of the events, the reads are not those of the server.
const MOST_LOST: f64 = 0.01;

const FLUSH_METHOD: &str = "innodb_flush_method";
const BUFFERING: &str = "innodb_data_file_buffering";
const PAGE_SIZE: &str = "innodb_page_size";

const MISSED: &str = "Innodb_buffer_pool_reads";
const REQUESTS: &str = "Innodb_buffer_pool_read_requests";
const UPTIME: &str = "Uptime";

/// A size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimated {
    pub bytes: u64,
    /// Share of page requests.
    pub miss_ratio: Interval,
    /// By the sizes that were tried on this server, where they reach that far.
    pub measured: Option<Interval>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EstimateAnswer {
    pub subject: String,
    /// Of the pool.
    pub today_bytes: u64,
    pub miss_ratio: f64,
    /// Pages that were seen read.
    pub reads: usize,
    /// Share of the kernel's events that was lost.
    #[serde(default)]
    pub lost_share: f64,
    pub sizes: Vec<Estimated>,
    /// Why there is none.
    pub refused: Option<String>,
}

/// Why it ended.
#[derive(Debug, thiserror::Error)]
pub enum EstimateError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// What the pool misses may come from memory: reads of the disk are fewer than misses.
    #[error(
        "the server reads through the page cache ({variable} = {value}), so that not all that its pool misses is read from the disk; start it with {instead}, or let headroom plan memory try sizes"
    )]
    PageCache {
        variable: &'static str,
        value: String,
        /// What it would have to be.
        instead: &'static str,
    },
    /// Reads are told apart as pages of [`PAGE_BYTES`].
    #[error(
        "its pages have {bytes} bytes (innodb_page_size), and reads are told apart as pages of {PAGE_BYTES}; headroom plan memory tries sizes with pages of any size"
    )]
    PageSize {
        /// As the server says.
        bytes: String,
    },
    /// What it does not tell is not 0.
    #[error("the server does not tell {name} (SHOW GLOBAL STATUS), and what its pool misses is not known")]
    Counter {
        /// The counter.
        name: &'static str,
    },
    /// The pool was emptied, or its counters begun anew.
    #[error(
        "the server was restarted or its counters were reset while its disk was traced; trace again once its pool is warm"
    )]
    Restarted,
}

impl EstimateError {
    /// Whether it is an answer: nothing can be estimated of this server as it is.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::PageCache { .. } | Self::PageSize { .. } | Self::Trace(TraceError::NoDevice { .. })
        )
    }
}

/// What was seen of a server while its disk was traced.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    pub reads: Vec<Request>,
    /// Share of the kernel's events that was lost.
    pub lost_share: f64,
    pub today_bytes: u64,
    pub miss_ratio: f64,
}

/// Traces the disk of a server's data directory for a while, or until `stop`. Blocks.
///
/// # Errors
/// The server does not answer, the kernel does not let us trace, or the reads of the disk are not what the
/// pool misses.
pub fn trace(
    server: &mut Server,
    directory: &Path,
    time: Duration,
    stop: &AtomicBool,
    say: impl FnOnce(&str),
) -> Result<Traced, EstimateError> {
    let variables = server.variables(&[POOL_SIZE, FLUSH_METHOD, BUFFERING, PAGE_SIZE])?;
    reads_what_it_misses(&variables)?;
    let today_bytes = bytes_of_pool(&variables)?;
    block_reads::device_of(directory)?;
    say(&format!("tracing for {} s", time.as_secs()));
    let before = server.counters(&[MISSED, REQUESTS, UPTIME])?;
    counted(&before, &before)?;
    let seen = BlockReads::start(directory)?.collect(time, stop)?;
    let after = server.counters(&[MISSED, REQUESTS, UPTIME])?;
    let miss_ratio = counted(&before, &after)?;
    Ok(Traced { lost_share: seen.lost_share(), reads: seen.reads, today_bytes, miss_ratio })
}

/// The share of the requests between two looks at the counters that missed; 0 where there was none.
fn counted(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> Result<f64, EstimateError> {
    let delta = |name: &'static str| match (before.get(name), after.get(name)) {
        (Some(before), Some(after)) if after < before => Err(EstimateError::Restarted),
        (Some(before), Some(after)) => Ok(after - before),
        _ => Err(EstimateError::Counter { name }),
    };
    delta(UPTIME)?;
    Ok(delta(MISSED)? / delta(REQUESTS)?.max(1.0))
}

/// Whether a server with these variables reads each page that its pool misses from the disk, past the page
/// cache, as one of [`PAGE_BYTES`]. `innodb_data_file_buffering` (MariaDB 11.0 and later) may change while
/// the server runs, and stands above the method that it was started with.
fn reads_what_it_misses(variables: &BTreeMap<String, String>) -> Result<(), EstimateError> {
    let of = |name: &str| variables.get(name).map_or("not known", String::as_str);
    let (variable, past_the_cache, instead) = if variables.contains_key(BUFFERING) {
        (BUFFERING, ["OFF", "0"].contains(&of(BUFFERING)), "innodb_data_file_buffering = OFF")
    } else {
        // With O_DIRECT_NO_FSYNC; ALL_O_DIRECT is Percona's.
        let method = of(FLUSH_METHOD).trim_start_matches("ALL_");
        (FLUSH_METHOD, method.starts_with("O_DIRECT"), "innodb_flush_method = O_DIRECT")
    };
    if !past_the_cache {
        return Err(EstimateError::PageCache { variable, value: of(variable).to_owned(), instead });
    }
    match of(PAGE_SIZE) {
        bytes if bytes.parse::<u64>() == Ok(PAGE_BYTES) => Ok(()),
        bytes => Err(EstimateError::PageSize { bytes: bytes.to_owned() }),
    }
}

/// From what was traced to an answer; `past` is what the ledger has of this server.
pub fn answer(subject: String, traced: &Traced, sizes: &[u64], past: &[Entry]) -> EstimateAnswer {
    let Traced { reads, lost_share, today_bytes, miss_ratio } = traced;
    let (today_bytes, miss_ratio) = (*today_bytes, *miss_ratio);
    let own = past.iter().rev().find(|entry| entry.kind == Kind::Memory && entry.subject == subject);
    let tried = own.and_then(|entry| serde_json::from_value::<MemoryAnswer>(entry.answer.clone()).ok());
    let curve = tried.and_then(|tried| Curve::new(&tried.measured, LEVEL).ok());
    let mut answer = EstimateAnswer {
        subject,
        today_bytes,
        miss_ratio,
        reads: reads.len(),
        lost_share: *lost_share,
        sizes: Vec::new(),
        refused: None,
    };
    if *lost_share > MOST_LOST {
        answer.refused = Some(format!(
            "the kernel lost {:.1} % of its events, and {:.0} % is the most: trace when less is read from or written to that device",
            lost_share * 100.0,
            MOST_LOST * 100.0
        ));
        return answer;
    }
    if reads.len() < FEWEST {
        let count = reads.len();
        answer.refused = Some(format!(
            "{count} reads of pages were seen; {FEWEST} are needed: trace for longer, or the pool is large enough"
        ));
        return answer;
    }
    let unseen = unseen(reads);
    let found = block_reads::estimate(reads, today_bytes, miss_ratio, sizes);
    // Pages are whole: the sizes that were asked for stand in the answer.
    let larger = sizes.iter().filter(|size| **size / PAGE_BYTES > today_bytes / PAGE_BYTES);
    answer.sizes = larger
        .zip(found)
        .map(|(size, one)| {
            let reach = MODEL_ERROR * (miss_ratio - one.miss_ratio).max(0.0);
            let estimate = one.miss_ratio;
            Estimated {
                bytes: *size,
                miss_ratio: Interval {
                    low: (estimate - reach - unseen * miss_ratio).max(0.0),
                    estimate,
                    high: estimate + reach,
                },
                measured: curve.as_ref().and_then(|curve| curve.at(*size)).map(|tried| tried.miss_ratio),
            }
        })
        .collect();
    if answer.sizes.is_empty() {
        answer.refused = Some(format!(
            "no size is larger than today's pool of {}: reads tell nothing of a smaller one; headroom plan memory tries it",
            bytes(today_bytes)
        ));
    }
    answer
}

/// Share of the later half of the reads that is of pages not read before: a larger pool may have had them, or
/// not. A longer trace has fewer.
fn unseen(reads: &[Request]) -> f64 {
    let (first, later) = reads.split_at(reads.len() / 2);
    let mut seen: HashSet<u64> = first.iter().map(|one| one.page).collect();
    let fresh = later.iter().filter(|one| seen.insert(one.page)).count();
    fresh as f64 / later.len().max(1) as f64
}

impl Answer for EstimateAnswer {
    fn about(&self) -> (Kind, String, String) {
        (Kind::Estimate, self.subject.clone(), String::new())
    }

    /// Held against what a later estimate sees of the pool of the same server, once it has that size.
    fn predictions(&self) -> Vec<Prediction> {
        let of = |one: &Estimated| Prediction {
            model: "estimate".to_owned(),
            what: "miss_ratio".to_owned(),
            at: one.bytes as f64,
            cores: None,
            value: one.miss_ratio,
            level: LEVEL,
        };
        self.sizes.iter().map(of).collect()
    }

    fn observed(&self) -> Vec<Observed> {
        let (what, at) = ("miss_ratio".to_owned(), self.today_bytes as f64);
        vec![Observed { what, at, cores: None, value: self.miss_ratio }]
    }

    fn assumptions(&self) -> Vec<String> {
        vec![
            "All reads of the device are of the server's pages, whoever asks; what is read ahead does not count.".to_owned(),
            "Pages that were read once while tracing may stay or go: the lower end is open for them; a longer trace has fewer.".to_owned(),
            format!(
                "The simulation may be wrong by {:.0} % of the misses that it says are saved; that is in the intervals.",
                MODEL_ERROR * 100.0
            ),
        ]
    }

    fn is_good(&self) -> bool {
        self.refused.is_none()
    }

    fn text(&self) -> String {
        let mut text = format!(
            "An estimate from {} reads of pages; the pool of {} is {} today and misses {} %\n",
            self.reads,
            self.subject,
            bytes(self.today_bytes),
            figure(self.miss_ratio * 100.0)
        );
        if self.lost_share > 0.0 {
            let _ = writeln!(text, "The kernel lost {:.2} % of its events.", self.lost_share * 100.0);
        }
        if let Some(why) = &self.refused {
            let _ = writeln!(text, "Nothing is estimated: {why}.");
            return text;
        }
        let mut table = Table::new(&[">size", ">miss, estimated", ">miss, by sizes that were tried"]);
        for one in &self.sizes {
            let tried = one.measured.as_ref().map_or_else(|| "-".to_owned(), percent);
            table.row(vec![bytes(one.bytes), percent(&one.miss_ratio), tried]);
        }
        text += &table.text();
        text += "\nheadroom plan memory tries sizes, and is surer.\n";
        text += &assumed(&self.assumptions());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(pages: u64, count: u64) -> Traced {
        let reads = (0..count).map(|at| Request { at_ms: at as f64, page: at * 7919 % pages }).collect();
        Traced { reads, lost_share: 0.0, today_bytes: 1000 << 14, miss_ratio: 0.2 }
    }

    #[test]
    fn what_comes_back_soon_is_saved_by_a_larger_pool() {
        // 1,000 pages in turn: a list of 1,000 holds all of them, one of 500 none.
        let answer = answer("db1".into(), &traced(1000, 20_000), &[1500 << 14, 2100 << 14], &[]);
        let misses: Vec<f64> = answer.sizes.iter().map(|one| one.miss_ratio.estimate).collect();
        assert!(misses[0] > 0.15 && misses[1] < 0.02, "{answer:?}");
        assert!(answer.text().contains("An estimate"), "{}", answer.text());
    }

    #[test]
    fn pages_that_are_read_once_leave_the_estimate_open_downwards() {
        // 20,000 reads of as many pages: a larger pool may have had all of them.
        let answer = answer("db1".into(), &traced(20_000, 20_000), &[2000 << 14], &[]);
        let found = answer.sizes[0].miss_ratio;
        assert!(found.low < 1e-9 && found.estimate > 0.19, "{found:?}");
    }

    #[test]
    fn a_trace_that_lost_events_is_refused() {
        let of = |lost_share: f64| {
            answer("db1".into(), &Traced { lost_share, ..traced(1000, 20_000) }, &[2000 << 14], &[])
        };
        assert!(of(0.02).refused.unwrap().contains("lost 2.0 %"));
        assert!(of(0.005).is_good() && of(0.005).text().contains("lost 0.50 %"));
    }

    #[test]
    fn an_estimate_is_judged_by_what_the_pool_misses_once_it_has_that_size() {
        let before = answer("db1".into(), &traced(1000, 20_000), &[2100 << 14], &[]);
        let grown = Traced { today_bytes: 2100 << 14, miss_ratio: 0.15, ..traced(1000, 20_000) };
        let after = answer("db1".into(), &grown, &[4000 << 14], &[]);
        let check = crate::outcome::check(&[Entry::of(&before).unwrap(), Entry::of(&after).unwrap()]);
        assert_eq!((check.judged.len(), check.judged[0].came, check.judged[0].held), (1, 0.15, false));
    }

    #[test]
    fn a_server_whose_misses_need_not_reach_the_disk_is_refused_with_what_to_do() {
        let of = |all: &[(&str, &str)]| {
            let variables = all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            reads_what_it_misses(&variables.collect())
        };
        let whole = (PAGE_SIZE, "16384");
        for method in ["O_DIRECT", "O_DIRECT_NO_FSYNC", "ALL_O_DIRECT"] {
            assert!(of(&[(FLUSH_METHOD, method), whole]).is_ok(), "{method}");
        }
        for method in ["fsync", "O_DSYNC", ""] {
            let refused = of(&[(FLUSH_METHOD, method), whole]).unwrap_err();
            assert!(
                refused.is_refusal() && refused.to_string().contains(&format!("({FLUSH_METHOD} = {method})"))
            );
            assert!(
                refused.to_string().contains("start it with innodb_flush_method = O_DIRECT"),
                "{refused}"
            );
        }
        // MariaDB 11: what it was started with is not what it does now.
        let newer = |buffering: &str| of(&[(FLUSH_METHOD, "O_DIRECT"), (BUFFERING, buffering), whole]);
        assert!(newer("OFF").is_ok());
        assert!(newer("ON").unwrap_err().to_string().contains("innodb_data_file_buffering = OFF"));
        let small = of(&[(FLUSH_METHOD, "O_DIRECT"), (PAGE_SIZE, "4096")]).unwrap_err();
        assert!(small.is_refusal() && small.to_string().contains("4096 bytes"), "{small}");
        assert!(of(&[]).unwrap_err().to_string().contains("innodb_flush_method = not known"));
        assert!(!EstimateError::Trace(TraceError::NotMounted).is_refusal());
    }

    #[test]
    fn counters_that_are_not_told_or_were_begun_anew_are_an_error_and_no_ratio() {
        let at = |all: &[(&str, f64)]| -> BTreeMap<String, f64> {
            all.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let before = at(&[(MISSED, 1000.0), (REQUESTS, 50_000.0), (UPTIME, 900.0)]);
        let later = at(&[(MISSED, 1200.0), (REQUESTS, 51_000.0), (UPTIME, 1020.0)]);
        assert_eq!(counted(&before, &later).unwrap(), 0.2);
        assert_eq!(counted(&before, &before).unwrap(), 0.0, "an idle server");
        // Restarted: it has caught up with one of them only.
        for anew in [
            at(&[(MISSED, 1200.0), (REQUESTS, 40_000.0), (UPTIME, 100.0)]),
            at(&[(MISSED, 1200.0), (REQUESTS, 90_000.0), (UPTIME, 100.0)]),
            at(&[(MISSED, 10.0), (REQUESTS, 90_000.0), (UPTIME, 1020.0)]),
        ] {
            let error = counted(&before, &anew).unwrap_err();
            assert!(matches!(error, EstimateError::Restarted) && !error.is_refusal(), "{error}");
        }
        let without = at(&[(MISSED, 1200.0), (UPTIME, 1020.0)]);
        let error = counted(&before, &without).unwrap_err().to_string();
        assert!(error.contains("does not tell Innodb_buffer_pool_read_requests"), "{error}");
    }

    #[test]
    fn too_few_reads_and_smaller_pools_are_refused() {
        let few = answer("db1".into(), &traced(1000, 100), &[2000 << 14], &[]);
        assert!(few.refused.unwrap().contains("100 reads"));
        let smaller = answer("db1".into(), &traced(1000, 20_000), &[500 << 14], &[]);
        assert!(smaller.text().contains("reads tell nothing of a smaller one"));
    }
}
