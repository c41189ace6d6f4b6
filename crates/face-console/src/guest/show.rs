//! The pages of a shared file, a shared folder and a drop box.

use super::{Guest, page};
use crate::files::row::Row;
use crate::icons::Icon;
use crate::page::{bytes, empty, time};
use crate::place::Place;
use enfilade_faces::browser::{parameter, url};
use enfilade_faces::{Answer, Failure, RequestError, blocking};
use enfilade_facts::vocabulary::{AccessMask, OperationKind};
use enfilade_passage::{Blocking, Meta, NodeKind, Rank, Refusal, Visit};
use maud::{Markup, html};

/// The number of entries on a page.
const ROWS: usize = 100;

/// The object at the place of a request.
enum Shown {
    File(Meta),
    Folder {
        rows: Vec<Row>,
        /// The last entry of this page, if further entries follow.
        last: Option<Rank>,
    },
}

fn read(visit: Visit, place: &Place, after: Option<Rank>) -> Result<Shown, Refusal> {
    let mut stay = visit.enter(&place.datastore, OperationKind::Read, Blocking)?;
    let found = stay.find(&place.path, AccessMask::READ_DATA, Blocking)?;
    if found.kind() == NodeKind::File {
        return Ok(Shown::File(found.node.meta().clone()));
    }
    let (entries, last) = stay.list_found(place.path.clone(), found)?.in_order(ROWS, after)?;
    Ok(Shown::Folder { rows: entries.iter().map(Row::of).collect(), last })
}

/// The entry after which a page of a folder begins.
fn after(guest: &Guest<'_>) -> Option<Rank> {
    let (kind, name) = parameter(&guest.query, "after")?.split_once(':')?;
    match kind {
        "folder" => Some(Rank::of(NodeKind::Directory, name)),
        "file" => Some(Rank::of(NodeKind::File, name)),
        _ => None,
    }
}

/// The page of a shared file or folder.
pub(super) async fn show(guest: &Guest<'_>) -> Result<Answer, Failure> {
    let (visit, place, after) = (guest.visit.clone(), guest.place.clone(), after(guest));
    let turn = visit.share().page().await;
    let shown = blocking(visit.share(), move || {
        let _turn = turn;
        read(visit, &place, after)
    });
    Ok(match shown.await? {
        Shown::File(meta) => page::page(guest.place.name(), &file(guest, &meta)),
        Shown::Folder { rows, last } => page::page(guest.place.name(), &folder(guest, &rows, last.as_ref())),
    })
}

fn file(guest: &Guest<'_>, meta: &Meta) -> Markup {
    let download = format!("{}?get", guest.url(&guest.place.path, false));
    html! {
        (crumbs(guest))
        div.head {
            div { h1 { (guest.place.name()) } p { (bytes(meta.bytes)) ", changed " (time(meta.modified.0)) } }
            a.button.main href=(download) download { (Icon::Download.show()) "Download" }
        }
    }
}

fn folder(guest: &Guest<'_>, rows: &[Row], last: Option<&Rank>) -> Markup {
    let here = guest.url(&guest.place.path, true);
    let next = last.map(|last| {
        let kind = if last.kind() == NodeKind::File { "file" } else { "folder" };
        url(&here, &[("after", &format!("{kind}:{}", last.name()))])
    });
    html! {
        (crumbs(guest))
        div.head {
            div { h1 { (guest.place.name()) } }
            @if !rows.is_empty() {
                a.button.main href={ (here) "?zip" } download { (Icon::Archive.show()) "Download all as zip" }
            }
        }
        div.card {
            @if rows.is_empty() {
                (empty(Icon::Folder, "Nothing to show", &html! { "This folder is empty." }))
            } @else {
                table {
                    thead { tr { th scope="col" { "Name" } th.number scope="col" { "Size" } th.wide scope="col" { "Changed" } } }
                    tbody { @for row in rows { (line(guest, row)) } }
                }
            }
            @if let Some(next) = next {
                nav.pages aria-label="Pages" { span {} a rel="next" href=(next) { "Next page" } }
            }
        }
    }
}

fn line(guest: &Guest<'_>, row: &Row) -> Markup {
    // If the path of an entry is too long, the entry cannot be opened. So its link is empty.
    let href =
        guest.place.path.join(&row.name).map(|path| guest.url(&path, row.is_folder)).unwrap_or_default();
    let (class, icon) = if row.is_folder { ("entry folder", Icon::Folder) } else { ("entry", Icon::File) };
    html! {
        tr {
            td { a class=(class) href=(href) { (icon.show()) span { (row.name) } } }
            td.number { @if !row.is_folder { (bytes(row.bytes)) } }
            td.wide { (time(row.modified)) }
        }
    }
}

/// The folders between the shared folder and the place of the request.
fn crumbs(guest: &Guest<'_>) -> Markup {
    let mut above = vec![guest.place.clone()];
    while let Some(parent) = above.last().filter(|last| last.path != guest.link.path).and_then(Place::parent)
    {
        above.push(parent);
    }
    above.reverse();
    html! {
        @if above.len() > 1 {
            nav aria-label="Folders" {
                ol.crumbs {
                    @for one in &above {
                        @if *one == guest.place {
                            li aria-current="page" { (one.name()) }
                        } @else {
                            li { a href=(guest.url(&one.path, true)) { (one.name()) } }
                        }
                    }
                }
            }
        }
    }
}

/// The page of a drop box. It shows nothing of the folder except its name.
pub(super) async fn drop_box(guest: &Guest<'_>) -> Result<Answer, Failure> {
    let (visit, place) = (guest.visit.clone(), guest.place.clone());
    if place.path != guest.link.path {
        return Err(RequestError::NoRoute.into());
    }
    blocking(visit.share(), move || {
        visit.enter(&place.datastore, OperationKind::Write, Blocking)?.may_add_files(&place.path)
    })
    .await?;
    let content = html! {
        div.head {
            div {
                h1 { (guest.place.name()) }
                p { "Files that you upload here reach the person who sent you the link. You cannot see or change them afterwards." }
                @if let Some(most) = guest.link.upload_bytes { p { "A file can have up to " (bytes(most)) "." } }
            }
            label.button.main for="drop" { (Icon::Upload.show()) "Upload files" }
            input.hide-text #drop type="file" multiple data-to=(guest.url(&guest.link.path, true));
        }
        div.card {
            ul.uploads #uploads aria-live="polite" hidden {}
            (empty(Icon::Upload, "Drop files here", &html! { "Or press " strong { "Upload files" } "." }))
        }
    };
    Ok(page::page(guest.place.name(), &content))
}
