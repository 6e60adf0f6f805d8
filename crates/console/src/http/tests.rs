//! Over real sockets, with limits short enough to wait for.

use super::*;
use axum::routing::get;
use axum::{Router, middleware};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LIMITS: Limits =
    Limits { most: 4, request: Duration::from_millis(300), quiet: Duration::from_secs(20) };
const LIMIT: Duration = Duration::from_secs(20);
const ASK: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

async fn start(routes: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(BoundedListener::new(listener, LIMITS), routes).await });
    address
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

/// Reads until there is an answer, or the end.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut bytes = [0; 4096];
    while !text.ends_with("hello") {
        match tokio::time::timeout(LIMIT, stream.read(&mut bytes)).await.expect("neither answer nor end") {
            Ok(0) | Err(_) => break,
            Ok(count) => text.push_str(&String::from_utf8_lossy(&bytes[..count])),
        }
    }
    text
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_and_those_within_it_are_answered() {
    let address = start(hello()).await;
    let mut within = TcpStream::connect(address).await.unwrap();
    within.write_all(ASK).await.unwrap();
    assert!(answer(&mut within).await.ends_with("hello"));
    let mut idle = Vec::new();
    for _ in 0..500 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    // All that are too many are closed at once, long before the time of a request is over for the others.
    let mut closed = 0;
    for stream in &mut idle[3..] {
        closed += usize::from(answer(stream).await.is_empty());
    }
    assert_eq!(closed, 497);
    within.write_all(ASK).await.unwrap();
    assert!(answer(&mut within).await.ends_with("hello"), "who was in goes on");
    drop(idle);
    let deadline = Instant::now() + LIMIT;
    loop {
        let mut again = TcpStream::connect(address).await.unwrap();
        if again.write_all(ASK).await.is_ok() && answer(&mut again).await.ends_with("hello") {
            break;
        }
        assert!(Instant::now() < deadline, "places never come back");
    }
}

#[tokio::test]
async fn a_request_that_trickles_is_closed_and_a_connection_that_rests_after_an_answer_is_not() {
    let address = start(hello()).await;
    let (mut resting, mut slow) =
        (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
    resting.write_all(ASK).await.unwrap();
    assert!(answer(&mut resting).await.ends_with("hello"));
    let begun = Instant::now();
    let mut sent = b"GET / HTTP/1.1\r\n".to_vec();
    sent.extend((0..).take(4096).map(|n: u32| if n.is_multiple_of(2) { b'a' } else { b':' }));
    let mut closed = false;
    for byte in sent {
        assert!(begun.elapsed() < LIMIT, "a slow header is never closed");
        closed = slow.write_all(&[byte]).await.is_err();
        let mut end = [0];
        let rest = Duration::from_millis(20);
        closed |= matches!(tokio::time::timeout(rest, slow.read(&mut end)).await, Ok(Ok(0) | Err(_)));
        if closed {
            break;
        }
    }
    assert!(closed && begun.elapsed() >= LIMITS.request);
    resting.write_all(ASK).await.unwrap();
    assert!(answer(&mut resting).await.ends_with("hello"), "it rested longer than a request may take");
}

#[tokio::test]
async fn an_answer_is_made_once_in_its_time_however_many_ask_and_too_many_questions_are_refused() {
    let made = Arc::new(AtomicUsize::new(0));
    let age = Arc::new(Mutex::new(Duration::from_secs(3600)));
    let (count, now) = (made.clone(), age.clone());
    let make = move || {
        let count = count.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            (StatusCode::IM_A_TEAPOT, [("x-made", "yes")], format!("made {}", count.fetch_add(1, SeqCst) + 1))
        }
    };
    let cache = Cache::new(move || *now.lock().unwrap());
    let routes =
        Router::new().route("/", get(make)).layer(middleware::from_fn_with_state(cache.clone(), cached));
    let address = start(routes).await;
    let ask = async |question: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {question} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        answer(&mut stream).await
    };
    let (first, second) = tokio::join!(ask("/?a"), ask("/?a"));
    assert!(first.starts_with("HTTP/1.1 418") && first.contains("x-made: yes"), "{first}");
    assert!(
        first.ends_with("made 1") && second.ends_with("made 1"),
        "who comes while it is made waits for it"
    );
    assert!(ask("/?a").await.ends_with("made 1"));
    assert!(ask("/?b").await.ends_with("made 2"), "another question has another answer");
    for n in 2..Cache::QUESTIONS {
        assert!(ask(&format!("/?{n}")).await.starts_with("HTTP/1.1 418"));
    }
    assert!(ask("/?more").await.starts_with("HTTP/1.1 429"));
    assert!(ask("/?a").await.ends_with("made 1"));
    // Too old, and then not kept at all.
    let counted = made.load(SeqCst);
    for (n, time) in [(1, Duration::from_nanos(1)), (2, Duration::ZERO), (3, Duration::ZERO)] {
        *age.lock().unwrap() = time;
        assert!(ask("/?a").await.ends_with(&format!("made {}", counted + n)));
    }
}

#[tokio::test]
async fn who_asks_for_the_head_alone_makes_no_answer_anew_and_leaves_a_whole_one() {
    let made = Arc::new(AtomicUsize::new(0));
    let make = move || {
        let number = made.fetch_add(1, SeqCst) + 1;
        async move { format!("{number} hello") }
    };
    let cache = Cache::new(|| Duration::from_secs(3600));
    let routes = Router::new().route("/", get(make)).layer(middleware::from_fn_with_state(cache, cached));
    let address = start(routes).await;
    let ask = async |method: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{method} / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        answer(&mut stream).await
    };
    for _ in 0..3 {
        let head = ask("HEAD").await;
        assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    }
    assert!(ask("GET").await.ends_with("\r\n\r\n1 hello"));
}
