//! The page of a folder. By default its entries are sorted by name. In this order, the server reads all names of the folder, but examines only the
//! entries of the page. If the entries are sorted by size or time, the server examines all entries.

use super::row::Row;
use super::{crumbs, search};
use crate::click::Click;
use crate::icons::Icon;
use crate::links;
use crate::page::{bytes, command, csrf_field, empty, time};
use crate::place::Place;
use crate::section::Section;
use enfilade_faces::browser::url;
use enfilade_faces::percent::push_name;
use enfilade_faces::{Answer, Failure, blocking};
use enfilade_facts::vocabulary::{AccessMask, OperationKind};
use enfilade_passage::{Blocking, Listing, NodeKind, Rank, Refusal, Visit};
use maud::{Markup, html};

/// The number of entries on a page. Even a page of entries with long names is shorter than 100 kB.
const ROWS: usize = 100;
const BATCH_ENTRIES: usize = 1_024;

/// The order of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Name,
    Largest,
    Newest,
}

impl Order {
    fn of(text: &str) -> Self {
        match text {
            "size" => Order::Largest,
            "time" => Order::Newest,
            _ => Order::Name,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Order::Name => "name",
            Order::Largest => "size",
            Order::Newest => "time",
        }
    }
}

/// The entries that the request asks for.
struct Asked {
    order: Order,
    /// The position (kind and name of an entry) after which the page begins, if the order is by name.
    after: Option<Rank>,
    /// The number of the page, if the order is by size or time.
    page: usize,
}

impl Asked {
    fn of(click: &Click<'_>) -> Self {
        let after = click.asked("after").split_once(':');
        let after = after.and_then(|(kind, name)| match kind {
            "folder" => Some(Rank::of(NodeKind::Directory, name)),
            "file" => Some(Rank::of(NodeKind::File, name)),
            _ => None,
        });
        Asked { order: Order::of(click.asked("sort")), after, page: click.asked("page").parse().unwrap_or(0) }
    }
}

/// The content of the page.
struct Folder {
    rows: Vec<Row>,
    /// The query in the URL of the next page; `None` if there is no next page.
    next: Option<String>,
    /// The user's rights on the folder. `None` if the user has no role on the folder itself, but has a role on a file or
    /// folder below it.
    rights: Option<AccessMask>,
    /// Whether the folder has more entries than a listing shows.
    is_cut: bool,
    revision: u64,
}

pub(crate) async fn show(click: &mut Click<'_>, place: Place) -> Result<Answer, Failure> {
    let asked = Asked::of(click);
    let order = asked.order;
    let (visit, at) = (click.visit.clone(), place.clone());
    let most = usize::try_from(visit.limits().listing_entries).unwrap_or(usize::MAX);
    let turn = visit.share().page().await;
    let folder = blocking(visit.share(), move || {
        let _turn = turn;
        read(visit, &at, &asked, most)
    });
    let folder = folder.await?;
    click.trace.event.revision = folder.revision;
    let content = content(click, &place, &folder, order);
    Ok(click.page(Section::Files, place.name(), &content))
}

fn read(visit: Visit, place: &Place, asked: &Asked, most: usize) -> Result<Folder, Refusal> {
    let mut stay = visit.enter(&place.datastore, OperationKind::Read, Blocking)?;
    let (mut listing, rights) = match stay.find(&place.path, AccessMask::LIST, Blocking) {
        Ok(found) => {
            let rights = found.granted();
            (stay.list_found(place.path.clone(), found)?, Some(rights))
        }
        Err(why) => {
            stay.leads_on(&place.path, why, Blocking)?;
            (stay.list_ways(place.path.clone()), None)
        }
    };
    let (rows, next, is_cut) = match asked.order {
        Order::Name => {
            let (entries, last) = listing.in_order(ROWS, asked.after.clone())?;
            let next = last.map(|last| {
                let kind = if last.kind() == NodeKind::File { "file" } else { "folder" };
                url("", &[("after", &format!("{kind}:{}", last.name()))])
            });
            (entries.iter().map(Row::of).collect(), next, false)
        }
        order => sorted(&mut listing, (order, asked.page), most)?,
    };
    let is_cut = is_cut || listing.is_cut();
    Ok(Folder { rows, next, rights, is_cut, revision: listing.revision() })
}

/// One page of the entries of a folder, sorted by size or time. To make the page, this function reads and sorts all entries of the folder, but at
/// most `most` entries.
fn sorted(
    listing: &mut Listing,
    (order, page): (Order, usize),
    most: usize,
) -> Result<(Vec<Row>, Option<String>, bool), Refusal> {
    let mut rows: Vec<Row> = Vec::new();
    while rows.len() <= most
        && let Some(batch) = listing.next_batch(BATCH_ENTRIES)?
    {
        rows.extend(batch.iter().map(Row::of));
    }
    let is_cut = rows.len() > most;
    rows.truncate(most);
    match order {
        Order::Largest => rows.sort_by(|a, b| (b.bytes, &a.name).cmp(&(a.bytes, &b.name))),
        Order::Newest | Order::Name => rows.sort_by(|a, b| (b.modified, &a.name).cmp(&(a.modified, &b.name))),
    }
    let (begin, all) = (page.saturating_mul(ROWS).min(rows.len()), rows.len());
    let shown: Vec<Row> = rows.into_iter().skip(begin).take(ROWS).collect();
    let has_more = begin + shown.len() < all;
    let next = || url("", &[("sort", order.word()), ("page", &(page + 1).to_string())]);
    Ok((shown, has_more.then(next), is_cut))
}

fn content(click: &Click<'_>, place: &Place, folder: &Folder, order: Order) -> Markup {
    let may = |right| folder.rights.is_some_and(|rights| rights.covers(right));
    let (adds_files, adds_folders) = (may(AccessMask::ADD_FILE), may(AccessMask::ADD_SUBDIRECTORY));
    let is_first = click.query.iter().all(|(name, _)| ["sort", "done", "undo"].contains(&name.as_str()));
    let user = click.user().to_string();
    let has_trash = click.faces.house().has_trash(&place.datastore);
    html! {
        (crumbs(place))
        div.head {
            div { h1 { (place.name()) } }
            div.bar {
                @if adds_files {
                    label.button.main for="upload" { (Icon::Upload.show()) "Upload" }
                    input.hide-text #upload type="file" multiple data-upload=(place.url("files"));
                }
                @if adds_folders { (new_folder(click, place)) }
                a.button href=(place.url("zip")) download { (Icon::Archive.show()) "Download as zip" }
                @if folder.rights.is_some() { (links::form(click, place, adds_files)) }
                (more(click, place))
            }
        }
        (search::form(place, ""))
        @if folder.is_cut {
            p.note.warn { "Some entries of this folder are not shown, because there are too many. Sort by name to see all. If names are still missing, ask an administrator for a role on the whole folder." }
        }
        form.card method="post" {
            (csrf_field(&click.csrf))
            ul.uploads #uploads hidden aria-live="polite" {}
            @if folder.rows.is_empty() {
                (nothing(is_first, adds_files))
            } @else {
                (table(place, &folder.rows, order))
            }
            (foot(folder, is_first, order, (may(AccessMask::ADD_FILE) || may(AccessMask::DELETE_CHILD), has_trash)))
        }
        (command(&[
            place.curl(&user, "--request PROPFIND --header 'Depth: 1'"),
            place.curl(&user, "--upload-file FILE"),
        ]))
    }
}

fn nothing(is_first: bool, adds_files: bool) -> Markup {
    match (is_first, adds_files) {
        (false, _) => empty(Icon::Folder, "No more entries", &html! { "This was the last page." }),
        (true, true) => empty(
            Icon::Upload,
            "This folder is empty",
            &html! {
                "Drop files and folders here, or press " strong { "Upload" } "."
            },
        ),
        (true, false) => {
            empty(Icon::Folder, "This folder is empty", &html! { "Nothing in it is visible to you." })
        }
    }
}

fn new_folder(click: &Click<'_>, place: &Place) -> Markup {
    html! {
        details.more {
            summary.button { (Icon::Add.show()) "New folder" }
            div {
                form method="post" action=(place.url("files")) {
                    (csrf_field(&click.csrf))
                    label for="new-folder" { "Name of the new folder" }
                    input #new-folder name="name" required maxlength="255" autocomplete="off";
                    button.main name="do" value="new-folder" { "Create" }
                }
                (command(&[place.curl(&click.user().to_string(), "--request MKCOL") + "NAME/"]))
            }
        }
    }
}

/// The actions on the folder itself.
fn more(click: &Click<'_>, place: &Place) -> Markup {
    html! {
        details.more {
            summary.button aria-label="More for this folder" { (Icon::More.show()) }
            div {
                a href=(place.url("why")) { "What may I do here?" }
                a href=(place.url("review")) { "Who can read this?" }
                a href=(crate::trash::url_of(&place.datastore)) { "Trash" }
                @if !place.path.is_root() { (super::change::forms(click, place)) }
            }
        }
    }
}

/// The table of entries.
fn table(place: &Place, rows: &[Row], order: Order) -> Markup {
    let above = place.url("files");
    let heading = |label: &str, one: Order, class: &str| {
        html! {
            th scope="col" class=(class) aria-sort=[(one == order).then_some(match one {
                Order::Name => "ascending",
                Order::Largest | Order::Newest => "descending",
            })] {
                a href={ (above) "?sort=" (one.word()) } { (label) @if one == order { (if one == Order::Name { " ↑" } else { " ↓" }) } }
            }
        }
    };
    html! {
        // The pictures of the rows. The page contains each picture once.
        svg hidden { symbol #folder viewBox="0 0 24 24" { path d=(Icon::Folder.path()) {} } symbol #file viewBox="0 0 24 24" { path d=(Icon::File.path()) {} } }
        table {
            thead {
                tr {
                    th.pick scope="col" { span.hide-text { "Select" } }
                    (heading("Name", Order::Name, ""))
                    (heading("Size", Order::Largest, "number"))
                    (heading("Changed", Order::Newest, "wide"))
                }
            }
            tbody { @for row in rows { (line(row)) } }
        }
    }
}

fn line(row: &Row) -> Markup {
    let mut href = String::from("./");
    push_name(&mut href, &row.name);
    if row.is_folder {
        href.push('/');
    }
    let (class, picture) = if row.is_folder { ("entry folder", "#folder") } else { ("entry", "#file") };
    html! {
        tr {
            td.pick { input type="checkbox" name="pick" value=(row.name) aria-label=(row.name); }
            td { a class=(class) href=(href) { svg.icon aria-hidden="true" { use href=(picture) {} } span { (row.name) } } }
            td.number { @if !row.is_folder { (bytes(row.bytes)) } }
            td.wide { (time(row.modified)) }
        }
    }
}

fn foot(folder: &Folder, is_first: bool, order: Order, (may_change, has_trash): (bool, bool)) -> Markup {
    // Items in the trash can be restored. So the page asks for a confirmation only if the datastore has no trash.
    const ASK: &str = "Delete the selected files and folders, with everything in them?";
    let ask = (!has_trash).then_some(ASK);
    html! {
        @if may_change && !folder.rows.is_empty() {
            div.pages {
                div.bar {
                    input.slim name="to" placeholder="Folder, such as /old" aria-label="Folder to which the selected entries are moved" autocomplete="off";
                    button name="do" value="move" { "Move selected" }
                }
                button.danger name="do" value="delete" data-ask=[ask] { "Delete selected" }
            }
        }
        @if !is_first || folder.next.is_some() {
            nav.pages aria-label="Pages" {
                @if is_first { span {} } @else { a href={ "?sort=" (order.word()) } { "First page" } }
                @match &folder.next {
                    Some(next) => a rel="next" href=(next) { "Next page" },
                    None => span {},
                }
            }
        }
    }
}
