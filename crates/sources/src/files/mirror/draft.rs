//! Builds the change that updates the stored facts to the content of the files.

use enfilade_facts::tables::{Ends, FileFault, FileName, MirroredFile};
use enfilade_facts::{Change, Clocks, Row, View};
use std::collections::BTreeMap;

/// A change that is being made, its counts, and the problems to report.
pub(super) struct Draft<'v, 's> {
    pub(super) view: &'v View<'s>,
    pub(super) change: Change,
    pub(super) added: usize,
    pub(super) changed: usize,
    pub(super) removed: usize,
    /// The problems of each file. The texts do not contain the name of the file.
    pub(super) problems: BTreeMap<FileName, Vec<String>>,
    /// The earliest time, in seconds since the epoch, at which last good facts expire, because their error is older than the stale limit.
    pub(super) due: Option<i64>,
    now: Clocks,
    stale_limit: i64,
}

impl<'v, 's> Draft<'v, 's> {
    pub(super) fn new(view: &'v View<'s>, change: Change, now: Clocks, stale_limit: i64) -> Self {
        let problems = BTreeMap::new();
        Draft { view, change, added: 0, changed: 0, removed: 0, problems, due: None, now, stale_limit }
    }

    pub(super) fn now(&self) -> Clocks {
        self.now
    }

    /// Puts a record, unless it is the same as before.
    pub(super) fn put<R: Row + PartialEq>(&mut self, key: &R::Key, before: Option<&R>, after: &R) {
        if before == Some(after) {
            return;
        }
        self.change.expect_unchanged(key, before).put(key, after);
        match before {
            None => self.added += 1,
            Some(_) => self.changed += 1,
        }
    }

    /// Replaces a record that sessions depend on. [`Change::replace`] also ends the sessions that the replacement makes invalid.
    pub(super) fn replace<R: Ends + PartialEq>(&mut self, key: &R::Key, before: &R, after: &R) {
        if before != after {
            self.change.replace(key, before, after);
            self.changed += 1;
        }
    }

    /// Makes a record under a new id.
    pub(super) fn put_new<R: Row>(&mut self, id: &R::Key, row: &R) {
        self.change.put(id, row);
        self.added += 1;
    }

    pub(super) fn delete<R: Row>(&mut self, key: &R::Key, before: &R) {
        self.change.expect_same(key, before).delete::<R>(key);
        self.removed += 1;
    }

    pub(super) fn problem(&mut self, file: FileName, problem: String) {
        self.problems.entry(file).or_default().push(problem);
    }

    /// The [`FileFault`] for an error of a record or a file. If there was an earlier error, its start time is kept. If `serves` is true, the last
    /// good facts are used until the error is older than the stale limit.
    pub(super) fn fault(
        &mut self,
        before: Option<&FileFault>,
        (line, reason): (u32, &str),
        serves: bool,
    ) -> FileFault {
        let since = before.map_or(self.now.unix_seconds, |fault| fault.since);
        // If the clock was set back, the age can be negative. Then the true age is unknown, and the facts are not used.
        let is_young = (0..=self.stale_limit).contains(&self.now.unix_seconds.saturating_sub(since));
        let refuses = !serves || !is_young || before.is_some_and(|fault| fault.refuses);
        if !refuses {
            let due = since.saturating_add(self.stale_limit).saturating_add(1);
            self.due = Some(self.due.map_or(due, |first| first.min(due)));
        }
        FileFault { line, reason: reason.to_owned(), since, refuses }
    }

    /// A text that says whether the last good facts are still used.
    pub(super) fn means(&self, fault: &FileFault, had_facts: bool) -> String {
        match (fault.refuses, had_facts) {
            (false, _) => {
                format!("the last good facts stay in use until the problem is {} s old", self.stale_limit)
            }
            (true, true) => "access is refused".to_owned(),
            (true, false) => "not in effect, because there is no earlier valid entry".to_owned(),
        }
    }

    /// Completes the record of a file with the problems that were reported for the file.
    pub(super) fn file_row(
        &self,
        file: FileName,
        before: Option<&MirroredFile>,
        row: MirroredFile,
    ) -> MirroredFile {
        let problems = self.problems.get(&file).map(Vec::as_slice).unwrap_or_default();
        let was_good = before.is_some_and(|before| before.problem_count == 0);
        let good = match before {
            _ if problems.is_empty() => None,
            Some(_) if was_good => Some(self.view.at().revision),
            other => other.and_then(|before| before.good),
        };
        let since = before.and_then(|before| before.since).unwrap_or(self.now.unix_seconds);
        MirroredFile {
            since: (!problems.is_empty()).then_some(since),
            problems: problems.iter().take(MirroredFile::PROBLEMS_MAX).cloned().collect(),
            problem_count: u32::try_from(problems.len()).unwrap_or(u32::MAX),
            good,
            ..row
        }
    }
}
