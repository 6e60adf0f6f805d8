//! What needs the whole machine: nothing else runs beside these tests.

mod idle;
mod idle_bypass;
