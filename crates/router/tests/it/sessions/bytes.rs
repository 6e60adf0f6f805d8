//! Bytes arrive whole, in order, and are not hoarded.

use super::fake::{Client, Fake, Front, Script, defaults, within};
use fleet::ListenerRole::Reader;
use rand::{RngCore, SeedableRng, rngs::StdRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn sixty_four_random_mebibytes_come_back_as_they_were_sent() {
    let server = Fake::start("echo", Script::Echoes).await;
    let front = Front::start(defaults(), &[Reader], vec![server.replica()]);
    let client = within(5, Client::login(front.port(0))).await;
    let (mut from, mut to) = client.stream.into_split();
    const PIECE: usize = 100_003;
    const PIECES: usize = (64 << 20) / PIECE;
    let sending = tokio::spawn(async move {
        let (mut random, mut piece) = (StdRng::seed_from_u64(1), vec![0; PIECE]);
        for _ in 0..PIECES {
            random.fill_bytes(&mut piece);
            to.write_all(&piece).await.unwrap();
        }
        to
    });
    let (mut random, mut piece, mut got) = (StdRng::seed_from_u64(1), vec![0; PIECE], vec![0; PIECE]);
    for at in 0..PIECES {
        random.fill_bytes(&mut piece);
        within(60, from.read_exact(&mut got)).await.unwrap();
        assert!(piece == got, "piece {at}");
    }
    drop(sending.await.unwrap());
    let total = (PIECE * PIECES) as u64;
    let status = front.router.status();
    assert_eq!(status.servers[0].bytes_to_server, total);
    assert!(status.servers[0].bytes_to_client >= total);
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_server_instead_of_filling_memory() {
    let server = Fake::start("flood", Script::Floods(64)).await;
    let front = Front::start(defaults(), &[Reader], vec![server.replica()]);
    let mut client = Client::login(front.port(0)).await;
    client.send(0, b"\x03SELECT everything").await;
    client.swallows_a_flood(&server).await;
}

#[tokio::test]
async fn a_client_that_closes_its_half_still_gets_its_answer() {
    let server = Fake::start("r", Script::Serves).await;
    let front = Front::start(defaults(), &[Reader], vec![server.replica()]);
    let mut client = Client::login(front.port(0)).await;
    client.send(0, b"\x03SLOW").await;
    client.stream.shutdown().await.unwrap();
    assert_eq!(within(5, client.answer()).await.unwrap()[0], 0);
    within(5, client.closed()).await;
    front.until("ended", |s| s.sessions == 0).await;
    assert_eq!(front.router.status().servers[0].closed["client left"], 1);
}

#[tokio::test]
async fn commands_and_bytes_are_counted() {
    let server = Fake::start("r", Script::Serves).await;
    let front = Front::start(defaults(), &[Reader], vec![server.replica()]);
    let mut client = Client::login(front.port(0)).await;
    for _ in 0..5 {
        client.query("SELECT 1").await.unwrap();
    }
    let status = front.router.status();
    assert_eq!((status.servers[0].commands, status.servers[0].readers), (5, 1));
    assert_eq!(status.servers[0].picks["own zone"], 1);
}

#[tokio::test]
async fn a_server_that_dies_ends_its_sessions() {
    let server = Fake::start("r", Script::Breaks).await;
    let front = Front::start(defaults(), &[Reader], vec![server.replica()]);
    assert!(within(5, Client::connect(front.port(0))).await.is_err());
    let server = Fake::start("r", Script::Serves).await;
    let front = Front::start(defaults(), &[Reader], vec![server.replica()]);
    let mut client = Client::login(front.port(0)).await;
    client.send(0, b"\x01").await;
    within(5, client.closed()).await;
    front.until("ended", |s| s.sessions == 0).await;
}
