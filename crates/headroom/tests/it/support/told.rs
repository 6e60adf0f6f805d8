//! What a router that runs says of itself: its admin address, asked until something is so, and its log.

use lab::{Account, Lab};
use mysql_async::{Conn, OptsBuilder};
use serde_json::Value;
use std::io::{Error, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Where a router answers questions and where it logs, whichever process it is.
pub(crate) struct Told {
    pub(crate) admin: SocketAddr,
    pub(crate) log: PathBuf,
}

impl Told {
    pub(crate) fn try_get(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.admin, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.admin)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        body.ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))
    }

    /// A command to an address that takes none: refused, whatever it brings.
    pub(crate) fn post(&self, path: &str, body: &str) {
        let mut stream = TcpStream::connect_timeout(&self.admin, LIMIT).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nX-Headroom: cli\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.admin,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404") || answer.starts_with("HTTP/1.1 405"), "{path}: {answer}");
    }

    pub(crate) fn get(&self, path: &str) -> String {
        self.try_get(path).unwrap_or_else(|error| panic!("{path}: {error}\n{}", self.words()))
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.get("/status.json")).unwrap()
    }

    /// The first status for which this is so.
    pub(crate) async fn wait_for(&self, what: &str, so: impl Fn(&Value) -> bool) -> Value {
        self.wait_until(what, "/status.json", so).await
    }

    /// The first answer for which this is so.
    pub(crate) async fn wait_until(&self, what: &str, path: &str, so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let status = self.try_get(path).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
            if let Some(status) = status.as_ref().filter(|status| so(status)) {
                return status.clone();
            }
            assert!(Instant::now() < deadline, "never: {what}: {status:?}\n{}", self.words());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until a router has ended, and says how.
    pub(crate) async fn ended(&self, child: &mut Child) -> ExitStatus {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "still there\n{}", self.words());
            tokio::time::sleep(POLL).await;
        }
    }

    pub(crate) fn words(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// The `routing` of one server in a status.
pub(crate) fn routing(status: &Value, server: &str) -> Value {
    let servers = status["servers"].as_array();
    let found = servers.and_then(|servers| servers.iter().find(|s| s["name"] == server));
    found.map_or(Value::Null, |server| server["routing"].clone())
}

/// How the lab's application connects to this address, over TCP.
pub(crate) fn options(lab: &Lab, ip: impl Into<IpAddr>, port: u16) -> OptsBuilder {
    OptsBuilder::default()
        .ip_or_hostname(ip.into().to_string())
        .tcp_port(port)
        .user(Some(Account::App.user()))
        .pass(Some(lab.password(Account::App)))
        .prefer_socket(false)
}

/// The address of the server that a session has arrived at.
pub(crate) async fn server_of(session: &mut Conn) -> String {
    use mysql_async::prelude::Queryable;
    session.query_first("SELECT @@bind_address").await.unwrap().unwrap()
}
