//! Files of /proc: any bytes are read, and any two readings have a difference. The bytes are cut in two at
//! the first NUL.
#![no_main]

use libfuzzer_sys::fuzz_target;
use diagnose::host::{cgroup, cpu, disk, interrupt, memory, nic, pressure, softnet, table, tcp};

fuzz_target!(|bytes: &[u8]| {
    let cut = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len() / 2);
    let (before, now) = bytes.split_at(cut);
    assert!(cpu::parse(now).since(&cpu::parse(before), 1.0).all.busy() < 1.001);
    if let (Some(now), Some(before)) = (pressure::parse(now), pressure::parse(before)) {
        assert!(now.since(&before, 1.0).some <= 1.0);
    }
    let of =
        |bytes| memory::Reading { level: memory::parse_level(bytes), reclaim: memory::parse_reclaim(bytes) };
    let _ = of(now).since(&of(before), 1.0);
    let _ = disk::since(&disk::parse(now), &disk::parse(before), 1.0);
    let _ = nic::since(&nic::parse(now), &nic::parse(before), 1.0);
    let _ = softnet::since(&softnet::parse(now), &softnet::parse(before), 1.0);
    let _ = tcp::parse(now, before).since(&tcp::parse(before, now), 1.0);
    let _ = table::parse_neighbours(now, before).since(&table::parse_conntrack(before, now, now), 1.0);
    let _ = cgroup::parse(now, before, now, before).since(&cgroup::parse(before, now, before, now), 1.0);
    let _ = interrupt::parse(now).busiest(&interrupt::parse(before), 1.0, 8);
});
