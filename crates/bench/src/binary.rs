//! The `headroom` that is measured: the one that was built beside this program.

use anyhow::Context;
use std::path::PathBuf;

/// Its path.
///
/// # Errors
/// There is none beside us.
pub(crate) fn headroom() -> anyhow::Result<PathBuf> {
    let ourselves = std::env::current_exe().context("finding this program's own file")?;
    let beside = ourselves.with_file_name("headroom");
    anyhow::ensure!(
        beside.is_file(),
        "{} is missing: build it with cargo build --release -p headroom -p bench",
        beside.display()
    );
    Ok(beside)
}
