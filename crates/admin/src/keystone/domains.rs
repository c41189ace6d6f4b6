//! Domains: a domain's name is the realm of its users and groups.

use crate::desk::{Desk, random};
use crate::error::Error;
use crate::resolve::{dangling, domain_id};
use enfilade_facts::tables::{Domain, Leaving, LeavingKey, Name, NameKey, NameKind};
use enfilade_facts::vocabulary::{DomainId, Realm};
use enfilade_facts::{At, Read, Source};

/// A domain, for listing.
#[derive(Clone, Debug)]
pub struct DomainSummary {
    /// Its id.
    pub id: DomainId,
    /// Its name.
    pub name: Realm,
    /// May its users come in?
    pub enabled: bool,
}

/// Makes a domain; its id is random unless one is given.
///
/// # Errors
/// When there is one of that name or id, or the facts cannot be changed.
pub fn add_domain(desk: &Desk<'_>, name: &Realm, id: Option<DomainId>) -> Result<(DomainId, At), Error> {
    desk.commit(&format!("domain add {name}"), |view, change| {
        let by_name = NameKey::domain(name);
        let id = id.map_or_else(|| random().map(DomainId::from_bytes), Ok)?;
        if view.get::<Name>(&by_name)?.is_some() || view.get::<Domain>(&id)?.is_some() {
            let hint = "choose another name";
            return Err(Error::Exists { what: "domain", name: name.to_string(), hint });
        }
        // One that had this id is still being taken away, with what was in it.
        let leaving = LeavingKey::Domain(id);
        if view.get::<Leaving>(&leaving)?.is_some() {
            return Err(Error::Refused(format!(
                "a deleted domain with the id {id} is still being cleaned up in the background: try again later"
            )));
        }
        change.expect_absent::<Leaving>(&leaving);
        change.expect_absent::<Name>(&by_name).put(&by_name, &Name(*id.bytes()));
        change.put(&id, &Domain::new(name.clone()));
        Ok(id)
    })
}

/// Lets the users of a domain in, or keeps them out. What they had before they were kept out stays worth nothing.
///
/// # Errors
/// When there is no such domain, or the facts cannot be changed.
pub fn set_domain(desk: &Desk<'_>, name: &Realm, enabled: bool) -> Result<At, Error> {
    let ((), at) = desk.commit(&format!("domain set {name}"), |view, change| {
        let id = domain_id(view, name)?;
        let row = view.get::<Domain>(&id)?.ok_or_else(|| dangling("domain", id))?;
        change.replace(&id, &row, &Domain { enabled, ..row.clone() });
        Ok(())
    })?;
    Ok(at)
}

/// Removes a domain nothing is in.
///
/// # Errors
/// When there is no such domain, something is in it, or the facts cannot be changed.
pub fn remove_domain(desk: &Desk<'_>, name: &Realm) -> Result<At, Error> {
    if *name == Realm::local() {
        return Err(Error::Invalid("`local` is the realm every house has".into()));
    }
    let ((), at) = desk.commit(&format!("domain remove {name}"), |view, change| {
        let id = domain_id(view, name)?;
        let count = |kind| view.list::<Name>(&NameKey::all_of(kind, &id)).map(|names| names.len());
        let (users, groups, projects) = (count(NameKind::User)?, count(NameKind::Group)?, count(NameKind::Project)?);
        if users + groups + projects > 0 {
            return Err(Error::Invalid(format!(
                "domain `{name}` is not empty: {users} users, {groups} groups, {projects} projects; remove them first"
            )));
        }
        let row = view.get::<Domain>(&id)?.ok_or_else(|| dangling("domain", id))?;
        super::things::forget_domain(change, &id, &row);
        Ok(())
    })?;
    // Its roles, and the roles on it.
    super::sweep_all(desk)?;
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
        .map(|(id, row)| DomainSummary { id, name: row.name, enabled: row.enabled })
        .collect();
    domains.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(domains)
}
