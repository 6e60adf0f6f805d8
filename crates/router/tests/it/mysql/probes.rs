//! Health checks that connect and close do not get the router's host blocked by a real mysqld, from target/mysql (`make test-mysql`
//! brings it there).

use crate::probes::storm;

#[tokio::test]
async fn health_checks_do_not_get_the_routers_host_blocked() {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mysql/mysqld");
    assert!(
        std::path::Path::new(program).exists(),
        "no mysqld in {program}: run scripts/mysql-root.sh (or make test-mysql)"
    );
    storm::checks_block_nobody(program).await;
}
