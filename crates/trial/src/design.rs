//! Factors and levels become cells.
//!
//! * *Full*: every combination. All interactions can be seen; the number of cells is the product of the
//!   levels.
//! * *Half*: those combinations in which an even number of factors are off their baseline. With two levels
//!   each this is the half fraction of the highest resolution: with five factors or more no main effect and
//!   no interaction of two is mixed with another one; with fewer, what is mixed has no figure (`effects.rs`).
//!   Factors of more levels are split by the same rule.
//! * *Plackett-Burman* (1946): `N` cells, `N` a multiple of four above the number of factors, each of two
//!   levels. Every pair of factors meets in all four ways equally often, so each main effect is measured with
//!   all `N` cells; but interactions of two factors are mixed into main effects. *Folded* (every cell again
//!   with all levels swapped) they are not: a main effect keeps its sign under the swap that an interaction
//!   loses.
//! * *One at a time*: the baseline with one level changed. For what is known not to interact, and for people.
//!
//! Example, three factors, N = 4: the generator `+ + -` gives the cells `++-`, `-++`, `+-+`, and `---`, the
//! baseline; folded also `--+`, `+--`, `-+-`, `+++`.

use crate::spec::{Constraint, Factor, Kind};

/// More cells than this are refused: nobody waits for them.
pub const MOST_CELLS: usize = 4_096;

/// Level of each factor, by its place in [`Factor::levels`].
pub type Levels = Vec<usize>;

/// The cells of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    pub baseline: Levels,
    /// Every other cell, each once.
    pub cells: Vec<Levels>,
    /// Cells that a constraint excludes. Where it is not zero, a fractional design is not balanced any more.
    pub excluded: usize,
}

/// Why there is no design.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DesignError {
    /// Too many combinations.
    #[error(
        "the factors have {cells} combinations, more than {MOST_CELLS}; take fewer levels, or kind = \
         \"half\" or \"plackett-burman\""
    )]
    TooMany { cells: usize },
    /// A factor with another number of levels.
    #[error(
        "plackett-burman takes two levels for each factor, and {factor} has {levels}; take two, or design = \"full\""
    )]
    NotTwoLevels { factor: String, levels: usize },
    /// More factors than the largest generator has columns.
    #[error("plackett-burman is known here for up to 23 factors, and there are {factors}")]
    TooManyFactors { factors: usize },
    /// Fewer cells than there are in the first stage, which has all of them.
    #[error(
        "the first [[stage]] has every cell, {cells} of them, and the spec says cells = {asked}; write {cells}, or \
         leave cells out by fewer levels or [[exclude]]"
    )]
    FirstStage { asked: usize, cells: usize },
    /// Constraints leave nothing to compare.
    #[error("the constraints exclude {what}")]
    NothingLeft { what: &'static str },
}

/// Makes the cells.
///
/// # Errors
/// See [`DesignError`].
pub fn design(factors: &[Factor], constraints: &[Constraint], kind: Kind) -> Result<Design, DesignError> {
    let baseline: Levels = factors.iter().map(|factor| factor.baseline).collect();
    let all = match kind {
        Kind::Full => full(factors)?,
        Kind::Half => {
            let off = |cell: &Levels| cell.iter().zip(&baseline).filter(|(one, base)| one != base).count();
            full(factors)?.into_iter().filter(|cell| off(cell) % 2 == 0).collect()
        }
        Kind::PlackettBurman { folded } => plackett_burman(factors, folded)?,
        Kind::OneAtATime => one_at_a_time(factors, &baseline),
    };
    let mut design = Design { baseline, cells: Vec::new(), excluded: 0 };
    if constraints.iter().any(|constraint| constraint.excludes(&design.baseline)) {
        return Err(DesignError::NothingLeft { what: "the baseline" });
    }
    for cell in all {
        if constraints.iter().any(|constraint| constraint.excludes(&cell)) {
            design.excluded += 1;
        } else if cell != design.baseline && !design.cells.contains(&cell) {
            design.cells.push(cell);
        }
    }
    if design.cells.is_empty() { Err(DesignError::NothingLeft { what: "every cell" }) } else { Ok(design) }
}

fn full(factors: &[Factor]) -> Result<Vec<Levels>, DesignError> {
    let counts = factors.iter().map(|factor| factor.levels.len());
    let cells = counts.fold(1_usize, usize::saturating_mul);
    if cells > MOST_CELLS {
        return Err(DesignError::TooMany { cells });
    }
    let mut all = vec![Levels::new()];
    for factor in factors {
        let longer = |cell: &Levels| {
            (0..factor.levels.len()).map(|level| [cell.as_slice(), &[level]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    Ok(all)
}

/// First rows, without the last, which is all `-`; Plackett and Burman, Biometrika 33 (1946).
const GENERATORS: [&str; 6] =
    ["++-", "+++-+--", "++-+++---+-", "++++-+-++--+---", "++--++++-+-+----++-", "+++++-+-++--++--+-+----"];

/// Rows of `true` (the other level) and `false` (the baseline's), one column a factor.
pub(crate) fn signs(columns: usize, folded: bool) -> Option<Vec<Vec<bool>>> {
    let generator = GENERATORS.iter().find(|generator| generator.len() >= columns)?;
    let first: Vec<bool> = generator.chars().map(|sign| sign == '+').collect();
    let n = first.len();
    let mut rows: Vec<Vec<bool>> =
        (0..n).map(|shift| (0..columns).map(|column| first[(column + n - shift) % n]).collect()).collect();
    rows.push(vec![false; columns]);
    if folded {
        let swapped: Vec<Vec<bool>> = rows.iter().map(|row| row.iter().map(|sign| !sign).collect()).collect();
        rows.extend(swapped);
    }
    Some(rows)
}

fn plackett_burman(factors: &[Factor], folded: bool) -> Result<Vec<Levels>, DesignError> {
    if let Some(wrong) = factors.iter().find(|factor| factor.levels.len() != 2) {
        return Err(DesignError::NotTwoLevels { factor: wrong.knob.clone(), levels: wrong.levels.len() });
    }
    let rows = signs(factors.len(), folded);
    let rows = rows.ok_or(DesignError::TooManyFactors { factors: factors.len() })?;
    let level =
        |(other, factor): (&bool, &Factor)| if *other { 1 - factor.baseline } else { factor.baseline };
    Ok(rows.iter().map(|row| row.iter().zip(factors).map(level).collect()).collect())
}

fn one_at_a_time(factors: &[Factor], baseline: &Levels) -> Vec<Levels> {
    let mut cells = Vec::new();
    for (at, factor) in factors.iter().enumerate() {
        for level in (0..factor.levels.len()).filter(|level| *level != factor.baseline) {
            let mut cell = baseline.clone();
            cell[at] = level;
            cells.push(cell);
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::factor;

    #[test]
    fn a_full_design_has_every_combination_but_the_baseline_once() {
        let factors = [factor("a", 3), factor("b", 2), factor("c", 2)];
        let design = design(&factors, &[], Kind::Full).unwrap();
        assert_eq!((design.cells.len(), design.baseline), (11, vec![0, 0, 0]));
        let many: Vec<Factor> = (0..13).map(|at| factor(&at.to_string(), 2)).collect();
        assert_eq!(super::design(&many, &[], Kind::Full), Err(DesignError::TooMany { cells: 8_192 }));
    }

    #[test]
    fn every_pair_of_columns_meets_in_all_four_ways_equally_often() {
        for columns in [3, 7, 11, 15, 19, 23] {
            let rows = signs(columns, false).unwrap();
            assert_eq!(rows.len(), columns + 1);
            for a in 0..columns {
                for b in 0..a {
                    for ways in [(false, false), (false, true), (true, false), (true, true)] {
                        let count = rows.iter().filter(|row| (row[a], row[b]) == ways).count();
                        assert_eq!(count * 4, rows.len(), "{columns} columns: {a}, {b}");
                    }
                }
            }
        }
    }

    #[test]
    fn folded_no_interaction_of_two_factors_is_mixed_into_a_main_effect() {
        let sign = |on: bool| if on { 1 } else { -1 };
        let mixed = |rows: &[Vec<bool>]| {
            let columns = rows[0].len();
            let mut found = 0;
            for main in 0..columns {
                for a in (0..columns).filter(|a| *a != main) {
                    for b in (0..a).filter(|b| *b != main) {
                        let sum: i32 =
                            rows.iter().map(|row| sign(row[main]) * sign(row[a]) * sign(row[b])).sum();
                        found += usize::from(sum != 0);
                    }
                }
            }
            found
        };
        assert!(mixed(&signs(11, false).unwrap()) > 0, "unfolded they are");
        assert_eq!(mixed(&signs(11, true).unwrap()), 0);
        assert_eq!(mixed(&signs(7, true).unwrap()), 0);
    }

    #[test]
    fn a_half_has_every_pair_of_levels_of_two_factors_equally_often() {
        let factors: Vec<Factor> = (0..7).map(|at| factor(&at.to_string(), 2)).collect();
        let half = design(&factors, &[], Kind::Half).unwrap();
        assert_eq!(half.cells.len(), 63, "and the baseline");
        let all: Vec<&Levels> = half.cells.iter().chain([&half.baseline]).collect();
        for a in 0..7 {
            for b in 0..a {
                for ways in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    let count = all.iter().filter(|cell| (cell[a], cell[b]) == ways).count();
                    assert_eq!(count, 16, "{a}, {b}");
                }
            }
        }
    }

    #[test]
    fn constraints_take_cells_out_and_are_counted() {
        let factors = [factor("a", 2), factor("b", 2), factor("c", 2)];
        let not = |levels: &[(usize, usize)]| Constraint { not: levels.to_vec() };
        let design = |constraints: &[Constraint]| design(&factors, constraints, Kind::Full);
        let some = design(&[not(&[(0, 1), (1, 1)])]).unwrap();
        assert_eq!((some.cells.len(), some.excluded), (5, 2));
        assert_eq!(design(&[not(&[(0, 0), (1, 0)])]), Err(DesignError::NothingLeft { what: "the baseline" }));
        let none = [not(&[(0, 1)]), not(&[(1, 1)]), not(&[(2, 1)])];
        assert_eq!(design(&none), Err(DesignError::NothingLeft { what: "every cell" }));
    }

    #[test]
    fn one_at_a_time_changes_one_level_each() {
        let factors = [factor("a", 3), factor("b", 2)];
        let cells = design(&factors, &[], Kind::OneAtATime).unwrap().cells;
        assert_eq!(cells, [vec![1, 0], vec![2, 0], vec![0, 1]]);
    }
}
