//! Now: the bottleneck of a server or a host at this moment, as `headroom watch` and its agent name it. Kept
//! apart from predictions: it is what stops the server today, and a purchase that does not touch it buys
//! nothing.

use serde::Serialize;

/// What stops it now.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BottleneckNow {
    /// The server, or the host, by name.
    pub of: String,
    /// In words, or that there is none.
    pub verdict: String,
    /// Figures with their thresholds, in words.
    pub evidence: Vec<String>,
    /// The cheapest thing to try.
    pub next: Option<String>,
}

impl BottleneckNow {
    /// The evidence and what to try, in one line.
    pub fn why(&self) -> String {
        let next = self.next.iter().map(|next| format!("try next: {next}"));
        self.evidence.iter().cloned().chain(next).collect::<Vec<_>>().join("; ")
    }
}

/// Those that belong on a page about `subject`: its own where it is among them, else all, because a server
/// may be called otherwise by whoever watches it.
pub fn about(subject: Option<&str>, all: Vec<BottleneckNow>) -> Vec<BottleneckNow> {
    let is_own = |one: &BottleneckNow| Some(one.of.as_str()) == subject;
    if all.iter().any(is_own) { all.into_iter().filter(is_own).collect() } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_watched_under_its_name_stands_alone() {
        let of = |name: &str| BottleneckNow { of: name.to_owned(), ..BottleneckNow::default() };
        let all = || vec![of("db1"), of("db2")];
        assert_eq!(about(Some("db2"), all()), [of("db2")]);
        assert_eq!(about(Some("10.0.0.2:3306"), all()).len(), 2);
        assert_eq!(about(None, all()).len(), 2);
    }
}
