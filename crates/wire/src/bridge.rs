//! Bridge: one login across two transports that differ in TLS. Packets in, [`Step`]s out; no sockets, no
//! randomness.
//!
//! The password is never known to us beforehand, and most of a login passes through: the server's nonce, the
//! client's proof and the server's verdict. Three things do not, once TLS ends at the router on either side:
//!
//! - **Flags.** The greeting offers TLS as the listener does, and the login that goes on says what holds
//!   towards the server.
//! - **Sequence ids.** An SSLRequest is a packet of its own, so the two sides count apart.
//! - **Passwords.** `caching_sha2_password` (and `sha256_password`) ask for the password itself when the
//!   server has not cached it. A client sends it in the clear where its transport keeps secrets (TLS, a unix
//!   socket), else encrypted with the server's RSA key, after `xor` with the nonce. The server expects the
//!   one or the other by *its* transport:
//!
//! | client's side | server's side | then |
//! |---|---|---|
//! | secret | open | with the server's key from a file, or with the one it sends if [`Terms::retrieves_key`], it goes on encrypted; else the login is refused |
//! | open | secret | the client is given a key of ours, and the password goes on in the clear, inside TLS |
//! | alike | alike | everything passes through |
//!
//! **What cannot be read goes nowhere**, unless nothing is asked of TLS on either side (passthrough, and none
//! to the server): a first packet that we do not understand is one whose TLS, and whose account, we cannot
//! judge. Servers do understand some that we do not, such as a login of the protocol before 4.1.
//!
//! A password that passes this way is wiped as soon as it has been handed on. Plugins that send it in the
//! clear by themselves (`mysql_clear_password`, `dialog`) are refused from a secret side to an open one.
//!
//! `COM_CHANGE_USER` is a login too: [`Bridge::change_user`] starts over with its answer. In a compressed
//! session nobody sees it. So compression is not offered where a password could go from a secret side to an
//! open one that way.

mod plugin;
mod refusal;

use crate::capability::Capabilities;
use crate::greeting::{self, Greeting};
use crate::login::{self, Login};
use crate::packet;
use crate::response::error_code;
use crate::tracker::Tracker;
use plugin::Plugin;
pub use refusal::Refusal;
use zeroize::{Zeroize, Zeroizing};

/// Bytes that may hold a password: wiped when dropped.
pub type Secret = Zeroizing<Vec<u8>>;

/// What is done with TLS from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// It goes to the server end to end.
    Passthrough,
    /// Not offered.
    Off,
    /// Offered, and ended here.
    Preferred,
    /// Demanded, and ended here.
    Required,
}

/// What the two sides of a session are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// TLS from the client.
    pub from_client: FromClient,
    /// Whether we begin TLS towards the server, provided that it offers it.
    pub to_server: bool,
    /// The client's transport keeps secrets without TLS: a unix socket.
    pub client_is_local: bool,
    /// So does the server's.
    pub server_is_local: bool,
    /// A server whose transport keeps no secrets may be asked for its RSA key for a password that came in
    /// secret. Whoever can change packets on the way answers with a key of his own and reads the password.
    pub retrieves_key: bool,
}

impl Terms {
    /// Whether what a client believes secret may have to go on in the open.
    fn may_leak(self, server_offers_tls: bool) -> bool {
        let ends_tls = matches!(self.from_client, FromClient::Preferred | FromClient::Required);
        let server_is_secret = self.server_is_local || (self.to_server && server_offers_tls);
        (ends_tls || self.client_is_local) && !server_is_secret
    }
}

/// Public-key cryptography of the exchange (RSA with OAEP and SHA-1, as servers do), by whoever has keys and
/// randomness.
pub trait Keys {
    /// Our own public key, PEM.
    fn public_key(&self) -> &[u8];
    /// The servers' public key, PEM, where it is known beforehand.
    fn server_key(&self) -> Option<&[u8]>;
    /// Encrypts with the key in `pem`; `None` when that is no key or `plain` too long for it.
    fn seal(&self, pem: &[u8], plain: &[u8]) -> Option<Vec<u8>>;
}

/// What is to be done next, in order.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this to the client.
    ToClient(Vec<u8>),
    /// Send this to the server.
    ToServer(Secret),
    /// The client begins TLS now: end it here; its next packet comes inside.
    AcceptTls,
    /// Begin TLS with the server now; the next packet to it goes inside.
    BeginTls,
    /// Decrypt this with our own key, which takes some milliseconds, and say what it was:
    /// [`Bridge::decrypted`].
    Decrypt(Vec<u8>),
    /// From here on both sides go on by themselves, and we cannot read them.
    Opaque,
    /// Logged in, and the client knows. (A change of user that the server refused: the session goes on as
    /// before.)
    Open,
    /// The server has refused, and the client knows.
    Denied,
    /// Tell the client, in an error packet with this sequence id, and end both sides.
    Refuse(Refusal, u8),
}

/// The login of one session; see the module's text.
#[derive(Debug)]
pub struct Bridge {
    terms: Terms,
    tracker: Tracker,
    state: BridgeState,
    /// What the server offers; `None` when its greeting is of another protocol.
    offered: Option<Capabilities>,
    /// Whether each side's transport keeps secrets now.
    client_is_secret: bool,
    server_is_secret: bool,
    /// Sequence ids of the next packet on each side, whoever sends it.
    client_next: u8,
    server_next: u8,
    plugin: Plugin,
    nonce: Vec<u8>,
    /// It is a change of user: a refusal leaves the session as it was.
    again: bool,
}

#[derive(Debug)]
enum BridgeState {
    /// The client's first packet is due.
    First,
    /// Its login is due, inside TLS.
    Login,
    Proofs,
    /// The server has asked for the password itself.
    Password,
    /// We have asked the server for its key, to send this.
    ServerKey(Secret),
    /// A password is being decrypted.
    Decrypting,
    Done,
}

impl Bridge {
    /// A login that begins with this greeting (payload). Returns the greeting to show to the client, as a
    /// whole packet.
    pub fn new(terms: Terms, server_greeting: &[u8]) -> (Self, Vec<u8>) {
        let mut shown = server_greeting.to_vec();
        let parsed = Greeting::parse(server_greeting).ok();
        match terms.from_client {
            FromClient::Passthrough => {}
            FromClient::Off => greeting::offer_tls(&mut shown, false),
            FromClient::Preferred | FromClient::Required => greeting::offer_tls(&mut shown, true),
        }
        let offered = parsed.as_ref().map(|greeting| greeting.capabilities);
        if terms.may_leak(offers_tls(offered)) {
            greeting::offer_no_compression(&mut shown);
        }
        let mut packet = Vec::with_capacity(shown.len() + packet::HEADER);
        packet::write(&mut packet, &mut 0, &shown);
        let mut tracker = Tracker::new();
        tracker.server_bytes(&packet);
        let bridge = Self {
            terms,
            tracker,
            state: BridgeState::First,
            offered,
            client_is_secret: terms.client_is_local,
            server_is_secret: terms.server_is_local,
            client_next: 1,
            server_next: 1,
            plugin: parsed.as_ref().map_or(Plugin::Other, |g| Plugin::named(g.auth_plugin.as_bytes())),
            nonce: parsed.map(|greeting| greeting.nonce).unwrap_or_default(),
            again: false,
        };
        (bridge, packet)
    }

    /// The session as far as it has come, as if there were no TLS on either side.
    pub fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// Gives the tracker away, to whoever relays the session from here on.
    pub fn take_tracker(&mut self) -> Tracker {
        std::mem::take(&mut self.tracker)
    }

    /// Whether passwords have to be translated, because one side's transport keeps secrets and the other's
    /// does not.
    pub fn translates(&self) -> bool {
        self.client_is_secret != self.server_is_secret
    }

    /// A `COM_CHANGE_USER` has been passed on, whole: what follows is a login again. `tracker` has seen the
    /// command.
    pub fn change_user(&mut self, tracker: Tracker) {
        self.tracker = tracker;
        self.state = BridgeState::Proofs;
        self.again = true;
        (self.client_next, self.server_next) = (1, 1);
    }

    /// A packet of the client.
    pub fn client(&mut self, sequence: u8, payload: &[u8], keys: &dyn Keys) -> Vec<Step> {
        let expected = self.client_next;
        self.client_next = sequence.wrapping_add(1);
        if sequence != expected {
            return self.refuse(Refusal::BadHandshake { what: "a packet out of sequence" });
        }
        match std::mem::replace(&mut self.state, BridgeState::Proofs) {
            BridgeState::First => self.first(payload),
            BridgeState::Login => self.login(payload),
            BridgeState::Password => self.password(payload, keys),
            state @ (BridgeState::ServerKey(_) | BridgeState::Decrypting | BridgeState::Done) => {
                self.state = state;
                self.refuse(Refusal::BadHandshake { what: "a packet before the answer to the last one" })
            }
            BridgeState::Proofs => vec![self.tell_server(payload)],
        }
    }

    fn first(&mut self, payload: &[u8]) -> Vec<Step> {
        let Some((_, wants_tls)) = login::opening(payload).filter(|_| self.offered.is_some()) else {
            return self.unreadable(payload, "a login of a protocol from before 4.1");
        };
        match (wants_tls, self.terms.from_client) {
            (true, FromClient::Passthrough) => self.end_to_end(payload),
            (true, FromClient::Off) => {
                self.refuse(Refusal::BadHandshake { what: "a request for TLS, which was not offered" })
            }
            (true, FromClient::Preferred | FromClient::Required) => {
                self.client_is_secret = true;
                self.state = BridgeState::Login;
                vec![Step::AcceptTls]
            }
            (false, FromClient::Required) if !self.client_is_secret => self.refuse(Refusal::TlsRequired),
            (false, _) => self.login(payload),
        }
    }

    /// The login itself: goes on with what holds towards the server, after a request for TLS where that
    /// begins here.
    fn login(&mut self, payload: &[u8]) -> Vec<Step> {
        let mut payload = Zeroizing::new(payload.to_vec());
        login::ask_tls(&mut payload, false);
        if self.terms.may_leak(self.offers_tls()) {
            // What was not offered is not passed on either.
            login::ask_no_compression(&mut payload);
        }
        let Ok(login) = Login::parse(&payload) else {
            return self.unreadable(&payload, "a login that cannot be read");
        };
        if login.capabilities.contains(Capabilities::PLUGIN_AUTH) && !login.auth_plugin.is_empty() {
            self.plugin = Plugin::named(login.auth_plugin);
        }
        let mut plain = Zeroizing::new(Vec::new());
        packet::write(&mut plain, &mut 1, &Zeroizing::new(login.without_proof().encode()));
        self.tracker.client_bytes(&plain);
        let begins_tls = self.terms.to_server && self.offers_tls() && !self.server_is_secret;
        self.server_is_secret |= begins_tls;
        if self.plugin.is_open_only() && self.leaks() {
            return self.refuse(Refusal::WouldLeak);
        }
        let mut onward = if self.plugin.puts_password_in_login() && self.translates() {
            // Asked anew by the server, in the form that its transport takes.
            Zeroizing::new(login.asking_anew(plugin::NOBODY).encode())
        } else {
            payload.clone()
        };
        let mut steps = Vec::new();
        if begins_tls {
            login::ask_tls(&mut onward, true);
            let request = onward[..login::FIXED.min(onward.len())].to_vec();
            steps.extend([self.tell_server(&request), Step::BeginTls]);
        }
        steps.push(self.tell_server(&onward));
        steps
    }

    /// The client answers to the server's wish for the password itself.
    fn password(&mut self, payload: &[u8], keys: &dyn Keys) -> Vec<Step> {
        let ask = self.plugin.request_for_key();
        if self.client_is_secret {
            // A password of no characters needs no secrecy, and no server gives a key for it.
            if payload.is_empty() || payload == [0] {
                return vec![self.tell_server(payload)];
            }
            let mut password = Zeroizing::new(payload.to_vec());
            if let Some(pem) = keys.server_key() {
                return self.sealed(&mut password, pem, keys);
            }
            if !self.terms.retrieves_key {
                return self.refuse(Refusal::KeyInClear);
            }
            self.state = BridgeState::ServerKey(password);
            return vec![self.tell_server(&[ask])];
        }
        if payload == [ask] {
            self.state = BridgeState::Password;
            return vec![self.tell_client(&[&[1], keys.public_key()].concat())];
        }
        if payload.is_empty() || payload == [0] {
            return vec![self.tell_server(payload)];
        }
        self.state = BridgeState::Decrypting;
        vec![Step::Decrypt(payload.to_vec())]
    }

    /// What [`Step::Decrypt`] came to; `None` when it was not encrypted with our key.
    pub fn decrypted(&mut self, password: Option<Secret>) -> Vec<Step> {
        let BridgeState::Decrypting = std::mem::replace(&mut self.state, BridgeState::Proofs) else {
            return self.refuse(Refusal::BadHandshake { what: "an answer that nobody asked for" });
        };
        let Some(mut password) = password else {
            return self.refuse(Refusal::OtherKey);
        };
        self.mask(&mut password);
        if password.last() != Some(&0) {
            return self.refuse(Refusal::OtherKey);
        }
        vec![self.tell_server(&password)]
    }

    /// A packet of the server.
    pub fn server(&mut self, sequence: u8, payload: &[u8], keys: &dyn Keys) -> Vec<Step> {
        self.server_next = sequence.wrapping_add(1);
        if error_code(payload).is_some() {
            self.state = BridgeState::Done;
            self.track(payload);
            let verdict = if self.again { Step::Open } else { Step::Denied };
            return vec![self.tell_client(payload), verdict];
        }
        match (&mut self.state, payload.first()) {
            (BridgeState::ServerKey(_), _) => self.server_key(payload, keys),
            (BridgeState::Done | BridgeState::First | BridgeState::Login, _) => {
                self.refuse(Refusal::BadServer)
            }
            (_, Some(0)) => {
                self.state = BridgeState::Done;
                self.track(payload);
                vec![self.tell_client(payload), Step::Open]
            }
            (_, Some(0xfe | 2)) if payload.len() > 1 => self.switch(payload),
            (_, _) => {
                if self.translates() && self.plugin.asks_for_password(payload) {
                    self.state = BridgeState::Password;
                }
                vec![self.tell_client(payload)]
            }
        }
    }

    /// The server goes on with another plugin, or to the next factor: both name the plugin and bring a nonce.
    fn switch(&mut self, payload: &[u8]) -> Vec<Step> {
        let (name, nonce) = plugin::switched(payload);
        self.plugin = Plugin::named(name);
        self.nonce = nonce.to_vec();
        if self.plugin.is_open_only() && self.leaks() {
            return self.refuse(Refusal::WouldLeak);
        }
        self.state = match self.plugin.puts_password_in_login() && self.translates() {
            true => BridgeState::Password,
            false => BridgeState::Proofs,
        };
        vec![self.tell_client(payload)]
    }

    /// The key we asked the server for.
    fn server_key(&mut self, payload: &[u8], keys: &dyn Keys) -> Vec<Step> {
        let BridgeState::ServerKey(mut password) = std::mem::replace(&mut self.state, BridgeState::Proofs)
        else {
            return self.refuse(Refusal::BadServer);
        };
        let pem = payload.strip_prefix(&[1]).unwrap_or(payload);
        self.sealed(&mut password, pem, keys)
    }

    /// Sends the password on, encrypted with the server's key.
    fn sealed(&mut self, password: &mut Secret, pem: &[u8], keys: &dyn Keys) -> Vec<Step> {
        self.mask(password);
        match keys.seal(pem, password) {
            Some(sealed) => vec![self.tell_server(&sealed)],
            None => self.refuse(Refusal::NoServerKey),
        }
    }

    /// `xor` with the nonce, over and over: both ways the same.
    fn mask(&self, password: &mut Secret) {
        let nonce = &self.nonce[..self.nonce.len().min(20)];
        password.iter_mut().zip(nonce.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    }

    /// Whether what the client believes secret would go on in the open.
    fn leaks(&self) -> bool {
        self.client_is_secret && !self.server_is_secret
    }

    /// Shows the tracker a packet of the server in the count that it expects.
    fn track(&mut self, payload: &[u8]) {
        let mut packet = Vec::new();
        packet::write(&mut packet, &mut self.tracker.next_sequence(), payload);
        self.tracker.server_bytes(&packet);
    }

    fn tell_client(&mut self, payload: &[u8]) -> Step {
        let mut packet = Vec::with_capacity(payload.len() + packet::HEADER);
        packet::write(&mut packet, &mut self.client_next, payload);
        Step::ToClient(packet)
    }

    fn tell_server(&mut self, payload: &[u8]) -> Step {
        let mut packet = Zeroizing::new(Vec::with_capacity(payload.len() + packet::HEADER));
        packet::write(&mut packet, &mut self.server_next, payload);
        Step::ToServer(packet)
    }

    fn refuse(&mut self, why: Refusal) -> Vec<Step> {
        self.state = BridgeState::Done;
        self.nonce.zeroize();
        vec![Step::Refuse(why, self.client_next)]
    }

    /// A request for TLS that is to go to the server end to end. Where we would have begun TLS ourselves, it
    /// has to be just that, and to a server that offers TLS: a login in the open with the flag set is none.
    fn end_to_end(&mut self, payload: &[u8]) -> Vec<Step> {
        if self.terms.to_server && !self.offers_tls() {
            return self.refuse(Refusal::BadHandshake { what: "a request for TLS, which was not offered" });
        }
        if self.terms.to_server && payload.len() != login::FIXED {
            return self.refuse(Refusal::BadHandshake { what: "a login in the open that asks for TLS" });
        }
        self.opaque(payload)
    }

    /// What we cannot read goes on as it is only where nothing is asked of either side: else nobody could say
    /// what it does.
    fn unreadable(&mut self, payload: &[u8], what: &'static str) -> Vec<Step> {
        let nothing_asked = self.terms.from_client == FromClient::Passthrough && !self.terms.to_server;
        let as_it_is = self.server_next == self.client_next.wrapping_sub(1) && !self.translates();
        if nothing_asked && as_it_is {
            self.opaque(payload)
        } else {
            self.refuse(Refusal::BadHandshake { what })
        }
    }

    fn offers_tls(&self) -> bool {
        offers_tls(self.offered)
    }

    fn opaque(&mut self, payload: &[u8]) -> Vec<Step> {
        self.state = BridgeState::Done;
        let onward = self.tell_server(payload);
        if let Step::ToServer(packet) = &onward {
            self.tracker.client_bytes(packet);
        }
        vec![onward, Step::Opaque]
    }
}

/// Whether a server with these flags, if it has any, offers TLS.
fn offers_tls(offered: Option<Capabilities>) -> bool {
    offered.is_some_and(|offered| offered.contains(Capabilities::SSL))
}
