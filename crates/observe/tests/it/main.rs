//! Who is who, asked from real servers: every oddity is seen for what it is, with its reason in words.
//! `mysql` needs the mysqld that `make test-mysql` brings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asking;
mod cloud;
mod demand;
mod hostile;
mod lag;
mod mysql;
mod privilege;
mod roles;
mod scene;
mod tls;
mod trouble;
