//! The configuration file as operators write it: the example, and what is complained of.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod complaints;
mod example;
