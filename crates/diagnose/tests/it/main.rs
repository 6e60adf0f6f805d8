//! This machine and real servers, as their samplers see them. `waiting` mostly waits, `mysql` needs the mysqld that
//! `make test-mysql` brings: scripts/test.sh runs each of them in a lane of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod guide;
mod host;
mod mysql;
mod scene;
mod server;
mod waiting;
mod waits;
