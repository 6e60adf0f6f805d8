//! The log, and beside it OTLP in a build that has it (feature `otlp`): metrics and spans of sessions sent to
//! a collector, by the environment variables that OpenTelemetry defines. A build without it says so where
//! such a variable is set, and is otherwise the same.

#[cfg(not(feature = "otlp"))]
mod off;
#[cfg(feature = "otlp")]
mod on;

#[cfg(not(feature = "otlp"))]
pub(crate) use off::Telemetry;
#[cfg(feature = "otlp")]
pub(crate) use on::Telemetry;
