//! Names: where the host name of a server leads, shared by all sessions of a router.
//!
//! New sessions take the last good answer, so that none waits for a resolver, and none is refused while the
//! resolver is out. The answer is renewed in the background while sessions ask: once a second, and at once
//! when nobody answers at the addresses that it gave. A name that moves is followed within that time.

use fleet::Address;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// An answer of this age is renewed by the next session that asks.
const RENEW_AFTER: Duration = Duration::from_secs(1);
/// Names that are remembered; a fleet has far fewer.
const MOST: usize = 1024;

/// Asks a resolver.
type Lookup = dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> + Send + Sync;

/// The last good answers. Clones share them.
#[derive(Clone)]
pub(crate) struct Names {
    known: Arc<Mutex<HashMap<String, CachedName>>>,
    lookup: Arc<Lookup>,
    renew_after: Duration,
}

#[derive(Debug, Default)]
struct CachedName {
    /// `None` until there has been an answer.
    addresses: Option<Arc<[IpAddr]>>,
    /// When the resolver was last asked.
    asked: Option<Instant>,
    /// Somebody asks it now.
    asking: bool,
}

impl Default for Names {
    fn default() -> Self {
        Self::with_lookup(RENEW_AFTER, |name| async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

impl Names {
    fn with_lookup<F>(renew_after: Duration, lookup: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        Self { known: Arc::default(), lookup: Arc::new(move |name| Box::pin(lookup(name))), renew_after }
    }

    /// Where this name leads.
    ///
    /// # Errors
    /// The resolver's, when there has never been an answer.
    pub(crate) async fn of(&self, name: &str) -> io::Result<Arc<[IpAddr]>> {
        let known = self.known().get_mut(name).and_then(|cached| {
            let addresses = cached.addresses.clone()?;
            Some((addresses, cached.begin_if_due(self.renew_after)))
        });
        match known {
            Some((addresses, due)) => {
                if due {
                    self.renew(name);
                }
                Ok(addresses)
            }
            None => self.ask(name.to_owned()).await,
        }
    }

    /// Where an address leads, as far as is known already; the answer is renewed in the background. Never for
    /// a unix socket.
    pub(crate) fn socket_address(&self, address: &Address) -> Option<SocketAddr> {
        let Address::Tcp { host, port } = address else { return None };
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Some(SocketAddr::new(ip, *port));
        }
        let (first, due) = {
            let mut known = self.known();
            make_room(&mut known, host);
            let cached = known.entry(host.clone()).or_default();
            let first = cached.addresses.as_ref().and_then(|addresses| addresses.first().copied());
            (first, cached.begin_if_due(self.renew_after))
        };
        if due {
            self.renew(host);
        }
        first.map(|ip| SocketAddr::new(ip, *port))
    }

    /// Nobody answers where this name leads: the next session has an answer of its own time.
    pub(crate) fn recheck(&self, name: &str) {
        let due = self.known().get_mut(name).is_some_and(|known| !std::mem::replace(&mut known.asking, true));
        if due {
            self.renew(name);
        }
    }

    fn renew(&self, name: &str) {
        let (names, name) = (self.clone(), name.to_owned());
        tokio::spawn(async move {
            // Without an answer the last good one stays.
            let _ = names.ask(name).await;
        });
    }

    async fn ask(&self, name: String) -> io::Result<Arc<[IpAddr]>> {
        // However this ends, somebody else may ask next.
        let _asked = LookupGuard { names: self, name: &name };
        let addresses: Arc<[IpAddr]> = (self.lookup)(name.clone()).await?.into();
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{name} has no address")));
        }
        let mut known = self.known();
        make_room(&mut known, &name);
        let asked = Some(Instant::now());
        known.insert(name.clone(), CachedName { addresses: Some(addresses.clone()), asked, asking: false });
        Ok(addresses)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, CachedName>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedName {
    /// Whether it is time to ask the resolver again; then somebody does from here on.
    fn begin_if_due(&mut self, renew_after: Duration) -> bool {
        let due = !self.asking && self.asked.is_none_or(|at| at.elapsed() >= renew_after);
        self.asking |= due;
        due
    }
}

/// Forgets all names when there are too many for one more.
fn make_room(known: &mut HashMap<String, CachedName>, name: &str) {
    if known.len() >= MOST && !known.contains_key(name) {
        known.clear();
    }
}

/// A question to the resolver, until dropped.
struct LookupGuard<'a> {
    names: &'a Names,
    name: &'a str,
}

impl Drop for LookupGuard<'_> {
    fn drop(&mut self) {
        if let Some(known) = self.names.known().get_mut(self.name) {
            (known.asking, known.asked) = (false, Some(Instant::now()));
        }
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").field("known", &self.known).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    /// A resolver that answers with this (an address of 0 is an outage), and how often it was asked.
    fn resolver(answer: &Arc<AtomicU64>, renew_after: Duration) -> (Names, Arc<AtomicU64>) {
        let asked = Arc::new(AtomicU64::new(0));
        let (count, answer) = (asked.clone(), answer.clone());
        let names = Names::with_lookup(renew_after, move |_| {
            count.fetch_add(1, SeqCst);
            let last = answer.load(SeqCst) as u8;
            async move {
                match last {
                    0 => Err(io::Error::other("no resolver")),
                    last => Ok(vec![IpAddr::from([127, 0, 0, last])]),
                }
            }
        });
        (names, asked)
    }

    async fn last(names: &Names) -> io::Result<u8> {
        let found = names.of("db").await?;
        // What was begun in the background ends here: the resolver answers at once.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        match found[0] {
            IpAddr::V4(ip) => Ok(ip.octets()[3]),
            IpAddr::V6(_) => unreachable!("only these are given"),
        }
    }

    #[tokio::test]
    async fn sessions_of_the_same_time_share_an_answer() {
        let (names, asked) = resolver(&Arc::new(AtomicU64::new(1)), Duration::from_secs(3600));
        for _ in 0..100 {
            assert_eq!(last(&names).await.unwrap(), 1);
        }
        assert_eq!(asked.load(SeqCst), 1);
    }

    #[tokio::test]
    async fn an_outage_of_the_resolver_refuses_nobody_and_a_name_that_moves_is_followed() {
        let answer = Arc::new(AtomicU64::new(1));
        let (names, asked) = resolver(&answer, Duration::ZERO);
        assert_eq!(last(&names).await.unwrap(), 1);
        answer.store(0, SeqCst);
        for _ in 0..5 {
            assert_eq!(last(&names).await.unwrap(), 1, "the last good answer");
        }
        assert_eq!(asked.load(SeqCst), 6);
        answer.store(2, SeqCst);
        assert_eq!(last(&names).await.unwrap(), 1, "it is renewed behind this session");
        assert_eq!(last(&names).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn where_nobody_answers_the_resolver_is_asked_at_once() {
        let answer = Arc::new(AtomicU64::new(1));
        let (names, _) = resolver(&answer, Duration::from_secs(3600));
        assert_eq!(last(&names).await.unwrap(), 1);
        answer.store(3, SeqCst);
        names.recheck("db");
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(last(&names).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn where_nobody_can_wait_a_name_is_looked_up_in_the_background_and_known_at_the_next_look() {
        let answer = Arc::new(AtomicU64::new(0));
        let (names, asked) = resolver(&answer, Duration::ZERO);
        let address = Address::tcp("db", 3306);
        let look = async || {
            let known = names.socket_address(&address);
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            known
        };
        assert_eq!((look().await, look().await), (None, None), "the resolver is out");
        assert_eq!(asked.load(SeqCst), 2, "and asked again");
        answer.store(1, SeqCst);
        assert_eq!(look().await, None);
        answer.store(0, SeqCst);
        let found = Some("127.0.0.1:3306".parse().unwrap());
        assert_eq!((look().await, look().await), (found, found), "the last good answer stays");
        assert_eq!(names.socket_address(&Address::tcp("10.0.0.5", 1)), Some("10.0.0.5:1".parse().unwrap()));
        assert_eq!(names.socket_address(&Address::Unix("/run/db.sock".into())), None);
    }

    #[tokio::test]
    async fn a_name_that_never_had_an_answer_is_an_error() {
        let (names, _) = resolver(&Arc::default(), Duration::ZERO);
        assert!(names.of("db").await.is_err());
        names.recheck("db");
        assert!(names.of("db").await.is_err());
    }
}
