//! The method on simulated hosts, with noise that is assumed: 4 % a trial, and 15 % from block to block.
//! `headroom-bench trial` does the same with noise that was measured.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use trial::halving::{stages, trials};
use trial::simulation::{Host, Noise, landscape};
use trial::verdict::Verdict;

const MARGIN: f64 = 0.03;

fn noise() -> Noise {
    Noise::normal(0.04, 0.15)
}

fn host(truth: Vec<f64>, seed: u64, noise: &Noise) -> Host<'_> {
    Host::new(truth, noise, StdRng::seed_from_u64(seed))
}

#[test]
fn where_nothing_differs_at_most_five_of_a_hundred_experiments_call_a_cell_better_or_worse() {
    let noise = noise();
    let wrong = |seed| {
        let finding = host(vec![1.0; 62], seed, &noise).experiment(&stages(62));
        finding.cells.iter().any(|(_, verdict)| matches!(verdict, Verdict::Better | Verdict::Worse))
    };
    let experiments = 2_000;
    let count = (0..experiments).filter(|seed| wrong(*seed)).count();
    println!("false verdicts in {count} of {experiments} experiments of 62 identical cells");
    assert!(count <= experiments as usize * 5 / 100, "{count} of {experiments}");
}

#[test]
fn single_runs_of_identical_cells_crown_a_winner_and_this_method_does_not() {
    let noise = noise();
    let gain = |seed| {
        let figures = host(vec![1.0; 62], seed, &noise).block(&(0..62).collect::<Vec<_>>());
        figures.iter().map(|(_, (figure, baseline))| figure / baseline - 1.0).fold(0.0, f64::max)
    };
    let mean = (0..200).map(gain).sum::<f64>() / 200.0;
    println!("one run each: the best of 62 identical cells looks {:.1} % better", 100.0 * mean);
    assert!(mean > 0.08, "{mean}");
}

#[test]
fn a_true_effect_of_ten_per_cent_is_found_in_nine_of_ten_experiments() {
    let noise = noise();
    let (mut last, mut count) = (0, 0);
    for seed in 0..500_u64 {
        let mut truth = vec![1.0; 62];
        let at = seed as usize % 62;
        truth[at] = 1.10;
        let finding = host(truth, seed, &noise).experiment(&stages(62));
        last += usize::from(finding.cells.iter().any(|(cell, _)| *cell == at));
        count += usize::from(finding.cells.contains(&(at, Verdict::Better)));
    }
    println!("an effect of 10 % was found in {count} of 500 experiments; the last stage saw it in {last}");
    assert!(count >= 450, "{count} of 500");
}

#[test]
fn the_interval_of_the_last_stage_covers_the_truth_and_the_a_a_cell_raises_few_false_alarms() {
    let noise = noise();
    let (mut covered, mut all, mut void) = (0, 0, 0);
    let (mut winners, mut winners_covered) = (0, 0);
    for seed in 0..500 {
        let mut rng = StdRng::seed_from_u64(seed + 1_000_000);
        let truth = (0..30).map(|_| rng.random_range(0.8..1.25)).collect();
        let finding = host(truth, seed, &noise).experiment(&stages(30));
        covered += finding.covered;
        all += finding.cells.len();
        void += usize::from(finding.void);
        winners += usize::from(finding.winner_covered.is_some());
        winners_covered += usize::from(finding.winner_covered == Some(true));
    }
    println!("the winner's interval covered the truth in {winners_covered} of {winners} experiments");
    assert!(winners > 400 && winners_covered * 100 >= winners * 95, "{winners_covered} of {winners}");
    let share = covered as f64 / f64::from(all as u32);
    println!(
        "the 95 % interval covered the truth in {:.1} % of {all} cells; void: {void} of 500",
        100.0 * share
    );
    assert!((0.93..=0.97).contains(&share), "{share}");
    assert!(void <= 40, "{void} of 500");
}

#[test]
fn halving_finds_as_good_a_winner_as_all_cells_in_all_blocks_for_four_tenths_of_the_trials_at_most() {
    let (cells, noise) = (62, noise());
    assert!(trials(&stages(cells)) * 10 <= cells * 8 * 4, "of eight blocks, too");
    let (mut as_good, mut same) = (0, 0);
    for seed in 0..200 {
        let truth = landscape(cells, &mut StdRng::seed_from_u64(seed + 2_000_000));
        let winner = host(truth.clone(), seed, &noise).experiment(&stages(cells)).best;
        let full = host(truth.clone(), seed + 3_000_000, &noise).best_of_all(10);
        same += usize::from(winner == full);
        as_good += usize::from(truth[winner] >= truth[full] * (1.0 - MARGIN));
    }
    println!("of 200 landscapes: the very same winner in {same}, one as good within 3 % in {as_good}");
    assert!(as_good >= 190, "{as_good} of 200");
}
