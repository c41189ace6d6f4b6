//! The description of a session: the names of the records to which the session refers, and the catalog of services.

use crate::error::Error;
use crate::resolve::dangling;
use enfilade_facts::tables::{
    Credential, Delegation, Domain, Endpoint, EndpointFilter, EndpointFilterKey, EndpointGroup, Grant,
    GrantKey, GrantScope, Grantee, Group, Interface, Member, Membership, Name, NameKey, NameKind, Project,
    Selected, Service, ServiceProvider, ServiceProviderId, User,
};
use enfilade_facts::vocabulary::{DomainId, EndpointGroupId, EndpointId, ProjectId, Realm, UserId};
use enfilade_facts::{At, Index, IndexError, Indexed, Read, Source, SourceError, Table, View};
use enfilade_identity::{Scope, Session};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An id and a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<I> {
    /// The id.
    pub id: I,
    /// The name.
    pub name: String,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The id and the name of the user.
    pub user: Named<UserId>,
    /// The domain of the user.
    pub domain: Named<DomainId>,
    /// When the user's password expires, in seconds since the epoch; 0 means never.
    pub password_until: i64,
}

/// The scope of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescribedScope {
    /// The session has no scope.
    Unscoped,
    /// A project and its domain.
    Project(Named<ProjectId>, Named<DomainId>),
    /// A domain.
    Domain(Named<DomainId>),
    /// The whole system.
    System,
}

/// The description of a session.
#[derive(Clone, Debug)]
pub struct Described {
    /// The user of the session.
    pub subject: Subject,
    /// The scope of the session.
    pub scope: DescribedScope,
    /// The name of the application credential that the session was created with, and whether that credential is restricted.
    pub credential: Option<(String, bool)>,
}

/// A service of the catalog.
#[derive(Clone, Debug)]
pub struct CatalogService {
    /// The id of the service, as text.
    pub id: String,
    /// The type of the service.
    pub kind: String,
    /// The name of the service.
    pub name: String,
    /// The endpoints of the service.
    pub endpoints: Vec<CatalogEndpoint>,
}

/// An endpoint of the catalog.
#[derive(Clone, Debug)]
pub struct CatalogEndpoint {
    /// The id of the endpoint, as text.
    pub id: String,
    /// The interface of the endpoint.
    pub interface: Interface,
    /// The region of the endpoint.
    pub region: Option<String>,
    /// The URL of the endpoint, with placeholders; see [`filled`].
    pub url: String,
}

/// The enabled services, by type and name, with their enabled endpoints, and the enabled service providers. The catalog is built again when a
/// service, an endpoint, a group of endpoints or a service provider changes.
#[derive(Clone, Debug)]
pub struct Catalog {
    services: Arc<Vec<CatalogService>>,
    providers: Arc<Vec<(ServiceProviderId, ServiceProvider)>>,
    filters: Arc<CatalogFilters>,
    /// Whether any project has a filter. If no project has a filter, no filters are looked up.
    has_filters: bool,
}

/// The endpoints that a filter can select, directly or by a group of endpoints. Disabled endpoints are included.
#[derive(Debug, Default)]
struct CatalogFilters {
    endpoints: BTreeSet<EndpointId>,
    groups: BTreeMap<EndpointGroupId, Vec<EndpointId>>,
}

impl Catalog {
    /// The services.
    pub fn services(&self) -> &[CatalogService] {
        &self.services
    }

    /// The enabled service providers, by id. They are the same for every scope.
    pub fn providers(&self) -> &[(ServiceProviderId, ServiceProvider)] {
        &self.providers
    }

    /// The catalog for a scope. If filters of the project select endpoints, the catalog contains only these endpoints and their services.
    fn of(self, view: &View<'_>, scope: &Scope) -> Result<Self, SourceError> {
        let Some(project) = scope.project().filter(|_| self.has_filters) else { return Ok(self) };
        let mut selected = BTreeSet::new();
        for (key, _) in view.list::<EndpointFilter>(&EndpointFilterKey::of(&project))? {
            match key.selected {
                Selected::Endpoint(id) => selected.extend(self.filters.endpoints.get(&id)),
                Selected::Group(id) => selected.extend(self.filters.groups.get(&id).into_iter().flatten()),
            }
        }
        if selected.is_empty() {
            return Ok(self);
        }
        let ids: BTreeSet<String> = selected.into_iter().map(ToString::to_string).collect();
        let services = self.services.iter().filter_map(|service| {
            let is_selected = |endpoint: &&CatalogEndpoint| ids.contains(&endpoint.id);
            let endpoints: Vec<_> = service.endpoints.iter().filter(is_selected).cloned().collect();
            (!endpoints.is_empty()).then(|| CatalogService { endpoints, ..service.clone() })
        });
        Ok(Catalog { services: Arc::new(services.collect()), ..self })
    }
}

impl Indexed for Catalog {
    const TABLES: &'static [Table] = &[
        Table::Services,
        Table::Endpoints,
        Table::EndpointGroups,
        Table::EndpointFilters,
        Table::ServiceProviders,
    ];

    fn build(view: &View<'_>) -> Result<Self, SourceError> {
        let endpoints = view.list::<Endpoint>(&[])?;
        let mut services = Vec::new();
        for (id, service) in view.list::<Service>(&[])?.into_iter().filter(|(_, row)| row.enabled) {
            let of_it = endpoints.iter().filter(|(_, row)| row.service == id && row.enabled);
            let mut of_it: Vec<_> = of_it
                .map(|(id, row)| CatalogEndpoint {
                    id: id.to_string(),
                    interface: row.interface,
                    region: row.region.clone(),
                    url: row.url.clone(),
                })
                .collect();
            of_it.sort_by(|a, b| (&a.region, a.interface, &a.id).cmp(&(&b.region, b.interface, &b.id)));
            let (id, kind, name) = (id.to_string(), service.kind, service.name);
            services.push(CatalogService { id, kind, name, endpoints: of_it });
        }
        services.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
        let of_group = |group: &EndpointGroup| {
            let matching = endpoints.iter().filter(|(_, row)| group.filters.match_with(row));
            matching.map(|(id, _)| *id).collect()
        };
        let groups = view.list::<EndpointGroup>(&[])?;
        let groups = groups.into_iter().map(|(id, row)| (id, of_group(&row))).collect();
        let filters = CatalogFilters { endpoints: endpoints.iter().map(|(id, _)| *id).collect(), groups };
        let has_filters = view.any::<EndpointFilter>(&[])?;
        let mut providers = view.list::<ServiceProvider>(&[])?;
        providers.retain(|(_, row)| row.enabled);
        let (services, providers) = (Arc::new(services), Arc::new(providers));
        Ok(Catalog { services, providers, filters: Arc::new(filters), has_filters })
    }

    fn update(&mut self, view: &View<'_>, table: Table, _: &[u8]) -> Result<(), SourceError> {
        match table {
            Table::EndpointFilters => self.has_filters = view.any::<EndpointFilter>(&[])?,
            _ => *self = Self::build(view)?,
        }
        Ok(())
    }

    fn update_all(
        &mut self,
        view: &View<'_>,
        written: &BTreeSet<(Table, Vec<u8>)>,
    ) -> Result<(), SourceError> {
        // One call of `update` is enough for all written keys. If only filters changed, this call sets a flag. Otherwise it builds the whole catalog
        // again.
        let of_catalog = written.iter().find(|(table, _)| *table != Table::EndpointFilters);
        of_catalog.or(written.first()).map_or(Ok(()), |(table, key)| self.update(view, *table, key))
    }
}

/// The catalog of a view, for a scope. It is built from the view if the index is already at a later revision.
fn catalog_in(view: &View<'_>, index: &Index<Catalog>, scope: &Scope) -> Result<Catalog, SourceError> {
    match index.read(view, Catalog::clone) {
        Ok(catalog) => catalog.of(view, scope),
        Err(IndexError::Source(why)) => Err(why),
        Err(IndexError::Ahead) => Catalog::build(view)?.of(view, scope),
    }
}

/// Describes a session. Returns the description, the catalog, and the revision of both.
///
/// # Errors
/// When the facts cannot be read, or a record to which the session refers was deleted meanwhile.
pub fn describe(
    source: &dyn Source,
    session: &Session,
    index: &Index<Catalog>,
) -> Result<(Described, Catalog, At), Error> {
    source.read(|view| {
        let claim = &session.claim;
        let catalog = catalog_in(view, index, &claim.scope)?;
        // If the trust allows impersonation, services see the trustor as the user of the session.
        let impersonated = session.trusted.as_ref().map(|trusted| &trusted.trust);
        let told = impersonated.filter(|trust| trust.impersonation).map_or(claim.user, |trust| trust.trustor);
        let user = view.get::<User>(&told)?.ok_or_else(|| dangling("user", told))?;
        let subject = Subject {
            domain: named_domain(view, &user.domain)?,
            password_until: user.password.as_ref().map_or(0, |password| password.until),
            user: Named { id: told, name: user.name },
        };
        let scope = match claim.scope {
            Scope::Unscoped => DescribedScope::Unscoped,
            Scope::System => DescribedScope::System,
            Scope::Domain(id) => DescribedScope::Domain(named_domain(view, &id)?),
            Scope::Project(id) => {
                let row = view.get::<Project>(&id)?.ok_or_else(|| dangling("project", id))?;
                DescribedScope::Project(Named { id, name: row.name }, named_domain(view, &row.domain)?)
            }
        };
        let credential = match claim.credential() {
            None => None,
            Some(id) => {
                let row = view.get::<Credential>(&id)?.ok_or_else(|| dangling("credential", id))?;
                let delegation = view.get::<Delegation>(&id)?;
                Some((row.name.to_string(), delegation.is_none_or(|delegation| !delegation.unrestricted)))
            }
        };
        Ok((Described { subject, scope, credential }, catalog, view.at()))
    })?
}

fn named_domain(view: &View<'_>, id: &DomainId) -> Result<Named<DomainId>, Error> {
    let name: Realm = view.get::<Domain>(id)?.ok_or_else(|| dangling("domain", id))?.name;
    Ok(Named { id: *id, name: name.to_string() })
}

/// The present catalog for a scope.
///
/// # Errors
/// When the facts cannot be read.
pub fn catalog(source: &dyn Source, index: &Index<Catalog>, scope: &Scope) -> Result<Catalog, Error> {
    Ok(source.read(|view| catalog_in(view, index, scope))??)
}

/// A URL with its placeholders (`$(project_id)s`, `%(tenant_id)s` and the like) filled in. `None` if the URL needs a project and the session has no
/// project. In this case, the catalog omits the URL, as in Keystone.
pub fn filled<'u>(url: &'u str, session: &Session) -> Option<Cow<'u, str>> {
    let mut text = String::new();
    let mut rest = url;
    while let Some((before, (name, after))) = mark_in(rest) {
        text.push_str(before);
        match name {
            "project_id" | "tenant_id" => text.push_str(&session.claim.scope.project()?.to_string()),
            "user_id" => text.push_str(&session.claim.user.to_string()),
            // An unknown placeholder stays as it is.
            _ => text.push_str(rest.get(before.len()..rest.len() - after.len())?),
        }
        rest = after;
    }
    match rest.len() == url.len() {
        true => Some(Cow::Borrowed(url)),
        false => Some(Cow::Owned(text + rest)),
    }
}

/// The text before the first placeholder (`$(name)s` or `%(name)s`), the name in the placeholder, and the text after it.
fn mark_in(text: &str) -> Option<(&str, (&str, &str))> {
    let at = text
        .match_indices('(')
        .find(|(at, _)| text.get(..*at).is_some_and(|text| text.ends_with(['$', '%'])))?
        .0;
    let (name, after) = text.get(at + 1..)?.split_once(")s")?;
    Some((text.get(..at - 1)?, (name, after)))
}

/// The scopes that a user may request.
#[derive(Clone, Debug, Default)]
pub struct Scopes {
    /// The projects, sorted by name.
    pub projects: Vec<(ProjectId, Project)>,
    /// The domains.
    pub domains: Vec<(DomainId, Domain)>,
    /// Whether the user may request a session for the system.
    pub system: bool,
}

/// The scopes in which a user has a role, directly or through a group: enabled projects, enabled domains, and the system.
///
/// # Errors
/// When the facts cannot be read.
pub fn scopes_of(source: &dyn Source, user: &UserId) -> Result<Scopes, Error> {
    source.read(|view| {
        let grantees = grantees_of(view, user)?;
        let mut scopes = BTreeSet::new();
        for grantee in grantees {
            scopes.extend(view.list::<Grant>(&GrantKey::of(&grantee))?.into_iter().map(|(key, _)| key.scope));
        }
        let mut found = Scopes::default();
        let mut projects = std::collections::BTreeMap::new();
        for scope in scopes {
            match scope {
                GrantScope::System => found.system = true,
                GrantScope::Domain(id) => {
                    found
                        .domains
                        .extend(view.get::<Domain>(&id)?.filter(|row| row.enabled).map(|row| (id, row)));
                }
                GrantScope::Project(id) => projects.extend(view.get::<Project>(&id)?.map(|row| (id, row))),
                GrantScope::BelowProject(id) => projects.extend(super::projects::subtree_of(view, &id)?),
                GrantScope::BelowDomain(id) => {
                    for (_, name) in view.list::<Name>(&NameKey::all_of(NameKind::Project, &id))? {
                        let id = name.project();
                        projects.extend(view.get::<Project>(&id)?.map(|row| (id, row)));
                    }
                }
            }
        }
        for (id, row) in projects.into_iter().filter(|(_, row)| row.enabled) {
            if view.get::<Domain>(&row.domain)?.is_some_and(|domain| domain.enabled) {
                found.projects.push((id, row));
            }
        }
        found.projects.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        Ok(found)
    })?
}

/// The user, and the groups of the user, direct and nested. A group counts only if its domain exists and is enabled.
///
/// # Errors
/// When the facts cannot be read.
pub fn grantees_of(view: &View<'_>, user: &UserId) -> Result<Vec<Grantee>, Error> {
    let mut grantees = vec![Grantee::User(*user)];
    let (mut seen, mut edge) = (BTreeSet::new(), vec![Member::User(*user)]);
    while let Some(member) = edge.pop() {
        for (key, _) in view.list::<Membership>(&member.prefix())? {
            let Some(group) = view.get::<Group>(&key.group)?.filter(|_| seen.insert(key.group)) else {
                continue;
            };
            let domain = view.get::<Domain>(&group.domain)?;
            if domain.as_ref().is_some_and(|domain| domain.enabled) {
                grantees.push(Grantee::Group(key.group));
            }
            edge.extend(domain.map(|_| Member::Group(key.group)));
        }
    }
    Ok(grantees)
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_identity::{Claim, Methods};

    #[test]
    fn addresses_are_filled_with_what_a_session_is_for() {
        let session = |scope| {
            let audit = enfilade_identity::fernet::payload::Audit { own: [0; 16], chain: None };
            let claim = Claim {
                user: UserId::from_bytes([2; 16]),
                methods: Methods::PASSWORD,
                scope,
                lent: None,
                issued_at: 0,
                expires_at: 0,
                audit,
            };
            Session::of_claim(claim)
        };
        let (project, user) = ("01".repeat(16), "02".repeat(16));
        let scoped = session(Scope::Project(ProjectId::from_bytes([1; 16])));
        for (url, expected) in [
            ("https://a/v1", "https://a/v1".to_owned()),
            ("https://a/$(project_id)s", format!("https://a/{project}")),
            ("https://a/AUTH_%(tenant_id)s/x/$(user_id)s", format!("https://a/AUTH_{project}/x/{user}")),
            ("https://a/(x)s/$(other)s/$(project_id)s", format!("https://a/(x)s/$(other)s/{project}")),
            ("https://a/$(project_id", "https://a/$(project_id".to_owned()),
        ] {
            assert_eq!(filled(url, &scoped).as_deref(), Some(expected.as_str()), "{url}");
        }
        assert_eq!(filled("https://a/$(project_id)s", &session(Scope::System)), None);
        assert!(filled("https://a/$(user_id)s", &session(Scope::System)).is_some());
    }
}
