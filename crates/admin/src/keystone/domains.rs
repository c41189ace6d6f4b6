//! Domains. The name of a domain is the realm of its users and groups.

use super::federation::forget_providers_of;
use super::resource::{Saving, StoredResource, put_and_end};
use crate::change_context::{ChangeContext, random};
use crate::comment::check_comment;
use crate::error::Error;
use crate::resolve::{dangling, domain_id};
use enfilade_facts::tables::{
    Domain, DomainConfig, Extra, ExtraKey, Leaving, LeavingKey, Name, NameKey, NameKind, ResourceKind,
};
use enfilade_facts::vocabulary::{DomainId, Realm};
use enfilade_facts::{At, Change, Read, Source, View};

impl StoredResource for Domain {
    const NAME: &'static str = "domain";
    const KIND: ResourceKind = ResourceKind::Domain;

    fn called(&self) -> &str {
        self.name.as_str()
    }

    fn prepare(&mut self, at: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_comment(self.description.as_deref())?;
        at.take_name(|row| NameKey::domain(&row.name), self, self.name.as_str(), at.id.stored())
    }

    /// Disabling a domain ends the sessions of its users.
    fn put(&self, change: &mut Change, id: &DomainId, before: Option<&Self>) {
        put_and_end(change, id, before, self);
    }

    /// Only a disabled domain is deleted. Everything in the domain is inaccessible immediately, and is deleted in the background.
    fn forget(&self, view: &View<'_>, change: &mut Change, id: &DomainId) -> Result<(), Error> {
        if self.enabled {
            let why = "Cannot delete a domain that is enabled, please disable it first.";
            return Err(Error::Refused(why.to_owned()));
        }
        forget_domain(view, change, id, self)
    }
}

/// Adds the deletion of a domain and its identity providers to a change. The records in the domain are deleted in the background.
fn forget_domain(view: &View<'_>, change: &mut Change, id: &DomainId, row: &Domain) -> Result<(), Error> {
    change.expect_same(id, row).remove::<Domain>(id).delete::<Name>(&NameKey::domain(&row.name));
    change.delete::<Extra>(&ExtraKey::of(ResourceKind::Domain, id)).put(&LeavingKey::Domain(*id), &Leaving);
    change.delete::<DomainConfig>(id);
    forget_providers_of(view, change, id)
}

/// A domain, for listing.
#[derive(Clone, Debug)]
pub struct DomainSummary {
    /// The id of the domain.
    pub id: DomainId,
    /// The name of the domain.
    pub name: Realm,
    /// Whether users of the domain may log in.
    pub enabled: bool,
    /// The description of the domain: the comment of the realm.
    pub description: Option<String>,
}

/// Creates a domain. If an id is given, the domain gets this id. If no id is given, the name is `Default`, and the id `default` is free, the domain
/// gets the id `default`. In all other cases, the domain gets a random id.
///
/// # Errors
/// When the name or id is taken, the contents of a deleted domain with this id are still being deleted, or the facts cannot be changed.
pub fn add_domain(
    ctx: &ChangeContext<'_>,
    name: &Realm,
    id: Option<DomainId>,
) -> Result<(DomainId, At), Error> {
    ctx.commit(&format!("domain add {name}"), |view, change| {
        let by_name = NameKey::domain(name);
        // The domain `Default` gets the id that is usual in the configuration of clients, if no other domain has it.
        let usual = (name.as_str() == "Default" && view.get::<Domain>(&DomainId::DEFAULT)?.is_none())
            .then_some(DomainId::DEFAULT);
        let id = id.or(usual).map_or_else(|| random().map(DomainId::from_bytes), Ok)?;
        if view.get::<Name>(&by_name)?.is_some() {
            let hint = "choose another name";
            return Err(Error::Exists { what: "domain", name: name.to_string(), hint });
        }
        if view.get::<Domain>(&id)?.is_some() {
            let hint = "choose another id";
            return Err(Error::Exists { what: "domain", name: id.to_string(), hint });
        }
        // If a domain with this id was deleted, its contents are possibly still being deleted in the background.
        let leaving = LeavingKey::Domain(id);
        if view.get::<Leaving>(&leaving)?.is_some() {
            return Err(Error::Refused(format!(
                "the contents of a deleted domain with the id {id} are still being deleted; try again later"
            )));
        }
        change.expect_absent::<Leaving>(&leaving);
        change.expect_absent::<Name>(&by_name).put(&by_name, &Name::new(id.stored(), name.as_str()));
        change.put(&id, &Domain::new(name.clone()));
        Ok(id)
    })
}

/// Enables or disables a domain. Sessions that ended when the domain was disabled stay invalid after the domain is enabled again.
///
/// # Errors
/// When the domain does not exist, or the facts cannot be changed.
pub fn set_domain(ctx: &ChangeContext<'_>, name: &Realm, enabled: bool) -> Result<At, Error> {
    let verb = if enabled { "enable" } else { "disable" };
    let ((), at) = ctx.commit(&format!("domain {verb} {name}"), |view, change| {
        let id = domain_id(view, name)?;
        let row = view.get::<Domain>(&id)?.ok_or_else(|| dangling("domain", id))?;
        change.replace(&id, &row, &Domain { enabled, ..row.clone() });
        Ok(())
    })?;
    Ok(at)
}

/// Removes an empty domain.
///
/// # Errors
/// When the domain does not exist, is not empty or is `local`, or the facts cannot be changed.
pub fn remove_domain(ctx: &ChangeContext<'_>, name: &Realm) -> Result<At, Error> {
    if *name == Realm::local() {
        return Err(Error::Invalid("the domain `local` cannot be removed: every server has it".into()));
    }
    let ((), at) = ctx.commit(&format!("domain remove {name}"), |view, change| {
        let id = domain_id(view, name)?;
        let parts = [
            (NameKind::User, "user", "users"),
            (NameKind::Group, "group", "groups"),
            (NameKind::Project, "project", "projects"),
        ];
        let mut left = Vec::new();
        for (kind, one, several) in parts {
            let count = view.list::<Name>(&NameKey::all_of(kind, &id))?.len();
            left.extend((count > 0).then(|| format!("{count} {}", if count == 1 { one } else { several })));
        }
        if !left.is_empty() {
            return Err(Error::Invalid(format!(
                "domain `{name}` is not empty: {}; remove them first",
                left.join(", ")
            )));
        }
        let row = view.get::<Domain>(&id)?.ok_or_else(|| dangling("domain", id))?;
        forget_domain(view, change, &id, &row)
    })?;
    // This call does the background work now: it deletes the domain's own roles, and the role assignments on the domain.
    super::leaving::sweep_all(ctx)?;
    Ok(at)
}

/// Every domain, by name.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_domains(source: &dyn Source) -> Result<Vec<DomainSummary>, Error> {
    let mut domains: Vec<_> = source
        .read(|view| view.list::<Domain>(&[]))??
        .into_iter()
        .map(|(id, row)| DomainSummary {
            id,
            name: row.name,
            enabled: row.enabled,
            description: row.description,
        })
        .collect();
    domains.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(domains)
}
