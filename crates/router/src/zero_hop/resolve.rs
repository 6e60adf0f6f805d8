//! Resolve: the address of a server as the kernel needs it. Host names are looked up in the background and again every
//! few seconds, so that a name that moves is followed; until the first answer such a server's picks go to the ordinary
//! listener.

use fleet::Address;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a name is looked up.
const EVERY: Duration = Duration::from_secs(5);
/// Names that are remembered; a fleet has far fewer.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Resolver {
    names: HashMap<(String, u16), Name>,
}

#[derive(Debug)]
struct Name {
    asked: Instant,
    found: Arc<Mutex<Option<IpAddr>>>,
}

impl Resolver {
    /// Where this address leads, as far as is known; never for a unix socket.
    pub(super) fn of(&mut self, address: &Address) -> Option<SocketAddr> {
        let Address::Tcp { host, port } = address else { return None };
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Some(SocketAddr::new(ip, *port));
        }
        let key = (host.clone(), *port);
        let now = Instant::now();
        if self.names.len() >= MOST {
            self.names.clear();
        }
        let name = self.names.entry(key).or_insert_with(|| Name { asked: now, found: Arc::default() });
        let first = name.asked == now;
        if (first || now.duration_since(name.asked) > EVERY)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            name.asked = now;
            let (host, port, found) = (host.clone(), *port, name.found.clone());
            runtime.spawn(async move {
                if let Ok(mut addresses) = tokio::net::lookup_host((host.as_str(), port)).await {
                    let ip = addresses.next().map(|address| address.ip());
                    *found.lock().unwrap_or_else(PoisonError::into_inner) = ip;
                }
            });
        }
        let found = *name.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.map(|ip| SocketAddr::new(ip, *port))
    }
}
