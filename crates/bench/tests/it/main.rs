//! The binary `headroom-bench` as a child process, on real servers of a lab. It starts the `headroom` beside
//! it, which `cargo test --workspace` builds; alone, build that first: `cargo build -p headroom`.

#![allow(clippy::unwrap_used, reason = "a test that cannot do its next step has failed")]

mod soak;
