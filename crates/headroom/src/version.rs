//! What `--version` prints: the version, and the commit it was built from (`build.rs`).

/// `0.1.0 (commit 282a697c1d2e)`; the commit is `unknown` where there was no repository.
pub(crate) const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("HEADROOM_COMMIT"), ")");
