//! Sampling: what all sessions did, from the one in `n` that was measured, and how far off that may be.
//!
//! Whole sessions are sampled, so their commands are *clusters*. With `y_s` the commands of a measured
//! session and `n` the sessions it stands for (a share `p = 1/n` is measured), the Horvitz-Thompson estimate
//! of all commands is `n` times the sum of `y_s`, and its variance is estimated by
//!
//! ```text
//!     V = (1 - p) / p^2 * sum(y_s^2) = n (n - 1) sum(y_s^2)
//! ```
//!
//! (Sarndal, Swensson and Wretman, *Model Assisted Survey Sampling*, 1992, section 2.8 with Bernoulli
//! sampling; every `n`th is taken here, which is no worse unless the application's sessions have a period of
//! `n` themselves.) Of a part of the commands (one digest, say) `sum(y_s^2)` is not known for each part. With
//! `q` the part's share of the commands of these sessions, and each command in the part as likely as another,
//! a session has `q^2 y^2 + q (1 - q) y` in the mean square.
//!
//! A span of several stretches: what is known is the sum of squares within each. As
//! `(sum y_e)^2 <= T sum(y_e^2 / t_e)` for stretches of the lengths `t_e` that fill a span `T` (Cauchy and
//! Schwarz), with equality for a session at a steady rate, the error told is at most a little too large.
//!
//! Worked example: one in 16, two sessions measured with 40 and 60 commands in 10 s: 16 x 100 = 1,600
//! commands, 160/s. The variance is 16 x 15 x (1,600 + 3,600) = 1,248,000, the standard error 1,117 commands:
//! 160/s +- 112/s. Two sessions are few.

/// Measured sessions that each stand for this many, over a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Clusters {
    pub(crate) commands: f64,
    /// The sum over the sessions of their commands squared.
    pub(crate) squares: f64,
}

/// The variance of the estimate of a part of the commands of all sessions: those that `part` were
/// measured.
pub(crate) fn variance(one_in: u32, part: f64, clusters: &Clusters) -> f64 {
    let n = f64::from(one_in);
    if one_in <= 1 || clusters.commands <= 0.0 {
        return 0.0;
    }
    let q = (part / clusters.commands).min(1.0);
    n * (n - 1.0) * (q * q * clusters.squares + q * (1.0 - q) * clusters.commands)
}

/// The sum of squares over a span from those within its stretches: pairs of length and sum. Empty stretches
/// count as length.
pub(crate) fn over(stretches: &[(f64, f64)]) -> f64 {
    let span: f64 = stretches.iter().map(|(length, _)| length).sum();
    let each = stretches.iter().filter(|(length, _)| *length > 0.0);
    span * each.map(|(length, squares)| squares / length).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_worked_example() {
        let clusters = Clusters { commands: 100.0, squares: 5200.0 };
        assert!((variance(16, 100.0, &clusters) - 1_248_000.0).abs() < 1e-6);
        assert!((variance(16, 100.0, &clusters).sqrt() - 1117.1).abs() < 0.1);
        assert_eq!(variance(1, 100.0, &clusters), 0.0, "all are measured: there is nothing to err about");
        assert_eq!(variance(16, 0.0, &Clusters::default()), 0.0);
    }

    #[test]
    fn a_session_at_a_steady_rate_has_the_square_of_its_whole_span() {
        assert!((over(&[(5.0, 25.0), (5.0, 25.0), (2.0, 4.0)]) - 144.0).abs() < 1e-9);
    }

    proptest! {
        /// Of many draws the estimate is right on average, and the variance told is on average the one it
        /// has.
        #[test]
        fn over_all_draws_estimate_and_error_are_what_they_say(
            sessions in prop::collection::vec(0u32..50, 1..9),
            one_in in 2u32..6,
        ) {
            let p = 1.0 / f64::from(one_in);
            let all: f64 = sessions.iter().map(|y| f64::from(*y)).sum();
            let (mut mean, mut spread, mut told) = (0.0, 0.0, 0.0);
            for draw in 0u32..1 << sessions.len() {
                let taken = |at: &usize| draw >> at & 1 == 1;
                let chosen: Vec<f64> = (0..sessions.len()).filter(taken).map(|at| f64::from(sessions[at])).collect();
                let (m, rest) = (chosen.len() as i32, (sessions.len() - chosen.len()) as i32);
                let chance = p.powi(m) * (1.0 - p).powi(rest);
                let commands: f64 = chosen.iter().sum();
                let estimate = commands * f64::from(one_in);
                mean += chance * estimate;
                spread += chance * (estimate - all) * (estimate - all);
                let squares = chosen.iter().map(|y| y * y).sum();
                told += chance * variance(one_in, commands, &Clusters { commands, squares });
            }
            prop_assert!((mean - all).abs() < 1e-6 * (1.0 + all));
            prop_assert!((told - spread).abs() < 1e-6 * (1.0 + spread), "{} {}", told, spread);
        }
    }
}
