//! Does the actions of the forms on the pages of files and folders: makes a folder, renames, moves and deletes.

use super::show;
use crate::click::{Click, Trouble, said};
use crate::failure::sentence;
use crate::page::{command, csrf_field};
use crate::place::Place;
use crate::session::has_ended;
use crate::tree_work::{all_done, until};
use enfilade_faces::browser::{parameter, redirect, url};
use enfilade_faces::{Aim, Answer, CancelOnDrop, Failure, RequestError, blocking_failure};
use enfilade_facts::vocabulary::{OperationKind, StorePath, shell_word};
use enfilade_passage::{Blocking, Discarded, FailedMember, Placing, Refusal};
use maud::{Markup, html};

/// The maximum number of entries that one form changes. A page also shows at most this number of entries.
const PICKED_MAX: usize = 100;

/// The forms that rename, move and delete a file or folder.
pub(crate) fn forms(click: &Click<'_>, place: &Place) -> Markup {
    let user = click.user().to_string();
    let goal =
        |goal: &str| format!("--request MOVE --header {}", shell_word(&format!("Destination: {goal}")));
    html! {
        form method="post" action=(place.url("files")) {
            (csrf_field(&click.csrf))
            label for="to" { "New name, or new path" }
            input #to name="to" value=(place.name()) required autocomplete="off";
            button name="do" value="rename" { "Rename or move" }
        }
        form method="post" action=(place.url("files")) {
            (csrf_field(&click.csrf))
            @if click.faces.house().has_trash(&place.datastore) {
                button.danger name="do" value="remove" { "Delete" }
                button.danger name="do" value="erase" data-ask={ "Delete " (place.name()) " for good?" } { "Delete for good" }
            } @else {
                button.danger name="do" value="remove" data-ask={ "Delete " (place.name()) "?" } { "Delete" }
            }
        }
        (command(&[
            place.curl(&user, &goal(&format!("/dav/{}/NEW/PATH", place.datastore))),
            place.curl(&user, "--request DELETE"),
        ]))
    }
}

/// Does the action that a form on the page of a file or folder requests. If the action fails, the page shows the reason.
pub(crate) async fn submit(click: &mut Click<'_>, place: Place) -> Result<Answer, Failure> {
    click.trace.event.datastore = place.datastore.to_string();
    let done = match click.field("do") {
        "new-folder" => new_folder(click, &place).await,
        "rename" => rename(click, &place).await,
        "remove" => discard(click, &place, std::slice::from_ref(&place.path), above(&place)).await,
        "erase" => erase(click, &place).await,
        "move" => move_picked(click, &place).await,
        "delete" => delete_picked(click, &place).await,
        _ => Err(Trouble::Failed(RequestError::Parameter("`do`: there is no such action").into())),
    };
    match done {
        Ok((to, Told::Done(done))) => Ok(redirect(&url(&to, &[("done", done)]))),
        Ok((to, Told::Trashed(items))) => Ok(redirect(&url(&to, &[("done", "trashed"), ("undo", &items)]))),
        Err(Trouble::Failed(failure)) if has_ended(&failure) => Err(failure),
        Err(trouble) => {
            let aim = if click.field("do") == "new-folder" { Aim::Collection } else { Aim::Destination };
            click.failed(trouble, |failure| sentence(failure, aim));
            show(click, place).await
        }
    }
}

/// The message about an action that was done.
enum Told {
    /// The key of the message. The URL of the next page contains this key.
    Done(&'static str),
    /// The message about items in the trash. The text contains the names of the items, separated by dots.
    Trashed(String),
}

/// The URL of the page that the browser opens next, and the message of this page.
type Done = Result<(String, Told), Trouble>;

async fn new_folder(click: &mut Click<'_>, place: &Place) -> Done {
    let name = click.field("name");
    let why_not = |why| said(format!("`{name}` cannot be the name of a folder: {why}"));
    let made = place.join(name, true).map_err(why_not)?;
    make(click, &made).await?;
    Ok((made.url("files"), Told::Done("folder")))
}

/// Makes a folder.
pub(crate) async fn make(click: &Click<'_>, made: &Place) -> Result<(), Failure> {
    let (visit, made) = (click.visit.clone(), made.clone());
    blocking_failure(visit.share(), move || {
        let mut stay = visit.enter(&made.datastore, OperationKind::Write, Blocking)?;
        Ok(stay.make_collection(&made.path, &[])?)
    })
    .await
}

/// The new path of a file or folder: a name in the same folder, or a path that begins at the datastore's root.
fn goal(place: &Place, to: &str) -> Result<StorePath, Trouble> {
    let parent = place.path.split().map(|(parent, _)| parent).unwrap_or_default();
    let begin = if to.starts_with('/') { StorePath::root() } else { parent };
    let joined = to.trim_matches('/').split('/').try_fold(begin, |path, name| path.join(name));
    joined.map_err(|why| said(format!("`{to}` cannot be the new name: {why}")))
}

async fn rename(click: &mut Click<'_>, place: &Place) -> Done {
    let goal = goal(place, click.field("to"))?;
    relocate(click, place, &[(place.path.clone(), goal.clone())]).await?;
    let after = Place { path: goal, ..place.clone() };
    Ok((after.url("files"), Told::Done("moved")))
}

/// Moves files and folders of one datastore.
async fn relocate(click: &Click<'_>, place: &Place, moves: &[(StorePath, StorePath)]) -> Result<(), Trouble> {
    let (visit, datastore, moves) = (click.visit.clone(), place.datastore.clone(), moves.to_vec());
    let cancel_on_drop = CancelOnDrop::default();
    let cancel = cancel_on_drop.token();
    let (house, end) = until(click);
    let failed = blocking_failure(visit.share(), move || {
        let mut stay = visit.enter(&datastore, OperationKind::Write, Blocking)?;
        let keep_going = move || !cancel.is_cancelled() && house.now().tick_millis < end;
        let placing = Placing { overwrite: false, is_deep: true, tokens: &[], keep_going: &keep_going };
        let mut failed = Vec::new();
        for (from, to) in &moves {
            failed.extend(stay.relocate(from, to, placing)?.failed);
        }
        Ok(failed)
    });
    all_done("moved", &failed.await?)
}

/// The URL of the page of the folder that contains a place. For the root of a datastore, the URL of the first page of the console.
fn above(place: &Place) -> String {
    place.parent().map_or_else(|| "/console/".to_owned(), |parent| parent.url("files"))
}

/// Deletes a file or folder for good, without the trash.
async fn erase(click: &mut Click<'_>, place: &Place) -> Done {
    let (visit, at) = (click.visit.clone(), place.clone());
    let cancel_on_drop = CancelOnDrop::default();
    let cancel = cancel_on_drop.token();
    let (house, end) = until(click);
    let failed = blocking_failure(visit.share(), move || {
        let mut stay = visit.enter(&at.datastore, OperationKind::Write, Blocking)?;
        let keep_going = move || !cancel.is_cancelled() && house.now().tick_millis < end;
        Ok(stay.delete(&at.path, &[], &keep_going)?)
    });
    all_done("deleted", &failed.await?)?;
    Ok((above(place), Told::Done("deleted")))
}

/// The result of a deletion of several files and folders.
#[derive(Default)]
struct Deleted {
    /// The names of the items in the trash, separated by dots.
    items: String,
    failed: Vec<FailedMember>,
    /// The refusal that ended the deletion.
    refused: Option<Refusal>,
}

/// Deletes files and folders of one datastore. If the datastore has a trash, the files and folders are moved to the trash. `to` is the URL of the
/// page that the browser opens after the deletion.
async fn discard(click: &Click<'_>, place: &Place, paths: &[StorePath], to: String) -> Done {
    let (visit, datastore, paths) = (click.visit.clone(), place.datastore.clone(), paths.to_vec());
    let cancel_on_drop = CancelOnDrop::default();
    let cancel = cancel_on_drop.token();
    let (house, end) = until(click);
    let deleted = blocking_failure(visit.share(), move || {
        let mut stay = visit.enter(&datastore, OperationKind::Write, Blocking)?;
        let keep_going = move || !cancel.is_cancelled() && house.now().tick_millis < end;
        let mut deleted = Deleted::default();
        for path in &paths {
            match stay.discard(path, &keep_going) {
                Ok(Discarded::Trashed(id)) => {
                    if !deleted.items.is_empty() {
                        deleted.items.push('.');
                    }
                    deleted.items.push_str(&id.name());
                }
                Ok(Discarded::Deleted(failed)) => deleted.failed.extend(failed),
                Err(why) => {
                    deleted.refused = Some(why);
                    break;
                }
            }
        }
        Ok(deleted)
    });
    let Deleted { items, failed, refused } = deleted.await?;
    match refused {
        Some(why) if items.is_empty() => return Err(why.into()),
        Some(why) => {
            let why = sentence(&why.into(), Aim::Target);
            return Err(said(format!("{why} The entries that were deleted before are in the trash.")));
        }
        None => all_done("deleted", &failed)?,
    }
    Ok((to, if items.is_empty() { Told::Done("deleted") } else { Told::Trashed(items) }))
}

/// The entries of the folder that are selected.
fn picked(click: &Click<'_>, place: &Place) -> Result<Vec<StorePath>, Trouble> {
    let names = click.form.iter().filter(|(name, _)| name == "pick").map(|(_, value)| value);
    let paths: Result<Vec<_>, _> = names.map(|name| place.path.join(name)).collect();
    let paths = paths.map_err(|why| Failure::from(RequestError::Path(why)))?;
    match paths.len() {
        0 => Err(said("select at least one file or folder first")),
        1..=PICKED_MAX => Ok(paths),
        _ => Err(said(format!("select at most {PICKED_MAX} files and folders"))),
    }
}

async fn move_picked(click: &mut Click<'_>, place: &Place) -> Done {
    let paths = picked(click, place)?;
    let to = parameter(&click.form, "to").unwrap_or_default().trim().to_owned();
    if to.is_empty() {
        return Err(said("enter the folder to which the selected entries are moved"));
    }
    // A path that does not begin with a slash is relative to this folder.
    let inside = Place { path: place.path.join("x").unwrap_or_default(), ..place.clone() };
    let folder = if to == "/" { StorePath::root() } else { goal(&inside, &to)? };
    let moves: Result<Vec<_>, _> =
        paths.into_iter().map(|from| Ok((from.clone(), folder.join(from.name())?))).collect();
    let moves = moves.map_err(|why| Failure::from(RequestError::Path(why)))?;
    relocate(click, place, &moves).await?;
    Ok((place.url("files"), Told::Done("moved")))
}

async fn delete_picked(click: &mut Click<'_>, place: &Place) -> Done {
    let paths = picked(click, place)?;
    discard(click, place, &paths, place.url("files")).await
}
