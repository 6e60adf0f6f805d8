//! Real drivers and sysbench do their work through the router unchanged, on the mysqld that
//! `scripts/mysql-root.sh` brings (`make test-mysql`).

#[path = "support/driven.rs"]
mod driven;

#[tokio::test]
async fn real_drivers_do_their_work_through_the_router_on_mysql() {
    let mysqld = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mysql/mysqld");
    assert!(
        mysqld.exists(),
        "{} is missing: run scripts/mysql-root.sh mysql (or make test-mysql)",
        mysqld.display()
    );
    driven::drivers_work_through_the_router(Some(mysqld)).await;
}
