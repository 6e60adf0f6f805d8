//! From a file's words to a workload. Each transaction gets statements of its own, because what a name means
//! depends on what the transaction has set with `let`.

use super::value::{FORMS, Value};
use super::{Raw, RawLane, RawProtocol, RawStatement, RawTransaction, Wrong};
use crate::replay::{StatementKind, kind};
use crate::workload::draw::ParameterType;
use crate::workload::{Lane, Parameter, Protocol, Statement, Step, Transaction, Workload};
use std::collections::BTreeMap;
use std::ops::Range;

pub(super) fn workload(raw: &Raw) -> Result<Workload, Wrong> {
    let mut values = BTreeMap::new();
    for (name, text) in &raw.values {
        let value = Value::parse(text.get_ref()).ok_or_else(|| Wrong {
            at: text.span(),
            what: format!("'{}' is no value; {FORMS}", text.get_ref()),
        })?;
        values.insert(name.as_str(), value);
    }
    let mut made = Made { raw, values, statements: Vec::new(), slots: 0 };
    let transactions = raw.transaction.iter().map(|transaction| made.transaction(transaction));
    let transactions = transactions.collect::<Result<Vec<_>, _>>()?;
    let Made { statements, slots, .. } = made;
    Ok(Workload {
        name: raw.name.clone(),
        options: String::new(),
        protocol: protocol(raw.protocol),
        writes: raw.statements.values().any(|statement| changes_data(statement.sql.get_ref())),
        statements,
        transactions,
        slots,
    })
}

/// Everything but what plainly reads: a statement that is not understood is no reason to let it pass as
/// reading.
fn changes_data(sql: &str) -> bool {
    kind(sql.as_bytes()) != StatementKind::Reads
}

fn protocol(raw: RawProtocol) -> Protocol {
    match raw {
        RawProtocol::Prepared => Protocol::Prepared,
        RawProtocol::Text => Protocol::Text,
    }
}

struct Made<'a> {
    raw: &'a Raw,
    values: BTreeMap<&'a str, Value>,
    statements: Vec<Statement>,
    slots: usize,
}

/// What a transaction has set, and the statements it has used.
#[derive(Default)]
struct Scope<'a> {
    slots: BTreeMap<&'a str, usize>,
    statements: BTreeMap<&'a str, usize>,
}

impl<'a> Made<'a> {
    fn transaction(&mut self, raw: &'a RawTransaction) -> Result<Transaction, Wrong> {
        // A name that is set anywhere is set for the whole transaction.
        let lets = raw.steps.iter().filter_map(|step| step.get_ref().strip_prefix("let "));
        let mut scope = Scope::default();
        for name in lets {
            let next = scope.slots.len();
            scope.slots.entry(name.trim()).or_insert(next);
        }
        self.slots = self.slots.max(scope.slots.len());
        let mut steps = Vec::new();
        for step in &raw.steps {
            match step.get_ref().strip_prefix("let ") {
                Some(name) => steps.push(self.set(name.trim(), &scope, &step.span())?),
                None => self.send(raw, step.get_ref(), &step.span(), &mut scope, &mut steps)?,
            }
        }
        Ok(Transaction { name: raw.name.get_ref().clone(), weight: raw.weight, steps })
    }

    fn set(&self, name: &str, scope: &Scope<'_>, at: &Range<usize>) -> Result<Step, Wrong> {
        match self.values.get(name) {
            Some(Value::Draw(draw)) if draw.kind() == ParameterType::Number => {
                Ok(Step::Draw { slot: scope.slots[name], draw: draw.clone() })
            }
            Some(_) => Err(Wrong {
                at: at.clone(),
                what: format!(
                    "only numbers can be set, and {name} is none; set a number and take a digest of it"
                ),
            }),
            None => Err(self.unknown(name, at)),
        }
    }

    fn send(
        &mut self,
        transaction: &RawTransaction,
        step: &'a str,
        at: &Range<usize>,
        scope: &mut Scope<'a>,
        steps: &mut Vec<Step>,
    ) -> Result<(), Wrong> {
        let (name, times) = match step.rsplit_once(" x") {
            Some((name, times)) if times.parse::<u16>().is_ok() => (name.trim(), times.parse().unwrap_or(1)),
            _ => (step.trim(), 1),
        };
        let raw = self.raw;
        let Some((name, described)) = raw.statements.get_key_value(name) else {
            let known: Vec<&str> = raw.statements.keys().map(String::as_str).collect();
            let what = format!("no statement is called '{name}'; there are {}", known.join(", "));
            return Err(Wrong { at: at.clone(), what });
        };
        let statement = match scope.statements.get(name.as_str()) {
            Some(number) => *number,
            None => {
                let full = if raw.transaction.len() == 1 {
                    name.clone()
                } else {
                    format!("{}: {name}", transaction.name.get_ref())
                };
                let made = self.statement(&full, described, scope)?;
                self.statements.push(made);
                scope.statements.insert(name, self.statements.len() - 1);
                self.statements.len() - 1
            }
        };
        steps.extend((0..times).map(|_| Step::Send { statement, variant: None }));
        Ok(())
    }

    fn statement(&self, name: &str, raw: &RawStatement, scope: &Scope<'_>) -> Result<Statement, Wrong> {
        let (sql, names) = question_marks(raw.sql.get_ref());
        let parameters = names.iter().map(|name| self.parameter(name, scope, &raw.sql.span()));
        let parameters = parameters.collect::<Result<Vec<_>, _>>()?;
        let lane = match raw.to {
            RawLane::Reader => Lane::Reader,
            RawLane::Writer => Lane::Writer,
        };
        let protocol = protocol(raw.protocol.unwrap_or(self.raw.protocol));
        Ok(Statement::new(name, lane, protocol, [sql], parameters))
    }

    fn parameter(&self, name: &str, scope: &Scope<'_>, at: &Range<usize>) -> Result<Parameter, Wrong> {
        if let Some(slot) = scope.slots.get(name) {
            return Ok(Parameter::Slot(*slot));
        }
        let Some(value) = self.values.get(name) else {
            return Err(self.unknown(&format!(":{name}"), at));
        };
        let set = |of: &str| {
            scope.slots.get(of).copied().ok_or_else(|| Wrong {
                at: at.clone(),
                what: format!(
                    ":{name} follows from {of}, and this transaction does not set that; add a step 'let {of}'"
                ),
            })
        };
        match value {
            Value::Digest { of, length } => {
                // The name is the salt: two digests of the same number differ.
                let salt = name.bytes().fold(0, |salt: u64, byte| salt.wrapping_mul(31) + u64::from(byte));
                Ok(Parameter::Digest { slot: set(of)?, length: *length, salt })
            }
            Value::Sum(of, more) => Ok(Parameter::SlotPlus(set(of)?, *more)),
            drawn => drawn.drawn().ok_or_else(|| self.unknown(name, at)),
        }
    }

    fn unknown(&self, name: &str, at: &Range<usize>) -> Wrong {
        let known: Vec<&str> = self.values.keys().copied().collect();
        Wrong {
            at: at.clone(),
            what: format!("{name} is not among the values; there are {}", known.join(", ")),
        }
    }
}

/// The text with question marks, and the names that stood there. What is in quotes stays.
fn question_marks(sql: &str) -> (String, Vec<String>) {
    let (mut out, mut names, mut quote) = (String::with_capacity(sql.len()), Vec::new(), None);
    let mut rest = sql.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let length = sql[at + c.len_utf8()..]
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(sql.len() - at - c.len_utf8());
        match (c, quote) {
            (':', None) if length > 0 => {
                names.push(sql[at + 1..at + 1 + length].to_owned());
                out.push('?');
                while rest.next_if(|(next, _)| *next <= at + length).is_some() {}
                continue;
            }
            ('\'' | '"' | '`', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
        out.push(c);
    }
    (out, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_question_marks_in_their_order() {
        let (sql, names) = question_marks("SELECT ':x' WHERE a=:a AND b IN (:b1,:a) AND t > '10:30'");
        assert_eq!(sql, "SELECT ':x' WHERE a=? AND b IN (?,?) AND t > '10:30'");
        assert_eq!(names, ["a", "b1", "a"]);
    }

    #[test]
    fn only_what_plainly_reads_counts_as_reading() {
        assert!(!changes_data(" select 1") && !changes_data("BEGIN"));
        assert!(!changes_data("/* read */ WITH x AS (SELECT 1) SELECT * FROM x"));
        assert!(changes_data("SELECT a FROM t\nFOR  UPDATE") && changes_data("START REPLICA"));
        assert!(
            changes_data("SELECT a FROM t FOR UPDATE")
                && changes_data("CALL p()")
                && changes_data("INSERT x")
        );
    }
}
