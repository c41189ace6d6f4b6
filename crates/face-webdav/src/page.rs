//! A directory as an HTML page, for any browser. Listing and downloads work without a script, but changes need the script of the page. The browser
//! authenticates like every client. The page loads nothing from another origin, and cannot be shown in a frame.

use super::multistatus::{http_date, push_iso_date};
use super::xml::push_text;
use super::{Call, PREFIX, ResourcePath, end, href};
use bytes::Bytes;
use enfilade_faces::{Aim, Answer, Body, Cut, Trace, counted, percent};
use enfilade_faces::{blocking, blocking_failure};
use enfilade_facts::vocabulary::{AccessMask, OperationKind};
use enfilade_passage::{Blocking, Entry, Lack, NodeKind, Turn, Visit};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY,
    VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use std::fmt::Write as _;
use std::sync::Arc;
use tokio::sync::mpsc;

const BATCH_ENTRIES: usize = 1024;
/// The size of a piece of a page, in bytes.
const PIECE_BYTES: usize = 64 * 1024;
/// The maximum memory for the HTML of a page, in bytes. The entries of the directory are not included. At the same time, one piece is being sent, one
/// piece is in the queue, and one piece is being written.
const HELD_BYTES: u32 = 3 * 64 * 1024;
/// The number of rows in one part of the page. The browser lays out a part as a whole, and only if the part is visible. `page.js` contains the same
/// number.
const PART_ROWS: usize = 200;
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; \
    base-uri 'none'; frame-ancestors 'none'";
pub(crate) const STYLE: &str = include_str!("page/page.css");
pub(crate) const SCRIPT: &str = include_str!("page/page.js");

/// Redirects a browser to the URL with a slash at the end, because relative links need this slash.
pub(crate) fn moved(place: &ResourcePath) -> Answer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(to) = HeaderValue::from_str(&href::of(place, true)) {
        answer.headers_mut().insert(LOCATION, to);
    }
    answer
}

/// The page of a directory. All entries are read and sorted before the page is written. The page is written piece by piece, as fast as the client
/// reads.
pub(crate) async fn page(call: Call) -> Answer {
    let Call { visit, place, mut trace, .. } = call;
    let most = usize::try_from(visit.limits().listing_entries).unwrap_or(usize::MAX);
    let turn = visit.share().page().await;
    let held = Arc::new(visit.share().answer(HELD_BYTES).await);
    let listed = blocking_failure(visit.share(), move || {
        let mut stay = visit.enter(&place.datastore, OperationKind::Read, Blocking)?;
        let (mut listing, leads_on) = match stay.find(&place.path, AccessMask::LIST, Blocking) {
            Ok(found) => (stay.list_found(place.path.clone(), found)?, false),
            Err(why) => {
                stay.leads_on(&place.path, why, Blocking)?;
                (stay.list_ways(place.path.clone()), true)
            }
        };
        let mut rows = Rows { leads_on, ..Rows::default() };
        while rows.rows.len() <= most
            && let Some(batch) = listing.next_batch(BATCH_ENTRIES)?
        {
            batch.iter().for_each(|entry| rows.push(entry));
        }
        let mut rows = rows.sorted(most);
        rows.is_cut |= listing.is_cut();
        Ok((place, rows, listing.revision()))
    });
    let (place, rows, revision) = match listed.await {
        Ok(listed) => listed,
        Err(failure) => return end(trace, Err(failure), Aim::Target),
    };
    trace.event.revision = revision;
    let (sender, pieces) = mpsc::channel(1);
    let answer = answer(Body::stream(pieces), "text/html; charset=utf-8");
    trace.answered(&answer);
    tokio::spawn(write(Writing::of(&place, rows), sender, trace, (turn, held)));
    answer
}

/// The path of a directory. Each name in the path is a link.
fn heading(place: &ResourcePath) -> String {
    let mut heading =
        format!("<a href=\"{PREFIX}\">datastores</a> / <a href=\"{PREFIX}{0}/\">{0}</a>", place.datastore);
    let mut url = format!("{PREFIX}{}/", place.datastore);
    for name in place.path.names() {
        percent::push_name(&mut url, name);
        url.push('/');
        let _ = write!(heading, " / <a href=\"{url}\">");
        push_text(&mut heading, name);
        heading.push_str("</a>");
    }
    heading
}

/// Writes a page as fast as the client reads it. The user's rights to see the entries were checked before the response began, and are not checked
/// again.
async fn write(
    mut writing: Writing,
    sender: mpsc::Sender<Result<Bytes, Cut>>,
    mut trace: Trace,
    (turn, held): (Turn, Arc<Turn>),
) {
    while let Ok(room) = sender.reserve().await {
        let piece = writing.next_piece();
        if piece.is_empty() {
            break;
        }
        trace.event.bytes += piece.len() as u64;
        room.send(Ok(counted(piece, Arc::clone(&held))));
    }
    drop(turn);
}

/// The entries of a page. They are stored compactly, because tens of thousands of entries may be in memory while the page is sent.
#[derive(Default)]
struct Rows {
    names: String,
    rows: Vec<Row>,
    /// Whether the directory has more entries than a page shows.
    is_cut: bool,
    /// Whether the page shows only objects on which the user has a role, and the folders that lead to such objects.
    leads_on: bool,
}

struct Row {
    /// The end and the length of the entry's name in `Rows::names`.
    name_end: usize,
    name_bytes: u16,
    is_directory: bool,
    modified: i64,
    bytes: u64,
}

impl Rows {
    fn push(&mut self, entry: &Entry) {
        let Entry { name, meta, .. } = entry;
        self.names.push_str(name);
        self.rows.push(Row {
            name_end: self.names.len(),
            name_bytes: u16::try_from(name.len()).unwrap_or(u16::MAX),
            is_directory: meta.kind == NodeKind::Directory,
            modified: meta.modified.0,
            bytes: meta.bytes,
        });
    }

    fn name(&self, row: &Row) -> &str {
        self.names.get(row.name_end - usize::from(row.name_bytes)..row.name_end).unwrap_or_default()
    }

    /// Keeps the first `most` entries that were read. Sorts them in the order of the page: directories before files, both by name without regard to
    /// case.
    fn sorted(mut self, most: usize) -> Self {
        self.is_cut = self.rows.len() > most;
        self.rows.truncate(most);
        let mut rows = std::mem::take(&mut self.rows);
        // Each name is converted to lower case only once, and not at every comparison.
        rows.sort_by_cached_key(|row| (!row.is_directory, self.name(row).to_lowercase()));
        Rows { rows, ..self }
    }
}

/// The page of the datastores visible to the user.
pub(crate) async fn stores(visit: Visit, trace: Trace) -> Answer {
    let outcome = blocking(visit.share(), move || visit.stores()).await.map(|names| {
        let mut html = begin("datastores", "<h1>datastores</h1>", false);
        html.push_str("<div id=\"list\" role=\"list\"><div class=\"part\">");
        for name in &names {
            let _ = write!(html, "<div class=\"row entry dir\" role=\"listitem\" data-name=\"{name}\" data-time=\"0\"><a href=\"{PREFIX}{name}/\">{name}</a></div>");
        }
        html.push_str("</div></div>");
        if names.is_empty() {
            html.push_str("<p class=\"empty\">You have no role in any datastore. Ask the administrator of this server for one.</p>");
        }
        html.push_str(END);
        answer(html.into(), "text/html; charset=utf-8")
    });
    end(trace, outcome, Aim::Target)
}

/// Explains why the user has or lacks a right on a visible entry.
pub(crate) async fn why(call: Call, right: AccessMask) -> Answer {
    let Call { visit, place, trace, .. } = call;
    let told = blocking(visit.share(), move || {
        visit.enter(&place.datastore, OperationKind::Lookup, Blocking)?.why(&place.path, right)
    });
    let outcome = told.await.map(|why| {
        let value = serde_json::json!({
            "granted": why.lack.is_none(), "rights": why.rights.to_string(), "says": why.lack.as_ref().map(|lack| said_of(lack, right)),
            "walk": why.walk,
        });
        answer(value.to_string().into(), "application/json")
    });
    end(trace, outcome, Aim::Target)
}

/// The reason why the user does not have a right. If the roles of the user or of the token do not include the right, the text also names a role that
/// includes it.
fn said_of(lack: &Lack, right: AccessMask) -> String {
    let of_administrators = AccessMask::WRITE_ACL | AccessMask::WRITE_OWNER;
    let role = if (right & of_administrators).is_empty() { "DatastorePowerUser" } else { "DatastoreAdmin" };
    match lack {
        Lack::Acl => "Your role includes this right, but the access control list (ACL) or the mode bits of this file do not grant it to you. Ask the owner or the administrator of this server.".to_owned(),
        Lack::Role(roles) if roles.is_empty() => {
            "You have no role here. Ask the administrator of this server for one.".to_owned()
        }
        Lack::TokenRole(roles) if roles.is_empty() => {
            "Your token has no role here. Ask the administrator of this server for one.".to_owned()
        }
        Lack::Role(roles) | Lack::TokenRole(roles) => {
            let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
            let (roles, do_not) = match names.as_slice() {
                [one] => (format!("role {one}"), "does"),
                several => (format!("roles {}", several.join(" and ")), "do"),
            };
            let your = if matches!(lack, Lack::TokenRole(_)) { "Your token's" } else { "Your" };
            format!("{your} {roles} {do_not} not include this right. Ask the administrator of this server for a role that includes it, such as {role}.")
        }
    }
}

/// The response with a file that the page loads.
pub(crate) fn asset(text: &'static str, kind: &'static str) -> Answer {
    let mut answer = answer(Body::from(text), kind);
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

fn answer(body: Body, kind: &'static str) -> Answer {
    let mut answer = Response::new(body);
    let set = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (CACHE_CONTROL, "no-store"),
        (VARY, "accept, authorization"),
    ];
    for (name, value) in set {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

const END: &str =
    "<div id=\"log\" aria-live=\"polite\"></div><dialog id=\"dialog\"></dialog></main></body></html>\n";

fn begin(title: &str, heading: &str, is_store: bool) -> String {
    let mut html = String::from("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    push_text(&mut html, title);
    let store = if is_store { "yes" } else { "no" };
    let _ = write!(
        html,
        "</title><meta name=\"viewport\" content=\"width=device-width\"><link rel=\"stylesheet\" href=\"/page.css\">\
         <script src=\"/page.js\" defer></script></head><body data-store=\"{store}\"><main><header>{heading}</header>\
         <div id=\"tools\" hidden><input type=\"search\" id=\"filter\" placeholder=\"Filter by name\" aria-label=\"Filter by name\">"
    );
    if is_store {
        html.push_str(
            "<button id=\"upload\">Upload</button><input type=\"file\" id=\"files\" multiple hidden><button id=\"folder\">New folder</button>\
             <button id=\"why\">What may I do here?</button>",
        );
    }
    html.push_str("</div>");
    html
}

/// A page that the server is writing.
struct Writing {
    rows: Rows,
    written: usize,
    /// The URL path of the directory. The link of each row begins with this path.
    url: String,
    /// `head` is the HTML before the rows, and becomes empty when it is written. `tail` is the HTML after the rows.
    head: String,
    tail: Option<String>,
}

impl Writing {
    fn of(place: &ResourcePath, rows: Rows) -> Self {
        let url = href::of(place, true);
        let heading = format!("<h1>{}</h1><span>{} entries</span>", heading(place), rows.rows.len());
        let title = format!("{}{}", place.datastore, place.path);
        let mut head = begin(&title, &heading, !rows.leads_on);
        head.push_str(
            "<div class=\"row head\"><button name=\"name\" aria-sort=\"ascending\">Name</button><button name=\"size\">Size</button>\
             <button name=\"time\">Changed</button></div><div id=\"list\" role=\"list\">",
        );
        if !place.path.is_root() {
            head.push_str("<p class=\"row\"><a href=\"../\">..</a></p>");
        }
        let tail = Some(behind(&url, &rows));
        Writing { rows, written: 0, url, head, tail }
    }

    /// The next piece; empty at the end.
    fn next_piece(&mut self) -> String {
        let mut html = std::mem::take(&mut self.head);
        html.reserve(PIECE_BYTES + PIECE_BYTES / 8);
        while html.len() < PIECE_BYTES
            && let Some(next) = self.rows.rows.get(self.written)
        {
            if self.written.is_multiple_of(PART_ROWS) {
                html.push_str("<div class=\"part\">");
            }
            row(&mut html, &self.url, self.rows.name(next), next, !self.rows.leads_on);
            self.written += 1;
            if self.written.is_multiple_of(PART_ROWS) || self.written == self.rows.rows.len() {
                html.push_str("</div>");
            }
        }
        if self.written == self.rows.rows.len() {
            html.push_str(&self.tail.take().unwrap_or_default());
        }
        html
    }
}

fn behind(url: &str, rows: &Rows) -> String {
    let mut html = String::from("</div>");
    if rows.leads_on {
        html.push_str("<p class=\"empty\">You have a role only on the entries in this list, not on this directory itself.</p>");
    } else if rows.rows.is_empty() {
        html.push_str("<p class=\"empty\">This directory is empty, or you may not see its entries.</p>");
    }
    if rows.is_cut {
        html.push_str(
            "<p class=\"empty\">Some entries are not in this list, because there are too many. If you mount the datastore, you do not see more entries either. Ask the administrator of this server for help.</p>",
        );
    }
    html.push_str(
        "<details><summary>Mount this datastore</summary><p>If an entry is missing here, it does not exist, or you may not see it. The administrator \
         can find out the reason with <code>enfilade explain</code>.</p><pre>rclone lsf --webdav-url https://HOST",
    );
    html.push_str(url);
    html.push_str(" --webdav-user NAME --webdav-pass \"$(rclone obscure SECRET)\" :webdav:\nmount -t davfs https://HOST");
    html.push_str(url);
    html.push_str(" /mnt</pre></details>");
    html.push_str(END);
    html
}

fn row(html: &mut String, base: &str, name: &str, row: &Row, has_acts: bool) {
    let &Row { is_directory, modified, bytes, .. } = row;
    html.push_str(if is_directory {
        "<div class=\"row entry dir\" role=\"listitem\" data-name=\""
    } else {
        "<div class=\"row entry file\" role=\"listitem\" data-name=\""
    });
    push_text(html, name);
    // The modification time of a directory could show a change of a hidden entry.
    let shown = if is_directory { 0 } else { modified };
    let _ = write!(html, "\" data-time=\"{shown}\"");
    if !is_directory {
        let _ = write!(html, " data-size=\"{bytes}\"");
    }
    // The link has the whole path, because a browser could read a bare name with a colon as a URL with a scheme.
    html.push_str("><a href=\"");
    html.push_str(base);
    percent::push_name(html, name);
    html.push_str(if is_directory { "/\">" } else { "\" download>" });
    push_text(html, name);
    html.push_str("</a><span>");
    if !is_directory {
        push_size(html, bytes);
    }
    html.push_str("</span><time");
    if !is_directory {
        html.push_str(" datetime=\"");
        push_iso_date(html, modified);
        html.push('"');
    }
    html.push('>');
    if !is_directory {
        html.push_str(http_date(modified).get(5..22).unwrap_or_default());
    }
    html.push_str("</time>");
    if has_acts {
        html.push_str(
            "<span class=\"acts\"><button name=\"rename\">Rename</button><button name=\"delete\">Delete</button>\
             <button name=\"why\" aria-label=\"What may I do with it?\">?</button></span>",
        );
    }
    html.push_str("</div>");
}

/// A size in powers of 1,024, with at most three digits. Sizes of 1,000 TiB and more have more digits.
fn push_size(html: &mut String, bytes: u64) {
    let mut size = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if size < 999.5 || unit == "TiB" {
            let digits = usize::from(unit != "B" && size < 9.95);
            let _ = write!(html, "{size:.digits$} {unit}");
            return;
        }
        size /= 1024.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::vocabulary::Role;

    #[test]
    fn the_page_says_whether_the_role_or_the_token_is_the_limit() {
        let says = |lack, begins: &str| {
            let said = said_of(&lack, AccessMask::WRITE_DATA);
            assert!(said.starts_with(begins), "{said}");
        };
        let lack = Lack::Role(vec![Role::DatastorePowerUser]);
        assert!(said_of(&lack, AccessMask::WRITE_ACL).ends_with("such as DatastoreAdmin."));
        let reader = || vec![Role::DatastoreReader];
        says(Lack::Role(reader()), "Your role DatastoreReader does not include this right.");
        says(Lack::TokenRole(reader()), "Your token's role DatastoreReader does not include this right.");
        says(Lack::TokenRole(Vec::new()), "Your token has no role here.");
    }

    #[test]
    fn sizes_as_people_read_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KiB"),
            (25_000, "24 KiB"),
            (1 << 30, "1.0 GiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            let mut said = String::new();
            push_size(&mut said, bytes);
            assert_eq!(said, text);
        }
    }
}
