//! The data plane: which server the next session gets (`pick`), the sessions themselves (`session`, `relay`), and when
//! one is placed anew (`placement`). Decides on the snapshots that `observe` publishes; asks no server itself.

mod apportion;
pub mod eligible;
pub mod flow;
pub mod pick;
pub mod suspect;
pub mod view;
