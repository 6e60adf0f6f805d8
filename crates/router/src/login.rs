//! Login: from the server's greeting to its OK, one packet at a time, with TLS begun and ended where it is
//! due.
//!
//! What each packet means is decided by [`wire::bridge`]; here packets are read whole and carried over. They
//! are read to their last byte and no further, so that whatever comes next (TLS records, the first command)
//! is still in the socket for whoever takes over. The whole of it has a deadline: a client that greets nobody
//! holds no server's connection.

use crate::stream::Stream;
use crate::tls::{CertificateRejected, FromClients, LoginKeys, ToServers};
use fleet::{Address, Blame};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
use wire::bridge::{Bridge, Refusal, Step, Terms};
use wire::packet::{HEADER, Header};

/// The longest packet of a login: a name, a proof, 64 KiB of connection attributes.
const LONGEST: usize = 128 * 1024;
/// How long a client has to send the packet that is due before it hears that its server has failed.
const FAREWELL: Duration = Duration::from_secs(1);
/// A server that closes after its client has been silent for this long has given up waiting, as servers do
/// after their `connect_timeout`; one that dies takes its clients at any moment of a login.
const GIVES_UP: Duration = Duration::from_secs(1);
/// A packet's buffer grows in steps of this.
const GROWTH: usize = 4096;

/// Everything a login needs apart from its two ends.
pub(crate) struct LoginContext<'a> {
    /// How TLS from this client is ended, where the listener does that.
    pub(crate) from_client: Option<&'a FromClients>,
    /// How TLS to the server is begun, where that is asked for.
    pub(crate) to_server: Option<&'a ToServers>,
    /// Where the server is, for its certificate.
    pub(crate) reach: &'a Address,
    /// For passwords that have to be translated.
    pub(crate) keys: LoginKeys<'a>,
    /// When it must be over.
    pub(crate) until: Instant,
}

/// A login that came to its end in peace.
pub(crate) struct CompletedLogin {
    /// Client and server; TLS where it was begun.
    pub(crate) streams: (Stream, Stream),
    /// What was said; its tracker knows where the session stands.
    pub(crate) bridge: Bridge,
}

/// A login that did not.
#[derive(Debug)]
pub(crate) struct FailedLogin {
    /// The client, if it may be told, and with which sequence id.
    pub(crate) client: Option<(Box<Stream>, u8)>,
    /// The server, if it was sent nothing: it still waits for a login.
    pub(crate) unused: Option<Box<Stream>>,
    /// The client has not sent a whole packet.
    pub(crate) silent: bool,
    pub(crate) why: LoginError,
}

/// Why a login failed.
#[derive(Debug)]
pub(crate) enum LoginError {
    /// The server said no, and the client has heard it.
    Denied,
    /// The client closed or broke its connection.
    ClientLeft,
    /// The client's TLS did not come about.
    ClientTls(io::Error),
    /// The client's certificate does not let it in, or it has shown none.
    CertificateRejected(CertificateRejected),
    /// The client was not done in time.
    ClientSlow {
        /// The server closed after waiting this long for the client's packet; `None`: our deadline passed.
        server_waited: Option<Duration>,
    },
    /// The server closed or broke its connection, or spoke no sense.
    Server(String),
    /// The server had not answered, the client's packet or our TLS, when our deadline passed.
    Unanswered,
    /// TLS with the server did not come about.
    ServerTls(io::Error),
    Refused(Refusal),
}

impl LoginError {
    /// Whose fault it is: a server that is to blame is suspected, and has failed the session.
    pub(crate) fn blame(&self) -> Blame {
        match self {
            Self::Denied
            | Self::ClientLeft
            | Self::ClientTls(_)
            | Self::CertificateRejected(_)
            | Self::ClientSlow { .. }
            | Self::Refused(_) => Blame::Client,
            Self::Server(_) | Self::Unanswered | Self::ServerTls(_) => Blame::Server,
        }
    }
}

/// Whose packet is due.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Client,
    Server,
}

/// What has been read of each side's next packet, and where the exchange stands.
struct Exchange {
    from_client: Inbox,
    from_server: Inbox,
    bridge: Bridge,
    turn: Turn,
    /// Sequence id for a packet to the client.
    next_to_client: u8,
    /// When the client was last sent a packet.
    told_client_at: Instant,
    /// The client has sent a packet.
    client_spoke: bool,
    /// The server has been sent one.
    server_heard: bool,
}

/// Where an exchange of packets stops: done, or TLS is due on one side before the steps that are left.
enum Stop {
    Done,
    AcceptTls(Vec<Step>),
    BeginTls(Vec<Step>),
}

/// One side's packet while it comes in.
#[derive(Default)]
struct Inbox {
    header: [u8; HEADER],
    header_have: usize,
    payload: Vec<u8>,
    have: usize,
}

/// What a side did.
enum ReadOutcome {
    Packet(u8),
    TooLong,
    End,
}

/// Carries a login through, from the server's greeting (its payload) on.
pub(crate) async fn log_in(
    client: Stream,
    server: Stream,
    greeting: &[u8],
    terms: Terms,
    means: &LoginContext<'_>,
) -> Result<CompletedLogin, FailedLogin> {
    let (bridge, shown) = Bridge::new(terms, greeting);
    let first = vec![Step::ToClient(shown)];
    carry(client, server, bridge, first, Turn::Client, means).await
}

/// Carries the login through that a `COM_CHANGE_USER` began: the server has it, whole, and is to answer.
pub(crate) async fn change_user(
    (client, server): (Stream, Stream),
    bridge: Bridge,
    means: &LoginContext<'_>,
) -> Result<CompletedLogin, FailedLogin> {
    carry(client, server, bridge, Vec::new(), Turn::Server, means).await
}

async fn carry(
    mut client: Stream,
    mut server: Stream,
    bridge: Bridge,
    mut steps: Vec<Step>,
    turn: Turn,
    means: &LoginContext<'_>,
) -> Result<CompletedLogin, FailedLogin> {
    let (from_client, from_server) = (Inbox::default(), Inbox::default());
    let mut exchange = Exchange {
        from_client,
        from_server,
        bridge,
        turn,
        next_to_client: 1,
        told_client_at: Instant::now(),
        client_spoke: turn == Turn::Server,
        server_heard: turn == Turn::Server,
    };
    loop {
        let going = exchange.go(&mut client, &mut server, steps, &means.keys);
        match timeout_at(means.until, going).await.unwrap_or_else(|_| Err(exchange.late())) {
            Ok(Stop::Done) => {
                return Ok(CompletedLogin { streams: (client, server), bridge: exchange.bridge });
            }
            Ok(Stop::AcceptTls(left)) => {
                steps = left;
                exchange.turn = Turn::Client;
                client = match accept_tls(client, means).await {
                    Ok(accepted) => accepted,
                    Err(why) => return Err(exchange.failed(None, Some(server), why)),
                };
                if let Some(Err(unproven)) = means.from_client.map(|from| from.judge(&client)) {
                    return Err(exchange.turn_away(client, server, unproven, means.until).await);
                }
            }
            Ok(Stop::BeginTls(left)) => {
                steps = left;
                match begin_tls(server, means).await {
                    Ok(begun) => server = begun,
                    Err(why) => return Err(exchange.failed(Some(client), None, why)),
                }
            }
            Err(why) => {
                if matches!(why, LoginError::Server(_)) {
                    exchange.take_due_packet(&mut client, means.until.min(Instant::now() + FAREWELL)).await;
                }
                return Err(exchange.failed(Some(client), Some(server), why));
            }
        }
    }
}

async fn accept_tls(client: Stream, means: &LoginContext<'_>) -> Result<Stream, LoginError> {
    let Some(from_client) = means.from_client else {
        return Err(LoginError::Refused(Refusal::BadHandshake {
            what: "a request for TLS, which is not served",
        }));
    };
    match timeout_at(means.until, from_client.accept(client)).await {
        Ok(accepted) => accepted.map_err(LoginError::ClientTls),
        Err(_) => Err(LoginError::ClientSlow { server_waited: None }),
    }
}

async fn begin_tls(server: Stream, means: &LoginContext<'_>) -> Result<Stream, LoginError> {
    let Some(to_server) = means.to_server else { return Err(LoginError::Refused(Refusal::BadServer)) };
    match timeout_at(means.until, to_server.connect(server, means.reach)).await {
        Ok(begun) => begun.map_err(LoginError::ServerTls),
        // The client may have left it no time.
        Err(_) => Err(LoginError::Unanswered),
    }
}

impl Exchange {
    /// Passes packets until the login is over or TLS is due.
    async fn go(
        &mut self,
        client: &mut Stream,
        server: &mut Stream,
        mut steps: Vec<Step>,
        keys: &LoginKeys<'_>,
    ) -> Result<Stop, LoginError> {
        loop {
            if let Some(stop) = self.take(client, server, steps, keys).await? {
                return Ok(stop);
            }
            steps = tokio::select! {
                biased;
                came = self.from_client.read(client) => match came {
                    Ok(ReadOutcome::Packet(sequence)) => {
                        self.note_packet_of_client(sequence);
                        self.bridge.client(sequence, &self.from_client.take(), keys)
                    }
                    Ok(ReadOutcome::TooLong) => {
                        let begins = self.from_client.header;
                        let proxy = begins == wire::proxy::SIGNATURE[..HEADER] || begins == *b"PROX";
                        let what = match proxy {
                            true => {
                                "a PROXY protocol header from an address that is not in proxy_protocol_from"
                            }
                            false => "a packet too long for a login",
                        };
                        return Err(LoginError::Refused(Refusal::BadHandshake { what }));
                    }
                    Ok(ReadOutcome::End) | Err(_) => return Err(LoginError::ClientLeft),
                },
                came = self.from_server.read(server) => match came {
                    Ok(ReadOutcome::Packet(sequence)) => {
                        self.bridge.server(sequence, &self.from_server.take(), keys)
                    }
                    Ok(ReadOutcome::TooLong) => return Err(LoginError::Refused(Refusal::BadServer)),
                    Ok(ReadOutcome::End) => return Err(self.server_closed()),
                    Err(error) => return Err(LoginError::Server(error.to_string())),
                },
            };
        }
    }

    /// Does what is due, up to a step that is not a packet.
    async fn take(
        &mut self,
        client: &mut Stream,
        server: &mut Stream,
        steps: Vec<Step>,
        keys: &LoginKeys<'_>,
    ) -> Result<Option<Stop>, LoginError> {
        let mut steps = steps.into_iter();
        while let Some(step) = steps.next() {
            match step {
                Step::ToClient(packet) => {
                    self.next_to_client = packet.get(3).map_or(0, |sequence| sequence.wrapping_add(1));
                    self.turn = turn_after(&packet);
                    self.told_client_at = Instant::now();
                    send(client, &packet).await.map_err(|_| LoginError::ClientLeft)?;
                }
                Step::ToServer(packet) => {
                    (self.turn, self.server_heard) = (Turn::Server, true);
                    send(server, &packet).await.map_err(|e| LoginError::Server(e.to_string()))?;
                }
                Step::AcceptTls => return Ok(Some(Stop::AcceptTls(steps.collect()))),
                Step::BeginTls => return Ok(Some(Stop::BeginTls(steps.collect()))),
                Step::Decrypt(sealed) => {
                    let mut next = self.bridge.decrypted(keys.own.decrypt(sealed).await);
                    next.extend(steps);
                    steps = next.into_iter();
                }
                Step::Open | Step::Opaque => return Ok(Some(Stop::Done)),
                Step::Denied => return Err(LoginError::Denied),
                Step::Refuse(refusal, sequence) => {
                    (self.next_to_client, self.turn) = (sequence, Turn::Server);
                    return Err(LoginError::Refused(refusal));
                }
            }
        }
        Ok(None)
    }

    /// A client whose certificate does not let it in. Its login is taken before it is told: what is said to
    /// somebody who is still sending is lost with the connection.
    async fn turn_away(
        &mut self,
        mut client: Stream,
        server: Stream,
        unproven: CertificateRejected,
        until: Instant,
    ) -> FailedLogin {
        self.take_due_packet(&mut client, until).await;
        self.failed(Some(client), Some(server), LoginError::CertificateRejected(unproven))
    }

    /// Takes the packet that is due, if it is the client's, and drops it: the client is in the middle of
    /// sending it, and reads no answer before.
    async fn take_due_packet(&mut self, client: &mut Stream, until: Instant) {
        if self.turn == Turn::Server {
            return;
        }
        if let Ok(Ok(ReadOutcome::Packet(sequence))) = timeout_at(until, self.from_client.read(client)).await
        {
            self.note_packet_of_client(sequence);
            drop(self.from_client.take());
        }
    }

    /// The client has sent a packet with this sequence id.
    fn note_packet_of_client(&mut self, sequence: u8) {
        self.next_to_client = sequence.wrapping_add(1);
        (self.client_spoke, self.turn) = (true, Turn::Server);
    }

    /// The sequence id of an error packet to the client now. A client whose packet is due reads nothing
    /// before it has sent it, and counts it: what it reads then must have the number after that one.
    fn error_sequence(&self) -> u8 {
        match self.turn {
            Turn::Client => self.next_to_client.wrapping_add(1),
            Turn::Server => self.next_to_client,
        }
    }

    fn late(&self) -> LoginError {
        match self.turn {
            Turn::Client => LoginError::ClientSlow { server_waited: None },
            Turn::Server => LoginError::Unanswered,
        }
    }

    /// The server has closed: because it failed, or because the client kept it waiting.
    fn server_closed(&self) -> LoginError {
        let waited = self.told_client_at.elapsed();
        match self.turn {
            Turn::Client if waited >= GIVES_UP => LoginError::ClientSlow { server_waited: Some(waited) },
            _ => LoginError::Server("closed during a login".to_owned()),
        }
    }

    fn failed(&self, client: Option<Stream>, server: Option<Stream>, why: LoginError) -> FailedLogin {
        let hears = !matches!(why, LoginError::Denied | LoginError::ClientLeft);
        let waits = !self.server_heard
            && !matches!(
                why,
                LoginError::Denied
                    | LoginError::Server(_)
                    | LoginError::Unanswered
                    | LoginError::ServerTls(_)
                    | LoginError::ClientSlow { server_waited: Some(_) }
            );
        FailedLogin {
            client: client.filter(|_| hears).map(|client| (Box::new(client), self.error_sequence())),
            unused: server.filter(|_| waits).map(Box::new),
            silent: !self.client_spoke,
            why,
        }
    }
}

/// Whose packet is due after this one of the server's: the client's, but for the news of
/// `caching_sha2_password` that the proof was right, after which the server's OK follows.
fn turn_after(packet: &[u8]) -> Turn {
    match packet.get(HEADER..) {
        Some([1, 3]) => Turn::Server,
        _ => Turn::Client,
    }
}

async fn send(to: &mut Stream, packet: &[u8]) -> io::Result<()> {
    to.write_all(packet).await?;
    to.flush().await
}

impl Inbox {
    /// Reads on until the packet is whole. Loses nothing when dropped half-way.
    async fn read(&mut self, from: &mut Stream) -> io::Result<ReadOutcome> {
        while self.header_have < HEADER {
            match from.read(&mut self.header[self.header_have..]).await? {
                0 => return Ok(ReadOutcome::End),
                read => self.header_have += read,
            }
        }
        let header = Header::parse(self.header);
        let length = header.length as usize;
        if length > LONGEST {
            return Ok(ReadOutcome::TooLong);
        }
        while self.have < length {
            // Memory for what has come, not for what was announced.
            self.payload.resize(length.min(self.have + GROWTH), 0);
            match from.read(&mut self.payload[self.have..]).await? {
                0 => return Ok(ReadOutcome::End),
                read => self.have += read,
            }
        }
        self.payload.truncate(length);
        Ok(ReadOutcome::Packet(header.sequence))
    }

    /// The packet that was read; the next one begins. It may hold a password: it wipes itself.
    fn take(&mut self) -> wire::bridge::Secret {
        (self.header_have, self.have) = (0, 0);
        wire::bridge::Secret::new(std::mem::take(&mut self.payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_packet_of_the_server_the_client_speaks_unless_its_proof_was_found_right() {
        let after = |payload: &[u8]| turn_after(&[&[1, 0, 0, 2], payload].concat());
        let greeting = b"\x0a8.4.3\0";
        let (switch, full, fast): (&[u8], &[u8], &[u8]) = (b"\xfesha\0nonce", b"\x01\x04", b"\x01\x03");
        assert!([greeting, switch, full].into_iter().all(|packet| after(packet) == Turn::Client));
        assert!(after(fast) == Turn::Server);
    }
}
