//! The first step at the application's host: the browser gets a cookie with a random secret. The cookie connects the later one-time code with this
//! browser.

use super::{SIGN_IN, answered};
use crate::knows_proxy;
use crate::subrequest::Visited;
use enfilade_faces::browser::{Target, query, redirect, set_cookie, target, url};
use enfilade_faces::credential::{START_COOKIE, cookie};
use enfilade_faces::{Answer, Connection, Faces, Failure, Reply, RequestContext, RequestError};
use enfilade_facts::tables::SecretDigest;
use enfilade_facts::vocabulary::{from_lower_hex, to_hex};
use enfilade_passage::secret_digest;
use hyper::HeaderMap;

/// The time in which a user must sign in, in seconds.
const START_SECONDS: i64 = 3_600;

pub(crate) fn start(context: RequestContext<'_>) -> Reply<'_> {
    Reply::later(async move {
        let RequestContext { faces, connection, request, mut trace } = context;
        trace.event.face = "sign-in";
        trace.event.path = request.uri().path().to_owned();
        let result = begin(faces, connection, request.uri(), request.headers()).await;
        answered(result, trace)
    })
}

async fn begin(
    faces: &Faces,
    mut connection: Connection,
    uri: &hyper::Uri,
    headers: &HeaderMap,
) -> Result<Answer, Failure> {
    knows_proxy(faces, &mut connection).await?;
    let origin = faces.sign_in().ok_or(RequestError::NoRoute)?;
    let visited = Visited::read(headers)?;
    visited.origin(faces)?;
    connection.anonymous.release();
    // If the browser already has a secret, the same secret is used again, because the user may have opened several pages at the same time.
    let known = cookie(headers, START_COOKIE).and_then(|text| std::str::from_utf8(text).ok());
    let secret = match known.filter(|text| from_lower_hex::<32>(text).is_some()) {
        Some(known) => known.to_owned(),
        None => {
            let halves = [faces.house().random(), faces.house().random()];
            let [Some(one), Some(other)] = halves else { return Err(RequestError::Worker.into()) };
            to_hex(&[one, other].concat())
        }
    };
    let SecretDigest(state) = secret_digest(secret.as_bytes());
    let (state, to) = (to_hex(&state), target(&query(uri)).unwrap_or_else(Target::root));
    let parameters = [("host", visited.host.as_str()), ("state", &state), ("to", to.as_str())];
    let mut answer = redirect(&url(&format!("{origin}{SIGN_IN}"), &parameters));
    set_cookie(&mut answer, START_COOKIE, &secret, START_SECONDS);
    Ok(answer)
}

/// The digest of the secret of a browser; `None` if the browser has no secret.
pub(super) fn browser_of(headers: &HeaderMap) -> Option<SecretDigest> {
    cookie(headers, START_COOKIE).map(secret_digest)
}
