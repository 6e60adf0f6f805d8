//! The agreement on the MariaDB of this machine.

use super::agreement::{agrees, executions_agree};
use lab::{ServerSpec, Spec};

fn spec() -> Spec {
    let spec = Spec::new(&[("a", 2)]);
    Spec { server: ServerSpec { performance_schema: true, ..spec.server.clone() }, ..spec }
}

#[tokio::test]
async fn digests_and_their_counts_are_those_of_mariadb() {
    agrees(spec()).await;
}

#[tokio::test]
async fn executions_of_prepared_statements_are_those_of_mariadb() {
    executions_agree(spec()).await;
}
