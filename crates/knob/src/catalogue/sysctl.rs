//! Any other sysctl: it keeps the shape it has (as many numbers as now).

use super::{Change, Danger, Family, Group, Knob, Place, Proof, Target};
use crate::value::Values;

pub(super) const ROWS: &[Knob] = &[Knob {
    name: "sysctl.*",
    family: Family::Sysctl,
    target: Target::None,
    place: Place::AnySysctl,
    values: Values::LikeNow,
    group: Group::Alone,
    danger: Danger::ByName,
    change: Change::Dynamic,
    proof: Proof::ReadBack,
    source: "kernel: Documentation/admin-guide/sysctl/, sysctl(8)",
    help: "Any file of /proc/sys by its dotted name, such as sysctl.net.ipv4.tcp_rmem. Files that start \
           something, or cannot be put back, are refused.",
}];
