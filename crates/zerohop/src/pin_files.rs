//! Pin files: what the pins of maps and links are called in a directory on bpffs, and how they are removed.

use crate::{mounts, sys};
use std::path::{Path, PathBuf};

/// File of a map.
pub(crate) fn map_name(name: &str) -> String {
    format!("map_{name}")
}

/// How the files of links begin.
pub(crate) const LINK: &str = "link_";

/// File of a link.
pub(crate) fn link_name(name: &str) -> String {
    format!("{LINK}{name}")
}

/// Removes a directory of pins.
pub(crate) fn clear(directory: &Path) {
    clear_files(directory);
    // What cannot be removed shows in that its directory stays.
    let _ = std::fs::remove_dir(directory);
}

/// Removes the pins: links first, so that no program runs on maps that were removed. When this returns, none
/// runs any more.
pub(crate) fn clear_files(directory: &Path) {
    if !mounts::is_on_bpffs(directory) {
        return;
    }
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let is_link = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(LINK));
        if is_link && let Ok(link) = sys::get(&file) {
            // One whose cgroup was removed is detached already.
            let _ = sys::detach(&link);
        }
        let _ = std::fs::remove_file(file);
    }
}
