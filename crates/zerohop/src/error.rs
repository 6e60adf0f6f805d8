//! Why zero-hop is not available here, each with what to do about it. Ordinary listeners serve in all of
//! these cases.

use std::io;
use std::path::PathBuf;

/// Why there is no zero-hop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The programs were not compiled.
    #[error("this build has no zero-hop program: {why}; install clang and build again")]
    NoProgram {
        /// What stood in the way.
        why: &'static str,
    },
    /// The kernel says no to this process.
    #[error(
        "not permitted to {what}: it needs root, or CAP_BPF and CAP_NET_ADMIN and a bpffs it may write to \
         (docs/guide/privileges.md)"
    )]
    NotPermitted {
        /// What was tried.
        what: String,
    },
    /// There is no cgroup v2.
    #[error("no cgroup v2 is mounted here; mount one, or name a directory of one with zero_hop_cgroup")]
    NoCgroup,
    /// The directory given is not of cgroup v2.
    #[error("{path} is no directory of a cgroup v2 ({why}); see findmnt -t cgroup2")]
    WrongCgroup {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is no bpffs and it cannot be mounted.
    #[error(
        "no bpffs is mounted and it cannot be mounted on /sys/fs/bpf ({source}); run: mount -t bpf bpf /sys/fs/bpf"
    )]
    NoBpffs {
        /// What the system said.
        source: io::Error,
    },
    /// The kernel does not know something that is needed.
    #[error("this kernel cannot {what} ({source}); Linux 5.15 or newer with CONFIG_CGROUP_BPF is needed")]
    Kernel {
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
    /// Another process has taken over.
    #[error("process {owner} has taken over what was pinned; this one leaves it alone")]
    TakenOver {
        /// Its id.
        owner: u32,
    },
    /// Somebody removed the pins.
    #[error(
        "it was switched off from outside (headroom zero-hop off); restart headroom route to have it back"
    )]
    Removed,
    /// Our directory on bpffs is in somebody else's hands.
    #[error(
        "{path} {why}, so what is pinned there could be swapped; make it root's with mode 0700, or mount bpffs with \
         mode=0700"
    )]
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// More than fits.
    #[error("{what}: at most {most}")]
    TooMany {
        what: &'static str,
        /// How many fit.
        most: usize,
    },
}

impl Error {
    /// What the kernel said to `what`.
    pub(crate) fn kernel(what: impl Into<String>, source: io::Error) -> Self {
        let what = what.into();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { what },
            _ => Self::Kernel { what, source },
        }
    }
}
