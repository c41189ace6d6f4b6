//! The page of the change log. For each change, the page shows the author, the description and the time.

use super::may_see;
use crate::click::Click;
use crate::icons::Icon;
use crate::page::{command, empty, time};
use crate::section::Section;
use enfilade_faces::browser::url;
use enfilade_faces::{Answer, Failure, blocking_failure};
use enfilade_facts::tables::LogEntry;
use enfilade_facts::{Read as _, Revision, SourceError};
use maud::html;

/// The maximum number of entries on a page.
const SHOWN_MAX: usize = 100;
/// The maximum number of entries that are read for a page.
const READ_MAX: u64 = 5_000;

/// The entries of one page that match the filter, the newest first.
struct Log {
    entries: Vec<(u64, LogEntry)>,
    /// The value of `before` in the link to the next page. The next page contains only changes with earlier revisions. `None` if this is the last
    /// page.
    next: Option<u64>,
}

pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    may_see(click, "/system/log")?;
    let (faces, wanted) = (click.faces.clone(), click.asked("q").to_lowercase());
    let before: Option<u64> = click.asked("before").parse().ok();
    let read = blocking_failure(click.visit.share(), move || {
        let log = faces.house().source().read(|view| {
            let newest = view.head()?.revision.0;
            let from = before.map_or(newest, |before| before.saturating_sub(1).min(newest));
            let (mut entries, mut at) = (Vec::new(), from);
            while at > 0 && entries.len() < SHOWN_MAX && from - at < READ_MAX {
                if let Some(entry) = view.get::<LogEntry>(&Revision(at))?
                    && [&entry.who, &entry.what].iter().any(|text| text.to_lowercase().contains(&wanted))
                {
                    entries.push((at, entry));
                }
                at -= 1;
            }
            Ok::<_, SourceError>(Log { entries, next: (at > 0).then_some(at + 1) })
        });
        Ok(log??)
    });
    let Log { entries, next } = read.await?;
    let q = click.asked("q").to_owned();
    let content = html! {
        div.head { div { h1 { "Changes" } p { "Every change of users, roles, tokens, datastores and settings that the server stores." } } }
        form.bar role="search" {
            input type="search" name="q" value=(q) placeholder="Filter by person or action" aria-label="Filter";
            button { (Icon::Search.show()) "Filter" }
        }
        div.card.scroll tabindex="0" {
            @if entries.is_empty() { (empty(Icon::Log, "No change", &html! { "No change matches here." })) } @else {
                table {
                    thead { tr {
                        th.number scope="col" { "Revision" } th scope="col" { "Time" } th scope="col" { "Who" } th scope="col" { "What" }
                    } }
                    tbody {
                        @for (revision, entry) in &entries {
                            tr {
                                td.number { (revision) } td { (time(entry.unix_seconds)) } td { (entry.who) } td { (entry.what) }
                            }
                        }
                    }
                }
            }
            @if let Some(next) = next {
                nav.pages aria-label="Pages" { span {} a href=(url("", &[("q", &q), ("before", &next.to_string())])) { "Older" } }
            }
        }
        (command(&["enfilade facts log --last 100".to_owned()]))
    };
    Ok(click.page(Section::Changes, "Changes", &content))
}
