//! Whole sessions through the router, between scripted servers and raw clients.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bytes;
mod change;
mod fake;
mod login;
mod place;
mod refuse;
