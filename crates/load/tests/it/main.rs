//! The generator against queues that are known, and on real servers; `mysql` needs the mysqld that `make
//! test-mysql` brings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::duplicate_mod, reason = "the tests of `server` run on both data paths")]

mod built_in;
mod mysql;
mod server;
mod server_epoll;
mod theory;
