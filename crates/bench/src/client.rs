//! The smallest client there is: log in, ask, close. The same for every subject, so that the time of a
//! connect-query-close cycle is the subject's and the server's, not a driver's; and cheap enough for 1,000 of
//! them to sit idle. Blocking: call it from a thread of its own.

use super::sysbench::{ACCOUNT, DATABASE};
use anyhow::{Context, bail, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use wire::{Capabilities, Command, ErrPacket, Greeting, Login, auth, packet, response};

/// Nothing that is asked here takes longer, unless something hangs.
const PATIENCE: Duration = Duration::from_secs(10);
const EOF: u8 = 0xfe;

/// A session that is logged in.
#[derive(Debug)]
pub(crate) struct Session {
    stream: TcpStream,
    received: Vec<u8>,
    used: usize,
}

impl Session {
    /// Connects and logs in.
    ///
    /// # Errors
    /// Nobody answers, or the answer is a refusal (in the server's words) or no greeting.
    pub(crate) fn login(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)
            .with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut session = Self { stream, received: Vec::with_capacity(512), used: 0 };
        session.authenticate().with_context(|| format!("logging in at {address}"))?;
        Ok(session)
    }

    fn authenticate(&mut self) -> anyhow::Result<()> {
        let greeting = self.receive()?;
        refused(greeting)?;
        Greeting::parse(greeting)?;
        let login = Login {
            capabilities: Capabilities::ORDINARY.difference(Capabilities::CONNECT_ATTRS),
            max_packet: 1 << 24,
            charset: 45,
            user: ACCOUNT.as_bytes(),
            database: DATABASE.as_bytes(),
            auth_plugin: auth::NATIVE_PASSWORD.as_bytes(),
            ..Login::default()
        };
        self.send(1, &login.encode())?;
        let answer = self.receive()?;
        refused(answer)?;
        ensure!(
            answer.first() == Some(&0),
            "the account '{ACCOUNT}' should need no password, but is asked for one"
        );
        Ok(())
    }

    /// Asks and reads the whole answer: one result set, or OK.
    ///
    /// # Errors
    /// The server's error in its words, or a connection that broke.
    pub(crate) fn query(&mut self, statement: &str) -> anyhow::Result<()> {
        let command = [&[Command::Query.byte()], statement.as_bytes()].concat();
        self.send(0, &command)?;
        let head = self.receive()?;
        refused(head)?;
        if head.first() == Some(&0) {
            return Ok(());
        }
        // Column definitions, then rows: each part ends with an EOF packet.
        for _ in 0..2 {
            loop {
                let packet = self.receive()?;
                refused(packet)?;
                if packet.first() == Some(&EOF) && packet.len() < 9 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Says goodbye and closes.
    pub(crate) fn close(mut self) -> anyhow::Result<()> {
        self.send(0, &[Command::Quit.byte()])
    }

    fn send(&mut self, mut sequence: u8, payload: &[u8]) -> anyhow::Result<()> {
        let mut bytes = Vec::with_capacity(payload.len() + packet::HEADER);
        packet::write(&mut bytes, &mut sequence, payload);
        Ok(self.stream.write_all(&bytes)?)
    }

    /// The payload of the next packet.
    fn receive(&mut self) -> anyhow::Result<&[u8]> {
        self.received.drain(..self.used);
        self.used = 0;
        while packet::first(&self.received).is_none() {
            let mut chunk = [0; 512];
            let read = self.stream.read(&mut chunk).context("waiting for an answer")?;
            if read == 0 {
                bail!("the other side closed the connection");
            }
            self.received.extend_from_slice(&chunk[..read]);
        }
        let packet = packet::first(&self.received).context("a whole packet was just there")?;
        self.used = packet.used;
        Ok(packet.payload)
    }
}

/// How long one connect-query-close takes, `cycles` times one after the other; microseconds each. The first
/// twentieth is warm-up and left out.
pub(crate) fn connect_cycles(address: SocketAddr, cycles: u32) -> anyhow::Result<Vec<f64>> {
    let warm_up = cycles / 20;
    let mut times = Vec::with_capacity(cycles as usize);
    for cycle in 0..warm_up + cycles {
        let start = Instant::now();
        let mut session = Session::login(address)?;
        session.query("SELECT 1")?;
        session.close()?;
        if cycle >= warm_up {
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(times)
}

/// Opens sessions that do nothing; they end when dropped.
pub(crate) fn open_idle(address: SocketAddr, sessions: u32) -> anyhow::Result<Vec<Session>> {
    let open = |number| {
        Session::login(address).with_context(|| format!("opening idle session {number} of {sessions}"))
    };
    (1..=sessions).map(open).collect()
}

/// Asks each of them something: whoever holds idle sessions holds sessions that work.
pub(crate) fn all_answer(mut sessions: Vec<Session>) -> anyhow::Result<Vec<Session>> {
    let all = sessions.len();
    for (at, session) in sessions.iter_mut().enumerate() {
        session.query("SELECT 1").with_context(|| format!("idle session {} of {all} was lost", at + 1))?;
    }
    Ok(sessions)
}

fn refused(payload: &[u8]) -> anyhow::Result<()> {
    if response::error_code(payload).is_some() {
        let error = ErrPacket::parse(payload)?;
        bail!("error {}: {}", error.code, error.message);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    /// A server for one session that answers each packet it gets with the next of `answers`, after a
    /// greeting.
    fn scripted(answers: Vec<Vec<u8>>) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let greeting = Greeting {
                version: "10.11.6-MariaDB".into(),
                connection_id: 1,
                nonce: vec![b'n'; 20],
                capabilities: Capabilities::ORDINARY,
                charset: 45,
                status: wire::Status::AUTOCOMMIT,
                auth_plugin: auth::NATIVE_PASSWORD.into(),
            };
            let mut bytes = Vec::new();
            packet::write(&mut bytes, &mut 0, &greeting.encode());
            stream.write_all(&bytes).unwrap();
            for answer in answers {
                let mut header = [0; packet::HEADER];
                stream.read_exact(&mut header).unwrap();
                let mut payload = vec![0; packet::Header::parse(header).length as usize];
                stream.read_exact(&mut payload).unwrap();
                stream.write_all(&answer).unwrap();
            }
        });
        (address, server)
    }

    fn packets(first: u8, payloads: &[&[u8]]) -> Vec<u8> {
        let (mut bytes, mut sequence) = (Vec::new(), first);
        for payload in payloads {
            packet::write(&mut bytes, &mut sequence, payload);
        }
        bytes
    }

    #[test]
    fn a_session_logs_in_and_reads_a_result_set_to_its_end() {
        let ok = packets(2, &[&[0, 0, 0, 2, 0, 0, 0]]);
        let eof: &[u8] = &[EOF, 0, 0, 2, 0];
        let rows = packets(1, &[&[1], b"\x03def...", eof, b"\x011", eof]);
        let (address, server) = scripted(vec![ok, rows.clone(), rows]);
        let mut session = Session::login(address).unwrap();
        session.query("SELECT 1").unwrap();
        session.query("SELECT 1").unwrap();
        assert_eq!(session.used, session.received.len());
        server.join().unwrap();
    }

    #[test]
    fn a_refusal_is_told_in_the_servers_words() {
        let refusal = ErrPacket::new(1040, b"08004", "Too many connections");
        let (address, server) = scripted(vec![refusal.packet(2, Capabilities::ORDINARY)]);
        let error = format!("{:#}", Session::login(address).unwrap_err());
        assert!(error.contains("error 1040: Too many connections"), "{error}");
        server.join().unwrap();
    }
}
