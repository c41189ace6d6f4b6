//! The browsers in which the user is signed in.

use crate::click::{Click, Trouble, said};
use crate::icons::Icon;
use crate::page::{command, csrf_field, empty, part, time};
use enfilade_admin::{SignInSummary, end_sign_in, sign_ins_of};
use enfilade_faces::browser::{failure_of_change, redirect};
use enfilade_faces::{Answer, Failure, blocking_failure};
use enfilade_facts::vocabulary::{Privileges, shell_word};
use enfilade_passage::{Lending, audit_id_to_text};
use maud::{Markup, html};

/// The maximum number of sessions on a page.
const ROWS: usize = 50;

/// The part of the page about sessions.
pub(super) async fn section(click: &mut Click<'_>) -> Result<Markup, Failure> {
    let (faces, user, now) = (click.faces.clone(), click.visit.principal().user, click.now());
    let found = blocking_failure(click.visit.share(), move || {
        sign_ins_of(faces.house().source(), &user, now).map_err(failure_of_change)
    });
    let found = found.await?;
    let own = click.visit.identity().session().map(|session| session.claim.audit.own);
    let user = click.user().to_string();
    let (shown, pages) = part(&found, ROWS, "sessions", click.asked("sessions"));
    Ok(html! {
        section.card aria-labelledby="sessions" {
            div.card-head {
                div { h2 #sessions { "Browsers" } p.weak { "Where you are signed in. If you sign out a browser here, the server refuses the next request of that browser." } }
            }
            @if found.is_empty() {
                (empty(Icon::Session, "No session", &html! { "You are not signed in with any browser." }))
            } @else {
                div.scroll tabindex="0" {
                    table {
                        thead { tr {
                            th scope="col" { "Signed in to" } th scope="col" { "Since" } th.wide scope="col" { "Until" }
                            th scope="col" { span.hide-text { "Actions" } }
                        } }
                        tbody { @for session in shown { (line(click, session, own == Some(session.audit))) } }
                    }
                }
            }
            (pages)
            div.pad { (command(&[format!("enfilade session list {}", shell_word(&user)), format!("enfilade session end {}   # ends all sessions of the user", shell_word(&user))])) }
        }
    })
}

fn line(click: &Click<'_>, session: &SignInSummary, is_this: bool) -> Markup {
    let audit = audit_id_to_text(&session.audit);
    html! {
        tr {
            td {
                @for (at, audience) in session.audiences.iter().enumerate() {
                    @if at > 0 { ", " } (audience.to_string())
                }
                @if is_this { " " span.badge.good { "this browser" } }
            }
            td { (time(session.issued_at)) }
            td.wide { (time(session.expires_at)) }
            td.does {
                @if !is_this {
                    form method="post" action="/console/account/end-session" {
                        (csrf_field(&click.csrf))
                        input type="hidden" name="session" value=(audit);
                        button.danger.slim { "Sign out" }
                    }
                }
            }
        }
    }
}

/// Ends one of the user's sign-ins, with all its sessions.
pub(super) async fn end(click: &mut Click<'_>) -> Result<Answer, Trouble> {
    let (user, audit) = (click.visit.principal().user, click.field("session").to_owned());
    let own = click.user();
    let permit =
        click.permit("/access/users", Privileges::PERMISSIONS_MODIFY, Lending::Sessions, Some(&own))?;
    let faces = click.faces.clone();
    let ended = click.change(permit, move |ctx| {
        let found = sign_ins_of(faces.house().source(), &user, ctx.now.unix_seconds)?;
        match found.into_iter().find(|session| audit_id_to_text(&session.audit) == audit) {
            Some(session) => end_sign_in(ctx, &session).map(|_| true),
            None => Ok(false),
        }
    });
    match ended.await? {
        true => Ok(redirect("/console/account?done=session-ended")),
        false => Err(said("the session has ended already")),
    }
}
