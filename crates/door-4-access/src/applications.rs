//! Applications: whether a visitor may send a request to a program behind nginx, HAProxy or a similar proxy. Roles on the path of the application
//! decide. The record of the application determines which paths need no role, and which paths need the role of an administrator.

use crate::memo::{AccessMemo, KnownApplication};
use crate::method_class::{Method, MethodClass};
use crate::permit::ApplicationPermit;
use crate::refuse::Refusal;
use crate::role_check::RoleCheck;
use crate::roles::Resolved;
use crate::site::Site;
use crate::view::View;
use enfilade_facts::tables::{Application, Audience, CountsIfBoth, CredentialKind};
use enfilade_facts::vocabulary::{ApplicationName, DatastoreName, GroupName, Role, RolePath, StorePath};
use enfilade_facts::{At, Clocks, Held};
use enfilade_identity::{IdentityPermit, Principal};

/// A request to an application.
#[derive(Clone, Debug)]
pub struct ApplicationAsk {
    /// The application.
    pub site: Site,
    /// The application for which the proxy asks. The host in a request can belong to another application, which this proxy does not serve. `None` if
    /// the question does not come from a proxy for one application.
    pub only: Option<ApplicationName>,
    /// The method.
    pub method: Method,
    /// The path of the URL.
    pub path: StorePath,
    /// The path in the header `Destination`. Present if and only if the method uses this header.
    pub destination: Option<StorePath>,
    /// Whether the request is about its paths and about everything below its paths. A DELETE or COPY of a collection is such a request.
    pub recurses: bool,
    /// Whether the connection changes to another protocol, such as WebSocket. Door 4 does not judge the data that is sent after the change. So such a
    /// request counts as a write.
    pub upgrades: bool,
    /// Whether this is a preflight request, with which a browser asks in advance whether a page of another site may make a request (CORS; Fetch
    /// standard, "CORS-preflight request").
    pub is_preflight: bool,
}

/// Judges a request to an application, at the revision of `view`. If there is no visitor, only a request that everybody may make is permitted. This
/// is the only place where an [`ApplicationPermit`] is made.
///
/// # Errors
/// A [`Refusal`]. If roles decided, the refusal names them.
pub fn use_application(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    visitor: Option<&IdentityPermit>,
    ask: &ApplicationAsk,
    memo: &AccessMemo,
) -> Result<ApplicationPermit, Refusal> {
    let check = ApplicationCheck::new(view, now, ask, memo)?;
    let at = view.at();
    let Some(identity) = visitor else {
        return match first_not_public(&check.known.application, ask) {
            None => Ok(ApplicationPermit {
                roles: Vec::new(),
                hides_groups: true,
                signed_for: None,
                datastore: None,
                at,
            }),
            Some(path) => Err(Refusal::NotPublic(RolePath::of_application(&check.known.name, path))),
        };
    };
    check.accepts(kind_of(identity))?;
    check.is_for(identity)?;
    let is_public = first_not_public(&check.known.application, ask).is_none();
    let roles = check.permits(identity.principal(), ask, is_public)?;
    let KnownApplication { name, application } = &*check.known;
    let (roles, hides_groups) = (roles.effective().to_vec(), application.hides_groups);
    let signed_for = application.sends_jwt.then(|| name.clone());
    let datastore = application.datastore.clone().filter(|_| !is_public);
    Ok(ApplicationPermit { roles, hides_groups, signed_for, datastore, at })
}

/// Whether a request needs a credential at this revision. Returns `false` also if the memo does not contain the application, because then it is not
/// known whether the request needs a credential.
pub fn needs_credential(at: At, ask: &ApplicationAsk, memo: &AccessMemo) -> bool {
    let known = memo.applications.get(memo.application_key(at, &ask.site));
    known.is_some_and(|known| {
        ask.only.as_ref().is_none_or(|only| *only == known.name)
            && first_not_public(&known.application, ask).is_some()
    })
}

/// For a request that contains a credential in a cookie and another credential in a header: which of these two credentials the application accepts.
/// `None` if the application refuses such a request.
///
/// # Errors
/// When no application has the host, or the facts cannot be read.
pub fn counts_if_both(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    ask: &ApplicationAsk,
    memo: &AccessMemo,
) -> Result<Option<CountsIfBoth>, Refusal> {
    Ok(ApplicationCheck::new(view, now, ask, memo)?.known.application.counts_if_both)
}

/// The reason why a request to an application is permitted. This value is not a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationUse {
    /// The application.
    pub application: ApplicationName,
    /// The principal's roles on the path; empty if everybody may make the request.
    pub roles: Vec<Role>,
    /// The datastore, if the request reads a file of a datastore. In that case, the request is permitted only if doors 3 and 4 also permit reading
    /// this file.
    pub datastore: Option<DatastoreName>,
}

/// Decides like [`use_application`] whether a principal may use an application, but needs no credential of the principal. `kinds` are the kinds of
/// the principal's credentials; they do not matter if everybody may make the request. The result is not a permit.
///
/// # Errors
/// As [`use_application`].
pub fn would_use(
    view: &enfilade_facts::View<'_>,
    now: Clocks,
    (principal, kinds): (&Principal, &[CredentialKind]),
    ask: &ApplicationAsk,
    memo: &AccessMemo,
) -> Result<ApplicationUse, Refusal> {
    let check = ApplicationCheck::new(view, now, ask, memo)?;
    let KnownApplication { name, application } = &*check.known;
    if first_not_public(application, ask).is_none() {
        return Ok(ApplicationUse { application: name.clone(), roles: Vec::new(), datastore: None });
    }
    // The principal can choose between its kinds of credentials. So it is enough if the application accepts one of these kinds.
    let accepted = kinds.iter().map(|kind| check.accepts(*kind)).reduce(Result::or);
    accepted.unwrap_or(Ok(()))?;
    let roles = check.permits(principal, ask, false)?.effective().to_vec();
    Ok(ApplicationUse { application: name.clone(), roles, datastore: application.datastore.clone() })
}

/// Decides about many requests. No credential is needed for this. All decisions are for the same revision and time. The results are not permits.
pub struct ManyUses<'c> {
    view: &'c enfilade_facts::View<'c>,
    now: Clocks,
    memo: &'c AccessMemo,
    /// The application of the last request. Most requests are about the same application.
    last: Option<(Site, ApplicationCheck<'c>)>,
}

impl<'c> ManyUses<'c> {
    /// Decides on this view, at this time.
    pub fn new(view: &'c enfilade_facts::View<'c>, now: Clocks, memo: &'c AccessMemo) -> Self {
        ManyUses { view, now, memo, last: None }
    }

    /// Decides like [`would_use`], but does not check whether the application accepts the principal's kinds of credentials, because they are not
    /// known. If the request reads a file of a datastore, returns the datastore; in that case doors 3 and 4 must also permit reading this file. A
    /// refusal does not say which roles decided, because reading their names takes longer than the decision.
    ///
    /// # Errors
    /// As [`use_application`].
    pub fn would_use(
        &mut self,
        principal: &Principal,
        ask: &ApplicationAsk,
    ) -> Result<Option<&DatastoreName>, Refusal> {
        let last = match self.last.take() {
            Some(last) if last.0 == ask.site && ask.only.is_none() => last,
            _ => {
                let check = ApplicationCheck::new(self.view, self.now, ask, self.memo)?;
                (ask.site.clone(), ApplicationCheck { names_roles: false, ..check })
            }
        };
        let (_, check) = &*self.last.insert(last);
        let application = &check.known.application;
        if first_not_public(application, ask).is_none() {
            return Ok(None);
        }
        check.permits(principal, ask, false)?;
        Ok(application.datastore.as_ref())
    }
}

/// The kind of the credential that was proven. A client certificate counts as an API token.
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

/// The highest class of requests that these roles permit; `None` if they permit no requests.
fn most(roles: &[Role]) -> Option<MethodClass> {
    let classes = [MethodClass::Administer, MethodClass::Write, MethodClass::Read];
    let is_barred = roles.contains(&Role::NoAccess);
    classes.into_iter().find(|class| !is_barred && roles.iter().any(|role| permits(*role, *class)))
}

impl Resolved {
    /// The roles that the application learns. If the principal is a token with roles of its own, there are two sets of roles: the token's roles, and
    /// its owner's roles. The application learns the set that permits less.
    fn effective(&self) -> &[Role] {
        match self.of_token.as_deref() {
            Some(token) if most(&token.roles) <= most(&self.roles) => &token.roles,
            _ => &self.roles,
        }
    }

    /// Whether the roles permit requests of this class to an application. If a token has roles of its own, both the token and its owner need a role
    /// that permits the requests.
    fn permits(&self, class: MethodClass) -> bool {
        let permits = |resolved: &Resolved| {
            !resolved.roles.contains(&Role::NoAccess)
                && resolved.roles.iter().any(|role| permits(*role, class))
        };
        permits(self) && self.of_token.as_deref().is_none_or(permits)
    }
}

/// The maximum number of nodes with roles below a path. If there are more nodes, a request for everything below the path is refused.
const NODES_BELOW_MAX: usize = 1_000;

/// Whether `path` is `root` or is below `root`.
fn is_at_or_below(root: &str, path: &str) -> bool {
    let rest = path.strip_prefix(root);
    rest.is_some_and(|rest| root.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

/// Whether `path` is one of `paths`, or is below one of `paths`.
fn is_in(paths: &[StorePath], path: &StorePath) -> bool {
    paths.iter().any(|root| is_at_or_below(root.as_str(), path.as_str()))
}

/// The form of a path for comparison. An application on Windows could ignore case, and could ignore dots and blanks at the ends of names. So the form
/// is in lower case, without these dots and blanks.
fn folded(path: &StorePath) -> String {
    path.names().map(|name| name.trim_end_matches(['.', ' ']).to_lowercase()).collect::<Vec<_>>().join("/")
}

/// Whether a path is for administrators. If the request is about everything below the path, a path for administrators that is below the path also
/// counts. The paths are compared as [`folded`] paths, because an application could open the same file by another spelling of the path.
fn is_for_administrators(paths: &[StorePath], path: &StorePath, recurses: bool) -> bool {
    if paths.is_empty() {
        return false;
    }
    let path = folded(path);
    paths
        .iter()
        .map(folded)
        .any(|root| is_at_or_below(&root, &path) || recurses && is_at_or_below(&path, &root))
}

/// Every path of a request, with the class of the request's action on the path.
fn parts<'a>(
    application: &Application,
    ask: &'a ApplicationAsk,
) -> impl Iterator<Item = (&'a StorePath, MethodClass)> {
    let administer = |path: &StorePath| is_for_administrators(&application.administer, path, ask.recurses);
    let class_on = move |path: &'a StorePath, class| match administer(path) {
        true => (path, MethodClass::Administer),
        false => (path, class),
    };
    let class = if ask.upgrades { MethodClass::Write } else { MethodClass::Read };
    let class = class.max(ask.method.class());
    let destination = ask.destination.as_ref().map(|path| {
        // A request with a destination changes something. If the class of its method for the destination is not known, the highest class counts.
        class_on(path, ask.method.class_of_destination().unwrap_or(MethodClass::Administer))
    });
    [Some(class_on(&ask.path, class)), destination].into_iter().flatten()
}

/// The first path of the request on which the action of the request is not permitted to everybody.
fn first_not_public<'a>(application: &Application, ask: &'a ApplicationAsk) -> Option<&'a StorePath> {
    let Application { public, open, passes_preflight, .. } = application;
    let is_public = |(path, class): &(&StorePath, MethodClass)| match class {
        MethodClass::Read => {
            ask.is_preflight && *passes_preflight || is_in(public, path) || is_in(open, path)
        }
        MethodClass::Write => is_in(open, path),
        // The answer to a preflight request does not contain content of the application.
        MethodClass::Administer => ask.is_preflight && *passes_preflight,
    };
    parts(application, ask).find(|part| !is_public(part)).map(|(path, _)| path)
}

/// Checks requests to one application, at one revision and time.
struct ApplicationCheck<'c> {
    view: View<'c>,
    now: Clocks,
    memo: &'c AccessMemo,
    known: Held<KnownApplication>,
    /// Whether a refusal names the roles that decided.
    names_roles: bool,
}

impl<'c> ApplicationCheck<'c> {
    fn new(
        view: &'c enfilade_facts::View<'c>,
        now: Clocks,
        ApplicationAsk { site, only, .. }: &ApplicationAsk,
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
        match only {
            Some(only) if *only != known.name => Err(Refusal::NoApplication(site.to_string())),
            _ => Ok(ApplicationCheck { view, now, memo, known, names_roles: true }),
        }
    }

    fn accepts(&self, kind: CredentialKind) -> Result<(), Refusal> {
        let KnownApplication { name, application } = &*self.known;
        match application.accepts.is_empty() || application.accepts.contains(&kind) {
            true => Ok(()),
            false => Err(Refusal::NotAccepted { application: name.clone(), kind }),
        }
    }

    /// Checks that a session of a browser is for this application.
    fn is_for(&self, identity: &IdentityPermit) -> Result<(), Refusal> {
        let audience = identity.session().and_then(|session| session.audience.as_ref());
        let name = &self.known.name;
        match audience {
            None => Ok(()),
            Some(Audience::Application(application)) if application == name => Ok(()),
            Some(_) => Err(Refusal::NotAccepted { application: name.clone(), kind: CredentialKind::Session }),
        }
    }

    /// The roles on the path of the request, if they permit the request. If everybody may make the request (`is_public`), the roles do not matter. If
    /// the application serves the files of a datastore, the roles on the application do not matter either: only reading is permitted, and doors 3 and
    /// 4 judge the file.
    fn permits(
        &self,
        principal: &Principal,
        ask: &ApplicationAsk,
        is_public: bool,
    ) -> Result<Held<Resolved>, Refusal> {
        let view = View(self.view.0);
        let check = RoleCheck { view, now: self.now, principal, memo: self.memo };
        let datastore = self.known.application.datastore.as_ref().filter(|_| !is_public);
        let mut given: Option<Held<Resolved>> = None;
        for (path, class) in parts(&self.known.application, ask) {
            let path = RolePath::of_application(&self.known.name, path);
            let roles = check.roles(&path)?;
            if let Some(datastore) = datastore {
                if !matches!(ask.method.name(), "GET" | "HEAD") || class > MethodClass::Read {
                    let decided_by = format!(
                        "the application serves the files of the datastore {datastore}, so only GET and HEAD of files are permitted; use WebDAV"
                    );
                    return Err(Refusal::NotPermitted { class, path, decided_by });
                }
                given = Some(roles);
                continue;
            }
            if !is_public && !roles.permits(class) {
                let decided_by = match self.names_roles {
                    true => roles.given(&check.view, principal).to_string(),
                    false => String::new(),
                };
                return Err(Refusal::NotPermitted { class, path, decided_by });
            }
            if !is_public && ask.recurses {
                permits_below(&check, &path, class)?;
            }
            if given.as_ref().is_none_or(|given| given.effective().is_empty()) {
                given = Some(roles);
            }
        }
        Ok(given.unwrap_or_else(|| Held::new(Resolved::default())))
    }
}

/// Checks that the principal may make a request of this class on each node with roles below a path.
fn permits_below(check: &RoleCheck<'_>, path: &RolePath, class: MethodClass) -> Result<(), Refusal> {
    if !check.effective_node(path).goes_on_below {
        return Ok(());
    }
    let mut below: Vec<RolePath> = Vec::new();
    check.view.assignments_below(path.as_str(), |key, _| {
        if below.len() <= NODES_BELOW_MAX && below.last() != Some(&key.path) {
            below.push(key.path);
        }
    })?;
    let refused = |path: RolePath, decided_by: String| Err(Refusal::NotPermitted { class, path, decided_by });
    if below.len() > NODES_BELOW_MAX {
        let why = format!(
            "the request is about everything below this path, and more than {NODES_BELOW_MAX} of the paths below have roles"
        );
        return refused(path.clone(), why);
    }
    for node in below {
        let roles = check.roles(&node)?;
        if !roles.permits(class) {
            let given = roles.given(&check.view, check.principal);
            return refused(
                node,
                format!("the request is about everything below {path}, but the visitor has {given}"),
            );
        }
    }
    Ok(())
}
