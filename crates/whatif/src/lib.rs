//! What more load, cores, memory, hosts, replicas or a zone would mean: measured here, predicted by the
//! models of `plan`, priced from the user's file, kept, and later compared with what came.
//!
//! * [`load_answer`]: more load or more cores, from [`load_point`] (runs, trials, an agent's history) or from
//!   a [`ladder`];
//! * [`memory`]: the buffer pool at several sizes, on a server that nobody needs meanwhile;
//! * [`inventory`] and [`placement`]: which role on which host;
//! * [`replicas`]: readers in each zone, growth, the day when a primary is outgrown;
//! * [`ledger`]: predictions as they were made; [`outcome`]: beside what came;
//! * [`page`]: all of it on one page.
//!
//! May use `fleet`, `config`, `plan`, `chart`, `observe`, `load`, `knob` and `term`. Settings are changed
//! through `knob` alone.

pub mod inventory;
pub mod ladder;
pub mod ledger;
pub mod lets_encrypt;
pub mod load_answer;
pub mod load_point;
pub mod memory;
pub mod outcome;
pub mod page;
pub mod placement;
pub mod prices;
pub mod replicas;
pub mod server;
pub mod words;
