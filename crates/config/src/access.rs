//! Who may come to a listener, and whose word counts for who somebody is.
//!
//! A listener that others than this host can reach says who may come, or is refused: nothing is open to the
//! network by omission. `["0.0.0.0/0", "::/0"]` is everyone, said explicitly.

use super::matcher::block;
use super::section::Section;
use fleet::Address;
use ipnet::IpNet;
use std::net::IpAddr;

/// Who may come to a listener.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Access {
    /// The address blocks that may; `None` is everyone who can reach it.
    pub allow: Option<Vec<IpNet>>,
    /// Proxies in front of it, which tell the client's address by a PROXY protocol header (version 2).
    /// Whoever comes from one of these must send the header; nobody else may.
    pub proxies: Vec<IpNet>,
}

impl Access {
    /// Whether a client at `ip` may come.
    pub fn admits(&self, ip: IpAddr) -> bool {
        self.allow.as_ref().is_none_or(|blocks| contain(blocks, ip))
    }

    /// Whether `ip` is a proxy whose word counts.
    pub fn trusts(&self, ip: IpAddr) -> bool {
        contain(&self.proxies, ip)
    }
}

/// What would be right where a listener that others can reach does not say who may come.
pub const SAY_WHO_MAY_COME: &str =
    "write allow = [\"10.0.0.0/8\"] for the clients' networks; [\"0.0.0.0/0\", \"::/0\"] is everyone";

fn contain(blocks: &[IpNet], ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    blocks.iter().any(|block| block.contains(&ip))
}

/// Reads the keys of a listener that say who may come.
pub(super) fn read(section: &mut Section<'_>, address: Option<&Address>) -> Access {
    let allow = section.list("allow", block);
    let proxies = section.list("proxy_protocol_from", block);
    if section.is_empty_list("allow") {
        section.complain("allow", "allow is empty, so no client could come", SAY_WHO_MAY_COME);
    }
    if let Some(Address::Unix(_)) = address {
        for (key, given) in [("allow", allow.is_some()), ("proxy_protocol_from", proxies.is_some())] {
            if given {
                let wrong = format!("{key} has no use for a unix socket, whose clients have no address");
                section.complain(key, wrong, "remove it; the directory's permissions say who may come");
            }
        }
    }
    Access { allow, proxies: proxies.unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_admit_what_they_contain_however_it_is_written() {
        let access = Access { allow: Some(vec!["10.0.0.0/8".parse().unwrap()]), proxies: Vec::new() };
        assert!(
            access.admits("10.1.2.3".parse().unwrap()) && access.admits("::ffff:10.1.2.3".parse().unwrap())
        );
        assert!(!access.admits("11.0.0.1".parse().unwrap()) && !access.admits("::1".parse().unwrap()));
        assert!(Access::default().admits("11.0.0.1".parse().unwrap()));
        assert!(!access.trusts("10.1.2.3".parse().unwrap()));
    }
}
