//! API tokens of the user. Only the response to the form that creates a token contains the secret of the token.

use crate::click::{Click, Trouble, said};
use crate::icons::Icon;
use crate::page::{command, csrf_field, empty, part, time, time_or_never};
use crate::section::Section;
use enfilade_admin::{NewToken, Target, TokenSummary, TokenTerms};
use enfilade_faces::browser::redirect;
use enfilade_faces::{Answer, Failure, blocking_failure};
use enfilade_facts::vocabulary::{Privileges, Role, RolePath, TokenName, shell_word};
use enfilade_passage::{AdminPermit, Lending};
use hyper::StatusCode;
use maud::{Markup, html};

const PATH: &str = "/access/users";
const DAY_SECONDS: i64 = 86_400;
/// The lifetimes of a new token, in days. The value 0 means that the token never expires.
const LIFETIMES: [(i64, &str); 5] =
    [(30, "30 days"), (90, "90 days"), (365, "1 year"), (1, "1 day"), (0, "no expiry")];
/// The roles that the form offers for a token with a role of its own. The token gets one of them, on a path.
const ROLES: [Role; 4] =
    [Role::DatastoreReader, Role::DatastoreBackup, Role::DatastorePowerUser, Role::DatastoreAdmin];

/// The permit to change tokens of the user. The user needs no privilege for this permit.
fn permit(click: &mut Click<'_>) -> Result<AdminPermit, Failure> {
    let user = click.user();
    click.permit(PATH, Privileges::PERMISSIONS_MODIFY, Lending::People, Some(&user))
}

/// The maximum number of tokens on a page.
const ROWS: usize = 100;

async fn all(click: &mut Click<'_>) -> Result<Vec<TokenSummary>, Failure> {
    let user = click.user();
    click.permit(PATH, Privileges::SYS_AUDIT, Lending::Reads, Some(&user))?;
    let faces = click.faces.clone();
    blocking_failure(click.visit.share(), move || {
        enfilade_admin::list_tokens(faces.house().source(), Some(&user))
            .map_err(enfilade_faces::browser::failure_of_change)
    })
    .await
}

/// The part of the page about tokens.
pub(super) async fn section(click: &mut Click<'_>) -> Result<Markup, Failure> {
    let tokens = all(click).await?;
    let now = click.now();
    let user = click.user().to_string();
    let (shown, pages) = part(&tokens, ROWS, "tokens", click.asked("tokens"));
    Ok(html! {
        section.card aria-labelledby="tokens" {
            div.card-head {
                div {
                    h2 #tokens { "API tokens" }
                    p.weak { "Programs and scripts sign in with a token, so that they do not need your password." }
                }
                (form(click))
            }
            @if tokens.is_empty() {
                (empty(Icon::Key, "No token yet", &html! { "Create a token for each program: then you can delete one, and the others stay valid." }))
            } @else {
                div.scroll tabindex="0" {
                    table {
                        thead { tr {
                            th scope="col" { "Token" } th scope="col" { "Roles" } th.wide scope="col" { "Created" }
                            th scope="col" { "Expires" } th scope="col" { span.hide-text { "Actions" } }
                        } }
                        tbody { @for token in shown { (line(click, token, now)) } }
                    }
                }
            }
            (pages)
            div.pad {
                (command(&[
                    format!("enfilade token list {}", shell_word(&user)),
                    format!("enfilade token delete {}", shell_word(&format!("{user}!NAME"))),
                ]))
            }
        }
    })
}

fn line(click: &Click<'_>, token: &TokenSummary, now: i64) -> Markup {
    html! {
        tr {
            td {
                strong { (token.name.as_str()) }
                @if let Some(comment) = &token.comment { div.weak.small { (comment) } }
            }
            td {
                @match &token.limited_to {
                    Some(limit) => (limit),
                    None if token.own_roles => { "its own" },
                    None => { "all of yours" },
                }
                @if !token.enabled { " " span.badge.bad { "disabled" } }
            }
            td.wide { (time(token.created)) }
            td {
                (time_or_never(token.expires))
                @if token.expires != 0 && token.expires <= now { " " span.badge.bad { "expired" } }
            }
            td.does {
                form method="post" action="/console/account/delete-token" {
                    (csrf_field(&click.csrf))
                    input type="hidden" name="name" value=(token.name.as_str());
                    button.danger.slim data-ask={ "Delete the token " (token.name.as_str()) "? Programs that use it are refused at once." } {
                        "Delete" span.hide-text { " the token " (token.name.as_str()) }
                    }
                }
            }
        }
    }
}

fn form(click: &Click<'_>) -> Markup {
    let user = click.user();
    html! {
        details.more {
            summary.button.main { (Icon::Add.show()) "New token" }
            div {
                form method="post" action="/console/account/create-token" {
                    (csrf_field(&click.csrf))
                    label for="token-name" { "Name" }
                    input #token-name name="name" required maxlength="64" autocomplete="off" placeholder="laptop";
                    label for="token-days" { "Expires after" }
                    select #token-days name="days" {
                        @for (days, label) in LIFETIMES { option value=(days) { (label) } }
                    }
                    label for="token-role" { "Rights" }
                    select #token-role name="role" {
                        option value="" { "All of mine" }
                        @for role in ROLES { option value=(role.name()) { "Only the role " (role.name()) " on a path" } }
                    }
                    label for="token-path" { "Path of the role" }
                    input #token-path name="path" autocomplete="off" placeholder="/datastore/NAME/FOLDER";
                    button.main { "Create" }
                }
                (command(&[
                    format!("enfilade token create {} --own-roles", shell_word(&format!("{user}!NAME"))),
                    format!("enfilade role assign --path PATH --auth-id {} ROLE", shell_word(&format!("{user}!NAME"))),
                ]))
            }
        }
    }
}

/// Creates a token. Returns the page with the secret of the token.
pub(super) async fn create(click: &mut Click<'_>) -> Result<Answer, Trouble> {
    let (user, name) = (click.user(), click.parsed::<TokenName>("name")?);
    let days: i64 = click.field("days").parse().map_err(|_| said("choose when the token expires"))?;
    if !LIFETIMES.iter().any(|(known, _)| *known == days) {
        return Err(said("choose when the token expires"));
    }
    let expires = if days == 0 { 0 } else { click.now().saturating_add(days * DAY_SECONDS) };
    let role = match click.field("role") {
        "" => None,
        _ => Some((click.parsed::<Role>("role")?, click.parsed::<RolePath>("path")?)),
    };
    let terms = TokenTerms { expires, comment: None, own_roles: role.is_some() };
    let permit = permit(click)?;
    let faces = click.faces.clone();
    let made = click.change(permit, move |ctx| {
        let made = enfilade_admin::create_token(ctx, faces.house().hash_key(), &user, &name, &terms)?;
        if let Some((role, path)) = &role {
            let target = Target::Token(user.clone(), name.clone());
            if let Err(why) = enfilade_admin::assign_role(ctx, path, &target, *role, true) {
                // The token could not get its role, and a token without its role is useless. So the token is
                // deleted.
                enfilade_admin::delete_token(ctx, &user, &name)?;
                return Err(why);
            }
        }
        Ok(made)
    });
    Ok(secret(click, &made.await?))
}

/// The page that shows the secret. The secret is shown only once.
fn secret(click: &mut Click<'_>, made: &NewToken) -> Answer {
    let content = html! {
        div.head { div { h1 { "New token" } p { "This is the only time that the secret is shown." } } }
        div.card.pad {
            dl.pair {
                dt { "Name" } dd { code { (made.tokenid.to_string()) } }
                dt { "Secret" }
                dd { div.secret { code #secret { (made.value) } button data-copy="secret" type="button" { "Copy" } } }
            }
            p { a.button href="/console/account" { "Done" } }
        }
        (command(&[format!("curl --user {} https://HOST/dav/", shell_word(&format!("{}:SECRET", made.tokenid)))]))
    };
    click.page_with(StatusCode::OK, Section::Account, "New token", &content)
}

/// Deletes a token.
pub(super) async fn delete(click: &mut Click<'_>) -> Result<Answer, Trouble> {
    let (user, name) = (click.user(), click.parsed::<TokenName>("name")?);
    let permit = permit(click)?;
    click.change(permit, move |ctx| enfilade_admin::delete_token(ctx, &user, &name)).await?;
    Ok(redirect("/console/account?done=token-deleted"))
}
