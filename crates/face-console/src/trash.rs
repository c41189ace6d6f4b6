//! The trash of a datastore: the files and folders that the user deleted in the console. The user can restore an item to its former path or to
//! another path, and can delete an item permanently. An administrator of the datastore can open the page with the items of all users.

use crate::click::{Click, Trouble, said};
use crate::failure::sentence;
use crate::icons::Icon;
use crate::page::{Notice, bytes, csrf_field, empty, time};
use crate::place::Place;
use crate::section::Section;
use crate::session::has_ended;
use crate::tree_work::{all_done, until};
use enfilade_faces::browser::{parameter, redirect, url};
use enfilade_faces::{Aim, Answer, CancelOnDrop, Failure, RequestError, blocking, blocking_failure};
use enfilade_facts::vocabulary::{DatastoreName, OperationKind, StorePath};
use enfilade_passage::{
    Blocking, ContentRefusal, ItemId, NodeKind, Refusal, Stands, Stay, TrashItem, TrashPage, WhoseTrash,
};
use maud::{Markup, html};

/// The maximum number of items on a page. One form restores at most this number of items.
const ITEMS: usize = 100;
/// The maximum number of datastores on the page that lists them.
const STORES: usize = 200;

/// The URL of the page of the trash of a datastore.
pub(crate) fn url_of(datastore: &DatastoreName) -> String {
    format!("/console/trash/{datastore}/")
}

/// The message about items that were moved to the trash, if the query names such items. The query can name only items of the user, even if another
/// person wrote the URL. Nothing is restored until the user presses the button.
pub(crate) fn moved(click: &Click<'_>, datastore: &DatastoreName) -> Option<Notice> {
    if click.asked("done") != "trashed" {
        return None;
    }
    let user = click.visit.principal().user;
    let names: Vec<String> = click.asked("undo").split('.').map(str::to_owned).collect();
    let are_items = names.len() <= ITEMS && names.iter().all(|name| ItemId::of_name(user, name).is_some());
    are_items.then(|| Notice::Trashed { url: url_of(datastore), names })
}

/// The page on which the user chooses a datastore. If there is only one datastore, the browser opens its trash at once.
pub(crate) async fn choose(click: &mut Click<'_>) -> Result<Answer, Failure> {
    let visit = click.visit.clone();
    let mut names = blocking(click.visit.share(), move || visit.stores()).await?;
    if let [only] = names.as_slice() {
        return Ok(redirect(&url_of(only)));
    }
    let after = click.asked("after").to_owned();
    names.retain(|name| name.as_str() > after.as_str());
    let next = names.get(STORES - 1).filter(|_| names.len() > STORES).cloned();
    names.truncate(STORES);
    let content = html! {
        div.head { div { h1 { "Trash" } p { "Choose a datastore to see the files that you deleted in it in the console." } } }
        @if names.is_empty() {
            div.card { (empty(Icon::Trash, "No datastore", &html! { "You have no role in any datastore." })) }
        } @else {
            ul.cards {
                @for name in &names {
                    li { a.card.tile href=(url_of(name)) { span.top { (Icon::Trash.show()) (name) } } }
                }
            }
        }
        @if let Some(next) = next {
            nav.pages aria-label="Pages" { span {} a rel="next" href=(url("", &[("after", next.as_str())])) { "Next page" } }
        }
    };
    Ok(click.page(Section::Trash, "Trash", &content))
}

/// Checks that a URL names the trash of a datastore.
fn check(place: &Place) -> Result<(), Failure> {
    if place.path.is_root() { Ok(()) } else { Err(RequestError::NoRoute.into()) }
}

fn whose(click: &Click<'_>) -> WhoseTrash {
    if click.asked("of") == "all" { WhoseTrash::Everybody } else { WhoseTrash::Own }
}

/// The page of the trash of a datastore.
pub(crate) async fn show(click: &mut Click<'_>, place: Place) -> Result<Answer, Failure> {
    check(&place)?;
    click.trace.event.datastore = place.datastore.to_string();
    let (visit, datastore) = (click.visit.clone(), place.datastore.clone());
    let (whose, after) = (whose(click), click.asked("after").parse().ok());
    // While the page is made, the names in the trash are in memory, as for the page of a folder. So both kinds of pages share one limit for each
    // user.
    let turn = visit.share().page().await;
    let page = blocking(click.visit.share(), move || {
        let _turn = turn;
        visit.enter(&datastore, OperationKind::Read, Blocking)?.trash(whose, after, ITEMS)
    });
    let page = page.await?;
    let content = content(click, &place.datastore, whose, &page);
    Ok(click.page(Section::Trash, "Trash", &content))
}

fn content(click: &mut Click<'_>, datastore: &DatastoreName, whose: WhoseTrash, page: &TrashPage) -> Markup {
    let (days, has_trash) = {
        let house = click.faces.house();
        (house.trash_days(), house.has_trash(datastore))
    };
    let privilege = enfilade_facts::vocabulary::Privileges::DATASTORE_MODIFY;
    let may_see_all = click.holds(&format!("/datastore/{datastore}"), privilege);
    let (all, own) = (format!("{}?of=all", url_of(datastore)), url_of(datastore));
    let is_all = whose == WhoseTrash::Everybody;
    let action = if is_all { &all } else { &own };
    html! {
        div.head {
            div {
                h1 { "Trash of " (datastore) }
                p {
                    @if is_all { "What all users deleted in the console." } @else { "What you deleted in the console." }
                    @if days > 0 { " After " (days) " days, the server deletes it for good." }
                }
            }
            div.bar {
                a.button href={ "/console/files/" (datastore) "/" } { "To the files" }
                @if is_all { a.button href=(own) { "Only mine" } } @else if may_see_all { a.button href=(all) { "Of all users" } }
                @if !is_all && !page.items.is_empty() {
                    form method="post" action=(own) {
                        (csrf_field(&click.csrf))
                        button.danger name="do" value="empty" data-ask="Delete everything in your trash for good?" { "Empty trash" }
                    }
                }
            }
        }
        @if !has_trash { p.note.warn { "This datastore has no trash. The console deletes files at once." } }
        @if page.is_cut { p.note.warn { "The trash has too many items: some of them are on no page. To see these items, restore other items, or delete other items for good." } }
        div.card {
            @if page.items.is_empty() {
                (empty(Icon::Trash, "Nothing is here", &html! { @if has_trash { "Files and folders that you delete in the console come here." } @else { "Deleted files and folders are not kept." } }))
            } @else {
                div.scroll tabindex="0" { (table(click, action, is_all, &page.items)) }
            }
            @if let Some(next) = page.next {
                nav.pages aria-label="Pages" {
                    span {}
                    @let next = next.to_string();
                    @let query = if is_all { vec![("of", "all"), ("after", next.as_str())] } else { vec![("after", next.as_str())] };
                    a rel="next" href=(url("", &query)) { "Older" }
                }
            }
        }
    }
}

fn table(click: &Click<'_>, action: &str, is_all: bool, items: &[TrashItem]) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Was at" }
                @if is_all { th scope="col" { "Deleted by" } }
                th scope="col" { "Deleted" }
                th.number scope="col" { "Size" }
                th scope="col" { span.hide-text { "Actions" } }
            } }
            tbody { @for item in items { (line(click, action, is_all, item)) } }
        }
    }
}

fn line(click: &Click<'_>, action: &str, is_all: bool, item: &TrashItem) -> Markup {
    let TrashItem { id, path, who, kind, bytes: size } = item;
    let (path, id, seconds) = (path.to_string(), id.to_string(), i64::try_from(id.seconds).unwrap_or(0));
    // After a failed attempt, the field has the path that the user entered.
    let to =
        if click.field("item") == id && click.field("do") == "restore" { click.field("to") } else { &path };
    let is_folder = *kind == NodeKind::Directory;
    let icon = if is_folder { Icon::Folder } else { Icon::File };
    html! {
        tr {
            td { (icon.show()) " " (path) }
            @if is_all { td { (who) } }
            td.nowrap { (time(seconds)) }
            td.number { @if !is_folder { (bytes(*size)) } }
            td.does {
                form method="post" action=(action) {
                    (csrf_field(&click.csrf))
                    input type="hidden" name="item" value=(id);
                    input.slim name="to" value=(to) required autocomplete="off" aria-label={ "Restore " (path) " to" };
                    button name="do" value="restore" { "Restore" }
                    button.danger.slim name="do" value="purge" data-ask={ "Delete " (path) " for good?" } { "Delete for good" }
                }
            }
        }
    }
}

/// Does the action that a form requests. If the action fails, the page shows the reason.
pub(crate) async fn submit(click: &mut Click<'_>, place: Place) -> Result<Answer, Failure> {
    check(&place)?;
    click.trace.event.datastore = place.datastore.to_string();
    let done = match click.field("do") {
        "undo" => undo(click, &place).await,
        "restore" => restore(click, &place).await,
        "purge" => purge(click, &place).await,
        "empty" => empty_all(click, &place).await,
        _ => Err(Trouble::Failed(RequestError::Parameter("`do`: there is no such action").into())),
    };
    match done {
        Ok(to) => Ok(redirect(&to)),
        Err(Trouble::Failed(failure)) if has_ended(&failure) => Err(failure),
        Err(trouble) => {
            click.failed(trouble, reason);
            show(click, place).await
        }
    }
}

/// The reason why an item was not restored or deleted. The reason is the same for a hidden folder and an absent folder.
fn reason(failure: &Failure) -> String {
    let Failure::Refused(refusal) = failure else { return sentence(failure, Aim::Target) };
    match refusal.parts() {
        (_, Refusal::Content(ContentRefusal::Exists(name))) => {
            format!("Something with the name `{name}` exists already. Enter another path for the item.")
        }
        (Stands::Parent, why) if is_absent_or_hidden(why) => {
            "The folder of this path does not exist, or you may not see it. Create the folder, or enter another path for the item.".to_owned()
        }
        _ => sentence(failure, Aim::Target),
    }
}

fn is_absent_or_hidden(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Content(ContentRefusal::ParentAbsent(_) | ContentRefusal::Absent(_)) => true,
        Refusal::Access(access) => access.looks_absent(),
        _ => false,
    }
}

/// Does work in a datastore. The work stops when the time limit for trees is reached, or when the browser has disconnected.
async fn work<R: Send + 'static>(
    click: &Click<'_>,
    place: &Place,
    work: impl FnOnce(&mut Stay, &dyn Fn() -> bool) -> Result<R, Refusal> + Send + 'static,
) -> Result<R, Trouble> {
    let (visit, datastore) = (click.visit.clone(), place.datastore.clone());
    let cancel_on_drop = CancelOnDrop::default();
    let cancel = cancel_on_drop.token();
    let (house, end) = until(click);
    let done = blocking_failure(visit.share(), move || {
        let mut stay = visit.enter(&datastore, OperationKind::Write, Blocking)?;
        let keep_going = move || !cancel.is_cancelled() && house.now().tick_millis < end;
        Ok(work(&mut stay, &keep_going)?)
    });
    Ok(done.await?)
}

/// The URL of the page of the folder that contains a restored object.
fn restored(place: &Place, path: &StorePath) -> String {
    let above = path.split().map(|(above, _)| above).unwrap_or_default();
    let folder = Place { datastore: place.datastore.clone(), path: above, is_folder: true };
    url(&folder.url("files"), &[("done", "restored")])
}

/// Restores the items that the form of a message names.
async fn undo(click: &Click<'_>, place: &Place) -> Result<String, Trouble> {
    let user = click.visit.principal().user;
    let names = click.form.iter().filter(|(name, _)| name == "item").take(ITEMS);
    let ids: Option<Vec<ItemId>> = names.map(|(_, name)| ItemId::of_name(user, name)).collect();
    let ids = ids.filter(|ids| !ids.is_empty()).ok_or_else(|| said("there is nothing to restore"))?;
    let paths = work(click, place, move |stay, keep_going| {
        let mut last = (StorePath::root(), Vec::new());
        for id in ids {
            let (path, failed) = stay.restore(id, None, keep_going)?;
            last.0 = path;
            last.1.extend(failed);
        }
        Ok(last)
    });
    let (path, failed) = paths.await?;
    all_done("restored", &failed)?;
    Ok(restored(place, &path))
}

fn item(click: &Click<'_>) -> Result<ItemId, Trouble> {
    // If the text is not an id, the answer is the same as for an item that does not exist.
    let absent = || Refusal::Content(ContentRefusal::Absent(String::new()));
    click.field("item").parse().map_err(|()| absent().into())
}

async fn restore(click: &Click<'_>, place: &Place) -> Result<String, Trouble> {
    // Blanks at the start or the end of a path are part of a name. So this function does not remove them.
    let (id, to) = (item(click)?, parameter(&click.form, "to").unwrap_or_default());
    let why_not = |why| said(format!("nothing can be restored to the path `{to}`: {why}"));
    let to = StorePath::from_plain(to.trim_matches('/')).map_err(why_not)?;
    to.keeps_to(&click.visit.limits()).map_err(RequestError::Path)?;
    let done = work(click, place, move |stay, keep_going| stay.restore(id, Some(to), keep_going));
    let (path, failed) = done.await?;
    all_done("restored", &failed)?;
    Ok(restored(place, &path))
}

fn back(click: &Click<'_>, place: &Place, done: &str) -> String {
    let all: &[(&str, &str)] = if whose(click) == WhoseTrash::Everybody { &[("of", "all")] } else { &[] };
    url(&url_of(&place.datastore), &[all, &[("done", done)]].concat())
}

async fn purge(click: &Click<'_>, place: &Place) -> Result<String, Trouble> {
    let id = item(click)?;
    work(click, place, move |stay, keep_going| stay.purge(id, keep_going)).await?;
    Ok(back(click, place, "purged"))
}

async fn empty_all(click: &Click<'_>, place: &Place) -> Result<String, Trouble> {
    match work(click, place, |stay, keep_going| stay.empty_trash(keep_going)).await? {
        true => Ok(back(click, place, "emptied")),
        false => Err(said(
            "Some items are still in the trash: there were too many for one request, or you no longer have the right to delete them. Empty the trash again, or delete single items.",
        )),
    }
}
