//! The console: pages for people, below `/console/` on the main listener. The pages are made on the server. Only uploads, passkeys, and the
//! comparison of earlier rights with present rights need a script. The console decides nothing: every page and every action asks the doors for the
//! same permits as the calls of the APIs.
//!
//! - `session.rs` signs in and out. The cookie is a credential for the console only.
//! - `click.rs` defines a request of a signed-in browser. Every page gets such a request.
//! - `page.rs` makes the frame of all pages, and `section.rs` the navigation. `icons.rs` and `assets.rs` contain icons, style and script.
//! - `guest.rs` and its folder make the pages of links, for guests without an account.
//! - `files.rs`, `links.rs`, `account.rs`, `administration.rs` and their folders make pages. `start.rs`, `trash.rs`, `explain.rs` and `review.rs`
//!   also make pages. `manual.rs` shows the documentation of this version.

mod assets;
mod icons;
mod section;
mod page;
mod click;
mod failure;
mod session;
mod place;
mod tree_work;
mod start;
mod trash;
mod files;
mod links;
mod guest;
mod account;
mod manual;
mod explain;
mod review;
mod administration;

use click::Click;
use enfilade_faces::browser::{query, redirect};
use enfilade_faces::percent::form_pairs;
use enfilade_faces::{
    Answer, Connection, Elsewhere, Faces, Failure, Received, Reply, RequestContext, RequestError, Route,
    Trace, collect_form,
};
use enfilade_passage::Visit;
use hyper::header::HeaderMap;
use hyper::{Method, Request};
use page::Notice;
use place::Place;

/// The routes of the console.
pub const ROUTES: [Route; 4] = [
    Route::public("/", to_console).for_browsers().says("Browsers: a redirect to the console"),
    Route::public("/console", to_console).says("A redirect to the console"),
    Route::own("/console/", handle).says("The console: pages for people"),
    Route::own("/s/", guest::handle).says("Links with which users share files and folders: pages for guests"),
];

fn to_console(_: &Faces) -> Answer {
    page::guarded(redirect("/console/"))
}

fn handle(context: RequestContext<'_>) -> Reply<'_> {
    Reply::later(async move {
        let RequestContext { faces, connection, request, mut trace } = context;
        trace.event.face = "console";
        trace.event.path = request.uri().path().to_owned();
        let path = request.uri().path().strip_prefix("/console/").unwrap_or_default();
        if let Some(asset) = path.strip_prefix("assets/").and_then(assets::asset) {
            trace.answered(&asset);
            return asset;
        }
        if path == "sign-in" {
            let answer = session::sign_in(faces, &connection, request, &mut trace).await;
            return failure::outside(answer, trace);
        }
        match session::signed_in(faces, &connection, request.headers(), &mut trace).await {
            Ok(Some((mut visit, csrf))) => match elsewhere(faces, &mut visit, path) {
                Some(other) => match other.pass(connection, request, trace).await {
                    Ok(answer) => answer,
                    Err(refused) => {
                        let (failure, trace) = *refused;
                        failure::outside(Err(failure), trace)
                    }
                },
                None => clicked(faces, connection, (visit, csrf), request, trace).await,
            },
            Ok(None) if matches!(*request.method(), Method::GET | Method::HEAD | Method::POST) => {
                let to =
                    if request.method() == Method::POST { &hyper::Uri::default() } else { request.uri() };
                let answer = session::to_sign_in(to);
                trace.answered(&answer);
                answer
            }
            // Only the script sends requests with methods other than GET, HEAD and POST. So the response is text, and not a page.
            Ok(None) => failure::plain(failure::signed_out(), trace),
            Err(failure) => failure::outside(Err(failure), trace),
        }
    })
}

/// The areas of the console that are about one datastore. In a URL of such an area, the name of the datastore follows the name of the area.
const OF_DATASTORES: [&str; 10] =
    ["files", "content", "zip", "uploads", "share", "search", "why", "review", "review-csv", "trash"];

/// The other member of the fleet that answers a request, because it serves the datastore of the request; `None` if this server itself answers.
fn elsewhere<'f>(faces: &'f Faces, visit: &mut Visit, path: &str) -> Option<Elsewhere<'f>> {
    let (area, rest) = path.split_once('/')?;
    let name = rest.split('/').next().filter(|_| OF_DATASTORES.contains(&area))?.parse().ok()?;
    faces.home_elsewhere(visit, &name)
}

/// Whether a header that browsers send is absent or has one of the values.
fn has(headers: &HeaderMap, name: &str, values: &[&str]) -> bool {
    headers.get(name).is_none_or(|value| values.iter().any(|known| value.as_bytes() == known.as_bytes()))
}

/// Refuses a request if a page of another site caused the browser to send it. Exception: a link on another site may open a page. But a link on
/// another site must not start a download. A download shows no page, and the user did not ask for the download.
fn check_site(headers: &HeaderMap, is_download: bool) -> Result<(), RequestError> {
    let opens_page =
        has(headers, "sec-fetch-mode", &["navigate"]) && has(headers, "sec-fetch-dest", &["document"]);
    if opens_page && !is_download { Ok(()) } else { is_own_site(headers) }
}

/// Refuses a request if a page of another site caused the browser to send it.
fn is_own_site(headers: &HeaderMap) -> Result<(), RequestError> {
    match has(headers, "sec-fetch-site", &["same-origin", "none"]) {
        true => Ok(()),
        false => Err(RequestError::CrossSite),
    }
}

/// Answers a request of a signed-in browser.
async fn clicked(
    faces: &Faces,
    connection: Connection,
    (visit, csrf): (Visit, String),
    request: Request<Received>,
    trace: Trace,
) -> Answer {
    let (head, body) = request.into_parts();
    let query = query(&head.uri);
    let (form, notice) = (Vec::new(), None);
    let mut click = Click { faces, connection, visit, head, query, form, csrf, notice, trace };
    let method = click.head.method.clone();
    let is_read = matches!(method, Method::GET | Method::HEAD);
    let path = click.head.uri.path().strip_prefix("/console/").unwrap_or_default().to_owned();
    let checked = match is_read {
        true => check_site(&click.head.headers, Sent::of(&path).is_some()),
        false => session::is_own_origin(&click.connection, &click.head),
    };
    if let Err(error) = checked {
        return failure::page(click, error.into());
    }
    let answer = match method {
        Method::GET | Method::HEAD => match Sent::of(&path) {
            Some((sent, rest)) => return send(click, sent, rest).await,
            None => show(&mut click, &path).await,
        },
        Method::POST => submit(&mut click, &path, body).await,
        _ => return of_script(click, &path, body).await,
    };
    match answer {
        Ok(answer) => {
            click.trace.answered(&answer);
            answer
        }
        Err(failure) => failure::page(click, failure),
    }
}

/// Responses that are sent while the client reads.
enum Sent {
    File,
    Folder,
    Review,
}

impl Sent {
    /// The kind of response for a path, and the rest of the path.
    fn of(path: &str) -> Option<(Sent, &str)> {
        let of = |area: &str, sent| path.strip_prefix(area).map(|rest| (sent, rest));
        of("content/", Sent::File)
            .or_else(|| of("zip/", Sent::Folder))
            .or_else(|| of("review-csv/", Sent::Review))
    }
}

async fn send(click: Click<'_>, sent: Sent, rest: &str) -> Answer {
    match (Place::read(rest, &click.visit.limits()), sent) {
        (Ok(place), Sent::File) => files::content::send(click, place).await,
        (Ok(place), Sent::Folder) => files::zip::send(click, place).await,
        (Ok(place), Sent::Review) => review::send(click, place).await,
        (Err(error), _) => failure::page(click, error.into()),
    }
}

/// Shows a page.
async fn show(click: &mut Click<'_>, path: &str) -> Result<Answer, Failure> {
    click.notice = Notice::of(click.asked("done"));
    let (area, rest) = path.split_once('/').unwrap_or((path, ""));
    let place = |click: &Click<'_>| Place::read(rest, &click.visit.limits());
    match area {
        "" => start::show(click).await,
        "files" => files::show(click, place(click)?).await,
        "search" => files::search::show(click, place(click)?).await,
        "why" => explain::show_own(click, place(click)?).await,
        "review" => review::show(click, place(click)?).await,
        "trash" if rest.is_empty() => trash::choose(click).await,
        "trash" => trash::show(click, place(click)?).await,
        "account" if rest.is_empty() => account::show(click).await,
        "links" if rest.is_empty() => links::show(click).await,
        "explain" if rest.is_empty() => explain::show(click).await,
        "manual" => manual::show(click, rest),
        area if rest.is_empty() => {
            administration::show(click, area).await?.ok_or_else(|| RequestError::NoRoute.into())
        }
        _ => Err(RequestError::NoRoute.into()),
    }
}

/// Does the action that a form requests.
async fn submit(click: &mut Click<'_>, path: &str, body: Received) -> Result<Answer, Failure> {
    const NO_FORM: RequestError = RequestError::Parameter("the body is not a form in UTF-8");
    let body = collect_form(body, &click.faces.limits()).await?;
    click.form = form_pairs(&body).ok_or(NO_FORM)?;
    let shown = enfilade_faces::browser::parameter(&click.form, "csrf");
    if !session::is_csrf(&click.csrf, shown) {
        return Err(RequestError::CrossSite.into());
    }
    let (area, rest) = path.split_once('/').unwrap_or((path, ""));
    match area {
        "sign-out" => session::leave(click.faces, &click.visit, &click.trace).await,
        "files" => {
            let place = Place::read(rest, &click.visit.limits())?;
            files::change::submit(click, place).await
        }
        "share" => {
            let place = Place::read(rest, &click.visit.limits())?;
            links::create(click, place).await
        }
        "links" => links::submit(click, rest).await,
        "trash" => {
            let place = Place::read(rest, &click.visit.limits())?;
            trash::submit(click, place).await
        }
        "account" => account::submit(click, rest).await,
        area => administration::submit(click, area, rest).await,
    }
}

/// Answers the script of the console. The script sends the CSRF token in a header, and not in a form.
async fn of_script(click: Click<'_>, path: &str, body: Received) -> Answer {
    let shown = click.head.headers.get("x-csrf-token").and_then(|token| token.to_str().ok());
    let area = ["files/", "uploads/"].iter().find_map(|area| Some((*area, path.strip_prefix(*area)?)));
    let checked = match session::is_csrf(&click.csrf, shown) {
        true => area.ok_or(RequestError::NoRoute),
        false => Err(RequestError::CrossSite),
    };
    let place = checked.and_then(|(area, rest)| Ok((area, Place::read(rest, &click.visit.limits())?)));
    match (click.head.method.as_str(), place) {
        ("PUT", Ok(("files/", place))) => files::upload::put(click, place, body).await,
        ("MKCOL", Ok(("files/", place))) => files::upload::make(click, place).await,
        ("PUT", Ok(("uploads/", place))) => files::upload::begin(click, place).await,
        ("PATCH", Ok(("uploads/", place))) => files::upload::append(click, place, body).await,
        (_, Ok(_)) => failure::plain(RequestError::Method.into(), click.trace),
        (_, Err(error)) => failure::plain(error.into(), click.trace),
    }
}
