//! What clients ask: statements on tables that never change, each with the checksum of its result set as a
//! server gave it directly, before anything went wrong.
//!
//! A checksum is over the names of all columns and every value of every row, with lengths, in order. Text and
//! prepared statements have checksums of their own, since the same number comes in other bytes.

use lab::DATABASE;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, QueryResult, Value};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

/// Rows of the table.
pub(super) const ROWS: u32 = 20_000;
/// Statements of each kind that there are: this many are asked directly first.
const EACH: u32 = 400;
/// A row too large for one packet: 17 MiB of a few bytes, over and over.
const WIDE_BYTES: u32 = 17 << 20;
/// The whole table this many times over is a long answer.
const LONG_TIMES: usize = 6;
/// Who rests in the middle of an answer does so after this many rows.
const RESTS_AFTER: u64 = 1000;

/// How a statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Shape {
    /// One row by its key, as text.
    Point,
    /// Some hundred rows, as text.
    Range,
    /// One row by its key, prepared.
    PreparedPoint,
    /// Some hundred rows, prepared.
    PreparedRange,
    /// Some MiB in thousands of rows.
    Large,
    /// One row of more than 16 MiB.
    Wide,
    /// Some tens of MiB in more than a hundred thousand rows: more than all buffers on the way hold.
    Long,
}

/// A statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) shape: Shape,
    /// Which of its kind.
    pub(super) number: u32,
}

/// Checksums by question.
#[derive(Debug, Default)]
pub(super) struct Answers(HashMap<Question, u64>);

impl Shape {
    pub(super) const ALL: [Self; 7] = [
        Self::Point,
        Self::Range,
        Self::PreparedPoint,
        Self::PreparedRange,
        Self::Large,
        Self::Wide,
        Self::Long,
    ];

    /// How many different statements of this shape there are.
    pub(super) fn count(self) -> u32 {
        match self {
            Self::Large => 8,
            Self::Wide => 2,
            Self::Long => 1,
            _ => EACH,
        }
    }
}

/// A statement that failed, and whether some of its answer had come.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: mysql_async::Error,
    pub(super) answered: bool,
}

impl Question {
    /// The statement, and the first key where that is not part of it.
    fn statement(self) -> (String, Option<u32>) {
        let from = self.number * 47 % (ROWS - 6000);
        let columns = format!("SELECT id, words, amount, happened, raw FROM {DATABASE}.soak");
        match self.shape {
            Shape::Point => (format!("{columns} WHERE id = {from}"), None),
            Shape::Range => (format!("{columns} WHERE id >= {from} ORDER BY id LIMIT 120"), None),
            Shape::PreparedPoint => (format!("{columns} WHERE id = ?"), Some(from)),
            Shape::PreparedRange => (format!("{columns} WHERE id >= ? ORDER BY id LIMIT 120"), Some(from)),
            Shape::Large => (format!("{columns} WHERE id >= {from} ORDER BY id LIMIT 6000"), None),
            Shape::Wide => {
                let word = format!("(SELECT LEFT(words, 32) FROM {DATABASE}.soak WHERE id = {})", from + 1);
                (format!("SELECT LEFT(REPEAT({word}, 600000), {WIDE_BYTES}) AS wide"), None)
            }
            Shape::Long => {
                let all = format!("({columns} ORDER BY id LIMIT {ROWS})");
                (vec![all; LONG_TIMES].join(" UNION ALL "), None)
            }
        }
    }

    /// Asks, reads the whole answer and gives its checksum.
    pub(super) async fn ask(self, conn: &mut Conn) -> Result<u64, Failed> {
        self.ask_resting(conn, std::future::ready(())).await
    }

    /// The same, and rests in the middle of the rows until `rest` is over.
    pub(super) async fn ask_resting(
        self,
        conn: &mut Conn,
        rest: impl Future<Output = ()>,
    ) -> Result<u64, Failed> {
        let before = |error| Failed { error, answered: false };
        match self.statement() {
            (text, None) => checksum(conn.query_iter(text).await.map_err(before)?, rest).await,
            (text, Some(key)) => checksum(conn.exec_iter(text, (key,)).await.map_err(before)?, rest).await,
        }
    }
}

impl Answers {
    /// Asks every question of a server, directly.
    pub(super) async fn of(conn: &mut Conn) -> anyhow::Result<Self> {
        let mut answers = HashMap::new();
        for shape in Shape::ALL {
            for number in 0..shape.count() {
                let question = Question { shape, number };
                let sum = question.ask(conn).await.map_err(|failed| failed.error)?;
                answers.insert(question, sum);
            }
        }
        Ok(Self(answers))
    }

    /// Whether this is what the server said.
    pub(super) fn agree(&self, question: Question, sum: u64) -> bool {
        self.0.get(&question) == Some(&sum)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Makes the table, and one for those who write.
pub(super) async fn fill(root: &mut Conn) -> anyhow::Result<()> {
    root.query_drop(format!(
        "CREATE TABLE {DATABASE}.soak (id INT PRIMARY KEY, words VARCHAR(400) NOT NULL, amount DECIMAL(12,4), \
         happened DATETIME(6), raw VARBINARY(200))"
    ))
    .await?;
    root.query_drop(format!(
        "CREATE TABLE {DATABASE}.soak_written (id BIGINT AUTO_INCREMENT PRIMARY KEY, client INT NOT NULL, \
         number INT NOT NULL, UNIQUE (client, number))"
    ))
    .await?;
    for from in (0..ROWS).step_by(1000) {
        let row = |id: u32| {
            format!(
                "({id}, REPEAT(MD5({id}), 1 + {id} % 12), IF({id} % 9, {id} / 7, NULL), \
                 '2026-01-01' + INTERVAL {id} SECOND + INTERVAL {id} MICROSECOND, UNHEX(REPEAT(SHA1({id}), {id} % 10)))"
            )
        };
        let rows: Vec<String> = (from..from + 1000).map(row).collect();
        root.query_drop(format!("INSERT INTO {DATABASE}.soak VALUES {}", rows.join(","))).await?;
    }
    Ok(())
}

async fn checksum<P: mysql_async::prelude::Protocol>(
    mut result: QueryResult<'_, '_, P>,
    rest: impl Future<Output = ()>,
) -> Result<u64, Failed> {
    let mut rest = Some(rest);
    let mut sum = DefaultHasher::new();
    for column in result.columns_ref() {
        sum.write(column.name_ref());
        sum.write_u8(0);
    }
    let within = |error| Failed { error, answered: true };
    let mut rows = 0u64;
    while let Some(row) = result.next().await.map_err(within)? {
        rows += 1;
        if rows == RESTS_AFTER
            && let Some(rest) = rest.take()
        {
            rest.await;
        }
        for value in row.unwrap_raw().into_iter().flatten() {
            add(&mut sum, &value);
        }
    }
    sum.write_u64(rows);
    Ok(sum.finish())
}

fn add(sum: &mut DefaultHasher, value: &Value) {
    match value {
        Value::Bytes(bytes) => {
            sum.write_u64(bytes.len() as u64);
            sum.write(bytes);
        }
        other => {
            let text = other.as_sql(false);
            sum.write_u64(text.len() as u64 | 1 << 63);
            sum.write(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(value: &Value) -> u64 {
        let mut sum = DefaultHasher::new();
        add(&mut sum, value);
        sum.finish()
    }

    #[test]
    fn values_that_differ_in_kind_or_length_differ_in_the_checksum() {
        let values =
            [Value::NULL, Value::Bytes(b"NULL".to_vec()), Value::Int(0), Value::Bytes(b"0".to_vec())];
        for (at, a) in values.iter().enumerate() {
            assert!(values[at + 1..].iter().all(|b| sum_of(a) != sum_of(b)), "{a:?}");
        }
    }

    /// The number that follows `after` in a statement.
    fn number(text: &str, after: &str) -> Option<u32> {
        let rest = text.split_once(after)?.1;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    }

    #[test]
    fn every_question_lies_within_the_table() {
        for shape in Shape::ALL {
            for number_of_shape in 0..shape.count() {
                let (text, key) = Question { shape, number: number_of_shape }.statement();
                assert_eq!(text.contains('?'), key.is_some(), "{text}");
                assert!(text.contains(&format!("{DATABASE}.soak ")), "another table: {text}");
                // Keys are 0 to ROWS - 1, without a gap: a range of n rows must begin n before the end.
                let first = key.or_else(|| number(&text, "id >= ")).or_else(|| number(&text, "id = "));
                // Without a key it is read from the first row on.
                let from_the_first = || text.contains("ORDER BY id LIMIT ").then_some(0);
                let first = first.or_else(from_the_first).unwrap_or_else(|| panic!("no key: {text}"));
                let rows = number(&text, "LIMIT ").unwrap_or(1);
                assert!(
                    rows > 0 && first + rows <= ROWS,
                    "{first} and {rows} rows are not in {ROWS}: {text}"
                );
            }
        }
    }

    #[test]
    fn the_questions_of_a_shape_differ() {
        for shape in Shape::ALL {
            let all = (0..shape.count()).map(|number| Question { shape, number }.statement());
            let different: std::collections::HashSet<_> = all.collect();
            assert_eq!(different.len(), shape.count() as usize, "{shape:?}");
        }
    }
}
