//! Whole sessions through the tracker: recorded from real servers, scripted, and random.

mod observer;
mod properties;
mod recordings;
mod script;
mod tracker;
