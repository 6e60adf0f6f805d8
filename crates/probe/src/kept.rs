//! Where probes are kept, and what is known by the newest of them: in the history of whoever calls, and in
//! that of the host's services.

use crate::{Probe, newest, newest_of};
use anyhow::bail;
use diagnose::verdict::Ceilings;
use load::store::Store;
use std::path::{Path, PathBuf};

/// The history of the services of this host, whose user has this directory. Root keeps its probes here.
const HOSTS_STORE: &str = "/var/lib/headroom/history.sqlite";

/// The history that a probe is kept in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptIn {
    /// One of whoever calls.
    Own(PathBuf),
    /// That of the host's services, for every user to read.
    Host(PathBuf),
}

impl KeptIn {
    /// Where it is kept unless a history is named; `own` is that of whoever calls. Root measures for the
    /// host: its probe goes where the agent's user finds it, if that directory is there: systemd makes it
    /// when the first service starts.
    pub fn usual(own: Option<PathBuf>) -> Option<Self> {
        Self::usual_of(own, Path::new(HOSTS_STORE), rustix::process::geteuid().is_root())
    }

    fn usual_of(own: Option<PathBuf>, hosts: &Path, is_root: bool) -> Option<Self> {
        if is_root && hosts.parent().is_some_and(Path::is_dir) {
            return Some(Self::Host(hosts.to_owned()));
        }
        own.map(Self::Own)
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        let (Self::Own(path) | Self::Host(path)) = self;
        path
    }

    /// Opens it, or makes it.
    ///
    /// # Errors
    /// It cannot be.
    pub fn open(&self) -> anyhow::Result<Store> {
        Ok(match self {
            Self::Own(path) => Store::open(path)?,
            Self::Host(path) => Store::open_for_all_to_read(path)?,
        })
    }
}

/// The ceilings that the history has of this host: the one that is named, else the newest of the caller's
/// `own` and the services'; none where no history has any. Probes that left the disk out have none.
///
/// # Errors
/// The history that was named cannot be read. The usual ones are left out with a warning then.
pub fn known_ceilings(named: Option<&Path>, own: Option<PathBuf>) -> anyhow::Result<Ceilings> {
    let probe = match named {
        Some(path) if !path.exists() => {
            bail!("there is no history at {0}; headroom probe --store {0} makes one", path.display())
        }
        Some(path) => newest_of(path, None)?,
        None => newest(&usual_places(own)),
    };
    Ok(probe.as_ref().map(Probe::ceilings).unwrap_or_default())
}

/// The newest probe that measured this `disk` of this host, as `/proc/diskstats` calls it, or any disk where
/// none is named; in the caller's `own` history or the services'.
///
/// # Errors
/// A history there cannot be read.
pub fn known_probe(own: Option<PathBuf>, disk: Option<&str>) -> anyhow::Result<Option<Probe>> {
    let places = usual_places(own).into_iter().filter(|path| path.exists());
    let read = places.map(|path| newest_of(&path, disk)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(read.into_iter().flatten().max_by_key(|probe| probe.at))
}

fn usual_places(own: Option<PathBuf>) -> Vec<PathBuf> {
    own.into_iter().chain([PathBuf::from(HOSTS_STORE)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_keeps_a_probe_where_the_services_find_it_and_others_keep_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let hosts = dir.path().join("history.sqlite");
        let absent = dir.path().join("absent/history.sqlite");
        let own = PathBuf::from("/home/u/.local/share/headroom/history.sqlite");
        let kept = |hosts: &Path, is_root| KeptIn::usual_of(Some(own.clone()), hosts, is_root);
        assert_eq!(kept(&hosts, true), Some(KeptIn::Host(hosts.clone())));
        assert_eq!(kept(&hosts, false), Some(KeptIn::Own(own.clone())));
        let without_the_package = kept(&absent, true);
        assert_eq!(without_the_package, Some(KeptIn::Own(own.clone())), "there is no such directory");
        assert_eq!(KeptIn::usual_of(None, &hosts, false), None, "nobody says where home is");
    }

    #[test]
    fn a_history_that_is_named_must_be_there_and_be_one() {
        let dir = tempfile::tempdir().unwrap();
        let named = |name: &str| known_ceilings(Some(&dir.path().join(name)), None);
        assert!(named("absent").unwrap_err().to_string().contains("headroom probe --store"));
        std::fs::write(dir.path().join("broken"), "this is no database, whatever its name may say").unwrap();
        named("broken").unwrap_err();
    }
}
