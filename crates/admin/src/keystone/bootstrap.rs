//! Creates the facts that a new OpenStack cloud needs, as `keystone-manage bootstrap` does. Existing records stay, with two exceptions: the
//! administrator gets the new password, and an endpoint of the service gets the new URL.

use super::catalog::check_url;
use super::catalog_commands::{add_endpoint, add_service};
use super::domains::add_domain;
use super::extra::{IMMUTABLE, put_extra};
use super::grants::{On, grant_role};
use super::names::{check_name, check_region_id, check_role_name};
use super::projects::{add_project, find_project};
use super::roles::{add_implication, add_role};
use crate::change_context::ChangeContext;
use crate::error::Error;
use crate::passwords::PasswordRules;
use crate::resolve::Target;
use crate::users::{NewUser, add_user, set_password};
use enfilade_facts::limits::{DOMAIN_NAME_CHARS_MAX, NAME_CHARS_MAX};
use enfilade_facts::tables::{Domain, Interface, Name, NameKey, NamedRole, ResourceKind, User};
use enfilade_facts::vocabulary::{DomainId, NameInDomain, ProjectId, RoleId, Secret, Userid, shell_word};
use enfilade_facts::{Read as _, Source, View};

/// The records to create.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// The administrator.
    pub user: Userid,
    /// The administrator's password; it is also set for an existing administrator.
    pub password: Secret,
    /// The name of the administrator's project.
    pub project: String,
    /// The role that permits everything.
    pub role: String,
    /// The name of the identity service.
    pub service: String,
    /// The region of the identity service.
    pub region: Option<String>,
    /// The URLs of the service, each with its interface.
    pub urls: Vec<(Interface, String)>,
}

/// Roles that every cloud has. Each role implies the next one, as in Keystone.
const ROLES: [&str; 3] = ["manager", "member", "reader"];

impl Bootstrap {
    /// Checks all names and URLs before the first change, so that nothing changes if one of them is invalid.
    ///
    /// # Errors
    /// When a name or URL is not accepted.
    pub fn check(&self) -> Result<(), Error> {
        check_name("project", &self.project, DOMAIN_NAME_CHARS_MAX)?;
        check_role_name(&self.role)?;
        check_name("service", &self.service, NAME_CHARS_MAX)?;
        self.region.as_deref().map_or(Ok(()), check_region_id)?;
        self.urls.iter().try_for_each(|(_, url)| check_url(url))
    }

    /// Checks that the administrator will be able to log in. If the domain of the user exists, it must be enabled. If the user exists, the user must
    /// be enabled and not expired.
    ///
    /// # Errors
    /// When the user will not be able to log in, or the facts cannot be read.
    pub fn check_user(&self, source: &dyn Source, now: i64) -> Result<(), Error> {
        source.read(|view| self.check_user_in(view, now))?
    }

    fn check_user_in(&self, view: &View<'_>, now: i64) -> Result<(), Error> {
        let (user, realm) = (&self.user, self.user.realm());
        let domain = view.get::<Name>(&NameKey::domain(realm))?.map(|name| name.domain());
        let Some(domain) = domain else { return Ok(()) };
        if !view.get::<Domain>(&domain)?.is_some_and(|row| row.enabled) {
            return Err(Error::Refused(format!(
                "the domain `{realm}` is disabled, so nothing was changed: first enable the domain with `enfilade domain enable`"
            )));
        }
        let id = view.get::<Name>(&NameKey::user(&domain, user.name()))?.map(|name| name.user());
        let Some(row) = id.map(|id| view.get::<User>(&id)).transpose()?.flatten() else { return Ok(()) };
        let why = match () {
            () if !row.enabled => ("is disabled", "enable"),
            () if row.expires != 0 && row.expires <= now => ("has expired", "set --expires never"),
            () => return Ok(()),
        };
        Err(Error::Refused(format!(
            "the user {user} {}, so nothing was changed: first run `enfilade user {} {}`",
            why.0,
            why.1,
            shell_word(&user.to_string())
        )))
    }
}

/// Creates the records.
///
/// # Errors
/// When a name or URL is not accepted, the user or the domain of the user is disabled, the user has expired, or the facts cannot be changed.
pub fn bootstrap(ctx: &ChangeContext<'_>, new: &Bootstrap) -> Result<ProjectId, Error> {
    new.check()?;
    new.check_user(ctx.facts, ctx.now.unix_seconds)?;
    // The operator chooses this password, so it need not be changed at the first login.
    let passwords = &PasswordRules { change_given: false, ..ctx.passwords.clone() };
    let ctx = &ChangeContext { passwords, ..*ctx };
    let fresh = |made: Result<(), Error>| match made {
        Err(Error::Exists { .. }) => Ok(()),
        other => other,
    };
    let realm = new.user.realm();
    // The domain `Default` gets the id that is usual in the configuration of clients.
    let id = (realm.as_str() == "Default").then_some(DomainId::DEFAULT);
    fresh(add_domain(ctx, realm, id).map(drop))?;
    let user = NewUser {
        userid: new.user.clone(),
        password: Some(new.password.clone()),
        sid: None,
        uid: None,
        gid: None,
        expires: 0,
        comment: None,
    };
    if let Err(why) = add_user(ctx, &user) {
        let Error::Exists { .. } = why else { return Err(why) };
        set_password(ctx, &new.user, &new.password)?;
    }
    let full = NameInDomain { name: new.project.clone(), domain: realm.clone() }.to_string();
    fresh(add_project(ctx, realm, &new.project, Some("made by bootstrap")).map(drop))?;
    let project = find_project(ctx.facts, &full)?;
    for role in [new.role.as_str(), "service"].iter().chain(&ROLES) {
        fresh(add_role(ctx, role, None).and_then(|(id, _)| make_immutable(ctx, &id)))?;
    }
    let mut above = new.role.as_str();
    for role in ROLES {
        if above != role {
            add_implication(ctx, above, role)?;
        }
        above = role;
    }
    let who = Target::User(new.user.clone());
    grant_role(ctx, &who, &On::Project(project), &new.role)?;
    grant_role(ctx, &who, &On::System, &new.role)?;
    let (service, _) = add_service(ctx, "identity", &new.service)?;
    for (interface, url) in &new.urls {
        add_endpoint(ctx, &service.id, *interface, new.region.as_deref(), url)?;
    }
    Ok(project)
}

/// Sets the option `immutable` of a role, as `keystone-manage bootstrap` does by default. Until the option is removed, the API neither changes nor
/// deletes the role.
fn make_immutable(ctx: &ChangeContext<'_>, id: &RoleId) -> Result<(), Error> {
    ctx.commit(&format!("role {id} is immutable"), |_, change| {
        change.expect_present::<NamedRole>(id);
        put_extra(change, ResourceKind::Role, id, IMMUTABLE)
    })?;
    Ok(())
}
