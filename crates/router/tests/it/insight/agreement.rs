//! Digests, counts, errors, rows and times against the server's own performance_schema.

use super::stand::Stand;
use config::InsightConfig;
use insight::{Dimension, Filter};
use lab::Spec;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use std::collections::BTreeMap;
use std::path::Path;

/// What both sides count of one digest.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    count: u64,
    errors: u64,
    rows: u64,
    affected: u64,
}

/// Statements as applications send them, with `{}` for numbers.
const STATEMENTS: &[&str] = &[
    "SELECT id, label FROM thing WHERE id = {}",
    "select id, label from thing where id={} /* endpoint='cart' */",
    "SELECT id,label FROM thing WHERE id IN ({}, {}, {})",
    "SELECT id,label FROM thing WHERE id IN ({})",
    "SELECT COUNT(*), max(id) FROM thing WHERE label LIKE 'a{}%' OR id < -{}",
    "INSERT INTO thing (label, owner) VALUES ('x{}', {}), ('it''s {}', null)",
    "INSERT INTO thing (label, owner) VALUES ('y{}', {})",
    "UPDATE thing SET owner = owner + {}, label = concat(label, 'z') WHERE id = {} LIMIT 1",
    "DELETE FROM thing WHERE id = {} AND owner = -{}",
    "SELECT t.id AS name, `t`.`label` value FROM app.thing AS t ORDER BY t.id DESC LIMIT {}, 5",
    "SELECT * FROM thing WHERE owner IS NOT NULL AND (id, owner) IN (({}, 2), (3, {})) # done",
    "SELECT CASE WHEN owner > {} THEN -1 ELSE 'many' END status FROM thing WHERE id BETWEEN {} AND 9",
    "SELECT nothing FROM thing WHERE id = {}",
    "SELECT id FROM thing WHERE id = {} FOR UPDATE",
    "SHOW TABLES LIKE 'th%'",
    "SELECT 0x1F, 1.5, .5, 1e10, 'a' 'b', @@version_comment, @v{} ",
    "SELECT sum(id)/{}, CONCAT_WS('-', id, {}) FROM thing GROUP BY owner HAVING sum(id) > {}",
];

/// What the server counted since its summary was emptied, of sessions in schema `app`.
async fn of_server(root: &mut Conn) -> BTreeMap<String, Counted> {
    let query = "SELECT digest_text, count_star, sum_errors, sum_rows_sent, sum_rows_affected \
                 FROM performance_schema.events_statements_summary_by_digest WHERE schema_name = 'app'";
    let rows: Vec<Row> = root.query(query).await.unwrap();
    let counted = |row: Row| {
        let (text, count, errors, rows, affected): (Option<String>, u64, u64, u64, u64) =
            mysql_async::from_row(row);
        (text.unwrap_or_default().trim_end().to_owned(), Counted { count, errors, rows, affected })
    };
    rows.into_iter().map(counted).collect()
}

async fn of_insight(stand: &Stand) -> BTreeMap<String, Counted> {
    let rows = stand.report().await.rows(Dimension::Digest, &Filter::default());
    let statements = rows.into_iter().filter(|row| !row.name.starts_with("(COM_"));
    let counted = |f: &insight::Figures| Counted {
        count: f.count,
        errors: f.errors,
        rows: f.rows,
        affected: f.affected,
    };
    statements.map(|row| (row.name.clone(), counted(&row.figures))).collect()
}

/// Sends every statement several times with different numbers, as text; returns how many were sent.
async fn send(conn: &mut Conn, times: u32) -> u64 {
    let mut sent = 0;
    for round in 0..times {
        for (at, statement) in STATEMENTS.iter().enumerate() {
            // Some more often than others, so that no two digests have the same count by accident.
            for repeat in 0..=at as u32 {
                let mut number = round * 31 + repeat * 7 + 1;
                let mut sql = String::new();
                for part in statement.split("{}") {
                    if !sql.is_empty() {
                        sql.push_str(&number.to_string());
                        number += 3;
                    }
                    sql.push_str(part);
                }
                let _ = conn.query_drop(sql).await;
                sent += 1;
            }
        }
    }
    sent
}

/// A stand whose primary has a table for the statements, and a session on that primary that nobody measures.
async fn stand_with_things(base: &Path, spec: Spec) -> (Stand, Conn) {
    let stand = Stand::up(base, spec, InsightConfig::default()).await;
    let mut root = stand.lab.connect("a1").await.unwrap();
    root.query_drop(
        "CREATE TABLE app.thing (id INT AUTO_INCREMENT PRIMARY KEY, label VARCHAR(100), owner INT)",
    )
    .await
    .unwrap();
    (stand, root)
}

pub(crate) async fn agrees(spec: Spec) {
    let base = tempfile::tempdir().unwrap();
    let (stand, mut root) = stand_with_things(base.path(), spec).await;
    root.query_drop(
        "UPDATE performance_schema.setup_consumers SET enabled = 'YES' WHERE name LIKE '%statements_digest%'",
    )
    .await
    .unwrap();
    root.query_drop("TRUNCATE performance_schema.events_statements_summary_by_digest").await.unwrap();
    let mut conn = Conn::new(stand.opts(1)).await.unwrap();
    let sent = send(&mut conn, 3).await;
    conn.disconnect().await.unwrap();
    let (server, ours) = (of_server(&mut root).await, of_insight(&stand).await);
    for (text, counted) in &server {
        println!("{:>6} {text}", counted.count);
    }
    assert_eq!(ours, server);
    assert!(ours.values().map(|c| c.count).sum::<u64>() >= sent);
    assert!(ours.values().any(|c| c.errors > 0) && ours.values().any(|c| c.affected > 0));
    drop(root);
    stand.down().await;
}

/// Statements prepared once and executed often, some with names of their own for the parameters.
pub(crate) async fn executions_agree(spec: Spec) {
    let base = tempfile::tempdir().unwrap();
    let (stand, root) = stand_with_things(base.path(), spec).await;
    let mut conn = Conn::new(stand.opts(1)).await.unwrap();
    let insert =
        conn.prep("INSERT INTO thing (label, owner) VALUES (?, ?) /*endpoint='add'*/").await.unwrap();
    let select = conn.prep("SELECT id, label FROM thing WHERE owner = ? AND id > 5").await.unwrap();
    for n in 0..20u32 {
        conn.exec_drop(&insert, (format!("x{n}"), n % 2)).await.unwrap();
    }
    for n in 0..7u32 {
        let rows: Vec<(u32, String)> = conn.exec(&select, (n % 2,)).await.unwrap();
        assert!(!rows.is_empty());
    }
    // MariaDB shows executions of single statements only while P_S has instrumented them; the session's own
    // counter always.
    let executed: Option<(String, u64)> =
        conn.query_first("SHOW SESSION STATUS LIKE 'Com_stmt_execute'").await.unwrap();
    let ours = of_insight(&stand).await;
    let find = |verb: &str| {
        ours.iter().find(|(text, _)| text.starts_with(verb) && text.contains("thing")).unwrap().1
    };
    let (insert, select) = (find("INSERT"), find("SELECT"));
    assert_eq!(executed.unwrap().1, insert.count + select.count);
    assert_eq!((insert.count, insert.affected), (20, 20));
    assert_eq!((select.count, select.rows), (7, 4 * 7 + 3 * 8));
    assert_eq!(stand.counts(Dimension::Endpoint).await["add"], 21);
    conn.disconnect().await.unwrap();
    drop(root);
    stand.down().await;
}
