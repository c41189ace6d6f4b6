//! Signs a browser out. This ends the session of the sign-in, and the sessions of the browser for all applications.

use super::{SIGN_IN, answered, page};
use crate::knows_proxy;
use crate::subrequest::Visited;
use enfilade_faces::browser::{change, check_origin, is_unauthorized, known, set_cookie};
use enfilade_faces::credential::{APPLICATION_COOKIE, SIGN_IN_COOKIE, browser};
use enfilade_faces::{Answer, Connection, Faces, Failure, Reply, RequestContext, RequestError, Trace};
use enfilade_facts::tables::Audience;
use enfilade_passage::Credential;
use hyper::{HeaderMap, Method};
use std::net::IpAddr;

/// The host at which a browser signs out.
struct Place {
    /// The origin of the host's pages.
    origin: String,
    /// The cookie of the host.
    cookie: &'static str,
    audience: Audience,
    visitor: IpAddr,
}

/// Signs out at the page for signing in. GET returns a page with a button, and POST signs the user out.
pub(crate) fn sign_out_here(context: RequestContext<'_>) -> Reply<'_> {
    reply(context, false)
}

/// Signs out at the host of an application. As at the page for signing in, GET returns a page with a button, and POST signs the user out.
pub(crate) fn sign_out_at_application(context: RequestContext<'_>) -> Reply<'_> {
    reply(context, true)
}

fn reply(context: RequestContext<'_>, is_application: bool) -> Reply<'_> {
    Reply::later(async move {
        let RequestContext { faces, connection, request, mut trace } = context;
        trace.event.face = "sign-in";
        trace.event.path = request.uri().path().to_owned();
        let headers = request.headers();
        let result = match place(faces, connection, headers, is_application).await {
            Ok(_) if request.method() != Method::POST => Ok(page::ask_sign_out()),
            Ok(place) => sign_out(faces, &place, headers, &mut trace).await,
            Err(failure) => Err(failure),
        };
        answered(result, trace)
    })
}

async fn place(
    faces: &Faces,
    mut connection: Connection,
    headers: &HeaderMap,
    is_application: bool,
) -> Result<Place, Failure> {
    let own = faces.sign_in().ok_or(RequestError::NoRoute)?;
    if !is_application {
        let (origin, visitor) = (own.to_owned(), connection.peer.ip());
        return Ok(Place { origin, cookie: SIGN_IN_COOKIE, audience: Audience::SignIn, visitor });
    }
    knows_proxy(faces, &mut connection).await?;
    let visited = Visited::read(headers)?;
    let origin = visited.origin(faces)?;
    let Visited { visitor, application, .. } = visited;
    Ok(Place { origin, cookie: APPLICATION_COOKIE, audience: Audience::Application(application), visitor })
}

async fn sign_out(
    faces: &Faces,
    place: &Place,
    headers: &HeaderMap,
    trace: &mut Trace,
) -> Result<Answer, Failure> {
    let Place { origin, cookie, audience, visitor } = place;
    trace.event.peer = visitor.to_string();
    check_origin(headers, |own| own == origin.as_bytes())?;
    if let Some(ask) = browser(headers, cookie, || audience.clone())? {
        match faces.arc_house().admit(&Credential::Browser(ask), *visitor).await {
            Ok(visit) => {
                known(trace, &visit);
                if let Some(session) = visit.identity().session().cloned() {
                    change(faces, trace, move |ctx| enfilade_admin::sign_out(ctx, &session)).await?;
                }
            }
            // The session has ended already.
            Err(refusal) if is_unauthorized(&refusal) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
    let again = faces.sign_in().map(|own| format!("{own}{SIGN_IN}")).unwrap_or_default();
    let mut answer = page::signed_out(&again);
    set_cookie(&mut answer, cookie, "", 0);
    Ok(answer)
}
