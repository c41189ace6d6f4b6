//! The facts that a change would result in. The change itself is not committed.

use crate::change::Change;
use crate::error::{CommitError, SourceError};
use crate::journal::{Write, write_down};
use crate::revision::{At, Revision};
use crate::table::Table;
use crate::view::{Each, Found, Snapshot, View};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The facts of a view as they would be after a change. The change is not committed, so other readers do not see these facts.
pub struct After<'a> {
    before: &'a dyn Snapshot,
    at: At,
    /// The writes of the change, by table and key. `None` deletes the record.
    writes: BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>,
}

impl<'a> After<'a> {
    /// The facts after the change.
    ///
    /// # Errors
    /// The errors of [`write_down`]. A commit of the change at the revision of this view would have these errors, too.
    pub fn of(before: &'a View<'_>, change: &Change) -> Result<Self, CommitError> {
        let next = before.at().next();
        // With `Revision(0)` (no change is in the audit log yet), `write_down` deletes no entry of the change log.
        let writes = write_down(before, change, next.revision.0, Revision(0))?;
        let at = if writes.is_empty() { before.at() } else { next };
        let writes = writes.into_iter().map(|Write { table, key, stored }| ((table, key), stored)).collect();
        Ok(After { before, at, writes })
    }

    /// A view of the facts after the change.
    pub fn view(&self) -> View<'_> {
        View::new(self)
    }

    /// The writes of the change to this table, from the key `key` on, in key order.
    fn writes_from(&self, table: Table, key: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let from = self.writes.range((table, key.to_vec())..);
        from.take_while(move |((of, _), _)| *of == table)
            .map(|((_, key), stored)| (key.as_slice(), stored.as_deref()))
    }
}

impl Snapshot for After<'_> {
    fn at(&self) -> At {
        self.at
    }

    fn get<'s>(&'s self, table: Table, key: &[u8]) -> Result<Option<&'s [u8]>, SourceError> {
        match self.writes.get(&(table, key.to_vec())) {
            Some(written) => Ok(written.as_deref()),
            None => self.before.get(table, key),
        }
    }

    fn at_or_after(&self, table: Table, key: &[u8]) -> Result<Found<'_>, SourceError> {
        let mut from = key.to_vec();
        let kept = loop {
            match self.before.at_or_after(table, &from)? {
                Some((key, _)) if self.writes.contains_key(&(table, key.to_vec())) => {
                    from = [key, &[0]].concat();
                }
                found => break found,
            }
        };
        let written = self.writes_from(table, key).find_map(|(key, stored)| Some((key, stored?)));
        Ok(kept.into_iter().chain(written).min_by_key(|(key, _)| *key))
    }

    fn scan(&self, table: Table, prefix: &[u8], each: Each<'_>) -> Result<(), SourceError> {
        let written = self.writes_from(table, prefix);
        let mut written = written.take_while(|(key, _)| key.starts_with(prefix)).peekable();
        let mut end = ControlFlow::Continue(());
        self.before.scan(table, prefix, &mut |key, stored| {
            let mut is_replaced = false;
            while end.is_continue()
                && let Some((new, stored)) = written.next_if(|(new, _)| *new <= key)
            {
                is_replaced |= new == key;
                end = stored.map_or(end, |stored| each(new, stored));
            }
            if end.is_continue() && !is_replaced {
                end = each(key, stored);
            }
            end
        })?;
        while end.is_continue()
            && let Some((new, stored)) = written.next()
        {
            end = stored.map_or(end, |stored| each(new, stored));
        }
        Ok(())
    }
}
