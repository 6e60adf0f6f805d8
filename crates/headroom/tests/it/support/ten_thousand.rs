//! Sessions by the thousand in raw packets, and a server for them.

use lab::{Account, Spec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use wire::{Capabilities, Command, ErrPacket, Greeting, Login, auth, packet};

pub(crate) const WANTED: u64 = 10_000;
/// An answer that takes longer is none.
const LIMIT: Duration = Duration::from_secs(60);
/// Logins at a time.
const STORM: usize = 16;

/// A session in raw packets: ten thousand drivers' would be the test of their memory.
pub(crate) struct Session(TcpStream);

impl Session {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    fn log_in(to: SocketAddr, password: &str) -> Self {
        let mut session = Self::connect(to);
        let greeting = session.receive();
        let greeting = Greeting::parse(&greeting)
            .unwrap_or_else(|_| panic!("{:?} instead of a greeting", ErrPacket::parse(&greeting)));
        let login = Login {
            capabilities: Capabilities::ORDINARY.difference(Capabilities::CONNECT_ATTRS),
            max_packet: 1 << 24,
            charset: 45,
            user: Account::App.user().as_bytes(),
            auth_response: &auth::native_password(password.as_bytes(), &greeting.nonce),
            database: lab::DATABASE.as_bytes(),
            auth_plugin: auth::NATIVE_PASSWORD.as_bytes(),
            ..Login::default()
        };
        session.send(1, &login.encode());
        let answer = session.receive();
        assert_eq!(answer[0], 0, "{:?}", ErrPacket::parse(&answer));
        session
    }

    pub(crate) fn answers(&mut self) {
        self.send(0, &[Command::Ping.byte()]);
        assert_eq!(self.receive()[0], 0);
    }

    fn send(&mut self, mut sequence: u8, payload: &[u8]) {
        let mut bytes = Vec::new();
        packet::write(&mut bytes, &mut sequence, payload);
        self.0.write_all(&bytes).unwrap();
    }

    pub(crate) fn receive(&mut self) -> Vec<u8> {
        let mut header = [0; packet::HEADER];
        self.0.read_exact(&mut header).unwrap();
        let mut payload = vec![0; packet::Header::parse(header).length as usize];
        self.0.read_exact(&mut payload).unwrap();
        payload
    }
}

/// This many sessions, opened by a few threads at once.
pub(crate) fn open(to: SocketAddr, password: &str, sessions: usize) -> Vec<Session> {
    let part = |at: usize| sessions / STORM + usize::from(at < sessions % STORM);
    std::thread::scope(|scope| {
        let storm: Vec<_> = (0..STORM)
            .map(|at| {
                scope.spawn(move || (0..part(at)).map(|_| Session::log_in(to, password)).collect::<Vec<_>>())
            })
            .collect();
        storm.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// As many descriptors as this process may have.
pub(crate) fn allow_files() -> Rlimit {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    limit
}

/// One server for this many sessions. A thread each would be the server's memory, which is not the question.
pub(crate) fn roomy() -> Spec {
    Spec::new(&[("a", 1)]).option("max_connections", "10200").option("thread_handling", "pool-of-threads")
}
