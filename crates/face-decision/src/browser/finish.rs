//! The last step at the application's host: the browser exchanges the one-time code for a cookie.

use super::start::browser_of;
use super::{START, answered, page};
use crate::subrequest::Visited;
use crate::{failure, knows_proxy};
use enfilade_admin::{BrowserAt, exchange_code, user_of_code};
use enfilade_faces::browser::{Target, change, parameter, query, redirect, set_cookie, target, url};
use enfilade_faces::credential::{APPLICATION_COOKIE, browser};
use enfilade_faces::{Answer, Connection, Faces, Failure, Reply, RequestContext, RequestError, Trace};
use enfilade_facts::tables::{Audience, SecretDigest};
use enfilade_facts::vocabulary::{Authid, Word};
use enfilade_passage::{Credential, Refusal};
use hyper::HeaderMap;

pub(crate) fn finish(context: RequestContext<'_>) -> Reply<'_> {
    Reply::later(async move {
        let RequestContext { faces, connection, request, mut trace } = context;
        trace.event.face = "sign-in";
        trace.event.path = request.uri().path().to_owned();
        let result = end(faces, connection, request.uri(), request.headers(), &mut trace).await;
        answered(result, trace)
    })
}

async fn end(
    faces: &Faces,
    mut connection: Connection,
    uri: &hyper::Uri,
    headers: &HeaderMap,
    trace: &mut Trace,
) -> Result<Answer, Failure> {
    knows_proxy(faces, &mut connection).await?;
    faces.sign_in().ok_or(RequestError::NoRoute)?;
    let visited = Visited::read(headers)?;
    visited.origin(faces)?;
    trace.event.peer = visited.visitor.to_string();
    let pairs = query(uri);
    let to = target(&pairs).unwrap_or_else(Target::root);
    let code = parameter(&pairs, "code").unwrap_or_default().to_owned();
    let user = user_of_code(faces.house().source(), &code).map_err(failure)?;
    trace.event.authid = user.map_or_else(Word::default, |user| Authid::from(user).to_word());
    // Even if the browser has no secret, the code is deleted. So nobody can exchange the code later.
    let digest = browser_of(headers).unwrap_or(SecretDigest([0; 32]));
    let (application, host) = (visited.application.clone(), visited.host.clone());
    let exchanged = change(faces, trace, move |ctx| {
        exchange_code(ctx, &code, BrowserAt { application: &application, host: &host, browser: digest })
    });
    match exchanged.await {
        Ok(session) => {
            connection.anonymous.release();
            let mut answer = redirect(to.as_str());
            let seconds = session.expires_at.saturating_sub(faces.house().now().unix_seconds);
            set_cookie(&mut answer, APPLICATION_COOKIE, &session.cookie, seconds);
            Ok(answer)
        }
        Err(Failure::Refused(refusal)) => not_finished(faces, headers, &visited, &to, refusal, trace).await,
        Err(other) => Err(other),
    }
}

/// The response if the code could not be exchanged, for example because the user opened the page again. If the browser already has a session, the
/// response is a redirect to the application.
async fn not_finished(
    faces: &Faces,
    headers: &HeaderMap,
    visited: &Visited,
    to: &Target,
    refusal: Refusal,
    trace: &mut Trace,
) -> Result<Answer, Failure> {
    let audience = || Audience::Application(visited.application.clone());
    if let Ok(Some(ask)) = browser(headers, APPLICATION_COOKIE, audience)
        && faces.arc_house().admit(&Credential::Browser(ask), visited.visitor).await.is_ok()
    {
        return Ok(redirect(to.as_str()));
    }
    trace.failed(&Failure::Refused(refusal));
    Ok(page::not_finished(&url(START, &[("to", to.as_str())])))
}
