//! A pair of virtual interfaces: one end on this host, the other in a network namespace of the bench's own.
//! Addresses are from the block for benchmarks (RFC 2544).

use anyhow::{Context, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

const NAMESPACE: &str = "headroom-bench";
const NEAR_NAME: &str = "hrbench0";
/// The end in the namespace.
pub(super) const FAR_NAME: &str = "hrbench1";
pub(super) const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 77, 1);
pub(super) const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 77, 2);

/// The pair; dropped, it is removed with its namespace, and with all that stands in there.
pub(super) struct Pair(());

impl Pair {
    /// Makes it, in place of one that a killed run left.
    ///
    /// # Errors
    /// Not root, or there is no `ip`.
    pub(super) fn make() -> anyhow::Result<Self> {
        remove();
        let pair = Self(());
        let address = |address: Ipv4Addr| format!("{address}/30");
        ip(&["netns", "add", NAMESPACE])?;
        ip(&["link", "add", NEAR_NAME, "type", "veth", "peer", "name", FAR_NAME, "netns", NAMESPACE])?;
        ip(&["address", "add", &address(NEAR), "dev", NEAR_NAME])?;
        ip(&["link", "set", NEAR_NAME, "up"])?;
        ip(&["-n", NAMESPACE, "address", "add", &address(FAR), "dev", FAR_NAME])?;
        ip(&["-n", NAMESPACE, "link", "set", FAR_NAME, "up"])?;
        Ok(pair)
    }

    /// Hands all packets that come to the far end to CPU 0.
    pub(super) fn hand_to_one_cpu(&self) -> anyhow::Result<()> {
        let one_cpu = format!("echo 1 > /sys/class/net/{FAR_NAME}/queues/rx-0/rps_cpus");
        ip(&["netns", "exec", NAMESPACE, "sh", "-c", &one_cpu])
    }

    /// Runs it in the namespace, on a thread that goes there and ends: sockets made there stay there.
    ///
    /// # Errors
    /// What it said, or the namespace cannot be entered.
    pub(super) fn far<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let there = std::thread::spawn(move || {
            let namespace = File::open(format!("/run/netns/{NAMESPACE}")).context("opening the namespace")?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .context("entering the namespace (needs root)")?;
            work()
        });
        there.join().map_err(|_| anyhow::anyhow!("the thread in the namespace broke down"))?
    }
}

/// Runs lines of `ip` in the namespace; those that fail are left out.
pub(super) fn batch(lines: &str) -> anyhow::Result<()> {
    let mut child = Command::new("ip")
        .args(["-n", NAMESPACE, "-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting ip (package iproute2)")?;
    let written = child.stdin.take().context("no way to ip")?.write_all(lines.as_bytes());
    child.wait().context("waiting for ip")?;
    written.context("speaking with ip")
}

impl Drop for Pair {
    fn drop(&mut self) {
        remove();
    }
}

fn remove() {
    // Not there is as good as removed.
    let _ = ip(&["link", "delete", NEAR_NAME]);
    let _ = ip(&["netns", "delete", NAMESPACE]);
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("ip").args(arguments).output().context("starting ip (package iproute2)")?;
    if !output.status.success() {
        bail!("ip {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
