//! Real drivers and sysbench do their work through the router unchanged, on the mysqld that
//! `scripts/mysql-root.sh` brings (`make test-mysql`).

use crate::support::driven;
#[tokio::test]
async fn real_drivers_do_their_work_through_the_router_on_mysql() {
    driven::drivers_work_through_the_router(Some(testkit::mysqld())).await;
}

#[tokio::test]
async fn pools_go_on_while_the_primary_moves_on_mysql() {
    driven::pools::pools_go_on_while_the_primary_moves(Some(testkit::mysqld())).await;
}
