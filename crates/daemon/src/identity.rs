//! What a router's zero-hop is known by in the kernel.

use config::Sourced;
use console::control::stable_hash;
use router::zero_hop::Identity;
use std::path::PathBuf;

/// What the zero-hop of this configuration is known by: the same for the next process with the same file (or,
/// without one, the same listeners) in the same network namespace.
pub fn of(sourced: &Sourced) -> Identity {
    let listeners = || {
        let all = sourced.config.listeners.iter().map(|listener| listener.address.to_string());
        all.collect::<Vec<_>>().join(" ")
    };
    let whole = |file: &PathBuf| file.canonicalize().unwrap_or_else(|_| file.clone());
    let title = sourced.file.as_ref().map_or_else(listeners, |file| whole(file).display().to_string());
    // Without /proc all are taken for one, as they are on most hosts.
    let namespace = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let stem = sourced.file.as_ref().and_then(|file| file.file_stem()?.to_str()).unwrap_or("flags");
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let stem: String = stem.chars().map(plain).take(32).collect();
    let hash = stable_hash(format!("{title} {}", namespace.display()).as_bytes());
    Identity { name: format!("{stem}-{hash:016x}"), title }
}
