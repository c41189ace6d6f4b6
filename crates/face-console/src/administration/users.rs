//! Users: the list of accounts, and the actions of an administrator on an account.

use super::{may_change, may_see};
use crate::click::{Click, Trouble, said};
use crate::icons::Icon;
use crate::page::{command, csrf_field, time, time_or_never};
use crate::section::Section;
use enfilade_admin::{
    AssignmentSummary, GroupSummary, NewUser, SecondFactorState, TokenSummary, UserEdit, UserSummary,
    keystone,
};
use enfilade_faces::browser::{failure_of_change, parameter, url};
use enfilade_faces::{Answer, Failure, RequestError, blocking_failure};
use enfilade_facts::tables::Revoked;
use enfilade_facts::vocabulary::{Privileges, Secret, Userid, shell_word};
use maud::{Markup, html};

const PATH: &str = "/access/users";

pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    may_see(click, PATH)?;
    let faces = click.faces.clone();
    let users = blocking_failure(click.visit.share(), move || {
        enfilade_admin::list_users(faces.house().source()).map_err(failure_of_change)
    });
    let users = users.await?;
    match click.asked("user").to_owned() {
        name if name.is_empty() => Ok(list(click, &users)),
        name => match users.iter().find(|user| user.userid == name) {
            Some(user) => one(click, user).await,
            None => Err(RequestError::NoRoute.into()),
        },
    }
}

fn url_of(user: &str) -> String {
    url("/console/users", &[("user", user)])
}

fn state(user: &UserSummary, now: i64) -> Markup {
    html! {
        @if !user.enabled {
            span.badge.bad { "disabled" }
        } @else if user.activity.is_inactive(now) {
            span.badge.warn { "inactive" }
        } @else if user.expires != 0 && user.expires <= now {
            span.badge.bad { "expired" }
        } @else {
            span.badge.good { "enabled" }
        }
    }
}

fn list(click: &mut Click<'_>, users: &[UserSummary]) -> Answer {
    const SHOWN_MAX: usize = 500;
    let (now, wanted) = (click.now(), click.asked("q").to_lowercase());
    let is_wanted = |user: &&UserSummary| {
        let comment = user.comment.as_deref().unwrap_or_default();
        user.userid.to_lowercase().contains(&wanted) || comment.to_lowercase().contains(&wanted)
    };
    let found: Vec<&UserSummary> = users.iter().filter(is_wanted).collect();
    let content = html! {
        div.head {
            div { h1 { "Users" } p { (users.len()) " in all." } }
            details.more {
                summary.button.main { (Icon::Add.show()) "Add user" }
                div {
                    form method="post" action="/console/users/add" {
                        (csrf_field(&click.csrf))
                        label for="name" { "Name" }
                        input #name name="name" required placeholder="ann@local" autocomplete="off" autocapitalize="none" spellcheck="false";
                        label for="comment" { "Comment" }
                        input #comment name="comment" autocomplete="off";
                        label for="password" { "Password" }
                        input #password type="password" name="password" autocomplete="new-password";
                        p.weak.small { "Leave it empty for a user who only has tokens." }
                        button.main { "Add" }
                    }
                    (command(&["enfilade user add NAME@REALM".to_owned(), "enfilade user passwd NAME@REALM".to_owned()]))
                }
            }
        }
        form.bar role="search" {
            input type="search" name="q" value=(click.asked("q")) placeholder="Filter by name or comment" aria-label="Filter";
            button { (Icon::Search.show()) "Filter" }
        }
        @if found.len() > SHOWN_MAX { p.note.warn { "The first " (SHOWN_MAX) " of " (found.len()) ". Filter to see the others." } }
        div.card.scroll tabindex="0" {
            table {
                thead { tr {
                    th scope="col" { "User" } th scope="col" { "State" } th.wide scope="col" { "Comment" } th.wide scope="col" { "Expires" }
                } }
                tbody {
                    @for user in found.iter().take(SHOWN_MAX) {
                        tr {
                            td { a href=(url_of(&user.userid)) { (user.userid) } }
                            td { (state(user, now)) }
                            td.wide { (user.comment.as_deref().unwrap_or_default()) }
                            td.wide { (time_or_never(user.expires)) }
                        }
                    }
                }
            }
        }
        (command(&["enfilade user list".to_owned()]))
    };
    click.page(Section::Users, "Users", &content)
}

/// The tokens, roles and other records that belong to a user.
struct Belongings {
    /// The groups and roles, if the visitor may see roles.
    rights: Option<(Vec<GroupSummary>, Vec<AssignmentSummary>)>,
    tokens: Vec<TokenSummary>,
    factor: Option<SecondFactorState>,
}

async fn one(click: &mut Click<'_>, user: &UserSummary) -> Result<Answer, Failure> {
    let (faces, name, id) = (click.faces.clone(), user.userid.clone(), user.id);
    // The paths of roles contain names of folders. So the page shows the roles only to a user with the privilege that the pages of roles and groups
    // need.
    let sees_roles = click.holds("/access/acl", Privileges::SYS_AUDIT);
    let belongings = blocking_failure(click.visit.share(), move || {
        let read = || {
            let source = faces.house().source();
            let userid = name.parse::<Userid>()?;
            let tokens = enfilade_admin::list_tokens(source, Some(&userid))?;
            let factor = enfilade_admin::second_factor_of(source, &id)?;
            if !sees_roles {
                return Ok(Belongings { rights: None, tokens, factor });
            }
            let mut groups = enfilade_admin::list_groups(source)?;
            groups.retain(|group| group.members.contains(&name));
            let token = format!("{name}!");
            let mut roles = enfilade_admin::list_roles(source)?;
            roles.retain(|role| {
                let is_of_group = groups.iter().any(|group| group.group == role.who);
                role.who == name || role.who.starts_with(&token) || is_of_group
            });
            Ok(Belongings { rights: Some((groups, roles)), tokens, factor })
        };
        read().map_err(failure_of_change)
    });
    let content = page(click, user, &belongings.await?);
    Ok(click.page(Section::Users, &user.userid, &content))
}

fn page(click: &Click<'_>, user: &UserSummary, belongings: &Belongings) -> Markup {
    let Belongings { rights, tokens, factor } = belongings;
    let (now, word) = (click.now(), shell_word(&user.userid));
    let button = |action: &str, label: &str, class: &str, ask: Option<String>| {
        html! {
            form method="post" action={ "/console/users/" (action) } {
                (csrf_field(&click.csrf))
                input type="hidden" name="name" value=(user.userid);
                button class=(class) data-ask=[ask] { (label) }
            }
        }
    };
    html! {
        nav aria-label="Users" { ol.crumbs { li { a href="/console/users" { "Users" } } li aria-current="page" { (user.userid) } } }
        div.head {
            div { h1 { (user.userid) " " (state(user, now)) } p { (user.comment.as_deref().unwrap_or_default()) } }
            div.bar {
                @if user.enabled { (button("disable", "Disable", "", None)) } @else { (button("enable", "Enable", "main", None)) }
                (button("end-sessions", "End all sessions", "", None))
                @if factor.is_some() {
                    (button("reset-second-factor", "Reset second factor", "", Some(format!("Reset the second factor of {}? Then the password alone is enough.", user.userid))))
                }
                (button("remove", "Remove", "danger", Some(format!("Remove {} with all tokens and roles?", user.userid))))
            }
        }
        div.card.pad {
            dl.pair {
                dt { "SID" } dd { code { (user.sid.to_string()) } }
                dt { "Expires" } dd { (time_or_never(user.expires)) }
                dt { "Password" } dd {
                    @if !user.has_password { "none" } @else if user.password_until == 0 { "set" } @else { "set, until " (time(user.password_until)) }
                }
                dt { "Second factor" } dd {
                    @match factor {
                        Some(state) => { "since " (time(state.since)) ", " (state.recovery_codes) " recovery codes left" },
                        None => span.weak { "none" },
                    }
                }
                @if let Some((groups, _)) = rights {
                    dt { "Groups" } dd {
                        @if groups.is_empty() { span.weak { "none" } }
                        @for (at, group) in groups.iter().enumerate() { @if at > 0 { ", " } (group.group) }
                    }
                }
                dt { "Tokens" } dd {
                    @if tokens.is_empty() { span.weak { "none" } }
                    @for (at, token) in tokens.iter().enumerate() { @if at > 0 { ", " } (token.name.as_str()) }
                }
            }
        }
        div.card {
            div.card-head { h2 { "Roles" } a.button href=(url("/console/roles", &[("q", &user.userid)])) { "All roles" } }
            @match rights {
                None => { p.pad.weak { "You may not see roles and groups: this needs the privilege Sys.Audit on /access/acl." } }
                Some((_, roles)) if roles.is_empty() => {
                    p.pad.weak { "The user, its tokens and these groups have no role on a path. Roles on projects are not shown." }
                }
                Some((_, roles)) => { (super::roles::table(roles, None)) }
            }
        }
        div.card.pad {
            h2 { "New password" }
            form.row method="post" action="/console/users/password" {
                (csrf_field(&click.csrf))
                input type="hidden" name="name" value=(user.userid);
                div.field {
                    label for="password" { "Password" }
                    input #password type="password" name="password" required autocomplete="new-password";
                }
                button { "Set password" }
            }
        }
        (command(&[
            format!("enfilade user access {word}"),
            format!("enfilade user disable {word}"),
            format!("enfilade user enable {word}"),
            format!("enfilade session end {word}"),
            format!("enfilade user passwd {word}"),
            format!("enfilade user second-factor {word} reset"),
            format!("enfilade user remove {word}"),
        ]))
    }
}

/// Does the action that a form requests. Returns the URL of the page that follows.
pub(crate) async fn act(click: &mut Click<'_>, action: &str) -> Result<String, Trouble> {
    let permit = may_change(click, PATH)?;
    let user: Userid = click.parsed("name")?;
    let page = |done| url("/console/users", &[("user", &user.to_string()), ("done", done)]);
    let edit = |enabled| UserEdit { enabled: Some(enabled), ..UserEdit::default() };
    let at = user.clone();
    match action {
        "add" => {
            let comment = Some(click.field("comment").to_owned()).filter(|comment| !comment.is_empty());
            let password = parameter(&click.form, "password").filter(|password| !password.is_empty());
            let password = password.map(secret).transpose()?;
            let new = NewUser { comment, password, ..NewUser::named(at) };
            click.change(permit, move |ctx| enfilade_admin::add_user(ctx, &new).map(drop)).await?;
            return Ok(page("user"));
        }
        "password" => {
            let password = secret(parameter(&click.form, "password").unwrap_or_default())?;
            click.change(permit, move |ctx| enfilade_admin::set_password(ctx, &at, &password)).await?
        }
        "enable" => click.change(permit, move |ctx| enfilade_admin::set_user(ctx, &at, &edit(true))).await?,
        "disable" => {
            click.change(permit, move |ctx| enfilade_admin::set_user(ctx, &at, &edit(false))).await?
        }
        "reset-second-factor" => {
            click.change(permit, move |ctx| enfilade_admin::reset_second_factor(ctx, &at)).await?
        }
        "end-sessions" => end_sessions(click, permit, at).await?,
        "remove" => {
            click.change(permit, move |ctx| enfilade_admin::remove_user(ctx, &at)).await?;
            return Ok("/console/users?done=removed".to_owned());
        }
        _ => return Err(Failure::from(RequestError::NoRoute).into()),
    };
    Ok(page("changed"))
}

fn secret(text: &str) -> Result<Secret, Trouble> {
    Secret::new(text.as_bytes()).ok_or_else(|| said("a password has 1 to 511 bytes, and no NUL byte"))
}

async fn end_sessions(
    click: &Click<'_>,
    permit: enfilade_passage::AdminPermit,
    user: Userid,
) -> Result<enfilade_facts::At, Trouble> {
    let faces = click.faces.clone();
    click
        .change(permit, move |ctx| {
            let users = enfilade_admin::list_users(faces.house().source())?;
            let name = user.to_string();
            let found = users.into_iter().find(|found| found.userid == name);
            let found = found.ok_or_else(|| enfilade_admin::Error::Missing {
                what: "user",
                name: name.clone(),
                hint: "see the list of users",
            })?;
            keystone::revoke(ctx, &[Revoked::User(found.id)], None, &format!("user {name}"))
        })
        .await
}
