//! What insight counts, against what the servers and an application count themselves, on the same run.

#![allow(clippy::print_stdout, reason = "its figures are shown")]

pub(crate) mod agreement;
mod application;
mod mariadb;
mod stand;
