//! sysbench's workloads on sysbench's own tables: the same statements, in the same order, with the same keys
//! in law.
//!
//! Either tool can prepare the tables and both can run on them. A transaction here is an *event* there. As in
//! sysbench, a table is drawn once for each kind of statement of an event, uniformly; keys follow the
//! distribution that was asked for.

use super::{Draw, Lane, Parameter, Protocol, Statement, Step, Transaction, Workload};
use crate::distribution::Distribution;

/// sysbench's options, with its defaults (version 1.0; `--rand-type` is `special` there and `uniform` from
/// 1.1 on).
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Options {
    /// Tables `sbtest1` to `sbtestN`.
    pub tables: u32,
    /// Rows of each.
    pub table_size: u32,
    /// How keys are spread.
    pub distribution: Distribution,
    /// How statements travel: prepared is `--db-ps-mode=auto`, text is `disable`.
    pub protocol: Protocol,
    /// Rows of a range.
    pub range_size: u32,
    /// Point selects an event.
    pub point_selects: u32,
    /// Whether the four kinds of ranges are read.
    pub range_selects: bool,
    /// Of each kind of range, an event.
    pub ranges: u32,
    /// Updates of the indexed column, an event.
    pub index_updates: u32,
    /// Updates of another column, an event.
    pub non_index_updates: u32,
    /// Pairs of a delete and an insert, an event.
    pub delete_inserts: u32,
    /// Leaves out `BEGIN` and `COMMIT`.
    pub skip_trx: bool,
    /// Keys come from the server (`AUTO_INCREMENT`).
    pub auto_inc: bool,
    /// Points of `select_random_points`, ranges of `select_random_ranges`.
    pub random_points: u32,
    /// Width of a range of `select_random_ranges`.
    pub delta: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tables: 1,
            table_size: 10_000,
            distribution: Distribution::Special,
            protocol: Protocol::Prepared,
            range_size: 100,
            point_selects: 10,
            range_selects: true,
            ranges: 1,
            index_updates: 1,
            non_index_updates: 1,
            delete_inserts: 1,
            skip_trx: false,
            auto_inc: true,
            random_points: 10,
            delta: 5,
        }
    }
}

impl Options {
    /// Those that differ from their defaults: `table_size=20000, tables=4`.
    fn in_words(&self) -> String {
        let fields = |options: &Self| match serde_json::to_value(options) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        };
        let usual = fields(&Self::default());
        let differ = fields(self).into_iter().filter(|(name, value)| usual.get(name) != Some(value));
        let words = differ.map(|(name, value)| format!("{name}={}", plain(value)));
        let mut words: Vec<String> = words.collect();
        words.sort_unstable();
        words.join(", ")
    }
}

/// A value without JSON's marks; a distribution by its name and figures: `pareto 0.2`.
fn plain(value: serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text,
        serde_json::Value::Object(mut fields) => {
            let kind = fields.remove("type");
            let words: Vec<String> = kind.into_iter().chain(fields.into_values()).map(plain).collect();
            words.join(" ")
        }
        other => other.to_string(),
    }
}

/// Name and purpose of every workload.
pub const WORKLOADS: [(&str, &str); 10] = [
    ("oltp_point_select", "one row by primary key"),
    ("oltp_read_only", "10 point selects and 4 ranges of 100 rows in a transaction"),
    ("oltp_read_write", "as oltp_read_only, with 2 updates, a delete and an insert"),
    ("oltp_write_only", "2 updates, a delete and an insert in a transaction"),
    ("oltp_insert", "one row, right-growing key"),
    ("oltp_delete", "one row by primary key"),
    ("oltp_update_index", "one row, its indexed column"),
    ("oltp_update_non_index", "one row, a column without index"),
    ("select_random_points", "10 rows by secondary index, in this client's part of the table"),
    ("select_random_ranges", "10 ranges by secondary index, counted"),
];

/// The text of column `c`: 10 groups of 11 digits.
pub(crate) const C: &str = "###########-###########-###########-###########-###########-\
                 ###########-###########-###########-###########-###########";
/// The text of column `pad`: 5 groups of 11 digits.
pub(crate) const PAD: &str = "###########-###########-###########-###########-###########";

/// The name of the statement that reads one row.
pub(crate) const POINT_SELECTS: &str = "point_selects";

/// Slots of a step.
const TABLE: usize = 0;
const ID: usize = 1;

/// The workload of this name; `None` for a name that sysbench has not.
pub fn workload(name: &str, options: &Options) -> Option<Workload> {
    let mut event = TransactionBuilder { options, statements: Vec::new(), steps: Vec::new() };
    let writes = match name {
        "oltp_point_select" => {
            event.point_selects(1);
            false
        }
        "oltp_read_only" => {
            event.in_transaction(TransactionBuilder::reads);
            false
        }
        "oltp_read_write" => {
            event.in_transaction(|event| {
                event.reads();
                event.writes();
            });
            true
        }
        "oltp_write_only" => {
            event.in_transaction(TransactionBuilder::writes);
            true
        }
        "oltp_insert" => {
            event.insert();
            true
        }
        "oltp_delete" => {
            event.delete();
            true
        }
        "oltp_update_index" => {
            event.index_updates();
            true
        }
        "oltp_update_non_index" => {
            event.non_index_updates();
            true
        }
        "select_random_points" => {
            event.random_points();
            false
        }
        "select_random_ranges" => {
            event.random_ranges();
            false
        }
        _ => return None,
    };
    let TransactionBuilder { mut statements, steps, .. } = event;
    if writes {
        // One session holds a whole transaction.
        for statement in &mut statements {
            statement.lane = Lane::Writer;
        }
    }
    Some(Workload {
        name: name.to_owned(),
        options: options.in_words(),
        protocol: options.protocol,
        statements,
        transactions: vec![Transaction { name: name.to_owned(), weight: 1, steps }],
        slots: ID + options.random_points.max(1) as usize,
        writes,
    })
}

/// sysbench's event, being put together.
struct TransactionBuilder<'a> {
    options: &'a Options,
    statements: Vec<Statement>,
    steps: Vec<Step>,
}

impl TransactionBuilder<'_> {
    fn in_transaction(&mut self, body: impl FnOnce(&mut Self)) {
        if self.options.skip_trx {
            return body(self);
        }
        let begin = self.statement("begin", |_| "BEGIN".to_owned(), vec![]);
        self.steps.push(Step::Send { statement: begin, variant: None });
        body(self);
        let commit = self.statement("commit", |_| "COMMIT".to_owned(), vec![]);
        self.steps.push(Step::Send { statement: commit, variant: None });
    }

    fn reads(&mut self) {
        self.point_selects(self.options.point_selects);
        if !self.options.range_selects {
            return;
        }
        for (name, columns, order) in [
            ("simple_ranges", "c", ""),
            ("sum_ranges", "SUM(k)", ""),
            ("order_ranges", "c", " ORDER BY c"),
            ("distinct_ranges", "DISTINCT c", " ORDER BY c"),
        ] {
            let last = i64::from(self.options.range_size) - 1;
            let range = self.statement(
                name,
                |table| format!("SELECT {columns} FROM sbtest{table} WHERE id BETWEEN ? AND ?{order}"),
                vec![Parameter::Slot(ID), Parameter::SlotPlus(ID, last)],
            );
            self.draw_table();
            for _ in 0..self.options.ranges {
                self.draw_id();
                self.send(range);
            }
        }
    }

    fn writes(&mut self) {
        self.index_updates();
        self.non_index_updates();
        let delete = self.delete_statement();
        let k = self.key();
        let insert = self.statement(
            "inserts",
            |table| format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES (?, ?, ?, ?)"),
            vec![Parameter::Slot(ID), k, template(C), template(PAD)],
        );
        self.draw_table();
        for _ in 0..self.options.delete_inserts {
            self.draw_id();
            self.send(delete);
            self.send(insert);
        }
    }

    fn point_selects(&mut self, times: u32) {
        let key = self.key();
        let select = self.statement(
            POINT_SELECTS,
            |table| format!("SELECT c FROM sbtest{table} WHERE id=?"),
            vec![key],
        );
        self.draw_table();
        (0..times).for_each(|_| self.send(select));
    }

    fn index_updates(&mut self) {
        let key = self.key();
        let update = self.statement(
            "index_updates",
            |table| format!("UPDATE sbtest{table} SET k=k+1 WHERE id=?"),
            vec![key],
        );
        self.draw_table();
        (0..self.options.index_updates).for_each(|_| self.send(update));
    }

    fn non_index_updates(&mut self) {
        let key = self.key();
        let update = self.statement(
            "non_index_updates",
            |table| format!("UPDATE sbtest{table} SET c=? WHERE id=?"),
            vec![template(C), key],
        );
        self.draw_table();
        (0..self.options.non_index_updates).for_each(|_| self.send(update));
    }

    fn delete_statement(&mut self) -> usize {
        self.statement(
            "deletes",
            |table| format!("DELETE FROM sbtest{table} WHERE id=?"),
            vec![Parameter::Slot(ID)],
        )
    }

    fn delete(&mut self) {
        let delete = self.delete_statement();
        self.draw_table();
        self.draw_id();
        self.send(delete);
    }

    /// Always as text, as sysbench does; an id of 0 asks the server for one.
    fn insert(&mut self) {
        let id = if self.options.auto_inc { Draw::Fixed(0) } else { Draw::Unique };
        let k = self.key();
        let insert = self.statement(
            "inserts",
            |table| format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES (?, ?, ?, ?)"),
            vec![Parameter::Draw(id), k, template(C), template(PAD)],
        );
        self.statements[insert].protocol = Protocol::Text;
        self.draw_table();
        self.send(insert);
    }

    fn random_points(&mut self) {
        let points = self.options.random_points as usize;
        let sql = format!("SELECT id, k, c, pad FROM sbtest1 WHERE k IN ({})", vec!["?"; points].join(", "));
        let segment = Parameter::Draw(self.segment());
        let select = self.single("random_points", sql, vec![segment; points]);
        self.steps.push(Step::Send { statement: select, variant: None });
    }

    fn random_ranges(&mut self) {
        let ranges = self.options.random_points as usize;
        let sql =
            format!("SELECT count(k) FROM sbtest1 WHERE {}", vec!["k BETWEEN ? AND ?"; ranges].join(" OR "));
        // The start of each range has a slot of its own, because its end follows from it.
        let delta = i64::from(self.options.delta);
        let ends = |range| [Parameter::Slot(ID + range), Parameter::SlotPlus(ID + range, delta)];
        let select = self.single("random_ranges", sql, (0..ranges).flat_map(ends).collect());
        for range in 0..ranges {
            let draw = self.segment();
            self.steps.push(Step::Draw { slot: ID + range, draw });
        }
        self.steps.push(Step::Send { statement: select, variant: None });
    }

    fn segment(&self) -> Draw {
        Draw::Segment { distribution: self.options.distribution, size: self.options.table_size }
    }

    /// A statement with a variant for each table.
    fn statement(&mut self, name: &str, sql: impl Fn(u32) -> String, parameters: Vec<Parameter>) -> usize {
        let tables = if name == "begin" || name == "commit" { 1 } else { self.options.tables };
        let statement =
            Statement::new(name, Lane::Reader, self.options.protocol, (1..=tables).map(sql), parameters);
        self.statements.push(statement);
        self.statements.len() - 1
    }

    fn single(&mut self, name: &str, sql: String, parameters: Vec<Parameter>) -> usize {
        self.statements.push(Statement::new(name, Lane::Reader, self.options.protocol, [sql], parameters));
        self.statements.len() - 1
    }

    fn key(&self) -> Parameter {
        Parameter::Draw(self.id())
    }

    fn id(&self) -> Draw {
        Draw::key(self.options.distribution, 1, self.options.table_size)
    }

    fn draw_table(&mut self) {
        let draw = Draw::key(Distribution::Uniform, 1, self.options.tables);
        self.steps.push(Step::Draw { slot: TABLE, draw });
    }

    fn draw_id(&mut self) {
        let draw = self.id();
        self.steps.push(Step::Draw { slot: ID, draw });
    }

    fn send(&mut self, statement: usize) {
        self.steps.push(Step::Send { statement, variant: Some(TABLE) });
    }
}

fn template(text: &str) -> Parameter {
    Parameter::Draw(Draw::Template(text.as_bytes().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(name: &str, options: &Options) -> Vec<String> {
        let workload = workload(name, options).unwrap();
        workload.check().unwrap();
        let name_of = |step: &Step| match step {
            Step::Send { statement, .. } => Some(workload.statements[*statement].name.clone()),
            Step::Draw { .. } => None,
        };
        workload.transactions[0].steps.iter().filter_map(name_of).collect()
    }

    #[test]
    fn every_workload_of_the_list_is_there_and_sound() {
        let options = Options { tables: 3, ..Options::default() };
        for (name, _) in WORKLOADS {
            assert!(!sent(name, &options).is_empty(), "{name}");
        }
        assert!(workload("oltp_nothing", &options).is_none());
    }

    #[test]
    fn options_that_differ_from_their_defaults_are_told() {
        let in_words = |options: &Options| workload("oltp_read_only", options).unwrap().in_words();
        assert_eq!(in_words(&Options::default()), "oltp_read_only");
        let other = Options { tables: 3, distribution: Distribution::Uniform, ..Options::default() };
        assert_eq!(in_words(&other), "oltp_read_only (distribution=uniform, tables=3)");
    }

    #[test]
    fn a_read_write_event_has_twenty_statements_in_sysbenchs_order() {
        let sent = sent("oltp_read_write", &Options::default());
        assert_eq!(sent.len(), 20);
        assert_eq!(sent[0], "begin");
        assert!(sent[1..11].iter().all(|name| name == "point_selects"));
        assert_eq!(sent[11..15], ["simple_ranges", "sum_ranges", "order_ranges", "distinct_ranges"]);
        assert_eq!(sent[15..], ["index_updates", "non_index_updates", "deletes", "inserts", "commit"]);
    }

    #[test]
    fn a_row_is_deleted_and_inserted_under_the_same_key_in_the_same_table() {
        let workload = workload("oltp_write_only", &Options { tables: 4, ..Options::default() }).unwrap();
        let steps = &workload.transactions[0].steps;
        let sends: Vec<usize> = (0..steps.len())
            .filter(|at| matches!(steps[*at], Step::Send { variant: Some(TABLE), .. }))
            .collect();
        let [.., delete, insert] = sends.as_slice() else { panic!("two statements at the end") };
        assert_eq!(insert - delete, 1, "nothing is drawn between them");
    }

    #[test]
    fn texts_have_the_length_of_sysbenchs_columns() {
        assert_eq!((C.len(), PAD.len()), (119, 59));
    }
}
