//! The method of experiments on simulated hosts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod simulation;
