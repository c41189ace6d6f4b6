//! The page of applications. A proxy in front of the applications asks this server for decisions.

use super::may_see;
use crate::click::{Click, Trouble, said};
use crate::icons::Icon;
use crate::page::{command, csrf_field, empty};
use crate::section::Section;
use enfilade_faces::browser::{failure_of_change, url};
use enfilade_faces::{Answer, Failure, RequestError, blocking_failure};
use enfilade_facts::tables::Application;
use enfilade_facts::vocabulary::{ApplicationName, HostName, Privileges, RolePath, StorePath, shell_word};
use enfilade_passage::Lending;
use maud::{Markup, html};

const PATH: &str = "/application";

pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    may_see(click, PATH)?;
    let faces = click.faces.clone();
    let rows = blocking_failure(click.visit.share(), move || {
        enfilade_admin::list_applications(faces.house().source()).map_err(failure_of_change)
    });
    let rows = rows.await?;
    let content = html! {
        div.head {
            div {
                h1 { "Applications" }
                p { "A proxy asks this server whether a visitor may send a request to an application. The roles on the paths of the application decide, except on paths that are open to everybody. For an application that serves a datastore, the roles and ACLs of the datastore decide." }
            }
            details.more {
                summary.button.main { (Icon::Add.show()) "Add application" }
                div {
                    form method="post" action="/console/applications/add" {
                        (csrf_field(&click.csrf))
                        label for="application" { "Name" }
                        input #application name="application" required placeholder="wiki" autocomplete="off" autocapitalize="none";
                        (fields("new", &Application::default()))
                        button.main { "Add" }
                    }
                    (command(&["enfilade application create NAME --host HOST".to_owned()]))
                }
            }
        }
        @if rows.is_empty() {
            div.card { (empty(Icon::Session, "No application yet", &html! { "Add an application, and print the configuration of the proxy with " code { "enfilade integrate" } "." })) }
        }
        @for (at, (name, row)) in rows.iter().enumerate() { (card(click, at, name, row)) }
        (command(&["enfilade application list".to_owned()]))
    };
    Ok(click.page(Section::Applications, "Applications", &content))
}

/// The properties of an application that the form can change.
fn fields(id: &str, row: &Application) -> Markup {
    let input = |name: &str, label: &str, value: String, placeholder: &str| {
        let id = format!("{id}-{name}");
        html! {
            label for=(id) { (label) }
            input id=(id) name=(name) value=(value) placeholder=(placeholder) required[name == "hosts"] autocomplete="off" autocapitalize="none";
        }
    };
    html! {
        (input("hosts", "Hosts, with commas between them", joined(&row.hosts), "wiki.example.com"))
        (input("public", "Paths that everybody may read without a login, with commas between them", joined(&row.public), "/static,/favicon.ico"))
        (input("open", "Paths that everybody may read and change without a login, with commas between them", joined(&row.open), "/webhook"))
        (input("administer", "Paths for administrators, with commas between them", joined(&row.administer), "/admin"))
    }
}

fn joined<T: ToString>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn card(click: &Click<'_>, at: usize, name: &ApplicationName, row: &Application) -> Markup {
    let path = RolePath::of_application(name, &StorePath::root());
    let accepts =
        if row.accepts.is_empty() { "every kind of credential".to_owned() } else { joined(&row.accepts) };
    let word = shell_word(name.as_str());
    html! {
        section.card {
            div.card-head {
                div { h2 { (name) } @if let Some(comment) = &row.comment { p.weak { (comment) } } }
                form method="post" action="/console/applications/remove" {
                    (csrf_field(&click.csrf))
                    input type="hidden" name="application" value=(name);
                    button.danger.slim data-ask={ "Remove the application " (name) " and all roles on its paths?" } {
                        "Remove" span.hide-text { " " (name) }
                    }
                }
            }
            div.pad {
                dl.pair {
                    dt { "Accepts" } dd { (accepts) }
                    @if let Some(datastore) = &row.datastore { dt { "Files of" } dd { (datastore) } }
                    dt { "Roles" } dd { a href=(url("/console/roles", &[("q", path.as_str())])) { (path) } }
                }
                form.stack method="post" action="/console/applications/set" {
                    (csrf_field(&click.csrf))
                    input type="hidden" name="application" value=(name);
                    (fields(&format!("at-{at}"), row))
                    div { button { "Change" span.hide-text { " " (name) } } }
                }
                (command(&[
                    format!("enfilade application show {word}"),
                    format!("enfilade application set {word} --host HOST --public PATHS --open PATHS --administer PATHS"),
                    format!("enfilade application remove {word}"),
                    format!("enfilade integrate nginx --enable --application {word} --upstream ADDRESS:PORT"),
                ]))
            }
        }
    }
}

/// The values in a field, which have commas between them.
fn listed<T>(click: &Click<'_>, field: &str) -> Result<Vec<T>, Trouble>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let texts = click.field(field).split(',').map(str::trim).filter(|text| !text.is_empty());
    texts.map(|text| text.parse().map_err(|why| said(format!("`{text}`: {why}")))).collect()
}

fn paths(click: &Click<'_>, field: &str) -> Result<Vec<StorePath>, Trouble> {
    match click.field(field).split(',').map(str::trim).find(|text| !text.is_empty() && !text.starts_with('/'))
    {
        Some(text) => Err(said(format!("`{text}`: expected a path such as /static"))),
        None => listed(click, field),
    }
}

/// Does the action that a form requests. Returns the URL of the page that follows.
pub(crate) async fn act(click: &mut Click<'_>, action: &str) -> Result<String, Trouble> {
    let permit = click.permit(PATH, Privileges::SYS_MODIFY, Lending::Manages, None)?;
    let name: ApplicationName = click.parsed("application")?;
    if action == "remove" {
        click.change(permit, move |ctx| enfilade_admin::remove_application(ctx, &name)).await?;
        return Ok("/console/applications?done=changed".to_owned());
    }
    let mut hosts: Vec<HostName> = listed(click, "hosts")?;
    hosts.sort_unstable();
    hosts.dedup();
    let own = click.faces.sign_in().and_then(host_of_origin);
    enfilade_admin::refuse_host_of_sign_in(&hosts, own.as_ref())?;
    let given = Application {
        hosts,
        public: paths(click, "public")?,
        open: paths(click, "open")?,
        administer: paths(click, "administer")?,
        ..Application::default()
    };
    match action {
        "add" => {
            click.change(permit, move |ctx| enfilade_admin::create_application(ctx, &name, &given)).await?;
        }
        "set" => {
            let edit = move |row: &mut Application| {
                row.hosts.clone_from(&given.hosts);
                row.public.clone_from(&given.public);
                row.open.clone_from(&given.open);
                row.administer.clone_from(&given.administer);
            };
            click.change(permit, move |ctx| enfilade_admin::edit_application(ctx, &name, edit)).await?;
        }
        _ => return Err(Failure::from(RequestError::NoRoute).into()),
    }
    Ok("/console/applications?done=changed".to_owned())
}

/// The host of an origin such as `https://files.example.com:8443`.
fn host_of_origin(origin: &str) -> Option<HostName> {
    let (_, authority) = origin.split_once("://")?;
    authority.rsplit_once(':').map_or(authority, |(host, _)| host).parse().ok()
}
