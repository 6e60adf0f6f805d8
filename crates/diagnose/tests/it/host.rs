//! No bytes that a kernel (or something that looks like one) could hand over make a parser panic, and no two
//! readings make a difference that is negative or no number.

use diagnose::host::{cpu, disk, interrupt, memory, nic, pressure, softnet, table, tcp};
use proptest::prelude::*;

const RECORDED: [&[u8]; 12] = [
    include_bytes!("../recorded/linux-6.18/stat"),
    include_bytes!("../recorded/linux-6.18/diskstats"),
    include_bytes!("../recorded/linux-6.18/softirqs"),
    include_bytes!("../recorded/linux-6.18/interrupts"),
    include_bytes!("../recorded/linux-6.18/meminfo"),
    include_bytes!("../recorded/linux-6.18/vmstat"),
    include_bytes!("../recorded/linux-6.18/net_dev"),
    include_bytes!("../recorded/linux-6.18/net_softnet_stat"),
    include_bytes!("../recorded/linux-6.18/net_snmp"),
    include_bytes!("../recorded/linux-6.18/net_netstat"),
    include_bytes!("../recorded/linux-6.18/arp_cache"),
    include_bytes!("../recorded/linux-6.18/pressure_cpu"),
];

/// Any bytes, or a recorded file with some bytes changed and its end cut off.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40);
    let damaged = (prop::sample::select(RECORDED.to_vec()), changes, any::<prop::sample::Index>());
    let damaged = damaged.prop_map(|(file, changes, end)| {
        let mut file = file.to_vec();
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(end.index(file.len()) + 1);
        file
    });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..400), damaged]
}

/// Every figure in a sample, wherever it stands.
fn figures(sample: &impl serde::Serialize) -> Vec<f64> {
    fn walk(value: &serde_json::Value, into: &mut Vec<f64>) {
        match value {
            serde_json::Value::Number(number) => into.extend(number.as_f64()),
            serde_json::Value::Array(all) => all.iter().for_each(|value| walk(value, into)),
            serde_json::Value::Object(all) => all.values().for_each(|value| walk(value, into)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    walk(&serde_json::to_value(sample).unwrap(), &mut all);
    all
}

fn sound(sample: &impl serde::Serialize) -> Result<(), TestCaseError> {
    // JSON has no word for a figure that is none: it would be missing here, as null.
    for figure in figures(sample) {
        prop_assert!(figure.is_finite() && figure >= 0.0, "{}", serde_json::to_string(sample).unwrap());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_two_readings_make_a_sound_difference(before in bytes(), now in bytes(), seconds in 0.01f64..100.0) {
        let (b, n, s) = (&before[..], &now[..], seconds);
        let sample = cpu::parse(n).since(&cpu::parse(b), s);
        sound(&sample)?;
        prop_assert!(sample.all.busy() <= 1.0 + 1e-9);
        if let (Some(now), Some(before)) = (pressure::parse(n), pressure::parse(b)) {
            let sample = now.since(&before, s);
            sound(&sample)?;
            prop_assert!(sample.some <= 1.0 && sample.full <= 1.0);
        }
        let memory = |bytes| memory::Reading {
            level: memory::parse_level(bytes),
            reclaim: memory::parse_reclaim(bytes),
        };
        sound(&memory(n).since(&memory(b), s))?;
        sound(&disk::since(&disk::parse(n), &disk::parse(b), s))?;
        sound(&nic::since(&nic::parse(n), &nic::parse(b), s))?;
        sound(&softnet::since(&softnet::parse(n), &softnet::parse(b), s))?;
        sound(&tcp::parse(n, b).since(&tcp::parse(b, n), s))?;
        sound(&table::parse_neighbours(n, b).since(&table::parse_neighbours(b, n), s))?;
        sound(&table::parse_conntrack(n, b, n).since(&table::parse_conntrack(b, n, b), s))?;
        sound(&interrupt::parse(n).busiest(&interrupt::parse(b), s, 8))?;
        let _ = nic::parse_speed(n);
    }
}
