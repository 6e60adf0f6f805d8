//! What more load, cores, memory, hosts, replicas or a zone would mean: measured here, predicted by the
//! models of `plan`, priced from the user's file, kept, and later compared with what came.
//!
//! * [`load_answer`]: more load or more cores, from [`load_point`] (runs, trials, an agent's history) or from
//!   a [`ladder`]; growth is counted from a [`baseline`];
//! * [`disks`]: another host's disk in the place of this one;
//! * [`estimate`]: the same, estimated from what the kernel sees read ([`block_reads`]);
//! * [`memory`]: the buffer pool at several sizes, on a server that nobody needs meanwhile, under a workload
//!   or the reads of a recording ([`pool_load`]);
//! * [`inventory`], [`guests`] and [`placement`]: which role on which host, with what roles want ([`demand`])
//!   by the histories of agents;
//! * [`replicas`]: readers in each zone, growth, the day when a primary is outgrown;
//! * [`ledger`]: predictions as they were made; [`outcome`]: beside what came;
//! * [`page`]: all of it on one page, beside what stops the server [`now`].
//!
//! May use `fleet`, `config`, `plan`, `chart`, `observe`, `diagnose`, `load`, `knob`, `probe` and `term`.
//! Settings are changed through `knob` alone.

pub mod baseline;
pub mod block_reads;
pub mod demand;
pub mod disks;
pub mod estimate;
pub mod file;
pub mod guests;
pub mod inventory;
pub mod ladder;
pub mod ledger;
pub mod lets_encrypt;
pub mod load_answer;
pub mod load_point;
pub mod memory;
pub mod memory_chart;
pub mod now;
pub mod outcome;
pub mod page;
pub mod placement;
pub mod pool_load;
pub mod prices;
pub mod replicas;
pub mod server;
pub mod words;
