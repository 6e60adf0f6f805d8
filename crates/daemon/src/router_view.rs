//! From the router's own status to what people see, joined with the snapshot it stands on.

use console::fleet_view;
use console::status_view::{
    CountersView, EligibleView, EventView, FallbackView, FlowView, LeavingView, ListenerView,
    ListenerZeroHopView, NO_ZONE, RecordingView, RoutingView, StatusView, ZeroHopView,
};
use fleet::Snapshot;
use router::event::EventRecord;
use router::flow::Flow;
use router::status::{Eligibility, ListenerStatus, ServerStatus};
use router::zero_hop::ListenerZeroHop;
use router::{Changes, RecordingStatus, Status};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

/// Both together, as they look at `now`. What only the process knows is left empty.
pub(crate) fn view(snapshot: &Snapshot, status: &Status, now: Instant) -> StatusView {
    let mut fleet = fleet_view::view(snapshot, now);
    for server in &mut fleet.servers {
        let routed = status.servers.iter().find(|routed| routed.name.as_str() == server.name);
        let seconds = |lasts: Option<Duration>| lasts.map(|lasts| lasts.as_secs_f64());
        server.state_for_s = routed.and_then(|routed| seconds(routed.state_for));
        server.role_for_s = routed.and_then(|routed| seconds(routed.role_for));
        server.routing = routed.map(routing);
        if let Some(gray) = routed.and_then(|routed| routed.gray.as_ref()) {
            let remark = format!("{}: a gray failure: {gray}. headroom failover --gray", server.name);
            fleet.remarks.push(remark);
        }
    }
    let mut closed = BTreeMap::new();
    for (reason, count) in status.servers.iter().flat_map(|server| &server.closed) {
        *closed.entry((*reason).to_owned()).or_default() += count;
    }
    let fallback =
        |f: &router::status::FallbackStatus| FallbackView { name: f.name.to_owned(), text: f.words.clone() };
    StatusView {
        fleet,
        flow: flow(&status.flow),
        data_path: status.data_path.to_owned(),
        most_sessions: status.most_sessions.map(|most| most as u64),
        listeners: status.listeners.iter().map(listener).collect(),
        zero_hop: ZeroHopView {
            in_force: status.zero_hop.in_force,
            text: status.zero_hop.words.clone(),
            limits: status.zero_hop.limits.clone(),
        },
        recording: status.recording.as_ref().map(recording),
        fallbacks: status.fallbacks.iter().map(fallback).collect(),
        leaving: status.leaving.iter().map(leaving).collect(),
        events: status.events.iter().rev().map(|noted| event(noted, now)).collect(),
        troubles: status.troubles.clone(),
        restarts: status.restarts,
        counters: CountersView { holding: status.held as u64, closed },
        ..StatusView::default()
    }
}

fn leaving(leaving: &router::PendingMove) -> LeavingView {
    LeavingView {
        server: leaving.server.to_string(),
        role: leaving.role.to_string(),
        sessions: u64::from(leaving.sessions),
        why: leaving.why.to_owned(),
        waits_for: leaving.waits_for.clone(),
    }
}

fn event(noted: &EventRecord, now: Instant) -> EventView {
    // The words of the JSON are those of serde.
    let word = |value: serde_json::Result<serde_json::Value>| match value {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    };
    let since_1970 = noted.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    EventView {
        at_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
        age_s: now.saturating_duration_since(noted.since).as_secs_f64(),
        severity: word(serde_json::to_value(noted.event.severity)),
        kind: word(serde_json::to_value(noted.event.kind)),
        subject: noted.event.subject.clone(),
        text: noted.event.text.clone(),
        lasted_s: noted.lasted.map(|lasted| lasted.as_secs_f64()),
    }
}

fn recording(recording: &RecordingStatus) -> RecordingView {
    RecordingView {
        since_s: recording.since.as_secs_f64(),
        left_s: recording.wanted.time.saturating_sub(recording.since).as_secs_f64(),
        one_in: recording.wanted.one_in,
        sessions: recording.sessions,
        commands: recording.commands,
        bytes: recording.bytes,
        lost: recording.lost,
    }
}

/// What a reload changed in the data plane, in words.
pub(crate) fn changes(changes: &Changes) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(changes.opened.iter().map(|address| format!("listener {address} opened")));
    notes
        .extend(changes.closed.iter().map(|address| format!("listener {address} closed, its sessions stay")));
    notes.extend(
        changes.changed.iter().map(|address| format!("listener {address} changed, for new sessions")),
    );
    let renewed = |address| format!("certificate of listener {address} renewed, for new sessions");
    notes.extend(changes.renewed.iter().map(renewed));
    if changes.router {
        notes.push("[router] changed".to_owned());
    }
    if changes.server_tls_renewed {
        notes.push("certificate of [router.tls] renewed, for new sessions".to_owned());
    }
    notes.extend(changes.at_next_start.iter().cloned());
    notes
}

fn routing(server: &ServerStatus) -> RoutingView {
    let named = |counts: &BTreeMap<&'static str, u64>| {
        counts.iter().map(|(words, count)| ((*words).to_owned(), *count)).collect()
    };
    RoutingView {
        reads: eligible(&server.reads),
        writes: eligible(&server.writes),
        reads_for_s: server.reads_for.map(|lasts| lasts.as_secs_f64()),
        speed: Some(server.capacity.speed),
        slow: server.slow.clone(),
        warmth: Some(server.capacity.warmth),
        warming: server.warming.clone(),
        warm_by_clock: server.warm_by_clock.map(str::to_owned),
        work_per_session: server.per_session,
        work: server.work.clone(),
        share: server.share,
        draining: server.draining_ms.is_some(),
        draining_ms: server.draining_ms,
        sessions: u64::from(server.readers) + u64::from(server.writers),
        readers: u64::from(server.readers),
        writers: u64::from(server.writers),
        bypassed: u64::from(server.bypassed),
        connections: server.connections,
        failures: server.failures,
        bytes_to_server: server.bytes_to_server,
        bytes_to_client: server.bytes_to_client,
        commands: server.commands,
        commands_bypassed: server.commands_bypassed,
        picks: named(&server.picks),
        closed: named(&server.closed),
        gray: server.gray.as_ref().map(ToString::to_string),
    }
}

fn eligible(eligibility: &Eligibility) -> EligibleView {
    EligibleView {
        eligible: eligibility.eligible,
        capacity: eligibility.capacity,
        reason: eligibility.reason.clone(),
        reason_label: eligibility.reason_name.map(str::to_owned),
    }
}

fn flow(flow: &Flow) -> FlowView {
    let name =
        |load: &router::flow::ZoneLoad| load.zone.as_ref().map_or(NO_ZONE.to_owned(), ToString::to_string);
    FlowView {
        zones: flow.zones.iter().map(name).collect(),
        demand: flow.zones.iter().map(|zone| zone.demand).collect(),
        capacity: flow.zones.iter().map(|zone| zone.capacity).collect(),
        rows: flow.rows.clone(),
    }
}

fn listener(listener: &ListenerStatus) -> ListenerView {
    ListenerView {
        address: listener.address.to_string(),
        role: listener.role.to_string(),
        sessions: listener.sessions as u64,
        open: (listener.sessions + listener.zero_hop.sessions) as u64,
        max_sessions: listener.max_sessions as u64,
        accepted: listener.accepted,
        connections: listener.accepted + listener.zero_hop.connects.bypassed,
        connecting: listener.connecting as u64,
        max_connecting: listener.max_connecting as u64,
        tls: listener.tls.to_owned(),
        tls_client_cert: listener.tls_client_cert.to_owned(),
        logins: owned(&listener.logins),
        refused: owned(&listener.refused),
        zero_hop: zero_hop(&listener.zero_hop),
    }
}

fn zero_hop(listener: &ListenerZeroHop) -> ListenerZeroHopView {
    let connects = listener.connects;
    let ordinary =
        [("next_pick", connects.chosen), ("server_in_doubt", connects.suspect), ("unfit", connects.unfit)];
    ListenerZeroHopView {
        in_force: listener.in_force,
        text: listener.words.clone(),
        sessions: listener.sessions as u64,
        bypassed: connects.bypassed,
        ordinary: ordinary.map(|(why, n)| (why.to_owned(), n)).into(),
    }
}

fn owned(counts: &BTreeMap<&'static str, u64>) -> BTreeMap<String, u64> {
    counts.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect()
}
