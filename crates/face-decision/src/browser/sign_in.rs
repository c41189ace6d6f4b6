//! The page for signing in, on the main listener.

use super::{FINISH, SIGN_IN, answered, page};
use enfilade_admin::{BrowserAt, application_of, issue_code, store_sign_in};
use enfilade_faces::browser::{
    Attempt, SignInForm, Target, change, check_origin, is_unauthorized, kept_receipt, known, log_in,
    opens_page, parameter, query, redirect, set_cookie, target, url, why_not,
};
use enfilade_faces::credential::{SIGN_IN_COOKIE, browser};
use enfilade_faces::percent::form_pairs;
use enfilade_faces::{
    Answer, Connection, Faces, Failure, Received, Reply, RequestContext, RequestError, Trace, collect_form,
};
use enfilade_facts::tables::{Audience, SecretDigest};
use enfilade_facts::vocabulary::{ApplicationName, HostName, from_lower_hex};
use enfilade_passage::{Credential, Refusal, Session};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, StatusCode};

/// GET returns the page. POST signs the user in.
pub(crate) fn sign_in(context: RequestContext<'_>) -> Reply<'_> {
    Reply::later(async move {
        let RequestContext { faces, connection, request, mut trace } = context;
        trace.event.face = "sign-in";
        trace.event.path = request.uri().path().to_owned();
        let result = match (faces.sign_in(), request.method() == Method::POST) {
            (None, _) => Err(RequestError::NoRoute.into()),
            (Some(_), false) => {
                let (head, _) = request.into_parts();
                show(faces, &connection, &head, &mut trace).await
            }
            (Some(own), true) => submit(faces, &connection, own, request, &mut trace).await,
        };
        answered(result, trace)
    })
}

/// The host of the application that the browser requested. After the user has signed in, the browser returns to this host with a code.
struct Origin {
    application: ApplicationName,
    host: HostName,
    /// The origin of the application's URLs.
    url: String,
    /// The digest of the browser's secret at this host.
    browser: SecretDigest,
    to: Target,
}

/// The parameters in the URL of the page, or the fields of the form. The form contains the parameters of the URL as hidden fields.
type Fields = [(String, String)];

impl Origin {
    /// Reads the parameters of a URL or of a form. Returns `Ok(Ok(None))` if the user opened the page directly, and `Ok(Err(BadLink))` if a parameter
    /// is malformed or no application has the host.
    ///
    /// # Errors
    /// When the facts cannot be read.
    fn read(faces: &Faces, pairs: &Fields) -> Result<Result<Option<Self>, BadLink>, Failure> {
        let Some(host) = parameter(pairs, "host") else { return Ok(Ok(None)) };
        let browser = parameter(pairs, "state").and_then(from_lower_hex::<32>).map(SecretDigest);
        let (Ok(host), Some(browser)) = (host.parse::<HostName>(), browser) else { return Ok(Err(BadLink)) };
        // A browser is redirected only to hosts of applications, and only to the port that the facts contain for the application.
        let found = application_of(faces.house().source(), &host).map_err(crate::failure)?;
        let Some((application, authority)) = found else { return Ok(Err(BadLink)) };
        let url = format!("https://{authority}");
        // The host of an application must not be the host of the page for signing in. Otherwise the application would get the cookie of the page for
        // signing in.
        if faces.sign_in().is_some_and(|own| is_same_host(own, &host)) {
            return Ok(Err(BadLink));
        }
        Ok(Ok(Some(Origin {
            application,
            host,
            url,
            browser,
            to: target(pairs).unwrap_or_else(Target::root),
        })))
    }
}

/// Whether the origin has this host.
fn is_same_host(origin: &str, host: &HostName) -> bool {
    origin.strip_prefix("https://").and_then(HostName::of_authority).is_some_and(|own| own == *host)
}

struct BadLink;

async fn show(
    faces: &Faces,
    connection: &Connection,
    head: &Parts,
    trace: &mut Trace,
) -> Result<Answer, Failure> {
    let pairs = query(&head.uri);
    let Ok(origin) = Origin::read(faces, &pairs)? else { return Ok(page::bad_link()) };
    // A page of another host below the same domain can make a browser load this page in the background. The browser then sends the cookie. So the
    // server uses the session only if the browser opens this page for the user.
    match signed_in(faces, connection, &head.headers, trace).await?.filter(|_| opens_page(&head.headers)) {
        Some(session) => proceed(faces, trace, session, origin.as_ref()).await,
        None => Ok(form(origin.as_ref(), &pairs, "", None, None)),
    }
}

/// The session of a browser that is signed in; `None` if the browser is not signed in.
async fn signed_in(
    faces: &Faces,
    connection: &Connection,
    headers: &HeaderMap,
    trace: &mut Trace,
) -> Result<Option<Session>, Failure> {
    // A malformed cookie is treated like a missing cookie: the user can sign in, and gets a new cookie.
    let Ok(Some(ask)) = browser(headers, SIGN_IN_COOKIE, || Audience::SignIn) else { return Ok(None) };
    match faces.arc_house().admit(&Credential::Browser(ask), connection.peer.ip()).await {
        Ok(visit) => {
            connection.anonymous.release();
            known(trace, &visit);
            Ok(visit.identity().session().cloned())
        }
        Err(refusal) if is_unauthorized(&refusal) => Ok(None),
        Err(refusal) => Err(refusal.into()),
    }
}

/// Redirects a signed-in browser to the application, with a one-time code. Without `origin`, shows a page with the name of the user.
async fn proceed(
    faces: &Faces,
    trace: &Trace,
    session: Session,
    origin: Option<&Origin>,
) -> Result<Answer, Failure> {
    let Some(origin) = origin else { return Ok(page::signed_in(&trace.event.authid)) };
    faces.house().count_code(&session.claim.user)?;
    let (application, host, browser) = (origin.application.clone(), origin.host.clone(), origin.browser);
    let code = change(faces, trace, move |ctx| {
        issue_code(ctx, &session, BrowserAt { application: &application, host: &host, browser })
    });
    let (code, before) = (code.await?, format!("{}{FINISH}", origin.url));
    Ok(redirect(&url(&before, &[("code", &code), ("to", origin.to.as_str())])))
}

/// The page with the form. If `receipt` is given, the form asks for the code of the second factor, and not for the password.
fn form(
    origin: Option<&Origin>,
    pairs: &Fields,
    user: &str,
    problem: Option<(StatusCode, &str)>,
    receipt: Option<&str>,
) -> Answer {
    let kept = |name| origin.and(parameter(pairs, name)).map(|value| (name, value));
    let hidden: Vec<(&str, &str)> = ["host", "state", "to"].into_iter().filter_map(kept).collect();
    let to = origin.map(|origin| origin.url.as_str());
    let status = problem.map_or(StatusCode::OK, |(status, _)| status);
    let problem = problem.map(|(_, problem)| problem);
    page::sign_in(
        status,
        to,
        &SignInForm { action: SIGN_IN, hidden: &hidden, user, problem, receipt, passkeys: None },
    )
}

async fn submit(
    faces: &Faces,
    connection: &Connection,
    own: &str,
    request: Request<Received>,
    trace: &mut Trace,
) -> Result<Answer, Failure> {
    check_origin(request.headers(), |origin| origin == own.as_bytes())?;
    let body = collect_form(request.into_body(), &faces.limits()).await?;
    const NO_FORM: RequestError = RequestError::Parameter("the body is not a form in UTF-8");
    let pairs = form_pairs(&body).ok_or(NO_FORM)?;
    let Ok(origin) = Origin::read(faces, &pairs)? else { return Ok(page::bad_link()) };
    let user = parameter(&pairs, "user").unwrap_or_default().trim();
    match log_in(faces, connection, (&pairs, None), trace).await {
        Ok(Attempt::NeedsCode(receipt)) => Ok(form(origin.as_ref(), &pairs, user, None, Some(&receipt))),
        Ok(Attempt::Complete(arrival)) => {
            connection.anonymous.release();
            trace.event.authid = arrival.authid().to_word();
            let session = trace.admitted(arrival.sign_in(Audience::SignIn)).await;
            let session = match session {
                Ok(session) => session,
                Err(refusal) => return again(origin.as_ref(), &pairs, user, refusal, trace),
            };
            let stored = {
                let session = session.clone();
                change(faces, trace, move |ctx| store_sign_in(ctx, &session)).await?
            };
            let mut answer = proceed(faces, trace, session, origin.as_ref()).await?;
            let seconds = stored.expires_at.saturating_sub(faces.house().now().unix_seconds);
            set_cookie(&mut answer, SIGN_IN_COOKIE, &stored.cookie, seconds);
            Ok(answer)
        }
        Err(Failure::Refused(refusal)) => again(origin.as_ref(), &pairs, user, refusal, trace),
        Err(other) => Err(other),
    }
}

/// Shows the form again, with the reason why the user is not signed in.
fn again(
    origin: Option<&Origin>,
    pairs: &Fields,
    user: &str,
    refusal: Refusal,
    trace: &mut Trace,
) -> Result<Answer, Failure> {
    let Some(why) = why_not(&refusal, pairs) else { return Err(refusal.into()) };
    let receipt = kept_receipt(pairs, &refusal);
    trace.failed(&Failure::Refused(refusal));
    // The status is not 401, because a browser would show its own dialog for a password after a 401.
    Ok(form(origin, pairs, user, Some((StatusCode::FORBIDDEN, why)), receipt))
}
