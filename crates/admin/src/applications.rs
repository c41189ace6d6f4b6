//! Applications: programs behind the proxies that ask this server for decisions.

use crate::change_context::ChangeContext;
use crate::comment::check_comment;
use crate::error::Error;
use crate::roles::remove_roles_on;
use enfilade_facts::tables::{Application, ApplicationHost, CONSOLE, Datastore};
use enfilade_facts::vocabulary::{ApplicationName, HostName, RolePath, StorePath};
use enfilade_facts::{At, Change, Read, Source, View};

/// The maximum number of hosts of an application, and the maximum number of paths in each list of paths of an application. Every decision compares
/// the path of the request with these paths.
const EACH_MAX: usize = 64;

fn missing(name: &ApplicationName) -> Error {
    Error::Missing { what: "application", name: name.to_string(), hint: "see `enfilade application list`" }
}

/// Creates an application.
///
/// # Errors
/// When the name or a host is taken, the name is reserved, the application is invalid (for example without a host), its datastore does not exist, or
/// the facts cannot be changed.
pub fn create_application(
    ctx: &ChangeContext<'_>,
    name: &ApplicationName,
    application: &Application,
) -> Result<At, Error> {
    if name.as_str() == CONSOLE {
        return Err(Error::Invalid(format!(
            "the name `{CONSOLE}` stands for the console of this server; choose another name"
        )));
    }
    check(application)?;
    let ((), at) = ctx.commit(&format!("application create {name}"), |view, change| {
        check_datastore(view, application)?;
        if view.get::<Application>(name)?.is_some() {
            let hint = "choose another name, or change that application with `enfilade application set`";
            return Err(Error::Exists { what: "application", name: name.to_string(), hint });
        }
        change.expect_absent::<Application>(name).put(name, application);
        application.hosts.iter().try_for_each(|host| take_host(view, change, host, name))
    })?;
    Ok(at)
}

/// Changes an application.
///
/// # Errors
/// When there is no such application, the result is invalid, a new host belongs to another application, a new datastore does not exist, or the facts
/// cannot be changed.
pub fn edit_application(
    ctx: &ChangeContext<'_>,
    name: &ApplicationName,
    edit: impl Fn(&mut Application),
) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("application set {name}"), |view, change| {
        let before = view.get::<Application>(name)?.ok_or_else(|| missing(name))?;
        let mut after = before.clone();
        edit(&mut after);
        check(&after)?;
        if before.datastore != after.datastore {
            check_datastore(view, &after)?;
        }
        change.expect_unchanged(name, Some(&before)).put(name, &after);
        let (is_old, is_new) =
            (|host: &&HostName| before.hosts.contains(host), |host: &&HostName| after.hosts.contains(host));
        for host in before.hosts.iter().filter(|host| !is_new(host)) {
            change
                .expect_unchanged(host, Some(&ApplicationHost(name.clone())))
                .delete::<ApplicationHost>(host);
        }
        after
            .hosts
            .iter()
            .filter(|host| !is_old(host))
            .try_for_each(|host| take_host(view, change, host, name))
    })?;
    Ok(at)
}

/// Removes an application, and all roles on its paths. An application that is created later with the same name has none of these roles.
///
/// # Errors
/// When there is no such application, or the facts cannot be changed.
pub fn remove_application(ctx: &ChangeContext<'_>, name: &ApplicationName) -> Result<At, Error> {
    if ctx.facts.read(|view| view.get::<Application>(name))??.is_some() {
        remove_roles_on(ctx, &RolePath::of_application(name, &StorePath::root()))?;
    }
    let ((), at) = ctx.commit(&format!("application remove {name}"), |view, change| {
        let before = view.get::<Application>(name)?.ok_or_else(|| missing(name))?;
        for host in &before.hosts {
            change
                .expect_unchanged(host, Some(&ApplicationHost(name.clone())))
                .delete::<ApplicationHost>(host);
        }
        change.expect_unchanged(name, Some(&before)).delete::<Application>(name);
        Ok::<_, Error>(())
    })?;
    Ok(at)
}

/// Every application, by name.
///
/// # Errors
/// When the facts cannot be read.
pub fn list_applications(source: &dyn Source) -> Result<Vec<(ApplicationName, Application)>, Error> {
    Ok(source.read(|view| view.list::<Application>(&[]))??)
}

/// The application of this name.
///
/// # Errors
/// When there is no such application, or the facts cannot be read.
pub fn show_application(source: &dyn Source, name: &ApplicationName) -> Result<Application, Error> {
    source.read(|view| view.get::<Application>(name))??.ok_or_else(|| missing(name))
}

/// Refuses an application that has the host of the page for signing in, because this application would receive the cookie of the page. `own` is the
/// host of the page for signing in; `None` if the server has no such page.
///
/// # Errors
/// When one of the hosts is `own`.
pub fn refuse_host_of_sign_in(hosts: &[HostName], own: Option<&HostName>) -> Result<(), Error> {
    match hosts.iter().find(|host| Some(*host) == own) {
        Some(host) => Err(Error::Invalid(format!(
            "`{host}` is the host of the page for signing in (`[decisions] sign_in`), so an application on it would get the cookie of that page: use \
             another host name for the application"
        ))),
        None => Ok(()),
    }
}

fn check(application: &Application) -> Result<(), Error> {
    let Application { hosts, public, open, administer, comment, passes_preflight, .. } = application;
    check_comment(comment.as_deref())?;
    if application.datastore.is_some() && !(public.is_empty() && open.is_empty() && !passes_preflight) {
        return Err(Error::Invalid(
            "the roles and ACLs of the datastore decide about its files, so an application with `--datastore` can have no public or open paths, and no \
             `--pass-preflight`"
                .to_owned(),
        ));
    }
    if hosts.is_empty() {
        return Err(Error::Invalid("an application needs a host: add `--host wiki.example.com`".to_owned()));
    }
    let lists = [("hosts", hosts.len()), ("public paths", public.len()), ("open paths", open.len())];
    let lists = lists.into_iter().chain([("paths for administrators", administer.len())]);
    for (what, count) in lists {
        if count > EACH_MAX {
            return Err(Error::Invalid(format!(
                "{count} {what}: an application can have at most {EACH_MAX}"
            )));
        }
    }
    Ok(())
}

fn check_datastore(view: &View<'_>, application: &Application) -> Result<(), Error> {
    let Some(name) = &application.datastore else { return Ok(()) };
    match view.get::<Datastore>(name)? {
        Some(_) => Ok(()),
        None => Err(Error::Missing {
            what: "datastore",
            name: name.to_string(),
            hint: "see `enfilade datastore list`",
        }),
    }
}

fn take_host(
    view: &View<'_>,
    change: &mut Change,
    host: &HostName,
    name: &ApplicationName,
) -> Result<(), Error> {
    if let Some(ApplicationHost(other)) = view.get::<ApplicationHost>(host)? {
        return Err(Error::Invalid(format!(
            "the host `{host}` belongs to the application `{other}`: choose another host, or first remove `{host}` from `{other}`"
        )));
    }
    change.expect_absent::<ApplicationHost>(host).put(host, &ApplicationHost(name.clone()));
    Ok(())
}
