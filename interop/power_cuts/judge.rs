//! Checks a disk after a power cut: everything acknowledged is on the disk in its acknowledged state or a newer state, and no change is incomplete.

use crate::disk::{Content, Disk, Event, Id, Op, digest};
use crate::opener::{Held, Kind, Opener};
use std::collections::BTreeMap;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The LMDB stores. The campaign opens and reads the stores, and does not compare their files.
const FACTS: &str = "data/facts";
const LOCKS: &str = "data/locks";

/// A digest of the file or directory under a path: content, mode and attributes.
type Shown = [u8; 32];

/// The versions of a path or of the locks. Each version has the number of the event that made it.
type Versions<T> = Vec<(usize, T)>;

pub(crate) struct Judge {
    /// The directory in which stores are opened.
    probe: PathBuf,
    paths: BTreeMap<String, Versions<Option<Shown>>>,
    locks: Versions<Option<Held>>,
    /// A digest of the facts after each change, by the number of the change.
    facts: BTreeMap<u64, String>,
    /// The number of the newest change, by event.
    changes: Versions<u64>,
    opened: BTreeMap<[u8; 32], Result<Held, String>>,
    opener: Opener,
}

/// The version at event `from`, and all later versions until event `to`.
fn between<T>(versions: &Versions<T>, from: usize, to: usize) -> impl Iterator<Item = &T> {
    let first = versions.iter().rposition(|(since, _)| *since <= from).unwrap_or(0);
    versions[first..].iter().take_while(move |(since, _)| *since <= to).map(|(_, version)| version)
}

/// Counters and notes of processes. No decision depends on them. These files are written in place and never synced, so any content may be left after
/// a power cut. No content may prevent the start of a server.
const NOTES: [&str; 5] =
    ["data/attempts", "data/control", "data/last-used", "data/sessions", "data/operations"];

/// Whether a path is compared. Temporary files, the stores, [`NOTES`], and files that are only locked are not compared.
fn is_judged(path: &str) -> bool {
    !NOTES.iter().any(|note| path.starts_with(note))
        && !path.split('/').any(|part| part.starts_with(".enfilade-"))
        && ![".lck", ".lock"].iter().any(|end| path.ends_with(end))
        && ![FACTS, LOCKS]
            .iter()
            .any(|store| path.strip_prefix(store).is_some_and(|rest| rest.starts_with('/')))
}

fn shown(disk: &Disk, id: Id) -> Shown {
    let inode = &disk.inodes[&id];
    let mut all = Vec::new();
    all.extend_from_slice(&inode.content.digest());
    all.extend_from_slice(&inode.mode.to_le_bytes());
    all.push(u8::from(inode.is_directory));
    for (name, value) in &*inode.attributes {
        all.extend_from_slice(name.as_bytes());
        all.push(0);
        all.extend_from_slice(&value.len().to_le_bytes());
        all.extend_from_slice(value);
    }
    digest(&all)
}

impl Judge {
    /// Records the content of the disk at each event. Fails if the program writes a file in place under its final name.
    pub(crate) fn new(probe: &Path, root_mode: u32, events: &[Event]) -> Self {
        let mut judge = Judge {
            probe: probe.to_owned(),
            paths: BTreeMap::new(),
            locks: vec![(0, None)],
            facts: BTreeMap::new(),
            changes: vec![(0, 0)],
            opened: BTreeMap::new(),
            opener: Opener::start(),
        };
        let mut disk = Disk::new(root_mode);
        let mut in_place = std::collections::BTreeSet::new();
        for (at, event) in events.iter().enumerate() {
            let changed = match event {
                Event::Op(Op::Write { id, .. }) => Some(*id),
                Event::Op(Op::Truncate { id, length }) => {
                    Some(*id).filter(|id| disk.inodes[id].content.bytes.len() != *length)
                }
                _ => None,
            };
            let is_it = |(path, id): &(String, Id)| Some(*id) == changed && is_judged(path);
            in_place.extend(disk.paths().into_iter().find(is_it).map(|(path, _)| path));
            disk.see(event);
            match event {
                // A commit may be on the disk before its writer gets the acknowledgement.
                Event::Op(Op::Write { id, .. })
                    if disk.paths().get(&format!("{LOCKS}/data.mdb")) == Some(id) =>
                {
                    judge.learn_stores(&disk, at + 1);
                }
                Event::Op(Op::Write { .. } | Op::Truncate { .. }) | Event::Sent(_) => {}
                Event::Op(_) => judge.learn_paths(&disk, at + 1),
                Event::Flushed(_) | Event::Sync { .. } | Event::SyncAll => judge.learn_stores(&disk, at + 1),
            }
        }
        assert_eq!(in_place, std::collections::BTreeSet::new(), "files that were written in place");
        judge
    }

    fn learn_paths(&mut self, disk: &Disk, at: usize) {
        let now: BTreeMap<String, Shown> = disk
            .paths()
            .into_iter()
            .filter(|(path, _)| is_judged(path))
            .map(|(path, id)| (path, shown(disk, id)))
            .collect();
        for (path, shown) in &now {
            let versions = self.paths.entry(path.clone()).or_insert_with(|| vec![(0, None)]);
            if versions.last().is_none_or(|(_, last)| last.as_ref() != Some(shown)) {
                versions.push((at, Some(*shown)));
            }
        }
        for (path, versions) in &mut self.paths {
            if !now.contains_key(path) && versions.last().is_some_and(|(_, last)| last.is_some()) {
                versions.push((at, None));
            }
        }
    }

    fn learn_stores(&mut self, disk: &Disk, at: usize) {
        let paths = disk.paths();
        // A store without changes is not compared, because the next start creates it again with a new id.
        if let Some(Ok(held)) =
            self.open(disk, &paths, FACTS).filter(|held| held.as_ref().is_ok_and(|held| held.number > 0))
        {
            let known = self.facts.entry(held.number).or_insert(held.all.clone());
            assert_eq!(*known, held.all, "change {} is two", held.number);
            if self.changes.last().is_none_or(|(_, last)| *last < held.number) {
                self.changes.push((at, held.number));
            }
        }
        if let Some(Ok(held)) = self.open(disk, &paths, LOCKS)
            && self.locks.last().is_none_or(|(_, last)| last.as_ref() != Some(&held))
        {
            self.locks.push((at, Some(held)));
        }
    }

    /// The number of changes, of versions of locks, and of paths that are checked.
    pub(crate) fn known(&self) -> (usize, usize, usize) {
        (self.facts.len(), self.locks.len(), self.paths.len())
    }

    /// Opens a store of the disk and reads it. Returns `None` if its file does not exist.
    fn open(
        &mut self,
        disk: &Disk,
        paths: &BTreeMap<String, Id>,
        store: &str,
    ) -> Option<Result<Held, String>> {
        let data = paths.get(&format!("{store}/data.mdb"))?;
        // Nothing was ever written to this store of locks.
        if disk.inodes[data].content.bytes.is_empty() && store == LOCKS {
            return None;
        }
        let files: Vec<(&str, &Arc<Content>)> = ["data.mdb", "high-water", "lookout"]
            .into_iter()
            .filter_map(|name| Some((name, &disk.inodes[paths.get(&format!("{store}/{name}"))?].content)))
            .collect();
        let mut key = store.as_bytes().to_vec();
        for (name, content) in &files {
            key.extend_from_slice(name.as_bytes());
            key.extend_from_slice(&content.digest());
        }
        let key = digest(&key);
        if let Some(known) = self.opened.get(&key) {
            return Some(known.clone());
        }
        let place = self.probe.join("store");
        let _ = std::fs::remove_dir_all(&place);
        std::fs::DirBuilder::new().mode(0o700).recursive(true).create(&place).unwrap();
        for (name, content) in &files {
            std::fs::write(place.join(name), &content.bytes).unwrap();
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(place.join(name), mode).unwrap();
        }
        let kind = if store == FACTS { Kind::Facts } else { Kind::Locks };
        let held = self.opener.open(kind, &place);
        self.opened.insert(key, held.clone());
        Some(held)
    }

    /// Judges a disk after a power cut before event `at`. Everything before event `acknowledged` was acknowledged; `None` means that nothing was
    /// acknowledged. The error names the problem.
    pub(crate) fn judge(
        &mut self,
        disk: &Disk,
        at: usize,
        acknowledged: Option<usize>,
    ) -> Result<(), String> {
        let paths = disk.paths();
        let from = acknowledged.unwrap_or(0);
        for (path, versions) in &self.paths {
            let found = paths.get(path).map(|id| shown(disk, *id));
            if !between(versions, from, at).any(|version| *version == found) {
                let newest = between(versions, from, at).last().copied().flatten();
                return Err(match (found, newest) {
                    (None, _) => format!("`{path}` is gone"),
                    (Some(_), None) => format!("`{path}` exists, but must not exist or is incomplete"),
                    (Some(_), Some(_)) => format!("`{path}` is older than acknowledged, or is incomplete"),
                });
            }
        }
        for path in paths.keys().filter(|path| is_judged(path)) {
            if !self.paths.contains_key(path) {
                return Err(format!("`{path}` exists, but the program never made it"));
            }
        }
        let Some(acknowledged) = acknowledged else { return Ok(()) };
        self.judge_facts(disk, &paths, at, acknowledged)?;
        let held = self.open(disk, &paths, LOCKS).transpose().map_err(|why| format!("locks: {why}"))?;
        let held = held.filter(|held| held.number > 0);
        let fits = between(&self.locks, acknowledged, at)
            .any(|version| version.as_ref().filter(|version| version.number > 0) == held.as_ref());
        if fits { Ok(()) } else { Err("the locks are not those that were acknowledged".to_owned()) }
    }

    fn judge_facts(
        &mut self,
        disk: &Disk,
        paths: &BTreeMap<String, Id>,
        at: usize,
        acknowledged: usize,
    ) -> Result<(), String> {
        let held = self.open(disk, paths, FACTS).ok_or("the facts are gone")?;
        let held = held.map_err(|why| format!("facts: {why}"))?;
        let oldest = between(&self.changes, acknowledged, at).next().copied().unwrap_or(0);
        if held.number < oldest {
            return Err(format!(
                "the newest change is {}, but change {oldest} was acknowledged",
                held.number
            ));
        }
        match self.facts.get(&held.number) {
            Some(all) if *all == held.all => Ok(()),
            Some(_) => Err(format!("the facts are not those of change {}", held.number)),
            None => Err(format!("the facts contain change {}, which was never made", held.number)),
        }
    }
}
