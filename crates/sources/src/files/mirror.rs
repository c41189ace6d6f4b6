//! Updates the stored facts when the files that people edit have changed.
//!
//! If a file exists, the file determines the content of the records that are mirrored from it. A look is one check of all these files. Every look
//! compares the inode number, change time and size of each file with the stored values of the last version that was read. A file is read again if one
//! of these values differs, or if this process has not read this version yet. A file is also read again if it changed very recently, because a later
//! change could have the same change time. The content of the file is then compared with the stored facts. All differences between the files and the
//! facts are committed as one change.
//!
//! A look first reads the [`MirroredFile`] records, and then the files. The commit of a look is refused if one of the records was changed in the
//! meantime. If two looks try to commit changes of the same file at the same time, the second commit is refused, and the second look is repeated. The
//! two looks can belong to one process or to two processes.

mod contents;
mod datastores;
mod draft;
mod ids;
mod people;
mod roles;
mod users;
mod watch;

use super::bounded;
use super::file_set::{FILE_BYTES_MAX, FileSet};
use super::section_config;
use super::token_shadow::{Changes, Secrets, Seen, TokenShadow};
use super::user_cfg::{self, UserCfg};
use crate::pause::pause;
use contents::{Content, Digest, FileContents, News};
use draft::Draft;
use enfilade_facts::tables::{FileName, FileVersion, MirroredFile};
use enfilade_facts::vocabulary::Authid;
use enfilade_facts::{
    At, AuditRecord, Change, Clocks, CommitError, MemoSeed, MirrorHealth, Read, Requester, Source,
    SourceError, View,
};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use watch::Watch;

/// The result of a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The commit; `None` if no fact had to be changed.
    pub committed: Option<At>,
    /// The number of records that were added to the facts.
    pub added: usize,
    /// The number of records that were changed. This includes records that got a `FileFault` because their part of a file cannot be read.
    pub changed: usize,
    /// The number of records that were removed.
    pub removed: usize,
    /// The problems in the files, each with the file, the line and the reason.
    pub problems: Vec<String>,
}

/// The author of a change of a file, if a command of this program or a request to the server made the change.
#[derive(Clone, Copy, Debug)]
pub struct Editor<'a> {
    /// The name of the author, for the audit log.
    pub who: &'a str,
    /// The description of the change, for the audit log.
    pub what: &'a str,
}

/// A look that failed.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// The facts could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The facts could not be changed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Updates the stored facts when the files of one directory have changed.
pub struct Mirror {
    set: FileSet,
    /// The content of `user.cfg` at the last look. The field `secrets` contains digests of the entries of `token.shadow` at the last look. Because of
    /// these two fields, a look compares only one record if only one line was changed.
    users: Option<(Digest, UserCfg)>,
    secrets: Option<(Digest, Seen)>,
    /// The value that the field `secrets` gets when the current look succeeds.
    walked: Option<(Digest, Seen)>,
    seed: MemoSeed,
    /// For each file that this process compared: the earliest time, in seconds since the epoch, at which last good facts of a file expire, because
    /// their error is older than the stale limit. All files that were compared in the same look have the same time here. If the file has problems,
    /// the first look that is made at this time or later reads the file again. A file with problems is also read if it has no entry in this map.
    due: BTreeMap<FileName, i64>,
    /// For each file, the version and the digest of its bytes, if the version was not fresh when this process read it ([`is_fresh`]). This version
    /// need not be read again.
    settled: BTreeMap<FileName, (FileVersion, Digest)>,
    /// Waits between two readings of a file that is being written in place.
    between: Box<dyn Fn() + Send + Sync>,
    watch: Watch,
}

/// The greatest number of attempts of a look, if other processes change the same facts at the same time.
const COMMIT_TRIES: usize = 32;
/// The greatest number of readings of a file that a program writes in place.
const READ_TRIES: usize = 8;
const READ_PAUSE: Duration = Duration::from_millis(25);

/// The differences between the files and the facts.
struct Compared {
    change: Change,
    outcome: Outcome,
    /// The records of the compared files after the change.
    after: Vec<(FileName, MirroredFile)>,
    /// The earliest time, in seconds since the epoch, at which last good facts expire, because their error is older than the stale limit.
    due: Option<i64>,
}

/// Whether the facts were taken from a file with these bytes, according to the record of the file.
pub fn is_version(bytes: &[u8], row: &MirroredFile) -> bool {
    matches!(Content::of(bytes.to_vec(), None), Content::Read { digest, .. } if digest == row.digest)
}

impl Mirror {
    /// A mirror of these files. The files need not exist.
    pub fn new(set: FileSet) -> Self {
        // If the kernel gives no random bytes, a constant is used. This is safe: an attacker needs to write the file to cause a collision of digests,
        // and an attacker who can write the file can change its entries anyway.
        let mut seed = *b"enfilade seen  1";
        let _ = getrandom::fill(&mut seed);
        let (users, secrets, walked) = (None, None, None);
        let (due, settled) = (BTreeMap::new(), BTreeMap::new());
        let (seed, watch) = (MemoSeed(seed), Watch::new());
        let between = Box::new(|| pause(READ_PAUSE));
        Mirror { set, users, secrets, walked, seed, due, settled, between, watch }
    }

    /// Reads the files once, and commits a change if the files differ from the stored facts.
    ///
    /// # Errors
    /// When the facts cannot be read or changed. Problems in the files are not returned as an error. The outcome contains these problems.
    pub fn look(&mut self, source: &dyn Source, now: Clocks) -> Result<Outcome, MirrorError> {
        self.look_for(source, now, None)
    }

    /// Works like [`Mirror::look`], for an editor `by` that has changed a file and still holds the lock of the file.
    ///
    /// # Errors
    /// The errors of [`Mirror::look`].
    pub fn look_for(
        &mut self,
        source: &dyn Source,
        now: Clocks,
        by: Option<Editor<'_>>,
    ) -> Result<Outcome, MirrorError> {
        let mut tries = 1;
        loop {
            match self.try_look(source, now, by) {
                Err(MirrorError::Commit(CommitError::Conflict { .. })) if tries < COMMIT_TRIES => tries += 1,
                done => return done,
            }
        }
    }

    /// Waits until something changes in the directory of one of the files, at most for the time `at_most`.
    pub fn wait(&mut self, at_most: Duration) {
        self.watch.wait(&self.set, at_most);
    }

    fn try_look(
        &mut self,
        source: &dyn Source,
        now: Clocks,
        by: Option<Editor<'_>>,
    ) -> Result<Outcome, MirrorError> {
        let rows = source.read(|view| view.list::<MirroredFile>(&[]))??;
        let mut rows: BTreeMap<FileName, MirroredFile> = rows.into_iter().collect();
        let mut news = self.news(&rows, now);
        self.settle(&news, now);
        if news.iter().all(News::is_known_and_current) {
            return Ok(Outcome { problems: self.problems(rows.iter()), ..Outcome::default() });
        }
        self.join(&mut news, &rows);
        let said = FileContents::of(&news, self.walk(&news));
        let Compared { change, mut outcome, after, due } =
            source.read(|view| self.compared(view, &news, &said, now, by))??;
        if !change.is_empty() {
            // If another process holds the lock of a file, that process is changing the file, and will commit the change with the name of its user.
            // So this look first waits for that process. If that process commits the change, the commit of this look is refused, and the change log
            // contains the change only once.
            let _finished = by.is_none().then(|| self.set.let_finish(news.iter().map(|news| news.file)));
            outcome.committed = Some(source.commit(&change)?);
        }
        for (file, row) in after {
            self.due.insert(file, due.unwrap_or(i64::MAX));
            rows.insert(file, row);
        }
        self.remember(&news, said, &rows);
        outcome.problems = self.problems(rows.iter());
        Ok(outcome)
    }

    /// The change that a look would commit after an edit that writes these contents into these files. The other files are assumed to be unchanged.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn would_commit<'c>(
        &mut self,
        view: &View<'_>,
        now: Clocks,
        by: Editor<'_>,
        contents: impl Iterator<Item = (FileName, &'c [u8])>,
    ) -> Result<Change, SourceError> {
        let rows: BTreeMap<FileName, MirroredFile> = view.list::<MirroredFile>(&[])?.into_iter().collect();
        let mut news: Vec<News> = contents
            .map(|(file, bytes)| News {
                file,
                before: rows.get(&file).cloned(),
                content: Content::of(bytes.to_vec(), None),
            })
            .collect();
        self.join(&mut news, &rows);
        // The call of `walk` removes the value of `secrets`. The value is put back, because the look after the edit needs it.
        let seen = self.secrets.clone();
        let said = FileContents::of(&news, self.walk(&news));
        self.secrets = seen;
        Ok(self.compared(view, &news, &said, now, Some(by))?.change)
    }

    /// Compares the files with the facts.
    fn compared(
        &self,
        view: &View<'_>,
        news: &[News],
        said: &FileContents,
        now: Clocks,
        by: Option<Editor<'_>>,
    ) -> Result<Compared, SourceError> {
        let change = Change::requested_by(Requester::File, audit(news, by, now));
        let mut draft = Draft::new(view, change, now, self.set.stale_limit());
        let mut after = Vec::new();
        for news in news {
            after.push((news.file, said.row(news, &mut draft)));
        }
        self.compare(news, said, &mut draft)?;
        for ((file, row), news) in after.iter_mut().zip(news) {
            *row = draft.file_row(*file, news.before.as_ref(), std::mem::take(row));
        }
        // The `MirroredFile` records, which are added to the change next, are not counted.
        let (added, changed, removed) = (draft.added, draft.changed, draft.removed);
        for ((file, row), news) in after.iter().zip(news) {
            draft.put(file, news.before.as_ref(), row);
            draft.change.expect_unchanged(file, news.before.as_ref());
        }
        let outcome = Outcome { added, changed, removed, ..Outcome::default() };
        Ok(Compared { change: draft.change, outcome, after, due: draft.due })
    }

    /// Reads the files that may differ from the facts.
    fn news(&self, rows: &BTreeMap<FileName, MirroredFile>, now: Clocks) -> Vec<News> {
        let news = |file: FileName| {
            let before = rows.get(&file).cloned();
            let version = std::fs::metadata(self.set.path(file)).map(|meta| version_of(&meta));
            match (&version, &before) {
                // A file that does not exist and has no record in the facts is not an error.
                (Err(why), None) if why.kind() == io::ErrorKind::NotFound => return None,
                (Ok(version), Some(row)) if self.is_settled(file, version, row) => {
                    let is_due = || self.due.get(&file).is_none_or(|due| *due <= now.unix_seconds);
                    if row.problem_count == 0 || !is_due() {
                        return None;
                    }
                }
                _ => {}
            }
            Some(self.read(file, before, now))
        };
        FileName::ALL.into_iter().filter_map(news).collect()
    }

    /// Whether the file need not be read again. This is true if the stored facts come from this version of the file, and this process read the
    /// version when the version was not fresh any more ([`is_fresh`]). So every later change gives the file another change time.
    fn is_settled(&self, file: FileName, version: &FileVersion, row: &MirroredFile) -> bool {
        row.version == Some(*version) && self.settled.get(&file) == Some(&(*version, row.digest))
    }

    /// Remembers the version and digest of each file that was read, if the version was not fresh (see [`is_fresh`]). Such a file need not be read
    /// again until its version changes. `now` is the time before the files were read.
    fn settle(&mut self, news: &[News], now: Clocks) {
        for news in news {
            match &news.content {
                Content::Read { digest, version: Some(version), .. } if !is_fresh(version, now) => {
                    self.settled.insert(news.file, (*version, *digest));
                }
                _ => drop(self.settled.remove(&news.file)),
            }
        }
    }

    fn read(&self, file: FileName, before: Option<MirroredFile>, now: Clocks) -> News {
        let known = before.as_ref().and_then(|before| before.version);
        let content = match self.read_settled(file, known, now) {
            Ok((bytes, version)) => Content::of(bytes, version),
            Err(why) => Content::Unreadable(format!("cannot be read: {why}")),
        };
        News { file, before, content }
    }

    /// The bytes of a file and its version. The version is `None` if the file changed during the last of `READ_TRIES` readings. If an editor writes a
    /// file in place, the file is empty or incomplete for a moment. So a file that was changed in place a moment ago is read until two consecutive
    /// readings find the same version, at most `READ_TRIES` times.
    fn read_settled(
        &self,
        file: FileName,
        known: Option<FileVersion>,
        now: Clocks,
    ) -> io::Result<(Vec<u8>, Option<FileVersion>)> {
        let path = self.set.path(file);
        let mut settled: Option<FileVersion> = None;
        let mut tries = 1;
        loop {
            let opened = bounded::open(&path)?;
            let before = version_of(&opened.metadata()?);
            let bytes = bounded::read_all(&opened, FILE_BYTES_MAX)?;
            let is_whole = before == version_of(&opened.metadata()?);
            let in_place = known.is_some_and(|known| known.inode == before.inode && known != before);
            let is_settled = !in_place || !is_fresh(&before, now) || settled == Some(before);
            if (is_whole && is_settled) || tries == READ_TRIES {
                return Ok((bytes, is_whole.then_some(before)));
            }
            settled = is_whole.then_some(before);
            tries += 1;
            (self.between)();
        }
    }

    /// Adds files that must be compared together with the files in `news`. Tokens are in both `user.cfg` and `token.shadow`. The role of `root@pam`
    /// must exist if there are users, so `acl.cfg` is compared together with `user.cfg`.
    fn join(&self, news: &mut Vec<News>, rows: &BTreeMap<FileName, MirroredFile>) {
        let has = |news: &[News], file| news.iter().any(|news| news.file == file);
        let add = |news: &mut Vec<News>, file: FileName, when: bool| {
            let row = rows.get(&file);
            if when && !has(news, file) && row.is_some() {
                let far_away =
                    Clocks { unix_seconds: i64::MAX, tick_millis: 0, mirror: MirrorHealth::Current };
                news.push(self.read(file, row.cloned(), far_away));
            }
        };
        let users_have_problems = rows.get(&FileName::Users).is_some_and(|row| row.problem_count > 0);
        let with_users = has(news, FileName::Secrets) && (users_have_problems || self.secrets.is_none());
        add(news, FileName::Users, with_users);
        let with_secrets = has(news, FileName::Users);
        add(news, FileName::Secrets, with_secrets);
        add(news, FileName::Acl, with_secrets);
        news.sort_by_key(|news| news.file);
    }

    fn compare(
        &self,
        news: &[News],
        said: &FileContents,
        draft: &mut Draft<'_, '_>,
    ) -> Result<(), SourceError> {
        if let Some(datastores) = &said.datastores {
            datastores.compare(draft)?;
        }
        if said.users.is_some() || said.secrets.is_some() {
            let changed = self.changed(news, said);
            let users = said.users.as_ref();
            users::compare(&users::AccountFiles { users, secrets: said.secrets.as_ref(), changed }, draft)?;
        }
        match (&said.acl, &said.users) {
            (Some(acl), _) => roles::compare(acl, draft)?,
            // `root@pam` has its role even if `acl.cfg` does not exist or cannot be read.
            (None, Some(_)) => roles::ensure_administrator(draft)?,
            (None, None) => {}
        }
        Ok(())
    }

    /// The users and tokens with an entry that changed in the files since the last look of this process. `None` if the changed entries are not known,
    /// for example because another process has changed the facts since then.
    fn changed(&self, news: &[News], said: &FileContents) -> Option<Vec<Authid>> {
        let mut changed = Vec::new();
        let of = |file| news.iter().find(|news| news.file == file);
        if let (Some(news), Some(now)) = (of(FileName::Users), &said.users) {
            let (digest, before) = self.users.as_ref()?;
            was_left(news, digest).filter(|()| now.problems.is_empty() && now.broken.is_empty())?;
            differing(&before.entries, &now.entries, &mut changed);
        }
        if let Some(Secrets::Whole(_, of_secrets)) = &said.secrets {
            changed.extend(of_secrets.as_ref()?.iter().cloned());
        }
        Some(changed)
    }

    fn remember(&mut self, news: &[News], said: FileContents, rows: &BTreeMap<FileName, MirroredFile>) {
        let digest = |file: FileName| {
            let row = rows.get(&file).filter(|row| row.problem_count == 0 && row.fault.is_none())?;
            news.iter().any(|news| news.file == file).then_some(row.digest)
        };
        if news.iter().any(|news| news.file == FileName::Users) {
            self.users = digest(FileName::Users).zip(said.users);
        }
        match (digest(FileName::Secrets), said.secrets) {
            (Some(now), Some(Secrets::Whole(said, None))) => {
                self.secrets = Some((now, Seen::new(&said, self.seed)));
            }
            (Some(now), Some(_)) => self.secrets = self.walked.take().map(|(_, seen)| (now, seen)),
            (None, _) | (_, None) if news.iter().any(|news| news.file == FileName::Secrets) => {
                self.secrets = None
            }
            _ => {}
        }
    }

    /// The tokens with an entry that changed in `token.shadow` since the last look. `None` if the changed entries are not known, for example because
    /// another process has changed the facts since then. This function removes the value of `secrets`. So if this look fails, the next look compares
    /// the whole file.
    fn walk(&mut self, news: &[News]) -> Option<Changes> {
        let secrets = news.iter().find(|news| news.file == FileName::Secrets)?;
        let (digest, mut seen) = self.secrets.take()?;
        was_left(secrets, &digest)?;
        let changes = seen.changes(secrets.bytes()?)?;
        self.walked = Some((digest, seen));
        Some(changes)
    }

    /// Reads `user.cfg` and `token.shadow`. If the facts were taken from the present content of a file, this content counts as the content at the
    /// last look. A caller that holds the locks of the files calls this function before it changes the files, so that the next look compares only the
    /// changed entries.
    ///
    /// # Errors
    /// When the facts cannot be read.
    pub fn has_seen(&mut self, source: &dyn Source, now: Clocks) -> Result<(), SourceError> {
        let rows = source.read(|view| view.list::<MirroredFile>(&[]))??;
        for (file, row) in
            rows.into_iter().filter(|(file, _)| matches!(file, FileName::Users | FileName::Secrets))
        {
            let news = self.read(file, Some(row), now);
            let (Some(digest), Some(bytes), true) = (news.digest(), news.bytes(), news.is_known()) else {
                continue;
            };
            match file {
                FileName::Users => self.users = Some((digest, user_cfg::read(&section_config::parse(bytes)))),
                _ => {
                    let hashes = TokenShadow::parse(bytes).map(TokenShadow::hashes);
                    self.secrets = hashes.ok().map(|hashes| (digest, Seen::new(&hashes, self.seed)));
                }
            }
        }
        Ok(())
    }

    fn problems<'r>(&self, rows: impl Iterator<Item = (&'r FileName, &'r MirroredFile)>) -> Vec<String> {
        let mut problems = Vec::new();
        for (file, row) in rows {
            let path = self.set.path(*file);
            problems.extend(row.problems.iter().map(|problem| format!("{}: {problem}", path.display())));
            let untold = (row.problem_count as usize).saturating_sub(row.problems.len());
            if untold > 0 {
                problems.push(format!("{}: {untold} more problems are not listed", path.display()));
            }
        }
        problems
    }
}

/// `Some` if the facts were taken from the content with this digest, and this content has no problems.
fn was_left(news: &News, digest: &Digest) -> Option<()> {
    let before = news.before.as_ref()?;
    (before.digest == *digest && before.problem_count == 0 && before.fault.is_none()).then_some(())
}

fn differing<T: PartialEq>(before: &BTreeMap<Authid, T>, now: &BTreeMap<Authid, T>, to: &mut Vec<Authid>) {
    to.extend(
        now.iter()
            .filter(|(authid, said)| before.get(authid) != Some(said))
            .map(|(authid, _)| authid.clone()),
    );
    to.extend(before.keys().filter(|authid| !now.contains_key(authid)).cloned());
}

/// The author of the change, and its description.
fn audit(news: &[News], by: Option<Editor<'_>>, now: Clocks) -> AuditRecord {
    let named = |is_meant: fn(&News) -> bool| {
        news.iter()
            .filter(|news| is_meant(news))
            .map(|news| news.file.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    // After a restore, the facts can differ from the files although no file was changed. In this case, the description lists all compared files.
    let names = match named(|news| !news.is_known()) {
        changed if changed.is_empty() => named(|_| true),
        changed => changed,
    };
    let (who, what) = match by {
        Some(by) => (by.who.to_owned(), by.what.to_owned()),
        None => (names.clone(), format!("mirror {names}")),
    };
    AuditRecord { who, what, unix_seconds: now.unix_seconds, request: None }
}

fn version_of(meta: &Metadata) -> FileVersion {
    FileVersion {
        inode: meta.ino(),
        changed: meta.ctime(),
        changed_nanos: u32::try_from(meta.ctime_nsec()).unwrap_or(0),
        bytes: meta.size(),
    }
}

/// Whether the change time of a file is in the last two seconds or in the future. The kernel's clock for file times advances in ticks, and two
/// changes within one tick have the same time. So a fresh file is read again at the next look. `now` is the time before the file was read.
fn is_fresh(version: &FileVersion, now: Clocks) -> bool {
    version.changed >= now.unix_seconds.saturating_sub(2)
}

#[cfg(test)]
mod tests;
