//! Whole sessions through the router. `alone` needs the whole machine, `waiting` mostly waits, `mysql` needs
//! the mysqld that `make test-mysql` brings: scripts/test.sh runs each of them in its own lane.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::duplicate_mod, reason = "the sessions run twice: on io_uring, and again on epoll")]

mod alone;
mod convergence;
mod cut;
mod goodbye;
mod insight;
mod mysql;
mod probes;
mod proxy;
mod real;
mod sessions;
mod sessions_epoll;
mod sight;
mod stand;
mod tls;
mod transcript;
mod waiting;
mod watching;
