//! An address on the web, taken apart. What is shown of it has neither path nor question: those may hold
//! secrets.

use std::fmt;
use std::net::IpAddr;

/// `http://` or `https://`, host, port, and what is asked for there.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    sealed: bool,
    host: String,
    port: u16,
    /// Path and question, beginning with `/`.
    target: String,
}

impl Url {
    /// Reads an address; complaints show nothing of its path.
    ///
    /// # Errors
    /// A sentence that says what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (sealed, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err("it begins with neither https:// nor http://".to_owned()),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err("it holds a user or password before the host; remove it".to_owned());
        }
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').or(port.is_empty().then_some(""))),
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, Some("")),
            },
        };
        let usual = if sealed { 443 } else { 80 };
        let port = match port {
            Some("") => Some(usual),
            Some(port) => port.parse().ok().filter(|port| *port > 0),
            None => None,
        };
        let Some(port) = port else { return Err("what follows its host is no port".to_owned()) };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || !host.chars().all(fits) {
            return Err("its host is neither a name nor an address".to_owned());
        }
        if !target.chars().all(|c| c.is_ascii_graphic()) {
            return Err("its path holds characters that must be written as %XX".to_owned());
        }
        let target = target.split('#').next().unwrap_or_default();
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Self { sealed, host: host.to_ascii_lowercase(), port, target })
    }

    /// The same place, another path.
    pub fn at(&self, target: &str) -> Self {
        Self { target: target.to_owned(), ..self.clone() }
    }

    /// Whether it is HTTPS.
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Whether it can only be this machine.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// The host's name or address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What is asked for there. May hold a secret.
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// Host and port, for the header `Host` and for people.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.sealed { "https" } else { "http" }, self.authority())
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart_and_have_the_usual_ports() {
        let url = Url::parse("https://Hooks.example/services/T0/secret?x=1#top").unwrap();
        assert_eq!((url.host(), url.port(), url.target()), ("hooks.example", 443, "/services/T0/secret?x=1"));
        let url = Url::parse("http://[::1]:9307").unwrap();
        assert_eq!((url.host(), url.port(), url.target(), url.is_loopback()), ("::1", 9307, "/", true));
        assert_eq!(url.to_string(), "http://[::1]:9307");
        assert_eq!(Url::parse("http://db1?x").unwrap().target(), "/?x");
    }

    #[test]
    fn nothing_of_the_path_is_ever_shown() {
        let url = Url::parse("https://hooks.example/secret").unwrap();
        assert_eq!(format!("{url} {url:?}"), "https://hooks.example:443 Url(https://hooks.example:443)");
    }

    #[test]
    fn what_is_no_address_is_refused_in_words() {
        for (wrong, why) in [
            ("hooks.example", "begins with"),
            ("https://", "host"),
            ("https://user:pass@host/", "password"),
            ("https://host:port/", "port"),
            ("https://host:0/", "port"),
            ("https://host/a b", "%XX"),
            ("https://host/a\r\nx: y", "%XX"),
            ("https://ho st/", "host"),
        ] {
            let said = Url::parse(wrong).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
