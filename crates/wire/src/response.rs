//! The server's answers: OK, EOF and ERR packets, and result sets.

mod err;
mod ok;
mod result_set;

pub use err::{ErrPacket, error_code};
pub use ok::{Eof, OkPacket, SessionChange};
pub use result_set::{Column, TextResult, text_row};
