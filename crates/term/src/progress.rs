//! The progress of long work, on standard error: a bar where that is a terminal, plain lines elsewhere.

use crate::terminal::complain;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar still moves this often while nothing is reported.
const TICK: Duration = Duration::from_millis(200);

/// The bar, or lines. Dropped, it takes the bar away.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// For this many steps; `template` says how the bar looks, in indicatif's words.
    pub fn new(steps: u64, template: &str) -> Self {
        let bar = ProgressBar::new(steps);
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar }
    }

    /// The same, with a bar that moves by itself.
    pub fn ticking(self) -> Self {
        self.bar.enable_steady_tick(TICK);
        self
    }

    /// What is being done now, beside the bar; nothing where there is none.
    pub fn doing(&self, what: String) {
        self.bar.set_message(what);
        self.bar.tick();
    }

    /// The same, and `line` where there is no bar.
    pub fn doing_or_line(&self, what: String, line: impl FnOnce() -> String) {
        if self.bar.is_hidden() {
            complain(&line());
        } else {
            self.bar.set_message(what);
        }
    }

    /// A line of its own, above the bar.
    pub fn line(&self, text: &str) {
        if self.bar.is_hidden() {
            complain(text);
        } else {
            self.bar.println(text);
        }
    }

    /// One step is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Takes the bar away, as dropping it does.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The progress of what takes a known time: a bar of seconds on a terminal, a line every ten seconds
/// elsewhere.
#[derive(Debug)]
pub struct Seconds {
    progress: Progress,
    total: u64,
    /// The second that was shown last.
    shown: Option<u64>,
}

impl Seconds {
    /// A line a second would bury what stands before it.
    const EVERY: u64 = 10;

    /// For something that takes this long.
    pub fn new(time: Duration) -> Self {
        let total = (time.as_secs_f64().ceil() as u64).max(1);
        let progress = Progress::new(total, "{bar:30} {pos}/{len} s  {msg}");
        Self { progress, total, shown: None }
    }

    /// So much time has passed. It may be called as often as one likes: `what` is asked for once a second.
    pub fn show(&mut self, since: Duration, what: impl FnOnce() -> String) {
        let second = since.as_secs();
        if self.shown.replace(second) == Some(second) {
            return;
        }
        let bar = &self.progress.bar;
        bar.set_position(second);
        if !bar.is_hidden() {
            bar.set_message(what());
        } else if second > 0 && second.is_multiple_of(Self::EVERY) {
            complain(&format!("{second} s of {} s: {}", self.total, what()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_going_on_is_asked_for_once_a_second_at_most() {
        let (mut seconds, mut asked) = (Seconds::new(Duration::from_secs(30)), 0);
        for tenth in 0..=200 {
            seconds.show(Duration::from_millis(tenth * 100), || {
                asked += 1;
                String::new()
            });
        }
        // Twice where there is no terminal, 21 times on one.
        assert!(asked == 2 || asked == 21, "{asked}");
    }
}
