//! The configuration file: the example, and what a wrong one is answered with.

mod config_complaints;
mod example_file;
mod schema;
