//! The AuthZEN Authorization API 1.0 (OpenID Foundation, final 2026-01-11): a service that has authenticated a user itself asks this server what the
//! user may do.
//!
//! | in AuthZEN | here |
//! |---|---|
//! | subject `{"type": "user", "id": "alice@local"}` | a user or an API token with this authid; a name without a realm is in the realm `local` |
//! | resource `{"type": "wiki", "id": "pages/1"}` | the type is the name of an application, and the id is a path in the application |
//! | resource `{"type": "url", "id": "https://wiki.example.com/pages/1"}` | the application of the host |
//! | action `{"name": "read"}` | `read`, `write`, `delete`, `administer`, or the name of a method such as `GET` |
//!
//! A question about an unknown subject, resource or action is not an error. The answer to such a question is a denial, and the result of such a
//! search is empty. `properties` and `context` are ignored: a decision depends on stored facts, and not on such information from the asking service.

use crate::{NO_STORE, knows_proxy};
use enfilade_faces::{
    Answer, Body, Faces, Failure, Received, Reply, RequestContext, RequestError, collect_json, status_of,
};
use enfilade_facts::tables::Key;
use enfilade_facts::vocabulary::{
    ApplicationName, Authid, HostName, Realm, StorePath, UserId, Userid, from_hex, to_hex,
};
use enfilade_passage::{ApplicationAsk, Judged, Method, Page, Site};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// The maximum number of questions in one batch.
const EVALUATIONS_MAX: usize = 1_000;
/// The maximum number of results of a search in one response. This number is also the default if the request contains no limit.
const RESULTS_MAX: usize = 1_000;

/// A text in the request. The text is copied only if it contains escape sequences.
#[derive(Deserialize)]
struct Text<'q>(#[serde(borrow)] Cow<'q, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// A JSON object with any members. The members are ignored.
struct Object;

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct AnyMembers;
        impl<'de> Visitor<'de> for AnyMembers {
            type Value = Object;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Object, M::Error> {
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Object)
            }
        }
        from.deserialize_map(AnyMembers)
    }
}

/// A subject or a resource. The target of a search has no id.
#[derive(Deserialize)]
struct Entity<'q> {
    #[serde(rename = "type", borrow)]
    kind: Text<'q>,
    #[serde(borrow)]
    id: Option<Text<'q>>,
}

#[derive(Deserialize)]
struct Action<'q> {
    #[serde(borrow)]
    name: Text<'q>,
}

#[derive(Deserialize)]
struct Question<'q> {
    #[serde(borrow)]
    subject: Option<Entity<'q>>,
    #[serde(borrow)]
    resource: Option<Entity<'q>>,
    #[serde(borrow)]
    action: Option<Action<'q>>,
    #[serde(default)]
    #[expect(dead_code, reason = "only its type is checked")]
    context: Option<Object>,
    #[serde(default, borrow)]
    evaluations: Vec<Question<'q>>,
    options: Option<Options>,
    #[serde(borrow)]
    page: Option<Box<PageAsk<'q>>>,
}

#[derive(Default, Deserialize)]
struct Options {
    #[serde(default)]
    evaluations_semantic: Semantic,
}

/// The part of the answers to a batch that the response contains: all answers, or only the answers up to the first denial or the first permit.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Semantic {
    #[default]
    ExecuteAll,
    DenyOnFirstDeny,
    PermitOnFirstPermit,
}

#[derive(Deserialize)]
struct PageAsk<'q> {
    #[serde(borrow)]
    token: Option<Text<'q>>,
    limit: Option<usize>,
}

/// An error in the request. The asking service gets the text of the error, with the status 400.
struct Wrong(&'static str);

/// The subjects of the questions of a call. Most batches ask about few users, so each name is parsed only once.
#[derive(Default)]
struct Subjects<'q> {
    /// For each id, its index in `known`; `None` if the id is not the name of a user or token.
    numbers: HashMap<&'q str, Option<usize>>,
    known: Vec<Authid>,
}

impl<'q> Subjects<'q> {
    /// The index in `known` of the user or token that a subject names.
    fn number(&mut self, subject: &'q Entity<'_>) -> Option<usize> {
        let id = subject.id.as_deref().filter(|_| &*subject.kind == "user")?;
        *self.numbers.entry(id).or_insert_with(|| {
            self.known.push(authid_of(subject)?);
            Some(self.known.len() - 1)
        })
    }
}

pub(crate) fn evaluation(context: RequestContext<'_>) -> Reply<'_> {
    answered(context, |faces, question| Ok(text(&one(faces, &question)?)))
}

pub(crate) fn evaluations(context: RequestContext<'_>) -> Reply<'_> {
    answered(context, |faces, question| {
        if question.evaluations.is_empty() {
            return Ok(text(&one(faces, &question)?));
        }
        if question.evaluations.len() > EVALUATIONS_MAX {
            return Err(Wrong("expected at most 1,000 evaluations").into());
        }
        // If a part of an evaluation is missing, the answer to this evaluation is a denial. The other evaluations are still judged.
        let parts = question.evaluations.iter().map(|one| Parts::of(one, Some(&question)).ok());
        let mut decisions = judge(faces, parts.collect())?;
        let last = match question.options.map(|options| options.evaluations_semantic).unwrap_or_default() {
            Semantic::ExecuteAll => None,
            Semantic::DenyOnFirstDeny => Some(false),
            Semantic::PermitOnFirstPermit => Some(true),
        };
        let ends = |last: bool| decisions.iter().position(|one| one.decision == last);
        if let Some(at) = last.and_then(ends) {
            decisions.truncate(at + 1);
        }
        Ok(text(&Verdicts { evaluations: decisions }))
    })
}

pub(crate) fn subjects(context: RequestContext<'_>) -> Reply<'_> {
    answered(context, |faces, question| {
        let (subject, resource, action) =
            (needed(&question.subject)?, identified(&question.resource)?, needed(&question.action)?);
        let (limit, token) = page_of(&question)?;
        let Some(ask) = ask_of(resource, &action.name).filter(|_| &*subject.kind == "user") else {
            return Ok(nothing());
        };
        let after = match token {
            None => None,
            Some(text) => {
                let id = from_hex(text).and_then(|bytes| <UserId as Key>::from_bytes(&bytes));
                Some(id.ok_or(Wrong("this server did not issue the page token"))?)
            }
        };
        let Page { found, after } = faces.house().who_may(&ask, after.as_ref(), limit)?;
        let found = found.into_iter().map(|user| json!({ "type": "user", "id": shown(&user) }));
        Ok(results(found.collect(), after.map(|id| to_hex(&Key::bytes(&id)))))
    })
}

pub(crate) fn resources(context: RequestContext<'_>) -> Reply<'_> {
    answered(context, |faces, question| {
        let (subject, resource, action) =
            (identified(&question.subject)?, needed(&question.resource)?, needed(&question.action)?);
        let (limit, token) = page_of(&question)?;
        let target = Entity { kind: Text(Cow::Borrowed(&resource.kind)), id: Some(Text(Cow::Borrowed(""))) };
        let named = resource.kind.parse::<ApplicationName>().ok().filter(|_| &*resource.kind != "url");
        let (Some(name), Some(authid), Some(ask)) =
            (named, authid_of(subject), ask_of(&target, &action.name))
        else {
            return Ok(nothing());
        };
        let after = token.map(|text| {
            StorePath::from_plain(text).map_err(|_| Wrong("this server did not issue the page token"))
        });
        let after = after.transpose()?;
        let Page { found, after } = faces.house().where_may(&authid, (&name, &ask), after.as_ref(), limit)?;
        let found = found.into_iter().map(|path| json!({ "type": &*resource.kind, "id": path.as_str() }));
        // If the last result on the page is the root, the page token is a slash. An empty page token would mean that there are no further results.
        Ok(results(found.collect(), after.map(|path| path.to_string())))
    })
}

pub(crate) fn actions(context: RequestContext<'_>) -> Reply<'_> {
    answered(context, |faces, question| {
        let (subject, resource) = (identified(&question.subject)?, identified(&question.resource)?);
        page_of(&question)?;
        let names = ["read", "write", "delete", "administer"];
        let parts = |name| Some(Parts { subject, resource, action: name });
        let decisions = judge(faces, names.map(parts).into())?;
        let found = names.into_iter().zip(decisions).filter(|(_, one)| one.decision);
        Ok(results(found.map(|(name, _)| json!({ "name": name })).collect(), None))
    })
}

pub(crate) fn configuration(context: RequestContext<'_>) -> Reply<'_> {
    let request = &context.request;
    let in_header = || request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = request.uri().authority().map(|authority| authority.as_str()).or_else(in_header);
    let host = host.unwrap_or("localhost");
    let base = format!("https://{host}");
    let value = json!({
        "policy_decision_point": base,
        "access_evaluation_endpoint": format!("{base}/access/v1/evaluation"),
        "access_evaluations_endpoint": format!("{base}/access/v1/evaluations"),
        "search_subject_endpoint": format!("{base}/access/v1/search/subject"),
        "search_resource_endpoint": format!("{base}/access/v1/search/resource"),
        "search_action_endpoint": format!("{base}/access/v1/search/action"),
    });
    let mut trace = context.trace;
    trace.event.face = "authzen";
    let answer = respond(StatusCode::OK, &value);
    trace.answered(&answer);
    Reply::Now(answer)
}

/// The answer to a question.
#[derive(Serialize)]
struct Verdict {
    decision: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Reason>,
}

/// The code of a refusal.
#[derive(Serialize)]
struct Reason {
    code: &'static str,
}

#[derive(Serialize)]
struct Verdicts {
    evaluations: Vec<Verdict>,
}

const DENIED: Verdict = Verdict { decision: false, context: None };

fn text(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}

/// The reason why a call failed.
enum Failed {
    /// The request is malformed.
    Wrong(&'static str),
    /// The body is too long, too slow or broken, or the facts cannot be read.
    Failure(Failure),
}

impl From<Wrong> for Failed {
    fn from(Wrong(why): Wrong) -> Self {
        Failed::Wrong(why)
    }
}

impl<F: Into<Failure>> From<F> for Failed {
    fn from(failure: F) -> Self {
        Failed::Failure(failure.into())
    }
}

/// Reads the question of a call, and answers it.
fn answered<'f>(
    context: RequestContext<'f>,
    answer: impl FnOnce(&Faces, Question<'_>) -> Result<String, Failed> + Send + 'f,
) -> Reply<'f> {
    Reply::later(async move {
        let RequestContext { faces, mut connection, request, mut trace } = context;
        trace.event.face = "authzen";
        trace.event.path = request.uri().path().to_owned();
        if let Err(failure) = knows_proxy(faces, &mut connection).await {
            trace.failed(&failure);
            let answer = respond(
                StatusCode::UNAUTHORIZED,
                &json!(
                    "the asking service has no usable client certificate, or may not ask: the log of the server says why"
                ),
            );
            trace.answered(&answer);
            return answer;
        }
        // The asking service is authenticated, so its connection frees its slot among the unauthenticated connections. A process that connects over
        // the Unix socket also counts as authenticated.
        connection.anonymous.release();
        let asked = match body(request, faces).await {
            Ok(body) => question(body.as_ref()).and_then(|question| answer(faces, question)),
            Err(failed) => Err(failed),
        };
        let answer = match asked {
            Ok(text) => respond_with(StatusCode::OK, text),
            Err(Failed::Wrong(why)) => {
                trace.invalid(why);
                respond(StatusCode::BAD_REQUEST, &json!(why))
            }
            Err(Failed::Failure(failure)) => {
                trace.failed(&failure);
                let status = match &failure {
                    Failure::Request(RequestError::JsonDepth) => StatusCode::BAD_REQUEST,
                    failure => status_of(failure),
                };
                respond(status, &json!(status.canonical_reason()))
            }
        };
        trace.answered(&answer);
        answer
    })
}

async fn body(request: Request<Received>, faces: &Faces) -> Result<impl AsRef<[u8]> + Send, Failed> {
    if !is_json(request.headers()) {
        return Err(Wrong("expected the Content-Type application/json").into());
    }
    Ok(collect_json(request.into_body(), &faces.limits()).await?)
}

fn question(body: &[u8]) -> Result<Question<'_>, Failed> {
    // The check for UTF-8 is made once for the whole body, because this is faster than a check of each text.
    let question = std::str::from_utf8(body).ok().and_then(|body| serde_json::from_str(body).ok());
    question.ok_or_else(|| Wrong("the body is not JSON, or a field has the wrong type").into())
}

fn is_json(headers: &HeaderMap) -> bool {
    let text = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = text.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

fn respond(status: StatusCode, value: &Value) -> Answer {
    respond_with(status, value.to_string())
}

fn respond_with(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Body::from(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    answer
}

fn nothing() -> String {
    results(Vec::new(), None)
}

fn results(found: Vec<Value>, next: Option<String>) -> String {
    json!({ "results": found, "page": { "next_token": next.unwrap_or_default(), "count": found.len() } })
        .to_string()
}

/// The maximum number of results on the requested page, and the token of the page.
fn page_of<'a>(question: &'a Question<'_>) -> Result<(usize, Option<&'a str>), Wrong> {
    let Some(page) = &question.page else { return Ok((RESULTS_MAX, None)) };
    match page.limit {
        Some(0) => Err(Wrong("expected a page limit of at least 1")),
        limit => Ok((
            limit.unwrap_or(RESULTS_MAX).min(RESULTS_MAX),
            page.token.as_deref().filter(|token| !token.is_empty()),
        )),
    }
}

const MISSING: Wrong = Wrong("subject, action or resource is missing");
const NO_ID: Wrong = Wrong("the id of the subject or resource is missing");

fn needed<T>(part: &Option<T>) -> Result<&T, Wrong> {
    part.as_ref().ok_or(MISSING)
}

fn identified<'a, 'q>(part: &'a Option<Entity<'q>>) -> Result<&'a Entity<'q>, Wrong> {
    needed(part).and_then(|entity| if entity.id.is_some() { Ok(entity) } else { Err(NO_ID) })
}

/// The parts of a question.
#[derive(Clone, Copy)]
struct Parts<'a> {
    subject: &'a Entity<'a>,
    resource: &'a Entity<'a>,
    action: &'a str,
}

impl<'a> Parts<'a> {
    /// The parts of an evaluation. If the evaluation leaves out a part, the part of the whole batch is used.
    fn of(question: &'a Question<'_>, batch: Option<&'a Question<'_>>) -> Result<Self, Wrong> {
        let subject = question.subject.as_ref().or_else(|| batch?.subject.as_ref());
        let resource = question.resource.as_ref().or_else(|| batch?.resource.as_ref());
        let action = question.action.as_ref().or_else(|| batch?.action.as_ref()).ok_or(MISSING)?;
        let (subject, resource) = (subject.ok_or(MISSING)?, resource.ok_or(MISSING)?);
        match subject.id.is_some() && resource.id.is_some() {
            true => Ok(Parts { subject, resource, action: &action.name }),
            false => Err(NO_ID),
        }
    }
}

/// The answer to a single question.
fn one(faces: &Faces, question: &Question<'_>) -> Result<Verdict, Failed> {
    let decisions = judge(faces, vec![Some(Parts::of(question, None)?)])?;
    Ok(decisions.into_iter().next().unwrap_or(DENIED))
}

/// The answers to questions. A question is denied if a part is missing, or if the subject, resource or action is unknown on this server.
fn judge(faces: &Faces, asked: Vec<Option<Parts<'_>>>) -> Result<Vec<Verdict>, Failed> {
    let mut subjects = Subjects::default();
    let numbers: Vec<_> = asked.iter().map(|parts| subjects.number(parts.as_ref()?.subject)).collect();
    let questions = asked.iter().zip(numbers).map(|(parts, nth)| {
        let Parts { resource, action, .. } = parts.as_ref()?;
        Some((nth?, ask_of(resource, action)?))
    });
    let judged = faces.house().judge_for_service(&subjects.known, questions)?;
    let verdict = |judged: Judged| match judged {
        Ok(()) => Verdict { decision: true, context: None },
        Err(code) => Verdict { decision: false, context: code.map(|code| Reason { code }) },
    };
    Ok(judged.into_iter().map(verdict).collect())
}

/// The user or token that a subject names.
fn authid_of(subject: &Entity<'_>) -> Option<Authid> {
    let id = subject.id.as_deref().filter(|_| &*subject.kind == "user")?;
    match id.contains('@') {
        true => id.parse().ok(),
        false => Userid::new(id, Realm::local()).ok().map(Authid::from),
    }
}

/// The id of a user in a search result. A service can use the id unchanged in a question. The id of a user in the realm `local` does not contain the
/// realm, unless the name of the user contains `@`.
fn shown(user: &Userid) -> String {
    match *user.realm() == Realm::local()
        && Userid::new(user.name(), Realm::local()).is_ok_and(|same| same == *user)
    {
        true if !user.name().contains('@') => user.name().to_owned(),
        _ => user.to_string(),
    }
}

/// The request that a resource and an action stand for.
fn ask_of(resource: &Entity<'_>, action: &str) -> Option<ApplicationAsk> {
    let method = match action {
        "read" => "GET",
        "write" => "POST",
        "delete" => "DELETE",
        "administer" => "ACL",
        method => method,
    };
    let method = Method::named(method).filter(|method| method.class_of_destination().is_none())?;
    let id = resource.id.as_deref()?;
    let (site, path) = match &*resource.kind {
        "url" => HostName::and_path_of(id).map(|(host, path)| (Site::Host(host), path)).ok()?,
        name => (Site::Named(name.parse().ok()?), StorePath::from_plain(id).ok()?),
    };
    let recurses = method.recurses(None);
    Some(ApplicationAsk {
        site,
        only: None,
        method,
        path,
        destination: None,
        recurses,
        upgrades: false,
        is_preflight: false,
    })
}
