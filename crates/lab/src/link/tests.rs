//! Links between sockets of this process: what they cost, what they carry, how they fail.

use super::*;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::Instant;

/// A server that sends back what it gets, one thread a connection, and one link to it.
struct Rig {
    links: Links,
    address: SocketAddrV4,
}

impl Rig {
    fn new(round_trip: Duration, jitter: f64, serve: fn(TcpStream)) -> Self {
        let server = TcpListener::bind((Ipv4Addr::new(127, 201, 0, 1), 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        thread::spawn(move || {
            while let Ok((stream, _)) = server.accept() {
                thread::spawn(move || serve(stream));
            }
        });
        Self::to(SocketAddrV4::new(Ipv4Addr::new(127, 201, 0, 1), port), round_trip, jitter)
    }

    fn to(server: SocketAddrV4, round_trip: Duration, jitter: f64) -> Self {
        let address = SocketAddrV4::new(Ipv4Addr::new(127, 202, 201, 1), server.port());
        let listener = Listener::bind(address).unwrap();
        let pace = Pace { one_way: round_trip / 2, jitter };
        let links = Links::start(vec![LinkEnd { listener, from: 201, server, pace }]).unwrap();
        Self { links, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }
}

fn echo(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = stream.read(&mut buffer) {
        if count == 0 || stream.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}

fn round_trip(stream: &mut TcpStream) -> Duration {
    let start = Instant::now();
    stream.write_all(b"?").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    start.elapsed()
}

#[test]
fn a_round_trip_takes_at_least_the_configured_time() {
    for (configured, jitter) in [(0, 0.0), (120, 0.0), (700, 0.1), (5000, 0.0)] {
        let configured = Duration::from_micros(configured);
        let rig = Rig::new(configured, jitter, echo);
        let mut stream = rig.connect();
        let mut times: Vec<Duration> = (0..300).map(|_| round_trip(&mut stream)).collect();
        times.sort();
        println!("configured {configured:?} jitter {jitter}: median {:?}, p99 {:?}", times[150], times[296]);
        assert!(times[0] >= configured, "{:?} < {configured:?}", times[0]);
    }
}

#[test]
fn a_new_connection_is_greeted_after_two_round_trips() {
    fn greet(mut stream: TcpStream) {
        stream.write_all(b"!").unwrap();
    }
    let rig = Rig::new(Duration::from_millis(10), 0.0, greet);
    let start = Instant::now();
    rig.connect().read_exact(&mut [0]).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(20));
}

#[test]
fn the_time_can_be_changed_while_a_connection_is_open() {
    let rig = Rig::new(Duration::from_micros(100), 0.0, echo);
    let mut stream = rig.connect();
    round_trip(&mut stream);
    rig.links.set_pace(0, Pace { one_way: Duration::from_millis(4), jitter: 0.0 }).unwrap();
    assert!(round_trip(&mut stream) >= Duration::from_millis(8));
}

#[test]
fn everything_arrives_in_order_even_when_the_receiver_is_slow() {
    let rig = Rig::new(Duration::from_millis(2), 0.5, echo);
    let stream = rig.connect();
    let total: usize = 24 << 20;
    let mut writer = stream.try_clone().unwrap();
    let sender = thread::spawn(move || {
        let bytes: Vec<u8> = (0..total).map(|i| (i / 7) as u8).collect();
        writer.write_all(&bytes).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    // Everything that can fill up on the way has filled up before the first byte is read.
    thread::sleep(Duration::from_millis(300));
    let mut got = Vec::new();
    (&stream).read_to_end(&mut got).unwrap();
    sender.join().unwrap();
    assert_eq!(got.len(), total);
    assert!(got.iter().enumerate().all(|(i, b)| *b == (i / 7) as u8));
    let counters = &rig.links.counters[0];
    assert_eq!(counters.bytes_to_server.load(Ordering::Relaxed), total as u64);
    assert_eq!(counters.bytes_to_client.load(Ordering::Relaxed), total as u64);
}

#[test]
fn an_orderly_end_and_a_reset_arrive_as_what_they_are() {
    fn say_goodbye(mut stream: TcpStream) {
        stream.write_all(b"bye").unwrap();
    }
    fn reset(mut stream: TcpStream) {
        // Unread bytes at the end make the system send a reset.
        stream.write_all(b"x").unwrap();
        stream.peek(&mut [0]).unwrap();
    }
    let rig = Rig::new(Duration::from_millis(1), 0.0, say_goodbye);
    let mut said = String::new();
    rig.connect().read_to_string(&mut said).unwrap();
    assert_eq!(said, "bye");
    let rig = Rig::new(Duration::from_millis(1), 0.0, reset);
    let mut stream = rig.connect();
    stream.write_all(b"never read").unwrap();
    let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_server_that_is_not_there_breaks_the_connection() {
    let free = TcpListener::bind((Ipv4Addr::new(127, 201, 0, 1), 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let rig = Rig::to(SocketAddrV4::new(Ipv4Addr::new(127, 201, 0, 1), port), Duration::from_millis(1), 0.0);
    let error = rig.connect().read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let deadline = Instant::now() + Duration::from_secs(5);
    while rig.links.counters[0].open.load(Ordering::Relaxed) > 0 {
        assert!(Instant::now() < deadline, "the session stays");
        thread::yield_now();
    }
}

#[test]
fn a_refusing_link_refuses_and_keeps_what_is_connected() {
    let rig = Rig::new(Duration::from_micros(100), 0.0, echo);
    let mut stream = rig.connect();
    round_trip(&mut stream);
    rig.links.set_mode(0, Mode::Refusing).unwrap();
    let error = TcpStream::connect(rig.address).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    round_trip(&mut stream);
    assert!(TcpListener::bind(rig.address).is_err(), "the address was given up");
    rig.links.set_mode(0, Mode::Open).unwrap();
    round_trip(&mut rig.connect());
}

#[test]
fn a_silent_link_takes_connections_and_delivers_nothing_until_it_is_healed() {
    let rig = Rig::new(Duration::from_micros(100), 0.0, echo);
    let mut before = rig.connect();
    round_trip(&mut before);
    rig.links.set_mode(0, Mode::Silent).unwrap();
    let mut during = rig.connect();
    for stream in [&mut before, &mut during] {
        stream.write_all(b"?").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let error = stream.read(&mut [0]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    }
    rig.links.set_mode(0, Mode::Open).unwrap();
    for stream in [&mut before, &mut during] {
        stream.read_exact(&mut [0]).unwrap();
    }
}

#[test]
fn a_dropping_link_lets_connect_hang() {
    let rig = Rig::new(Duration::from_micros(100), 0.0, echo);
    let mut before = rig.connect();
    round_trip(&mut before);
    rig.links.set_mode(0, Mode::Dropping).unwrap();
    for _ in 0..3 {
        let error = TcpStream::connect_timeout(&rig.address.into(), Duration::from_millis(100)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
    rig.links.set_mode(0, Mode::Open).unwrap();
    round_trip(&mut rig.connect());
    round_trip(&mut before);
    rig.links.set_mode(0, Mode::Dropping).unwrap();
    rig.links.set_mode(0, Mode::Refusing).unwrap();
    rig.links.set_mode(0, Mode::Dropping).unwrap();
    rig.links.set_mode(0, Mode::Silent).unwrap();
    rig.links.set_mode(0, Mode::Open).unwrap();
    round_trip(&mut rig.connect());
}

#[test]
fn the_server_sees_the_client_in_its_zone() {
    fn tell_peer(mut stream: TcpStream) {
        let peer = stream.peer_addr().unwrap().ip().to_string();
        stream.write_all(peer.as_bytes()).unwrap();
    }
    let rig = Rig::new(Duration::ZERO, 0.0, tell_peer);
    let mut said = String::new();
    rig.connect().read_to_string(&mut said).unwrap();
    assert_eq!(said, "127.202.0.254");
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddrV4::new(Ipv4Addr::new(127, 202, 0, 203), 0).into()).unwrap();
    socket.connect(&rig.address.into()).unwrap();
    said.clear();
    TcpStream::from(socket).read_to_string(&mut said).unwrap();
    assert_eq!(said, "127.202.0.203");
}

/// How much CPU the relay's thread takes for a round trip, printed; asserts only that the link carried them
/// all.
#[test]
fn many_clients_at_once_each_get_their_own_answers() {
    let rig = Rig::new(Duration::from_micros(700), 0.1, echo);
    let before = relay_cpu();
    let start = Instant::now();
    thread::scope(|scope| {
        for client in 0..16_u8 {
            let mut stream = rig.connect();
            scope.spawn(move || {
                for i in 0..500_u16 {
                    let sent = [client, (i >> 8) as u8, i as u8];
                    stream.write_all(&sent).unwrap();
                    let mut got = [0; 3];
                    stream.read_exact(&mut got).unwrap();
                    assert_eq!(got, sent);
                }
            });
        }
    });
    let (elapsed, cpu) = (start.elapsed(), relay_cpu().saturating_sub(before));
    let round_trips = rig.links.counters[0].round_trips.load(Ordering::Relaxed);
    assert_eq!(round_trips, 16 * 500);
    println!("{round_trips} round trips in {elapsed:?}, {} us of relay CPU each", cpu.as_micros() / 8000);
}

/// CPU time of all relays of this process.
fn relay_cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let relays = tasks.filter(|t| {
        std::fs::read_to_string(t.path().join("comm")).is_ok_and(|name| name.trim() == "lab-links")
    });
    let nanoseconds = relays.filter_map(|t| {
        let text = std::fs::read_to_string(t.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}
