//! Finds files and folders by a text in their names. Upper and lower case count as equal. The search reads the folders that the user may list, the
//! nearest folders first. The search ends at a limit of entries, results or time.

use super::crumbs;
use super::row::Row;
use super::walk::Walk;
use crate::click::Click;
use crate::icons::Icon;
use crate::page::{bytes, command, empty, time};
use crate::place::Place;
use crate::section::Section;
use enfilade_faces::{Answer, CancelOnDrop, CancelToken, Failure, blocking};
use enfilade_facts::vocabulary::{OperationKind, StorePath};
use enfilade_passage::{Blocking, Refusal, Visit};
use maud::{Markup, html};

/// The maximum number of entries that a search examines.
const ENTRIES_MAX: usize = 50_000;
/// The maximum time of a search, in milliseconds.
const MILLIS_MAX: u64 = 3_000;
/// The maximum number of results.
const FOUND_MAX: usize = 100;

/// The form of a search in a folder.
pub(super) fn form(place: &Place, text: &str) -> Markup {
    html! {
        form.bar role="search" action=(place.url("search")) {
            input type="search" name="q" value=(text) placeholder={ "Search in " (place.name()) } aria-label="Search by name" required;
            button { (Icon::Search.show()) "Search" }
        }
    }
}

struct Found {
    rows: Vec<(StorePath, Row)>,
    /// Whether the search ended at a limit, or left out folders.
    is_cut: bool,
}

pub(crate) async fn show(click: &mut Click<'_>, place: Place) -> Result<Answer, Failure> {
    let text = click.asked("q").to_owned();
    click.trace.event.datastore = place.datastore.to_string();
    let (visit, at, wanted) = (click.visit.clone(), place.clone(), text.to_lowercase());
    let cancel_on_drop = CancelOnDrop::default();
    let cancel = cancel_on_drop.token();
    let turn = visit.share().page().await;
    let found = blocking(visit.share(), move || {
        let _turn = turn;
        search(visit, &at, &wanted, &cancel)
    });
    let found = found.await?;
    let content = content(click, &place, &text, &found);
    Ok(click.page(Section::Files, "Search", &content))
}

fn search(visit: Visit, place: &Place, wanted: &str, cancel: &CancelToken) -> Result<Found, Refusal> {
    let stay = visit.enter(&place.datastore, OperationKind::Read, Blocking)?;
    let mut walk = Walk::begin(stay.list(place.path.clone())?, place.path.clone());
    let (began, mut rows, mut looked_at) = (walk.tick_millis(), Vec::new(), 0);
    while let Some(members) = walk.next()? {
        looked_at += members.len();
        for (path, entry) in members {
            if entry.name.to_lowercase().contains(wanted) {
                rows.push((path, Row::of(&entry)));
            }
        }
        let is_late = walk.tick_millis().saturating_sub(began) >= MILLIS_MAX;
        if is_late || looked_at >= ENTRIES_MAX || rows.len() > FOUND_MAX || cancel.is_cancelled() {
            rows.truncate(FOUND_MAX);
            return Ok(Found { rows, is_cut: true });
        }
    }
    Ok(Found { rows, is_cut: walk.is_cut })
}

fn content(click: &Click<'_>, place: &Place, text: &str, found: &Found) -> Markup {
    let at = |path: &StorePath, is_folder| Place { path: path.clone(), is_folder, ..place.clone() };
    html! {
        (crumbs(place))
        div.head { div { h1 { "Search in " (place.name()) } } }
        (form(place, text))
        @if found.is_cut {
            p.note.warn { "The search stopped before it had looked at everything, because it took too long or found too much. Search in a folder further below, or for a longer text." }
        }
        div.card {
            @if found.rows.is_empty() {
                (empty(Icon::Search, "Nothing found", &html! { "No name that was looked at contains this text." }))
            } @else {
                table {
                    thead { tr { th scope="col" { "Name" } th.number scope="col" { "Size" } th.wide scope="col" { "Changed" } } }
                    tbody {
                        @for (path, row) in &found.rows {
                            tr {
                                td {
                                    a.entry.folder[row.is_folder] href=(at(path, row.is_folder).url("files")) {
                                        (if row.is_folder { Icon::Folder } else { Icon::File }.show())
                                        span { (path.as_str()) }
                                    }
                                }
                                td.number { @if !row.is_folder { (bytes(row.bytes)) } }
                                td.wide { (time(row.modified)) }
                            }
                        }
                    }
                }
            }
        }
        (command(&[place.curl(&click.user().to_string(), "--request PROPFIND --header 'Depth: infinity'")]))
    }
}
