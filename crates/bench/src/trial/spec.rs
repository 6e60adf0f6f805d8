//! The specs of the real trial and of the one over cells that differ in nothing.

use super::bed::{Bed, DATABASE};
use ::trial::cost::EXTRA;
use ::trial::halving::Stage;
use std::time::Duration;

/// What is around a trial.
const AROUND: f64 = 0.7;
/// A restart with the prepared data.
const RESTART: f64 = 2.0;
/// Restarts of a block: two plots after the lead-in, the baseline looked in on twice, and the data.
const RESTARTS: f64 = 7.0;
/// Shorter runs than this measure little.
const SHORTEST: f64 = 4.0;

/// At least 64 cells: three sizes of the buffer pool beside the data set and two levels of each other factor,
/// in half of the combinations.
pub(super) fn real(bed: &Bed, budget: Duration, small: bool) -> String {
    let device = bed.device.as_deref();
    // What matters on a disk first: how much is cached, and how often a commit waits for the disk. The two
    // dangers are named: after a crash of the host the last second of commits, or of the binary log, is lost.
    let mut factors = format!(
        "{}{}{}{}{}",
        factor("server.innodb_buffer_pool_size", &["33554432", "67108864", "167772160"], ""),
        factor("server.innodb_flush_log_at_trx_commit", &["1", "2"], "danger = true\n"),
        factor("server.sync_binlog", &["1", "0"], "danger = true\n"),
        factor("server.innodb_flush_method", &["fsync", "O_DIRECT"], "whole_plot = true\n"),
        factor("server.innodb_io_capacity", &["200", "2000"], ""),
    );
    if let Some(device) = device.filter(|_| !small) {
        factors.push_str(&factor(&format!("block.scheduler@{device}"), &["none", "mq-deadline"], ""));
    }
    factors.push_str(&factor("memory.thp", &["madvise", "always"], ""));
    let exclude = "[[exclude]]\n\"server.innodb_buffer_pool_size\" = \"67108864\"\n\
                   \"memory.thp\" = \"always\"\n";
    let cells = if device.is_some() && !small { 79 } else { 39 };
    let loads = 2;
    let seconds = budget.as_secs_f64() / f64::from(loads);
    let stage = |cells, blocks| Stage { cells, blocks };
    let long = [stage(cells, 1), stage(20, 3), stage(6, 8)];
    let short = [stage(cells, 1), stage(12, 2), stage(5, 8)];
    let shortest = [stage(cells, 1), stage(3, 3)];
    let of = |stages: &[Stage]| {
        let blocks: u32 = stages.iter().map(|stage| stage.blocks).sum();
        let trials: usize = stages.iter().map(|one| (one.cells + EXTRA) * one.blocks as usize).sum();
        // A tenth for what takes longer than thought, void trials among it.
        (seconds * 0.9 - f64::from(blocks) * RESTARTS * RESTART) / trials as f64 - AROUND
    };
    let plans: [&[Stage]; 3] = [&long, &short, &shortest];
    let stages = plans.into_iter().find(|stages| of(stages) >= SHORTEST).unwrap_or(&shortest);
    let each = of(stages).clamp(1.2, 60.0);
    let mut text = head("real", bed, budget, "[16, 32]", each);
    text.push_str("[design]\nkind = \"half\"\n\n");
    text.push_str(&factors);
    text.push_str(exclude);
    for Stage { cells, blocks } in stages {
        text.push_str(&format!("\n[[stage]]\ncells = {cells}\nblocks = {blocks}\n"));
    }
    text
}

/// Six cells that differ in a variable that does nothing here: the slow log is off. As many blocks as fit
/// into the budget, each trial as long as one of a real experiment: its figures are also the series of noise.
pub(super) fn same(bed: &Bed, budget: Duration) -> String {
    let trials = f64::from(6 + EXTRA as u32);
    let seconds = budget.as_secs_f64() * 0.9;
    let blocks = (seconds / (trials * (SHORTEST + AROUND) + RESTART)).floor().clamp(8.0, 200.0);
    let each = ((seconds / blocks - RESTART) / trials - AROUND).clamp(1.2, 60.0);
    let mut text = head("same", bed, budget, "[16]", each);
    text.push_str("[design]\nkind = \"one-at-a-time\"\n\n");
    text.push_str(&factor("server.long_query_time", &["10", "11", "12", "13", "14", "15", "16"], ""));
    text.push_str(&format!("\n[[stage]]\ncells = 6\nblocks = {blocks}\n"));
    text
}

fn head(name: &str, bed: &Bed, budget: Duration, threads: &str, each: f64) -> String {
    format!(
        "name = \"{name}\"\nmetric = \"throughput\"\nsmallest_effect = 0.03\nseed = 1\nbudget = \"{}s\"\n\
         server = \"127.0.0.1:{}\"\n\n[load]\nworkload = \"oltp_read_write\"\nthreads = {threads}\n\
         database = \"{DATABASE}\"\ntables = {}\ntable_size = {}\ndistribution = \"uniform\"\n\n[reset]\n\
         data = \"program\"\nprogram = \"{}\"\nevery = \"block\"\nfill = true\n\n[guard]\nlatency = 5.0\n\n[timing]\n\
         reset = \"0s\"\nwarm_up = \"{}ms\"\nmeasure = \"{}ms\"\nrestart = \"2s\"\n\n",
        budget.as_secs(),
        bed.port,
        bed.tables,
        bed.table_size,
        bed.program().display(),
        (each * 300.0) as u64,
        (each * 700.0) as u64,
    )
}

fn factor(knob: &str, levels: &[&str], more: &str) -> String {
    let levels: Vec<String> = levels.iter().map(|level| format!("\"{level}\"")).collect();
    format!("[[factor]]\nknob = \"{knob}\"\nlevels = [{}]\n{more}\n", levels.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::trial::run::Experiment;
    use ::trial::spec::Spec;
    use std::path::Path;

    #[test]
    fn the_real_trial_has_at_least_64_cells_over_at_least_6_factors_and_fits_into_its_budget() {
        for minutes in [10, 35, 85] {
            let budget = Duration::from_secs(minutes * 60);
            let bed = Bed::of(Path::new("/x"), Some("loop0".to_owned()));
            let text = real(&bed, budget, false);
            let spec = Spec::parse(&text, "real.toml").unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
            let experiment = Experiment::new(spec, &[]).unwrap();
            assert_eq!((experiment.possible.len(), experiment.spec.factors.len()), (79, 7));
            assert!(trial::text::Plan::of(&experiment, 0.04).fits || minutes == 10, "{minutes}\n{text}");
            let text = same(&bed, budget);
            Spec::parse(&text, "same.toml").unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
        }
    }
}
