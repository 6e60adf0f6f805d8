//! The way of sessions' bytes through the router.

use serde::Serialize;
use std::fmt;

/// Which way is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DataPath {
    /// io_uring where the kernel allows it, else epoll.
    #[default]
    Auto,
    /// io_uring, or the router does not start.
    IoUring,
    /// epoll.
    Epoll,
}

impl DataPath {
    /// Every way with its word.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("io_uring", Self::IoUring), ("epoll", Self::Epoll)];

    /// Its word in configuration, status and metrics.
    pub fn as_str(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_word() {
        for (word, way) in DataPath::ALL {
            assert_eq!(way.as_str(), word);
        }
    }
}
