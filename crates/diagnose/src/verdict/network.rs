//! Packets: CPUs that handle them, backlogs, links, and tables of the kernel that can be full.

use super::{Finding, Name, Unit, Window, greatest, least};
use crate::host::table;

/// Segments sent again, of all and a second.
const SENT_AGAIN: (f64, f64) = (0.02, 20.0);
/// One CPU in soft interrupts, and the others at most.
const ONE_CPU: f64 = 0.70;
const OTHERS: f64 = 0.20;
/// Packets dropped a second, and of all of that place.
const DROPS: (f64, f64) = (10.0, 0.02);
/// Of what the link carries.
const LINK: f64 = 0.80;
/// Of what a table holds.
const FULL: f64 = 0.95;

pub(super) fn softirq_on_one_cpu(window: &Window) -> Option<Finding> {
    let host = window.host.as_ref()?;
    let (cpu, most) =
        host.cpu.each.iter().map(|(n, s)| (*n, s.softirq)).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let others = host.cpu.each.len().checked_sub(1).filter(|others| *others > 0)? as f64;
    let mean = host.cpu.each.iter().filter(|(n, _)| *n != cpu).map(|(_, s)| s.softirq).sum::<f64>() / others;
    // The others' share counts only where it is too high: an idle machine is not nearly a bottleneck.
    let load = least([(most, ONE_CPU), (OTHERS.min(OTHERS / mean.max(1e-3) * OTHERS), OTHERS)]);
    let busiest = host.interrupts.iter().find(|i| i.cpu == cpu && i.is_of_device());
    let from =
        busiest.map_or(String::new(), |i| format!(", interrupted most by {} ({:.0}/s)", i.what, i.per_s));
    let packets = host.softnet.iter().find(|s| s.cpu == cpu).map_or(0.0, |s| s.processed_per_s);
    Some(
        Finding::new(Name::SoftirqOnOneCpu, load, most)
            .ceiling(most)
            .figure(format!("CPU {cpu} in soft interrupts"), most, Unit::Share, Some(ONE_CPU))
            .figure("the other CPUs, on average", mean, Unit::Share, Some(OTHERS))
            .figure(format!("packets handled by CPU {cpu}"), packets, Unit::PerSecond, None)
            .who(Some(format!("CPU {cpu}{from}"))),
    )
}

pub(super) fn packet_drops(window: &Window) -> Option<Finding> {
    let host = window.host.as_ref()?;
    let backlog: f64 = host.softnet.iter().map(|s| s.dropped_per_s).sum();
    let handled: f64 = host.softnet.iter().map(|s| s.processed_per_s).sum();
    let squeezed: f64 = host.softnet.iter().map(|s| s.squeezed_per_s).sum();
    let worst = host
        .nics
        .iter()
        .map(|nic| (nic, nic.received.dropped_per_s + nic.sent.dropped_per_s))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let nic = worst.map_or(0.0, |(_, dropped)| dropped);
    let carried = worst.map_or(0.0, |(nic, _)| nic.received.packets_per_s + nic.sent.packets_per_s);
    let share = |dropped: f64, came_through: f64| dropped / (dropped + came_through).max(1e-9);
    let (of_backlog, of_nic) = (share(backlog, handled), share(nic, carried));
    let load = greatest([
        (least([(backlog, DROPS.0), (of_backlog, DROPS.1)]), 1.0),
        (least([(nic, DROPS.0), (of_nic, DROPS.1)]), 1.0),
    ]);
    let who = if backlog >= nic {
        (backlog > 0.0).then(|| "backlogs of the CPUs (netdev_max_backlog)".to_owned())
    } else {
        worst.map(|(nic, _)| format!("interface {}", nic.name))
    };
    Some(
        Finding::new(Name::PacketDrops, load, (load / 20.0).min(0.5))
            .figure("packets dropped by backlogs", backlog, Unit::PerSecond, Some(DROPS.0))
            .figure("of the packets that came to them", of_backlog, Unit::Share, Some(DROPS.1))
            .figure("packets dropped by an interface", nic, Unit::PerSecond, Some(DROPS.0))
            .figure("of its packets", of_nic, Unit::Share, Some(DROPS.1))
            .figure("times a CPU stopped with packets left", squeezed, Unit::PerSecond, None)
            .figure("segments sent again", host.tcp.sent_again_share.unwrap_or(0.0), Unit::Share, None)
            .who(who),
    )
}

pub(super) fn retransmits(window: &Window) -> Option<Finding> {
    let tcp = &window.host.as_ref()?.tcp;
    let share = tcp.sent_again_share.unwrap_or(0.0);
    let load = least([(share, SENT_AGAIN.0), (tcp.sent_again_per_s, SENT_AGAIN.1)]);
    Some(
        Finding::new(Name::Retransmits, load, (share * 10.0).min(0.6) * window.rest())
            .figure("segments sent again", share, Unit::Share, Some(SENT_AGAIN.0))
            .figure("segments sent again", tcp.sent_again_per_s, Unit::PerSecond, Some(SENT_AGAIN.1))
            .figure("timers that ran out", tcp.timeouts_per_s, Unit::PerSecond, None),
    )
}

pub(super) fn nic(window: &Window) -> Option<Finding> {
    let host = window.host.as_ref()?;
    let one = |nic: &crate::host::nic::Sample| {
        let link = window.ceilings.network_bytes_per_s.or(nic.link_bytes_per_s)?;
        let (received, sent) = (nic.received.bytes_per_s, nic.sent.bytes_per_s);
        Some((nic.name.clone(), received.max(sent) / link, received, sent, link))
    };
    // Loopback has no link; with a ceiling of the whole network it must not count either.
    let all = host.nics.iter().filter(|nic| nic.name != "lo").filter_map(one);
    let (name, used, received, sent, link) = all.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(
        Finding::new(Name::Nic, used / LINK, used * window.rest())
            .ceiling(used)
            .figure(format!("{name} received"), received, Unit::BytesPerSecond, Some(link * LINK))
            .figure("sent", sent, Unit::BytesPerSecond, Some(link * LINK))
            .figure("the link carries", link, Unit::BytesPerSecond, None)
            .who(Some(format!("interface {name}"))),
    )
}

pub(super) fn neighbours(window: &Window) -> Option<Finding> {
    table(Name::NeighbourTable, &window.host.as_ref()?.neighbours)
}

pub(super) fn conntrack(window: &Window) -> Option<Finding> {
    table(Name::ConntrackTable, window.host.as_ref()?.conntrack.as_ref()?)
}

fn table(name: Name, sample: &table::Sample) -> Option<Finding> {
    let fill = sample.fill()?;
    let load = greatest([(fill, FULL), (sample.refused_per_s, 1.0)]);
    Some(
        Finding::new(name, load, if load >= 1.0 { 1.0 } else { 0.0 })
            .ceiling(fill)
            .figure("entries", sample.entries as f64, Unit::Count, None)
            .figure("of those that fit", fill, Unit::Share, Some(FULL))
            .figure("entries refused", sample.refused_per_s, Unit::PerSecond, Some(1.0)),
    )
}
