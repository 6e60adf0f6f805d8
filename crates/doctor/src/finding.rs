//! A finding, and the report that holds all of them: one page for people, the same as JSON.

use serde::Serialize;
use std::fmt::Write;
use term::Paint;

/// How a finding is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should be.
    Pass,
    /// It works, and something is lost.
    Warn,
    /// Something that was asked for does not work.
    Fail,
    /// It could not be looked at.
    Unknown,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whose it is: `this host`, a server's name, a listener's address.
    pub subject: String,
    /// What was looked at, in a stable word.
    pub check: &'static str,
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What is lost by it.
    pub costs: Option<String>,
    /// What mends it: a command, a statement or a line of a file.
    pub mend: Option<String>,
}

/// Everything that was looked at, in the order of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub findings: Vec<Finding>,
}

impl Status {
    const ALL: [Self; 4] = [Self::Pass, Self::Warn, Self::Fail, Self::Unknown];

    /// Its word on the page and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Unknown => "unknown",
        }
    }
}

impl Finding {
    fn new(status: Status, subject: &str, check: &'static str, found: impl Into<String>) -> Self {
        let subject = subject.to_owned();
        Self { subject, check, status, found: found.into(), costs: None, mend: None }
    }

    /// As it should be.
    pub fn pass(subject: &str, check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Status::Pass, subject, check, found)
    }

    /// Something is lost.
    pub fn warn(subject: &str, check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Status::Warn, subject, check, found)
    }

    /// Something that was asked for does not work.
    pub fn fail(subject: &str, check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Status::Fail, subject, check, found)
    }

    /// It could not be looked at.
    pub fn unknown(subject: &str, check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Status::Unknown, subject, check, found)
    }

    /// What is lost by it.
    #[must_use]
    pub fn costs(mut self, costs: impl Into<String>) -> Self {
        self.costs = Some(costs.into());
        self
    }

    /// What mends it.
    #[must_use]
    pub fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    /// A loss that the configuration does not accept is a failure.
    #[must_use]
    pub fn fail_if(mut self, demanded: bool) -> Self {
        if demanded && self.status == Status::Warn {
            self.status = Status::Fail;
        }
        self
    }
}

impl Report {
    /// How many findings are of this kind.
    pub fn count(&self, status: Status) -> usize {
        self.findings.iter().filter(|finding| finding.status == status).count()
    }

    /// Whether nothing that was asked for fails.
    pub fn is_sound(&self) -> bool {
        self.count(Status::Fail) == 0
    }

    /// The page: a block for each subject, a line for each finding, what it costs and what mends it below.
    pub fn text(&self, paint: Paint) -> String {
        let widest = self.findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
        let (mut text, mut subject) = (String::new(), None);
        for finding in &self.findings {
            if subject != Some(&finding.subject) {
                let gap = if subject.is_some() { "\n" } else { "" };
                let _ = writeln!(text, "{gap}{}", paint.bold(&finding.subject));
                subject = Some(&finding.subject);
            }
            let word = format!("{:<7}", finding.status.word());
            let word = match finding.status {
                Status::Pass => paint.green(&word),
                Status::Warn => paint.yellow(&word),
                Status::Fail => paint.red(&word),
                Status::Unknown => paint.dim(&word),
            };
            let _ = writeln!(text, "  {word}  {:<widest$}  {}", finding.check, finding.found);
            let below = " ".repeat(2 + 7 + 2 + widest + 2);
            if let Some(costs) = &finding.costs {
                let _ = writeln!(text, "{below}{costs}");
            }
            if let Some(mend) = &finding.mend {
                let _ = writeln!(text, "{below}{} {mend}", paint.bold("to mend it:"));
            }
        }
        let counts = Status::ALL.map(|status| format!("{} {}", self.count(status), status.word()));
        text + "\n" + &counts.join(", ") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_fails_only_where_it_was_demanded() {
        let warn = || Finding::warn("this host", "io_uring", "forbidden");
        assert_eq!(warn().fail_if(false).status, Status::Warn);
        assert_eq!(warn().fail_if(true).status, Status::Fail);
        assert_eq!(Finding::pass("this host", "io_uring", "there").fail_if(true).status, Status::Pass);
        let report = Report { findings: vec![warn(), Finding::unknown("db1", "clock", "it did not say")] };
        assert!(report.is_sound());
        assert!(!Report { findings: vec![warn().fail_if(true)] }.is_sound());
    }

    #[test]
    fn the_page_has_what_it_costs_and_what_mends_it_below_each_finding() {
        let findings = vec![
            Finding::pass("this host", "kernel", "Linux 6.12"),
            Finding::warn("this host", "io_uring", "forbidden").costs("more CPU").mend("allow it"),
            Finding::fail("db1", "login", "refused"),
        ];
        let expected = "\
this host
  pass     kernel    Linux 6.12
  warn     io_uring  forbidden
                     more CPU
                     to mend it: allow it

db1
  fail     login     refused

1 pass, 1 warn, 1 fail, 0 unknown
";
        assert_eq!(Report { findings }.text(Paint::off()), expected);
    }
}
