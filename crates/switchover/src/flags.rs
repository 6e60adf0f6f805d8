//! The flags that a command was started with. What it prints for a person to type next has them too: without
//! them that would find no server, no account and no journal.

/// As they are typed, quoted for a shell; empty without any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags(String);

impl Flags {
    pub fn new(typed: impl Into<String>) -> Self {
        Self(typed.into())
    }

    /// The command that these words begin, to be typed as it is.
    pub fn after(&self, words: &str) -> String {
        format!("{words} {}", self.0).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_to_type_next_has_the_flags_of_the_one_before() {
        let flags = Flags::new("--config f.toml --admin-option-file admin.cnf");
        assert_eq!(
            flags.after("headroom switchover --resume"),
            "headroom switchover --resume --config f.toml --admin-option-file admin.cnf"
        );
        assert_eq!(Flags::default().after("headroom failover"), "headroom failover");
    }
}
