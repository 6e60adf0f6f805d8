//! What insight counts, against what the servers and an application count themselves, on the same run.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and its figures are shown"
)]

mod agreement;
mod application;
mod mariadb;
mod stand;
