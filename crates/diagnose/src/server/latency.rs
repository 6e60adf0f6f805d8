//! How long statements take, by the server's own count: a histogram over all, and the statements that take
//! most time.
//!
//! MySQL 8 counts both always (`performance_schema`); MariaDB has the histogram with the plugin
//! `query_response_time` and statements with `performance_schema` on, without quantiles. Where neither is
//! there, the router's own timing is the only one.

use super::question;
use observe::Rows;
use serde::{Deserialize, Serialize};
use term::printable;

/// Statements by duration since some beginning, in ranges of rising limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram(Vec<Range>);

/// A range of durations, and how many statements it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// They took more than this, milliseconds.
    pub from_ms: f64,
    /// And at most this; infinite for the last.
    pub to_ms: f64,
    pub statements: u64,
}

/// Statements that took at most some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithinLimit {
    pub good: u64,
    pub all: u64,
}

/// Statements whose counts are kept while they do not end.
const REMEMBERED: usize = 200;
/// A limit of a range that is so near is the time that was asked for; MySQL's ranges are 4.7 % wide.
const NEAR: f64 = 1.05;

/// Durations that a share of statements kept below, milliseconds: upper limits of the ranges they fall into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    pub statements: u64,
    pub p50_ms: f64,
    /// 95 of 100.
    pub p95_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
}

/// Statements told apart, since the server's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Digests {
    /// Those that ended lately, the one that took most time first.
    pub lately: Vec<Digest>,
    /// Those that were in the list before and have not ended since: their counts still hold.
    pub earlier: Vec<Digest>,
    /// When that was so, by the server's clock, seconds since 1970.
    pub asked_s: Option<f64>,
    /// Time of all statements, milliseconds; of those that are not in the list too.
    pub all_ms: f64,
    /// The account may not read them.
    pub refused: bool,
}

/// A kind of statement since the server's start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// What tells it from others: the default schema it ran in, and the server's hash of it; `None` of the
    /// statements that the server has no room to tell apart.
    #[serde(default)]
    pub key: (Option<String>, Option<String>),
    /// Its text with literals left out.
    pub text: String,
    pub calls: u64,
    /// When one of them ended first, by the server's clock, seconds since 1970; MariaDB's are whole seconds.
    #[serde(skip)]
    pub began_s: Option<f64>,
    /// Mean duration, milliseconds.
    pub mean_ms: f64,
    /// 95 of 100 took at most this long.
    pub p95_ms: Option<f64>,
    /// 99 of 100.
    pub p99_ms: Option<f64>,
    /// Rows looked at, each time.
    pub rows_examined: f64,
    /// Rows sent to the client, each time.
    pub rows_sent: f64,
}

/// The statement that took most of the time of a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopStatement {
    /// Its text with literals left out.
    pub text: String,
    /// Of the time that all statements took, 0 to 1.
    pub share: f64,
    pub calls: u64,
    pub mean_ms: f64,
    /// Rows looked at and rows sent, each time.
    pub rows_examined: f64,
    pub rows_sent: f64,
}

/// What ended of one statement since some moment.
struct Added {
    calls: u64,
    /// The time of those calls, and what can have passed of it since that moment.
    ms: f64,
    since_ms: f64,
    examined: f64,
    sent: f64,
}

/// What took most time since `before`; `None` where nothing was added.
///
/// A statement is counted when it ends, with all that it took: a report of ten minutes would be all the time
/// of the five seconds in which it ended. So of each call no more counts than passed since `before`.
pub(super) fn top(before: &Digests, now: &Digests) -> Option<TopStatement> {
    // The table was emptied in between, or nothing ended.
    let total = Some(now.all_ms - before.all_ms).filter(|total| *total > 0.0)?;
    let apart_ms = now.asked_s.zip(before.asked_s).map(|(now, then)| (now - then) * 1e3);
    let at_most = |calls: u64| apart_ms.filter(|ms| *ms > 0.0).map_or(f64::INFINITY, |ms| ms * calls as f64);
    let added = |digest: &Digest| {
        let zero = Digest { calls: 0, mean_ms: 0.0, rows_examined: 0.0, rows_sent: 0.0, ..digest.clone() };
        let then = before.find(digest).filter(|then| then.calls <= digest.calls).unwrap_or(&zero);
        let calls = digest.calls - then.calls;
        let sum = |of: fn(&Digest) -> f64| {
            (of(digest) * digest.calls as f64 - of(then) * then.calls as f64).max(0.0)
        };
        let ms = sum(|d| d.mean_ms);
        let since_ms = ms.min(at_most(calls));
        Added { calls, ms, since_ms, examined: sum(|d| d.rows_examined), sent: sum(|d| d.rows_sent) }
    };
    // One that was not known before may have been called long ago.
    let is_new =
        |digest: &Digest| before.asked_s.zip(digest.began_s).is_some_and(|(then, began)| began > then);
    let known = now.lately.iter().filter(|digest| is_new(digest) || before.find(digest).is_some());
    let all: Vec<(&Digest, Added)> =
        known.map(|digest| (digest, added(digest))).filter(|(_, of)| of.calls > 0).collect();
    let earlier_ms: f64 = all.iter().map(|(_, of)| of.ms - of.since_ms).sum();
    let (digest, most) = all.into_iter().max_by(|(_, a), (_, b)| a.since_ms.total_cmp(&b.since_ms))?;
    let each = |sum: f64| sum / most.calls as f64;
    Some(TopStatement {
        text: digest.text.clone(),
        share: most.since_ms / (total - earlier_ms).max(most.since_ms).max(1e-9),
        calls: most.calls,
        mean_ms: each(most.ms),
        rows_examined: each(most.examined),
        rows_sent: each(most.sent),
    })
}

impl Digests {
    /// With what was known `before` of those that have not ended since: one that begins again later counts
    /// from the first time it is seen.
    ///
    /// Whatever is not in a list that has room for more has not ended for [`question::LATELY_S`].
    pub(super) fn following(mut self, before: &Self) -> Self {
        let apart_s = self.asked_s.zip(before.asked_s).map(|(now, then)| now - then);
        // Nor was the table emptied.
        let seen_all = self.lately.len() < question::MOST_DIGESTS && self.all_ms >= before.all_ms;
        if seen_all && apart_s.is_some_and(|s| (0.0..f64::from(question::LATELY_S)).contains(&s)) {
            let known = before.lately.iter().chain(&before.earlier);
            let rest = known.filter(|then| self.lately.iter().all(|digest| digest.key != then.key));
            self.earlier = rest.take(REMEMBERED).cloned().collect();
        }
        self
    }

    /// What is known of a statement.
    fn find(&self, digest: &Digest) -> Option<&Digest> {
        self.lately.iter().chain(&self.earlier).find(|known| known.key == digest.key)
    }
}

impl Histogram {
    /// Reads rows of `upper_s`, `statements` and, where empty ranges are left out, `lower_s`; `None` when
    /// nothing was ever counted (the plugin is loaded and off).
    pub(super) fn read(rows: &Rows) -> Option<Self> {
        let mut all: Vec<(Option<f64>, Range)> = rows
            .iter()
            .filter_map(|row| {
                // MariaDB's last range has words in place of a limit.
                let upper_s = row.parse::<f64>(&["upper_s"]).unwrap_or(f64::INFINITY);
                let statements = row.parse::<u64>(&["statements"])?;
                let range = Range { from_ms: 0.0, to_ms: upper_s * 1e3, statements };
                Some((row.parse::<f64>(&["lower_s"]), range))
            })
            .collect();
        all.sort_by(|a, b| a.1.to_ms.total_cmp(&b.1.to_ms));
        let mut before_ms = 0.0;
        let ranges: Vec<Range> = all
            .into_iter()
            .map(|(lower_s, range)| {
                let from_ms = lower_s.map_or(before_ms, |lower| lower * 1e3);
                before_ms = range.to_ms;
                Range { from_ms, ..range }
            })
            .collect();
        ranges.iter().any(|range| range.statements > 0).then_some(Self(ranges))
    }

    /// What was added since `before`; everything, if it was reset in between.
    pub fn since(&self, before: &Self) -> Self {
        let of = |all: &Self, to_ms: f64| {
            all.0.iter().find(|range| range.to_ms == to_ms).map_or(0, |range| range.statements)
        };
        if before.0.iter().any(|range| of(self, range.to_ms) < range.statements) {
            return self.clone();
        }
        let added =
            |range: &Range| Range { statements: range.statements - of(before, range.to_ms), ..*range };
        Self(self.0.iter().map(added).collect())
    }

    /// How many statements took at most `limit_ms`, known to 5 % of it.
    ///
    /// # Errors
    /// The range that the limit lies in, when it is wider than that.
    pub fn within(&self, limit_ms: f64) -> Result<WithinLimit, Range> {
        let straddles = |range: &&Range| range.to_ms > limit_ms * NEAR && range.from_ms < limit_ms / NEAR;
        if let Some(range) = self.0.iter().find(straddles) {
            return Err(*range);
        }
        let good = self.0.iter().filter(|range| range.to_ms <= limit_ms * NEAR);
        Ok(WithinLimit {
            good: good.map(|range| range.statements).sum(),
            all: self.0.iter().map(|range| range.statements).sum(),
        })
    }

    /// Quantiles; `None` when nothing was counted.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let statements: u64 = self.0.iter().map(|range| range.statements).sum();
        if statements == 0 {
            return None;
        }
        let longest = self.0.iter().rev().map(|range| range.to_ms).find(|to_ms| to_ms.is_finite());
        let at = |share: f64| {
            let wanted = (share * statements as f64).ceil() as u64;
            let mut sum = 0;
            let found = self.0.iter().find(|range| {
                sum += range.statements;
                sum >= wanted
            });
            found.map(|range| range.to_ms).filter(|to_ms| to_ms.is_finite()).or(longest).unwrap_or(0.0)
        };
        Some(Quantiles { statements, p50_ms: at(0.5), p95_ms: at(0.95), p99_ms: at(0.99) })
    }
}

/// Reads rows of `in_schema`, `digest`, `text`, `calls`, `began_s`, `ms`, `p95_ms`, `p99_ms`, `examined`,
/// `sent`, and `all_ms` and `asked_s`, the same in each.
pub(super) fn digests(rows: &Rows) -> Digests {
    let of_all = |name: &str| rows.first().and_then(|row| row.parse(&[name]));
    let (all_ms, asked_s) = (of_all("all_ms").unwrap_or(0.0), of_all("asked_s"));
    let lately = rows
        .iter()
        .filter_map(|row| {
            let calls = row.parse::<u64>(&["calls"]).filter(|calls| *calls > 0)?;
            let word = |name: &str| row.text(&[name]).map(str::to_owned);
            Some(Digest {
                key: (word("in_schema"), word("digest")),
                text: printable(row.text(&["text"]).unwrap_or("(statements beyond the table of digests)")),
                calls,
                began_s: row.parse(&["began_s"]),
                mean_ms: row.parse::<f64>(&["ms"]).unwrap_or(0.0) / calls as f64,
                p95_ms: row.parse(&["p95_ms"]),
                p99_ms: row.parse(&["p99_ms"]),
                rows_examined: row.parse::<f64>(&["examined"]).unwrap_or(0.0) / calls as f64,
                rows_sent: row.parse::<f64>(&["sent"]).unwrap_or(0.0) / calls as f64,
            })
        })
        .collect();
    Digests { lately, earlier: Vec::new(), asked_s, all_ms, refused: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram(all: &[(&str, u64)]) -> Histogram {
        let row = |(upper, count): &(&str, u64)| vec![Some((*upper).to_owned()), Some(count.to_string())];
        let rows = Rows::new(["upper_s".to_owned(), "statements".to_owned()], all.iter().map(row).collect());
        Histogram::read(&rows).unwrap()
    }

    #[test]
    fn quantiles_are_of_what_was_added() {
        let before = histogram(&[("0.001", 1000), ("0.01", 10)]);
        let now = histogram(&[("0.001", 1050), ("0.01", 50), ("0.1", 9), ("TOO LONG", 1)]);
        let quantiles = now.since(&before).quantiles().unwrap();
        let expected = Quantiles { statements: 100, p50_ms: 1.0, p95_ms: 100.0, p99_ms: 100.0 };
        assert_eq!(quantiles, expected);
        assert_eq!(before.since(&now), before, "it was reset: what is there was all added since");
        assert_eq!(now.since(&now).quantiles(), None);
    }

    #[test]
    fn the_statement_that_took_most_of_a_window_is_found_by_what_was_added() {
        let digest = |text: &str, calls, mean_ms, rows_examined| Digest {
            key: (Some("app".to_owned()), Some(format!("hash of {text}"))),
            text: text.to_owned(),
            calls,
            began_s: None,
            mean_ms,
            p95_ms: None,
            p99_ms: None,
            rows_examined,
            rows_sent: 1.0,
        };
        // The first took most since the start, the second most of the window.
        let of =
            |all_ms, lately: &[Digest]| Digests { all_ms, lately: lately.to_vec(), ..Digests::default() };
        let before = of(5e6, &[digest("a", 1_000_000, 1.0, 1.0), digest("b", 10, 100.0, 50_000.0)]);
        let lately =
            [digest("a", 1_001_000, 1.0, 1.0), digest("b", 100, 100.0, 50_000.0), digest("new", 9, 1e6, 1.0)];
        let now = of(5e6 + 10_000.0, &lately);
        let found = top(&before, &now).unwrap();
        assert_eq!((found.text.as_str(), found.calls), ("b", 90));
        assert!((found.share - 0.9).abs() < 1e-9 && (found.rows_examined - 50_000.0).abs() < 1e-6);
        assert_eq!(top(&now, &now), None);
        assert_eq!(top(&now, &before), None, "the table was emptied");
        // Thousands of other statements, each too small for the list, took as much again.
        let share = top(&before, &of(5e6 + 20_000.0, &lately)).unwrap().share;
        assert!((share - 0.45).abs() < 1e-9, "{share}");
    }

    /// A statement of a call of five thousand rows, the first of them ended `began_s` after the epoch.
    fn statement(key: &str, calls: u64, mean_ms: f64, began_s: f64) -> Digest {
        Digest {
            key: (None, Some(key.to_owned())),
            text: key.to_owned(),
            calls,
            began_s: Some(began_s),
            mean_ms,
            p95_ms: None,
            p99_ms: None,
            rows_examined: 5000.0,
            rows_sent: 1.0,
        }
    }

    fn asked(asked_s: f64, all_ms: f64, lately: &[Digest]) -> Digests {
        Digests { asked_s: Some(asked_s), all_ms, lately: lately.to_vec(), ..Digests::default() }
    }

    #[test]
    fn a_statement_counts_from_the_first_time_it_is_seen_unless_it_may_have_run_before() {
        let quiet = asked(100.5, 1e6, &[statement("usual", 1000, 10.0, 1.0)]);
        // One that ended first after that question is new; one that did before may have run for years.
        let now = asked(
            105.5,
            1e6 + 1000.0,
            &[statement("new", 80, 10.0, 101.0), statement("old", 90_000, 10.0, 100.0)],
        );
        let found = top(&quiet, &now).unwrap();
        assert_eq!((found.text.as_str(), found.calls), ("new", 80));
        assert!((found.share - 0.8).abs() < 1e-9, "{found:?}");
        // The usual one has rested for long, and its counts are known when it begins again.
        let now = (1..20).fold(quiet.clone(), |before, n| {
            asked(100.5 + 5.0 * f64::from(n), 1e6, &[statement("other", 1, 10.0, 1.0)]).following(&before)
        });
        let again = asked(200.5, 1e6 + 1000.0, &[statement("usual", 1050, 10.0, 1.0)]);
        assert_eq!(top(&now, &again).map(|found| found.calls), Some(50));
        // Where the list is full, or nobody asked for long, it may have been called unseen.
        let many: Vec<_> =
            (0..question::MOST_DIGESTS).map(|n| statement(&n.to_string(), 1, 10.0, 1.0)).collect();
        assert_eq!(top(&asked(105.5, 1e6, &many).following(&quiet), &again), None);
        assert_eq!(top(&asked(140.5, 1e6, &[]).following(&quiet), &again), None);
    }

    #[test]
    fn of_a_statement_that_ran_for_long_only_what_passed_since_the_last_question_counts() {
        // Four sessions are at work all the time; a report of ten minutes ends.
        let before = asked(100.0, 1e6, &[statement("usual", 1000, 10.0, 1.0)]);
        let lately = [statement("usual", 3000, 10.0, 1.0), statement("report", 1, 600_000.0, 103.0)];
        let top = |all_ms, lately: &[Digest]| top(&before, &asked(105.0, all_ms, lately)).unwrap();
        let found = top(1e6 + 620_000.0, &lately);
        assert_eq!((found.text.as_str(), found.share), ("usual", 0.8));
        let found = top(1e6 + 600_000.0, &lately[1..]);
        assert_eq!((found.text.as_str(), found.share, found.mean_ms), ("report", 1.0, 600_000.0));
    }

    #[test]
    fn statements_that_begin_alike_or_run_in_other_schemas_are_told_apart() {
        let names = ["in_schema", "digest", "text", "calls", "ms", "examined", "sent", "all_ms"];
        let read = |rows: &[[&str; 8]]| {
            let row = |row: &[&str; 8]| row.iter().map(|text| Some((*text).to_owned())).collect();
            digests(&Rows::new(names.map(str::to_owned), rows.iter().map(row).collect()))
        };
        let before = read(&[
            ["a", "1", "SELECT long", "100", "1000", "100", "100", "3000"],
            ["b", "1", "SELECT long", "100", "1000", "100", "100", "3000"],
            ["a", "2", "SELECT long", "100", "1000", "100", "100", "3000"],
        ]);
        let now = read(&[
            ["a", "2", "SELECT long", "101", "1900", "90100", "101", "4000"],
            ["a", "1", "SELECT long", "150", "1050", "150", "150", "4000"],
            ["b", "1", "SELECT long", "150", "1050", "150", "150", "4000"],
        ]);
        let found = top(&before, &now).unwrap();
        assert_eq!((found.calls, found.rows_examined, found.rows_sent), (1, 90_000.0, 1.0));
        assert!((found.share - 0.9).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_limit_between_two_ranges_is_known_and_one_within_a_wide_range_is_refused() {
        let mariadb = histogram(&[("0.01", 90), ("0.1", 0), ("1", 6), ("TOO LONG", 4)]);
        assert_eq!(mariadb.within(100.0), Ok(WithinLimit { good: 90, all: 100 }));
        assert_eq!(mariadb.within(1000.0), Ok(WithinLimit { good: 96, all: 100 }));
        let refused = mariadb.within(15.0).unwrap_err();
        assert_eq!((refused.from_ms, refused.to_ms), (10.0, 100.0), "although it is empty now");
        assert!(mariadb.within(5000.0).is_err());
    }

    proptest! {
        /// Ranges of 4.7 %, as MySQL has them, empty ones left out: any limit is known, and to 5 %.
        #[test]
        fn fine_ranges_know_every_limit(
            took_ms in prop::collection::vec(0.02f64..1e4, 1..200), limit_ms in 0.02f64..1e4,
        ) {
            const STEP: f64 = 1.047;
            let mut counts = std::collections::BTreeMap::<i32, u64>::new();
            for ms in &took_ms {
                *counts.entry((ms / 0.01).log(STEP).ceil() as i32).or_default() += 1;
            }
            let limit = |number: i32| Some(format!("{:.9}", 0.01 * STEP.powi(number) / 1e3));
            let row = |(number, count): (&i32, &u64)| vec![limit(number - 1), limit(*number), Some(count.to_string())];
            let names = ["lower_s", "upper_s", "statements"].map(str::to_owned);
            let within = Histogram::read(&Rows::new(names, counts.iter().map(row).collect())).unwrap().within(limit_ms);
            let within = within.unwrap();
            let at_most = |ms: f64| took_ms.iter().filter(|took| **took <= ms).count() as u64;
            prop_assert_eq!(within.all, took_ms.len() as u64);
            prop_assert!(within.good >= at_most(limit_ms / 1.06) && within.good <= at_most(limit_ms * 1.06));
        }
    }
}
