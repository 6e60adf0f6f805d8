//! What a person reads of the command line, all of it made of the one table of commands that parses it: help
//! texts that fit a terminal, man pages, and completions for shells. So none of them can say something else
//! than the program does.

mod completion;
mod epilogue;
mod page;

pub use completion::{Shell, completions};
pub use epilogue::{fit, ragged};
pub use page::{Page, find, pages};
