//! Links with which the user shares files and folders. This module contains the form for a new link, which is on the pages of files and folders. It
//! also contains the page that lists the links. The text of a link is shown only once: in the response to the form that makes the link.

use crate::click::{Click, Trouble, said};
use crate::icons::Icon;
use crate::page::{Notice, bytes, command, csrf_field, empty, time};
use crate::place::Place;
use crate::section::Section;
use enfilade_admin::{LinkSummary, NewLink};
use enfilade_faces::browser::{failure_of_change, parameter, redirect, url};
use enfilade_faces::{Answer, Failure, LINKS, RequestError, blocking, blocking_failure};
use enfilade_facts::limits::{LINK_NAME_CHARS_MAX, LINK_USES_MAX};
use enfilade_facts::tables::{LinkPlace, LinkRights};
use enfilade_facts::vocabulary::{AccessMask, CredentialId, OperationKind, Privileges, Secret, shell_word};
use enfilade_passage::{AdminPermit, Blocking, Lending, Refusal, Visit};
use hyper::StatusCode;
use hyper::header::ORIGIN;
use maud::{Markup, html};

const PATH: &str = "/access/users";
const DAY_SECONDS: i64 = 86_400;
/// The lifetimes of a new link, in days.
const LIFETIMES: [(i64, &str); 4] = [(7, "7 days"), (1, "1 day"), (14, "14 days"), (30, "30 days")];
/// The maximum number of links on a page.
const LINKS_SHOWN: usize = 100;
/// One megabyte, in bytes.
const MEGABYTE: u64 = 1_000_000;

/// The permit to make or end links of the user. The user needs no privilege for this permit. If the user logged in with a lent credential, the permit
/// is refused.
fn permit(click: &mut Click<'_>) -> Result<AdminPermit, Failure> {
    let user = click.user();
    click.permit(PATH, Privileges::PERMISSIONS_MODIFY, Lending::People, Some(&user))
}

/// The menu with the form for sharing a place.
pub(crate) fn form(click: &Click<'_>, place: &Place, may_drop: bool) -> Markup {
    let user = click.user().to_string();
    let shell = |more: &str| {
        let path = shell_word(&place.path.to_string());
        format!("enfilade link create {} {path} --user {}{more}", place.datastore, shell_word(&user))
    };
    html! {
        details.more {
            summary.button { (Icon::Share.show()) "Share" }
            div {
                form method="post" action=(place.url("share")) {
                    (csrf_field(&click.csrf))
                    p.weak.small { "Everybody who gets the link can open it, without an account. The link never gives more rights than you have." }
                    label for="link-name" { "Name, for your list of links" }
                    input #link-name name="name" maxlength=(LINK_NAME_CHARS_MAX) autocomplete="off";
                    label for="link-days" { "Ends after" }
                    select #link-days name="days" {
                        @for (days, label) in LIFETIMES { option value=(days) { (label) } }
                    }
                    label for="link-password" { "Password, if guests need one" }
                    input #link-password type="password" name="password" maxlength="511" autocomplete="new-password";
                    label for="link-uses" { "Maximum number of downloads or uploads (empty: no limit)" }
                    input #link-uses type="number" name="uses" min="1" max=(LINK_USES_MAX) inputmode="numeric";
                    @if may_drop {
                        label.check { input type="checkbox" name="drop" value="yes"; "Guests can only upload, and see nothing" }
                        label for="link-size" { "Largest upload, in MB" }
                        input #link-size type="number" name="size" min="1" inputmode="numeric";
                    }
                    button.main { "Make the link" }
                }
                (command(&[if may_drop { shell(" [--drop]") } else { shell("") }]))
            }
        }
    }
}

/// Makes a link for a place. Returns the page with the link.
pub(crate) async fn create(click: &mut Click<'_>, place: Place) -> Result<Answer, Failure> {
    click.trace.event.datastore = place.datastore.to_string();
    match made(click, &place).await {
        Ok(answer) => Ok(answer),
        Err(Trouble::Failed(failure)) => Err(failure),
        Err(Trouble::Said(why)) => {
            click.notice = Some(Notice::Failed(why));
            crate::files::show(click, place).await
        }
    }
}

/// A number in a field of the form; `None` if the field is empty.
fn number<N: std::str::FromStr>(click: &Click<'_>, name: &str, what: &str) -> Result<Option<N>, Trouble> {
    match click.field(name) {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| said(format!("{what} is not a number: `{text}`"))),
    }
}

async fn made(click: &mut Click<'_>, place: &Place) -> Result<Answer, Trouble> {
    let days: i64 = click.field("days").parse().map_err(|_| said("choose when the link ends"))?;
    if !LIFETIMES.iter().any(|(known, _)| *known == days) {
        return Err(said("choose when the link ends"));
    }
    let password = match parameter(&click.form, "password").unwrap_or_default() {
        "" => None,
        text => Some(
            Secret::new(text.as_bytes())
                .ok_or_else(|| said("a password has up to 511 bytes, and no NUL byte"))?,
        ),
    };
    let (uses, size) =
        (number(click, "uses", "the number of uses")?, number::<u64>(click, "size", "the size")?);
    let rights = if click.field("drop") == "yes" { LinkRights::Drop } else { LinkRights::Read };
    let upload_bytes = size.map(|size| size.saturating_mul(MEGABYTE)).filter(|_| rights == LinkRights::Drop);
    let shared =
        LinkPlace { datastore: place.datastore.clone(), path: place.path.clone(), rights, upload_bytes };
    let new = NewLink {
        owner: click.user(),
        name: click.field("name").to_owned(),
        place: shared.clone(),
        expires: click.now().saturating_add(days * DAY_SECONDS),
        password,
        uses,
    };
    let permit = permit(click)?;
    let visit = click.visit.clone();
    blocking(visit.share(), move || may_share(visit, &shared)).await?;
    let limits = click.visit.limits();
    let link = click.change(permit, move |ctx| {
        let link = enfilade_admin::create_link(ctx, &limits, &new)?;
        Ok((link, new))
    });
    let (link, new) = link.await?;
    Ok(shown(click, place, &new, &link.text))
}

/// Checks that the user has the rights that the link lends. Without these rights, the link would give no access to anything.
fn may_share(visit: Visit, place: &LinkPlace) -> Result<(), Refusal> {
    let kind = match place.rights {
        LinkRights::Read => OperationKind::Read,
        LinkRights::Drop => OperationKind::Write,
    };
    let mut stay = visit.enter(&place.datastore, kind, Blocking)?;
    match place.rights {
        LinkRights::Read => stay.find(&place.path, AccessMask::READ_DATA, Blocking).map(drop),
        LinkRights::Drop => {
            // The user must see the folder, because the page of a drop box shows the name of the folder.
            stay.find(&place.path, AccessMask::NONE, Blocking)?;
            stay.may_add_files(&place.path)
        }
    }
}

/// The page with the new link. The link is shown only once.
fn shown(click: &mut Click<'_>, place: &Place, new: &NewLink, text: &str) -> Answer {
    // An earlier check has already compared the origin of the form with the host of this server.
    let origin = click.head.headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()).unwrap_or_default();
    let url = format!("{origin}{LINKS}{text}");
    let content = html! {
        div.head { div { h1 { "New link" } p { "This is the only time that the link is shown." } } }
        div.card.pad {
            dl.pair {
                dt { "Shares" } dd { (place.datastore) ":" (place.path) }
                dt { "Ends" } dd { (time(new.expires)) }
                dt { "Link" }
                dd { div.secret { code #secret { (url) } button data-copy="secret" type="button" { "Copy" } } }
            }
            div.bar {
                a.button href=(place.url("files")) { "Done" }
                a.button href="/console/links" { "My links" }
            }
        }
    };
    click.page_with(StatusCode::OK, Section::Links, "New link", &content)
}

/// Whether the page shows the links of all users.
fn is_of_all(click: &Click<'_>) -> bool {
    click.asked("of") == "all"
}

/// The page with the links of the user, or of all users.
pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    let (user, of_all) = (click.user(), is_of_all(click));
    click.permit(PATH, Privileges::SYS_AUDIT, Lending::Reads, (!of_all).then_some(&user))?;
    let sees_all = click.holds(PATH, Privileges::SYS_AUDIT);
    let may_end = !of_all || click.holds(PATH, Privileges::PERMISSIONS_MODIFY);
    let (faces, owner) = (click.faces.clone(), (!of_all).then_some(user.clone()));
    let links = blocking_failure(click.visit.share(), move || {
        enfilade_admin::list_links(faces.house().source(), owner.as_ref()).map_err(failure_of_change)
    });
    let mut links = links.await?;
    let from = click.asked("from").parse().unwrap_or(0).min(links.len());
    links.drain(..from);
    let next = (links.len() > LINKS_SHOWN).then(|| (from + LINKS_SHOWN).to_string());
    links.truncate(LINKS_SHOWN);
    let now = click.now();
    let of_user = if of_all { String::new() } else { format!(" {}", shell_word(&user.to_string())) };
    let content = html! {
        div.head {
            div {
                h1 { @if of_all { "All links" } @else { "My links" } }
                p { "A link opens a file or folder for everybody who has the link. To make a link, open a file or folder and press " strong { "Share" } "." }
            }
            @if of_all { a.button href="/console/links" { "My links" } }
            @else if sees_all { a.button href="/console/links?of=all" { "Links of all users" } }
        }
        div.card {
            @if links.is_empty() {
                (empty(Icon::Share, "No links", &html! { "Nothing is shared by a link." }))
            } @else {
                div.scroll tabindex="0" {
                    table {
                        thead { tr {
                            @if of_all { th scope="col" { "User" } }
                            th scope="col" { "Shares" } th scope="col" { "Guests may" } th scope="col" { "Ends" }
                            th.number scope="col" { "Uses left" } th scope="col" { span.hide-text { "Actions" } }
                        } }
                        tbody {
                            @for link in &links {
                                @let sees_path = !of_all || administers(click, link);
                                (line(click, link, (now, of_all, may_end), sees_path))
                            }
                        }
                    }
                }
            }
            @if let Some(next) = next {
                @let query = [("of", if of_all { "all" } else { "" }), ("from", next.as_str())];
                nav.pages aria-label="Pages" { span {} a rel="next" href=(url("", &query)) { "Older" } }
            }
        }
        (command(&[format!("enfilade link list{of_user}"), "enfilade link end ID".to_owned()]))
    };
    let title = if of_all { "All links" } else { "My links" };
    Ok(click.page(Section::Links, title, &content))
}

/// Whether the user administers the datastore of a link. A user who does not administer the datastore does not see the paths of other users' links,
/// because such a path can contain names that are hidden from the user.
fn administers(click: &mut Click<'_>, link: &LinkSummary) -> bool {
    click.holds(&format!("/datastore/{}", link.place.datastore), Privileges::DATASTORE_MODIFY)
}

fn line(
    click: &Click<'_>,
    link: &LinkSummary,
    (now, of_all, may_end): (i64, bool, bool),
    sees_path: bool,
) -> Markup {
    let place =
        Place { datastore: link.place.datastore.clone(), path: link.place.path.clone(), is_folder: false };
    html! {
        tr {
            @if of_all { td { (link.owner) } }
            td {
                @if sees_path {
                    a href=(place.url("files")) { (link.place.datastore) ":" (link.place.path) }
                    @if !link.name.is_empty() { div.weak.small { (link.name) } }
                } @else {
                    (link.place.datastore) div.weak.small { "Only administrators of the datastore see the path." }
                }
            }
            td {
                @match link.place.rights { LinkRights::Read => { "read" }, LinkRights::Drop => { "upload" } }
                @if link.has_password { " " span.badge { "password" } }
                @if let Some(most) = link.place.upload_bytes { " " span.weak.small { "up to " (bytes(most)) } }
            }
            td {
                (time(link.expires))
                @if link.expires <= now { " " span.badge.bad { "expired" } }
                @if !link.enabled { " " span.badge.bad { "disabled" } }
                @if link.uses == Some(0) { " " span.badge.bad { "used up" } }
            }
            td.number { @match link.uses { Some(uses) => (uses), None => span.weak { "any" } } }
            td.does {
                @if may_end {
                    form method="post" action=(if of_all { "/console/links/end-any" } else { "/console/links/end" }) {
                        (csrf_field(&click.csrf))
                        input type="hidden" name="id" value=(link.id.to_string());
                        button.danger.slim data-ask="End this link? Guests are refused at once." {
                            "End"
                            span.hide-text { " the link to " @if sees_path { (link.place.path) } @else { (link.place.datastore) } }
                        }
                    }
                }
            }
        }
    }
}

/// Ends one share link. The submitted form contains the id of the link.
pub(crate) async fn submit(click: &mut Click<'_>, action: &str) -> Result<Answer, Failure> {
    let done = match action {
        "end" => end_own(click).await,
        "end-any" => end_any(click).await,
        _ => Err(RequestError::NoRoute.into()),
    };
    match done {
        Ok(to) => Ok(redirect(to)),
        Err(Trouble::Failed(failure)) => Err(failure),
        Err(Trouble::Said(why)) => {
            click.notice = Some(Notice::Failed(why));
            show(click).await
        }
    }
}

async fn end_own(click: &mut Click<'_>) -> Result<&'static str, Trouble> {
    let (id, owner) = (click.parsed::<CredentialId>("id")?, click.visit.principal().user);
    let permit = permit(click)?;
    click.change(permit, move |ctx| enfilade_admin::end_link(ctx, &id, Some(&owner))).await?;
    Ok("/console/links?done=link-ended")
}

async fn end_any(click: &mut Click<'_>) -> Result<&'static str, Trouble> {
    let id = click.parsed::<CredentialId>("id")?;
    let permit = click.permit(PATH, Privileges::PERMISSIONS_MODIFY, Lending::People, None)?;
    click.change(permit, move |ctx| enfilade_admin::end_link(ctx, &id, None)).await?;
    Ok("/console/links?of=all&done=link-ended")
}
