//! Sessions and logins as bytes: recorded from real servers, scripted, and random.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bridge;
mod session;
