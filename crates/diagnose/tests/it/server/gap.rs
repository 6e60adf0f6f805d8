//! A watched server is frozen, killed and started again: what was seen before it does not run on into what is
//! seen after.

use super::scene::Scene;
use diagnose::Recent;
use diagnose::server::{Reading, Sample, Sampler};
use lab::Fault;
use std::sync::Arc;
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(5);

pub(crate) async fn a_gap_is_a_gap_and_nothing_else_breaks(scene: &Scene) {
    let mut sampler = scene.sampler("b1", Duration::from_secs(1));
    let mut recent = Recent::new(WINDOW);
    let before = two(&mut sampler, &mut recent).await;
    assert!(recent.window(Instant::now()).server.is_some());

    scene.lab.fault("b1", Fault::Freeze).await.unwrap();
    assert!(sampler.read().await.is_err(), "a frozen server does not answer");
    recent.lose_server();
    assert!(recent.window(Instant::now()).server.is_none(), "what it did before is not what it does now");
    scene.lab.heal("b1").await.unwrap();
    again(&mut sampler, &mut recent).await;
    assert!(recent.window(Instant::now()).server.is_none(), "one reading is no window");
    two(&mut sampler, &mut recent).await;
    assert!(recent.window(Instant::now()).server.is_some());

    scene.lab.fault("b1", Fault::Kill).await.unwrap();
    assert!(sampler.read().await.is_err(), "a dead server does not answer");
    recent.lose_server();
    scene.lab.heal("b1").await.unwrap();
    let after = again(&mut sampler, &mut recent).await;
    let across = Sample::over(&[before, after.clone()]);
    assert!(across.is_none(), "counters of two runs of a server make no rate: {across:#?}");
    two(&mut sampler, &mut recent).await;
    let sample = recent.window(Instant::now()).server.unwrap();
    assert!(sample.statements_per_s < 1000.0, "nobody asked but we: {sample:#?}");
}

/// Two readings, added; the later.
async fn two(sampler: &mut Sampler, recent: &mut Recent) -> Arc<Reading> {
    again(sampler, recent).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    again(sampler, recent).await
}

/// The next reading that succeeds, added.
async fn again(sampler: &mut Sampler, recent: &mut Recent) -> Arc<Reading> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match sampler.read().await {
            Ok(reading) => {
                let reading = Arc::new(reading);
                recent.add_server(reading.clone());
                return reading;
            }
            Err(error) => assert!(Instant::now() < deadline, "it never answered again: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
