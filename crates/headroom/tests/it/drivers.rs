//! Real drivers and sysbench do their work through the router unchanged, on MariaDB (`make test-drivers`).

use crate::support::driven;
#[tokio::test]
async fn real_drivers_do_their_work_through_the_router_on_mariadb() {
    driven::drivers_work_through_the_router(None).await;
}

#[tokio::test]
async fn pools_go_on_while_the_primary_moves_on_mariadb() {
    driven::pools::pools_go_on_while_the_primary_moves(None).await;
}
