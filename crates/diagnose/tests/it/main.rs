//! Readings of real servers and of this host, and what is made of them. `waiting` mostly waits, `mysql` needs
//! the mysqld that `make test-mysql` brings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod guide;
mod host;
mod mysql;
mod server;
mod waiting;
