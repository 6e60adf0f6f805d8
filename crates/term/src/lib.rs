//! What a person at a terminal or in a log sees: text on standard output, complaints and log lines on
//! standard error, tables, colour, progress, and the exit codes. The only home of standard output apart from
//! the binaries, so that all commands print, colour and exit alike.
//!
//! It uses no other crate of ours. Read first:
//!
//! * `terminal.rs`: what is printed and how it is coloured;
//! * `progress.rs`: a bar on a terminal, plain lines elsewhere;
//! * `exit.rs`: the exit codes, and an error as one line;
//! * `log.rs`: log lines, which never make anybody wait; `no_room.rs` keeps them whole on a full disk.
//!
//! `pager.rs` shows a page that is longer than the terminal and changes; `command_line.rs` is a command to
//! copy.

mod command_line;
pub mod exit;
mod interrupted;
pub mod log;
pub mod log_filter;
pub mod no_room;
pub mod pager;
mod progress;
mod table;
pub mod terminal;

pub use command_line::CommandLine;
pub use interrupted::{StopFlag, StopSignals, interrupted};
pub use progress::{Progress, Seconds};
pub use table::Table;
pub use terminal::{Paint, complain, print, print_json, printable};
