//! `headroom top` for people: which statements, endpoints and servers take the time. A screen on a terminal
//! ([`run`]), a table elsewhere ([`text`]).

mod keys;
mod screen;
mod table;

pub use keys::run;
pub use table::text;
