//! A control connection to one server: opened once, kept open, every question with a deadline.
//!
//! A host name is resolved by us, so that we know which address we talk to and notice when the name moves.
//! The plain text protocol is used throughout: no statement is prepared, nothing is written.

mod error;
mod transport;

use crate::dialect::{self, Dialect};
use crate::discovery_scope::DiscoveryScope;
use crate::rows::Rows;
use config::{Credentials, TlsMode};
use error::{MOST_BYTES, MOST_ROWS};
use fleet::{Address, Version, VersionError};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error as DriverFailure, IoError, OptsBuilder};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use transport::Transport;

pub use error::AskError;

pub struct ControlConnection {
    conn: Conn,
    /// What carries it, where TLS is wanted.
    transport: Option<Transport>,
    /// The address that the host name led to; `None` on a unix socket.
    pub(crate) peer: Option<IpAddr>,
    /// How the server sees us: the source address of our packets.
    pub(crate) local: Option<IpAddr>,
    /// Set when TLS was preferred and the server offered none.
    pub(crate) plain_because: Option<String>,
    /// Where the host name led; nowhere for a unix socket.
    pub(crate) addresses: Vec<IpAddr>,
}

/// Who answers on a connection.
#[derive(Clone, Debug)]
pub struct Recognized {
    /// The statements it understands.
    pub dialect: Dialect,
    /// Its flavour and version, as people write them.
    pub(crate) product: String,
    /// The account that the connection got.
    pub(crate) account: String,
    /// Its version in its own words.
    pub(crate) version: String,
}

impl From<DriverFailure> for AskError {
    fn from(error: DriverFailure) -> Self {
        failure(error)
    }
}

impl ControlConnection {
    /// Connects and authenticates within `deadline`.
    ///
    /// # Errors
    /// The server cannot be reached, refuses the account, or offers no TLS where it is asked for.
    pub async fn open(to: &Address, who: &Credentials, deadline: Duration) -> Result<Self, AskError> {
        Self::open_inside(to, who, deadline, None, &[]).await
    }

    /// The same; with `inside`, only if every address that the name leads to lies there. `known` is where it
    /// led before, for when the resolver is out.
    pub(crate) async fn open_inside(
        to: &Address,
        who: &Credentials,
        deadline: Duration,
        inside: Option<&DiscoveryScope>,
        known: &[IpAddr],
    ) -> Result<Self, AskError> {
        let what = || format!("the connection attempt to {to}");
        within(deadline, what, Self::open_unbounded(to, who, deadline, inside, known)).await
    }

    async fn open_unbounded(
        to: &Address,
        who: &Credentials,
        deadline: Duration,
        inside: Option<&DiscoveryScope>,
        known: &[IpAddr],
    ) -> Result<Self, AskError> {
        let addresses = resolve_or_known(to, known, deadline / 2).await?;
        if let Some(inside) = inside
            && let Some(ip) = addresses.iter().find(|ip| !inside.contains(**ip))
        {
            let host = to.host().unwrap_or_default().to_owned();
            return Err(AskError::Outside { host, ip: *ip, within: inside.to_string() });
        }
        let secure = who.tls.mode != TlsMode::Disabled && !matches!(to, Address::Unix(_));
        let mut transport = match secure {
            true => Some(Transport::open(to, &addresses, &who.tls, deadline).await?),
            false => None,
        };
        let conn = Conn::new(options(to, &addresses, who, transport.as_ref())).await;
        let conn =
            conn.map_err(|e| transport.as_mut().and_then(Transport::failure).unwrap_or_else(|| failure(e)))?;
        let plain = transport.as_ref().is_some_and(|transport| transport.plain);
        let plain_because = plain.then(|| "the server offers no TLS".to_owned());
        // Without TLS the driver connects, and does not say to which.
        let peer = transport.as_ref().and_then(|transport| transport.peer).or(addresses.first().copied());
        let local = peer.and_then(local_address_towards);
        Ok(Self { conn, transport, peer, local, plain_because, addresses })
    }

    /// Asks who answers: what else may be asked depends on it.
    ///
    /// # Errors
    /// No answer in time, none that makes sense, or the connection broke.
    pub async fn recognize(&mut self, deadline: Duration) -> Result<Recognized, AskError> {
        let nonsense = |why: String| AskError::Broken { why };
        let rows = self.ask(dialect::VERSION, deadline).await?;
        let row = rows.first().ok_or_else(|| nonsense("it told no version".to_owned()))?;
        let text = row.text(&["version"]).unwrap_or_default().to_owned();
        let version: Version = text.parse().map_err(|error: VersionError| nonsense(error.to_string()))?;
        let account = row.text(&["account"]).unwrap_or_default().to_owned();
        let mut dialect = Dialect { version, aurora: false };
        let mut product = version.to_string();
        if !dialect.is_mariadb() {
            let rows = self.ask(dialect::AURORA_VERSION, deadline).await?;
            if let Some(aurora) = rows.first().and_then(|row| row.filled(&["value"])) {
                dialect.aurora = true;
                product = format!("{product} (Aurora {aurora})");
            }
        }
        Ok(Recognized { dialect, product, account, version: text })
    }

    /// Its number in the server's list of sessions.
    pub fn session_id(&self) -> u64 {
        u64::from(self.conn.id())
    }

    /// Asks one statement, which must not write.
    ///
    /// # Errors
    /// No answer in time, one longer than any honest one, an error of the server, or the connection broke.
    pub async fn ask(&mut self, statement: &str, deadline: Duration) -> Result<Rows, AskError> {
        let what = || statement.chars().take(60).collect::<String>();
        within(deadline, what, async {
            let mut result = self.conn.query_iter(statement).await.map_err(failure)?;
            let columns: Vec<String> =
                result.columns_ref().iter().map(|c| c.name_str().into_owned()).collect();
            let (mut rows, mut size) = (Vec::new(), 0);
            while let Some(row) = result.next().await.map_err(failure)? {
                let row = texts(row);
                size += row.iter().flatten().map(String::len).sum::<usize>();
                rows.push(row);
                if rows.len() > MOST_ROWS || size > MOST_BYTES {
                    return Err(AskError::TooLong { what: what() });
                }
            }
            Ok(Rows::new(columns, rows))
        })
        .await
    }

    /// Says goodbye.
    pub(crate) async fn close(self) {
        // A server that has closed by now hears nothing.
        let _ = self.conn.disconnect().await;
        if let Some(transport) = self.transport {
            transport.finish().await;
        }
    }

    /// The address that the server is reached at; `None` on a unix socket.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// Whether the server runs on the machine that asks: our packets to it leave from its own address, or
    /// from loopback.
    pub fn is_on_this_host(&self) -> bool {
        match (self.peer, self.local) {
            (Some(peer), local) => peer.is_loopback() || Some(peer) == local,
            (None, _) => true,
        }
    }

    /// One round trip, timed: the server answers it without looking at any table.
    ///
    /// # Errors
    /// No answer in time, or the connection broke.
    pub async fn ping(&mut self, deadline: Duration) -> Result<Duration, AskError> {
        let start = Instant::now();
        within(deadline, || "a ping".to_owned(), async { self.conn.ping().await.map_err(failure) }).await?;
        Ok(start.elapsed())
    }
}

/// A control connection for a crate that may do more than read: opened, with TLS and a login, as every other
/// one.
///
/// # Errors
/// The server cannot be reached within `deadline`, refuses the account, or offers no TLS where it is asked
/// for.
pub async fn connect(to: &Address, who: &Credentials, deadline: Duration) -> Result<Conn, AskError> {
    Ok(ControlConnection::open(to, who, deadline).await?.conn)
}

/// The addresses a host name leads to now, none for a unix socket.
pub(crate) async fn resolve(to: &Address) -> Result<Vec<IpAddr>, AskError> {
    let Address::Tcp { host, port } = to else { return Ok(Vec::new()) };
    if let Ok(ip) = host.parse() {
        return Ok(vec![ip]);
    }
    let unresolved = |why: String| AskError::Unresolved { host: host.clone(), why };
    let found =
        tokio::net::lookup_host((host.as_str(), *port)).await.map_err(|e| unresolved(e.to_string()))?;
    let addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    if addresses.is_empty() { Err(unresolved("it has no address".to_owned())) } else { Ok(addresses) }
}

/// The same, or where it led before (`known`) if the resolver fails or does not answer within `patience`: a
/// server is not down because its name cannot be looked up.
async fn resolve_or_known(
    to: &Address,
    known: &[IpAddr],
    patience: Duration,
) -> Result<Vec<IpAddr>, AskError> {
    if known.is_empty() {
        return resolve(to).await;
    }
    match tokio::time::timeout(patience, resolve(to)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(_)) | Err(_) => Ok(known.to_vec()),
    }
}

/// The source address the system would use towards `peer`. Connecting a datagram socket sends nothing.
fn local_address_towards(peer: IpAddr) -> Option<IpAddr> {
    let any: SocketAddr = if peer.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect((peer, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

fn options(
    to: &Address,
    addresses: &[IpAddr],
    who: &Credentials,
    transport: Option<&Transport>,
) -> OptsBuilder {
    // Both limits are stated so that the driver does not ask the server for them.
    let options = OptsBuilder::default()
        .user(who.user.clone())
        .pass(who.password.clone())
        .prefer_socket(false)
        .max_allowed_packet(Some(16 << 20))
        .wait_timeout(Some(28_800))
        .stmt_cache_size(0)
        .secure_auth(true)
        .connect_attribute("program_name", "headroom");
    if let Some(transport) = transport {
        return options.socket(Some(transport.socket.clone()));
    }
    match to {
        Address::Unix(path) => options.socket(Some(path.to_string_lossy())),
        Address::Tcp { host, port } => {
            options.ip_or_hostname(host.clone()).tcp_port(*port).resolved_ips(Some(addresses.to_vec()))
        }
    }
}

async fn within<T>(
    deadline: Duration,
    what: impl FnOnce() -> String,
    question: impl Future<Output = Result<T, AskError>>,
) -> Result<T, AskError> {
    match tokio::time::timeout(deadline, question).await {
        Ok(answer) => answer,
        Err(_) => Err(AskError::Silent { what: what(), deadline }),
    }
}

fn failure(error: DriverFailure) -> AskError {
    match error {
        DriverFailure::Server(e) => AskError::Answered { code: e.code, state: e.state, message: e.message },
        // The driver speaks through a socket pair here: what it calls a broken pipe is a connection that the
        // server ended.
        DriverFailure::Io(IoError::Io(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => {
            AskError::Broken { why: "the server closed the connection".to_owned() }
        }
        DriverFailure::Io(IoError::Io(e)) => AskError::Broken { why: e.to_string() },
        DriverFailure::Io(IoError::Tls(e)) => AskError::Broken { why: format!("TLS: {e}") },
        DriverFailure::Driver(e) => AskError::Broken { why: e.to_string() },
        other => AskError::Broken { why: other.to_string() },
    }
}

fn texts(row: mysql_async::Row) -> Vec<Option<String>> {
    use mysql_async::Value;
    row.unwrap()
        .into_iter()
        .map(|value| match value {
            Value::NULL => None,
            Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            other => Some(other.as_sql(true)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn where_the_resolver_knows_nothing_a_server_is_asked_where_its_name_led_before() {
        let (known, patience) = ([IpAddr::from([10, 0, 0, 1])], Duration::from_secs(2));
        let led = async |host: &str| resolve_or_known(&Address::tcp(host, 3306), &known, patience).await;
        // Nobody has a name in this domain.
        assert_eq!(led("db1.invalid").await, Ok(known.to_vec()));
        assert_eq!(led("127.0.0.1").await, Ok(vec![IpAddr::from([127, 0, 0, 1])]));
    }
}
