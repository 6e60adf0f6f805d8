//! The table of tracked connections, nearly full: entries written over netlink (`ctnetlink`), as `conntrack
//! -I` does, from the block of addresses for benchmarks (RFC 2544). Nobody is refused one: the table is
//! filled to less than its limit. They are deleted one by one at the end, so that no other entry is touched,
//! and expire by themselves should this process have died.
//!
//! Messages are those of `nfnetlink_conntrack.h`: a header, four bytes (family, version, resource),
//! attributes; lengths and types in the machine's order of bytes, addresses, ports and times in the
//! network's.

use anyhow::{Context, bail};
use rustix::net::netlink::NETFILTER;
use rustix::net::{AddressFamily, SendFlags, SocketType, send, socket};
use std::os::fd::OwnedFd;
use std::time::Duration;

const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
const LIMIT: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
/// More than this many entries are not made: each takes some 400 bytes of the kernel's memory.
pub(super) const MOST: u64 = 1_000_000;
/// How long entries outlive the making whose process died.
const LEFT: Duration = Duration::from_secs(30);
/// Messages in one system call.
const BATCH: u32 = 200;

/// Of the subsystem that tracks connections: make one, delete one.
const NEW: u16 = 0x100;
const DELETE: u16 = 0x102;
const REQUEST: u16 = 0x1;
/// Only where there is none.
const CREATE: u16 = 0x200 | 0x400;
const INET: u8 = 2;
const UDP: u8 = 17;
/// An attribute that has attributes.
const NESTED: u16 = 0x8000;
const TUPLE_ORIGINAL: u16 = 1;
const TUPLE_REPLY: u16 = 2;
const TIMEOUT: u16 = 7;
const TUPLE_IP: u16 = 1;
const TUPLE_PROTOCOL: u16 = 2;
const SOURCE: u16 = 1;
const DESTINATION: u16 = 2;
const PROTOCOL: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;

/// The entries; dropped, they are deleted.
pub(super) struct Tracked {
    netlink: OwnedFd,
    count: u32,
}

impl Tracked {
    /// Fills the table to this share of its limit, for a little longer than `time`. Takes a second or two.
    ///
    /// # Errors
    /// Not root, no connections are tracked here, or the kernel took too few entries.
    pub(super) fn begin(share: f64, time: Duration) -> anyhow::Result<Self> {
        let (there, limit) = (read(COUNT)?, limit()?);
        let wanted = (limit as f64 * share) as u64;
        if wanted > MOST {
            bail!("{wanted} entries would be needed, more than {MOST} are not made");
        }
        let count = u32::try_from(wanted.saturating_sub(there)).context("too many entries")?;
        let netlink = socket(AddressFamily::NETLINK, SocketType::RAW, Some(NETFILTER))
            .context("opening a netlink socket to netfilter")?;
        let tracked = Self { netlink, count };
        tracked.send(|number| message(NEW, REQUEST | CREATE, number, Some(time + LEFT)))?;
        let now = read(COUNT)?;
        if now < wanted * 99 / 100 {
            bail!("the kernel keeps {now} tracked connections instead of {wanted} (is this process root?)");
        }
        Ok(tracked)
    }

    fn send(&self, message: impl Fn(u32) -> Vec<u8>) -> anyhow::Result<()> {
        let mut number = 0;
        while number < self.count {
            let until = self.count.min(number + BATCH);
            let batch: Vec<u8> = (number..until).flat_map(&message).collect();
            send(&self.netlink, &batch, SendFlags::empty()).context("speaking with netfilter")?;
            number = until;
        }
        Ok(())
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if let Err(error) = self.send(|number| message(DELETE, REQUEST, number, None)) {
            tracing::warn!(%error, "tracked connections of the bench stay until they expire");
        }
    }
}

/// How many connections this host may track.
pub(super) fn limit() -> anyhow::Result<u64> {
    read(LIMIT)
}

fn read(path: &str) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    text.trim().parse().with_context(|| format!("{path} is no number"))
}

/// A message about the entry of this number; with the time after which it expires where it is made.
fn message(kind: u16, flags: u16, number: u32, expires: Option<Duration>) -> Vec<u8> {
    let near = [198, 18, 77, 1];
    let [_, _, high, low] = number.to_be_bytes();
    let far = [198, 19, high, low];
    let (near_port, far_port) = (9, 10_000 + (number >> 16) as u16);
    let mut body = vec![INET, 0, 0, 0];
    body.extend(tuple(TUPLE_ORIGINAL, (near, near_port), (far, far_port)));
    if let Some(expires) = expires {
        body.extend(tuple(TUPLE_REPLY, (far, far_port), (near, near_port)));
        body.extend(attribute(TIMEOUT, &u32::try_from(expires.as_secs()).unwrap_or(u32::MAX).to_be_bytes()));
    }
    let length = 16 + body.len() as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // A number, and whose it is: nobody asks for an answer.
    message.extend([0; 8]);
    message.extend(body);
    message
}

fn tuple(kind: u16, (from, from_port): ([u8; 4], u16), (to, to_port): ([u8; 4], u16)) -> Vec<u8> {
    let addresses = [attribute(SOURCE, &from), attribute(DESTINATION, &to)].concat();
    let protocol = [
        attribute(PROTOCOL, &[UDP]),
        attribute(SOURCE_PORT, &from_port.to_be_bytes()),
        attribute(DESTINATION_PORT, &to_port.to_be_bytes()),
    ];
    let parts =
        [attribute(TUPLE_IP | NESTED, &addresses), attribute(TUPLE_PROTOCOL | NESTED, &protocol.concat())];
    attribute(kind | NESTED, &parts.concat())
}

/// Its length without what fills it up to four bytes, its type, its value.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let mut attribute = (length as u16).to_ne_bytes().to_vec();
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(value);
    attribute.resize(length.next_multiple_of(4), 0);
    attribute
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_as_long_as_it_says_and_no_two_name_the_same_connection() {
        let made = message(NEW, REQUEST | CREATE, 70_000, Some(Duration::from_secs(60)));
        assert_eq!(u32::from_ne_bytes(made[..4].try_into().unwrap()) as usize, made.len());
        assert_eq!(made.len() % 4, 0, "the next one begins right behind it");
        // 70,000 is 1 * 65,536 + 4,464: the address is 198.19.17.112, the port 10,001.
        let holds = |attribute: &[u8]| made.windows(attribute.len()).any(|bytes| bytes == attribute);
        assert!(holds(&attribute(DESTINATION, &[198, 19, 17, 112])), "{made:?}");
        assert!(holds(&attribute(DESTINATION_PORT, &10_001u16.to_be_bytes())), "{made:?}");
        let others = [4_464, 70_001, 135_536].map(|number| message(DELETE, REQUEST, number, None));
        assert!(others.iter().all(|other| *other != message(DELETE, REQUEST, 70_000, None)));
    }
}
