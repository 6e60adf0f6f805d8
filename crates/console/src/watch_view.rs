//! What people and programs see of a watched host and its servers: plain values, the same in the terminal,
//! JSON and metrics.

use crate::insight_view::{FiguresView, RequestView};
use crate::objectives::view::{ObjectiveView, WebhookView};
use crate::sample_view::{HostSampleView, LimitsView, ServerSampleView, SpaceView};
use crate::status_view::FlowView;
use diagnose::verdict::{Confidence, Figure, Finding, Name, Unit, Verdict, figure};
use fleet::Blame;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Everything, at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WatchView {
    /// Of Headroom.
    pub version: String,
    /// Length of the windows that samples and verdicts are of, seconds.
    pub window_s: f64,
    /// This host; absent until there are two readings.
    pub host: Option<HostSampleView>,
    /// The bottleneck of this host, whatever runs on it.
    pub verdict: VerdictView,
    /// Other hosts, as their agents judge them; this one is then not watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostWatch>,
    /// The servers.
    pub servers: Vec<ServerWatch>,
    /// That there are more servers than are watched, in words; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// The server that takes writes; absent when none can be named.
    #[serde(default)]
    pub writer: Option<String>,
    /// What a router in front of the servers says; absent when none is asked.
    #[serde(default)]
    pub router: Option<Arc<RouterWatch>>,
    /// What is promised of servers, and whether it is kept; what the router promises is among what it says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<ObjectiveView>,
    /// Who is told of incidents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookView>,
    /// How often samples had a gap since the start.
    pub gaps: u64,
    /// What watching costs this host.
    pub cost: Cost,
    /// That the CPU limit of its own cgroup holds the process that watches back, in words; absent where none
    /// does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back: Option<String>,
}

/// What a process uses.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// CPUs, on average since the start.
    pub cpu_share: f64,
    /// Bytes.
    pub resident_bytes: u64,
}

/// One host, as an agent there sees it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostWatch {
    /// The agent, without secrets.
    pub agent: String,
    /// Why there is no sample, if so.
    pub unanswered: Option<String>,
    /// The host.
    pub host: Option<HostSampleView>,
    /// Its bottleneck, whatever runs on it.
    pub verdict: VerdictView,
    /// What the agent costs it.
    pub cost: Cost,
    /// That the CPU limit of its own cgroup holds the agent back, in words; absent where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back: Option<String>,
}

/// One server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerWatch {
    /// Its name.
    pub name: String,
    /// `primary`, `replica`, ...
    pub role: String,
    /// Its zone.
    pub zone: Option<String>,
    /// Whether the host that is watched is its host.
    pub on_this_host: bool,
    /// The agent that says so, where several are asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Where it replicates from, by name where it is one of the fleet.
    #[serde(default)]
    pub source: Option<String>,
    /// State of its replication, in words; empty where there is none.
    #[serde(default)]
    pub replication: String,
    /// Why there is no sample, if so.
    pub unanswered: Option<String>,
    /// How far behind, by positions.
    pub lag_ms: Option<f64>,
    /// The server.
    pub sample: Option<ServerSampleView>,
    /// The cgroup limits that it lives under, where it runs on the host that is watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsView>,
    /// Room of the file system with its data, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<SpaceView>,
    /// Its bottleneck.
    pub verdict: VerdictView,
}

/// A router, as it last answered.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RouterWatch {
    /// Its admin address.
    pub address: String,
    /// Why it says nothing, if so.
    pub unanswered: Option<String>,
    /// Its own zone.
    pub own_zone: Option<String>,
    /// The share of the reads born in each zone that goes to each zone.
    pub flow: FlowView,
    /// How the flow is known, in words.
    pub demand_by: String,
    /// Share of all reads that cross zones.
    pub crossing: f64,
    /// Span of the figures below, seconds.
    pub span_s: f64,
    /// All statements.
    pub total: FiguresView,
    /// By endpoint, those that take the most time first.
    pub endpoints: Vec<EndpointWatch>,
    /// Endpoints left out.
    pub more: usize,
    /// What is not seen or not told apart.
    pub notes: Vec<String>,
    /// What is promised of statements, and whether it is kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<ObjectiveView>,
}

/// One endpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointWatch {
    /// Its name.
    pub name: String,
    /// Its statements.
    pub figures: FiguresView,
    /// Its requests, where they are told apart.
    pub requests: Option<RequestView>,
}

/// A verdict in words and figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VerdictView {
    /// One sentence.
    pub text: String,
    /// The bottleneck.
    pub bottleneck: Option<NamedView>,
    /// How sure.
    pub sure: Option<Confidence>,
    /// What would be next.
    pub runner_up: Option<NamedView>,
    /// The ceiling that is used most, and how much, 0 to 1.
    pub tightest: Option<(Name, f64)>,
    /// Rules that could not judge for want of evidence.
    pub not_judged: Vec<Name>,
}

/// A bottleneck, or what would be one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NamedView {
    /// Which.
    pub name: Name,
    /// Its name for people.
    pub called: String,
    /// Who or what in particular.
    pub who: Option<String>,
    /// How far towards it: 1 where it is called a bottleneck.
    pub load: f64,
    /// How much of the waiting it explains, 0 to 1.
    pub weight: f64,
    /// The evidence.
    pub evidence: Vec<FigureView>,
    /// What to try, the cheapest first.
    pub next: Vec<String>,
}

/// A piece of evidence.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FigureView {
    pub what: String,
    pub value: f64,
    pub unit: Unit,
    /// From here on it counts.
    pub threshold: Option<f64>,
}

/// Why there is no sample of a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSample {
    /// Its agent does not answer, or answers with something else.
    #[error("{why}")]
    Unanswered {
        /// As the view has it.
        why: String,
    },
    /// Its agent has not read it twice yet.
    #[error("it has no sample yet")]
    NotYet,
}

impl NoSample {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Unanswered { .. } => Blame::Network,
            Self::NotYet => Blame::Server,
        }
    }
}

impl HostWatch {
    /// The host.
    ///
    /// # Errors
    /// There is no sample of it.
    pub fn sample(self) -> Result<HostSampleView, NoSample> {
        self.host.ok_or(self.unanswered.map_or(NoSample::NotYet, |why| NoSample::Unanswered { why }))
    }
}

impl WatchView {
    /// Whether anything was sampled: this host, another one or a server.
    pub fn has_sample(&self) -> bool {
        self.servers.iter().any(|server| server.sample.is_some())
            || self.hosts.iter().any(|host| host.host.is_some())
            || self.host.is_some()
    }

    /// What a server is called among all: those of two hosts may both be called 127.0.0.1:3306, each by the
    /// agent beside it.
    pub fn called(&self, server: &ServerWatch) -> String {
        let is_called_so = |other: &&ServerWatch| other.name == server.name;
        match &server.agent {
            Some(agent) if self.servers.iter().filter(is_called_so).count() > 1 => {
                format!("{} of {agent}", server.name)
            }
            _ => server.name.clone(),
        }
    }

    /// Why nothing is known of any of the servers that should be watched; `None` when something is, or when
    /// there are none.
    pub fn nothing_of_servers(&self) -> Option<String> {
        let unknown = |server: &ServerWatch| server.sample.is_none();
        if self.servers.is_empty() || !self.servers.iter().all(unknown) {
            return None;
        }
        let why = |server: &ServerWatch| {
            let why = server.unanswered.as_deref().unwrap_or("no answer within the window");
            format!("{}: {why}", self.called(server))
        };
        Some(self.servers.iter().map(why).collect::<Vec<_>>().join("; "))
    }

    /// This host, if it counts (see [`Self::counts_own_host`]) and was not read; the servers and agents that
    /// were not, and the servers whose sessions are hidden, each with the reason; that there are more than
    /// are watched. `None` when there is nothing of it.
    pub fn unread(&self) -> Option<String> {
        let why = |name: &str, why: &Option<String>| {
            format!("{name}: {}", why.as_deref().unwrap_or("no answer within the window"))
        };
        let hosts = self.hosts.iter().filter(|host| host.host.is_none());
        let servers = self.servers.iter().filter(|server| server.sample.is_none());
        let hosts = hosts.map(|host| why(&host.agent, &host.unanswered));
        let servers = servers.map(|server| why(&self.called(server), &server.unanswered));
        // Without them most rules do not judge.
        let unseen = self.servers.iter().filter_map(|server| {
            let sample = server.sample.as_ref().filter(|sample| sample.sessions_unseen)?;
            let why = if sample.missing.is_empty() {
                "what its sessions wait for was not seen all the time".to_owned()
            } else {
                sample.missing.join("; ")
            };
            Some(format!("{}: {why}", self.called(server)))
        });
        let own = (self.counts_own_host() && self.hosts.is_empty() && self.host.is_none())
            .then(|| "this host: no readings within the window".to_owned());
        let all: Vec<String> =
            own.into_iter().chain(hosts).chain(servers).chain(unseen).chain(self.left_out.clone()).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Whether the verdict of this host says something of what is watched: where no servers are, or one of
    /// them runs here.
    pub fn counts_own_host(&self) -> bool {
        self.servers.is_empty() || self.servers.iter().any(|server| server.on_this_host)
    }

    /// Whether a verdict names a bottleneck of what is watched. That of this host does where it counts
    /// ([`Self::counts_own_host`]).
    pub fn has_bottleneck(&self) -> bool {
        let own = self.counts_own_host().then_some(&self.verdict);
        let hosts = self.hosts.iter().map(|host| &host.verdict);
        let servers = self.servers.iter().map(|server| &server.verdict);
        own.into_iter().chain(hosts).chain(servers).any(|v| v.bottleneck.is_some())
    }
}

/// The verdict in words and figures.
pub fn verdict(verdict: &Verdict) -> VerdictView {
    VerdictView {
        text: sentence(verdict),
        bottleneck: verdict.bottleneck.as_ref().map(named),
        sure: verdict.sure,
        runner_up: verdict.runner_up.as_ref().map(named),
        tightest: verdict.tightest,
        not_judged: verdict.not_judged.clone(),
    }
}

fn named(finding: &Finding) -> NamedView {
    let rule = finding.name.rule();
    NamedView {
        name: finding.name,
        called: rule.called.to_owned(),
        who: finding.who.clone(),
        load: finding.load,
        weight: finding.weight,
        evidence: finding.evidence.iter().map(figure_view).collect(),
        next: rule.next.iter().map(ToString::to_string).collect(),
    }
}

fn figure_view(Figure { what, value, unit, threshold }: &Figure) -> FigureView {
    FigureView { what: what.clone(), value: *value, unit: *unit, threshold: *threshold }
}

/// A share that is shown as 100 %.
const FULLY_USED: f64 = 0.995;

fn sentence(verdict: &Verdict) -> String {
    let Some(first) = &verdict.bottleneck else {
        return match verdict.tightest {
            // Only what somebody waits for is a bottleneck.
            Some((name, used)) if used >= FULLY_USED => format!(
                "no bottleneck is named: the tightest ceiling ({}) is fully used, which by itself holds \
                 nobody back",
                name.rule().called
            ),
            Some((name, used)) => format!(
                "no bottleneck: {} of the tightest ceiling ({})",
                figure(used, Unit::Share),
                name.rule().called
            ),
            None => "no bottleneck is seen, and no ceiling is known".to_owned(),
        };
    };
    let sure = match verdict.sure {
        Some(Confidence::Certain) => "certain",
        Some(Confidence::Likely) => "likely",
        Some(Confidence::Possible) | None => "possible",
    };
    let mut text = format!("{} ({sure})", first.name.rule().called);
    if let Some(who) = &first.who {
        text.push_str(&format!(": {who}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_that_is_fully_used_without_a_bottleneck_is_told_in_words_and_not_as_a_share() {
        let text = |used| {
            let tightest = Some((Name::DiskLatency, used));
            verdict(&Verdict { tightest, ..Verdict::default() }).text
        };
        assert_eq!(text(0.994), "no bottleneck: 99 % of the tightest ceiling (the disk)");
        for used in [0.995, 1.0] {
            assert_eq!(
                text(used),
                "no bottleneck is named: the tightest ceiling (the disk) is fully used, which by itself \
                 holds nobody back"
            );
        }
    }

    #[test]
    fn a_server_or_an_agent_that_is_not_read_is_told_beside_others_that_are() {
        let server = |name: &str, unanswered: Option<&str>| ServerWatch {
            name: name.to_owned(),
            unanswered: unanswered.map(str::to_owned),
            sample: unanswered.is_none().then(ServerSampleView::default),
            ..ServerWatch::default()
        };
        let host = |agent: &str, unanswered: Option<&str>| HostWatch {
            agent: agent.to_owned(),
            unanswered: unanswered.map(str::to_owned),
            host: unanswered.is_none().then(HostSampleView::default),
            ..HostWatch::default()
        };
        let view = |hosts, servers| WatchView { hosts, servers, ..WatchView::default() };
        let part = view(
            vec![host("https://one", None), host("https://two", Some("refused"))],
            vec![server("db1", None), server("db2", Some("Access denied"))],
        );
        assert_eq!(part.unread().as_deref(), Some("https://two: refused; db2: Access denied"));
        let whole = view(Vec::new(), vec![server("db1", None)]);
        assert_eq!(whole.unread(), None);
        let more = WatchView { left_out: Some("at most 256 are watched".to_owned()), ..whole };
        assert_eq!(more.unread().as_deref(), Some("at most 256 are watched"));
        let mut hidden = server("db1", None);
        let sample = hidden.sample.as_mut().unwrap();
        (sample.sessions_unseen, sample.missing) = (true, vec!["GRANT PROCESS".to_owned()]);
        assert_eq!(view(Vec::new(), vec![hidden]).unread().as_deref(), Some("db1: GRANT PROCESS"));
    }

    #[test]
    fn a_host_that_was_not_read_has_no_known_lack_of_a_bottleneck() {
        let server = |on_this_host| ServerWatch {
            on_this_host,
            sample: Some(ServerSampleView::default()),
            ..ServerWatch::default()
        };
        let view = |servers, host| WatchView { servers, host, ..WatchView::default() };
        for servers in [Vec::new(), vec![server(true)]] {
            let unread = view(servers, None).unread();
            assert_eq!(unread.as_deref(), Some("this host: no readings within the window"));
        }
        assert_eq!(view(vec![server(false)], None).unread(), None, "it says nothing of servers elsewhere");
        assert_eq!(view(Vec::new(), Some(HostSampleView::default())).unread(), None);
    }

    #[test]
    fn the_bottleneck_of_this_host_counts_only_where_a_server_runs_here_or_none_is_watched() {
        let finding = Finding {
            name: Name::Cpu,
            load: 1.2,
            weight: 0.9,
            ceiling: None,
            evidence: Vec::new(),
            who: None,
        };
        let busy = verdict(&Verdict { bottleneck: Some(finding), ..Verdict::default() });
        let view = |servers| WatchView { verdict: busy.clone(), servers, ..WatchView::default() };
        let on_this_host = |on_this_host| vec![ServerWatch { on_this_host, ..ServerWatch::default() }];
        assert!(view(Vec::new()).has_bottleneck() && view(on_this_host(true)).has_bottleneck());
        assert!(!view(on_this_host(false)).has_bottleneck());
    }

    #[test]
    fn servers_of_two_hosts_with_one_name_are_called_by_their_hosts_too() {
        let server = |name: &str, agent: &str| ServerWatch {
            name: name.to_owned(),
            agent: Some(agent.to_owned()),
            ..ServerWatch::default()
        };
        let servers = vec![server("127.0.0.1:3306", "a"), server("127.0.0.1:3306", "b"), server("db3", "b")];
        let view = WatchView { servers, ..WatchView::default() };
        let names: Vec<String> = view.servers.iter().map(|server| view.called(server)).collect();
        assert_eq!(names, ["127.0.0.1:3306 of a", "127.0.0.1:3306 of b", "db3"]);
        assert!(view.unread().unwrap().contains("127.0.0.1:3306 of b: no answer"), "{:?}", view.unread());
    }

    #[test]
    fn servers_of_which_none_answered_are_told_from_a_host_alone() {
        let server = |unanswered: Option<&str>| ServerWatch {
            name: "db1".to_owned(),
            unanswered: unanswered.map(str::to_owned),
            sample: unanswered.is_none().then(ServerSampleView::default),
            ..ServerWatch::default()
        };
        let view = |servers| WatchView { servers, ..WatchView::default() };
        let refused = view(vec![server(Some("Access denied"))]).nothing_of_servers();
        assert_eq!(refused.as_deref(), Some("db1: Access denied"));
        assert_eq!(view(vec![server(Some("Access denied")), server(None)]).nothing_of_servers(), None);
        assert_eq!(view(Vec::new()).nothing_of_servers(), None);
    }
}
