//! Faults that tests and the soak make, to see that they are made good. Nothing in the product makes them:
//! who uses this crate does.

use std::str::FromStr;
use std::time::Duration;

/// What is to go wrong, by the number of a thread or listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A thread that lets sessions in panics.
    ThreadPanics(usize),
    /// It stands still for this long.
    ThreadStalls(usize, Duration),
    /// It ends, as if it could not be started anew.
    ThreadEnds(usize),
    /// The ring's thread beside it meets this.
    Ring(usize, RingFault),
    /// A listener's task panics.
    ListenerPanics(usize),
    RebalancerPanics,
    /// The thread that adds up what statements tell panics.
    InsightPanics,
}

/// What happens to a ring's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingFault {
    Panics,
    /// It stands still for this long.
    Stalls(Duration),
    /// The kernel refuses the ring.
    Refused,
}

/// Words that name no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownFault(String);

impl FromStr for Fault {
    type Err = UnknownFault;

    /// `ring 0 panics`, `thread 0 panics`, `listener 1 panics`, `rebalancer panics`, `insight panics`, and
    /// `refused`, `ends`, `stalls MILLISECONDS` where they can be.
    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |word: &str| word.parse().map_err(|_| UnknownFault(format!("'{word}' is no number")));
        let time = |word: &str| number(word).map(|ms: usize| Duration::from_millis(ms as u64));
        Ok(match words.as_slice() {
            ["rebalancer", "panics"] => Self::RebalancerPanics,
            ["insight", "panics"] => Self::InsightPanics,
            ["listener", at, "panics"] => Self::ListenerPanics(number(at)?),
            ["thread", at, "panics"] => Self::ThreadPanics(number(at)?),
            ["thread", at, "ends"] => Self::ThreadEnds(number(at)?),
            ["thread", at, "stalls", ms] => Self::ThreadStalls(number(at)?, time(ms)?),
            ["ring", at, "panics"] => Self::Ring(number(at)?, RingFault::Panics),
            ["ring", at, "refused"] => Self::Ring(number(at)?, RingFault::Refused),
            ["ring", at, "stalls", ms] => Self::Ring(number(at)?, RingFault::Stalls(time(ms)?)),
            _ => return Err(UnknownFault(format!("there is no fault '{text}'"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_read_from_words_and_what_is_none_is_refused() {
        let stalls = Fault::Ring(2, RingFault::Stalls(Duration::from_millis(1500)));
        assert_eq!("ring 2 stalls 1500".parse(), Ok(stalls));
        assert_eq!("thread 0 panics".parse(), Ok(Fault::ThreadPanics(0)));
        assert_eq!("rebalancer panics".parse(), Ok(Fault::RebalancerPanics));
        assert_eq!("insight panics".parse(), Ok(Fault::InsightPanics));
        assert!("ring x panics".parse::<Fault>().unwrap_err().to_string().contains("'x' is no number"));
        assert!("disk full".parse::<Fault>().is_err());
    }
}
