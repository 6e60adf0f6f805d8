//! Both ends of a login and a lock and key that anybody can read.

use wire::bridge::{Bridge, FromClient, Keys, Secret, Step, Terms};
use wire::response::OkPacket;
use wire::{Capabilities, Greeting, Login, Phase, Status, Tracker, packet};

pub(crate) const NONCE: &[u8; 20] = b"nonce-nonce-nonce-no";
pub(crate) const PASSWORD: &[u8] = b"a password that is longer than a nonce";
pub(crate) const KEY_OF_SERVER: &[u8] = b"-----BEGIN PUBLIC KEY-----";

/// zlib and zstd.
pub(crate) const COMPRESSION: Capabilities = Capabilities::COMPRESS.union(Capabilities::ZSTD_COMPRESSION);

/// `sealed:` and `ours:` stand for encryption with the server's key and with ours.
#[derive(Clone, Copy, Default)]
pub(crate) struct GlassKeys {
    /// Whether the server's key is known beforehand.
    pub(crate) pinned: bool,
}

impl GlassKeys {
    /// Decrypts with our key.
    pub(crate) fn open(self, sealed: &[u8]) -> Option<Secret> {
        sealed.strip_prefix(b"ours:").map(|plain| Secret::new(plain.to_vec()))
    }
}

impl Keys for GlassKeys {
    fn public_key(&self) -> &[u8] {
        b"our key"
    }

    fn server_key(&self) -> Option<&[u8]> {
        self.pinned.then_some(KEY_OF_SERVER)
    }

    fn seal(&self, pem: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        pem.starts_with(b"-----BEGIN").then(|| [b"sealed:", plain].concat())
    }
}

/// A bridge and what it said.
pub(crate) struct Ends {
    pub(crate) bridge: Bridge,
    pub(crate) steps: Vec<Step>,
    pub(crate) keys: GlassKeys,
    client_next: u8,
    server_next: u8,
    tls: bool,
}

/// One side of a session, for what only needs the terms.
#[derive(Clone, Copy)]
pub(crate) struct Local(bool);

pub(crate) fn open_side() -> Local {
    Local(false)
}

pub(crate) fn secret_side() -> Local {
    Local(true)
}

impl Local {
    pub(crate) fn translates_with(self, server: Self) -> bool {
        let terms = Terms {
            from_client: FromClient::Off,
            to_server: false,
            client_is_local: self.0,
            server_is_local: server.0,
            retrieves_key: false,
        };
        Bridge::new(terms, &greeting(true)).0.translates()
    }
}

pub(crate) fn terms(from_client: FromClient, to_server: bool) -> Terms {
    Terms { from_client, to_server, client_is_local: false, server_is_local: false, retrieves_key: true }
}

pub(crate) fn greeting(offers_tls: bool) -> Vec<u8> {
    let capabilities = match offers_tls {
        true => Capabilities::ORDINARY | Capabilities::SSL,
        false => Capabilities::ORDINARY,
    };
    Greeting {
        version: "9.7.4".to_owned(),
        connection_id: 1,
        nonce: NONCE.to_vec(),
        capabilities,
        charset: 45,
        status: Status::AUTOCOMMIT,
        auth_plugin: "caching_sha2_password".to_owned(),
    }
    .encode()
}

pub(crate) fn shows_tls(from_client: FromClient, offers: bool) -> bool {
    let (_, shown) = Bridge::new(terms(from_client, false), &greeting(offers));
    Greeting::parse(&shown[packet::HEADER..]).unwrap().capabilities.contains(Capabilities::SSL)
}

/// Whether compression is offered to a client in front of a server that does.
pub(crate) fn shows_compression(terms: Terms, offers_tls: bool) -> bool {
    let mut greeting = Greeting::parse(&greeting(offers_tls)).unwrap();
    greeting.capabilities |= COMPRESSION;
    let (_, shown) = Bridge::new(terms, &greeting.encode());
    Greeting::parse(&shown[packet::HEADER..]).unwrap().capabilities.intersects(COMPRESSION)
}

pub(crate) fn ok() -> Vec<u8> {
    OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::default() }.encode(Capabilities::ORDINARY)
}

pub(crate) fn masked(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    password.iter().zip(nonce.iter().cycle()).map(|(a, b)| a ^ b).collect()
}

pub(crate) fn framed(mut sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    packet::write(&mut out, &mut sequence, payload);
    out
}

impl Ends {
    pub(crate) fn new(from_client: FromClient, to_server: bool) -> Self {
        Self::with_offer(from_client, to_server, true)
    }

    pub(crate) fn with_offer(from_client: FromClient, to_server: bool, offers: bool) -> Self {
        Self::by(terms(from_client, to_server), offers)
    }

    pub(crate) fn by(terms: Terms, offers: bool) -> Self {
        let (bridge, _) = Bridge::new(terms, &greeting(offers));
        let keys = GlassKeys::default();
        Self { bridge, steps: Vec::new(), keys, client_next: 1, server_next: 1, tls: false }
    }

    pub(crate) fn login(&self, plugin: &[u8], proof: &[u8]) -> Vec<u8> {
        let capabilities = match self.tls {
            true => Capabilities::ORDINARY | Capabilities::SSL,
            false => Capabilities::ORDINARY,
        };
        Login { capabilities, user: b"shop", auth_response: proof, auth_plugin: plugin, ..Login::default() }
            .encode()
    }

    pub(crate) fn request_for_tls(&self) -> Vec<u8> {
        let capabilities = Capabilities::ORDINARY | Capabilities::SSL;
        Login { capabilities, ..Login::default() }.encode()[..32].to_vec()
    }

    pub(crate) fn client_begins_tls(&mut self) {
        let request = self.request_for_tls();
        self.client(&[&request]);
        assert_eq!(self.steps.pop(), Some(Step::AcceptTls));
        self.tls = true;
    }

    /// Packets of the client, in its count.
    pub(crate) fn client(&mut self, payloads: &[&[u8]]) {
        for payload in payloads {
            let steps = self.bridge.client(self.client_next, payload, &self.keys);
            self.client_next = self.client_next.wrapping_add(1);
            self.took(steps);
        }
    }

    /// Packets of the server, in its count.
    pub(crate) fn server(&mut self, payloads: &[&[u8]]) {
        for payload in payloads {
            let steps = self.bridge.server(self.server_next, payload, &self.keys);
            self.server_next = self.server_next.wrapping_add(1);
            self.took(steps);
        }
    }

    /// Counts as the two ends do: whoever gets a packet sends the next number.
    fn took(&mut self, mut steps: Vec<Step>) {
        if let [Step::Decrypt(sealed)] = steps.as_slice() {
            steps = self.bridge.decrypted(self.keys.open(sealed));
        }
        for step in &steps {
            match step {
                Step::ToClient(packet) => self.client_next = packet[3].wrapping_add(1),
                Step::ToServer(packet) => self.server_next = packet[3].wrapping_add(1),
                _ => {}
            }
        }
        self.steps.extend(steps);
    }

    pub(crate) fn restart(&mut self, tracker: Tracker) {
        self.bridge.change_user(tracker);
        (self.client_next, self.server_next) = (1, 1);
        self.steps.clear();
    }

    /// Packets to the client so far, taken out: sequence id and payload.
    /// The login is through, and whose it is.
    pub(crate) fn is_open_for(&mut self, user: &str) {
        assert_eq!(self.steps.pop(), Some(Step::Open));
        let tracker = self.bridge.tracker();
        assert_eq!((tracker.phase(), tracker.user()), (Phase::Idle, Some(user)));
    }

    pub(crate) fn heard_by_client(&mut self) -> Vec<(u8, Vec<u8>)> {
        let taken = |step: &mut Step| matches!(step, Step::ToClient(_));
        self.steps.extract_if(.., taken).map(|step| heard(&step)).collect()
    }

    /// Packets to the server so far, taken out.
    pub(crate) fn heard_by_server(&mut self) -> Vec<(u8, Vec<u8>)> {
        let taken = |step: &mut Step| matches!(step, Step::ToServer(_));
        self.steps.extract_if(.., taken).map(|step| heard(&step)).collect()
    }
}

fn heard(step: &Step) -> (u8, Vec<u8>) {
    let packet = match step {
        Step::ToClient(packet) => packet.as_slice(),
        Step::ToServer(packet) => packet.as_slice(),
        _ => unreachable!("only packets are heard"),
    };
    let first = packet::first(packet).expect("a whole packet");
    (first.sequence, first.payload.to_vec())
}
