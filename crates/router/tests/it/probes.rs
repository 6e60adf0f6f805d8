//! Health checks that connect and close do not get the router's host blocked by a real mariadbd.

pub(crate) mod storm;

#[tokio::test]
async fn health_checks_do_not_get_the_routers_host_blocked() {
    storm::checks_block_nobody(std::path::Path::new("/usr/sbin/mariadbd")).await;
}
