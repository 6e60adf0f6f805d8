//! TLS of one connection, without sockets: plain bytes in and encrypted ones out, and the other way round.

use crate::target::TlsClient;
use fleet::Address;
use rustls::ClientConnection;
use std::io::{self, Read, Write};

/// TLS that has begun.
#[derive(Debug)]
pub(crate) struct TlsChannel {
    tls: ClientConnection,
    /// Ready for the socket.
    out: Vec<u8>,
    /// Used again for what was decrypted.
    plain: Vec<u8>,
}

/// Why TLS could not be begun, or broke.
#[derive(Debug, thiserror::Error)]
pub enum TlsChannelError {
    /// The server begins it although this side does not want it.
    #[error("TLS was not asked for")]
    NotAskedFor,
    /// The address has no name that a certificate could hold.
    #[error(transparent)]
    Name(tls::TlsError),
    /// The handshake failed, or what came cannot be decrypted.
    #[error(transparent)]
    Protocol(#[from] rustls::Error),
    /// What came ends too early, or there is too much of it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl TlsChannel {
    /// Begins it with a server; `before` goes out in the clear first.
    pub(crate) fn begin(
        client: Option<&TlsClient>,
        address: &Address,
        before: Vec<u8>,
    ) -> Result<Self, TlsChannelError> {
        Ok(Self { tls: begin(client, address)?, out: before, plain: Vec::new() })
    }

    /// Encrypts what is to be sent, and whatever TLS itself has to say. Before the handshake is over, it
    /// keeps it.
    pub(crate) fn encrypt(&mut self, plain: &[u8]) -> Result<(), TlsChannelError> {
        self.tls.writer().write_all(plain)?;
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.out)?;
        }
        Ok(())
    }

    /// What is ready for the socket.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Decrypts what came; give the result back when it was looked at.
    pub(crate) fn decrypt(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, TlsChannelError> {
        let mut plain = std::mem::take(&mut self.plain);
        while !bytes.is_empty() {
            self.tls.read_tls(&mut bytes)?;
            let state = self.tls.process_new_packets()?;
            let before = plain.len();
            plain.resize(before + state.plaintext_bytes_to_read(), 0);
            self.tls.reader().read_exact(&mut plain[before..])?;
        }
        Ok(plain)
    }

    /// Takes back what [`TlsChannel::decrypt`] gave, to be used again.
    pub(crate) fn give_back(&mut self, plain: Vec<u8>) {
        self.plain = plain;
    }
}

/// The client's side of TLS with a server.
pub(crate) fn begin(
    client: Option<&TlsClient>,
    address: &Address,
) -> Result<ClientConnection, TlsChannelError> {
    let config = client.ok_or(TlsChannelError::NotAskedFor)?.config.clone();
    let name = tls::name_of(address).map_err(TlsChannelError::Name)?;
    Ok(ClientConnection::new(config, name)?)
}
