//! The same moves on a real mysqld, from target/mysql (`make test-mysql` brings it there).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/moving.rs"]
mod moving;

use lab::Spec;
use moving::Fleet;
use std::path::PathBuf;

fn mysqld() -> PathBuf {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mysql/mysqld"));
    assert!(path.exists(), "no mysqld in {}: run scripts/mysql-root.sh (or make test-mysql)", path.display());
    path
}

#[tokio::test]
async fn the_primary_moves_there_and_back_and_nothing_acknowledged_is_lost_on_mysql() {
    moving::there_and_back(
        Fleet::up(Spec::new(&[("a", 2), ("b", 1)]).program(mysqld())).await,
        &["a2", "a1", "b1"],
    )
    .await;
}
