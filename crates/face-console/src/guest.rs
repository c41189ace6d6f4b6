//! The pages of links, for guests. A guest has no account and no session: the URL is the credential, and door 2 judges it for each request. The
//! cookie of the console is not read here. So a person who is signed in sees the same pages as any other guest.
//!
//! - `show.rs` makes the pages, and `upload.rs` receives a file for a drop box.
//! - If a link was never made, was ended, has expired or was used up, the response is the page of [`page::nothing`]. The response is the same for a
//!   place that the maker of the link may not see.
//! - One use of a link is one download of a file or of a folder, or one upload. Opening a page is not a use, because programs open URLs in messages
//!   to show a preview. A download always contains the whole file. The server counts the use before it sends the first byte, or before an uploaded
//!   file gets its name.

mod page;
mod show;
mod upload;

use crate::files::{content, zip};
use crate::place::Place;
use crate::{check_site, is_own_site};
use enfilade_admin::{count_link_use, has_limited_uses};
use enfilade_faces::browser::{change, failure_of_change, known, parameter, query, redirect, set_cookie};
use enfilade_faces::credential::{LINK_COOKIE, cookie};
use enfilade_faces::percent::{form_pairs, push_name};
use enfilade_faces::{
    Answer, Connection, Faces, Failure, LINKS, Received, Reply, RequestContext, RequestError, Trace,
    blocking_failure, collect_form,
};
use enfilade_facts::tables::{LinkPlace, LinkRights};
use enfilade_facts::vocabulary::{Secret, StorePath};
use enfilade_passage::{Credential, IdentityRefusal, LinkAsk, LinkProof, Refusal, Visit};
use hyper::http::request::Parts;
use hyper::{Method, Request};

/// A request of a guest that door 2 admitted.
struct Guest<'f> {
    faces: &'f Faces,
    connection: Connection,
    visit: Visit,
    /// The text of the link, which is a secret.
    text: String,
    /// The shared place.
    link: LinkPlace,
    /// The place of the request: the shared place, or a place below it.
    place: Place,
    query: Vec<(String, String)>,
    trace: Trace,
}

impl Guest<'_> {
    /// The URL of a place below the shared place. The URL of a folder ends with a slash.
    fn url(&self, path: &StorePath, is_folder: bool) -> String {
        let below = path.as_str().get(self.link.path.as_str().len()..).unwrap_or_default();
        let mut url = format!("{LINKS}{}", self.text);
        for name in below.split('/').filter(|name| !name.is_empty()) {
            url.push('/');
            push_name(&mut url, name);
        }
        if is_folder {
            url.push('/');
        }
        url
    }
}

pub(crate) fn handle(context: RequestContext<'_>) -> Reply<'_> {
    Reply::later(async move {
        let RequestContext { faces, connection, request, mut trace } = context;
        trace.event.face = "console";
        trace.event.path = format!("{LINKS}-");
        answer(faces, connection, request, trace).await
    })
}

async fn answer(
    faces: &Faces,
    connection: Connection,
    request: Request<Received>,
    mut trace: Trace,
) -> Answer {
    let (head, body) = request.into_parts();
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    let checked = if is_read { check_site(&head.headers, false) } else { is_own_site(&head.headers) };
    if let Err(error) = checked {
        return page::failure(error.into(), trace);
    }
    let path = head.uri.path().strip_prefix(LINKS).unwrap_or_default().to_owned();
    let (text, rest) = path.split_once('/').unwrap_or((path.as_str(), ""));
    if head.method == Method::POST {
        return match enter(faces, &connection, (text, body), &mut trace).await {
            Ok(answer) => page::answered(answer, trace),
            Err(failure) => page::failure(failure, trace),
        };
    }
    let pass = cookie(&head.headers, LINK_COOKIE).and_then(Secret::new);
    let proof = pass.map_or(LinkProof::Nothing, LinkProof::Pass);
    let mut visit = match admitted(faces, &connection, (text, proof), &mut trace).await {
        Ok(visit) => visit,
        Err(Failure::Refused(Refusal::Identity(IdentityRefusal::LinkPassword(_)))) if is_read => {
            return page::answered(page::password(None), trace);
        }
        Err(failure) => return page::failure(failure, trace),
    };
    let datastore = visit.principal().link.as_ref().map(|link| link.datastore.clone());
    if let Some(other) = datastore.and_then(|name| faces.home_elsewhere(&mut visit, &name)) {
        return match other.pass(connection, Request::from_parts(head, body), trace).await {
            Ok(answer) => answer,
            Err(refused) => {
                let (failure, trace) = *refused;
                page::failure(failure, trace)
            }
        };
    }
    match guest(faces, connection, visit, (text, rest, &head), trace) {
        Ok(guest) => served(guest, &head, body).await,
        Err(refused) => {
            let (failure, trace) = *refused;
            page::failure(failure, trace)
        }
    }
}

/// Asks door 2 whether the link admits the guest. Returns the visit of the guest.
async fn admitted(
    faces: &Faces,
    connection: &Connection,
    (text, proof): (&str, LinkProof),
    trace: &mut Trace,
) -> Result<Visit, Failure> {
    // A text that cannot be the secret of a link is refused like an unknown link.
    let text = Secret::new(text.as_bytes()).ok_or(IdentityRefusal::NoLink)?;
    let credential = Credential::Link(LinkAsk { text, proof });
    let mut visit = trace.admitted(faces.arc_house().admit(&credential, connection.peer.ip())).await?;
    connection.anonymous.release();
    trace.time(&mut visit);
    known(trace, &visit);
    Ok(visit)
}

/// The guest, and the place of the request.
fn guest<'f>(
    faces: &'f Faces,
    connection: Connection,
    visit: Visit,
    (text, rest, head): (&str, &str, &Parts),
    mut trace: Trace,
) -> Result<Guest<'f>, Box<(Failure, Trace)>> {
    let Some(link) = visit.principal().link.clone() else {
        return Err(Box::new((IdentityRefusal::NoLink.into(), trace)));
    };
    let below = StorePath::from_url(rest).map_err(RequestError::Path);
    let path = below.and_then(|below| {
        let path = below.names().try_fold(link.path.clone(), |path, name| path.join(name));
        let path = path.map_err(RequestError::Path)?;
        path.keeps_to(&visit.limits()).map_err(RequestError::Path)?;
        Ok(path)
    });
    let path = match path {
        Ok(path) => path,
        Err(error) => return Err(Box::new((error.into(), trace))),
    };
    trace.event.path = format!("{LINKS}-{path}");
    trace.event.datastore = link.datastore.to_string();
    let is_folder = rest.is_empty() || rest.ends_with('/');
    let place = Place { datastore: link.datastore.clone(), path, is_folder };
    let (text, query) = (text.to_owned(), query(&head.uri));
    Ok(Guest { faces, connection, visit, text, link, place, query, trace })
}

async fn served(guest: Guest<'_>, head: &Parts, body: Received) -> Answer {
    let is_asked = |guest: &Guest<'_>, name: &str| guest.query.iter().any(|(known, _)| known == name);
    match (guest.link.rights, head.method.as_str()) {
        (LinkRights::Read, "GET") if is_asked(&guest, "get") => download(guest).await,
        (LinkRights::Read, "GET") if is_asked(&guest, "zip") => archive(guest).await,
        (LinkRights::Read, "GET" | "HEAD") => finish(show::show(&guest).await, guest.trace),
        (LinkRights::Drop, "GET" | "HEAD") => finish(show::drop_box(&guest).await, guest.trace),
        (LinkRights::Drop, "PUT") => upload::put(guest, body).await,
        (LinkRights::Read | LinkRights::Drop, _) => page::failure(RequestError::Method.into(), guest.trace),
    }
}

fn finish(result: Result<Answer, Failure>, trace: Trace) -> Answer {
    match result {
        Ok(answer) => page::answered(answer, trace),
        Err(failure) => page::failure(failure, trace),
    }
}

/// Counts a use of the link, if the link has a limited number of uses. If the use cannot be counted, the request is refused.
async fn count_use(guest: &Guest<'_>) -> Result<(), Failure> {
    let id = *guest.visit.identity().token().ok_or(IdentityRefusal::NoLink)?;
    let house = guest.faces.arc_house().clone();
    let is_limited = blocking_failure(guest.visit.share(), move || {
        has_limited_uses(house.source(), &id).map_err(failure_of_change)
    });
    if !is_limited.await? {
        return Ok(());
    }
    guest.faces.house().limit_link_uses(&guest.visit)?;
    change(guest.faces, &guest.trace, move |ctx| count_link_use(ctx, &id)).await
}

async fn download(guest: Guest<'_>) -> Answer {
    let reading = match content::open(&guest.visit, &guest.place).await {
        Ok(reading) => reading,
        Err(failure) => return page::failure(failure, guest.trace),
    };
    if let Err(failure) = count_use(&guest).await {
        return page::failure(failure, guest.trace);
    }
    let Guest { connection, trace, place, .. } = guest;
    page::guarded(content::stream(reading, content::DOWNLOAD, place.name(), (connection, trace)))
}

async fn archive(guest: Guest<'_>) -> Answer {
    let opened = match zip::open(&guest.visit, &guest.place).await {
        Ok(opened) => opened,
        Err(failure) => return page::failure(failure, guest.trace),
    };
    if let Err(failure) = count_use(&guest).await {
        return page::failure(failure, guest.trace);
    }
    let Guest { connection, trace, place, visit, .. } = guest;
    page::guarded(zip::stream(opened, place, visit, (connection, trace)))
}

/// Checks the password that a guest entered. If the password is right, the browser gets a cookie that proves this.
async fn enter(
    faces: &Faces,
    connection: &Connection,
    (text, body): (&str, Received),
    trace: &mut Trace,
) -> Result<Answer, Failure> {
    const NO_FORM: RequestError = RequestError::Parameter("the body is not a form in UTF-8");
    let body = collect_form(body, &faces.limits()).await?;
    let form = form_pairs(&body).ok_or(NO_FORM)?;
    let password = Secret::new(parameter(&form, "password").unwrap_or_default().as_bytes());
    let proof = password.map_or(LinkProof::Nothing, LinkProof::Password);
    match admitted(faces, connection, (text, proof), trace).await {
        Ok(visit) => {
            let mut answer = page::guarded(redirect(&format!("{LINKS}{text}/")));
            if let Some((pass, seconds)) = faces.house().link_pass(&visit) {
                set_cookie(&mut answer, LINK_COOKIE, &pass, seconds);
            }
            Ok(answer)
        }
        Err(failure) => {
            let is_wrong = matches!(
                &failure,
                Failure::Refused(Refusal::Identity(
                    IdentityRefusal::WrongSecret(_) | IdentityRefusal::LinkPassword(_)
                ))
            );
            if !is_wrong {
                return Err(failure);
            }
            trace.failed(&failure);
            Ok(page::password(Some("The password is wrong.")))
        }
    }
}
