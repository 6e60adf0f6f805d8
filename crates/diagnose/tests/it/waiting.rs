//! Tests that mostly wait: they run beside the others.

mod tools;
