//! Connect: one attempt at one server, up to and including its greeting.
//!
//! A server that accepts and then says nothing (frozen, blackholed behind a balancer), or says an error
//! instead of a greeting, has failed just as one that refuses: the client has not seen a byte, so the next
//! server can be tried.

use crate::names::Names;
use crate::stream::Stream;
use fleet::{Address, Blame};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use wire::{ErrPacket, packet};

/// The longest greeting we wait for; real ones have about a hundred bytes.
const LONGEST_GREETING: usize = 4096;

/// A name's next address is tried after this long without an answer of the one before.
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct GreetedServer {
    pub(crate) server: Stream,
    /// Its greeting, whole, not yet passed on.
    pub(crate) greeting: Vec<u8>,
}

impl GreetedServer {
    /// The payload of its greeting.
    pub(crate) fn payload(&self) -> &[u8] {
        self.greeting.get(packet::HEADER..).unwrap_or_default()
    }
}

/// Why an attempt failed, in words that may be shown to a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConnectError {
    /// The server answered something else than a greeting.
    Server(String),
    /// It refused, or the connection broke.
    Network(String),
    /// It did not refuse, nor greet in time.
    Slow(String),
    /// This host has run out of descriptors or memory: no other server would do better.
    OwnHost(String),
    /// This host has no local port left for connections to this address. Ports are counted by destination:
    /// another server may do.
    NoPort(String),
}

impl ConnectError {
    /// Whose fault it is; with that of servers and of the network the next server is tried.
    pub(crate) fn blame(&self) -> Blame {
        match self {
            Self::Server(_) => Blame::Server,
            Self::Network(_) | Self::Slow(_) => Blame::Network,
            Self::OwnHost(_) | Self::NoPort(_) => Blame::Config,
        }
    }

    /// The server may do better with more time.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self, Self::Slow(_))
    }

    /// What happened, in words.
    pub(crate) fn into_words(self) -> String {
        match self {
            Self::Server(why)
            | Self::Network(why)
            | Self::Slow(why)
            | Self::OwnHost(why)
            | Self::NoPort(why) => why,
        }
    }
}

/// Connects and waits for the greeting, not beyond `until`.
pub(crate) async fn connect(
    reach: &Address,
    names: &Names,
    until: Instant,
) -> Result<GreetedServer, ConnectError> {
    let begun = Instant::now();
    let late = |what: &str| {
        let waited: Duration = begun.elapsed();
        ConnectError::Slow(format!("{what} for {} ms", waited.as_millis()))
    };
    let mut server = match timeout_at(until, open(reach, names, until)).await {
        Err(_) => {
            recheck(reach, names);
            return Err(late("no connection"));
        }
        Ok(Err(error)) => {
            recheck(reach, names);
            return Err(classify(&error));
        }
        Ok(Ok(stream)) => stream,
    };
    match timeout_at(until, read_greeting(&mut server)).await {
        Err(_) => Err(late("connected, but no greeting")),
        Ok(Err(failure)) => Err(failure),
        Ok(Ok(greeting)) => Ok(GreetedServer { server, greeting }),
    }
}

/// Nobody answers there: a name may lead elsewhere by now.
fn recheck(reach: &Address, names: &Names) {
    if let Some(host) = reach.host() {
        names.recheck(host);
    }
}

async fn open(reach: &Address, names: &Names, until: Instant) -> io::Result<Stream> {
    let stream = match reach {
        Address::Unix(path) => Stream::Unix(UnixStream::connect(path).await?),
        Address::Tcp { host, port } => match host.parse() {
            Ok(ip) => Stream::Tcp(TcpStream::connect(SocketAddr::new(ip, *port)).await?),
            Err(_) => {
                let found: Vec<_> =
                    names.of(host).await?.iter().map(|ip| SocketAddr::new(*ip, *port)).collect();
                let left = until.saturating_duration_since(Instant::now());
                Stream::Tcp(connect_to_first(&found, left / found.len().max(1) as u32).await?)
            }
        },
    };
    stream.tune()?;
    Ok(stream)
}

/// Connects to all addresses of a name, each a little after the one before (at once when that one fails), and
/// takes the first that comes about: behind a filter that drops IPv6 the first address may never answer
/// (RFC 8305). Each has `share` of the time to itself, and no more than [`NEXT_ADDRESS`].
async fn connect_to_first(addresses: &[SocketAddr], share: Duration) -> io::Result<TcpStream> {
    let pause = share.min(NEXT_ADDRESS);
    let (mut attempts, mut left) = (JoinSet::new(), addresses.iter().copied());
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    loop {
        match left.next() {
            Some(address) => drop(attempts.spawn(TcpStream::connect(address))),
            None if attempts.is_empty() => return Err(failure),
            None => {}
        }
        let is_last = left.len() == 0;
        tokio::select! {
            Some(done) = attempts.join_next() => match done.map_err(io::Error::other).flatten() {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            },
            () = tokio::time::sleep(pause), if !is_last => {}
        }
    }
}

async fn read_greeting(server: &mut Stream) -> Result<Vec<u8>, ConnectError> {
    let mut bytes = vec![0u8; LONGEST_GREETING];
    let mut have = 0;
    loop {
        let read = server.read(&mut bytes[have..]).await.map_err(|e| classify(&e))?;
        if read == 0 {
            let what =
                if have == LONGEST_GREETING { "too long a greeting" } else { "closed before the greeting" };
            return Err(ConnectError::Server(what.to_owned()));
        }
        have += read;
        let Some(greeting) = packet::first(&bytes[..have]) else { continue };
        match greeting.payload.first() {
            Some(0xff) => {
                let err = ErrPacket::parse(greeting.payload);
                return Err(ConnectError::Server(match err {
                    Ok(err) => format!("error {} instead of a greeting: {}", err.code, err.message),
                    Err(_) => "an unreadable error instead of a greeting".to_owned(),
                }));
            }
            Some(9 | 10) if greeting.used < have => {
                return Err(ConnectError::Server("it says more than a greeting at the start".to_owned()));
            }
            Some(9 | 10) => {
                bytes.truncate(have);
                return Ok(bytes);
            }
            _ => return Err(ConnectError::Server("it speaks another protocol than MySQL's".to_owned())),
        }
    }
}

/// Whose fault an error is.
fn classify(error: &io::Error) -> ConnectError {
    use rustix::io::Errno;
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    let own = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    if number.is_some_and(|number| own.contains(&number)) {
        return ConnectError::OwnHost(error.to_string());
    }
    if number == Some(Errno::ADDRNOTAVAIL) {
        return ConnectError::NoPort(format!("this host has no local port left for it: {error}"));
    }
    ConnectError::Network(match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset".to_owned(),
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use tokio::net::TcpListener;

    #[test]
    fn a_host_without_a_port_for_one_server_may_have_one_for_another() {
        let of = |number: Errno| classify(&io::Error::from_raw_os_error(number.raw_os_error()));
        assert!(matches!(of(Errno::ADDRNOTAVAIL), ConnectError::NoPort(why) if why.contains("local port")));
        assert!(matches!(of(Errno::MFILE), ConnectError::OwnHost(_)));
        assert!(matches!(of(Errno::CONNREFUSED), ConnectError::Network(_)));
        // Whatever is done about it, the server is not to blame.
        assert!(!of(Errno::ADDRNOTAVAIL).blame().may_succeed_elsewhere());
    }

    #[tokio::test]
    async fn an_address_that_never_answers_leaves_time_for_the_next() {
        let answers = TcpListener::bind("127.0.0.1:0").await.unwrap();
        // Its queue has room for one: the kernel drops whoever comes after that, as a filter does.
        let drops = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        drops.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        drops.listen(0).unwrap();
        let silent = drops.local_addr().unwrap().as_socket().unwrap();
        let _waits = std::net::TcpStream::connect(silent).unwrap();
        let first = |addresses: Vec<SocketAddr>, within_ms| async move {
            let within = Duration::from_millis(within_ms);
            let share = within / addresses.len() as u32;
            tokio::time::timeout(within, connect_to_first(&addresses, share)).await
        };
        assert!(first(vec![silent], 200).await.is_err(), "nobody answers there");
        let (here, refuses) = (answers.local_addr().unwrap(), "127.0.0.1:1".parse().unwrap());
        let connected = first(vec![silent, refuses, here], 2_000).await.unwrap().unwrap();
        assert_eq!(connected.peer_addr().unwrap(), here);
        let error = first(vec![refuses, refuses], 10_000).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
