//! `headroom lab`: real servers on this machine.

use clap::Args;

/// Flags of `headroom lab up`.
#[derive(Args, Clone, Debug)]
pub(crate) struct UpArgs {}
/// Flags of `headroom lab down`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DownArgs {}
/// Flags of `headroom lab status`.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArgs {}
/// Flags of `headroom lab fault`.
#[derive(Args, Clone, Debug)]
pub(crate) struct FaultArgs {}
