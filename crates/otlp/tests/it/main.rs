//! The exporter against a receiver of OTLP on this machine: what arrives is what `/metrics` says, what a
//! receiver answers is heeded, and whoever ends sessions never waits.

#![allow(clippy::unwrap_used, reason = "a test that cannot do its next step has failed")]

mod lines;
mod metrics;
mod receiver;
mod spans;
mod support;
