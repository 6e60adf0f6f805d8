//! Health checks that connect and close do not get the router's host blocked by a real mysqld, from
//! target/mysql (`make test-mysql` brings it there).

use crate::probes::storm;

#[tokio::test]
async fn health_checks_do_not_get_the_routers_host_blocked() {
    storm::checks_block_nobody(&testkit::mysqld()).await;
}
