//! The terminal view of a watched host and its servers: a line of figures each, then the verdict with its
//! evidence.

use console::insight_view::SPANS;
use console::objectives;
use console::sample_view::{HostSampleView, LimitsView};
use console::watch_view::RouterWatch;
use console::watch_view::{NamedView, ServerWatch, VerdictView, WatchView};
use diagnose::verdict::{Name, Unit, figure};
use std::time::Duration;
use term::{Paint, Table, printable};
use time::OffsetDateTime;

const FIRST_WINDOW: &str = "the first window is being read";
/// Endpoints whose requests are shown; the page has them all.
const REQUESTS: usize = 5;
/// Seconds ahead for which a disk's end is told.
const FORETOLD_S: f64 = 30.0 * 86_400.0;
/// Characters shown of why a replica's threads do not run.
const WHY: usize = 160;
/// How busy CPUs are whose frequency says something.
const BUSY: f64 = 0.5;

/// The whole page.
pub fn text(view: &WatchView, paint: Paint) -> String {
    let mut text = String::new();
    let local = view.hosts.is_empty();
    if let Some(line) = first_line(view) {
        text.push_str(&format!("{}\n\n", paint.bold(&line)));
    }
    match &view.host {
        Some(host) => text.push_str(&one_host("this host", host, paint)),
        None if local => text.push_str(&format!("This host: {FIRST_WINDOW}.\n")),
        None => {}
    }
    let mut told_above = sharing(view, None, &view.verdict);
    if local && view.host.is_some() && (!told_above.is_empty() || is_its_own(view, None, &view.verdict)) {
        text.push_str(&verdict(&view.verdict, paint));
        text.push_str(&concerns(&told_above));
    }
    for host in &view.hosts {
        match (&host.host, &host.unanswered) {
            (Some(sample), _) => text.push_str(&one_host(&host.agent, sample, paint)),
            (None, Some(why)) => {
                text.push_str(&format!("{}  {}\n", paint.bold(&host.agent), paint.yellow(why)));
            }
            (None, None) => text.push_str(&format!("{}: {FIRST_WINDOW}.\n", host.agent)),
        }
        if let Some(held_back) = &host.held_back {
            text.push_str(&format!("  {} this agent is {held_back}\n", paint.yellow("!")));
        }
        let shared = sharing(view, Some(&host.agent), &host.verdict);
        let is_its_own = is_its_own(view, Some(&host.agent), &host.verdict);
        if host.host.is_some() && (!shared.is_empty() || is_its_own) {
            text.push_str(&verdict(&host.verdict, paint));
            text.push_str(&concerns(&shared));
        }
        told_above.extend(shared);
    }
    for one in &view.servers {
        text.push('\n');
        text.push_str(&server(one, paint));
        if told_above.iter().any(|told| std::ptr::eq(*told, one)) {
            let called = one.verdict.bottleneck.as_ref().map_or("", |named| &named.called);
            text.push_str(&format!("  {} {called} of its host, above\n", paint.red("bottleneck")));
        } else if one.sample.is_some() {
            text.push_str(&verdict(&one.verdict, paint));
        }
    }
    if let Some(left_out) = &view.left_out {
        text.push_str(&format!("\n{} {left_out}\n", paint.yellow("!")));
    }
    if let Some(held_back) = &view.held_back {
        text.push_str(&format!("\n{} the process that watches is {held_back}\n", paint.yellow("!")));
    }
    if let Some(router) = &view.router {
        text.push_str(&requests(router, paint));
    }
    let of_router = view.router.iter().flat_map(|router| &router.objectives);
    let promised: Vec<_> = view.objectives.iter().chain(of_router).cloned().collect();
    if !promised.is_empty() {
        text.push_str(&format!("\n{}", objectives::view::text(&promised, view.webhook.as_ref(), paint)));
    }
    if !local {
        let gaps = if view.gaps > 0 { format!("; {} gaps in the samples", view.gaps) } else { String::new() };
        text.push_str(&paint.dim(&format!("\nwindows of {:.0} s{gaps}\n", view.window_s)));
        return text;
    }
    text.push_str(&paint.dim(&format!(
        "\nwindows of {:.0} s; watching costs {:.2} % of a core and {} of memory{}\n",
        view.window_s,
        view.cost.cpu_share * 100.0,
        figure(view.cost.resident_bytes as f64, Unit::Bytes),
        if view.gaps > 0 { format!("; {} gaps in the samples", view.gaps) } else { String::new() },
    )));
    text
}

/// Whether the verdict of a host is in no server's beside it. Those have the host's evidence in their own;
/// but who is idle waits for no disk that others keep busy.
fn is_its_own(view: &WatchView, agent: Option<&str>, of_host: &VerdictView) -> bool {
    let here = |s: &&ServerWatch| s.on_this_host && s.sample.is_some() && s.agent.as_deref() == agent;
    let mut beside = view.servers.iter().filter(here);
    let Some(named) = &of_host.bottleneck else { return beside.next().is_none() };
    let has = |own: &NamedView| own.name == named.name || own.name.rule().explains.contains(&named.name);
    let tells = |server: &ServerWatch| {
        let VerdictView { bottleneck, runner_up, .. } = &server.verdict;
        let next = runner_up.as_ref().is_some_and(|next| next.load >= 1.0 && next.name == named.name);
        next || bottleneck.as_ref().is_some_and(has)
    };
    !beside.any(tells)
}

/// The servers whose bottleneck is that of the host they run on, where there are several: it is told once.
fn sharing<'a>(view: &'a WatchView, agent: Option<&str>, of_host: &VerdictView) -> Vec<&'a ServerWatch> {
    let Some(named) = &of_host.bottleneck else { return Vec::new() };
    let shares = |server: &&ServerWatch| {
        let own = server.verdict.bottleneck.as_ref();
        server.on_this_host
            && server.sample.is_some()
            && server.agent.as_deref() == agent
            && own.is_some_and(|own| (own.name, &own.who) == (named.name, &named.who))
    };
    let servers: Vec<&ServerWatch> = view.servers.iter().filter(shares).collect();
    if servers.len() > 1 { servers } else { Vec::new() }
}

fn concerns(servers: &[&ServerWatch]) -> String {
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    if names.is_empty() { String::new() } else { format!("  concerns   {}\n", names.join(", ")) }
}

/// One line for the host and each server: for logs, printed when [`news`] changes.
pub fn lines(view: &WatchView) -> String {
    one_each(view, without_figures)
}

/// What of these lines is news. For how long a transaction has been open, and other figures that move while
/// the cause is the same, are none.
pub fn news(view: &WatchView) -> String {
    one_each(view, |verdict, read| match &verdict.bottleneck {
        Some(named) => {
            // Who it is stands first; of requests it is how long they take.
            let who = named.who.as_ref().filter(|_| named.name != Name::NotTheDatabase);
            let who = who.and_then(|who| who.split(", ").next()).unwrap_or_default();
            format!("{} {:?} {who}", named.called, verdict.sure)
        }
        None => without_figures(verdict, read),
    })
}

fn one_each(view: &WatchView, says: impl Fn(&VerdictView, bool) -> String) -> String {
    let mut text = String::new();
    if view.hosts.is_empty() {
        text.push_str(&format!("this host: {}\n", says(&view.verdict, view.host.is_some())));
    }
    for host in &view.hosts {
        let says = host.unanswered.clone().unwrap_or_else(|| says(&host.verdict, host.host.is_some()));
        text.push_str(&format!("{}: {says}\n", host.agent));
    }
    for server in &view.servers {
        let says =
            server.unanswered.clone().unwrap_or_else(|| says(&server.verdict, server.sample.is_some()));
        text.push_str(&format!("{}: {says}\n", view.called(server)));
    }
    if let Some(left_out) = &view.left_out {
        text.push_str(&format!("{left_out}\n"));
    }
    text
}

fn without_figures(verdict: &VerdictView, read: bool) -> String {
    // Of what was not read yet nothing is known, least of all that it has no bottleneck.
    if !read {
        return FIRST_WINDOW.to_owned();
    }
    // A percentage that moves each second is no news.
    if verdict.bottleneck.is_some() { verdict.text.clone() } else { "no bottleneck".to_owned() }
}

fn one_host(name: &str, host: &HostSampleView, paint: Paint) -> String {
    let share = |value: f64| figure(value, Unit::Share);
    let all = &host.cpu.all;
    let level = &host.memory.level;
    let mut text = format!(
        "{}  {} CPUs, {} busy (user {}, system {}, softirq {}, steal {}){}, memory {} available of {}\n",
        paint.bold(name),
        host.cpus(),
        share(all.busy()),
        share(all.user),
        share(all.system),
        share(all.softirq + all.irq),
        share(all.steal),
        speed(host),
        figure(level.available as f64, Unit::Bytes),
        figure(level.total as f64, Unit::Bytes),
    );
    let mut table =
        Table::new(&["  disk", ">reads", ">each", ">writes", ">each", ">flushes", ">each", ">busy"]);
    for disk in host.disks.iter().filter(|disk| disk.busy > 0.0).take(8) {
        let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| figure(ms, Unit::Milliseconds));
        let flushed = disk.flushed.as_ref();
        table.row(vec![
            format!("  {}", disk.name),
            figure(disk.read.per_s, Unit::PerSecond),
            ms(disk.read.await_ms),
            figure(disk.written.per_s, Unit::PerSecond),
            ms(disk.written.await_ms),
            flushed.map_or("-".to_owned(), |work| figure(work.per_s, Unit::PerSecond)),
            ms(flushed.and_then(|work| work.await_ms)),
            share(disk.busy),
        ]);
    }
    text.push_str(&table.text());
    text
}

/// How fast the CPUs run, as far as that says something: one that is idle runs slowly because it may.
fn speed(host: &HostSampleView) -> String {
    let frequency = &host.frequency;
    let mut text = String::new();
    if let Some(share) = frequency.share_of_highest.filter(|_| host.cpu.all.busy() >= BUSY) {
        text.push_str(&format!(" at {} of their highest frequency", figure(share, Unit::Share)));
    }
    if let Some(times) = frequency.throttled.filter(|times| *times > 0) {
        text.push_str(&format!(", throttled for heat {times} times"));
    }
    text
}

fn server(server: &ServerWatch, paint: Paint) -> String {
    let zone = server.zone.as_ref().map_or(String::new(), |zone| format!("  zone {zone}"));
    let by = server.agent.as_ref().map_or(String::new(), |agent| match server.on_this_host {
        true => format!("  beside {agent}"),
        false => format!("  seen from {agent}"),
    });
    let head = format!("{}  {}{zone}{by}", paint.bold(&server.name), server.role);
    let Some(sample) = &server.sample else {
        let why = server.unanswered.as_deref().unwrap_or(FIRST_WINDOW);
        return format!("{head}  {}\n", paint.yellow(why));
    };
    let mut text = format!(
        "{head}  {} statements, {} at work, {} connected",
        figure(sample.statements_per_s, Unit::PerSecond),
        figure(sample.active, Unit::Count),
        figure(sample.connected, Unit::Count),
    );
    if let Some(quantiles) = &sample.quantiles {
        text.push_str(&format!(", p99 {}", figure(quantiles.p99_ms, Unit::Milliseconds)));
    } else if let Some(mean) = sample.mean_statement_ms {
        text.push_str(&format!(", {} each", figure(mean, Unit::Milliseconds)));
    }
    if let Some(lag) = server.lag_ms {
        text.push_str(&format!(", {} behind", figure(lag, Unit::Milliseconds)));
    }
    text.push_str(&format!(
        "\n  pool {} with {} misses, {} dirty; redo {} since the checkpoint, {} fsyncs\n",
        figure(sample.pool.size as f64, Unit::Bytes),
        figure(sample.pool.misses_per_s, Unit::PerSecond),
        figure(sample.pool.dirty, Unit::Share),
        sample.log.checkpoint_age.map_or("?".to_owned(), |age| figure(age, Unit::Share)),
        figure(sample.log.fsyncs_per_s, Unit::PerSecond),
    ));
    text.push_str(&surroundings(server, OffsetDateTime::now_utc()));
    if let Some(stopped) = stopped(server) {
        text.push_str(&format!("  {} {stopped}\n", paint.yellow("!")));
    }
    for missing in &sample.missing {
        text.push_str(&format!("  {} {missing}\n", paint.yellow("!")));
    }
    text
}

/// Which threads of a replica do not run, and why, in one line; `None` where both do, and of what is no
/// replica.
fn stopped(server: &ServerWatch) -> Option<String> {
    if server.role != "replica" || !server.replication.starts_with("stopped") {
        return None;
    }
    let line: String = printable(&server.replication).chars().take(WHY).collect();
    Some(format!("replication {}", line.trim_end()))
}

/// What to do first: of all bottlenecks the surest, with the servers that it concerns; `None` without one.
fn first_line(view: &WatchView) -> Option<String> {
    let hosts = view.hosts.iter().map(|host| (host.agent.clone(), &host.verdict));
    let servers = view.servers.iter().map(|server| (view.called(server), &server.verdict));
    // That of a host without a server says nothing of those that are watched.
    let own = view.counts_own_host().then(|| ("this host".to_owned(), &view.verdict));
    let all: Vec<_> = servers.chain(hosts).chain(own).filter(|(_, of)| of.bottleneck.is_some()).collect();
    let rank = |of: &VerdictView| {
        let weight = of.bottleneck.as_ref().map_or(0.0, |named| named.weight);
        (of.sure, weight)
    };
    let by_rank = |a: &VerdictView, b: &VerdictView| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    };
    // Of equal ones the first, which is a server.
    let (_, first) = all.iter().rev().max_by(|a, b| by_rank(a.1, b.1))?;
    let named = first.bottleneck.as_ref()?;
    let concerned: Vec<&str> = all
        .iter()
        .filter(|(_, of)| of.bottleneck.as_ref().is_some_and(|other| other.name == named.name))
        .map(|(name, _)| name.as_str())
        .collect();
    let next = named.next.first()?;
    Some(format!("{}: {} -> {next}", concerned.join(", "), named.called))
}

/// The limits that a server lives under, and the room for its data; nothing where none is known.
fn surroundings(server: &ServerWatch, now: OffsetDateTime) -> String {
    let mut known = server.limits.as_ref().map_or_else(Vec::new, limits);
    if let Some(space) = &server.space {
        let left = figure(space.available as f64, Unit::Bytes);
        let full = space.full_in_s.and_then(|seconds| full_about(now, seconds));
        known.push(match full {
            Some(at) => format!("{left} left for its data, full about {at} if it goes on so"),
            None => format!("{left} left for its data"),
        });
    }
    if known.is_empty() { String::new() } else { format!("  {}\n", known.join("; ")) }
}

fn limits(limits: &LimitsView) -> Vec<String> {
    let mut known = Vec::new();
    if let Some(cpu) = &limits.cpu {
        known.push(format!(
            "limit {} CPUs, {} used, held back in {} of the periods",
            figure(cpu.cpus, Unit::Count),
            figure(cpu.used, Unit::Count),
            figure(cpu.throttled, Unit::Share),
        ));
        if let Some(burst) = &cpu.burst {
            known.push(format!("its burst used in {} of them", figure(burst.periods, Unit::Share)));
        }
    }
    if let Some(cpus) = &limits.pinned_to {
        known.push(format!("may run on {} of the CPUs", cpus.len()));
    }
    if let Some(memory) = &limits.memory {
        known.push(format!(
            "memory {} of its limit of {}",
            figure(memory.used as f64, Unit::Bytes),
            figure(memory.limit as f64, Unit::Bytes),
        ));
    }
    if let Some(io) = &limits.io {
        let unit = if io.what.starts_with("bytes") { Unit::BytesPerSecond } else { Unit::PerSecond };
        let (used, limit) = (figure(io.used, unit), figure(io.limit, unit));
        known.push(format!("{} {used} of its limit of {limit} on device {}", io.what, io.device));
    }
    // Far from full, they say nothing.
    if let Some(threads) = limits.threads.as_ref().filter(|t| t.used * 2 >= t.limit || t.refused > 0) {
        let whose = if threads.by_ulimit { " (ulimit -u)" } else { "" };
        known.push(format!("threads {} of its limit of {}{whose}", threads.used, threads.limit));
    }
    if let Some(files) = limits.files.as_ref().filter(|files| files.open * 2 >= files.limit) {
        known.push(format!("open files {} of its limit of {}", files.open, files.limit));
    }
    known
}

/// The day and time `seconds` from now, to the minute; `None` beyond a month, which is too far to be
/// foretold.
fn full_about(now: OffsetDateTime, seconds: f64) -> Option<String> {
    let at = now.checked_add(Duration::try_from_secs_f64(seconds).ok()?.try_into().ok()?)?;
    let (year, month, day) = at.to_calendar_date();
    (seconds <= FORETOLD_S).then(|| {
        let month = u8::from(month);
        format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", at.hour(), at.minute())
    })
}

/// What requests spend where, those of the endpoints that take most time.
fn requests(router: &RouterWatch, paint: Paint) -> String {
    let told: Vec<_> = router.endpoints.iter().filter_map(|endpoint| endpoint.requests.as_ref()).collect();
    if told.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new(&["REQUESTS OF", ">ENDED", ">MEDIAN", ">P99", ">MEAN", ">DATABASE", ">STATEMENTS"]);
    for one in told.iter().take(REQUESTS) {
        let ms = |ms: f64| figure(ms, Unit::Milliseconds);
        table.row(vec![
            paint.bold(&printable(&one.endpoint)),
            figure(one.requests as f64, Unit::Count),
            ms(one.span_p50_ms),
            ms(one.span_p99_ms),
            ms(one.span_mean_ms),
            ms(one.database_ms()),
            figure(one.queries_mean, Unit::Count),
        ]);
    }
    format!("\n{}{}\n", table.text(), paint.dim(SPANS))
}

fn verdict(verdict: &VerdictView, paint: Paint) -> String {
    // What is far from its thresholds is no news.
    let runner_up = verdict.runner_up.as_ref().filter(|next| next.load >= 0.5);
    let Some(first) = &verdict.bottleneck else {
        let mut text = format!("  {}\n", paint.green(&verdict.text));
        if let Some(next) = runner_up {
            text.push_str(&format!("  nearest    {}\n", near(next)));
        }
        return text;
    };
    let mut text = format!("  {} {}\n", paint.red("bottleneck"), paint.bold(&verdict.text));
    let mut table = Table::new(&["", ">", ""]);
    for one in &first.evidence {
        let from = one.threshold.map_or(String::new(), |t| format!("(counts from {})", figure(t, one.unit)));
        table.row(vec![format!("             {}", one.what), figure(one.value, one.unit), paint.dim(&from)]);
    }
    // The heading has no words here.
    text.push_str(table.text().split_once('\n').map_or("", |(_, rows)| rows));
    if let Some(next) = runner_up {
        text.push_str(&format!("  runner-up  {}\n", near(next)));
    }
    for (at, advice) in first.next.iter().enumerate() {
        text.push_str(&format!("  {} {advice}\n", if at == 0 { "try next  " } else { "          " }));
    }
    text
}

fn near(next: &NamedView) -> String {
    let far = if next.load >= 1.0 {
        "its thresholds are met too".to_owned()
    } else {
        format!("{} of the way there", figure(next.load, Unit::Share))
    };
    format!("{}: {far}", next.called)
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::insight_view::RequestView;
    use console::sample_view::SpaceView;
    use console::watch_view::{EndpointWatch, HostWatch};
    use diagnose::verdict::Confidence;
    use std::sync::Arc;

    fn named(name: diagnose::verdict::Name, called: &str) -> VerdictView {
        VerdictView {
            text: format!("{called}: probably"),
            bottleneck: Some(NamedView {
                name,
                called: called.to_owned(),
                next: vec!["see who uses it".to_owned()],
                who: None,
                load: 1.2,
                weight: 0.9,
                evidence: Vec::new(),
            }),
            ..VerdictView::default()
        }
    }

    #[test]
    fn the_first_line_says_what_to_do_and_for_which_servers() {
        let disk = VerdictView { sure: Some(Confidence::Certain), ..named(Name::DiskLatency, "the disk") };
        let named = |sure| VerdictView { sure: Some(sure), ..named(diagnose::verdict::Name::Cpu, "the CPU") };
        let server =
            |name: &str, verdict| ServerWatch { name: name.to_owned(), verdict, ..ServerWatch::default() };
        let view = WatchView {
            servers: vec![
                server("db1", named(Confidence::Likely)),
                server("db2", VerdictView::default()),
                server("db3", named(Confidence::Possible)),
            ],
            ..WatchView::default()
        };
        assert_eq!(first_line(&view).unwrap(), "db1, db3: the CPU -> see who uses it");
        let from_elsewhere = WatchView { verdict: disk.clone(), ..view };
        assert_eq!(first_line(&from_elsewhere).unwrap(), "db1, db3: the CPU -> see who uses it");
        let alone = WatchView { verdict: disk, ..WatchView::default() };
        assert_eq!(first_line(&alone).unwrap(), "this host: the disk -> see who uses it");
        assert_eq!(first_line(&WatchView::default()), None);
    }

    #[test]
    fn what_several_servers_share_with_their_host_is_told_once_with_their_names() {
        let cpu = || named(diagnose::verdict::Name::Cpu, "the CPU");
        let server = |name: &str, verdict| ServerWatch {
            name: name.to_owned(),
            on_this_host: true,
            sample: Some(Default::default()),
            verdict,
            ..ServerWatch::default()
        };
        let with = |servers| {
            let view = WatchView {
                host: Some(HostSampleView::default()),
                verdict: cpu(),
                servers,
                ..WatchView::default()
            };
            text(&view, Paint::off())
        };
        let own = named(diagnose::verdict::Name::MetadataLocks, "a metadata lock");
        let shared = with(vec![server("db1", cpu()), server("db2", cpu()), server("db3", own)]);
        assert_eq!(shared.matches("the CPU: probably").count(), 1, "{shared}");
        assert!(shared.contains("concerns   db1, db2\n"), "{shared}");
        assert_eq!(shared.matches("bottleneck the CPU of its host, above").count(), 2, "{shared}");
        assert!(shared.contains("a metadata lock: probably"), "{shared}");
        let alone = with(vec![server("db1", cpu())]);
        assert_eq!(alone.matches("the CPU: probably").count(), 1, "{alone}");
        assert!(!alone.contains("concerns"), "{alone}");
    }

    #[test]
    fn servers_of_several_hosts_that_are_called_alike_are_told_apart() {
        let on = |agent: &str, name: &str, verdict| ServerWatch {
            name: name.to_owned(),
            agent: Some(agent.to_owned()),
            on_this_host: true,
            sample: Some(Default::default()),
            verdict,
            ..ServerWatch::default()
        };
        let cpu = || named(Name::Cpu, "the CPU");
        let host = |agent: &str, verdict| HostWatch {
            agent: agent.to_owned(),
            host: Some(HostSampleView::default()),
            verdict,
            ..HostWatch::default()
        };
        let view = WatchView {
            hosts: vec![host("https://db1", cpu()), host("https://db2", VerdictView::default())],
            servers: vec![
                on("https://db1", "127.0.0.1:3306", cpu()),
                on("https://db1", "127.0.0.1:3307", cpu()),
                on("https://db2", "127.0.0.1:3306", named(Name::RowLocks, "row locks")),
            ],
            ..WatchView::default()
        };
        let told = text(&view, Paint::off());
        assert_eq!(told.matches("the CPU of its host, above").count(), 2, "{told}");
        assert!(told.contains("bottleneck row locks: probably"), "{told}");
        assert!(lines(&view).contains("127.0.0.1:3306 of https://db2: row locks: probably\n"));
        let first = first_line(&view).unwrap();
        assert!(first.starts_with("127.0.0.1:3306 of https://db1, 127.0.0.1:3307, https://db1: "), "{first}");
    }

    #[test]
    fn what_no_server_shares_with_its_host_is_told_at_the_host() {
        let disk = || named(Name::DiskLatency, "the disk");
        let told = |of_host: VerdictView, of_server: VerdictView| {
            let server = ServerWatch {
                on_this_host: true,
                sample: Some(Default::default()),
                verdict: of_server,
                ..ServerWatch::default()
            };
            let view = WatchView {
                host: Some(HostSampleView::default()),
                verdict: of_host,
                servers: vec![server],
                ..WatchView::default()
            };
            text(&view, Paint::off()).matches("the disk: probably").count()
        };
        assert_eq!(told(disk(), VerdictView::default()), 1, "a copy of files, and a server that is idle");
        assert_eq!(told(disk(), disk()), 1, "it has the same");
        assert_eq!(told(disk(), named(Name::BufferPool, "a buffer pool too small")), 0, "which is the cause");
        assert_eq!(told(disk(), named(Name::RowLocks, "row locks")), 1);
    }

    #[test]
    fn why_a_replica_applies_nothing_is_told_in_one_line() {
        let said = |role: &str, replication: &str| {
            let server = ServerWatch {
                name: "db2".to_owned(),
                role: role.to_owned(),
                replication: replication.to_owned(),
                sample: Some(Default::default()),
                ..ServerWatch::default()
            };
            let view = WatchView { servers: vec![server], ..WatchView::default() };
            let text = text(&view, Paint::off());
            text.lines().find(|line| line.contains("replication")).map(str::to_owned)
        };
        let line = "  ! replication stopped (applier): Duplicate entry '1' for key 'PRIMARY'";
        let why = "stopped (applier): Duplicate entry '1'\nfor key 'PRIMARY'";
        assert_eq!(said("replica", why).as_deref(), Some(line));
        assert!(said("replica", &format!("stopped (receiver): {}", "x\n".repeat(900))).unwrap().len() < 200);
        assert_eq!((said("replica", "running"), said("primary", "none")), (None, None));
        assert_eq!(said("primary", "stopped (receiver): by command"), None, "one that was promoted");
    }

    #[test]
    fn an_endpoint_that_a_client_named_commands_no_terminal() {
        let endpoint = "che\u{1b}[2Jckout".to_owned();
        let requests = Some(RequestView { endpoint, ..RequestView::default() });
        let endpoints = vec![EndpointWatch { requests, ..EndpointWatch::default() }];
        let router = RouterWatch { endpoints, ..RouterWatch::default() };
        let text = text(&WatchView { router: Some(Arc::new(router)), ..WatchView::default() }, Paint::off());
        assert!(text.contains("che [2Jckout") && !text.contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn how_fast_cpus_run_is_told_of_busy_ones_and_heat_always() {
        let said = |user: f64, share_of_highest, throttled| {
            let mut host = HostSampleView::default();
            host.cpu.all.user = user;
            (host.frequency.share_of_highest, host.frequency.throttled) = (share_of_highest, throttled);
            speed(&host)
        };
        let words = " at 62 % of their highest frequency, throttled for heat 14 times";
        assert_eq!(said(0.9, Some(0.62), Some(14)), words);
        assert_eq!(said(0.1, Some(0.3), Some(1)), ", throttled for heat 1 times");
        assert_eq!((said(0.1, Some(0.3), Some(0)), said(0.9, None, None)), (String::new(), String::new()));
    }

    #[test]
    fn a_disk_that_fills_is_told_with_the_day_and_time() {
        let space = SpaceView { available: 4 << 30, full_in_s: Some(7260.0), ..SpaceView::default() };
        let mut server = ServerWatch { space: Some(space), ..ServerWatch::default() };
        let line = surroundings(&server, OffsetDateTime::UNIX_EPOCH);
        assert_eq!(line, "  4.00 GiB left for its data, full about 1970-01-01 02:01 UTC if it goes on so\n");
        for full_in_s in [None, Some(1e9), Some(f64::INFINITY)] {
            server.space.as_mut().unwrap().full_in_s = full_in_s;
            assert_eq!(surroundings(&server, OffsetDateTime::UNIX_EPOCH), "  4.00 GiB left for its data\n");
        }
    }

    #[test]
    fn a_log_has_a_line_when_a_cause_changes_and_not_each_second_that_it_lasts() {
        let locked = |who: &str| {
            let mut verdict = named(Name::RowLocks, "row locks");
            verdict.text = format!("row locks (certain): {who}");
            verdict.bottleneck.as_mut().unwrap().who = Some(who.to_owned());
            WatchView { host: Some(HostSampleView::default()), verdict, ..WatchView::default() }
        };
        let at = |session: u64, open_s: u64| {
            locked(&format!("session {session} of app@db1, its transaction open for {open_s} s, idle"))
        };
        assert_ne!(lines(&at(42, 31)), lines(&at(42, 34)));
        assert_eq!(news(&at(42, 31)), news(&at(42, 34)));
        assert_ne!(news(&at(42, 31)), news(&at(7, 1)));
        assert_ne!(news(&at(42, 31)), news(&WatchView::default()));
    }

    #[test]
    fn who_watches_and_is_held_back_by_its_own_limit_says_so() {
        let held_back = || Some("held back by its own limit of 0.50 CPUs".to_owned());
        let own = WatchView { held_back: held_back(), ..WatchView::default() };
        let said = text(&own, Paint::off());
        assert!(said.contains("! the process that watches is held back by its own limit"), "{said}");
        let agent = "https://db1".to_owned();
        let host = HostWatch { agent, held_back: held_back(), ..HostWatch::default() };
        let said = text(&WatchView { hosts: vec![host], ..WatchView::default() }, Paint::off());
        assert!(said.contains("! this agent is held back by its own limit of 0.50 CPUs\n"), "{said}");
        assert!(!text(&WatchView::default(), Paint::off()).contains("held back"));
    }

    #[test]
    fn before_the_first_window_nothing_is_said_of_a_bottleneck() {
        let server = ServerWatch { name: "db1".to_owned(), ..ServerWatch::default() };
        let view = WatchView { servers: vec![server], ..WatchView::default() };
        assert_eq!(
            lines(&view),
            "this host: the first window is being read\ndb1: the first window is being read\n"
        );
        assert!(!text(&view, Paint::off()).contains("bottleneck"), "{}", text(&view, Paint::off()));
        let read = WatchView { host: Some(HostSampleView::default()), ..WatchView::default() };
        assert_eq!(lines(&read), "this host: no bottleneck\n");
    }
}
