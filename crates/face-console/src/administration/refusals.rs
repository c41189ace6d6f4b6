//! The page of refusals: how many requests each door refused, and the newest refusals. The page needs the privilege to read the log. But paths, and
//! reasons of refusals about a datastore, are shown only to users who administer the datastore, because a path can reveal a hidden file.

use super::may_see;
use crate::click::Click;
use crate::icons::Icon;
use crate::page::{command, empty, part, time};
use crate::section::Section;
use enfilade_faces::browser::url;
use enfilade_faces::{Answer, Failure, RecentRefusal, refusal_row};
use enfilade_facts::vocabulary::Privileges;
use enfilade_passage::Event;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// The number of refusals on a page.
const ROWS: usize = 50;
/// Rights for which the page "Explain" can say more, and the methods of WebDAV that need them.
const RIGHTS: [(&str, &[&str]); 5] = [
    ("read", &["GET", "HEAD"]),
    ("list", &["PROPFIND"]),
    ("write", &["PUT", "PROPPATCH", "LOCK"]),
    ("delete", &["DELETE", "MOVE"]),
    ("add-subdirectory", &["MKCOL"]),
];

pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    may_see(click, "/system/log")?;
    let counts = click.faces.metrics().refusal_counts();
    let (door, code) = (click.asked("door").to_owned(), click.asked("code").to_owned());
    let mut recent = click.faces.metrics().recent_refusals();
    recent.retain(|refusal| {
        (door.is_empty() || refusal.event.door == door) && (code.is_empty() || refusal.event.code == code)
    });
    let (rows, links) = part(&recent, ROWS, "page", click.asked("page"));
    let mut known = BTreeMap::new();
    let rows: Vec<Markup> = rows.iter().map(|refusal| row(click, &mut known, refusal)).collect();
    let content = html! {
        div.head { div { h1 { "Refusals" } p { "Requests that a door or a face refused since the server started, and the newest of them." } } }
        @if counts.is_empty() { div.card { (empty(Icon::Refusal, "No refusal", &html! { "No request was refused since the server started." })) } } @else {
            div.card.scroll tabindex="0" { (summary(&counts)) }
            @if !code.is_empty() || !door.is_empty() {
                p { "Only refusals of door " strong { (door) } " with code " strong { (code) } ". " a href="/console/refusals" { "Show all" } }
            }
            div.card.scroll tabindex="0" {
                table {
                    thead { tr {
                        th scope="col" { "Time" } th scope="col" { "Code" } th scope="col" { "Who" } th scope="col" { "Request" }
                        th scope="col" { "Reason" }
                    } }
                    tbody { @for row in &rows { (row) } }
                }
                (links)
            }
        }
        (command(&["enfilade reference refusals".to_owned()]))
    };
    Ok(click.page(Section::Refusals, "Refusals", &content))
}

/// The table of all codes that were returned.
fn summary(counts: &BTreeMap<(&'static str, &'static str), u64>) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Door" } th scope="col" { "Code" } th.number scope="col" { "Requests" } th scope="col" { "Meaning" }
                th scope="col" { "What to do" }
            } }
            tbody {
                @for ((door, code), count) in counts {
                    @let row = refusal_row(code);
                    tr {
                        td { (door) }
                        td { a href=(url("/console/refusals", &[("door", door), ("code", code)])) { (code) } }
                        td.number { (count) }
                        td { @if let Some(row) = row { (row.meaning) } }
                        td { @if let Some(row) = row { (row.action) } }
                    }
                }
            }
        }
    }
}

/// A row of the newest refusals. `known` contains the datastores of earlier rows, and whether the user administers them.
fn row(click: &mut Click<'_>, known: &mut BTreeMap<String, bool>, refusal: &RecentRefusal) -> Markup {
    let event = &refusal.event;
    let sees_path = match known.get(&event.datastore) {
        Some(sees) => *sees,
        None => {
            // Without a datastore, the path may be in any datastore.
            let path = match event.datastore.as_str() {
                "" => "/datastore".to_owned(),
                name => format!("/datastore/{name}"),
            };
            let sees = click.holds(&path, Privileges::DATASTORE_MODIFY);
            known.insert(event.datastore.clone(), sees);
            sees
        }
    };
    html! {
        tr {
            td { (time(refusal.unix_seconds)) }
            td.nowrap { (event.door) " " (event.code) " " span.weak { (event.status) } }
            td { @if event.authid.is_empty() { span.weak { (event.peer) } } @else { (event.authid) } }
            td { (event.face) " " (event.verb) " " (event.datastore) @if sees_path { code { (event.path) } } }
            td {
                @if sees_path || event.datastore.is_empty() { (event.reason) } @else { span.weak { "shown to administrators of the datastore" } }
                @if let Some(to) = explanation(event).filter(|_| sees_path) { " " a href=(to) { "Explain" } }
            }
        }
    }
}

/// The URL of the page that explains the refusal, if a known user wanted to do something with a file.
fn explanation(event: &Event) -> Option<String> {
    let (right, _) = RIGHTS.iter().find(|(_, methods)| methods.contains(&event.verb.as_str()))?;
    let is_about_file = !event.authid.is_empty() && !event.datastore.is_empty() && event.door != "face";
    let path = if event.path.is_empty() { "/" } else { &event.path };
    let fields =
        [("who", event.authid.as_str()), ("right", right), ("datastore", &event.datastore), ("path", path)];
    is_about_file.then(|| url("/console/explain", &fields))
}
