//! LOCK and UNLOCK (RFC 4918 §9.10 and §9.11).

use super::conditions::RequestConditions;
use super::multistatus::push_lock;
use super::xml::{Piece, Pieces};
use super::{Call, empty, end};
use enfilade_faces::blocking_failure;
use enfilade_faces::{Aim, Answer, Body, Failure, RequestError, collect_xml, list};
use enfilade_facts::limits::{LOCK_OWNER_BYTES_MAX, Limits};
use enfilade_facts::vocabulary::OperationKind;
use enfilade_passage::{Blocking, ContentRefusal, LockTerms, LockToken, Refusal, ShownLock};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};

pub(crate) async fn lock(call: Call) -> Answer {
    let Call { visit, place, request, trace, .. } = call;
    let (head, body) = request.into_parts();
    let outcome = async {
        let conditions = RequestConditions::of(&head)?;
        let (limits, seconds) = (visit.limits(), seconds(&head.headers, &visit.limits()));
        let is_deep = is_deep(&head.headers)?;
        let asked = read(&collect_xml(body, &limits).await?, &limits)?;
        let (lock, is_new, is_refreshed, now) = blocking_failure(visit.share(), move || {
            let mut stay = visit.enter(&place.datastore, OperationKind::Write, Blocking)?;
            let path = place.path.clone();
            let tokens = conditions.check_twice(&mut stay, place)?;
            let now = stay.now().unix_seconds;
            Ok(match asked {
                Some((is_exclusive, said)) => {
                    let terms = LockTerms { is_deep, is_exclusive, said, seconds };
                    let (lock, is_new) = stay.lock(&path, terms, &tokens)?;
                    (lock, is_new, false, now)
                }
                // A LOCK without a body refreshes an existing lock (RFC 4918 §9.10.2).
                None => (stay.refresh_lock(&path, &tokens, seconds)?, false, true, now),
            })
        })
        .await?;
        let mut xml = String::from(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>",
        );
        push_lock(&mut xml, &ShownLock { lock: lock.clone(), shows_token: true }, now);
        xml.push_str("</D:lockdiscovery></D:prop>\n");
        let mut answer = Response::new(Body::from(xml));
        *answer.status_mut() = if is_new { StatusCode::CREATED } else { StatusCode::OK };
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=utf-8"));
        if let (false, Ok(token)) = (is_refreshed, HeaderValue::from_str(&format!("<{}>", lock.token))) {
            headers.insert(HeaderName::from_static("lock-token"), token);
        }
        Ok(answer)
    };
    let outcome: Result<Answer, Failure> = outcome.await;
    end(trace, outcome, Aim::File)
}

pub(crate) async fn unlock(call: Call) -> Answer {
    let Call { visit, place, request, trace, .. } = call;
    let (head, _) = request.into_parts();
    let outcome = async {
        let token = token(&head.headers)?;
        let unlocked = blocking_failure(visit.share(), move || {
            let mut stay = visit.enter(&place.datastore, OperationKind::Write, Blocking)?;
            // A token that does not have the form of this server's lock tokens belongs to no lock.
            let token = token.ok_or(Refusal::from(ContentRefusal::NoSuchLock))?;
            Ok(stay.unlock(&place.path, token)?)
        });
        unlocked.await?;
        Ok(empty(StatusCode::NO_CONTENT))
    };
    let outcome: Result<Answer, Failure> = outcome.await;
    // RFC 4918 §9.11.1: the status is 409 if the token belongs to no lock of this resource.
    let outcome = outcome.or_else(|failure| match failure {
        Failure::Refused(Refusal::Content(ContentRefusal::NoSuchLock)) => Ok(empty(StatusCode::CONFLICT)),
        other => Err(other),
    });
    end(trace, outcome, Aim::Target)
}

fn token(headers: &HeaderMap) -> Result<Option<LockToken>, RequestError> {
    let bad = RequestError::Header("Lock-Token");
    let said = headers.get("lock-token").and_then(|value| value.to_str().ok()).ok_or(bad)?;
    let said = said.trim().strip_prefix('<').and_then(|said| said.strip_suffix('>')).ok_or(bad)?;
    Ok(said.parse().ok())
}

fn is_deep(headers: &HeaderMap) -> Result<bool, RequestError> {
    match headers.get("depth").map(|value| value.as_bytes()) {
        Some(b"0") => Ok(false),
        None => Ok(true),
        Some(value) if value.eq_ignore_ascii_case(b"infinity") => Ok(true),
        Some(_) => Err(RequestError::Header("Depth")),
    }
}

/// The first supported timeout in the client's list, in seconds, but at least 1 and at most the limit `lock_seconds`. Malformed timeouts are ignored
/// (RFC 4918 §10.7). If the list contains no supported timeout, the result is the limit.
pub(super) fn seconds(headers: &HeaderMap, limits: &Limits) -> i64 {
    let said = list(headers, "timeout").unwrap_or_default();
    let most = limits.lock_seconds.cast_signed();
    let mut each = said.split(',').map(str::trim);
    each.find_map(|one| one.strip_prefix("Second-")?.parse::<u32>().ok())
        .map_or(most, |seconds| i64::from(seconds).clamp(1, most))
}

/// Reads two things from the body: whether the client requests an exclusive lock, and the owner element. `None` if there is no body.
pub(super) fn read(body: &[u8], limits: &Limits) -> Result<Option<(bool, String)>, RequestError> {
    if body.is_empty() {
        return Ok(None);
    }
    let mut pieces = Pieces::new(body, limits);
    let (mut scope, mut is_write, mut owner, mut inside) = (None, false, String::new(), String::new());
    while let Some(piece) = pieces.next()? {
        let Piece::Begin(element) = piece else { continue };
        let name = element.name;
        match (pieces.depth(), inside.as_str()) {
            (1, _) if name.is_dav("lockinfo") => {}
            (1, _) => return Err(RequestError::Xml("expected one DAV:lockinfo element")),
            (2, _) if name.is_dav("owner") => {
                owner = pieces.inner_xml(LOCK_OWNER_BYTES_MAX, "the lock's owner is longer than 4 KiB")?;
            }
            (2, _) => {
                inside = if name.namespace.as_deref() == Some("DAV:") { name.local } else { String::new() }
            }
            (3, "lockscope") if name.is_dav("exclusive") => scope = Some(true),
            (3, "lockscope") if name.is_dav("shared") => scope = Some(false),
            (3, "locktype") if name.is_dav("write") => is_write = true,
            _ => {}
        }
    }
    match (scope, is_write) {
        (Some(is_exclusive), true) => Ok(Some((is_exclusive, owner))),
        _ => Err(RequestError::Xml(
            "expected DAV:lockscope with exclusive or shared, and DAV:locktype with write",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_send() {
        let body = |scope: &str, owner: &str| {
            format!(
                "<lockinfo xmlns='DAV:'><lockscope>{scope}</lockscope><locktype><write/></locktype>{owner}</lockinfo>"
            )
        };
        for (body, asked) in [
            (String::new(), None),
            (body("<exclusive/>", "<owner>me</owner>"), Some((true, "me".to_owned()))),
            (
                body("<shared/>", "<owner><href>urn:me</href></owner>"),
                Some((false, "<href xmlns=\"DAV:\">urn:me</href>".to_owned())),
            ),
        ] {
            assert_eq!(read(body.as_bytes(), &Limits::default()), Ok(asked), "{body}");
        }
        for body in [
            body("", ""),
            body("<x/>", ""),
            "<a/>".into(),
            body("<shared/>", &format!("<owner>{}</owner>", "x".repeat(5000))),
        ] {
            assert!(matches!(read(body.as_bytes(), &Limits::default()), Err(RequestError::Xml(_))), "{body}");
        }
    }

    #[test]
    fn how_long_a_lock_lasts() {
        for (said, expected) in [
            ("Second-60", 60),
            ("Infinite, Second-4100000000", 3600),
            ("Infinite", 3600),
            ("Second-0", 1),
            ("nonsense", 3600),
        ] {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static("timeout"), HeaderValue::from_static(said))]);
            assert_eq!(seconds(&headers, &Limits::default()), expected, "{said}");
        }
    }
}
