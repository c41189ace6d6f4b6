//! Roles on paths.

use super::{may_change, may_see};
use crate::click::{Click, Trouble};
use crate::icons::Icon;
use crate::page::{command, csrf_field, empty};
use crate::section::Section;
use enfilade_admin::{AssignmentSummary, Target};
use enfilade_faces::browser::failure_of_change;
use enfilade_faces::{Answer, Failure, RequestError, blocking_failure};
use enfilade_facts::vocabulary::{Role, RolePath};
use maud::{Markup, html};

const PATH: &str = "/access/acl";
/// The roles that the form offers. The form does not offer roles without an effect on this server.
const ROLES: [Role; 11] = [
    Role::DatastoreReader,
    Role::DatastoreBackup,
    Role::DatastorePowerUser,
    Role::DatastoreAdmin,
    Role::DatastoreAudit,
    Role::ApplicationReader,
    Role::ApplicationUser,
    Role::ApplicationAdmin,
    Role::Audit,
    Role::Admin,
    Role::NoAccess,
];

pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    may_see(click, PATH)?;
    let faces = click.faces.clone();
    let rows = blocking_failure(click.visit.share(), move || {
        enfilade_admin::list_roles(faces.house().source()).map_err(failure_of_change)
    });
    let wanted = click.asked("q").to_lowercase();
    let mut rows = rows.await?;
    rows.retain(|row| {
        let texts = [row.path.as_str(), &row.who, row.role.name()];
        texts.iter().any(|text| text.to_lowercase().contains(&wanted))
    });
    rows.sort_by(|a, b| (&a.path, &a.who, a.role).cmp(&(&b.path, &b.who, b.role)));
    let content = html! {
        div.head {
            div { h1 { "Roles" } p { "A role on a path counts for everything below it." } }
            (form(click))
        }
        form.bar role="search" {
            input type="search" name="q" value=(click.asked("q")) placeholder="Filter by path, person or role" aria-label="Filter";
            button { (Icon::Search.show()) "Filter" }
        }
        div.card.scroll tabindex="0" {
            @if rows.is_empty() { (empty(Icon::Role, "No role", &html! { "No role matches." })) } @else { (table(&rows, Some(&click.csrf))) }
        }
        (command(&[
            "enfilade role list".to_owned(),
            "enfilade role assign --path PATH --auth-id WHO ROLE".to_owned(),
            "enfilade role remove --path PATH --auth-id WHO ROLE".to_owned(),
        ]))
    };
    Ok(click.page(Section::Roles, "Roles", &content))
}

fn form(click: &Click<'_>) -> Markup {
    html! {
        details.more {
            summary.button.main { (Icon::Add.show()) "Assign role" }
            div {
                form method="post" action="/console/roles/assign" {
                    (csrf_field(&click.csrf))
                    label for="who" { "User, token or @group" }
                    input #who name="who" required placeholder="ann@local" autocomplete="off" autocapitalize="none";
                    label for="role" { "Role" }
                    select #role name="role" { @for role in ROLES { option value=(role.name()) { (role.name()) } } }
                    label for="path" { "Path" }
                    input #path name="path" required placeholder="/datastore/NAME/FOLDER" autocomplete="off";
                    button.main { "Assign" }
                }
            }
        }
    }
}

/// A table of roles. If `csrf` is given, each row has a button that removes the role.
pub(super) fn table(rows: &[AssignmentSummary], csrf: Option<&str>) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Path" } th scope="col" { "Who" } th scope="col" { "Role" }
                @if csrf.is_some() { th scope="col" { span.hide-text { "Actions" } } }
            } }
            tbody {
                @for row in rows {
                    tr {
                        td.mono { (row.path.as_str()) }
                        td { (row.who) }
                        td {
                            (row.role.name())
                            @if !row.propagate { " " span.badge { "not below" } }
                            @if let Some(fault) = &row.fault { " " span.badge.bad title=(fault) { "no effect" } }
                        }
                        @if let Some(csrf) = csrf {
                            td.does {
                                form method="post" action="/console/roles/remove" {
                                    (csrf_field(csrf))
                                    input type="hidden" name="who" value=(row.who);
                                    input type="hidden" name="role" value=(row.role.name());
                                    input type="hidden" name="path" value=(row.path.as_str());
                                    button.danger.slim data-ask={ "Remove the role " (row.role.name()) " of " (row.who) "?" } { "Remove" span.hide-text { " " (row.role.name()) " from " (row.who) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Does the action that a form requests. Returns the URL of the page that follows.
pub(crate) async fn act(click: &mut Click<'_>, action: &str) -> Result<String, Trouble> {
    let permit = may_change(click, PATH)?;
    let (who, role, path) =
        (click.parsed::<Target>("who")?, click.parsed::<Role>("role")?, click.parsed::<RolePath>("path")?);
    match action {
        "assign" => {
            click.change(permit, move |ctx| enfilade_admin::assign_role(ctx, &path, &who, role, true)).await?
        }
        "remove" => {
            click.change(permit, move |ctx| enfilade_admin::remove_role(ctx, &path, &who, role)).await?
        }
        _ => return Err(Failure::from(RequestError::NoRoute).into()),
    };
    Ok("/console/roles?done=changed".to_owned())
}
