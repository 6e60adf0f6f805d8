//! Moves of the primary on real servers; `mysql` needs the mysqld that `make test-mysql` brings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod checks;
mod events;
mod failover;
mod faults;
mod gray;
mod guard;
mod mariadb;
mod moving;
mod mysql;
