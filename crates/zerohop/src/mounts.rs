//! Where cgroup v2 and bpffs are mounted, as this process sees it.

use crate::error::Error;
use std::ffi::CString;
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where bpffs belongs by custom.
const BPFFS: &str = "/sys/fs/bpf";
/// Says that we mounted it.
const OURS: &str = "mounted_by_headroom";
/// The directory of ours in it.
const HOME: &str = "headroom";

/// Our directory on bpffs, where there is a bpffs. It may be that of another user under whom a router runs;
/// others cannot write it.
pub(crate) fn home() -> Option<PathBuf> {
    look_for_home().ok().flatten()
}

/// The same, with the difference between none and one that this user cannot see.
///
/// # Errors
/// Whether it is there cannot be seen: bpffs is root's alone on most hosts.
pub(crate) fn look_for_home() -> std::io::Result<Option<PathBuf>> {
    place().map_or(Ok(None), looked_at)
}

fn looked_at(home: PathBuf) -> std::io::Result<Option<PathBuf>> {
    match home.symlink_metadata() {
        Ok(found) => Ok((found.is_dir() && found.mode() & 0o022 == 0).then_some(home)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(not_seen(&home, &error)),
    }
}

/// The error of a directory of ours that this user cannot look into.
pub(crate) fn not_seen(directory: &Path, error: &std::io::Error) -> std::io::Error {
    let why = format!("{} cannot be read ({error}); are you root?", directory.display());
    std::io::Error::new(error.kind(), why)
}

/// Whether a directory is one of bpffs itself, and no way to somewhere else.
pub(crate) fn is_on_bpffs(directory: &Path) -> bool {
    let device =
        |path: &Path| path.symlink_metadata().ok().filter(std::fs::Metadata::is_dir).map(|found| found.dev());
    mounted("bpf").is_some_and(|bpffs| device(&bpffs).is_some() && device(&bpffs) == device(directory))
}

fn place() -> Option<PathBuf> {
    mounted("bpf").map(|bpffs| bpffs.join(HOME))
}

/// Whether a directory, if it is there, and the one above it are ours alone.
fn trusted(home: &Path) -> Result<(), Error> {
    let looked = |path: &Path| match path.symlink_metadata() {
        Ok(found) => {
            let why = untrusted(found.is_dir(), found.uid(), found.mode(), path == home);
            why.map_or(Ok(()), |why| Err(Error::Untrusted { path: path.to_owned(), why }))
        }
        // Absent, or not ours to see: making it will tell.
        Err(_) => Ok(()),
    };
    home.parent().map_or(Ok(()), looked)?;
    looked(home)
}

/// Why a directory cannot be trusted. In the one above ours, others may make directories of their own where
/// the sticky bit keeps them from renaming ours.
fn untrusted(is_directory: bool, uid: u32, mode: u32, ours: bool) -> Option<&'static str> {
    let owner = rustix::process::geteuid().as_raw();
    if !is_directory {
        return Some("is no directory");
    }
    if uid != 0 && uid != owner {
        return Some("belongs to another user");
    }
    let sticky = mode & 0o1000 != 0;
    (mode & 0o022 != 0 && (ours || !sticky)).then_some("can be written by other users")
}

/// The directory of one configuration on bpffs, made, and bpffs mounted if need be (which is said in the
/// answer).
pub(crate) fn make_directory(name: &str) -> Result<(PathBuf, bool), Error> {
    let _lock = lock();
    let (home, mounted) = make_home()?;
    let directory = home.join(name);
    let made = std::fs::create_dir_all(&directory);
    made.map_err(|source| Error::kernel("make a directory on bpffs", source))?;
    Ok((directory, mounted))
}

fn make_home() -> Result<(PathBuf, bool), Error> {
    let denied = |source| Error::kernel("make a directory on bpffs", source);
    let make = |home: &Path| {
        let made = std::fs::DirBuilder::new().mode(0o700).recursive(true).create(home);
        made.map_err(denied)?;
        trusted(home)
    };
    if let Some(home) = place() {
        make(&home)?;
        return Ok((home, false));
    }
    mount_bpffs().map_err(|source| match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Error::kernel("mount bpffs on /sys/fs/bpf", source),
        _ => Error::NoBpffs { source },
    })?;
    let home = Path::new(BPFFS).join(HOME);
    make(&home)?;
    std::fs::create_dir_all(home.join(OURS)).map_err(denied)?;
    Ok((home, true))
}

/// Removes our directory where nothing is left in it, and unmounts bpffs if it was us who mounted it and
/// nobody else uses it. Returns whether it was unmounted.
pub(crate) fn remove_home() -> bool {
    let _lock = lock();
    let Some(home) = home() else { return false };
    let ours = home.join(OURS).is_dir();
    let others = std::fs::read_dir(&home).is_ok_and(|entries| entries.count() > usize::from(ours));
    if others {
        return false;
    }
    let _ = std::fs::remove_dir(home.join(OURS));
    if std::fs::remove_dir(&home).is_err() || !ours {
        return false;
    }
    let Some(bpffs) = home.parent() else { return false };
    // Some kernels put these two there by themselves.
    let own =
        |entry: &std::fs::DirEntry| ["maps.debug", "progs.debug"].iter().any(|n| entry.file_name() == *n);
    let empty = std::fs::read_dir(bpffs).is_ok_and(|entries| entries.flatten().all(|entry| own(&entry)));
    empty && rustix::mount::unmount(bpffs, rustix::mount::UnmountFlags::empty()).is_ok()
}

/// Held while our directory comes and goes, against others of our kind; they come and go in a moment.
fn lock() -> Option<File> {
    let file = File::open("/sys/fs").ok()?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).ok()?;
    Some(file)
}

/// The cgroup to attach to, open; `None` asks for the root of the mount.
pub(crate) fn cgroup(path: Option<&Path>) -> Result<(File, PathBuf), Error> {
    let path = match path {
        Some(path) => path.to_owned(),
        None => mounted("cgroup2").ok_or(Error::NoCgroup)?,
    };
    let wrong = |why: String| Error::WrongCgroup { path: path.clone(), why };
    let file = File::open(&path).map_err(|error| wrong(error.to_string()))?;
    // Every cgroup v2 but no v1 one has this file; the root has it since 4.14.
    if !path.join("cgroup.controllers").exists() {
        return Err(wrong("it has no cgroup.controllers".to_owned()));
    }
    Ok((file, path))
}

/// The kernel's number of a cgroup.
pub(crate) fn cgroup_id(cgroup: &File) -> Option<u64> {
    cgroup.metadata().ok().map(|metadata| metadata.ino())
}

/// The first mount of a kind of file system.
fn mounted(kind: &str) -> Option<PathBuf> {
    mount_point(&std::fs::read_to_string("/proc/self/mounts").ok()?, kind)
}

fn mount_point(mounts: &str, kind: &str) -> Option<PathBuf> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut of_kind = fields.filter(|fields| fields.get(2) == Some(&kind));
    // Spaces and the like stand as octal escapes; such mount points are left out rather than misread.
    of_kind.find_map(|fields| fields.get(1).filter(|p| !p.contains('\\')).map(PathBuf::from))
}

fn mount_bpffs() -> std::io::Result<()> {
    let data = CString::new("mode=0700")?;
    rustix::mount::mount("bpf", BPFFS, "bpf", rustix::mount::MountFlags::empty(), data.as_c_str())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_a_kind_is_found_beside_others() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n\
                      bpf /odd\\040place bpf rw 0 0\nbpf /sys/fs/bpf bpf rw 0 0\n";
        assert_eq!(mount_point(mounts, "cgroup2"), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount_point(mounts, "bpf"), Some(PathBuf::from("/sys/fs/bpf")));
        assert_eq!(mount_point(mounts, "nfs"), None);
    }

    #[test]
    fn a_directory_that_others_can_swap_is_not_trusted() {
        let own = rustix::process::geteuid().as_raw();
        let nobody = own.wrapping_add(65_534);
        assert_eq!(untrusted(true, own, 0o40700, true), None);
        assert_eq!(untrusted(true, 0, 0o40755, true), None);
        assert_eq!(untrusted(true, 0, 0o41777, false), None, "bpffs as mount -t bpf makes it");
        assert_eq!(untrusted(true, 0, 0o40777, false), Some("can be written by other users"));
        assert_eq!(untrusted(true, own, 0o41777, true), Some("can be written by other users"));
        assert_eq!(untrusted(true, nobody, 0o40700, true), Some("belongs to another user"));
        assert_eq!(untrusted(false, own, 0o120777, true), Some("is no directory"));
        let base = tempfile::tempdir().unwrap();
        let home = base.path().join(HOME);
        assert!(trusted(&home).is_ok(), "it can be made");
        std::os::unix::fs::symlink("/etc", &home).unwrap();
        assert!(trusted(&home).unwrap_err().to_string().contains("is no directory"));
    }

    #[test]
    fn a_directory_that_cannot_be_seen_is_not_taken_for_none() {
        let base = tempfile::tempdir().unwrap();
        assert_eq!(looked_at(base.path().join(HOME)).unwrap(), None);
        // Nobody sees what is behind a circle, root included.
        let circle = base.path().join("circle");
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        let error = looked_at(circle.join(HOME)).unwrap_err().to_string();
        assert!(error.contains("circle/headroom cannot be read") && error.contains("root"), "{error}");
    }

    #[test]
    fn a_directory_that_is_no_cgroup_is_named() {
        let error = cgroup(Some(Path::new("/tmp"))).unwrap_err().to_string();
        assert!(error.contains("/tmp is no directory of a cgroup v2"), "{error}");
    }
}
