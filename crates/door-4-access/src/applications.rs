//! Applications: whether a visitor may send a request to a program that another server serves. Roles on the path of the application decide. The facts of
//! the application say which paths need no role, and which need a role for administrators.

use crate::memo::{AccessMemo, KnownApplication};
use crate::method_class::{Method, MethodClass};
use crate::permit::ApplicationPermit;
use crate::refuse::Refusal;
use crate::role_check::RoleCheck;
use crate::roles::Resolved;
use crate::site::Site;
use crate::view::View;
use enfilade_facts::tables::{Application, CredentialKind};
use enfilade_facts::vocabulary::{ApplicationName, GroupName, Role, RolePath, StorePath};
use enfilade_facts::{Clocks, Held};
use enfilade_identity::{IdentityPermit, Principal};

/// A request to an application.
#[derive(Clone, Debug)]
pub struct ApplicationAsk {
    /// The application.
    pub site: Site,
    /// The method.
    pub method: Method,
    /// The path of the URL.
    pub path: StorePath,
    /// The path in the header `Destination`. Present exactly if the method uses this header.
    pub destination: Option<StorePath>,
    /// Whether the connection changes to another protocol, such as WebSocket. What is sent then is not judged, so such a request can change something.
    pub upgrades: bool,
    /// Whether a browser asks in advance if a page of another site may make a request (CORS; Fetch standard, "CORS-preflight request").
    pub is_preflight: bool,
}

/// Judges a request to an application, at the revision of `view`. Without a visitor, only a request that everybody may make is permitted. This is the
/// only place where an [`ApplicationPermit`] is made.
///
/// # Errors
/// A [`Refusal`], which names the roles that decided.
pub fn use_application(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    visitor: Option<&IdentityPermit>,
    ask: &ApplicationAsk,
    memo: &AccessMemo,
) -> Result<ApplicationPermit, Refusal> {
    let check = ApplicationCheck::new(view, now, &ask.site, memo)?;
    let (application, at) = (check.known.name.clone(), view.at());
    let Some(identity) = visitor else {
        return match check.first_not_public(ask) {
            None => Ok(ApplicationPermit { application, roles: Vec::new(), hides_groups: true, at }),
            Some(path) => Err(Refusal::NotPublic(RolePath::of_application(&application, path))),
        };
    };
    check.accepts(kind_of(identity))?;
    let roles = check.permits(identity.principal(), ask)?;
    let hides_groups = check.known.application.hides_groups;
    Ok(ApplicationPermit { application, roles, hides_groups, at })
}

/// Decides like [`use_application`] what a principal may do with an application, but without a credential. Returns the name of the application and the
/// roles. The result is not a permit.
///
/// # Errors
/// As [`use_application`].
pub fn would_use(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    (principal, kinds): (&Principal, &[CredentialKind]),
    ask: &ApplicationAsk,
    memo: &AccessMemo,
) -> Result<(ApplicationName, Vec<Role>), Refusal> {
    let check = ApplicationCheck::new(view, now, &ask.site, memo)?;
    let name = check.known.name.clone();
    if check.first_not_public(ask).is_none() {
        return Ok((name, Vec::new()));
    }
    // The principal can choose between its kinds of credentials.
    let accepted = kinds.iter().map(|kind| check.accepts(*kind)).reduce(Result::or);
    accepted.unwrap_or(Ok(()))?;
    check.permits(principal, ask).map(|roles| (name, roles))
}

/// The kind of the credential that was proven. A client certificate is an API token.
fn kind_of(identity: &IdentityPermit) -> CredentialKind {
    match (identity.session(), identity.token()) {
        (Some(_), _) => CredentialKind::Session,
        (None, Some(_)) => CredentialKind::Token,
        (None, None) => CredentialKind::Password,
    }
}

/// The names of all groups of a principal, sorted.
///
/// # Errors
/// When the facts cannot be read.
pub fn group_names(
    view: &enfilade_facts::View<'_>,
    principal: &Principal,
) -> Result<Vec<GroupName>, Refusal> {
    let view = View(view);
    let mut names = Vec::with_capacity(principal.groups.len());
    for id in &principal.groups {
        let Some(group) = view.group(id)? else { continue };
        let realm = view.domain(&group.domain)?.map(|domain| domain.name);
        names.extend(realm.and_then(|realm| GroupName::new(&group.name, realm).ok()));
    }
    names.sort_unstable();
    Ok(names)
}

/// The least role on an application that permits requests of this class.
pub fn least_application_role(class: MethodClass) -> Role {
    match class {
        MethodClass::Read => Role::ApplicationReader,
        MethodClass::Write => Role::ApplicationUser,
        MethodClass::Administer => Role::ApplicationAdmin,
    }
}

/// Whether a role permits requests of this class.
fn permits(role: Role, class: MethodClass) -> bool {
    let most = match role {
        Role::Admin | Role::ApplicationAdmin => MethodClass::Administer,
        Role::ApplicationUser => MethodClass::Write,
        Role::ApplicationReader => MethodClass::Read,
        _ => return false,
    };
    class <= most
}

impl Resolved {
    /// Whether the roles permit requests of this class to an application. A token with roles of its own needs a role as well as its owner.
    fn permits(&self, class: MethodClass) -> bool {
        let permits = |resolved: &Resolved| {
            !resolved.roles.contains(&Role::NoAccess)
                && resolved.roles.iter().any(|role| permits(*role, class))
        };
        permits(self) && self.of_token.as_deref().is_none_or(permits)
    }
}

/// Whether a path is one of these paths, or below one of them.
fn is_in(paths: &[StorePath], path: &StorePath) -> bool {
    let is_below = |root: &StorePath| {
        let rest = path.as_str().strip_prefix(root.as_str());
        rest.is_some_and(|rest| root.is_root() || rest.is_empty() || rest.starts_with('/'))
    };
    paths.iter().any(is_below)
}

/// Checks requests to one application, at one revision and time.
struct ApplicationCheck<'c> {
    view: View<'c>,
    now: Clocks,
    memo: &'c AccessMemo,
    known: Held<KnownApplication>,
}

impl<'c> ApplicationCheck<'c> {
    fn new(
        view: &'c enfilade_facts::View<'c>,
        now: Clocks,
        site: &Site,
        memo: &'c AccessMemo,
    ) -> Result<Self, Refusal> {
        let view = View(view);
        let key = memo.application_key(view.at(), site);
        let known = match memo.applications.get(key) {
            Some(known) => known,
            None => {
                let (found, text) = match site {
                    Site::Host(host) => (view.application_of(host)?, host.to_string()),
                    Site::Named(name) => {
                        (view.application(name)?.map(|found| (name.clone(), found)), name.to_string())
                    }
                };
                let (name, application) = found.ok_or(Refusal::NoApplication(text))?;
                memo.applications.put(key, KnownApplication { name, application })
            }
        };
        Ok(ApplicationCheck { view, now, memo, known })
    }

    /// Every path of a request, with what the request does to it.
    fn parts<'a>(&self, ask: &'a ApplicationAsk) -> impl Iterator<Item = (&'a StorePath, MethodClass)> {
        let administer = |path: &StorePath| is_in(&self.known.application.administer, path);
        let class_on = move |path: &'a StorePath, class| match administer(path) {
            true => (path, MethodClass::Administer),
            false => (path, class),
        };
        let class = if ask.upgrades { MethodClass::Write } else { MethodClass::Read };
        let class = class.max(ask.method.class());
        let destination = ask.destination.as_ref().map(|path| {
            // A request with a destination changes something, even if its method is unknown here.
            class_on(path, ask.method.class_of_destination().unwrap_or(MethodClass::Administer))
        });
        [Some(class_on(&ask.path, class)), destination].into_iter().flatten()
    }

    /// The first path of the request that not everybody may use in this way.
    fn first_not_public<'a>(&self, ask: &'a ApplicationAsk) -> Option<&'a StorePath> {
        let Application { public, open, passes_preflight, .. } = &self.known.application;
        let is_public = |(path, class): &(&StorePath, MethodClass)| match class {
            MethodClass::Read => {
                ask.is_preflight && *passes_preflight || is_in(public, path) || is_in(open, path)
            }
            MethodClass::Write => is_in(open, path),
            // The answer to a preflight request contains no content.
            MethodClass::Administer => ask.is_preflight && *passes_preflight,
        };
        self.parts(ask).find(|part| !is_public(part)).map(|(path, _)| path)
    }

    fn accepts(&self, kind: CredentialKind) -> Result<(), Refusal> {
        let KnownApplication { name, application } = &*self.known;
        match application.accepts.is_empty() || application.accepts.contains(&kind) {
            true => Ok(()),
            false => Err(Refusal::NotAccepted { application: name.clone(), kind }),
        }
    }

    /// The roles on the path of the request, if they permit the request. If everybody may make the request, the roles do not matter.
    fn permits(&self, principal: &Principal, ask: &ApplicationAsk) -> Result<Vec<Role>, Refusal> {
        let view = View(self.view.0);
        let check = RoleCheck { view, now: self.now, principal, memo: self.memo };
        let is_public = self.first_not_public(ask).is_none();
        let mut given = Vec::new();
        for (path, class) in self.parts(ask) {
            let path = RolePath::of_application(&self.known.name, path);
            let roles = check.roles(&path)?;
            if !is_public && !roles.permits(class) {
                let decided_by = roles.given(&check.view, principal).to_string();
                return Err(Refusal::NotPermitted { class, path, decided_by });
            }
            if given.is_empty() {
                given.clone_from(&roles.roles);
            }
        }
        Ok(given)
    }
}
