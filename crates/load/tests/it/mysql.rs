//! The generator on a real mysqld, from target/mysql (`make test-mysql` brings it there):
//! `caching_sha2_password` by every way, from an empty cache and from a full one, and all workloads.

use crate::server::stand::Stand;
use config::{Tls, TlsMode};
use fleet::Address;
use lab::Spec;
use load::workload::file::{BUILT_IN, File};
use load::workload::{Protocol, sysbench};
use load::{Account, LoadError, Plan, Target};
use mysql_async::prelude::Queryable;
use std::time::Duration;

const PASSWORD: &str = "pass-word of the shop, 32 bytes";

async fn up() -> Stand {
    Stand::with(Spec::new(&[("a", 1)]).program(testkit::mysqld()).option("auto_generate_certs", "ON")).await
}

#[tokio::test]
async fn caching_sha2_logs_in_with_the_servers_key_in_tls_and_by_socket() {
    let stand = up().await;
    stand.prepare(&Stand::options()).await;
    let mut root = stand.root().await;
    for host in ["%", "localhost"] {
        root.query_drop(format!(
            "CREATE USER shop@'{host}' IDENTIFIED WITH caching_sha2_password BY '{PASSWORD}'"
        ))
        .await
        .unwrap();
        root.query_drop(format!("GRANT ALL ON app.* TO shop@'{host}'")).await.unwrap();
    }
    let tls = |mode| {
        let ca = Some(stand.lab.dir().join("a1/data/ca.pem"));
        Some(Tls { mode, ca, cert: None, key: None })
    };
    let tcp = stand.target().readers[0].clone();
    let socket = Address::Unix(stand.socket());
    for (address, tls) in [
        (&tcp, None),
        (&tcp, tls(TlsMode::Preferred)),
        (&tcp, tls(TlsMode::Required)),
        (&tcp, tls(TlsMode::VerifyCa)),
        (&socket, None),
        (&socket, tls(TlsMode::Required)),
    ] {
        let what = format!("{address} with {:?}", tls.as_ref().map(|tls| tls.mode));
        let target = |password: &str| Target {
            tls: tls.clone(),
            ..Target::single(
                address.clone(),
                Account { user: "shop".into(), password: password.into(), database: "app".into() },
            )
        };
        let plan = |password: &str| Plan {
            target: target(password),
            time: Duration::from_millis(100),
            ..stand.plan("oltp_point_select", &Stand::options())
        };
        for cached in [false, true] {
            if !cached {
                // Empties the server's cache: the password itself is asked for.
                root.query_drop("FLUSH PRIVILEGES").await.unwrap();
            }
            let outcome = stand.try_run(plan(PASSWORD)).await.unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(outcome.totals.done > 0 && outcome.totals.failed == 0, "{what}: {:?}", outcome.totals);
        }
        let wrong = stand.try_run(plan("wrong")).await.unwrap_err();
        assert!(matches!(&wrong, LoadError::Refused { code: 1045, .. }), "{what}: {wrong}");
    }
    root.disconnect().await.unwrap();
    stand.down().await;
}

#[tokio::test]
async fn every_workload_runs_without_an_error_in_both_protocols() {
    let stand = up().await;
    stand.prepare(&Stand::options()).await;
    for protocol in [Protocol::Prepared, Protocol::Text] {
        let options = sysbench::Options { protocol, ..Stand::options() };
        let mut plans: Vec<Plan> =
            sysbench::WORKLOADS.iter().map(|(name, _)| stand.plan(name, &options)).collect();
        for (name, ..) in BUILT_IN {
            let file = File::built_in(name).unwrap().with_protocol(protocol);
            stand.statements(&file.cleanup).await;
            stand.statements(&file.prepare).await;
            plans.push(Plan { workload: file.workload.into(), ..stand.plan("oltp_point_select", &options) });
        }
        for plan in plans {
            let outcome = stand.run_some(Plan { clients: 1, ..plan }).await;
            let name = &outcome.workload;
            assert!(outcome.totals.done > 0, "{name} {protocol:?}: {:?}", outcome.totals);
            assert_eq!(outcome.totals.failed, 0, "{name} {protocol:?}: {:?}", outcome.totals);
        }
    }
    stand.down().await;
}
