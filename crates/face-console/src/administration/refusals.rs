//! The page of refusals: how many requests each door refused, and the newest refusals. The page needs the privilege to read the log. But a path or a
//! reason can reveal a hidden file. The name in a failed login can be a password that was typed into the wrong field. So only users who can give
//! themselves every right see all texts. Other users see a path or a reason only if they administer the datastore.

use super::may_see;
use crate::click::Click;
use crate::icons::Icon;
use crate::page::{command, empty, pages, time};
use crate::section::Section;
use enfilade_faces::browser::url;
use enfilade_faces::{Answer, Failure, RecentRefusal, refusal_row};
use enfilade_facts::vocabulary::Privileges;
use enfilade_passage::Event;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// The number of refusals on a page.
const ROWS: usize = 50;
/// Rights that the page "Explain" can explain, and the methods of WebDAV that need them.
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
    let number: usize = click.asked("page").parse().unwrap_or(0);
    let first = number.saturating_mul(ROWS);
    let has_more = first.saturating_add(ROWS) < recent.len();
    let mut sight = Sight { all: click.holds("/", Privileges::PERMISSIONS_MODIFY), known: BTreeMap::new() };
    let shown = recent.iter().skip(first).take(ROWS);
    let rows: Vec<Markup> = shown.map(|refusal| row(click, &mut sight, refusal)).collect();
    let content = html! {
        div.head { div { h1 { "Refusals" } p { "Refused requests since the server started: their number for each door and code, and the newest requests. In the column of doors, face means that a request was refused outside the doors, for example because it was invalid." } } }
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
                (pages(&[("door", &door), ("code", &code)], "page", number, has_more))
            }
        }
        (command(&["enfilade reference refusals".to_owned()]))
    };
    Ok(click.page(Section::Refusals, "Refusals", &content))
}

/// The table of all codes of refusals that the server has returned. For each door and code, it contains the number of refused requests.
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

/// Decides which texts of a refusal the user is permitted to see.
struct Sight {
    /// Whether the user can give themselves every right: `Permissions.Modify` on `/`.
    all: bool,
    /// The datastores of earlier rows, and whether the user administers them.
    known: BTreeMap<String, bool>,
}

impl Sight {
    fn sees(&mut self, click: &mut Click<'_>, event: &Event) -> bool {
        if self.all || event.datastore.is_empty() {
            return self.all;
        }
        if let Some(sees) = self.known.get(&event.datastore) {
            return *sees;
        }
        let sees = click.holds(&format!("/datastore/{}", event.datastore), Privileges::DATASTORE_MODIFY);
        self.known.insert(event.datastore.clone(), sees);
        sees
    }
}

/// A row of the newest refusals.
fn row(click: &mut Click<'_>, sight: &mut Sight, refusal: &RecentRefusal) -> Markup {
    let event = &refusal.event;
    let sees = sight.sees(click, event);
    let has_name = !event.authid.is_empty() && (sight.all || !event.is_failed_login);
    html! {
        tr {
            td { (time(refusal.unix_seconds)) }
            td.nowrap { (event.door) " " (event.code) " " span.weak { (event.status) } }
            td { @if has_name { (event.authid) } @else { span.weak { (event.peer) } } }
            td { (event.face) " " (event.verb) " " (event.datastore) @if sees { " " code { (event.path) } } }
            td {
                @if sees { (event.reason) } @else if let Some(row) = refusal_row(event.code) { (row.meaning) }
                @if let Some(to) = explanation(event).filter(|_| sees) { " " a href=(to) { "Explain" } }
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
