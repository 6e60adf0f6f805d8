//! A probe for people.

use crate::{Disk, Probe, Step, knee, most};
use diagnose::verdict::{Unit, figure as words};
use load::report::moment;
use term::Table;

/// One probe.
pub fn one(probe: &Probe) -> String {
    let mut text = format!(
        "{}, {} UTC; CPUs {} busy before\n",
        probe.host,
        moment(probe.at),
        words(probe.busy_before, Unit::Share)
    );
    if let Some(disk) = &probe.disk {
        text.push_str(&of_disk(disk));
    }
    let compute = probe.compute;
    let millions = |per_s: f64| format!("{:.0} million steps/s", per_s / 1e6);
    let rate = |per_s: f64| words(per_s, Unit::BytesPerSecond);
    text.push_str(&format!(
        "CPU     {} on one, {} on {}\nmemory  copies {} on one, {} on {}\n",
        millions(compute.one_cpu_per_s),
        millions(compute.all_cpus_per_s),
        compute.cpus,
        rate(compute.one_copy_bytes_per_s),
        rate(compute.all_copy_bytes_per_s),
        compute.cpus,
    ));
    if !probe.servers.is_empty() {
        let mut table = Table::new(&["way to", ">round trip", ">99 of 100", ">round trips"]);
        for way in &probe.servers {
            table.row(vec![
                way.server.clone(),
                words(way.round_trip_p50_ms, Unit::Milliseconds),
                words(way.round_trip_p99_ms, Unit::Milliseconds),
                words(way.round_trips_per_s, Unit::PerSecond),
            ]);
        }
        text.push_str(&table.text());
    }
    text
}

fn of_disk(disk: &Disk) -> String {
    let ms = |ms: f64| words(ms, Unit::Milliseconds);
    let mut text = format!(
        "disk    {}, below {}; when idle a read takes {}, a write {}\n",
        disk.device.as_deref().unwrap_or("no device of this host"),
        disk.directory.display(),
        ms(disk.idle_read.mean_ms),
        ms(disk.idle_write.mean_ms),
    );
    let mut table =
        Table::new(&["  16 KiB anywhere", ">reads", ">each", ">99 of 100", ">writes", ">each", ">99 of 100"]);
    for (read, write) in disk.reads.iter().zip(&disk.writes) {
        let side = |step: &Step| {
            let one = step.measured;
            [words(one.per_s, Unit::PerSecond), ms(one.mean_ms), ms(one.p99_ms)]
        };
        let mut row = vec![format!("  {} at a time", read.depth)];
        row.extend(side(read));
        row.extend(side(write));
        table.row(row);
    }
    text.push_str(&table.text());
    for (what, steps) in [("reads", &disk.reads), ("writes", &disk.writes)] {
        if let (Some(knee), Some(most)) = (knee(steps), most(steps)) {
            text.push_str(&format!(
                "  {what}: at most {}; {} at a time are enough for nearly all of it\n",
                words(most, Unit::PerSecond),
                knee.depth
            ));
        }
    }
    text.push_str(&format!(
        "  flushes: {} one after the other, each {}, 99 of 100 {}\n  bandwidth: reads {}, writes {}\n",
        words(disk.flush.per_s, Unit::PerSecond),
        ms(disk.flush.mean_ms),
        ms(disk.flush.p99_ms),
        words(disk.read_bytes_per_s, Unit::BytesPerSecond),
        words(disk.write_bytes_per_s, Unit::BytesPerSecond),
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_reads_with_its_units_and_its_knee() {
        let text = one(&crate::sample());
        for wanted in [
            "reads: at most 30000/s; 16 at a time",
            "writes: at most 8100/s; 1 at a time",
            "400 million steps/s on one",
            "db2:3306",
        ] {
            assert!(text.contains(wanted), "{wanted} of\n{text}");
        }
    }
}
