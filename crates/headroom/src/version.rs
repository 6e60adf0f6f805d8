//! What `--version` prints: the version, the commit it was built from (`build.rs`), and what it was built
//! with.

use std::fmt::Write;
use std::sync::LazyLock;

/// `0.1.0 (commit 282a697c1d2e, with lab, zero-hop)`; the commit is `unknown` where there was no repository.
pub(crate) fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let mut text = concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("HEADROOM_COMMIT")).to_owned();
        let features = features().collect::<Vec<_>>().join(", ");
        let _ = if features.is_empty() { write!(text, ")") } else { write!(text, ", with {features})") };
        text
    });
    &VERSION
}

/// Parts that a build may lack: the lab and OTLP are features of Cargo, the programs of zero-hop need clang.
fn features() -> impl Iterator<Item = &'static str> {
    let parts =
        [("lab", cfg!(feature = "lab")), ("otlp", cfg!(feature = "otlp")), ("zero-hop", zerohop::BUILT)];
    parts.into_iter().filter_map(|(name, built)| built.then_some(name))
}
