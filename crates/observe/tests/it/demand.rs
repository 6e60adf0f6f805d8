//! Demand by client host, counted by the servers.

use crate::scene::Scene;
use fleet::{DemandSource, Zone};
use lab::{Account, Spec};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn reads_are_counted_in_the_zone_of_their_client_host() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1), ("c", 1)])).await;
    let mut watching = scene.watch(&["a1"]);
    watching.until_sound("a1").await;
    let stop = CancellationToken::new();
    let mut readers = Vec::new();
    // Zone b reads three times as much as zone c; text and prepared statements; on whichever replica.
    for (zone, server, share) in [("b", "b1", 1), ("b", "c1", 2), ("c", "b1", 1)] {
        let opts = OptsBuilder::from_opts(scene.lab.opts(zone, server, Account::App).unwrap());
        let mut conn = Conn::new(opts).await.unwrap();
        let stop = stop.clone();
        readers.push(tokio::spawn(async move {
            while !stop.is_cancelled() {
                for _ in 0..share {
                    conn.exec_drop("SELECT ?", (1,)).await.unwrap();
                    conn.query_drop("SELECT 1").await.unwrap();
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }));
    }
    let near = |share: f64, wanted: f64| (share - wanted).abs() < 0.05;
    watching
        .until("three quarters in b", |s| {
            s.demand.source == DemandSource::StatementCounters
                && near(s.demand.share(&Zone::new("b")), 0.75)
                && near(s.demand.share(&Zone::new("c")), 0.25)
                && s.demand.unplaced < 0.01
        })
        .await;
    stop.cancel();
    for reader in readers {
        reader.await.unwrap();
    }
    watching.watcher.stop().await;
}
