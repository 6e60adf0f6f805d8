//! What is pinned in the kernel, for people: what `headroom zero-hop` prints.

use std::net::SocketAddr;
use term::Table;
use zerohop::pins::{PinSet, Removal};

/// What would be removed, a line each; all without `which`.
pub fn removable(known: &[PinSet], which: &[String]) -> Vec<String> {
    let whole = |p: &PinSet| which.is_empty() || which.contains(&p.name);
    let mut lines = Vec::new();
    for pinned in known {
        let of = format!("{} ({})", pinned.name, pinned.title);
        if pinned.listeners.is_empty() && whole(pinned) {
            lines.push(of.clone());
        }
        for address in pinned.listeners.iter().map(|listener| listener.address.to_string()) {
            if whole(pinned) || which.contains(&address) {
                lines.push(format!("{address} of {of}"));
            }
        }
    }
    lines
}

/// Everything, with its listeners and servers.
pub fn all(all: &[PinSet]) -> String {
    if all.is_empty() {
        return "Nothing is pinned: all connections go through the listeners.\n".to_owned();
    }
    let mut text = String::new();
    for pinned in all {
        text.push_str(&format!("{}  {}\n  {}\n", pinned.name, pinned.title, state(pinned)));
        let mut table = Table::new(&["LISTENER", "SERVER", ">OPEN", ">PAST", ">KEPT"]);
        for listener in &pinned.listeners {
            let counts = listener.counts;
            let kept = counts.chosen + counts.suspect + counts.unfit;
            table.row(vec![
                listener.address.to_string(),
                String::new(),
                listener.servers.iter().map(|(_, open)| open).sum::<u64>().to_string(),
                counts.bypassed.to_string(),
                kept.to_string(),
            ]);
            for (server, open) in &listener.servers {
                table.row(vec![
                    String::new(),
                    server.to_string(),
                    open.to_string(),
                    String::new(),
                    String::new(),
                ]);
            }
        }
        text.push_str(&table.text());
    }
    text
}

fn state(pinned: &PinSet) -> String {
    let by = pinned.owner;
    let sessions = pinned.sessions;
    let dir = pinned.directory.display();
    match (pinned.unreadable, pinned.alive, pinned.in_force) {
        (true, ..) => format!(
            "made by another version of headroom, or only root may read it; headroom zero-hop off removes it ({dir})"
        ),
        (_, true, _) => format!("in force, written by process {by}; {sessions} sessions; {dir}"),
        (_, _, true) => format!(
            "in force, and process {by} is silent: readers go to the servers it picked last, writers to their listener; \
             {sessions} sessions; {dir}"
        ),
        _ => format!(
            "inactive since process {by} ended: connections go to the listeners; {sessions} sessions; {dir}"
        ),
    }
}

/// What was removed.
pub fn removed(removed: &Removal) -> String {
    let alone = removed.listeners.iter().map(SocketAddr::to_string);
    let all: Vec<String> = removed.names.iter().cloned().chain(alone).collect();
    if all.is_empty() {
        return "Nothing was pinned.\n".to_owned();
    }
    let mut text = format!(
        "Removed: {}. New connections go through the listeners; {} open sessions stay.\n",
        all.join(", "),
        removed.sessions
    );
    if removed.unmounted {
        text.push_str("/sys/fs/bpf, which headroom had mounted, is unmounted.\n");
    }
    text
}
