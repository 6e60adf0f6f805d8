//! What `/insight.json`, the page and `headroom top` show of insight: one question, one answer in plain
//! values. Field names are a promise to whoever reads the JSON, so they change only by addition. Times are in
//! milliseconds.

mod request;

use crate::status_view::NO_ZONE;
use crate::status_view::{ListenerView, StatusView};
use insight::{Counts, Dimension, Figures, Filter, Report, Row, Sample, Since};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use request::{RequestView, SPANS};

/// Rows of an answer, unless asked for more or fewer.
pub const ROWS: usize = 20;

/// What figures are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Statements without their literals.
    #[default]
    Digest,
    /// What sent them: a tag of the application, else the user.
    Endpoint,
    /// Requests of the application: how many queries each sends.
    Request,
    /// Who answered.
    Server,
    /// Where the server stands.
    Zone,
    /// As whom.
    User,
    /// Where they came in.
    Listener,
}

/// What stands first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// Time altogether.
    #[default]
    Time,
    /// How often.
    Count,
    /// Mean time.
    Mean,
    /// 99th percentile.
    P99,
    /// Errors.
    Errors,
    /// Rows sent.
    Rows,
    /// Bytes sent.
    Bytes,
    /// Queries of each request.
    Queries,
}

/// A question to insight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Question {
    pub by: By,
    /// What stands first; `None`: as is usual for what it is by.
    pub sort: Option<Sort>,
    pub since: Since,
    /// Rows at most; 0 is the default, [`ROWS`].
    pub limit: usize,
    /// This digest only, by its id.
    pub digest: Option<String>,
    /// This endpoint only.
    pub endpoint: Option<String>,
    /// This server only.
    pub server: Option<String>,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InsightView {
    /// The question, as understood.
    pub question: Question,
    /// The span of time, s.
    pub span_s: f64,
    /// All that matches.
    pub total: FiguresView,
    /// By what was asked for, the first ones.
    pub rows: Vec<RowView>,
    /// Rows left out.
    pub more: usize,
    /// Requests of the application, by endpoint.
    pub requests: Vec<RequestView>,
    /// Why there are no figures although there are sessions; zeros then mean nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_measured: Option<String>,
    /// What is not seen or not told apart, in words.
    pub notes: Vec<String>,
    /// Sessions measured since the start.
    pub sessions: u64,
}

/// One digest, endpoint, server ...
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RowView {
    pub name: String,
    /// What identifies it in questions.
    pub id: String,
    /// A statement as it came, only where the configuration asks for examples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    #[serde(flatten)]
    pub figures: FiguresView,
}

/// Figures of a set of commands: of all sessions, where those that were measured stand for others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FiguresView {
    pub count: u64,
    pub per_second: f64,
    /// The standard error of `per_second`; 0 where every session was measured.
    pub per_second_error: f64,
    /// Of `count`, the commands that were measured.
    pub measured: u64,
    /// They are of one session in this many at most; 1 where every session was measured.
    pub one_in: u32,
    /// Share of the time of all that matches, 0 to 1.
    pub share: f64,
    /// Commands under way at a time, on average: time over span.
    pub load: f64,
    pub time_ms: f64,
    /// `None`, as the percentiles, where there was no command.
    pub mean_ms: Option<f64>,
    pub first_byte_ms: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub p999_ms: Option<f64>,
    /// The longest since the start.
    pub longest_ms: f64,
    pub errors: u64,
    /// Errors by number; `other` are those beyond the limit of numbers.
    pub error_codes: BTreeMap<String, u64>,
    pub rows_sent: u64,
    pub rows_changed: u64,
    pub bytes_to_server: u64,
    pub bytes_to_client: u64,
}

impl By {
    pub const ALL: [Self; 7] =
        [Self::Digest, Self::Endpoint, Self::Request, Self::Server, Self::Zone, Self::User, Self::Listener];

    /// The one of this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.word() == word)
    }

    /// What it is, for a help text.
    pub fn about(self) -> &'static str {
        match self {
            Self::Digest => "Statements without their literals",
            Self::Endpoint => "What sent them: a tag of the application, else the user",
            Self::Request => "Requests of the application: how many queries each sends",
            Self::Server => "Who answered",
            Self::Zone => "Where the server stands",
            Self::User => "As whom",
            Self::Listener => "Where they came in",
        }
    }

    /// One word for people, flags and questions.
    pub fn word(self) -> &'static str {
        match self {
            Self::Digest => "digest",
            Self::Endpoint => "endpoint",
            Self::Request => "request",
            Self::Server => "server",
            Self::Zone => "zone",
            Self::User => "user",
            Self::Listener => "listener",
        }
    }
}

impl Sort {
    pub const ALL: [Self; 8] = [
        Self::Time,
        Self::Count,
        Self::Mean,
        Self::P99,
        Self::Errors,
        Self::Rows,
        Self::Bytes,
        Self::Queries,
    ];

    /// What stands first unless somebody asks for another: of requests those that send most queries each.
    pub fn usual(by: By) -> Self {
        if by == By::Request { Self::Queries } else { Self::Time }
    }

    /// The one of this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sort| sort.word() == word)
    }

    /// What it is, for a help text.
    pub fn about(self) -> &'static str {
        match self {
            Self::Time => "Time altogether",
            Self::Count => "How often",
            Self::Mean => "Mean time",
            Self::P99 => "99th percentile",
            Self::Errors => "Errors",
            Self::Rows => "Rows sent",
            Self::Bytes => "Bytes sent",
            Self::Queries => "Queries of each request",
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Count => "count",
            Self::Mean => "mean",
            Self::P99 => "p99",
            Self::Errors => "errors",
            Self::Rows => "rows",
            Self::Bytes => "bytes",
            Self::Queries => "queries",
        }
    }

    fn of(self, figures: &FiguresView) -> f64 {
        match self {
            Self::Time => figures.time_ms,
            Self::Count | Self::Queries => figures.count as f64,
            Self::Mean => figures.mean_ms.unwrap_or(0.0),
            Self::P99 => figures.p99_ms.unwrap_or(0.0),
            Self::Errors => figures.errors as f64,
            Self::Rows => figures.rows_sent as f64,
            Self::Bytes => figures.bytes_to_client as f64,
        }
    }
}

impl Question {
    /// The question as the query of an address.
    pub fn query(&self) -> String {
        let since = match self.since {
            Since::Recent => "recent",
            Since::Start => "start",
        };
        let limit = if self.limit == 0 { ROWS } else { self.limit };
        let mut query = format!("by={}&since={since}&limit={limit}", self.by.word());
        // An older router need not know the word of an order that nobody asked for.
        if let Some(sort) = self.sort {
            query.push_str(&format!("&sort={}", sort.word()));
        }
        for (key, value) in [("digest", &self.digest), ("endpoint", &self.endpoint), ("server", &self.server)]
        {
            if let Some(value) = value {
                query.push_str(&format!("&{key}={}", encoded(value)));
            }
        }
        query
    }

    /// What stands first.
    pub fn order(&self) -> Sort {
        self.sort.unwrap_or(Sort::usual(self.by))
    }

    fn filter(&self) -> Filter {
        Filter { digest: self.digest.clone(), endpoint: self.endpoint.clone(), server: self.server.clone() }
    }
}

/// The answer to a question, from a report of the span it asks for. Zones are those of the fleet now.
pub fn view(report: &Report, question: &Question, status: &StatusView) -> InsightView {
    let filter = question.filter();
    let (whole, sample) = report.total(&filter);
    let span_s = report.span.as_secs_f64().max(1e-3);
    let figures = |f: &Figures, sample: &Sample| figures(f, sample, span_s, whole.time_ns);
    let mut rows: Vec<RowView> = grouped(report, question.by, &filter, status)
        .into_iter()
        .map(|row| RowView {
            figures: figures(&row.figures, &row.sample),
            name: row.name,
            id: row.id,
            example: row.example,
        })
        .collect();
    let order = question.order();
    rows.sort_by(|a, b| {
        let (a_is, b_is) = (order.of(&a.figures), order.of(&b.figures));
        b_is.total_cmp(&a_is).then_with(|| a.name.cmp(&b.name))
    });
    let limit = if question.limit == 0 { ROWS } else { question.limit };
    let (requests, more_requests) = request::asked(request::all(report), question);
    let more = rows.len().saturating_sub(limit) + more_requests;
    rows.truncate(limit);
    let not_measured = not_measured(sample.measured, &status.listeners);
    let mut notes = notes(report);
    if sample.one_in > 1 {
        notes.insert(0, sampled(sample.one_in, !requests.is_empty()));
    }
    if question.by == By::Request && !requests.is_empty() {
        notes.extend(request::notes(question));
    }
    InsightView {
        question: Question { sort: Some(order), ..question.clone() },
        span_s,
        total: figures(&whole, &sample),
        rows,
        more,
        requests,
        not_measured,
        notes,
        sessions: report.counts().sessions,
    }
}

/// What the figures stand on where not every session was measured.
fn sampled(one_in: u32, requests: bool) -> String {
    let of_requests = if requests { "; requests are those of measured sessions only" } else { "" };
    format!(
        "1 session in {one_in} of those that bypass the router is measured: counts are scaled to all of them, \
         ± is the standard error{of_requests}"
    )
}

/// Why nothing was measured, where there are sessions that nobody looks at.
fn not_measured(measured: u64, listeners: &[ListenerView]) -> Option<String> {
    let bypassing: u64 = listeners.iter().map(|listener| listener.zero_hop.sessions).sum();
    let (sessions, bypass) = if bypassing == 1 { ("session", "bypasses") } else { ("sessions", "bypass") };
    (measured == 0 && bypassing > 0).then(|| {
        format!(
            "not measured: {bypassing} {sessions} {bypass} the router, and none that is measured sent a \
             statement; insight = \"on\" measures all"
        )
    })
}

fn grouped(report: &Report, by: By, filter: &Filter, status: &StatusView) -> Vec<Row> {
    let by = match by {
        By::Digest => Dimension::Digest,
        By::Endpoint => Dimension::Endpoint,
        By::User => Dimension::User,
        By::Listener => Dimension::Listener,
        By::Server => Dimension::Server,
        By::Request => return Vec::new(),
        By::Zone => return by_zone(report.rows(Dimension::Server, filter), status),
    };
    report.rows(by, filter)
}

fn by_zone(servers: Vec<Row>, status: &StatusView) -> Vec<Row> {
    let zone_of = |name: &str| {
        let server = status.fleet.servers.iter().find(|server| server.name == name);
        server.and_then(|server| server.zone.as_ref()).map_or(NO_ZONE.to_owned(), |zone| zone.zone.clone())
    };
    let mut zones: BTreeMap<String, (Figures, Sample)> = BTreeMap::new();
    for server in servers {
        let (figures, sample) = zones.entry(zone_of(&server.name)).or_default();
        figures.merge(&server.figures);
        sample.add(&server.sample);
    }
    let row = |(name, (figures, sample)): (String, _)| Row {
        id: name.clone(),
        name,
        example: None,
        figures,
        sample,
    };
    zones.into_iter().map(row).collect()
}

fn figures(f: &Figures, sample: &Sample, span_s: f64, whole_ns: u64) -> FiguresView {
    let mean = |ns: u64| (f.count > 0).then(|| ms(ns));
    let quantile = |q| f.quantile_ns(q).map(ms);
    let (codes, other) = f.codes();
    let mut error_codes: BTreeMap<String, u64> =
        codes.into_iter().map(|(code, count)| (code.to_string(), count)).collect();
    if other > 0 {
        error_codes.insert("other".to_owned(), other);
    }
    FiguresView {
        count: f.count,
        per_second: f.count as f64 / span_s,
        per_second_error: sample.error() / span_s,
        measured: sample.measured,
        one_in: sample.one_in,
        share: f.time_ns as f64 / whole_ns.max(1) as f64,
        load: f.time_ns as f64 / 1e9 / span_s,
        time_ms: ms(f.time_ns),
        mean_ms: mean(f.mean_ns()),
        first_byte_ms: mean(f.mean_first_byte_ns()),
        p50_ms: quantile(0.5),
        p95_ms: quantile(0.95),
        p99_ms: quantile(0.99),
        p999_ms: quantile(0.999),
        longest_ms: ms(f.longest_ns),
        errors: f.errors,
        error_codes,
        rows_sent: f.rows,
        rows_changed: f.affected,
        bytes_to_server: f.bytes_to_server,
        bytes_to_client: f.bytes_to_client,
    }
}

/// What is not seen or not told apart.
fn notes(report: &Report) -> Vec<String> {
    let Counts {
        opaque_tls,
        opaque_compression,
        opaque_old,
        opaque_earlier,
        lost,
        unanswered,
        long,
        unknown_prepared,
        without_cell,
        without_request,
        ..
    } = report.counts();
    let mut notes = Vec::new();
    let mut note = |count: u64, text: &str| {
        if count > 0 {
            notes.push(format!("{count} {text}"));
        }
    };
    note(
        opaque_tls,
        "sessions are opaque: TLS runs from the client to the server, their statements cannot be seen",
    );
    note(
        opaque_compression,
        "sessions are opaque: client and server compress, their statements cannot be seen",
    );
    note(opaque_old, "sessions are opaque: they speak the protocol from before MySQL 4.1");
    note(opaque_earlier, "sessions that bypass the router are not read: they began before this process did");
    note(lost, "sessions could not be followed any more, from some point on; they went on unmeasured");
    note(unanswered, "commands were not answered before their session ended; they are not counted");
    note(long, "statements were longer than 16 KiB: told apart by their first 16 KiB");
    note(unknown_prepared, "executions of prepared statements beyond 1,024 in one session count as (other)");
    note(
        without_cell,
        "commands came when a thread had no room for another combination; they count as (other)",
    );
    note(without_request, "commands belong to requests that there was no room for");
    note(report.requests_untold, "requests were not followed, for want of room");
    for (of, what) in [(Dimension::Digest, "digests"), (Dimension::Endpoint, "endpoints")] {
        let room = report.room(of);
        if room.used >= room.limit {
            notes.push(format!(
                "all {} places for {what} are taken; further ones count as (other)",
                room.limit
            ));
        }
    }
    notes
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn encoded(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    value.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_not_nothing_sent() {
        let mut listeners = crate::sample_status::status().listeners;
        assert_eq!(not_measured(0, &listeners), None, "every session is measured, and none sent anything");
        listeners[0].zero_hop.sessions = 20;
        assert!(
            not_measured(0, &listeners).unwrap().starts_with("not measured: 20 sessions bypass the router")
        );
        assert_eq!(not_measured(1, &listeners), None);
    }

    #[test]
    fn no_command_has_neither_a_mean_nor_percentiles() {
        let view = figures(&Figures::default(), &Sample::default(), 10.0, 0);
        assert_eq!((view.mean_ms, view.first_byte_ms), (None, None));
        assert_eq!([view.p50_ms, view.p95_ms, view.p99_ms, view.p999_ms], [None; 4]);
        let json = serde_json::to_value(&view).unwrap();
        assert!(json["p99_ms"].is_null() && json["count"] == 0, "{json}");
    }

    #[test]
    fn a_question_is_written_so_that_any_name_survives() {
        let question = Question {
            by: By::Digest,
            sort: Some(Sort::P99),
            endpoint: Some("GET /a b&c=ä".to_owned()),
            ..Question::default()
        };
        assert_eq!(
            question.query(),
            "by=digest&since=recent&limit=20&sort=p99&endpoint=GET%20%2Fa%20b%26c%3D%C3%A4"
        );
    }
}
