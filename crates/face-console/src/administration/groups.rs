//! Groups and their members.

use super::{may_change, may_see};
use crate::click::{Click, Trouble};
use crate::icons::Icon;
use crate::page::{command, csrf_field, empty};
use crate::section::Section;
use enfilade_admin::{GroupSummary, Target};
use enfilade_faces::browser::failure_of_change;
use enfilade_faces::{Answer, Failure, RequestError, blocking_failure};
use enfilade_facts::vocabulary::{GroupName, shell_word};
use maud::{Markup, html};

const PATH: &str = "/access/acl";

pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    may_see(click, PATH)?;
    let faces = click.faces.clone();
    let groups = blocking_failure(click.visit.share(), move || {
        enfilade_admin::list_groups(faces.house().source()).map_err(failure_of_change)
    });
    let groups = groups.await?;
    let content = html! {
        div.head {
            div { h1 { "Groups" } p { "A role or an ACL entry for a group counts for all its members, also those of groups inside it." } }
            details.more {
                summary.button.main { (Icon::Add.show()) "Add group" }
                div {
                    form method="post" action="/console/groups/add" {
                        (csrf_field(&click.csrf))
                        label for="group" { "Name" }
                        input #group name="group" required placeholder="staff" autocomplete="off" autocapitalize="none";
                        button.main { "Add" }
                    }
                    (command(&["enfilade group add NAME".to_owned()]))
                }
            }
        }
        @if groups.is_empty() {
            div.card { (empty(Icon::Group, "No group yet", &html! { "Give a role to a group instead of to each user." })) }
        }
        @for (at, group) in groups.iter().enumerate() { (card(click, at, group)) }
        (command(&["enfilade group list".to_owned()]))
    };
    Ok(click.page(Section::Groups, "Groups", &content))
}

fn card(click: &Click<'_>, at: usize, group: &GroupSummary) -> Markup {
    let name = group.group.trim_start_matches('@');
    html! {
        section.card {
            div.card-head {
                div { h2 { (group.group) } @if let Some(comment) = &group.comment { p.weak { (comment) } } }
                form method="post" action="/console/groups/remove" {
                    (csrf_field(&click.csrf))
                    input type="hidden" name="group" value=(name);
                    button.danger.slim data-ask={ "Remove the group " (group.group) "?" } { "Remove" span.hide-text { " " (group.group) } }
                }
            }
            table {
                tbody {
                    @for member in &group.members {
                        tr {
                            td { (member) }
                            td.does {
                                form method="post" action="/console/groups/remove-member" {
                                    (csrf_field(&click.csrf))
                                    input type="hidden" name="group" value=(name);
                                    input type="hidden" name="member" value=(member);
                                    button.slim { "Remove" span.hide-text { " " (member) " from " (group.group) } }
                                }
                            }
                        }
                    }
                }
            }
            div.pad {
                form.row method="post" action="/console/groups/add-member" {
                    (csrf_field(&click.csrf))
                    input type="hidden" name="group" value=(name);
                    div.field {
                        label for={ "member-" (at) } { "New member" }
                        input id={ "member-" (at) } name="member" required placeholder="ann@local, or @group" autocomplete="off" autocapitalize="none";
                    }
                    button { "Add" }
                }
                (command(&[
                    format!("enfilade group member add {} MEMBER", shell_word(name)),
                    format!("enfilade group member remove {} MEMBER", shell_word(name)),
                    format!("enfilade group remove {}", shell_word(name)),
                ]))
            }
        }
    }
}

/// Does the action that a form requests. Returns the URL of the page that follows.
pub(crate) async fn act(click: &mut Click<'_>, action: &str) -> Result<String, Trouble> {
    let permit = may_change(click, PATH)?;
    let group: GroupName =
        click.field("group").trim_start_matches('@').parse().map_err(crate::click::said)?;
    match action {
        "add" => {
            click.change(permit, move |ctx| enfilade_admin::add_group(ctx, &group, None, None, None)).await?;
        }
        "remove" => {
            click.change(permit, move |ctx| enfilade_admin::remove_group(ctx, &group)).await?;
        }
        "add-member" => {
            let member: Target = click.parsed("member")?;
            click.change(permit, move |ctx| enfilade_admin::add_member(ctx, &group, &member)).await?;
        }
        "remove-member" => {
            let member: Target = click.parsed("member")?;
            click.change(permit, move |ctx| enfilade_admin::remove_member(ctx, &group, &member)).await?;
        }
        _ => return Err(Failure::from(RequestError::NoRoute).into()),
    }
    Ok("/console/groups?done=changed".to_owned())
}
