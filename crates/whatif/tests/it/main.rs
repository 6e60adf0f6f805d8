//! What is measured on real servers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod memory;
