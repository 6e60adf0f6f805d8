//! Control sockets: how a command of this host, and a new process that takes over, reach a running router.
//!
//! Unix sockets in a directory that belongs to the router's user and that nobody else may enter (mode 0700).
//! A name in the kernel's abstract namespace would be open to whoever shares the network namespace, user 0 of
//! a container on the host's network among them. On every connection both sides also ask the kernel who the
//! other is, and it must be exactly the same user: root does not reach a router of another user by accident,
//! and no other user reaches one of root's.
//!
//! | file | is for |
//! |---|---|
//! | `take-over-ADDRESS-NAMESPACE.sock` | a new process, which is given the listening sockets ([`take_over`]) |
//! | `command-ADDRESS-NAMESPACE.sock` | `headroom drain`, `undrain` and `record` ([`server`]) |
//!
//! ADDRESS is the admin address, else the first listener's; NAMESPACE the number of the network namespace,
//! because the same address in another one is another router.
//!
//! **Stale files.** A process that was killed leaves its socket file behind: nobody answers there, so the
//! next process replaces it. One that is answered is left alone. Looking and replacing happen under a lock of
//! the directory, so that two processes that start at once cannot take the name from each other.

mod directory;
pub mod server;
pub mod take_over;

pub use directory::Directory;

use anyhow::Context;
use config::Config;
use fleet::Blame;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Listening sockets go over to a new process.
    TakeOver,
    /// Commands are carried out.
    Command,
}

/// What a running router is known by on this host: its admin address, else its first listener.
pub fn address(config: &Config) -> String {
    match (config.admin, config.listeners.first()) {
        (Some(admin), _) => admin.to_string(),
        (None, Some(listener)) => listener.address.to_string(),
        (None, None) => String::new(),
    }
}

/// FNV-1a: a name must be the same for every build of Headroom, which the standard library's hash does not
/// promise.
pub fn stable_hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// A socket that we answer at; its file goes when this is dropped.
#[derive(Debug)]
pub struct ControlListener {
    listener: UnixListener,
    directory: Directory,
    path: PathBuf,
    /// Device and inode of the file that we made: another process may have replaced it since.
    file: (u64, u64),
}

/// Why a socket could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// Another process answers there.
    #[error("process {} answers at {path} already", .pid.map_or("another".to_owned(), |pid| pid.to_string()))]
    InUse {
        /// The file.
        path: String,
        /// Whose it is, where that can be told.
        pid: Option<i32>,
    },
    /// It cannot be made.
    #[error("cannot make {path}: {error}")]
    Failed {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
}

impl Unavailable {
    /// Whose fault it is: two processes were given one address, or the directory is not ours to write in.
    pub fn blame(&self) -> Blame {
        Blame::Config
    }
}

impl ControlListener {
    /// Answers at this address from now on; a file that a dead process has left is replaced.
    ///
    /// # Errors
    /// Another process answers there, or the file cannot be made.
    pub fn bind(directory: &Directory, purpose: Purpose, address: &str) -> Result<Self, Unavailable> {
        let path = directory.socket(purpose, address);
        let shown = || path.display().to_string();
        let failed = |error: io::Error| Unavailable::Failed { path: shown(), error };
        let locked = directory.open().map_err(failed)?;
        flock(&locked, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        match answered(&path) {
            Ok(None) => {}
            Ok(Some(pid)) => return Err(Unavailable::InUse { path: shown(), pid }),
            Err(error) => return Err(failed(error)),
        }
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        sweep(directory);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
        let made = std::fs::symlink_metadata(&path).map_err(failed)?;
        Ok(Self { listener, directory: directory.clone(), file: (made.dev(), made.ino()), path })
    }

    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        // What cannot be removed is replaced by the next process.
        let Ok(locked) = self.directory.open() else { return };
        let _ = flock(&locked, FlockOperation::LockExclusive);
        let ours =
            std::fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.file);
        if ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes the files of this process as it ends: the threads that answer there are not waited for.
pub fn withdraw(directory: &Directory, address: &str) {
    // What cannot be removed is replaced by the next process.
    let Ok(locked) = directory.open() else { return };
    let _ = flock(&locked, FlockOperation::LockExclusive);
    for purpose in [Purpose::TakeOver, Purpose::Command] {
        let path = directory.socket(purpose, address);
        let ours = i32::try_from(std::process::id()).ok();
        if answered(&path).is_ok_and(|by| by.is_some_and(|pid| pid == ours)) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Removes what killed processes of other addresses left, so that it does not pile up. The directory is
/// locked.
fn sweep(directory: &Directory) {
    for path in directory.sockets() {
        if matches!(answered(&path), Ok(None)) {
            // What cannot be removed harms nobody.
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Whether a process answers there, and which. Never waits: one that is too busy to accept is alive.
fn answered(path: &Path) -> io::Result<Option<Option<i32>>> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => Ok(Some(socket_peercred(&socket).ok().map(|peer| peer.pid.as_raw_nonzero().get()))),
        Err(Errno::AGAIN) => Ok(Some(None)),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Connects to the router at this address; `None` when none answers.
///
/// # Errors
/// It runs as another user, or cannot be reached for another reason.
pub fn reach(directory: &Directory, purpose: Purpose, address: &str) -> anyhow::Result<Option<UnixStream>> {
    let path = directory.socket(purpose, address);
    match UnixStream::connect(&path) {
        Ok(stream) => check_peer(&stream).map(|()| Some(stream)),
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("cannot connect to {}", path.display())),
    }
}

/// The other side runs as exactly our user.
///
/// # Errors
/// It does not, or nobody can say.
pub fn check_peer(peer: &UnixStream) -> anyhow::Result<()> {
    check_user(socket_peercred(peer)?.uid.as_raw(), rustix::process::geteuid().as_raw())
}

fn check_user(theirs: u32, ours: u32) -> anyhow::Result<()> {
    anyhow::ensure!(theirs == ours, "the other process runs as user {theirs}, this one as user {ours}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const HERE: &str = "127.0.0.1:9306";

    fn directory() -> (tempfile::TempDir, Directory) {
        let base = tempfile::tempdir().unwrap();
        let directory = Directory::open_or_make(&base.path().join("headroom")).unwrap();
        (base, directory)
    }

    #[test]
    fn a_socket_is_for_its_owner_alone_and_its_file_goes_with_its_process() {
        let (_base, directory) = directory();
        assert!(reach(&directory, Purpose::Command, HERE).unwrap().is_none());
        let listener = ControlListener::bind(&directory, Purpose::Command, HERE).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&listener.path), mode(listener.path.parent().unwrap())), (0o600, 0o700));
        assert!(reach(&directory, Purpose::Command, HERE).unwrap().is_some());
        assert!(reach(&directory, Purpose::TakeOver, HERE).unwrap().is_none(), "another purpose");
        assert!(reach(&directory, Purpose::Command, "127.0.0.1:9307").unwrap().is_none(), "another router");
        let path = listener.path.clone();
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_a_killed_process_left_is_replaced_and_one_that_is_answered_is_not() {
        let (_base, directory) = directory();
        let path = directory.socket(Purpose::Command, HERE);
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "the standard library leaves it, as a killed process does");
        assert!(reach(&directory, Purpose::Command, HERE).unwrap().is_none(), "nobody answers there");
        let first = ControlListener::bind(&directory, Purpose::Command, HERE).unwrap();
        let (elsewhere, file) =
            (directory.socket(Purpose::TakeOver, "127.0.0.1:1"), directory.path().join("other"));
        drop(UnixListener::bind(&elsewhere).unwrap());
        std::fs::write(&file, "").unwrap();
        let refused = ControlListener::bind(&directory, Purpose::Command, HERE).unwrap_err();
        let ours = i32::try_from(std::process::id()).unwrap();
        assert!(matches!(refused, Unavailable::InUse { pid: Some(pid), .. } if pid == ours), "{refused}");
        assert!(refused.to_string().contains("already"), "{refused}");
        // A process that ends late does not take the file of the one after it along.
        std::fs::remove_file(&path).unwrap();
        let second = ControlListener::bind(&directory, Purpose::Command, HERE).unwrap();
        assert!(
            !elsewhere.exists() && file.exists(),
            "what is left of other routers goes, too, and nothing else"
        );
        drop(first);
        assert!(path.exists());
        let mut client = reach(&directory, Purpose::Command, HERE).unwrap().unwrap();
        drop(second.listener().accept().unwrap());
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_process_that_ends_removes_its_own_files_and_no_others() {
        let (_base, directory) = directory();
        let listener = ControlListener::bind(&directory, Purpose::Command, HERE).unwrap();
        let other = directory.socket(Purpose::TakeOver, HERE);
        std::fs::write(&other, "").unwrap();
        withdraw(&directory, HERE);
        assert!(!listener.path.exists() && other.exists());
    }

    #[test]
    fn exactly_the_same_user_is_let_in_and_root_is_another() {
        check_user(7, 7).unwrap();
        for (theirs, ours) in [(0, 7), (7, 0), (8, 7)] {
            let words = check_user(theirs, ours).unwrap_err().to_string();
            assert!(words.contains(&format!("user {theirs}")), "{words}");
        }
    }

    #[test]
    fn something_else_in_the_place_of_the_file_is_said_and_not_removed() {
        let (_base, directory) = directory();
        let path = directory.socket(Purpose::Command, HERE);
        std::fs::create_dir(&path).unwrap();
        let refused = ControlListener::bind(&directory, Purpose::Command, HERE).unwrap_err();
        assert!(matches!(refused, Unavailable::Failed { .. }), "{refused}");
        assert!(path.is_dir());
    }
}
