//! Both ends of a session, scripted: what tests of the tracker say to it.

use wire::response::{OkPacket, TextResult};
use wire::{Capabilities, Greeting, Login, Phase, Status, Tracker, packet};

/// What both ends offer as a rule.
pub(crate) const PLAIN: Capabilities = Capabilities::ORDINARY.union(Capabilities::LOCAL_FILES);
pub(crate) const IDLE: Status = Status::AUTOCOMMIT;

/// A tracker and the sequence id of the exchange under way.
pub(crate) struct Script {
    pub(crate) tracker: Tracker,
    pub(crate) capabilities: Capabilities,
    pub(crate) sequence: u8,
}

/// A payload with its header or headers.
pub(crate) fn framed(mut sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    packet::write(&mut out, &mut sequence, payload);
    out
}

pub(crate) fn greeting(capabilities: Capabilities) -> Vec<u8> {
    let greeting = Greeting {
        version: "8.4.3".into(),
        connection_id: 1,
        nonce: vec![1; 20],
        capabilities,
        charset: 45,
        status: Status::AUTOCOMMIT,
        auth_plugin: "caching_sha2_password".into(),
    };
    framed(0, &greeting.encode())
}

pub(crate) fn login(capabilities: Capabilities) -> Vec<u8> {
    let login = Login { capabilities, user: b"shop", database: b"orders", ..Login::default() };
    framed(1, &login.encode())
}

pub(crate) fn ok(status: Status) -> OkPacket<'static> {
    OkPacket { status, ..OkPacket::default() }
}

impl Script {
    /// Logged in, with these capabilities on both sides.
    pub(crate) fn new(capabilities: Capabilities) -> Self {
        let mut tracker = Tracker::new();
        tracker.server_bytes(&greeting(capabilities));
        tracker.client_bytes(&login(capabilities));
        let mut script = Self { tracker, capabilities, sequence: 2 };
        script.ok(Status::AUTOCOMMIT);
        assert_eq!(script.tracker.phase(), Phase::Idle);
        script
    }

    /// The client sends a command.
    pub(crate) fn command(&mut self, payload: &[u8]) {
        self.sequence = 0;
        self.client(payload);
    }

    /// The client sends a statement.
    pub(crate) fn query(&mut self, text: &str) {
        self.command(&[b"\x03", text.as_bytes()].concat());
    }

    /// The client sends the exchange's next packet.
    pub(crate) fn client(&mut self, payload: &[u8]) {
        let mut bytes = Vec::new();
        packet::write(&mut bytes, &mut self.sequence, payload);
        self.tracker.client_bytes(&bytes);
    }

    /// The server sends the exchange's next packet.
    pub(crate) fn server(&mut self, payload: &[u8]) {
        let mut bytes = Vec::new();
        packet::write(&mut bytes, &mut self.sequence, payload);
        self.tracker.server_bytes(&bytes);
    }

    pub(crate) fn ok(&mut self, status: Status) {
        let payload = ok(status).encode(self.capabilities);
        self.server(&payload);
    }

    pub(crate) fn end_of_rows(&mut self, status: Status) {
        let payload = ok(status).encode_end_of_rows(self.capabilities);
        self.server(&payload);
    }

    pub(crate) fn error(&mut self, code: u16) {
        let payload = wire::ErrPacket::new(code, b"HY000", "no").encode(self.capabilities);
        self.server(&payload);
    }

    /// The server answers with a result set of one column.
    pub(crate) fn rows(&mut self, count: usize, status: Status) {
        let mut result = TextResult { status, ..TextResult::of(&["c"]) };
        for _ in 0..count {
            result = result.row(&[Some("value")]);
        }
        let mut bytes = Vec::new();
        result.write(&mut bytes, &mut self.sequence, self.capabilities);
        self.tracker.server_bytes(&bytes);
    }
}
