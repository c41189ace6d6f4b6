//! What a `datastore.cfg` says, compared with the facts.

use crate::files::datastore_cfg::read;
use crate::files::section_config::{self, shown};
use enfilade_facts::limits::STALE_LIMIT_SECONDS;
use enfilade_facts::tables::{Datastore, SectionFault};
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_facts::{AuditRecord, Change, Now};
use std::collections::BTreeMap;

/// What the file says: datastores, and what is wrong with it.
#[derive(Default)]
pub(super) struct Content {
    stores: BTreeMap<DatastoreName, Datastore>,
    /// Line and reason.
    broken: BTreeMap<DatastoreName, (u32, String)>,
    /// What is wrong and belongs to no datastore.
    problems: Vec<String>,
    /// Why it could not be read; then it says nothing.
    unreadable: Option<String>,
}

/// The change that makes the facts what the file says, and what is to be told about it.
pub(super) struct Difference {
    pub(super) change: Change,
    pub(super) added: usize,
    pub(super) changed: usize,
    pub(super) removed: usize,
    /// Without the file's name.
    pub(super) problems: Vec<String>,
}

impl Content {
    /// Of a file's bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut content = Content::default();
        let parsed = section_config::parse(bytes);
        for error in &parsed.errors {
            content.problems.push(format!("line {}: {}", error.line, error.reason));
        }
        for section in &parsed.sections {
            match (read(section), section.id.parse()) {
                (Ok((name, datastore)), _) => {
                    content.stores.insert(name, datastore);
                }
                (Err(error), Ok(name)) => {
                    content.broken.entry(name).or_insert((error.line, error.reason));
                }
                (Err(error), Err(_)) => {
                    let id = shown(&section.id);
                    content.problems.push(format!("line {}: {} (section `{id}`)", error.line, error.reason));
                }
            }
        }
        content
    }

    /// Of a file that is gone or cannot be read: what it said last is stale, not deleted.
    pub(super) fn unreadable(why: &str) -> Self {
        Content { unreadable: Some(format!("cannot be read: {why}")), ..Content::default() }
    }

    /// Whether nothing is wrong anywhere. Then what is not in the file is meant to be gone.
    fn is_whole(&self) -> bool {
        self.unreadable.is_none() && self.problems.is_empty() && self.broken.is_empty()
    }

    /// Against the facts there are.
    pub(super) fn difference(&self, rows: Vec<(DatastoreName, Datastore)>, now: Now) -> Difference {
        let mut difference = Difference::new(self.problems.clone(), now);
        let known: BTreeMap<DatastoreName, Datastore> = rows.into_iter().collect();
        for (name, datastore) in &self.stores {
            difference.put(name, known.get(name), datastore);
        }
        for (name, (line, reason)) in &self.broken {
            let kept = difference.mark(name, known.get(name), (*line, reason), now);
            difference.problems.push(format!("line {line}: {reason} (datastore {name}: {kept})"));
        }
        if let Some(why) = &self.unreadable {
            let kept = format!("last good facts are kept for {STALE_LIMIT_SECONDS} s");
            difference.problems.push(format!("{why} (every datastore: {kept})"));
        }
        for (name, before) in &known {
            if self.stores.contains_key(name) || self.broken.contains_key(name) {
                continue;
            }
            if self.is_whole() {
                difference.change.expect_same(name, before).delete::<Datastore>(name);
                difference.removed += 1;
            } else if let Some(why) = &self.unreadable {
                difference.mark(name, Some(before), (0, &format!("the file {why}")), now);
            } else {
                let reason = "its section is gone from a file that has errors";
                let kept = difference.mark(name, Some(before), (0, reason), now);
                difference.problems.push(format!("datastore {name}: {reason}; {kept}"));
            }
        }
        difference
    }
}

impl Difference {
    fn new(problems: Vec<String>, now: Now) -> Self {
        let what = "mirror datastore.cfg".to_owned();
        let audit = AuditRecord { who: "datastore.cfg".into(), what, unix_seconds: now.unix_seconds };
        Difference { change: Change::new(audit), added: 0, changed: 0, removed: 0, problems }
    }

    fn put(&mut self, name: &DatastoreName, before: Option<&Datastore>, after: &Datastore) {
        if before == Some(after) {
            return;
        }
        self.change.expect_unchanged(name, before).put(name, after);
        match before {
            None => self.added += 1,
            Some(_) => self.changed += 1,
        }
    }

    /// The last good facts stay, with the word that they are stale and since when; says what that means.
    fn mark(
        &mut self,
        name: &DatastoreName,
        before: Option<&Datastore>,
        (line, reason): (u32, &str),
        now: Now,
    ) -> String {
        let fault = before.and_then(|row| row.fault.as_ref());
        let since = fault.map_or(now.unix_seconds, |fault| fault.since);
        let was_good = before.is_some_and(|row| row.fault.as_ref().is_none_or(|fault| fault.was_good));
        let mut after = before.cloned().unwrap_or_default();
        after.fault = Some(SectionFault { line, reason: reason.to_owned(), since, was_good });
        self.put(name, before, &after);
        match was_good {
            true => format!("last good facts are kept for {STALE_LIMIT_SECONDS} s"),
            false => "it was never good, so there are no facts to keep".to_owned(),
        }
    }
}
