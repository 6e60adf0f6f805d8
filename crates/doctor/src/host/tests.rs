//! Recorded hosts, and what is found on them.

use super::*;
use crate::{Report, Status};
use term::Paint;

const ALL_CAPABILITIES: u64 = 0x1ff_ffff_ffff;

/// A host on which everything works, as root.
fn full() -> HostFacts {
    HostFacts {
        kernel: "6.12.43-amd64".to_owned(),
        uid: 0,
        capabilities: ALL_CAPABILITIES,
        seccomp_filter: false,
        io_uring: RingOutcome::Available,
        io_uring_disabled: Some(0),
        zero_hop: BypassOutcome::Available,
        bpffs: Bpffs::Writable("/sys/fs/bpf".into()),
        cores: 8,
        cpu_limit: None,
        memory_limit: None,
        descriptors: Some(1_048_576),
        clock: Clock::Synchronised,
        unreadable: Vec::new(),
        pressure: true,
        runtime_directory: RuntimeDirectory::Usable("/run/headroom".into()),
    }
}

/// The same host under an account without privileges.
fn unprivileged() -> HostFacts {
    HostFacts {
        uid: 65_534,
        capabilities: 0,
        zero_hop: BypassOutcome::NotPermitted,
        bpffs: Bpffs::Closed("/sys/fs/bpf".into()),
        descriptors: Some(4096),
        ..full()
    }
}

/// A container with the default seccomp profile and the default capabilities.
fn container() -> HostFacts {
    HostFacts {
        capabilities: 0xa804_25fb,
        seccomp_filter: true,
        io_uring: RingOutcome::NotAllowed,
        zero_hop: BypassOutcome::NotPermitted,
        bpffs: Bpffs::NotMounted,
        cpu_limit: Some(1.5),
        memory_limit: Some(512 << 20),
        clock: Clock::Unknown,
        unreadable: vec!["/proc/interrupts".to_owned()],
        runtime_directory: RuntimeDirectory::Unusable(
            "there is no directory for it: HEADROOM_RUNTIME_DIR is not set".to_owned(),
        ),
        ..full()
    }
}

fn usual() -> Demands {
    Demands::of(None)
}

fn find(facts: &HostFacts, demands: &Demands, check: &str) -> Finding {
    findings(facts, demands).into_iter().find(|finding| finding.check == check).unwrap()
}

#[test]
fn the_pages_of_three_recorded_hosts() {
    for (name, facts) in [("full", full()), ("unprivileged", unprivileged()), ("container", container())] {
        let report = Report { findings: findings(&facts, &usual()) };
        insta::assert_snapshot!(name, report.text(Paint::off()));
    }
}

#[test]
fn nothing_is_lost_on_a_full_host() {
    assert!(findings(&full(), &usual()).iter().all(|finding| finding.status == Status::Pass));
}

#[test]
fn every_loss_says_what_it_costs_and_what_mends_it() {
    let weak = HostFacts {
        kernel: "5.4.0".to_owned(),
        io_uring: RingOutcome::TooOld,
        clock: Clock::Unsynchronised,
        pressure: false,
        memory_limit: Some(1 << 20),
        cpu_limit: Some(0.5),
        ..container()
    };
    for facts in [unprivileged(), container(), weak] {
        let lost = findings(&facts, &usual()).into_iter().filter(|finding| finding.status != Status::Pass);
        for finding in lost {
            assert!(finding.mend.is_some(), "{finding:?}");
            assert!(finding.costs.is_some() || finding.status == Status::Unknown, "{finding:?}");
        }
    }
}

#[test]
fn the_quota_is_held_against_the_threads_that_are_configured() {
    let host = |cpu_limit| HostFacts { cpu_limit: Some(cpu_limit), ..full() };
    let found = |cpu_limit, threads| find(&host(cpu_limit), &Demands { threads, ..usual() }, "cpu");
    let mend = |cpu_limit, threads| found(cpu_limit, threads).mend.unwrap_or_default();
    assert_eq!(mend(1.5, None), "CPUQuota=200%, or [router] threads = 1");
    assert_eq!(mend(1.5, Some(1)), "", "as it said");
    assert_eq!(found(2.0, None).status, Status::Pass);
    assert_eq!(mend(2.0, Some(6)), "CPUQuota=600%, or [router] threads = 2");
    assert_eq!(mend(0.5, Some(1)), "CPUQuota=100%", "it cannot have fewer");
}

#[test]
fn who_forbids_io_uring_is_told_apart() {
    let found = |facts: HostFacts| find(&facts, &usual(), "io_uring");
    let by_sysctl = found(HostFacts {
        io_uring: RingOutcome::NotAllowed,
        io_uring_disabled: Some(2),
        seccomp_filter: true,
        ..full()
    });
    assert!(by_sysctl.found.contains("kernel.io_uring_disabled = 2"), "{by_sysctl:?}");
    // Docker's profile answers EPERM, Podman's ENOSYS.
    for outcome in [RingOutcome::NotAllowed, RingOutcome::Missing] {
        let by_filter = found(HostFacts { io_uring: outcome, seccomp_filter: true, ..full() });
        assert!(by_filter.found.contains("seccomp"), "{by_filter:?}");
        assert!(by_filter.mend.unwrap().contains("io_uring_setup"));
    }
    let absent = found(HostFacts { io_uring: RingOutcome::Missing, ..full() });
    assert!(absent.found.contains("this kernel has none"), "{absent:?}");
    let old =
        HostFacts { io_uring: RingOutcome::Missing, seccomp_filter: true, kernel: "4.19.0".into(), ..full() };
    assert!(found(old).found.contains("this kernel has none"));
}

#[test]
fn what_the_configuration_demands_fails_and_what_it_does_without_passes() {
    let (facts, of) = (container(), |data_path, zero_hop| Demands { data_path, zero_hop, ..usual() });
    let demanding = of(DataPath::IoUring, config::ZeroHop::Require);
    assert_eq!(find(&facts, &demanding, "io_uring").status, Status::Fail);
    assert_eq!(find(&facts, &demanding, "zero-hop").status, Status::Fail);
    let content = of(DataPath::Epoll, config::ZeroHop::Off);
    assert_eq!(find(&facts, &content, "io_uring").status, Status::Pass);
    assert_eq!(find(&facts, &content, "zero-hop").status, Status::Pass);
    let many = Demands { sessions: 600_000, ..usual() };
    let descriptors = find(&full(), &many, "descriptors");
    assert!(descriptors.costs.unwrap().contains("524256"), "of 1048576 descriptors");
}

#[test]
fn zero_hop_takes_capabilities_a_cgroup_and_a_bpffs() {
    let found = |facts: HostFacts| find(&facts, &usual(), "zero-hop");
    let service = HostFacts { uid: 990, capabilities: 1 << BPF | 1 << NET_ADMIN, ..full() };
    assert_eq!(found(service.clone()).status, Status::Pass);
    let closed = found(HostFacts { bpffs: Bpffs::Closed("/sys/fs/bpf".into()), ..service.clone() });
    let mend = "chmod o+x /sys/fs/bpf && install -d -o 990 -m 700 /sys/fs/bpf/headroom (";
    assert!(closed.mend.unwrap().starts_with(mend), "which systemd mounts for root alone");
    let absent = found(HostFacts { bpffs: Bpffs::NotMounted, ..service.clone() });
    assert!(absent.mend.unwrap().starts_with("mount -t bpf"));
    // Root mounts it by itself.
    assert_eq!(found(HostFacts { bpffs: Bpffs::NotMounted, ..full() }).status, Status::Pass);
    let without_net_admin = found(HostFacts { capabilities: 1 << BPF, ..service });
    assert!(without_net_admin.mend.unwrap().contains("CAP_NET_ADMIN"));
    let filtered = found(HostFacts { zero_hop: BypassOutcome::NotPermitted, seccomp_filter: true, ..full() });
    assert!(filtered.found.contains("seccomp"), "{filtered:?}");
    assert!(found(HostFacts { zero_hop: BypassOutcome::NoCgroup, ..full() }).found.contains("cgroup v2"));
}

#[test]
fn kernels_are_compared_by_number() {
    assert_eq!(version("6.12.43-amd64"), Some((6, 12)));
    assert_eq!(version("5.15"), Some((5, 15)));
    assert_eq!(version("unknown"), None);
    assert_eq!(
        find(&HostFacts { kernel: "6.1.0-13".into(), ..full() }, &usual(), "kernel").status,
        Status::Pass
    );
    let old = find(&HostFacts { kernel: "5.10.0".into(), ..full() }, &usual(), "kernel");
    assert!(old.costs.unwrap().contains("zero-hop"), "neither of both works there");
}
