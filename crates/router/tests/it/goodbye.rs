//! Who left is told right when the real client says goodbye.

use crate::stand::Stand;
use config::{ClientTlsMode, TlsMode};

#[tokio::test]
async fn a_client_that_says_goodbye_is_the_one_that_left() {
    const RUNS: u64 = 100;
    let stand = Stand::up(None).await;
    stand.root("CREATE USER shop@'%' IDENTIFIED BY 'pass'").await;
    let (clients, servers) =
        (stand.tls_of_clients(ClientTlsMode::Off), stand.to_servers(TlsMode::Disabled, None));
    let front = stand.front(stand.tcp(), &clients, servers);
    for _ in 0..RUNS {
        let output = tokio::process::Command::new("mariadb")
            .args(["--no-defaults", "--skip-ssl", "--protocol=TCP", "--host=127.0.0.1", "--user=shop"])
            .arg(format!("--port={}", front.port()))
            .args(["--skip-column-names", "--execute=select 1"])
            .env("MYSQL_PWD", "pass")
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    front.until("all have ended", |s| s.servers[0].closed.values().sum::<u64>() == RUNS).await;
    let closed = front.router.status().servers[0].closed.clone();
    assert_eq!(closed.get("client left"), Some(&RUNS), "{closed:?}");
    front.down().await;
    stand.down().await;
}
