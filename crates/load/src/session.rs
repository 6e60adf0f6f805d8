//! A plain blocking session, for what surrounds a run: making tables, asking the server something. Never on
//! the timed path.

use crate::driver::{ConnectionError, begin_tls};
use crate::error::{LoadError, PlanError};
use crate::login::{Account, Handshake, LoginFailure, LoginStep};
use crate::reply::{Reply, ReplyReader};
use crate::target::{Peer, SocketAddress, TlsClient};
use crate::workload::Cells;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use wire::read::Reader;
use wire::{Command, ErrPacket, packet};

/// Making an index on a large table takes long; TCP notices a server that is down.
const PATIENCE: Duration = Duration::from_secs(3600);
const CONNECT: Duration = Duration::from_secs(10);
/// Whoever waits for an answer is asked so often whether to go on.
const TURN: Duration = Duration::from_millis(100);

/// The largest answer whose values are kept.
const MOST: usize = 64 << 20;

/// The payloads of packets in a row.
struct Packets<'a>(&'a [u8]);

impl<'a> Iterator for Packets<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let found = packet::first(self.0)?;
        self.0 = &self.0[found.used..];
        Some(found.payload)
    }
}

/// A session that is logged in.
pub(crate) struct Session {
    peer: Peer,
    stream: Channel,
    reader: ReplyReader,
    /// The longest wait for bytes of the server.
    patience: Duration,
}

/// What a session speaks over; TLS begins in the middle of a login.
enum Channel {
    Plain(Box<dyn Stream>),
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, Box<dyn Stream>>>),
    /// While one becomes the other, and after that has failed.
    Gone,
}

trait Stream: Read + Write + Send {
    /// A read that gets nothing ends after this time, as [`ErrorKind::WouldBlock`].
    fn read_within(&self, time: Duration) -> std::io::Result<()>;
}

impl Stream for TcpStream {
    fn read_within(&self, time: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

impl Stream for UnixStream {
    fn read_within(&self, time: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

impl Stream for rustls::StreamOwned<rustls::ClientConnection, Box<dyn Stream>> {
    fn read_within(&self, time: Duration) -> std::io::Result<()> {
        self.sock.read_within(time)
    }
}

impl Channel {
    fn stream(&mut self) -> std::io::Result<&mut dyn Stream> {
        match self {
            Self::Plain(stream) => Ok(stream.as_mut()),
            Self::Tls(stream) => Ok(stream.as_mut()),
            Self::Gone => Err(std::io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Session {
    /// Connects and logs in.
    ///
    /// # Errors
    /// As the server says.
    pub(crate) fn connect(peer: Peer, account: &Account, tls: Option<&TlsClient>) -> Result<Self, LoadError> {
        Self::connect_within(peer, account, tls, PATIENCE)
    }

    /// The same, for a session that never waits longer than this for the server's bytes.
    ///
    /// # Errors
    /// As [`Session::connect`].
    pub(crate) fn connect_within(
        peer: Peer,
        account: &Account,
        tls: Option<&TlsClient>,
        patience: Duration,
    ) -> Result<Self, LoadError> {
        let failed = |source| LoadError::Connect { address: peer.address.clone(), source };
        let stream = open(&peer, patience).map_err(failed)?;
        let (stream, reader) = (Channel::Plain(stream), ReplyReader::default());
        let mut session = Self { peer, stream, reader, patience };
        session.log_in(account, tls)?;
        Ok(session)
    }

    fn log_in(&mut self, account: &Account, tls: Option<&TlsClient>) -> Result<(), LoadError> {
        let mut handshake = Handshake::new(self.peer.transport(tls));
        let (mut input, mut out) = (Vec::new(), Vec::new());
        loop {
            let Some(found) = packet::first(&input) else {
                self.receive(&mut input)?;
                continue;
            };
            let step = handshake.packet(account, found.sequence, found.payload, &mut out);
            let used = found.used;
            match step.map_err(|failure| self.failure(failure))? {
                LoginStep::Done(capabilities) => {
                    self.reader = ReplyReader::new(capabilities);
                    return Ok(());
                }
                LoginStep::Wait => {
                    input.drain(..used);
                    self.send(&out)?;
                    out.clear();
                }
                LoginStep::BeginTls => {
                    input.drain(..used);
                    self.send(&out)?;
                    out.clear();
                    self.begin_tls(tls)?;
                    handshake.secured(account, &mut out).map_err(|failure| self.failure(failure))?;
                    self.send(&out)?;
                    out.clear();
                }
            }
        }
    }

    fn begin_tls(&mut self, tls: Option<&TlsClient>) -> Result<(), LoadError> {
        let tls = begin_tls(tls, &self.peer.address).map_err(|source| LoadError::Tls {
            address: self.peer.address.clone(),
            source: Box::new(source),
        })?;
        if let Channel::Plain(stream) = std::mem::replace(&mut self.stream, Channel::Gone) {
            self.stream = Channel::Tls(Box::new(rustls::StreamOwned::new(tls, stream)));
        }
        Ok(())
    }

    /// Asks and waits for the end of the answer.
    ///
    /// # Errors
    /// The server's error, or a connection that broke.
    pub(crate) fn query(&mut self, sql: &str) -> Result<Reply, LoadError> {
        self.ask(sql, |_| Ok(()), Err)
    }

    /// Asks and waits for the end of the answer for as long as `go_on` says so; it is called ten times a
    /// second. Once it has said no the session cannot be used any more.
    ///
    /// # Errors
    /// As [`Session::query`], and what `go_on` says.
    pub(crate) fn query_while(
        &mut self,
        sql: &str,
        go_on: impl FnMut() -> Result<(), LoadError>,
    ) -> Result<Reply, LoadError> {
        self.ask_while(sql, |_| Ok(()), go_on)
    }

    fn ask_while(
        &mut self,
        sql: &str,
        keep: impl FnMut(&[u8]) -> Result<(), LoadError>,
        mut go_on: impl FnMut() -> Result<(), LoadError>,
    ) -> Result<Reply, LoadError> {
        let (began, patience) = (Instant::now(), self.patience);
        self.read_within(TURN)?;
        let waits = |error: LoadError| {
            if is_turn(&error) && began.elapsed() < patience { go_on() } else { Err(error) }
        };
        let reply = self.ask(sql, keep, waits);
        let as_before = self.read_within(patience);
        let reply = reply?;
        as_before.map(|()| reply)
    }

    fn read_within(&mut self, time: Duration) -> Result<(), LoadError> {
        let set = self.stream.stream().and_then(|stream| stream.read_within(time));
        set.map_err(|source| self.broken(source))
    }

    /// Asks for the values of the first column, without those that are NULL.
    ///
    /// # Errors
    /// As [`Session::query`], and more than [`MOST`] bytes.
    pub(crate) fn column(&mut self, sql: &str) -> Result<Cells, LoadError> {
        self.column_while(sql, || Ok(()))
    }

    /// The same for as long as `go_on` says so, as [`Session::query_while`].
    ///
    /// # Errors
    /// As [`Session::column`], and what `go_on` says.
    pub(crate) fn column_while(
        &mut self,
        sql: &str,
        go_on: impl FnMut() -> Result<(), LoadError>,
    ) -> Result<Cells, LoadError> {
        let mut answer = Vec::new();
        let keep = |bytes: &[u8]| -> Result<(), LoadError> {
            answer.extend_from_slice(bytes);
            let fits = answer.len() <= MOST;
            fits.then_some(()).ok_or_else(|| PlanError::AnswerTooLarge { sql: sql.to_owned() }.into())
        };
        let reply = self.ask_while(sql, keep, go_on)?;
        let mut packets = Packets(&answer);
        let columns = packets.next().and_then(|count| Reader::new(count).lenenc()).unwrap_or(0);
        let (eof, columns) = (usize::from(!self.reader.leaves_out_eof()), columns as usize);
        let rows = packets.skip(columns + eof).take(reply.rows as usize);
        Ok(rows.filter_map(|row| Reader::new(row).lenenc_bytes().map(Into::into)).collect())
    }

    /// Asks; `keep` gets all bytes of the answer, `waits` why none came: it says whether to go on.
    fn ask(
        &mut self,
        sql: &str,
        mut keep: impl FnMut(&[u8]) -> Result<(), LoadError>,
        mut waits: impl FnMut(LoadError) -> Result<(), LoadError>,
    ) -> Result<Reply, LoadError> {
        let mut out = Vec::with_capacity(sql.len() + 5);
        packet::write(&mut out, &mut 0, &[&[Command::Query.byte()], sql.as_bytes()].concat());
        self.send(&out)?;
        let mut input = Vec::new();
        loop {
            input.clear();
            if let Err(error) = self.receive(&mut input) {
                waits(error)?;
                continue;
            }
            keep(&input)?;
            let source = |source| LoadError::Wire { address: self.peer.address.clone(), source };
            if let Some(reply) = self.reader.feed(&mut input.as_slice()).map_err(source)? {
                let Some(code) = reply.error else { return Ok(reply) };
                let words = packet::first(&input).and_then(|found| ErrPacket::parse(found.payload).ok());
                let message = words.map_or_else(String::new, |error| error.message);
                return Err(LoadError::Refused { address: self.peer.address.clone(), code, message });
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        let sent = self.stream.stream().and_then(|stream| {
            stream.write_all(bytes)?;
            stream.flush()
        });
        sent.map_err(|source| self.broken(source))
    }

    fn receive(&mut self, input: &mut Vec<u8>) -> Result<(), LoadError> {
        let mut chunk = [0; 16 * 1024];
        match self.stream.stream().and_then(|stream| stream.read(&mut chunk)) {
            Ok(0) => Err(self.broken(std::io::Error::other(ConnectionError::Closed))),
            Ok(count) => {
                input.extend_from_slice(&chunk[..count]);
                Ok(())
            }
            Err(source) => Err(self.broken(source)),
        }
    }

    fn broken(&self, source: std::io::Error) -> LoadError {
        LoadError::Connect { address: self.peer.address.clone(), source }
    }

    fn failure(&self, failure: LoginFailure) -> LoadError {
        failure.at(self.peer.address.clone())
    }
}

/// Whether nothing has come yet; a signal ends a read early, too.
fn is_turn(error: &LoadError) -> bool {
    let LoadError::Connect { source, .. } = error else { return false };
    matches!(source.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn open(peer: &Peer, patience: Duration) -> std::io::Result<Box<dyn Stream>> {
    Ok(match &peer.socket_address {
        SocketAddress::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, CONNECT)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(patience))?;
            Box::new(stream)
        }
        SocketAddress::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(patience))?;
            Box::new(stream)
        }
    })
}
