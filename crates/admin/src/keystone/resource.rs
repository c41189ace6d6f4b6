//! The kinds of records that Identity v3 creates, changes and deletes by id. Each kind implements [`StoredResource`] with its own checks and
//! dependents; [`save`] and [`delete`] are the same for all kinds.

use super::extra::{extra_of, put_extra};
use crate::change_context::{ChangeContext, random};
use crate::error::{Error, missing};
use crate::limit_model::LimitModel;
use enfilade_facts::tables::{
    Ends, Extra, ExtraKey, Key, Name, NameKey, Region, RegionId, ResourceKind, Row, Service,
};
use enfilade_facts::vocabulary::{IdBytes, ServiceId};
use enfilade_facts::{At, Change, Read, View};
use std::fmt;

/// Builds the record and its additional attributes (a JSON object, or an empty text) from the existing record and attributes. The argument is `None`
/// for a new record.
pub type Build<'b, R> = &'b dyn Fn(Option<(&R, &str)>) -> Result<(R, String), Error>;

/// A saved record.
#[derive(Clone, Debug)]
pub struct Saved<K, R> {
    /// The id of the record.
    pub id: K,
    /// The record.
    pub row: R,
    /// The additional attributes of the record.
    pub extra: String,
}

/// The record that [`save`] creates or changes.
#[derive(Clone, Copy, Debug)]
pub enum RecordId<K> {
    /// A new record with a random id.
    New,
    /// A new record with this id.
    NewWith(K),
    /// The record with this id.
    Existing(K),
}

/// A record that is about to be saved.
pub struct Saving<'s, 'v, R: Row> {
    pub(super) view: &'s View<'v>,
    pub(super) change: &'s mut Change,
    pub(super) id: &'s R::Key,
    pub(super) before: Option<&'s R>,
    pub(super) limit_model: LimitModel,
}

/// Claims a record for a change. If two changes claim the same record at the same time, the changes conflict, and the later change is built again.
/// The record itself does not change.
pub(super) fn claim<R: Row>(
    view: &View<'_>,
    change: &mut Change,
    key: &R::Key,
    row: &R,
) -> Result<(), Error> {
    if let Some(revision) = view.revision_of::<R>(key)? {
        change.expect_revision::<R>(key, revision).put(key, row);
    }
    Ok(())
}

/// Claims the service that a record belongs to. The service must exist. The deletion of a service claims the service, too, so the record is not saved
/// if its service is deleted at the same time.
pub(super) fn claim_service(view: &View<'_>, change: &mut Change, id: &ServiceId) -> Result<(), Error> {
    let row = view.get::<Service>(id)?.ok_or_else(|| missing("service", id))?;
    claim(view, change, id, &row)
}

/// Like [`claim_service`], but for a region. The region may also be created by the same change.
pub(super) fn claim_region(view: &View<'_>, change: &mut Change, id: &RegionId) -> Result<(), Error> {
    match view.get::<Region>(id)? {
        Some(row) => claim(view, change, id, &row),
        None if change.puts::<Region>(id) => Ok(()),
        None => Err(missing("region", id)),
    }
}

impl<R: StoredResource> Saving<'_, '_, R> {
    /// Reserves the new name of the record, if the name is free, and releases the former name of the record.
    pub(super) fn take_name(
        &mut self,
        key: impl Fn(&R) -> NameKey,
        row: &R,
        name: &str,
        id: IdBytes,
    ) -> Result<(), Error> {
        let (before, new) = (self.before.map(&key), key(row));
        if before == Some(new) {
            return Ok(());
        }
        if self.view.get::<Name>(&new)?.is_some() {
            let hint = "choose another name";
            return Err(Error::Exists { what: R::NAME, name: name.to_owned(), hint });
        }
        if let Some(before) = before {
            self.change.delete::<Name>(&before);
        }
        self.change.expect_absent::<Name>(&new).put(&new, &Name::new(id, name));
        Ok(())
    }
}

/// A kind of record that is saved and deleted by id.
pub trait StoredResource: Row<Key: Key + Clone + fmt::Display> + Clone {
    /// The name of this kind of record in errors and in the audit log.
    const NAME: &'static str;
    /// The kind under which the additional attributes of the record are stored.
    const KIND: ResourceKind;
    /// The verb for a deletion in the audit log.
    const DELETE: &'static str = "delete";

    /// The name of the record in the audit log. The name is empty if the audit log contains only the id of the record.
    fn called(&self) -> &str {
        ""
    }

    /// The id of a new record, from random bytes.
    fn new_id(random: [u8; 16]) -> Option<Self::Key> {
        Key::from_bytes(&random)
    }

    /// Checks a record before it is saved. Adds the name of the record to the change. The change also expects that all records to which this record
    /// refers exist.
    ///
    /// # Errors
    /// When the record is invalid, or a record to which it refers does not exist.
    fn prepare(&mut self, at: &mut Saving<'_, '_, Self>) -> Result<(), Error>;

    /// Writes the record.
    fn put(&self, change: &mut Change, id: &Self::Key, before: Option<&Self>) {
        change.expect_unchanged(id, before).put(id, self);
    }

    /// Adds the deletion of the record, and of everything that depends on it, to the change. If many other records depend on the record, some of them
    /// are deleted later, in the background.
    ///
    /// # Errors
    /// When the state of the record does not allow the deletion, or the facts cannot be read.
    fn forget(&self, view: &View<'_>, change: &mut Change, id: &Self::Key) -> Result<(), Error>;
}

/// Creates or changes a record.
///
/// # Errors
/// When the record to change does not exist, the record to create already exists, the record is invalid, or the facts cannot be changed.
pub fn save<R: StoredResource>(
    ctx: &ChangeContext<'_>,
    id: &RecordId<R::Key>,
    build: Build<'_, R>,
) -> Result<Saved<R::Key, R>, Error> {
    save_with(ctx, id, build, &|_, _| Ok(()))
}

/// Like [`save`], but before the record is saved, `first` adds other records to the same change.
pub(super) fn save_with<R: StoredResource>(
    ctx: &ChangeContext<'_>,
    id: &RecordId<R::Key>,
    build: Build<'_, R>,
    first: &dyn Fn(&View<'_>, &mut Change) -> Result<(), Error>,
) -> Result<Saved<R::Key, R>, Error> {
    let verb = if let RecordId::Existing(_) = id { "update" } else { "create" };
    let (saved, _) = ctx.commit(&format!("{} {verb}", R::NAME), |view, change| {
        first(view, change)?;
        let (key, before) = match id {
            RecordId::New => (R::new_id(random()?).ok_or_else(|| missing(R::NAME, "new"))?, None),
            RecordId::NewWith(key) => match view.get::<R>(key)? {
                None => (key.clone(), None),
                Some(_) => {
                    let hint = "choose another id";
                    return Err(Error::Exists { what: R::NAME, name: key.to_string(), hint });
                }
            },
            RecordId::Existing(key) => {
                let row = view.get::<R>(key)?.ok_or_else(|| missing(R::NAME, key))?;
                (key.clone(), Some((row, extra_of(view, R::KIND, key)?)))
            }
        };
        let (mut row, extra) = build(before.as_ref().map(|(row, extra)| (row, extra.as_str())))?;
        let before = before.as_ref().map(|(row, _)| row);
        change.describe(format!("{} {verb} {key}{}", R::NAME, in_brackets(row.called())));
        row.prepare(&mut Saving { view, change, id: &key, before, limit_model: ctx.limit_model })?;
        row.put(change, &key, before);
        put_extra(change, R::KIND, &key, &extra)?;
        Ok(Saved { id: key, row, extra })
    })?;
    Ok(saved)
}

/// The name of a record in brackets, for the change log, where it follows the id. Empty if the name is empty.
pub(super) fn in_brackets(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" ({name})") }
}

/// Deletes a record. The deletion is in effect from the next request on. Dependent records are possibly deleted later, in the background.
///
/// # Errors
/// When the record does not exist, its state does not allow the deletion, or the facts cannot be changed.
pub fn delete<R: StoredResource>(ctx: &ChangeContext<'_>, id: &R::Key) -> Result<At, Error> {
    let row = ctx.facts.read(|view| view.get::<R>(id))??;
    let name = row.map(|row| in_brackets(row.called())).unwrap_or_default();
    let ((), at) = ctx.commit(&format!("{} {} {id}{name}", R::NAME, R::DELETE), |view, change| {
        let row = view.get::<R>(id)?.ok_or_else(|| missing(R::NAME, id))?;
        change.expect_same(id, &row).delete::<Extra>(&ExtraKey::of(R::KIND, id));
        row.forget(view, change, id)
    })?;
    Ok(at)
}

/// Writes a record that sessions depend on. If the new record grants less than the old record, the sessions that depend on the record end.
pub(super) fn put_and_end<R: Ends>(change: &mut Change, id: &R::Key, before: Option<&R>, row: &R) {
    match before {
        Some(before) => change.replace(id, before, row),
        None => change.expect_absent::<R>(id).put(id, row),
    };
}
