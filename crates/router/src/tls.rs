//! TLS on the two sides of a session: certificates and keys from files, checked once when the router starts
//! or reloads.
//!
//! What the configuration's words mean is done in the crate `tls`; when TLS begins, in a MySQL session,
//! `login` says.

mod client_certificate;
mod keys;

use crate::error::Error;
use crate::stream::Stream;
use arc_swap::{ArcSwap, ArcSwapOption};
pub(crate) use client_certificate::CertificateRejected;
use client_certificate::Judge;
use config::{ClientCert, ClientTls, ServerTls, TlsMode};
use fleet::Address;
pub use keys::passwords_in_clear;
pub(crate) use keys::{LoginKeys, OwnKeys, ServerKey};
use rustls::pki_types::ServerName;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Everything about TLS to the servers that the threads of the data plane share.
#[derive(Debug, Default)]
pub(crate) struct ServerTlsState {
    /// How TLS to the servers is begun; `None` where it is off.
    to_servers: ArcSwapOption<ToServers>,
    /// For passwords between a client and a server that differ in TLS.
    pub(crate) keys: OwnKeys,
    /// For those that go on over an open way.
    server_key: ArcSwap<ServerKey>,
    /// Servers that offered none when it was preferred. Bounded by the fleet: a name goes when the server
    /// offers it.
    unencrypted: Mutex<BTreeSet<fleet::ServerName>>,
}

/// How TLS from a listener's clients is ended.
#[derive(Clone)]
pub(crate) struct FromClients {
    acceptor: TlsAcceptor,
    /// Where clients are asked for a certificate.
    judge: Option<Judge>,
    contents: Contents,
}

/// How TLS to the servers is begun.
#[derive(Clone)]
pub(crate) struct ToServers {
    connector: TlsConnector,
    /// Whether a server that offers none is used all the same.
    pub(crate) preferred: bool,
    /// The name every certificate must carry, instead of the server's host.
    server_name: Option<ServerName<'static>>,
    contents: Contents,
}

/// What the certificates and authorities of a side hold, by which a renewed file is told from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Contents(u64);

impl ServerTlsState {
    /// How TLS to the servers is begun now.
    pub(crate) fn to_servers(&self) -> Option<Arc<ToServers>> {
        self.to_servers.load_full()
    }

    /// The keys of a login that begins now.
    pub(crate) fn login_keys(&self) -> LoginKeys<'_> {
        LoginKeys { own: &self.keys, server: self.server_key.load_full() }
    }

    /// Begins it this way from now on. Returns whether it was begun before by files that have been renewed.
    pub(crate) fn change(&self, to_servers: Option<ToServers>, server_key: ServerKey) -> bool {
        self.unencrypted().clear();
        self.server_key.store(Arc::new(server_key));
        let now = to_servers.as_ref().map(|now| now.contents);
        let before = self.to_servers.swap(to_servers.map(Arc::new)).map(|before| before.contents);
        now.zip(before).is_some_and(|(now, before)| now != before)
    }

    /// A server did or did not offer TLS.
    pub(crate) fn offered(&self, server: &fleet::ServerName, offered: bool) {
        let mut unencrypted = self.unencrypted();
        if offered {
            unencrypted.remove(server);
        } else if unencrypted.insert(server.clone()) {
            tracing::warn!(%server, "server offers no TLS: its sessions are not encrypted");
        }
    }

    /// The servers that are used without TLS though it is preferred.
    pub(crate) fn without(&self) -> Vec<fleet::ServerName> {
        self.unencrypted().iter().cloned().collect()
    }

    fn unencrypted(&self) -> MutexGuard<'_, BTreeSet<fleet::ServerName>> {
        self.unencrypted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FromClients {
    /// Reads a listener's certificate and key; `None` where the listener ends no TLS.
    pub(crate) fn load(from: &ClientTls) -> Result<Option<Self>, Error> {
        if !from.mode.is_ended_here() {
            return Ok(None);
        }
        let (Some(cert), Some(key)) = (&from.cert, &from.key) else {
            return Err(Error::Tls("a listener that ends TLS needs a certificate and its key".to_owned()));
        };
        let judge = judge(from)?;
        let config = match &judge {
            Some(judge) => ::tls::https::server_asking(cert, key, judge.request()),
            None => ::tls::https::server(cert, key),
        };
        let contents = Contents::of([&from.cert, &from.client_ca]);
        Ok(Some(Self { acceptor: TlsAcceptor::from(config?), judge, contents }))
    }

    /// Whether its certificate or authority was renewed since `before` was read.
    pub(crate) fn is_renewed_since(&self, before: &Self) -> bool {
        self.contents != before.contents
    }

    /// Ends the TLS that the client is about to begin.
    pub(crate) async fn accept(&self, client: Stream) -> io::Result<Stream> {
        let tls = self.acceptor.accept(client).await?;
        Ok(Stream::Tls(Box::new(tls.into())))
    }

    /// Whether the certificate that a client has shown, or has not, lets it in.
    pub(crate) fn judge(&self, client: &Stream) -> Result<(), CertificateRejected> {
        self.judge.as_ref().map_or(Ok(()), |judge| judge.judge(client.certificates()))
    }
}

/// Who judges certificates of clients; `None` where none are asked for.
fn judge(from: &ClientTls) -> Result<Option<Judge>, Error> {
    if from.client_cert == ClientCert::Off {
        return Ok(None);
    }
    let Some(ca) = &from.client_ca else {
        return Err(Error::Tls("a listener that asks for certificates needs their authority".to_owned()));
    };
    let roots = ::tls::files::authorities(ca)?;
    let judge = Judge::new(roots, from.client_cert == ClientCert::Required);
    judge.map(Some).map_err(|e| Error::Tls(format!("{}: {e}", ca.display())))
}

impl ToServers {
    /// Reads what `[router.tls]` names; `None` where it is off.
    pub(crate) fn load(config: &ServerTls) -> Result<Option<Self>, Error> {
        let Some(client) = ::tls::client(&config.tls)? else { return Ok(None) };
        let server_name = match &config.server_name {
            Some(name) => Some(ServerName::try_from(name.clone()).map_err(|_| {
                Error::Tls(format!("server_name: '{name}' is neither a host name nor an address"))
            })?),
            None => None,
        };
        let preferred = config.tls.mode == TlsMode::Preferred;
        let contents = Contents::of([&config.tls.ca, &config.tls.cert]);
        Ok(Some(Self { connector: TlsConnector::from(client), preferred, server_name, contents }))
    }

    /// Begins TLS with the server at `reach`.
    pub(crate) async fn connect(&self, server: Stream, reach: &Address) -> io::Result<Stream> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => ::tls::name_of(reach).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?,
        };
        let tls = self.connector.connect(name, server).await?;
        Ok(Stream::Tls(Box::new(tls.into())))
    }
}

impl Contents {
    /// Of files that were read before; keys are left out: each belongs to a certificate.
    fn of<const N: usize>(files: [&Option<PathBuf>; N]) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        files.map(|file| file.as_ref().map(std::fs::read).and_then(Result::ok)).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Checks that everything the configuration names for TLS is there and fits, without using it.
///
/// # Errors
/// What cannot be used, with its file.
pub fn check(listeners: &[config::Listener], servers: &ServerTls) -> Result<(), Error> {
    listeners.iter().try_for_each(|listener| FromClients::load(&listener.tls).map(drop))?;
    ServerKey::load(servers)?;
    ToServers::load(servers).map(drop)
}

impl std::fmt::Debug for FromClients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FromClients")
    }
}

impl std::fmt::Debug for ToServers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToServers").field("preferred", &self.preferred).finish_non_exhaustive()
    }
}
