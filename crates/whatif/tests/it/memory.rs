//! The buffer pool of a real server is resized, measured and put back.

use config::Credentials;
use fleet::Address;
use lab::{DATABASE, Lab, Spec};
use load::workload::sysbench::{Options, workload};
use load::{Arrivals, Plan, Target, tables};
use mysql_async::prelude::Queryable;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use whatif::memory::{Experiment, MemoryError, PoolServer, answer};
use whatif::pool_load::PoolLoad;
use whatif::server::Server;

const MIB: u64 = 1 << 20;
const POOL_MIB: u32 = 64;

fn experiment(sizes: &[u64]) -> Experiment {
    Experiment {
        sizes: sizes.iter().map(|size| size * MIB).collect(),
        window: Duration::from_millis(300),
        windows: 2,
        warm_most: Duration::from_secs(4),
        arrivals: Arrivals::Closed { think: Duration::ZERO },
    }
}

#[tokio::test]
async fn the_pool_is_resized_measured_and_put_back() {
    let base = tempfile::tempdir().unwrap();
    let mut spec = Spec::new(&[("a", 1)])
        .option("innodb_buffer_pool_size_max", &(u64::from(POOL_MIB) * MIB).to_string());
    spec.server.buffer_pool_mib = POOL_MIB;
    let lab = Lab::up(&spec, base.path()).await.unwrap();
    let real = lab.real("a1").unwrap();
    let address = Address::tcp(real.ip().to_string(), real.port());
    let mut root = lab.connect("a1").await.unwrap();
    for statement in ["CREATE USER 'plan'@'%'", "GRANT ALL ON *.* TO 'plan'@'%'"] {
        root.query_drop(statement).await.unwrap();
    }
    root.disconnect().await.unwrap();
    let admin = Credentials { user: Some("plan".to_owned()), ..Credentials::default() };
    let account =
        load::Account { user: "plan".to_owned(), password: String::new(), database: DATABASE.to_owned() };
    let journal = tempfile::tempdir().unwrap();
    let directory = journal.path().to_owned();
    let done = tokio::task::spawn_blocking(move || {
        let options = Options { tables: 1, table_size: 20_000, ..Options::default() };
        let target = Target::single(address.clone(), account);
        tables::prepare(&target, &options, 2, 1, |_| {}).unwrap();
        let workload = Arc::new(workload("oltp_point_select", &options).unwrap());
        let plan = Plan { read_only: true, ..Plan::new(workload, target, 4, Duration::from_millis(300)) };
        let plan = PoolLoad::Workload(plan);
        let mut server = Server::open(&address, &admin).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let name = address.to_string();
        let on = PoolServer { address, who: admin, journal: directory, command: "a test".to_owned() };
        let pool = |server: &mut Server| server.variables(&["innodb_buffer_pool_size"]).unwrap();
        let before = pool(&mut server);

        let too_large = experiment(&[16, 32, 512]).run(&on, &plan, &stop, |_| {});
        // Servers that can grow without a limit of their own do not have that variable, and take the size.
        if server.variables(&["innodb_buffer_pool_size_max"]).unwrap().is_empty() {
            assert!(too_large.unwrap().is_back);
        } else {
            assert!(matches!(too_large, Err(MemoryError::Limit { .. })), "{too_large:?}");
        }
        assert_eq!(pool(&mut server), before, "nothing was changed, or it was put back");

        let mut sizes = Vec::new();
        let measurement = experiment(&[16, 32, 64])
            .run(&on, &plan, &stop, |words| {
                if words.ends_with("resizing") {
                    sizes.push(words.to_owned());
                }
            })
            .unwrap();
        assert_eq!(sizes, ["64.0 MiB: resizing", "32.0 MiB: resizing", "16.0 MiB: resizing"]);
        assert!(measurement.is_back);
        assert_eq!(pool(&mut server), before, "it is as it was");
        assert_eq!(measurement.today_bytes, u64::from(POOL_MIB) * MIB);
        let rates = measurement.sizes.iter().flat_map(|one| &one.per_s);
        assert!(rates.clone().count() == 6 && rates.clone().all(|rate| *rate > 0.0), "{measurement:?}");
        let answer = answer(name, "oltp_point_select".to_owned(), measurement).unwrap();
        assert_eq!(answer.measured.len(), 3);
        assert!(server.process().unwrap().is_some(), "its process is found by its pid file");

        let stopped = Arc::new(AtomicBool::new(true));
        let interrupted = experiment(&[16, 32, 64]).run(&on, &plan, &stopped, |_| {});
        assert!(matches!(interrupted, Err(MemoryError::Interrupted)), "{interrupted:?}");
        assert_eq!(pool(&mut server), before, "it is put back when it is interrupted too");
    });
    done.await.unwrap();
    lab.down().await.unwrap();
}
