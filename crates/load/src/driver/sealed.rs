//! TLS of one connection, without sockets: plain bytes in and sealed ones out, and the other way round.

use crate::target::Secrecy;
use fleet::Address;
use rustls::ClientConnection;
use std::io::{Read, Write};

/// TLS that has begun.
#[derive(Debug)]
pub(crate) struct Sealed {
    tls: ClientConnection,
    /// Ready for the socket.
    out: Vec<u8>,
    /// Used again for what was opened.
    plain: Vec<u8>,
}

impl Sealed {
    /// Begins it with a server; `before` goes out in the clear first.
    pub(crate) fn begin(
        secrecy: Option<&Secrecy>,
        address: &Address,
        before: Vec<u8>,
    ) -> Result<Self, String> {
        let config = secrecy.ok_or("TLS was not asked for")?.config.clone();
        let name = tls::name_of(address).map_err(|error| error.to_string())?;
        let tls = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
        Ok(Self { tls, out: before, plain: Vec::new() })
    }

    /// Seals what is to be sent, and whatever TLS itself has to say. Before the handshake is over, it keeps it.
    pub(crate) fn seal(&mut self, plain: &[u8]) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        self.tls.writer().write_all(plain).map_err(failed)?;
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.out).map_err(failed)?;
        }
        Ok(())
    }

    /// What is ready for the socket.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Opens what came; give the result back when it was looked at.
    pub(crate) fn open(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut plain = std::mem::take(&mut self.plain);
        while !bytes.is_empty() {
            self.tls.read_tls(&mut bytes).map_err(|error| error.to_string())?;
            let state = self.tls.process_new_packets().map_err(|error| error.to_string())?;
            let before = plain.len();
            plain.resize(before + state.plaintext_bytes_to_read(), 0);
            self.tls.reader().read_exact(&mut plain[before..]).map_err(|error| error.to_string())?;
        }
        Ok(plain)
    }

    /// Takes back what [`Sealed::open`] gave, to be used again.
    pub(crate) fn give_back(&mut self, plain: Vec<u8>) {
        self.plain = plain;
    }
}
