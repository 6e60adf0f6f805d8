//! Whole sessions through the tracker: recorded from real servers, scripted, and random.

mod properties;
mod recordings;
mod script;
mod tracker;
