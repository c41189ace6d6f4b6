//! The page with the state of this server, as far as the running process knows the state. The command `enfilade doctor` also checks files and
//! certificates.

use super::may_see;
use super::plot::{Figure, plot};
use crate::click::Click;
use crate::icons::Icon;
use crate::page::{bytes, command};
use crate::section::Section;
use enfilade_faces::{Answer, Faces, Failure, blocking_failure};
use enfilade_facts::{MirrorHealth, Read as _};
use maud::html;

/// The main figures.
const FIGURES: [Figure; 6] = [
    Figure { label: "Requests in a minute", of: |minute| minute.requests, shown: |count| count.to_string() },
    Figure { label: "Refused in a minute", of: |minute| minute.refused, shown: |count| count.to_string() },
    Figure { label: "Answers 5xx in a minute", of: |minute| minute.failed, shown: |count| count.to_string() },
    Figure { label: "Open connections", of: |minute| minute.connections, shown: |count| count.to_string() },
    Figure { label: "Memory", of: |minute| minute.resident_bytes, shown: bytes },
    Figure { label: "Processor time in a minute", of: |minute| minute.cpu_millis, shown: seconds },
];

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1_000, millis % 1_000 / 100)
}

/// The result of one check.
struct Check {
    what: &'static str,
    is_good: bool,
    says: String,
}

/// The results of the checks that need only the state in the running process.
fn checks(faces: &Faces) -> Vec<Check> {
    let (house, metrics) = (faces.house(), faces.metrics());
    let facts = house.source().read(|view| view.head().map(|head| head.revision.0));
    let facts = facts.map_err(|why| why.to_string()).and_then(|head| head.map_err(|why| why.to_string()));
    let mirror = house.now().mirror;
    let closed: Vec<String> = house
        .datastores()
        .into_iter()
        .filter(|store| store.maintenance.is_some() || store.is_mounted == Some(false))
        .map(|store| store.name.to_string())
        .collect();
    let (gate, penalties, not_shown) =
        (house.gate().counts(), house.penalties().counts(), house.names_not_shown());
    vec![
        Check {
            what: "Facts",
            is_good: facts.is_ok(),
            says: facts.map_or_else(|why| why, |revision| format!("revision {revision}")),
        },
        Check {
            what: "Files that people edit",
            is_good: mirror == MirrorHealth::Current,
            says: match mirror {
                MirrorHealth::Current => "read within the stale limit".to_owned(),
                _ => "not read for longer than the stale limit, so the server does not use the users, roles and datastores in these files; the log of the server says why".to_owned(),
            },
        },
        Check {
            what: "Requests",
            is_good: !metrics.is_draining(),
            says: if metrics.is_draining() {
                "the server stops".to_owned()
            } else {
                "the server takes requests".to_owned()
            },
        },
        Check {
            what: "Datastores",
            is_good: closed.is_empty(),
            says: match closed.is_empty() {
                true => "all are open".to_owned(),
                false => format!("in maintenance mode, or not mounted: {}", closed.join(", ")),
            },
        },
        Check {
            what: "Password hashes",
            is_good: gate.turned_away == 0,
            says: format!(
                "since the start, {} were computed, and {} requests were refused (the queue was full, the wait was too long, or the computation failed)",
                gate.computed, gate.turned_away
            ),
        },
        Check {
            what: "Failed logins",
            is_good: penalties.barred == 0,
            says: format!(
                "{} since the start; also, {} attempts from blocked addresses were refused",
                penalties.failed, penalties.barred
            ),
        },
        Check {
            what: "Names of files",
            is_good: not_shown == 0,
            says: match not_shown {
                0 => "every name that was read can be part of a URL".to_owned(),
                some => {
                    format!("files with names that cannot be in a URL were left out of listings ({some} times since the start); `enfilade doctor` shows an example: rename these files")
                }
            },
        },
    ]
}

pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    may_see(click, "/system/status")?;
    let faces = click.faces.clone();
    let checks = blocking_failure(click.visit.share(), move || Ok(checks(&faces)));
    let checks = checks.await?;
    let minutes = click.faces.metrics().history();
    let content = html! {
        div.head { div { h1 { "Health" } p { "What this process knows about itself." } } }
        div.card {
            table {
                tbody {
                    @for Check { what, is_good, says } in &checks {
                        tr {
                            th scope="row" { (what) }
                            td {
                                @if *is_good { span.badge.good { (Icon::Right.show()) "good" } }
                                @else { span.badge.warn { (Icon::Wrong.show()) "look" } }
                            }
                            td { (says) }
                        }
                    }
                }
            }
        }
        h2 { "The last three hours" }
        @if minutes.is_empty() { p.weak { "The plots appear when the server has run for a minute." } } @else {
            div.plots { @for figure in &FIGURES { (plot(figure, &minutes)) } }
        }
        (command(&["enfilade doctor".to_owned()]))
    };
    Ok(click.page(Section::Health, "Health", &content))
}
