//! What the statements that pass through a router tell.
mod digest;
mod fold;
pub use digest::{Dialect, Digester, LIMIT, Span};
