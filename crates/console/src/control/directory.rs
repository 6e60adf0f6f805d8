//! The directory of the control sockets: where it is, and whether it is ours alone.
//!
//! A directory that another user made, that others may enter, or that is reached over a link is refused and
//! not mended: somebody may have sockets of their own in it. The way to it is checked one step up: whoever
//! may rename things there could put another directory in its place.

use super::Purpose;
use anyhow::{Context, bail, ensure};
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A socket's path may have 108 bytes, its end included.
const LONGEST_PATH: usize = 107;
const STICKY: u32 = 0o1000;

/// A directory that is ours alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// The one of this user: `named` (`$HEADROOM_RUNTIME_DIR`) where it is set, else as [`place`] says.
    ///
    /// # Errors
    /// It cannot be made, or is not ours alone.
    pub fn of_this_user(named: Option<&Path>, user_runtime_dir: Option<&Path>) -> anyhow::Result<Self> {
        let user = geteuid().as_raw();
        Self::open_or_make(&place(user, named, user_runtime_dir, |path| is_of(path, user)))
    }

    /// Where it is, if it could be opened or made; one that was not there is not left behind.
    ///
    /// # Errors
    /// It cannot be made, or is not ours alone.
    pub fn possible(named: Option<&Path>, user_runtime_dir: Option<&Path>) -> anyhow::Result<PathBuf> {
        let user = geteuid().as_raw();
        let path = place(user, named, user_runtime_dir, |path| is_of(path, user));
        let was_there = path.symlink_metadata().is_ok();
        let opened = Self::open_or_make(&path);
        if opened.is_ok() && !was_there {
            // Somebody who uses it by now keeps it.
            let _ = std::fs::remove_dir(&path);
        }
        opened.map(|directory| directory.path)
    }

    /// This directory, made if it is not there.
    ///
    /// # Errors
    /// It cannot be made, or is not ours alone.
    pub fn open_or_make(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| {
                    format!("cannot make the directory {shown} for control sockets (HEADROOM_RUNTIME_DIR names another)")
                });
            }
            _ => {}
        }
        let directory = Self { path: path.to_owned() };
        directory.check(geteuid().as_raw())?;
        Ok(directory)
    }

    /// Nobody but this user can reach or replace what is in it.
    fn check(&self, ours: u32) -> anyhow::Result<()> {
        let (path, shown) = (&self.path, self.path.display());
        let opened = match rustix_open(path) {
            Ok(opened) => opened,
            Err(Errno::LOOP | Errno::NOTDIR) => {
                bail!(
                    "{shown} is a link or no directory; control sockets need a directory of our own: remove it"
                )
            }
            Err(error) => return Err(error).with_context(|| format!("cannot open {shown}")),
        };
        let stat = fstat(&opened)?;
        ensure!(
            stat.st_uid == ours,
            "{shown} belongs to user {theirs}, not to user {ours}, so somebody else could answer in our place there: run this \
             as that user where its router is meant (sudo -u '#{theirs}' headroom ...), else name another directory with \
             HEADROOM_RUNTIME_DIR",
            theirs = stat.st_uid
        );
        let mode = stat.st_mode & 0o777;
        ensure!(
            mode & 0o077 == 0,
            "{shown} has mode {mode:04o}, so others can reach the control sockets: chmod 700 {shown} (systemd: \
             RuntimeDirectoryMode=0700; sockets of listeners need another directory)"
        );
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let found =
            std::fs::metadata(above).with_context(|| format!("cannot look at {}", above.display()))?;
        let trusted = [0, ours].contains(&found.uid());
        let closed = found.mode() & 0o022 == 0 || found.mode() & STICKY != 0;
        ensure!(
            trusted && closed,
            "others may rename what is in {}, {shown} too: name another directory with HEADROOM_RUNTIME_DIR",
            above.display()
        );
        Ok(())
    }

    /// The file of a socket. The address may be a path of its own (a listener on a unix socket).
    pub(super) fn socket(&self, purpose: Purpose, address: &str) -> PathBuf {
        let word = match purpose {
            Purpose::TakeOver => "take-over",
            Purpose::Command => "command",
        };
        // Without /proc all are taken for one, as they are on most hosts.
        let namespace = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
        let namespace: String =
            namespace.display().to_string().chars().filter(char::is_ascii_digit).collect();
        let plain = address.chars().all(|c| c.is_ascii_alphanumeric() || "-.:[]".contains(c));
        let full = self.path.join(format!("{word}-{address}-{namespace}.sock"));
        if plain && full.as_os_str().len() <= LONGEST_PATH {
            return full;
        }
        let hash = super::stable_hash(format!("{address} {namespace}").as_bytes());
        self.path.join(format!("{word}-{hash:016x}.sock"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// All files of sockets.
    pub(super) fn sockets(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let ours = |name: &str| {
            name.ends_with(".sock") && (name.starts_with("take-over-") || name.starts_with("command-"))
        };
        entries
            .filter(|entry| entry.file_name().to_str().is_some_and(ours))
            .map(|entry| entry.path())
            .collect()
    }

    /// For the lock.
    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        Ok(rustix_open(&self.path)?)
    }
}

fn rustix_open(path: &Path) -> rustix::io::Result<OwnedFd> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Where a user's control sockets are: `/run/headroom` for root and for whom it was made (systemd's
/// `RuntimeDirectory=headroom`), else below the user's runtime directory, else in a directory of `/tmp` with
/// the user's number.
fn place(
    user: u32,
    named: Option<&Path>,
    user_runtime_dir: Option<&Path>,
    is_theirs: impl Fn(&Path) -> bool,
) -> PathBuf {
    let run = Path::new("/run/headroom");
    if let Some(named) = named {
        return named.to_owned();
    }
    if user == 0 || is_theirs(run) {
        return run.to_owned();
    }
    let of_login = PathBuf::from(format!("/run/user/{user}"));
    let runtime = user_runtime_dir.map(Path::to_owned).or_else(|| is_theirs(&of_login).then_some(of_login));
    runtime.map_or_else(|| PathBuf::from(format!("/tmp/headroom-{user}")), |dir| dir.join("headroom"))
}

/// Whether this is a directory of this user.
fn is_of(path: &Path, user: u32) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn refused(path: &Path) -> String {
        format!("{:#}", Directory::open_or_make(path).unwrap_err())
    }

    #[test]
    fn it_is_below_run_for_root_and_for_others_where_only_they_are() {
        let (none, all) = (|_: &Path| false, |_: &Path| true);
        let text = |path: PathBuf| path.display().to_string();
        let (xdg, named) = (Path::new("/run/user/7"), Path::new("/srv/h"));
        assert_eq!(text(place(0, None, Some(xdg), none)), "/run/headroom");
        assert_eq!(text(place(7, None, Some(xdg), none)), "/run/user/7/headroom");
        assert_eq!(text(place(7, None, Some(xdg), all)), "/run/headroom", "made for this user");
        assert_eq!(text(place(7, None, None, |path| path == xdg)), "/run/user/7/headroom");
        assert_eq!(text(place(7, None, None, none)), "/tmp/headroom-7");
        assert_eq!(text(place(0, Some(named), Some(xdg), all)), "/srv/h");
    }

    #[test]
    fn one_that_others_may_enter_is_refused_and_stays_as_it_is() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("headroom");
        Directory::open_or_make(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let words = refused(&path);
        assert!(words.contains("0755") && words.contains("chmod 700"), "{words}");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o755);
        std::fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        Directory::open_or_make(&path).unwrap();
    }

    #[test]
    fn a_link_or_a_file_in_its_place_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let (real, link, file) =
            (base.path().join("real"), base.path().join("link"), base.path().join("file"));
        Directory::open_or_make(&real).unwrap();
        symlink(&real, &link).unwrap();
        std::fs::write(&file, "").unwrap();
        assert!(refused(&link).contains("is a link"), "{}", refused(&link));
        assert!(refused(&file).contains("no directory"), "{}", refused(&file));
    }

    #[test]
    fn one_below_a_directory_where_others_may_rename_is_refused_unless_that_is_sticky() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("headroom");
        std::fs::set_permissions(base.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(refused(&path).contains("rename"), "{}", refused(&path));
        std::fs::set_permissions(base.path(), Permissions::from_mode(0o1777)).unwrap();
        Directory::open_or_make(&path).unwrap();
    }

    #[test]
    fn one_of_another_user_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let directory = Directory::open_or_make(&base.path().join("headroom")).unwrap();
        let ours = geteuid().as_raw();
        directory.check(ours).unwrap();
        let words = format!("{:#}", directory.check(ours + 1).unwrap_err());
        assert!(words.contains(&format!("belongs to user {ours}, not to user {}", ours + 1)), "{words}");
        assert!(words.contains("HEADROOM_RUNTIME_DIR"), "{words}");
        // Without it a running router of that user is reached by nobody.
        assert!(words.contains(&format!("sudo -u '#{ours}'")) && !words.contains("remove"), "{words}");
    }

    #[test]
    fn an_address_that_is_a_path_or_too_long_still_has_a_name_of_its_own() {
        let directory = Directory { path: PathBuf::from("/run/headroom") };
        let name = |address: &str| directory.socket(Purpose::Command, address).display().to_string();
        assert!(name("127.0.0.1:9306").starts_with("/run/headroom/command-127.0.0.1:9306-"));
        assert!(name("[::1]:9306").contains("[::1]:9306"));
        let (one, other) = (name("/run/app/reader.sock"), name("/run/app/writer.sock"));
        assert!(one != other && one.matches('/').count() == 3, "{one} {other}");
        assert!(name(&"x".repeat(200)).len() <= LONGEST_PATH);
    }
}
