//! Abandon: a server's connection that is not needed after all, because its client left or was refused before
//! the server was sent anything.
//!
//! A server that is left in the middle of a handshake counts that against this host, and blocks the host
//! after `max_connect_errors` in a row (100 by default; error 1129 until `FLUSH HOSTS`). Health checks that
//! connect and close would lead there in minutes. A login that is refused does not count. So the handshake is
//! carried to its end, in the name of an account that no server has: the server says no, or lets its
//! anonymous account in, and both sides have parted in order. HAProxy's `mysql-check user` does the same.
//!
//! The client never waits for this. The session's place among the listener's does, for a round trip, a second
//! at most.

use crate::stream::Stream;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::packet::{self, HEADER, Header};
use wire::{Capabilities, Command, Greeting, Login};

/// The account. Servers that log refused logins show it.
const NOBODY: &str = "headroom_client_left";
/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest packet that is listened to.
const LONGEST: usize = 4096;
/// A server that asks more often than this is left.
const ROUNDS: u8 = 4;

/// What to do about a packet of the server.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    /// It has refused.
    Over,
    /// It has let us in: say goodbye.
    Quit,
    /// It wants to know more: this, which proves nothing.
    Nothing,
}

/// Ends the handshake that this greeting (payload) began. `false` when the server will count it as broken
/// off.
pub(crate) async fn abandon(mut server: Stream, greeting: &[u8]) -> bool {
    let Ok(greeting) = Greeting::parse(greeting) else { return false };
    let parting = async {
        send(&mut server, 1, &login(&greeting)).await?;
        for _ in 0..ROUNDS {
            let (sequence, payload) = read(&mut server).await?;
            match reply(&payload) {
                Reply::Over => return Ok(true),
                Reply::Quit => return send(&mut server, 0, &[Command::Quit.byte()]).await.map(|()| true),
                Reply::Nothing => send(&mut server, sequence.wrapping_add(1), b"").await?,
            }
        }
        io::Result::Ok(false)
    };
    matches!(tokio::time::timeout(PATIENCE, parting).await, Ok(Ok(true)))
}

fn login(greeting: &Greeting) -> Vec<u8> {
    let wanted = [Capabilities::PROTOCOL_41, Capabilities::SECURE_CONNECTION, Capabilities::PLUGIN_AUTH];
    let capabilities = wanted
        .into_iter()
        .filter(|one| greeting.capabilities.contains(*one))
        .fold(Capabilities::PROTOCOL_41, |all, one| all | one);
    Login {
        capabilities,
        max_packet: 1 << 24,
        charset: greeting.charset,
        user: NOBODY.as_bytes(),
        auth_plugin: greeting.auth_plugin.as_bytes(),
        ..Login::default()
    }
    .encode()
}

fn reply(payload: &[u8]) -> Reply {
    match payload.first() {
        Some(0) => Reply::Quit,
        Some(0xff) | None => Reply::Over,
        Some(_) => Reply::Nothing,
    }
}

async fn send(server: &mut Stream, mut sequence: u8, payload: &[u8]) -> io::Result<()> {
    let mut out = Vec::new();
    packet::write(&mut out, &mut sequence, payload);
    server.write_all(&out).await?;
    server.flush().await
}

async fn read(server: &mut Stream) -> io::Result<(u8, Vec<u8>)> {
    let mut header = [0; HEADER];
    server.read_exact(&mut header).await?;
    let header = Header::parse(header);
    let length = header.length as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut payload = vec![0; length];
    server.read_exact(&mut payload).await?;
    Ok((header.sequence, payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{ErrPacket, Status};

    fn greeting() -> Greeting {
        Greeting {
            version: "9.7.4".to_owned(),
            connection_id: 1,
            nonce: vec![b'n'; 20],
            capabilities: Capabilities::ORDINARY,
            charset: 45,
            status: Status::AUTOCOMMIT,
            auth_plugin: "caching_sha2_password".to_owned(),
        }
    }

    /// Plays the server: these payloads in turn, each after one of the client's.
    async fn plays(answers: &'static [&'static [u8]]) -> (bool, Vec<Vec<u8>>) {
        let (near, far) = tokio::net::UnixStream::pair().unwrap();
        let mut server = Stream::Unix(far);
        let playing = async move {
            let mut heard = Vec::new();
            for answer in answers {
                let (sequence, payload) = read(&mut server).await.unwrap();
                heard.push(payload);
                send(&mut server, sequence.wrapping_add(1), answer).await.unwrap();
            }
            while let Ok((_, payload)) = read(&mut server).await {
                heard.push(payload);
            }
            heard
        };
        let greeting = greeting().encode();
        tokio::join!(abandon(Stream::Unix(near), &greeting), playing)
    }

    #[tokio::test]
    async fn a_server_is_answered_until_it_says_no() {
        let (in_order, heard) =
            plays(&[b"\xfecaching_sha2_password\0nonce-of-twenty-bytes", b"\xff\x15\x04#28000no"]).await;
        assert!(in_order);
        let login = Login::parse(&heard[0]).unwrap();
        assert_eq!((login.user, login.auth_response), (NOBODY.as_bytes(), &b""[..]));
        assert_eq!(heard[1..], [b"".to_vec()], "the switch is answered, with no proof");
    }

    #[tokio::test]
    async fn a_server_that_lets_us_in_is_told_goodbye() {
        let (in_order, heard) = plays(&[b"\0\0\0\x02\0\0\0"]).await;
        assert!(in_order);
        assert_eq!(heard[1..], [vec![Command::Quit.byte()]]);
    }

    #[tokio::test]
    async fn a_server_that_asks_for_ever_is_left() {
        let (in_order, heard) = plays(&[b"\x01\x04", b"\x01\x04", b"\x01\x04", b"\x01\x04"]).await;
        assert!(!in_order && heard.len() == 5, "{heard:?}");
        assert_eq!(reply(&ErrPacket::new(1045, b"28000", "no").before_greeting()[HEADER..]), Reply::Over);
    }
}
