//! The lab on real servers of this machine; `mysql` needs the mysqld that `make test-mysql` brings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod app;
mod faults;
mod mysql;
mod scripted;
mod servers;
mod until;
