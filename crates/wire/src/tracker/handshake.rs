//! Greeting, login and proofs: up to the OK packet that opens the session.

use super::names::{Identity, name};
use super::session::{Session, Stage};
use super::{ClosedBecause, LostBecause, OpaqueBecause, Side};
use crate::capability::Capabilities;
use crate::error::WireError;
use crate::greeting::{Flavour, Greeting};
use crate::login::{Login, opening};
use crate::packet::Head;
use crate::response::{OkPacket, error_code};

impl Session {
    pub(super) fn greeting(&mut self, head: Head<'_>) {
        if let Some(code) = error_code(head.prefix) {
            return self.stop(Stage::Closing(ClosedBecause::Refused(code)));
        }
        match Greeting::parse(head.prefix) {
            Ok(greeting) => {
                self.offered = greeting.capabilities;
                self.status = greeting.status;
                self.mariadb = greeting.flavour() == Flavour::MariaDb;
                self.next_sequence = head.sequence.wrapping_add(1);
                self.stage = Stage::Login;
            }
            Err(WireError::TooOld) => self.stop(Stage::Opaque(OpaqueBecause::OldProtocol)),
            Err(_) => self.lose(LostBecause::Malformed { packet: "greeting" }),
        }
    }

    pub(super) fn login(&mut self, head: Head<'_>) {
        if !self.in_sequence(Side::Client, head) {
            return;
        }
        match opening(head.prefix) {
            None => return self.stop(Stage::Opaque(OpaqueBecause::OldProtocol)),
            Some((_, true)) => return self.stop(Stage::Opaque(OpaqueBecause::Tls)),
            Some((_, false)) => {}
        }
        let Ok(login) = Login::parse(head.prefix) else {
            return self.lose(LostBecause::Malformed { packet: "login" });
        };
        self.capabilities = login.capabilities & self.offered;
        self.identity = Identity { user: name(login.user), database: name(login.database) };
        self.stage = Stage::Proofs;
    }

    /// A packet of either side while proofs are exchanged: only the server's OK and ERR mean something to us.
    pub(super) fn proof_from_client(&mut self, head: Head<'_>) {
        self.in_sequence(Side::Client, head);
    }

    pub(super) fn proof_from_server(&mut self, head: Head<'_>) {
        if let Some(code) = error_code(head.prefix) {
            return self.stop(Stage::Closing(ClosedBecause::Refused(code)));
        }
        if !self.in_sequence(Side::Server, head) || head.prefix.first() != Some(&0) {
            return;
        }
        let Ok(ok) = OkPacket::parse(head.prefix, self.capabilities) else {
            return self.lose(LostBecause::Malformed { packet: "OK" });
        };
        self.take_ok(&ok);
        let compressed = Capabilities::COMPRESS | Capabilities::ZSTD_COMPRESSION;
        if self.capabilities.intersects(compressed) {
            return self.stop(Stage::Opaque(OpaqueBecause::Compression));
        }
        self.stage = Stage::Commands;
    }
}
