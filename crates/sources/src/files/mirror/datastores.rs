//! Compares `datastore.cfg` with the facts.

use super::draft::Draft;
use crate::files::datastore_cfg::read;
use crate::files::section_config::{self, LineError};
use enfilade_facts::SourceError;
use enfilade_facts::tables::{Binding, Datastore, DatastoreProfile, FileName};
use enfilade_facts::vocabulary::{DatastoreName, excerpt};
use std::collections::BTreeMap;

const FILE: FileName = FileName::Datastores;

/// The content of `datastore.cfg`.
#[derive(Default)]
pub(super) struct Datastores {
    stores: BTreeMap<DatastoreName, Datastore>,
    broken: BTreeMap<DatastoreName, LineError>,
    /// Problems that cannot be attributed to a datastore.
    problems: Vec<LineError>,
}

impl Datastores {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let parsed = section_config::parse(bytes);
        let mut said = Datastores { problems: parsed.errors, ..Datastores::default() };
        for section in &parsed.sections {
            match (read(section), section.id.parse()) {
                (Ok((name, datastore)), _) => {
                    said.stores.insert(name, datastore);
                }
                (Err(error), Ok(name)) => {
                    said.broken.entry(name).or_insert(error);
                }
                (Err(LineError { line, reason }), Err(_)) => {
                    let reason = format!("{reason} (section `{}`)", excerpt(&section.id));
                    said.problems.push(LineError { line, reason });
                }
            }
        }
        said
    }

    /// Whether the file has no problems. In this case, a datastore without a section was removed on purpose.
    fn is_whole(&self) -> bool {
        self.problems.is_empty() && self.broken.is_empty()
    }

    pub(super) fn compare(&self, draft: &mut Draft<'_, '_>) -> Result<(), SourceError> {
        for LineError { line, reason } in &self.problems {
            draft.problem(FILE, format!("line {line}: {reason}"));
        }
        let known = match draft.view.list::<Datastore>(&[]) {
            Ok(rows) => rows.into_iter().map(|(name, row)| (name, Some(row))).collect(),
            Err(why @ SourceError::Damaged { .. }) => {
                // The records of the other datastores are still updated from the file, but no datastore is removed.
                draft.problem(FILE, format!("{why}"));
                self.known_alone(draft)
            }
            Err(why) => return Err(why),
        };
        for (name, datastore) in &self.stores {
            // If the record of a datastore cannot be read, the server already refuses access to the datastore. So the record is not changed.
            if let Some(before) = known.get(name).map_or(Some(None), |row| row.as_ref().map(Some)) {
                draft.put(name, before, datastore);
            }
        }
        for (name, LineError { line, reason }) in &self.broken {
            if known.get(name).is_some_and(Option::is_none) {
                continue;
            }
            let means = mark(draft, name, known.get(name).and_then(Option::as_ref), (*line, reason));
            draft.problem(FILE, format!("line {line}: {reason} (datastore {name}: {means})"));
        }
        for (name, before) in &known {
            let Some(before) = before else { continue };
            if self.stores.contains_key(name) || self.broken.contains_key(name) {
                continue;
            }
            if self.is_whole() {
                draft.delete(name, before);
                // A datastore that is created later with the same name must not inherit the deleted datastore's binding and profile.
                draft.change.delete::<Binding>(name).delete::<DatastoreProfile>(name);
                continue;
            }
            let reason = "the file has no section for the datastore, but the file also has errors, so it is unknown whether somebody removed the section: to keep the datastore, put the section back; to remove the datastore, correct the errors";
            let means = mark(draft, name, Some(before), (0, reason));
            draft.problem(FILE, format!("datastore {name}: {reason}; {means}"));
        }
        Ok(())
    }

    /// For each datastore that the file names: its stored record, or `None` if the record cannot be read. A datastore without a record is left out.
    fn known_alone(&self, draft: &Draft<'_, '_>) -> BTreeMap<DatastoreName, Option<Datastore>> {
        let names = self.stores.keys().chain(self.broken.keys());
        let found = names.filter_map(|name| match draft.view.get::<Datastore>(name) {
            Ok(None) => None,
            Ok(Some(row)) => Some((name.clone(), Some(row))),
            Err(_) => Some((name.clone(), None)),
        });
        found.collect()
    }
}

/// Keeps the last good facts, and adds a `FileFault` to them. Returns a text that says whether the facts are still used.
fn mark(
    draft: &mut Draft<'_, '_>,
    name: &DatastoreName,
    before: Option<&Datastore>,
    error: (u32, &str),
) -> String {
    let mut after = before.cloned().unwrap_or_default();
    let fault = draft.fault(after.fault.as_ref(), error, before.is_some());
    let means = draft.means(&fault, !after.path.is_empty());
    after.fault = Some(fault);
    draft.put(name, before, &after);
    means
}
