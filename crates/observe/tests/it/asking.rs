//! Many that ask one fleet: each counts the others, and all ask less often.

use crate::scene::{Scene, writer};
use config::{AskingBudget, FleetConfig};
use fleet::State;
use lab::Spec;
use std::time::Duration;

/// With twenty statements a second and ten connections, twelve do not all keep one.
#[tokio::test]
async fn twelve_count_each_other_on_the_server_ask_less_often_and_give_up_connections_between() {
    let scene = Scene::up(&Spec::new(&[("a", 1), ("b", 1)])).await;
    let asking = AskingBudget { statements_per_second: 20, connections: 10, counted: true };
    let config = || FleetConfig { asking, ..scene.config(&["a1"]) };
    let mut one = scene.watch_with(config());
    let sound = one.until_sound("a1").await;
    assert!(sound.remarks.iter().all(|r| !r.contains("asked every")), "{:?}", sound.remarks);
    let mut others: Vec<_> = (0..11).map(|_| scene.watch_with(config())).collect();

    let seldom = one
        .until_server("a1", "is asked seldom", |s| {
            s.asking.as_ref().is_some_and(|a| a.interval > Duration::from_secs(1) && a.routers > Some(5))
        })
        .await;
    let because = seldom.asking.unwrap().because.unwrap();
    assert!(because.contains("together may ask 20 statements a second"), "{because}");
    // A connection that is given up is taken up again, and nobody loses sight of anything.
    for watching in others.iter_mut().chain([&mut one]) {
        let seen = watching
            .until("the writer and all that answer", |s| {
                writer(s) == Some(&scene.name("a1"))
                    && s.servers.len() == 2
                    && s.servers.iter().all(|s| s.state == State::Answering)
            })
            .await;
        assert!(seen.servers.iter().all(|s| s.lag.is_none_or(|lag| lag.at_most() < Duration::from_secs(10))));
    }
    for watching in others {
        watching.watcher.stop().await;
    }
    one.until_server("b1", "is asked as often as before", |s| {
        s.asking.as_ref().is_some_and(|a| a.interval == Duration::from_millis(200) && a.because.is_none())
    })
    .await;
    one.watcher.stop().await;
}
