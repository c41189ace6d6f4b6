//! The names of the records that an import reads from its source (a Keystone server), as the report of the import spells them.

use super::{CloudRecord, ServiceRecord};
use enfilade_facts::vocabulary::{DomainId, GroupName, IdBytes, NameInDomain, Realm, Userid};
use std::collections::HashMap;

/// The names of the domains, roles, projects, users and groups of the source, by id, in the form that commands accept. The result also contains the
/// texts that stand for services, endpoints, endpoint groups and registered limits in the report, for example the URL of an endpoint.
pub(super) fn names_of(
    things: &[CloudRecord],
    domains: &HashMap<DomainId, Realm>,
) -> HashMap<IdBytes, String> {
    let full = |spell: Spell, name: &str, domain: &DomainId| spelled(spell, name, domains.get(domain));
    let named = things.iter().filter_map(|thing| match thing {
        CloudRecord::Domain(id, row) => Some((id.stored(), row.name.to_string())),
        CloudRecord::Role(id, row) => Some((id.stored(), row.name.clone())),
        CloudRecord::Project(id, row) => Some((id.stored(), full(Spell::Project, &row.name, &row.domain))),
        CloudRecord::User(id, user) => Some((id.stored(), full(Spell::User, &user.name, &user.domain))),
        CloudRecord::Group(id, domain, name, _) => Some((id.stored(), full(Spell::Group, name, domain))),
        CloudRecord::Service(id, row) if row.name.is_empty() => Some((id.stored(), row.kind.clone())),
        CloudRecord::Service(id, row) => Some((id.stored(), row.name.clone())),
        CloudRecord::Endpoint(id, row) => Some((id.stored(), row.url.clone())),
        CloudRecord::ForServices(ServiceRecord::EndpointGroup(id, row)) => {
            Some((id.stored(), row.name.clone()))
        }
        CloudRecord::ForServices(ServiceRecord::RegisteredLimit(id, row)) => {
            Some((id.stored(), row.resource.clone()))
        }
        _ => None,
    });
    named.collect()
}

/// The kinds of records for which a name is written together with the domain, such as `user@realm`.
#[derive(Clone, Copy)]
pub(super) enum Spell {
    Project,
    User,
    Group,
}

/// The name in the form that commands accept; the name alone if the domain is unknown or the name is not valid.
pub(super) fn spelled(spell: Spell, name: &str, realm: Option<&Realm>) -> String {
    let whole = realm.cloned().and_then(|domain| match spell {
        Spell::Project => Some(NameInDomain { name: name.to_owned(), domain }.to_string()),
        Spell::User => Userid::new(name, domain).ok().map(|user| user.to_string()),
        Spell::Group => GroupName::new(name, domain).ok().map(|group| group.to_string()),
    });
    whole.unwrap_or_else(|| name.to_owned())
}
