//! What only shows across sections: two listeners at one address, a zone whose rule can never match, a lag
//! limit finer than lag is measured.

use super::Matcher;
use super::access::SAY_WHO_MAY_COME;
use super::admin::admin_clashes;
use super::complaint::Ledger;
use super::draft::Draft;
use super::listener::{listeners_clash, open_to_the_network};
use fleet::{Zone, duration_text};
use std::time::Duration;
use toml::Spanned;

/// Looks at everything that needs more than one value to be wrong.
pub(super) fn find(draft: &Draft, ledger: &Ledger<'_>) {
    lag_limit(draft, ledger);
    zones(draft, ledger);
    unreachable_members(draft, ledger);
    servers(draft, ledger);
    listeners(draft, ledger);
    admin(draft, ledger);
    maps(draft, ledger);
}

/// Without a heartbeat lag is known between two bounds: an interval apart under steady writes, two while a
/// round is late. A limit inside these bounds would shut out replicas that are not behind at all.
fn lag_limit(draft: &Draft, ledger: &Ledger<'_>) {
    let (limit, interval) = (draft.router.max_lag, draft.fleet.interval);
    if limit < interval * 3 {
        let wrong = format!(
            "max_lag = {} is finer than lag can be measured by asking every {}",
            duration_text(limit),
            duration_text(interval)
        );
        let mut right = format!("write max_lag = \"{}\" or more", duration_text(interval * 3));
        if limit / 3 >= Duration::from_millis(50) {
            right += &format!(", or interval = \"{}\" or less", duration_text(limit / 3));
        }
        ledger.add(&draft.max_lag_at, wrong, right);
    }
}

fn zones(draft: &Draft, ledger: &Ledger<'_>) {
    for (index, zone) in draft.zones.iter().enumerate() {
        if draft.zones[..index].iter().any(|before| before.get_ref().zone == zone.get_ref().zone) {
            let wrong = format!("zone '{}' is there twice", zone.get_ref().zone);
            ledger.add(&zone.span(), wrong, "put all its members in one [[zone]]");
        }
        if zone.get_ref().zone.as_str() == "auto" {
            ledger.add(
                &zone.span(),
                "a zone cannot be called 'auto'",
                "that word means: find out; call it otherwise",
            );
        }
    }
    let sum: f64 = draft.zones.iter().filter_map(|zone| zone.get_ref().demand).sum();
    if sum > 1.0 + 1e-9
        && let Some(last) = draft.zones.iter().rfind(|zone| zone.get_ref().demand.is_some())
    {
        ledger.add(
            &last.span(),
            format!("the demand of all zones adds up to {sum:.3}"),
            "shares add up to at most 1",
        );
    }
}

/// The first rule that matches wins, so a block inside an earlier block of another zone is never reached.
fn unreachable_members(draft: &Draft, ledger: &Ledger<'_>) {
    for (index, (zone, member)) in draft.members.iter().enumerate() {
        let shadow = |(other, before): &&(Zone, Spanned<Matcher>)| {
            other != zone
                && match (before.get_ref(), member.get_ref()) {
                    (Matcher::Net(outer), Matcher::Net(inner)) => outer.contains(inner),
                    (a, b) => a == b,
                }
        };
        if let Some((other, before)) = draft.members[..index].iter().find(shadow) {
            let wrong = format!(
                "{} of zone '{zone}' is never reached: {} of zone '{other}' comes first and has it",
                member.get_ref(),
                before.get_ref()
            );
            ledger.add(&member.span(), wrong, "put the narrower zone first, or correct one of the two");
        }
    }
}

fn servers(draft: &Draft, ledger: &Ledger<'_>) {
    for (index, rule) in draft.servers.iter().enumerate() {
        let Some(name) = &rule.get_ref().name else { continue };
        let many = match &rule.get_ref().matcher {
            Matcher::Net(net) => net.prefix_len() != net.max_prefix_len(),
            Matcher::Name(pattern) => pattern.contains('*'),
            Matcher::Label(..) => true,
        };
        if many {
            let wrong =
                format!("the name '{name}' would go to every server that {} matches", rule.get_ref().matcher);
            ledger.add(&rule.span(), wrong, "match one host to name it, or remove the name");
        }
        if draft.servers[..index].iter().any(|before| before.get_ref().name.as_ref() == Some(name)) {
            ledger.add(
                &rule.span(),
                format!("two servers are named '{name}'"),
                "a name belongs to one server",
            );
        }
    }
}

fn listeners(draft: &Draft, ledger: &Ledger<'_>) {
    for (index, listener) in draft.listeners.iter().enumerate() {
        let clash =
            draft.listeners[..index].iter().find_map(|b| listeners_clash(b.get_ref(), listener.get_ref()));
        if let Some(wrong) = clash {
            ledger.add(&listener.span(), wrong, "give each listener an address or port of its own");
        }
        if let Some(wrong) = open_to_the_network(listener.get_ref()) {
            ledger.add(&listener.span(), wrong, SAY_WHO_MAY_COME);
        }
    }
}

fn admin(draft: &Draft, ledger: &Ledger<'_>) {
    let Some(admin) = &draft.admin else { return };
    let address = admin.get_ref().address;
    if !address.ip().is_loopback() && !admin.get_ref().open {
        let wrong =
            format!("the admin address {address} can be reached from the network, and it has no password");
        let right = "use 127.0.0.1, or write open = true if the network may see the status page";
        ledger.add(&admin.span(), wrong, right);
    }
    if let Some(wrong) = draft.listeners.iter().find_map(|l| admin_clashes(address, l.get_ref())) {
        ledger.add(&admin.span(), wrong, "give the admin address a port of its own");
    }
}

fn maps(draft: &Draft, ledger: &Ledger<'_>) {
    for (index, map) in draft.maps.iter().enumerate() {
        if draft.maps[..index].iter().any(|before| before.get_ref().0 == map.get_ref().0) {
            let wrong = format!("{} is mapped twice", map.get_ref().0);
            ledger.add(&map.span(), wrong, "keep one [[map]] for each address");
        }
    }
}
