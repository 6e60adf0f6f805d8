//! Maps: pinned ones found, new ones made.

use crate::bytes::u64_at;
use crate::error::Error;
use crate::layout::{About, LAYOUT, MAPS, Map, Session};
use crate::pin_files::{clear_files, map_name};
use crate::sys::{MapFd, MapSpec};
use std::io;
use std::path::Path;

/// The walk over sessions ends here at the latest.
const MOST_SESSIONS: usize = 65_536;

pub(crate) fn sessions(map: &MapFd) -> io::Result<Vec<Session>> {
    let mut sessions = Vec::new();
    for key in map.keys(MOST_SESSIONS)? {
        if let Some(value) = map.lookup(&key)? {
            sessions.push(Session::read(u64_at(&key, 0), &value));
        }
    }
    Ok(sessions)
}

/// The pinned maps, or new ones, pinned; and whether they were there.
pub(crate) fn open(directory: &Path) -> Result<(Vec<MapFd>, bool), Error> {
    if let Some(maps) = pinned(directory) {
        return Ok((maps, true));
    }
    clear_files(directory);
    let kernel = |what: &str, error| Error::kernel(format!("{what} on bpffs"), error);
    let make = |spec| {
        let map = MapFd::create(spec).map_err(|e| Error::kernel(format!("make the map {}", spec.name), e))?;
        map.pin(&directory.join(map_name(spec.name))).map_err(|e| kernel("pin a map", e))?;
        Ok(map)
    };
    Ok((MAPS.iter().map(make).collect::<Result<_, _>>()?, false))
}

fn pinned(directory: &Path) -> Option<Vec<MapFd>> {
    let get = |spec: &MapSpec| MapFd::get(&directory.join(map_name(spec.name)), spec).ok();
    let maps: Vec<MapFd> = MAPS.iter().map(get).collect::<Option<_>>()?;
    let about = About::read(&maps[Map::About as usize].lookup(&0u32.to_ne_bytes()).ok()??);
    (about.layout == LAYOUT).then_some(maps)
}
