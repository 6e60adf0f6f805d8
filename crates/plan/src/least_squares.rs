//! Least squares of a model that is linear in at most three parameters, with none below 0, and the
//! region of parameters that the data cannot tell from the best ones.
//!
//! With weights w the misfit is Q(b) = sum w (y - x b)^2. The region at a level is where Q is at most its
//! least plus s^2 t^2, with s^2 the misfit a degree of freedom and t Student's quantile. The range that any
//! figure of the parameters takes over that region is its profile interval (Bates and Watts, *Nonlinear
//! Regression Analysis*, 1988, 6.1): no derivative and no normal approximation is needed, so the figure may
//! be a maximum or a percentile. The region is walked as points on ellipsoids, one for each set of parameters
//! that are not 0: the extremes of a figure often lie where one of them is.

use crate::student;

/// Parameters at most.
pub const MOST: usize = 3;
/// Parameters of a model; unused ones are 0.
pub type Parameters = [f64; MOST];

/// Points on a sphere, on a circle.
const ON_SPHERE: usize = 400;
const ON_CIRCLE: usize = 40;
/// Ellipsoids inside the outermost one, as shares of its radius.
const RADII: [f64; 2] = [1.0, 0.6];

/// One observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// What each parameter is multiplied by.
    pub x: Parameters,
    /// What came.
    pub y: f64,
    /// Its weight: one over its variance, up to a factor that all share.
    pub weight: f64,
}

/// The best parameters, and the sums that tell how good others are.
#[derive(Clone, Debug)]
pub struct Fit {
    columns: usize,
    gram: [[f64; MOST]; MOST],
    moment: Parameters,
    total: f64,
    /// The best parameters.
    pub best: Parameters,
    /// Their misfit.
    pub misfit: f64,
}

impl Fit {
    /// Fits the first `columns` parameters; `None` where there is nothing to fit, or a figure is not finite.
    pub fn new(rows: &[Row], columns: usize) -> Option<Self> {
        let columns = columns.min(MOST);
        let finite = |row: &Row| {
            row.y.is_finite() && row.weight.is_finite() && row.x[..columns].iter().all(|x| x.is_finite())
        };
        if rows.is_empty() || columns == 0 || !rows.iter().all(finite) {
            return None;
        }
        let mut fit = Self {
            columns,
            gram: [[0.0; MOST]; MOST],
            moment: [0.0; MOST],
            total: 0.0,
            best: [0.0; MOST],
            misfit: 0.0,
        };
        for row in rows {
            for i in 0..columns {
                for j in 0..columns {
                    fit.gram[i][j] += row.weight * row.x[i] * row.x[j];
                }
                fit.moment[i] += row.weight * row.x[i] * row.y;
            }
            fit.total += row.weight * row.y * row.y;
        }
        // With all of them 0 nothing is explained.
        fit.misfit = fit.total;
        for free in 1..(1_usize << columns) {
            if let Some((found, misfit)) = fit.restricted(free)
                && found.iter().all(|value| *value >= 0.0)
                && misfit < fit.misfit
            {
                (fit.best, fit.misfit) = (found, misfit);
            }
        }
        fit.misfit.is_finite().then_some(fit)
    }

    /// The misfit of other parameters.
    pub fn misfit_of(&self, parameters: &Parameters) -> f64 {
        let mut misfit = self.total;
        for i in 0..self.columns {
            misfit -= 2.0 * parameters[i] * self.moment[i];
            for j in 0..self.columns {
                misfit += parameters[i] * self.gram[i][j] * parameters[j];
            }
        }
        misfit.max(0.0)
    }

    /// Points of the region where the misfit is at most `limit`; the best parameters are the first.
    pub fn region(&self, limit: f64) -> Vec<Parameters> {
        let mut points = vec![self.best];
        for free in 1..(1_usize << self.columns) {
            let Some((centre, misfit)) = self.restricted(free) else { continue };
            if misfit > limit {
                continue;
            }
            let members: Vec<usize> = (0..self.columns).filter(|at| free >> at & 1 == 1).collect();
            let Some(root) = self.root(&members) else { continue };
            for direction in directions(members.len()) {
                // L' d = u: the ellipsoid d' A d = 1 of A = L L'.
                let step = back_substitute(&root, &direction, members.len());
                for radius in RADII {
                    let mut point = centre;
                    for (at, member) in members.iter().enumerate() {
                        point[*member] += (limit - misfit).sqrt() * radius * step[at];
                    }
                    if point.iter().all(|value| *value >= 0.0) {
                        points.push(point);
                    }
                }
            }
        }
        points
    }

    /// The best parameters where only those of the mask may differ from 0, whatever their sign.
    fn restricted(&self, free: usize) -> Option<(Parameters, f64)> {
        let members: Vec<usize> = (0..self.columns).filter(|at| free >> at & 1 == 1).collect();
        let root = self.root(&members)?;
        let mut half = [0.0; MOST];
        for i in 0..members.len() {
            let below: f64 = (0..i).map(|j| root[i][j] * half[j]).sum();
            half[i] = (self.moment[members[i]] - below) / root[i][i];
        }
        let solved = back_substitute(&root, &half, members.len());
        let mut found = [0.0; MOST];
        for (at, member) in members.iter().enumerate() {
            found[*member] = solved[at];
        }
        Some((found, self.misfit_of(&found)))
    }

    /// The Cholesky root of these rows and columns; `None` where they depend on each other.
    fn root(&self, members: &[usize]) -> Option<[[f64; MOST]; MOST]> {
        let mut root = [[0.0; MOST]; MOST];
        for i in 0..members.len() {
            for j in 0..=i {
                let known: f64 = (0..j).map(|k| root[i][k] * root[j][k]).sum();
                let left = self.gram[members[i]][members[j]] - known;
                if i == j {
                    if left <= 1e-12 * self.gram[members[i]][members[i]] {
                        return None;
                    }
                    root[i][i] = left.sqrt();
                } else {
                    root[i][j] = left / root[j][j];
                }
            }
        }
        Some(root)
    }
}

/// What is added to the least misfit for a region at `level` (0.95), with `degrees` of freedom left and a
/// misfit of `variance` each.
pub fn allowance(variance: f64, degrees: f64, level: f64) -> f64 {
    variance * student::quantile(f64::midpoint(1.0, level), degrees).powi(2)
}

fn back_substitute(root: &[[f64; MOST]; MOST], right: &Parameters, size: usize) -> Parameters {
    let mut solved = [0.0; MOST];
    for i in (0..size).rev() {
        let above: f64 = (i + 1..size).map(|j| root[j][i] * solved[j]).sum();
        solved[i] = (right[i] - above) / root[i][i];
    }
    solved
}

/// Unit vectors, spread evenly.
fn directions(dimensions: usize) -> Vec<Parameters> {
    match dimensions {
        1 => vec![[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]],
        2 => {
            let angle = |at: usize| at as f64 / ON_CIRCLE as f64 * std::f64::consts::TAU;
            (0..ON_CIRCLE).map(|at| [angle(at).cos(), angle(at).sin(), 0.0]).collect()
        }
        _ => {
            // Fibonacci's lattice.
            let golden = std::f64::consts::PI * (3.0 - 5.0_f64.sqrt());
            let point = |at: usize| {
                let z = 1.0 - 2.0 * (at as f64 + 0.5) / ON_SPHERE as f64;
                let (radius, angle) = ((1.0 - z * z).sqrt(), golden * at as f64);
                [radius * angle.cos(), radius * angle.sin(), z]
            };
            (0..ON_SPHERE).map(point).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: impl Fn(f64) -> f64) -> Vec<Row> {
        (1..=9).map(f64::from).map(|x| Row { x: [1.0, x, x * x], y: of(x), weight: 1.0 }).collect()
    }

    #[test]
    fn the_parameters_of_an_exact_model_are_found() {
        let fit = Fit::new(&rows(|x| 2.0 + 0.5 * x + 0.1 * x * x), 3).unwrap();
        for (found, expected) in fit.best.iter().zip([2.0, 0.5, 0.1]) {
            assert!((found - expected).abs() < 1e-6, "{:?}", fit.best);
        }
    }

    #[test]
    fn no_parameter_goes_below_0_and_the_others_make_up_for_it() {
        let fit = Fit::new(&rows(|x| 5.0 + x - 0.05 * x * x), 3).unwrap();
        assert_eq!(fit.best[2], 0.0);
        assert!(fit.best[0] > 5.0 && fit.best[1] > 0.0 && fit.misfit > 0.0, "{:?}", fit.best);
    }

    #[test]
    fn the_region_of_one_parameter_is_students_interval() {
        let sample = [9.0, 10.0, 11.0, 12.0];
        let rows: Vec<Row> = sample.iter().map(|y| Row { x: [1.0, 0.0, 0.0], y: *y, weight: 1.0 }).collect();
        let fit = Fit::new(&rows, 1).unwrap();
        let limit = fit.misfit + allowance(fit.misfit / 3.0, 3.0, 0.95);
        let most = fit.region(limit).iter().map(|point| point[0]).fold(f64::MIN, f64::max);
        // 10.5 + 3.182 * 1.291 / 2
        assert!((most - 12.554).abs() < 0.001, "{most}");
    }

    #[test]
    fn columns_that_depend_on_each_other_are_not_told_apart() {
        let rows: Vec<Row> =
            (1..5).map(f64::from).map(|x| Row { x: [x, 2.0 * x, 0.0], y: x, weight: 1.0 }).collect();
        let fit = Fit::new(&rows, 2).unwrap();
        assert!(fit.misfit < 1e-9, "either alone explains it");
        assert_eq!(Fit::new(&[], 2).map(|fit| fit.best), None);
    }
}
