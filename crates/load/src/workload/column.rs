//! Values that come from a table: a query is asked once before the run, and what its first column holds is
//! drawn from.

use super::draw::{Draw, Parameter};
use super::{Step, Workload, WorkloadError};
use crate::error::LoadError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A column of values, every one as likely as the others.
#[derive(Clone, Debug)]
pub struct Column<T> {
    /// Gives the values; `None` where they were written down.
    sql: Option<Arc<str>>,
    values: Arc<[T]>,
}

/// The values of a column as bytes, as the text protocol sends them.
pub(crate) type Cells = Vec<Box<[u8]>>;

impl<T> Column<T> {
    /// To be read from a server.
    pub fn from_query(sql: &str) -> Self {
        Self { sql: Some(sql.into()), values: Arc::new([]) }
    }

    /// These.
    pub fn of(values: impl IntoIterator<Item = T>) -> Self {
        Self { sql: None, values: values.into_iter().collect() }
    }

    /// One of them; `None` while they have not been read.
    pub(crate) fn draw(&self, rng: &mut impl rand::Rng) -> Option<&T> {
        match self.values.len() {
            0 => None,
            length => self.values.get(rng.random_range(0..length)),
        }
    }
}

impl Workload {
    /// Whether values have to be read from a server before it can be sent.
    pub(crate) fn has_columns(&mut self) -> bool {
        self.draws().any(|draw| source(draw).is_some())
    }

    /// Reads them; each query is asked once.
    ///
    /// # Errors
    /// A query without a row, or one that should give numbers and does not.
    pub(crate) fn fill(
        &mut self,
        mut ask: impl FnMut(&str) -> Result<Cells, LoadError>,
    ) -> Result<(), LoadError> {
        let mut asked: BTreeMap<Arc<str>, Cells> = BTreeMap::new();
        let workload = self.name.clone();
        let wrong = |source| LoadError::Workload { workload: workload.clone(), source };
        for draw in self.draws() {
            let Some(sql) = source(draw) else { continue };
            let cells = match asked.get(&sql) {
                Some(cells) => cells,
                None => asked.entry(sql.clone()).or_insert(ask(&sql)?),
            };
            if cells.is_empty() {
                return Err(wrong(WorkloadError::NoRow { sql: sql.to_string() }));
            }
            match draw {
                Draw::Number(column) => {
                    let numbers: Option<Vec<i64>> = cells.iter().map(|cell| number(cell)).collect();
                    let fault = || wrong(WorkloadError::NotNumbers { sql: sql.to_string() });
                    column.values = numbers.ok_or_else(fault)?.into();
                }
                Draw::Text(column) => column.values = cells.clone().into(),
                _ => {}
            }
        }
        Ok(())
    }

    fn draws(&mut self) -> impl Iterator<Item = &mut Draw> {
        let steps = self.transactions.iter_mut().flat_map(|transaction| &mut transaction.steps);
        let set = steps.filter_map(|step| match step {
            Step::Draw { draw, .. } => Some(draw),
            Step::Send { .. } => None,
        });
        let parameters = self.statements.iter_mut().flat_map(|statement| &mut statement.parameters);
        set.chain(parameters.filter_map(|parameter| match parameter {
            Parameter::Draw(draw) => Some(draw),
            _ => None,
        }))
    }
}

fn source(draw: &Draw) -> Option<Arc<str>> {
    match draw {
        Draw::Number(column) => column.sql.clone(),
        Draw::Text(column) => column.sql.clone(),
        _ => None,
    }
}

fn number(cell: &[u8]) -> Option<i64> {
    std::str::from_utf8(cell).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::file::File;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    const FILE: &str = r#"
name = "t"
[values]
id = "number from SELECT id FROM item"
same = "number from SELECT id FROM item"
colour = "text from SELECT colour FROM item"
size = "one of small, large"
[statements]
read = { sql = "SELECT * FROM item WHERE id IN (:id, :same) AND colour = :colour AND size = :size" }
[[transaction]]
name = "GET"
steps = ["let id", "read"]
"#;

    fn cells(values: &[&str]) -> Cells {
        values.iter().map(|value| value.as_bytes().into()).collect()
    }

    #[test]
    fn each_query_is_asked_once_and_what_it_gives_is_drawn() {
        let mut workload = File::parse(FILE, "t.toml").unwrap().workload;
        assert!(workload.has_columns());
        let mut asked = Vec::new();
        workload
            .fill(|sql| {
                asked.push(sql.to_owned());
                Ok(if sql.contains("colour") { cells(&["red"]) } else { cells(&["7", "-9"]) })
            })
            .unwrap();
        assert_eq!(asked, ["SELECT id FROM item", "SELECT colour FROM item"]);
        let Step::Draw { draw: Draw::Number(ids), .. } = &workload.transactions[0].steps[0] else {
            panic!("a number is set first")
        };
        let mut rng = SmallRng::seed_from_u64(1);
        let drawn: std::collections::BTreeSet<i64> =
            (0..50).filter_map(|_| ids.draw(&mut rng)).copied().collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [-9, 7]);
    }

    #[test]
    fn no_row_and_no_number_are_refused_with_the_query() {
        for (given, words) in [(&[][..], "gives no row"), (&["x"][..], "whole numbers")] {
            let mut workload = File::parse(FILE, "t.toml").unwrap().workload;
            let error = workload.fill(|_| Ok(cells(given))).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("SELECT id FROM item"), "{error}");
        }
    }
}
