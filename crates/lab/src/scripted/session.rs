//! One connection to a scripted server: opening, login, statements.

use super::{Opening, Reply, Script, Session, usual};
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::response::{OkPacket, TextResult};
use wire::{Capabilities, Command, ErrPacket, Greeting, Login, Status, auth, packet};

/// No statement of a test is longer.
const LONGEST: usize = 1 << 20;
/// Every nonce is the same: a script keeps no secrets, and tests repeat.
const NONCE: &[u8; 20] = b"scripted-nonce-00000";

/// A connection with what was read and not yet used.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Plays the script until the client leaves or the script says so.
    pub(super) async fn serve(
        mut self,
        script: &Script,
        opening: &Opening,
        peer: SocketAddr,
        number: u32,
    ) -> io::Result<()> {
        match opening {
            Opening::Greet | Opening::CloseAtLogin | Opening::HangAtLogin => {}
            Opening::GreetAfter(time) => tokio::time::sleep(*time).await,
            Opening::Close => return Ok(()),
            Opening::Hang => return pending().await,
            Opening::Garbage(bytes) => {
                self.stream.write_all(bytes).await?;
                return pending().await;
            }
            Opening::Refuse { code, message } => {
                let refusal = ErrPacket::new(*code, b"08004", message.as_str());
                return self.stream.write_all(&refusal.before_greeting()).await;
            }
        }
        self.greet(script, number).await?;
        let (sequence, login) = self.read().await?;
        match opening {
            Opening::CloseAtLogin => return Ok(()),
            Opening::HangAtLogin => return pending().await,
            _ => {}
        }
        let Some((session, capabilities)) = self.log_in(script, sequence, &login, peer, number).await? else {
            return Ok(());
        };
        self.answer_all(script, session, capabilities).await
    }

    async fn greet(&mut self, script: &Script, number: u32) -> io::Result<()> {
        let greeting = Greeting {
            version: script.version.clone(),
            connection_id: number,
            nonce: NONCE.to_vec(),
            capabilities: Capabilities::ORDINARY.union(Capabilities::DEPRECATE_EOF),
            charset: 45,
            status: Status::AUTOCOMMIT,
            auth_plugin: auth::NATIVE_PASSWORD.to_owned(),
        };
        self.write(&mut 0, &greeting.encode()).await
    }

    /// `None` when the client was refused.
    async fn log_in(
        &mut self,
        script: &Script,
        mut sequence: u8,
        payload: &[u8],
        peer: SocketAddr,
        number: u32,
    ) -> io::Result<Option<(Session, Capabilities)>> {
        let login = Login::parse(payload).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        let mut proof = login.auth_response.to_vec();
        if !login.auth_plugin.is_empty() && login.auth_plugin != auth::NATIVE_PASSWORD.as_bytes() {
            proof = self.switch_plugin(&mut sequence).await?;
        }
        let user = String::from_utf8_lossy(login.user).into_owned();
        let let_in = script.login.as_ref().is_none_or(|(name, password)| {
            *name == user && auth::native_password_matches(password.as_bytes(), NONCE, &proof)
        });
        let mut next = sequence.wrapping_add(1);
        // What is not offered is not agreed, whatever the client says.
        let capabilities = agreed(login.capabilities);
        if !let_in {
            let text = format!("Access denied for user '{user}'@'{}' (using password: YES)", peer.ip());
            let error = ErrPacket::new(1045, b"28000", text);
            self.write(&mut next, &error.encode(capabilities)).await?;
            return Ok(None);
        }
        self.write(&mut next, &ok().encode(capabilities)).await?;
        let database = String::from_utf8_lossy(login.database).into_owned();
        Ok(Some((Session { connection_id: number, user, database, peer, statements: 0 }, capabilities)))
    }

    /// Asks the client to prove its password in the one way we know.
    async fn switch_plugin(&mut self, sequence: &mut u8) -> io::Result<Vec<u8>> {
        let mut payload = vec![0xfe];
        wire::write::with_nul(&mut payload, auth::NATIVE_PASSWORD.as_bytes());
        wire::write::with_nul(&mut payload, NONCE);
        let mut next = sequence.wrapping_add(1);
        self.write(&mut next, &payload).await?;
        let (answered, proof) = self.read().await?;
        *sequence = answered;
        Ok(proof)
    }

    async fn answer_all(
        &mut self,
        script: &Script,
        mut session: Session,
        capabilities: Capabilities,
    ) -> io::Result<()> {
        loop {
            let (sequence, payload) = self.read().await?;
            let mut next = sequence.wrapping_add(1);
            let Some((first, rest)) = payload.split_first() else { return Ok(()) };
            let reply = match Command::from_byte(*first) {
                Command::Quit => return Ok(()),
                Command::Query => {
                    let statement = String::from_utf8_lossy(rest);
                    let reply = (script.answer)(&statement, &session);
                    session.statements += 1;
                    usual::instead_of_usual(reply, &statement, &script.version)
                }
                Command::InitDb => {
                    session.database = String::from_utf8_lossy(rest).into_owned();
                    Reply::Ok
                }
                Command::Ping | Command::ResetConnection | Command::SetOption => Reply::Ok,
                other => Reply::Err {
                    code: 1047,
                    sqlstate: *b"08S01",
                    message: format!("{} is not in the script: it speaks text statements only", other.name()),
                },
            };
            if !self.reply(reply, &mut next, capabilities).await? {
                return Ok(());
            }
        }
    }

    /// `false` when the script closes.
    async fn reply(
        &mut self,
        mut reply: Reply,
        sequence: &mut u8,
        capabilities: Capabilities,
    ) -> io::Result<bool> {
        while let Reply::Delay(time, then) = reply {
            tokio::time::sleep(time).await;
            reply = *then;
        }
        match reply {
            Reply::Rows { columns, rows } => {
                let names: Vec<&str> = columns.iter().map(String::as_str).collect();
                let bytes =
                    |row: Vec<Option<String>>| row.into_iter().map(|v| v.map(String::into_bytes)).collect();
                let rows = rows.into_iter().map(bytes).collect();
                let mut out = Vec::new();
                TextResult { rows, ..TextResult::of(&names) }.write(&mut out, sequence, capabilities);
                self.stream.write_all(&out).await?;
            }
            Reply::Ok | Reply::Usual | Reply::Delay(..) => {
                self.write(sequence, &ok().encode(capabilities)).await?;
            }
            Reply::Err { code, sqlstate, message } => {
                let error = ErrPacket::new(code, &sqlstate, message);
                self.write(sequence, &error.encode(capabilities)).await?;
            }
            Reply::Hang => return pending().await,
            Reply::Close => return Ok(false),
        }
        Ok(true)
    }

    async fn write(&mut self, sequence: &mut u8, payload: &[u8]) -> io::Result<()> {
        let mut out = Vec::new();
        packet::write(&mut out, sequence, payload);
        self.stream.write_all(&out).await
    }

    /// The next packet: its sequence number and payload.
    async fn read(&mut self) -> io::Result<(u8, Vec<u8>)> {
        loop {
            if let Some(found) = packet::first(&self.buffer) {
                let (sequence, payload, used) = (found.sequence, found.payload.to_vec(), found.used);
                self.buffer.drain(..used);
                return Ok((sequence, payload));
            }
            if self.buffer.len() > LONGEST {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a packet longer than any test sends",
                ));
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn ok() -> OkPacket<'static> {
    OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::default() }
}

fn agreed(client: Capabilities) -> Capabilities {
    let offered = Capabilities::ORDINARY.union(Capabilities::DEPRECATE_EOF);
    Capabilities::from_bits_retain(client.bits() & offered.bits())
}
