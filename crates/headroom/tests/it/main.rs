//! The binary `headroom` as a child process, on real servers of a lab. `alone` needs the whole machine,
//! `waiting` mostly waits, `mysql` and `drivers` need what `make test` brings: scripts/test.sh runs each of
//! them in its own lane.

#![allow(clippy::unwrap_used, reason = "a test that cannot do its next step has failed")]

mod agent;
mod alone;
mod arrows;
mod check;
mod circles;
mod cli;
mod client_certificates;
mod clock;
mod demo;
mod descriptors;
mod doctor;
mod drivers;
mod epochs;
mod events;
mod failover;
mod fleet_page;
mod gray;
mod guard;
mod help;
mod knob;
mod load;
mod managed;
mod manual;
mod monitoring;
mod mysql;
mod names;
mod no_tls;
mod objectives;
mod outcomes;
mod packages;
mod pages;
mod pages_link;
mod plan;
mod probe;
mod record;
mod route;
mod scripts;
mod sealed_page;
mod security_page;
mod shapes;
mod supervise;
mod support;
mod trial;
mod upgrade;
mod waiting;
mod warm;
mod watch_page;
mod zero_hop;
