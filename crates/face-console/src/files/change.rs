//! The actions of the forms on the pages of files and folders: making a folder, renaming, moving and deleting.

use super::show;
use crate::click::{Click, Trouble, said};
use crate::failure::sentence;
use crate::page::{Notice, command, csrf_field};
use crate::place::Place;
use crate::session::has_ended;
use enfilade_faces::browser::{parameter, redirect, url};
use enfilade_faces::{Aim, Answer, CancelOnDrop, Failure, RequestError, blocking_failure};
use enfilade_facts::vocabulary::{OperationKind, StorePath, shell_word};
use enfilade_passage::{Blocking, FailedMember, House, Placing};
use maud::{Markup, html};
use std::sync::Arc;

/// The maximum number of entries that one form changes. A page shows the same number of entries.
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
            button.danger name="do" value="remove" data-ask={ "Delete " (place.name()) "?" } { "Delete" }
        }
        (command(&[
            place.curl(&user, &goal(&format!("/dav/{}/NEW/PATH", place.datastore))),
            place.curl(&user, "--request DELETE"),
        ]))
    }
}

/// Does the action that a form of the page of a place requests. If the action fails, the page shows the reason.
pub(crate) async fn submit(click: &mut Click<'_>, place: Place) -> Result<Answer, Failure> {
    click.trace.event.datastore = place.datastore.to_string();
    let done = match click.field("do") {
        "new-folder" => new_folder(click, &place).await,
        "rename" => rename(click, &place).await,
        "remove" => remove(click, &place).await,
        "move" => move_picked(click, &place).await,
        "delete" => delete_picked(click, &place).await,
        _ => Err(Trouble::Failed(RequestError::Parameter("`do`: there is no such action").into())),
    };
    match done {
        Ok((to, done)) => Ok(redirect(&url(&to, &[("done", done)]))),
        Err(Trouble::Failed(failure)) if has_ended(&failure) => Err(failure),
        Err(trouble) => {
            let why = match trouble {
                Trouble::Said(why) => why,
                Trouble::Failed(failure) => {
                    click.trace.failed(&failure);
                    let is_new = click.field("do") == "new-folder";
                    sentence(&failure, if is_new { Aim::Collection } else { Aim::Destination })
                }
            };
            click.notice = Some(Notice::Failed(why));
            show(click, place).await
        }
    }
}

/// The page that the browser opens next, and the key of its message.
type Done = Result<(String, &'static str), Trouble>;

async fn new_folder(click: &mut Click<'_>, place: &Place) -> Done {
    let name = click.field("name");
    let why_not = |why| said(format!("`{name}` cannot be the name of a folder: {why}"));
    let made = place.join(name, true).map_err(why_not)?;
    make(click, &made).await?;
    Ok((made.url("files"), "folder"))
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
    Ok((after.url("files"), "moved"))
}

/// The house, and the time at which the work of a form must end. A form may change several trees; the time limit for one tree applies to all these
/// trees together.
fn until(click: &Click<'_>) -> (Arc<House>, u64) {
    let house = Arc::clone(click.faces.arc_house());
    let end = house.now().tick_millis.saturating_add(click.visit.limits().tree_seconds.saturating_mul(1_000));
    (house, end)
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
    all_done(&failed.await?)
}

async fn remove(click: &mut Click<'_>, place: &Place) -> Done {
    delete(click, place, std::slice::from_ref(&place.path)).await?;
    let parent = place.parent().map_or_else(|| "/console/".to_owned(), |parent| parent.url("files"));
    Ok((parent, "deleted"))
}

async fn delete(click: &Click<'_>, place: &Place, paths: &[StorePath]) -> Result<(), Trouble> {
    let (visit, datastore, paths) = (click.visit.clone(), place.datastore.clone(), paths.to_vec());
    let cancel_on_drop = CancelOnDrop::default();
    let cancel = cancel_on_drop.token();
    let (house, end) = until(click);
    let failed = blocking_failure(visit.share(), move || {
        let mut stay = visit.enter(&datastore, OperationKind::Write, Blocking)?;
        let keep_going = move || !cancel.is_cancelled() && house.now().tick_millis < end;
        let mut failed = Vec::new();
        for path in &paths {
            failed.extend(stay.delete(path, &[], &keep_going)?);
        }
        Ok(failed)
    });
    all_done(&failed.await?)
}

/// The message for the user about members that were not moved or deleted.
fn all_done(failed: &[FailedMember]) -> Result<(), Trouble> {
    const NAMED_MAX: usize = 5;
    if failed.is_empty() {
        return Ok(());
    }
    let names: Vec<String> =
        failed.iter().take(NAMED_MAX).map(|member| format!("`{}`", member.path)).collect();
    let more = if failed.len() > NAMED_MAX { " and others" } else { "" };
    Err(said(format!(
        "{}{more} could not be changed. Look at the folder: other entries may have been changed.",
        names.join(", ")
    )))
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
    Ok((place.url("files"), "moved"))
}

async fn delete_picked(click: &mut Click<'_>, place: &Place) -> Done {
    let paths = picked(click, place)?;
    delete(click, place, &paths).await?;
    Ok((place.url("files"), "deleted"))
}
