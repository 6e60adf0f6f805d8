//! One view of what several agents say. The same server is known by what it calls itself (its host's name,
//! port and id), else by its name, unless that is an address of loopback. Servers of an agent that has fallen
//! silent stay in sight, as such.

use super::AgentError;
use console::objectives::view::ObjectiveView;
use console::watch_view::{HostWatch, ServerWatch, WatchView};
use fleet::Address;

/// What one agent says.
pub(crate) struct AgentAnswer {
    /// Its address, without secrets.
    pub(crate) agent: String,
    /// What it answered last.
    pub(crate) answer: Result<WatchView, AgentError>,
    /// The servers of its last whole answer, for when there is none now.
    pub(crate) before: Vec<ServerWatch>,
}

impl AgentAnswer {
    /// Of an agent that was asked for the first time.
    pub(crate) fn now(agent: String, answer: Result<WatchView, AgentError>) -> Self {
        Self { agent, answer, before: Vec::new() }
    }
}

/// How good what is said of a server is: the order in which it is believed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trust {
    /// Of whoever stands beside it.
    Beside,
    /// Of whoever reads it.
    Read,
    /// Of whoever knows that it does not answer.
    Unread,
    /// Of whoever is silent now.
    Stale,
}

/// One view of what the agents say, in their order.
pub(crate) fn merge(all: Vec<AgentAnswer>) -> WatchView {
    let mut whole = WatchView { version: env!("CARGO_PKG_VERSION").to_owned(), ..WatchView::default() };
    let mut told: Vec<(Trust, ServerWatch)> = Vec::new();
    for AgentAnswer { agent, answer, before } in all {
        let of_agent = |server: ServerWatch| ServerWatch { agent: Some(agent.clone()), ..server };
        let view = match answer {
            Ok(view) => view,
            Err(why) => {
                told.extend(before.into_iter().map(|server| (Trust::Stale, of_agent(server))));
                let unanswered = Some(why.to_string());
                whole.hosts.push(HostWatch { agent, unanswered, ..HostWatch::default() });
                continue;
            }
        };
        whole.window_s = whole.window_s.max(view.window_s);
        whole.gaps += view.gaps;
        // Agents with the same file promise the same, and not each of them can judge it.
        for objective in view.objectives {
            match whole.objectives.iter_mut().find(|known| known.name == objective.name) {
                Some(known) if tells_more(&objective, known) => *known = objective,
                Some(_) => {}
                None => whole.objectives.push(objective),
            }
        }
        whole.writer = whole.writer.or(view.writer);
        whole.left_out = whole.left_out.or(view.left_out);
        whole.router = match (whole.router, view.router) {
            (Some(known), Some(other)) if known.unanswered.is_some() => Some(other),
            (known, other) => known.or(other),
        };
        told.extend(view.servers.into_iter().map(|server| (word(&server), of_agent(server))));
        let (host, verdict, cost, held_back) = (view.host, view.verdict, view.cost, view.held_back);
        whole.hosts.push(HostWatch { agent, unanswered: None, host, verdict, cost, held_back });
    }
    // The order of the agents among those that are as good.
    told.sort_by_key(|(word, _)| *word);
    let mut known: Vec<(Trust, ServerWatch)> = Vec::new();
    for (word, server) in told {
        if !known.iter().any(|(_, known)| is_same(known, &server)) {
            known.push((word, server));
        }
    }
    whole.servers = known.into_iter().map(|(word, server)| shown(word, server)).collect();
    whole.servers.sort_by(|a, b| (a.role != "primary", &a.name).cmp(&(b.role != "primary", &b.name)));
    whole
}

/// An incident stands before none, and what is judged before what is not.
fn tells_more(one: &ObjectiveView, other: &ObjectiveView) -> bool {
    let rank = |view: &ObjectiveView| (view.incident.is_some(), view.not_judged.is_none());
    rank(one) > rank(other)
}

fn word(server: &ServerWatch) -> Trust {
    match (server.on_this_host, server.sample.is_some()) {
        (true, true) => Trust::Beside,
        (false, true) => Trust::Read,
        (_, false) => Trust::Unread,
    }
}

fn shown(word: Trust, server: ServerWatch) -> ServerWatch {
    if word != Trust::Stale {
        return server;
    }
    // Its figures are of the past; who it is has not changed.
    let ServerWatch { name, role, zone, on_this_host, agent, source, .. } = server;
    let unanswered = Some("its agent does not answer".to_owned());
    ServerWatch { name, role, zone, on_this_host, agent, source, unanswered, ..ServerWatch::default() }
}

fn is_same(one: &ServerWatch, other: &ServerWatch) -> bool {
    let identity = |server: &ServerWatch| {
        let settings = &server.sample.as_ref()?.settings;
        (!settings.hostname.is_empty())
            .then(|| (settings.hostname.clone(), settings.port, settings.server_id))
    };
    match (identity(one), identity(other)) {
        // An agent names each of its own once: two on its host may have the same port, each on an address of
        // its own, and the id that every server has by default.
        (Some(its), Some(others)) if one.agent != other.agent => its == others,
        // On each host 127.0.0.1:3306 is another one.
        _ => one.name == other.name && (one.agent == other.agent || !is_of_one_host(&one.name)),
    }
}

/// Whether a server is called by an address that leads to another one from each host.
fn is_of_one_host(name: &str) -> bool {
    name.parse::<Address>().is_ok_and(|address| address.is_local_only())
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::objectives::view::IncidentView;
    use console::sample_view::{ServerSampleView, SettingsView};

    fn server(name: &str, host: &str, here: bool) -> ServerWatch {
        let settings = SettingsView { hostname: host.to_owned(), port: 3306, ..SettingsView::default() };
        ServerWatch {
            name: name.to_owned(),
            role: "replica".to_owned(),
            on_this_host: here,
            sample: Some(ServerSampleView { settings, ..ServerSampleView::default() }),
            ..ServerWatch::default()
        }
    }

    fn view(servers: Vec<ServerWatch>) -> WatchView {
        WatchView { servers, gaps: 1, window_s: 10.0, ..WatchView::default() }
    }

    fn silent() -> Result<WatchView, AgentError> {
        Err(AgentError::Status { at: "https://db2".to_owned(), code: 500 })
    }

    #[test]
    fn each_server_is_told_of_by_the_agent_beside_it() {
        let one = view(vec![server("127.0.0.1:3306", "db1", true), server("db2:3306", "db2", false)]);
        let two = view(vec![server("db1:3306", "db1", false), server("127.0.0.1:3306", "db2", true)]);
        let whole = merge(vec![
            AgentAnswer::now("https://db1:9307".into(), Ok(one)),
            AgentAnswer::now("https://db2:9307".into(), Ok(two)),
        ]);
        let told: Vec<_> =
            whole.servers.iter().map(|s| (s.on_this_host, s.agent.as_deref().unwrap())).collect();
        assert_eq!(told, [(true, "https://db1:9307"), (true, "https://db2:9307")]);
        assert_eq!((whole.hosts.len(), whole.gaps, whole.window_s), (2, 2, 10.0));
    }

    #[test]
    fn a_server_that_is_down_is_not_taken_for_one_of_the_same_loopback_address_on_another_host() {
        let down = ServerWatch { sample: None, ..server("127.0.0.1:3306", "db2", true) };
        let whole = merge(vec![
            AgentAnswer::now("https://db1".into(), Ok(view(vec![server("127.0.0.1:3306", "db1", true)]))),
            AgentAnswer::now("https://db2".into(), Ok(view(vec![down]))),
        ]);
        let told: Vec<_> = whole.servers.iter().map(|s| (s.agent.as_deref(), s.sample.is_some())).collect();
        assert_eq!(told, [(Some("https://db1"), true), (Some("https://db2"), false)]);
        let unread = whole.unread().unwrap();
        assert!(unread.contains("127.0.0.1:3306 of https://db2: no answer"), "{unread}");
        // By a name that means the same everywhere it is one.
        let down = ServerWatch { sample: None, ..server("db1:3306", "db1", false) };
        let whole = merge(vec![
            AgentAnswer::now("https://db1".into(), Ok(view(vec![server("db1:3306", "db1", true)]))),
            AgentAnswer::now("https://db2".into(), Ok(view(vec![down]))),
        ]);
        assert_eq!(whole.servers.len(), 1);
    }

    #[test]
    fn two_servers_of_one_host_with_the_same_port_and_id_stay_two() {
        let here = vec![server("10.0.0.1:3306", "db1", true), server("10.0.0.2:3306", "db1", true)];
        let whole = merge(vec![AgentAnswer::now("https://db1".into(), Ok(view(here)))]);
        assert_eq!(whole.servers.len(), 2);
    }

    #[test]
    fn an_incident_that_one_of_the_agents_sees_is_told_whoever_is_asked_first() {
        let promised = |not_judged: Option<&str>, incident: Option<IncidentView>| ObjectiveView {
            name: "db2".to_owned(),
            not_judged: not_judged.map(str::to_owned),
            incident,
            ..ObjectiveView::default()
        };
        let seen = [
            promised(Some("no server is called db2 here"), None),
            promised(None, None),
            promised(None, Some(IncidentView::default())),
        ];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let of = |at: usize| WatchView { objectives: vec![seen[at].clone()], ..view(Vec::new()) };
            let all = order.map(|at| AgentAnswer::now(format!("https://db{at}"), Ok(of(at))));
            assert_eq!(merge(all.into()).objectives, [seen[2].clone()], "{order:?}");
        }
    }

    #[test]
    fn an_agent_that_is_silent_is_shown_and_others_tell_of_its_server() {
        let one = view(vec![server("db1:3306", "db1", true), server("db2:3306", "db2", false)]);
        let whole = merge(vec![
            AgentAnswer::now("https://db1".into(), Ok(one)),
            AgentAnswer::now("https://db2".into(), silent()),
        ]);
        assert_eq!(whole.hosts[1].unanswered.as_deref(), Some("https://db2 answered 500"));
        let names: Vec<_> = whole.servers.iter().map(|s| (s.name.as_str(), s.on_this_host)).collect();
        assert_eq!(names, [("db1:3306", true), ("db2:3306", false)]);
    }

    #[test]
    fn servers_of_an_agent_that_fell_silent_stay_in_sight_unless_another_tells_of_them() {
        let one = view(vec![server("db1:3306", "db1", true), server("db2:3306", "db2", false)]);
        let before = vec![server("127.0.0.1:3306", "db2", true), server("db3:3306", "db3", true)];
        let silent = AgentAnswer { agent: "https://db2".into(), answer: silent(), before };
        let whole = merge(vec![AgentAnswer::now("https://db1".into(), Ok(one)), silent]);
        let told: Vec<_> = whole.servers.iter().map(|s| (s.name.as_str(), s.sample.is_some())).collect();
        assert_eq!(told, [("db1:3306", true), ("db2:3306", true), ("db3:3306", false)]);
        assert_eq!(whole.servers[2].unanswered.as_deref(), Some("its agent does not answer"));
        assert_eq!(whole.servers[2].agent.as_deref(), Some("https://db2"));
    }
}
