//! Whole sessions through the tracker: recorded from real servers, scripted, and random.

mod no_longer_followed;
mod observer;
mod properties;
mod recordings;
mod script;
mod tracker;
