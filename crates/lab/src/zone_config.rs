//! A `headroom.toml` for each zone of a lab, written into the lab's directory, gone with it.

use crate::{Error, RouterOptions, Status};
use std::path::PathBuf;

/// Where the file of a zone is.
pub fn path(status: &Status, zone: &str) -> PathBuf {
    status.dir.join(format!("headroom-{zone}.toml"))
}

/// Writes a file for every zone.
///
/// # Errors
/// A file cannot be written.
pub fn write_all(status: &Status) -> Result<(), Error> {
    for zone in &status.zones {
        let path = path(status, zone);
        std::fs::write(&path, status.router_config(zone, &RouterOptions::default())?)
            .map_err(|source| Error::Io { action: format!("write {}", path.display()), source })?;
    }
    Ok(())
}
