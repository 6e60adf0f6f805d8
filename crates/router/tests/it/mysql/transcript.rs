//! What a real mysqld says is what the client hears, byte for byte: the script of `transcript.rs`, by a
//! client of old and by one with session tracking, deprecated EOF and query attributes. On the mysqld of
//! `make test-mysql`.

use crate::transcript::script::{self, Kind};
use lab::Spec;
use wire::Capabilities;

#[tokio::test]
async fn every_byte_through_the_router_is_mysqls_on_both_ways() {
    let plain = Kind { plugin: "caching_sha2_password", more: Capabilities::empty() };
    let eof = Capabilities::DEPRECATE_EOF | Capabilities::SESSION_TRACK;
    let modern = Kind { more: eof | Capabilities::QUERY_ATTRIBUTES, ..plain };
    // MariaDB has these tables by itself.
    let tables: Vec<String> = [300, 500, 1000, 5000, 20_000]
        .into_iter()
        .flat_map(|last| {
            let rows = format!(
                "WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < {last})"
            );
            [
                "SET cte_max_recursion_depth = 20001".to_owned(),
                format!("CREATE TABLE test.seq_1_to_{last} (seq INT PRIMARY KEY)"),
                format!("INSERT INTO test.seq_1_to_{last} {rows} SELECT seq FROM n"),
            ]
        })
        .collect();
    script::every_byte_is_the_servers(
        Spec::new(&[("a", 1)]).program(testkit::mysqld()),
        &tables,
        &[plain, modern],
    )
    .await;
}
