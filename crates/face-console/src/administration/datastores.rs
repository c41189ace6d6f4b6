//! Datastores: their usage, their maintenance modes, and the running operations.

use crate::click::{Click, Trouble, said};
use crate::icons::Icon;
use crate::page::{bytes, command, csrf_field, empty};
use crate::section::Section;
use enfilade_admin::{DatastoreEdit, DatastoreSummary};
use enfilade_faces::browser::{failure_of_change, url};
use enfilade_faces::{Answer, Failure, RequestError, blocking_failure};
use enfilade_facts::vocabulary::{DatastoreName, Privileges};
use enfilade_passage::{AdminPermit, Lending, Usage};
use maud::{Markup, html};

/// The maintenance modes that the form offers.
const MODES: [(&str, &str); 3] =
    [("none", "in use"), ("read-only", "read only"), ("offline", "closed for everybody")];

/// The maximum number of datastores on a page. The number is small, because the server asks the file system of each datastore.
const ROWS: usize = 20;
/// The maximum number of datastores about which a page asks door 4.
const EXAMINED_MAX: usize = 1_000;

/// A datastore, and its state.
struct Row {
    summary: DatastoreSummary,
    usage: Result<Usage, String>,
    readers: u64,
    writers: u64,
}

fn path(name: &DatastoreName) -> String {
    format!("/datastore/{name}")
}

pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    let faces = click.faces.clone();
    let all = blocking_failure(click.visit.share(), move || {
        enfilade_admin::list_datastores(faces.house().source()).map_err(failure_of_change)
    });
    let (seen, next) = page_of(click, all.await?);
    let faces = click.faces.clone();
    let rows = blocking_failure(click.visit.share(), move || {
        let house = faces.house();
        let row = |(summary, permit): (DatastoreSummary, AdminPermit)| {
            let usage = house.usage(&permit, &summary.name).map_err(|why| why.to_string());
            let active = house.active(&permit, &summary.name).unwrap_or_default();
            let readers = active.iter().map(|(_, active)| active.readers).sum();
            let writers = active.iter().map(|(_, active)| active.writers).sum();
            Row { summary, usage, readers, writers }
        };
        Ok(seen.into_iter().map(row).collect::<Vec<_>>())
    });
    let rows = rows.await?;
    let content = html! {
        div.head { div { h1 { "Datastores" } p { "Usage, maintenance, and what runs in them now." } } }
        @if rows.is_empty() {
            div.card { (empty(Icon::Store, "No datastore", &html! { "This page has no datastore with a state that you may see." })) }
        }
        @for row in &rows { (card(click, row)) }
        @if let Some(next) = next {
            nav.pages aria-label="Pages" { span {} a rel="next" href=(url("", &[("after", next.as_str())])) { "Next page" } }
        }
        (command(&[
            "enfilade datastore list".to_owned(),
            "enfilade datastore operations".to_owned(),
            "enfilade datastore create NAME --path PATH".to_owned(),
        ]))
    };
    Ok(click.page(Section::Datastores, "Datastores", &content))
}

/// The datastores of the page that the query names. Each datastore comes with the permit to read its state. Also returns the name after which the
/// next page begins.
fn page_of(
    click: &mut Click<'_>,
    all: Vec<DatastoreSummary>,
) -> (Vec<(DatastoreSummary, AdminPermit)>, Option<DatastoreName>) {
    let after = click.asked("after").to_owned();
    let rest = all.into_iter().filter(|summary| summary.name.as_str() > after.as_str());
    let (mut seen, mut last) = (Vec::new(), None);
    for (examined, summary) in rest.enumerate() {
        if seen.len() >= ROWS || examined >= EXAMINED_MAX {
            return (seen, last);
        }
        last = Some(summary.name.clone());
        let permit = click.permit(&path(&summary.name), Privileges::DATASTORE_AUDIT, Lending::Reads, None);
        seen.extend(permit.ok().map(|permit| (summary, permit)));
    }
    (seen, None)
}

fn card(click: &Click<'_>, Row { summary, usage, readers, writers }: &Row) -> Markup {
    let DatastoreSummary { name, path, maintenance, fault, comment, home } = summary;
    let mode = maintenance.as_deref().unwrap_or("none");
    let mode = mode.strip_prefix("type=").unwrap_or(mode).split(',').next().unwrap_or(mode);
    html! {
        section.card.pad {
            div.head {
                div { h2 { (name) } @if let Some(comment) = comment { p { (comment) } } }
                div.bar {
                    @match maintenance { None => span.badge.good { "in use" }, Some(mode) => span.badge.warn { (mode) } }
                    a.button href={ "/console/files/" (name) "/" } { "Open" }
                }
            }
            @if let Some(fault) = fault { p.note.bad { (fault) } }
            @match usage {
                Ok(Usage { total, used, available }) => {
                    meter min="0" max="100" value=(u128::from(*used) * 100 / u128::from((*total).max(1))) aria-label="Used space" {}
                    p.weak.small { (bytes(*used)) " of " (bytes(*total)) " used, " (bytes(*available)) " free" }
                },
                Err(why) => p.note.warn { (why) },
            }
            dl.pair {
                dt { "Content in" } dd { code { (path) } }
                @if let Some(home) = home { dt { "Served by" } dd { (home) } }
                dt { "Active operations" } dd { (readers) " reading, " (writers) " writing" }
            }
            form.row method="post" action="/console/datastores/maintenance" {
                (csrf_field(&click.csrf))
                input type="hidden" name="name" value=(name);
                div.field {
                    label for={ "mode-" (name) } { "Maintenance" }
                    select id={ "mode-" (name) } name="mode" {
                        @for (one, label) in MODES { option value=(one) selected[one == mode] { (label) } }
                    }
                }
                button { "Set" }
            }
            (command(&[format!("enfilade datastore maintenance {name} MODE"), format!("enfilade datastore show {name}")]))
        }
    }
}

/// Does the action that a form requests. Returns the URL of the page that follows.
pub(crate) async fn act(click: &mut Click<'_>, action: &str) -> Result<String, Trouble> {
    let name: DatastoreName = click.parsed("name")?;
    let permit = click.permit(&path(&name), Privileges::DATASTORE_MODIFY, Lending::Manages, None)?;
    if action != "maintenance" {
        return Err(Failure::from(RequestError::NoRoute).into());
    }
    let mode = match click.field("mode") {
        "none" => None,
        mode if MODES.iter().any(|(known, _)| *known == mode) => Some(format!("type={mode}")),
        _ => return Err(said("choose a mode")),
    };
    let edit = DatastoreEdit::Set(vec![("maintenance-mode".to_owned(), mode)]);
    click.change(permit, move |ctx| enfilade_admin::edit_datastore(ctx, &name, &edit)).await?;
    Ok("/console/datastores?done=changed".to_owned())
}
