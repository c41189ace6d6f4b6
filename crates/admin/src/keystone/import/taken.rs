//! Finds the records that an import leaves out because another record in this store has the same name.

use super::CloudRecord;
use super::spelled::{Spell, spelled};
use crate::error::Error;
use crate::import::key_of_record;
use crate::keystone::names::check_role_name;
use enfilade_facts::tables::{Domain, Extra, Name, NameKey, NamedRole, Project, Row, Service};
use enfilade_facts::vocabulary::{DomainId, Realm, RoleId, ServiceId};
use enfilade_facts::{Read, Source, View};
use std::collections::{HashMap, HashSet};

/// The domains, roles, projects and services of the source (a Keystone server) that have the same name as another record in this store. Each text in
/// the result is a kind and a name. An import would leave out these records, and all records that refer to them. The domain `local` is not reported,
/// because every server has its own. A record is also not reported if an earlier import added it and it was later deleted here, unless this import
/// restores the record.
///
/// # Errors
/// When the facts cannot be read.
pub fn taken_names(
    facts: &dyn Source,
    things: &[CloudRecord],
    restore_deleted: bool,
) -> Result<Vec<String>, Error> {
    let own = Realm::local();
    let of_source = Plan::services_of(things);
    facts.read(|view| {
        let mut taken = Vec::new();
        for thing in things {
            let (kind, name, key, id, is_gone) = match thing {
                CloudRecord::Domain(id, row) if row.name != own => {
                    let is_gone = was_deleted::<Domain>(view, id)?;
                    ("domain", row.name.to_string(), NameKey::domain(&row.name), id.stored(), is_gone)
                }
                CloudRecord::Role(id, row) => {
                    let key = NameKey::role_of(row.domain.as_ref(), &row.name);
                    ("role", row.name.clone(), key, id.stored(), was_deleted::<NamedRole>(view, id)?)
                }
                CloudRecord::Project(id, row) => {
                    let realm = view.get::<Domain>(&row.domain)?.map(|domain| domain.name);
                    let name = spelled(Spell::Project, &row.name, realm.as_ref());
                    let is_gone = was_deleted::<Project>(view, id)?;
                    ("project", name, NameKey::project(&row.domain, &row.name), id.stored(), is_gone)
                }
                CloudRecord::Service(id, row) => {
                    let is_gone = was_deleted::<Service>(view, id)? && !restore_deleted;
                    let is_taken = !is_gone && has_other(view, row, &of_source)?;
                    taken.extend(is_taken.then(|| format!("service {} {}", row.kind, row.name)));
                    continue;
                }
                _ => continue,
            };
            let here = view.get::<Name>(&key)?.filter(|_| restore_deleted || !is_gone);
            taken.extend(here.filter(|here| here.id != id).map(|_| format!("{kind} {name}")));
        }
        Ok(taken)
    })?
}

/// Whether this store has a service with the same type and name that does not come from the source.
pub(super) fn has_other(
    view: &View<'_>,
    service: &Service,
    of_source: &HashSet<ServiceId>,
) -> Result<bool, Error> {
    let is_other = |(id, row): &(ServiceId, Service)| {
        (&row.kind, &row.name) == (&service.kind, &service.name) && !of_source.contains(id)
    };
    Ok(view.list::<Service>(&[])?.iter().any(is_other))
}

/// The services of the source, and the roles of the source that will exist here after the import, as far as this is known before the import begins.
pub(super) struct Plan {
    /// The services of the source.
    pub(super) services: HashSet<ServiceId>,
    /// The roles of the source that the import adds or that exist here.
    pub(super) roles: HashMap<RoleId, NamedRole>,
}

impl Plan {
    fn services_of(things: &[CloudRecord]) -> HashSet<ServiceId> {
        let service = |thing: &CloudRecord| match thing {
            CloudRecord::Service(id, _) => Some(*id),
            _ => None,
        };
        things.iter().filter_map(service).collect()
    }

    pub(super) fn of(
        facts: &dyn Source,
        things: &[CloudRecord],
        restore_deleted: bool,
    ) -> Result<Self, Error> {
        let services = Self::services_of(things);
        facts.read(|view| {
            let domains = domains_to_come(view, things, restore_deleted)?;
            let mut roles = HashMap::new();
            for thing in things {
                let CloudRecord::Role(id, row) = thing else { continue };
                let name = view.get::<Name>(&NameKey::role_of(row.domain.as_ref(), &row.name))?;
                let has_place = row.domain.is_none_or(|domain| domains.contains(&domain));
                let is_free = name.is_none_or(|name| name.role() == *id);
                let stays_away = !restore_deleted && was_deleted::<NamedRole>(view, id)?;
                if has_place && is_free && !stays_away && check_role_name(&row.name).is_ok() {
                    roles.insert(*id, row.clone());
                }
            }
            Ok(Plan { services, roles })
        })?
    }
}

/// Whether an earlier import added the record, and the record was later deleted here.
fn was_deleted<R: Row>(view: &View<'_>, key: &R::Key) -> Result<bool, Error> {
    let is_listed = view.get::<Extra>(&key_of_record::<R>(key))?.is_some();
    Ok(is_listed && view.get::<R>(key)?.is_none())
}

/// The domains of the source that the import adds or that exist here.
fn domains_to_come(
    view: &View<'_>,
    things: &[CloudRecord],
    restore_deleted: bool,
) -> Result<HashSet<DomainId>, Error> {
    let mut domains = HashSet::new();
    for thing in things {
        let CloudRecord::Domain(id, row) = thing else { continue };
        let name = view.get::<Name>(&NameKey::domain(&row.name))?;
        let comes = name.is_none() && (restore_deleted || !was_deleted::<Domain>(view, id)?);
        if comes || view.get::<Domain>(id)?.is_some() {
            domains.insert(*id);
        }
    }
    Ok(domains)
}
