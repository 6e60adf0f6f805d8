//! Whether a change is in force: what reads back, and for interrupts where they are counted.

use crate::catalogue::Proof;
use crate::error::Refusal;
use crate::item::{Access, ItemValue, value_of};
use crate::resolve::{Setting, interrupts, same};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Between two looks at the counters of interrupts.
const LOOK: Duration = Duration::from_millis(20);

/// Compares what was wanted with what is there.
///
/// # Errors
/// The first that differs.
pub fn read_back(wanted: &[ItemValue], found: &[ItemValue]) -> Result<(), Refusal> {
    for ItemValue { item, value } in wanted {
        let there = value_of(found, item).unwrap_or("nothing");
        if !same(item, value, there) {
            let item = item.to_string();
            return Err(Refusal::ReadsBack { item, wrote: value.clone(), found: there.to_owned() });
        }
    }
    Ok(())
}

/// What there is to say beyond the read-back; a note, or a reason to refuse.
///
/// # Errors
/// The setting reads back and has no effect.
pub(crate) fn effect(
    access: &mut Access<'_>,
    setting: &Setting,
    value: &str,
    patience: Duration,
) -> Result<Option<String>, Refusal> {
    if setting.name.knob.proof != Proof::Interrupts {
        return Ok(None);
    }
    let numbers = interrupts(access.host, &setting.name.target)?;
    let allowed = crate::value::cpu_set(value, u32::MAX)
        .map_err(|error| Refusal::NoEffect { why: error.to_string() })?;
    let read = || access.host.read("/proc/interrupts").map(|text| counts(&text));
    let (mut base, begun) = (read()?, Instant::now());
    let (mut forgiven, mut right) = (BTreeSet::new(), BTreeMap::new());
    loop {
        let now = read()?;
        for number in &numbers {
            match judge(&deltas(&base, &now, &[*number]), &allowed) {
                Landing::Right(count) => drop(right.insert(*number, count)),
                // A change takes effect at the next interrupt: the first may still come where the last one
                // went.
                Landing::Stray(_) if forgiven.insert(*number) => {
                    base.insert(*number, now.get(number).cloned().unwrap_or_default());
                }
                Landing::Stray(cpu) => {
                    let why = format!("/proc/interrupts still counts interrupt {number} on CPU {cpu}");
                    return Err(Refusal::NoEffect { why });
                }
                Landing::Silent => {}
            }
        }
        if right.len() == numbers.len() || begun.elapsed() >= patience {
            break;
        }
        std::thread::sleep(LOOK);
    }
    let count: u64 = right.values().sum();
    let (seen, all, ms) = (right.len(), numbers.len(), patience.as_millis());
    Ok(Some(match seen {
        0 => format!("not proved by /proc/interrupts: no interrupt came within {ms} ms"),
        _ if seen == all => format!("{count} interrupts came since, all on the CPUs asked for"),
        _ => format!("{count} interrupts of {seen} of {all} came within {ms} ms, all on the CPUs asked for"),
    }))
}

/// Interrupt -> CPU -> count.
pub type Counts = BTreeMap<u32, BTreeMap<u32, u64>>;

/// Reads `/proc/interrupts`: numbered interrupts only.
pub fn counts(text: &str) -> Counts {
    let mut lines = text.lines();
    let cpu = |word: &str| word.strip_prefix("CPU").and_then(|number| number.parse::<u32>().ok());
    let cpus: Vec<u32> = lines.next().unwrap_or_default().split_whitespace().filter_map(cpu).collect();
    let row = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let fields = rest.split_whitespace().map_while(|field| field.parse::<u64>().ok());
        Some((number.trim().parse().ok()?, cpus.iter().copied().zip(fields).collect()))
    };
    lines.filter_map(row).collect()
}

/// What was added on each CPU, over all of these interrupts.
pub fn deltas(before: &Counts, after: &Counts, numbers: &[u32]) -> BTreeMap<u32, u64> {
    let mut added = BTreeMap::new();
    for number in numbers {
        for (cpu, count) in after.get(number).into_iter().flatten() {
            let was = before.get(number).and_then(|cpus| cpus.get(cpu)).copied().unwrap_or(0);
            *added.entry(*cpu).or_insert(0) += count.saturating_sub(was);
        }
    }
    added
}

/// Where interrupts came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// All on CPUs asked for.
    Right(u64),
    /// At least one on this CPU, which was not asked for.
    Stray(u32),
    /// None came.
    Silent,
}

/// Judges what was added.
pub fn judge(added: &BTreeMap<u32, u64>, allowed: &BTreeSet<u32>) -> Landing {
    let mut came = added.iter().filter(|(_, count)| **count > 0);
    if let Some((cpu, _)) = came.clone().find(|(cpu, _)| !allowed.contains(cpu)) {
        return Landing::Stray(*cpu);
    }
    if came.next().is_none() { Landing::Silent } else { Landing::Right(added.values().sum()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "           CPU0       CPU2
 36:          0      86952 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 38:          7       2725 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
LOC:      88073      94325   Local timer interrupts
";

    #[test]
    fn interrupts_are_counted_by_cpu_and_judged_by_where_they_came() {
        let before = counts(BEFORE);
        assert_eq!(before[&36], BTreeMap::from([(0, 0), (2, 86952)]));
        assert_eq!(before.len(), 2, "LOC is no device");
        let landing = |after: &str, allowed: &[u32]| {
            let added = deltas(&before, &counts(after), &[36, 38]);
            judge(&added, &allowed.iter().copied().collect())
        };
        assert_eq!(landing(BEFORE, &[0]), Landing::Silent);
        let moved = BEFORE.replace("36:          0", "36:          9");
        assert_eq!(landing(&moved, &[0]), Landing::Right(9));
        assert_eq!(landing(&moved, &[2]), Landing::Stray(0));
        assert_eq!(landing(&moved.replace("2725", "2726"), &[0]), Landing::Stray(2));
    }
}
