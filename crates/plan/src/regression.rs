//! Ordinary least squares, for effects of factors and of pairs of them.
//!
//! `y = X b + e`. The normal equations are solved by sweeping, column after column; a column that follows
//! from those before it (two factors that never varied apart) is left out and has no estimate, instead of an
//! absurd one.
//!
//! Example: y = 1, 3, 5 at x = 0, 1, 2 gives the intercept 1 and the slope 2.

use crate::comparison::Effect;

/// A column that keeps less than this share of its squares once those before it are known follows from them.
const DEPENDENT: f64 = 1e-8;

/// Estimates of a fit, a column each, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// `None` for a column that follows from others. Its `blocks` are the degrees of freedom and one, so that
    /// intervals and probabilities are those of the fit.
    pub estimates: Vec<Option<Effect>>,
    /// Degrees of freedom of the residuals.
    pub degrees: u32,
}

/// Fits rows of columns to values. `None` without at least one row more than independent columns.
pub fn fit(rows: &[Vec<f64>], values: &[f64]) -> Option<Fit> {
    let Swept { a, kept } = solve(rows, values)?;
    let columns = kept.len();
    let degrees =
        rows.len().checked_sub(kept.iter().filter(|kept| **kept).count()).filter(|left| *left > 0)?;
    let variance = a[columns][columns].max(0.0) / degrees as f64;
    let estimate = |k: usize| {
        let log_error = (variance * a[k][k].max(0.0)).sqrt();
        kept[k].then_some(Effect { log_mean: a[k][columns], log_error, blocks: degrees as u32 + 1 })
    };
    Some(Fit { estimates: (0..columns).map(estimate).collect(), degrees: degrees as u32 })
}

/// The estimates of a fit alone, also where no degree of freedom is left to judge their error by. A column
/// that follows from others has none; the whole has none where rows and values do not go together.
pub fn estimates(rows: &[Vec<f64>], values: &[f64]) -> Option<Vec<Option<f64>>> {
    let Swept { a, kept } = solve(rows, values)?;
    let columns = kept.len();
    Some((0..columns).map(|k| kept[k].then_some(a[k][columns])).collect())
}

/// Coefficients below this are rounding.
const NOTHING: f64 = 1e-6;

/// For each column those before it that it follows from: what a fit says of them is said of it as well. Empty
/// for one that is independent. `None` where the rows do not go together.
pub fn dependencies(rows: &[Vec<f64>]) -> Option<Vec<Vec<usize>>> {
    let Swept { a, kept } = solve(rows, &vec![0.0; rows.len()])?;
    let columns = kept.len();
    let of = |k: usize| -> Vec<usize> {
        let holds = |j: &usize| kept[*j] && !kept[k] && a[*j][k].abs() > NOTHING;
        (0..columns).filter(holds).collect()
    };
    Some((0..columns).map(of).collect())
}

/// The normal equations after sweeping, and which columns are independent.
struct Swept {
    a: Vec<Vec<f64>>,
    kept: Vec<bool>,
}

fn solve(rows: &[Vec<f64>], values: &[f64]) -> Option<Swept> {
    let columns = rows.first()?.len();
    if rows.len() != values.len() || rows.iter().any(|row| row.len() != columns) {
        return None;
    }
    let size = columns + 1;
    let mut a = vec![vec![0.0; size]; size];
    for (row, value) in rows.iter().zip(values) {
        let whole: Vec<f64> = row.iter().copied().chain([*value]).collect();
        for i in 0..size {
            for j in 0..size {
                a[i][j] += whole[i] * whole[j];
            }
        }
    }
    let squares: Vec<f64> = (0..columns).map(|at| a[at][at]).collect();
    let mut kept = vec![false; columns];
    for k in 0..columns {
        if squares[k] <= 0.0 || a[k][k] < DEPENDENT * squares[k] {
            continue;
        }
        kept[k] = true;
        sweep(&mut a, k);
    }
    Some(Swept { a, kept })
}

fn sweep(a: &mut [Vec<f64>], k: usize) {
    let pivot = a[k][k];
    let row: Vec<f64> = a[k].iter().map(|value| value / pivot).collect();
    for (_, line) in a.iter_mut().enumerate().filter(|(i, _)| *i != k) {
        let factor = line[k];
        for (value, by) in line.iter_mut().zip(&row) {
            *value -= factor * by;
        }
        line[k] = -factor / pivot;
    }
    a[k] = row;
    a[k][k] = 1.0 / pivot;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_top_and_a_column_that_follows_from_another() {
        let rows: Vec<Vec<f64>> = (0..4).map(|x| vec![1.0, f64::from(x), 2.0 * f64::from(x)]).collect();
        let fit = fit(&rows, &[1.0, 3.0, 5.0, 7.0]).unwrap();
        let at = |k: usize| fit.estimates[k].map(|one| (one.log_mean * 1e6).round() / 1e6);
        assert_eq!((at(0), at(1), at(2), fit.degrees), (Some(1.0), Some(2.0), None, 2));
        assert_eq!(dependencies(&rows), Some(vec![vec![], vec![], vec![1]]));
    }

    #[test]
    fn the_error_of_a_slope_is_that_of_the_textbook() {
        // x = 1..5, y = 2, 4, 5, 4, 5: slope 0.6, residual variance 0.8, standard error sqrt(0.8 / 10).
        let rows: Vec<Vec<f64>> = (1..=5).map(|x| vec![1.0, f64::from(x)]).collect();
        let slope = fit(&rows, &[2.0, 4.0, 5.0, 4.0, 5.0]).unwrap().estimates[1].unwrap();
        assert!((slope.log_mean - 0.6).abs() < 1e-9 && (slope.log_error - 0.08_f64.sqrt()).abs() < 1e-9);
        assert_eq!(fit(&rows[..2], &[1.0, 2.0]), None, "nothing is left to judge the error by");
        let known = estimates(&rows[..2], &[1.0, 2.0]).unwrap();
        assert!((known[1].unwrap() - 1.0).abs() < 1e-9, "{known:?}");
    }
}
