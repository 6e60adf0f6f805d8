//! Seam: watcher and router.
