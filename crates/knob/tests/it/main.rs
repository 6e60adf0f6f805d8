//! Settings of made-up hosts and of real servers; `mysql` needs the mysqld that `make test-mysql` brings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod mysql;
mod rows;
mod server;
mod states;
mod tree;
