//! What insight counts, against MySQL's own performance_schema, from target/mysql (`make test-mysql` brings
//! it there).

#![allow(clippy::print_stdout, reason = "its figures are shown")]

use crate::insight::agreement;
use lab::{ServerSpec, Spec};

fn spec() -> Spec {
    let spec = Spec::new(&[("a", 2)]).program(testkit::mysqld());
    Spec { server: ServerSpec { performance_schema: true, ..spec.server.clone() }, ..spec }
}

#[tokio::test]
async fn digests_and_their_counts_are_those_of_mysql() {
    agreement::agrees(spec()).await;
}

#[tokio::test]
async fn executions_of_prepared_statements_are_those_of_mysql() {
    agreement::executions_agree(spec()).await;
}
