//! A `headroom.toml` for each zone of a lab, written into the lab's directory, gone with it.

use anyhow::Context;
use lab::{RouterOptions, Status};
use std::path::PathBuf;

/// Where the file of a zone is.
pub(super) fn path(status: &Status, zone: &str) -> PathBuf {
    status.dir.join(format!("headroom-{zone}.toml"))
}

/// Writes a file for every zone.
pub(super) fn write_all(status: &Status) -> anyhow::Result<()> {
    for zone in &status.zones {
        let path = path(status, zone);
        std::fs::write(&path, status.router_config(zone, &RouterOptions::default())?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
