//! The page "Who can read this?". It shows the persons who may read a file or list a folder, and examines at most [`PEOPLE_MAX`] persons. A CSV file
//! contains all rights of all persons that can log in, on the file or folder and on everything below it. To get the page or the CSV file, the user
//! needs the permits of [`may_ask_about_others`]. The script of the page can compare an earlier CSV file with the present CSV file. This comparison
//! runs in the browser, so the server does not read the earlier file.

use crate::click::Click;
use crate::explain::{may_ask_about_others, may_review};
use crate::failure;
use crate::files::content::head;
use crate::icons::Icon;
use crate::page::{command, empty};
use crate::place::Place;
use crate::section::Section;
use bytes::Bytes;
use enfilade_faces::browser::failure_of_change;
use enfilade_faces::{Answer, Body, Cut, Faces, Failure, blocking_failure};
use enfilade_facts::vocabulary::{AccessMask, Authid, DatastoreName, csv_field, shell_word};
use enfilade_passage::{NodeKind, Reviewed, Visit};
use maud::html;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::sync::mpsc;

/// The maximum number of people that the page examines.
const PEOPLE_MAX: usize = 1_000;
/// The size of a piece of the CSV, in bytes.
const PIECE_BYTES: usize = 64 * 1024;
/// The interval at which the doors are asked again while the client is slow.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Every enabled user with an account that has not expired. The number of users can be very large, so this function does not check the other
/// conditions of a login.
fn everybody(faces: &Faces) -> Result<Vec<Authid>, Failure> {
    let now = faces.house().now().unix_seconds;
    let users = enfilade_admin::list_users(faces.house().source()).map_err(failure_of_change)?;
    let may_come = users.into_iter().filter(|user| user.enabled && (user.expires == 0 || now < user.expires));
    Ok(may_come.filter_map(|user| user.userid.parse().ok()).collect())
}

/// A person who may read the object, and the last step of the explanation (the column "Decided by").
struct Reader {
    who: Authid,
    by: String,
}

/// Shows the page.
pub(crate) async fn show(click: &mut Click<'_>, place: Place) -> Result<Answer, Failure> {
    may_ask_about_others(click, &place.datastore)?;
    let (faces, at) = (click.faces.clone(), place.clone());
    let found = blocking_failure(click.visit.share(), move || {
        let mut people = everybody(&faces)?;
        let is_cut = people.len() > PEOPLE_MAX;
        people.truncate(PEOPLE_MAX);
        let asked = people.len();
        let reads = |who: Authid| {
            let explained = faces.house().explain(&who, None, &at.datastore, &at.path, AccessMask::READ_DATA);
            let by = explained.doors.iter().rev().find_map(|door| door.walk.last()).cloned();
            explained.permits().then(|| Reader { who, by: by.unwrap_or_default() })
        };
        Ok((people.into_iter().filter_map(reads).collect::<Vec<_>>(), asked, is_cut))
    });
    let (readers, asked, is_cut) = found.await?;
    let content = html! {
        (crate::files::crumbs(&place))
        div.head {
            div { h1 { "Who can read " (place.name()) "?" } p { (readers.len()) " of " (asked) " people." } }
            div.bar {
                a.button href=(place.url("review-csv")) download { (Icon::Download.show()) "Everything below, as CSV" }
            }
        }
        @if is_cut { p.note.warn { "Not all people are shown here. The CSV file contains all of them." } }
        div.card {
            @if readers.is_empty() {
                (empty(Icon::User, "Nobody", &html! { "Nobody who can log in has the right to read it." }))
            } @else {
                table {
                    thead { tr { th scope="col" { "Person" } th scope="col" { "Decided by" } } }
                    tbody { @for Reader { who, by } in &readers { tr { td { (who.to_string()) } td.mono { (by) } } } }
                }
            }
        }
        div.card.pad #compare hidden data-now=(place.url("review-csv")) data-path=(place.path.to_string()) {
            h2 { "What changed since then?" }
            p { "Choose the CSV file that you downloaded here earlier. The browser compares it with the present rights." }
            label for="earlier" { "Earlier CSV file" }
            input #earlier type="file" accept=".csv,text/csv";
            p role="status" {}
            table hidden {
                thead { tr { th scope="col" { "Person" } th scope="col" { "Path" } th scope="col" { "Then" } th scope="col" { "Now" } } }
                tbody {}
            }
        }
        (command(&[format!(
            "enfilade acl review {} {}",
            place.datastore,
            shell_word(&place.path.to_string())
        )]))
    };
    Ok(click.page(Section::Files, "Who can read this?", &content))
}

/// Sends the rights of all persons that can log in, on a place and on everything below it, as fast as the client reads.
pub(crate) async fn send(click: Click<'_>, place: Place) -> Answer {
    let mut click = click;
    click.trace.event.datastore = place.datastore.to_string();
    if let Err(failure) = may_ask_about_others(&mut click, &place.datastore) {
        return failure::page(click, failure);
    }
    let turn = click.visit.share().page().await;
    let (sender, pieces) = mpsc::channel(1);
    let answer =
        head("text/csv; charset=utf-8", "attachment", &format!("{}.csv", place.name()), Body::stream(pieces));
    let Click { mut trace, faces, visit, .. } = click;
    trace.answered(&answer);
    let faces = faces.clone();
    tokio::spawn(async move {
        let work = blocking_failure(visit.share(), move || {
            let _turn = turn;
            let people = faces.house().who_can_log_in(everybody(&faces)?)?;
            let mut writing = Writing::begin(&people, &sender, (visit, place.datastore.clone()));
            let reviewed = faces
                .house()
                .review(&people, &place.datastore, &place.path, &mut |object| writing.write(object));
            if reviewed.is_err() || writing.send().is_break() {
                let _ = sender.blocking_send(Err(Cut));
            }
            Ok(reviewed?)
        });
        if let Err(failure) = work.await {
            trace.failed(&failure);
        }
    });
    answer
}

/// Lines that are being sent.
struct Writing<'s> {
    names: Vec<String>,
    lines: String,
    sender: &'s mpsc::Sender<Result<Bytes, Cut>>,
    visit: Visit,
    datastore: DatastoreName,
}

impl<'s> Writing<'s> {
    fn begin(
        people: &[Authid],
        sender: &'s mpsc::Sender<Result<Bytes, Cut>>,
        (visit, datastore): (Visit, DatastoreName),
    ) -> Self {
        let names = people.iter().map(|who| csv_field(&who.to_string())).collect();
        Writing { names, lines: "path,kind,who,rights\n".to_owned(), sender, visit, datastore }
    }

    /// Adds the lines about an object. Returns `Break` if the response must end.
    fn write(&mut self, object: &Reviewed<'_>) -> ControlFlow<()> {
        let path = csv_field(&object.path.to_string());
        let kind = if object.kind == NodeKind::File { "file" } else { "directory" };
        for (who, rights) in self.names.iter().zip(object.rights).filter(|(_, rights)| !rights.is_empty()) {
            let rights = csv_field(&rights.to_string());
            self.lines.push_str(&format!("{path},{kind},{who},{rights}\n"));
        }
        if self.lines.len() < PIECE_BYTES { ControlFlow::Continue(()) } else { self.send() }
    }

    /// Sends the lines. While the client is slow, this function asks the doors once a second whether the user is still permitted to see these rights.
    fn send(&mut self) -> ControlFlow<()> {
        let runtime = tokio::runtime::Handle::current();
        loop {
            if may_review(&mut self.visit, &self.datastore).is_err() {
                return ControlFlow::Break(());
            }
            match runtime.block_on(tokio::time::timeout(ASK_AGAIN, self.sender.reserve())) {
                Ok(Ok(place)) => {
                    place.send(Ok(std::mem::take(&mut self.lines).into()));
                    return ControlFlow::Continue(());
                }
                Ok(Err(_)) => return ControlFlow::Break(()),
                Err(_) => {}
            }
        }
    }
}
