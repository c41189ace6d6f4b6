//! The AuthZEN Authorization API 1.0 (OpenID Foundation, final 2026-01-11): a service that has authenticated a user itself asks what the user may do.
//!
//! | in AuthZEN | here |
//! |---|---|
//! | subject `{"type": "user", "id": "alice@local"}` | a user or an API token with this authid; a name without a realm is in the realm `local` |
//! | resource `{"type": "wiki", "id": "pages/1"}` | the type is the name of an application, the id a path in it |
//! | resource `{"type": "url", "id": "https://wiki.example.com/pages/1"}` | the application of the host |
//! | action `{"name": "read"}` | `read`, `write`, `delete`, `administer`, or the name of a method such as `GET` |
//!
//! A subject, resource or action that is unknown here is denied, and not an error. `properties` and `context` are ignored: a decision rests on facts,
//! not on claims of the asking service.

use crate::{NO_STORE, knows_proxy};
use enfilade_faces::{
    Answer, Body, Faces, Failure, Received, Reply, RequestContext, RequestError, collect_json, status_of,
};
use enfilade_facts::Refuse as _;
use enfilade_facts::tables::Key;
use enfilade_facts::vocabulary::{
    ApplicationName, Authid, HostName, Realm, StorePath, UserId, Userid, from_hex, to_hex,
};
use enfilade_passage::{ApplicationAsk, Method, Page, Site};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The maximum number of questions in one batch.
const EVALUATIONS_MAX: usize = 1_000;
/// The maximum number of results of a search in one response. This number is also the default if the request contains no number.
const RESULTS_MAX: usize = 1_000;

/// A subject or a resource. The target of a search has no id.
#[derive(Clone, Deserialize)]
struct Entity {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
}

#[derive(Clone, Deserialize)]
struct Action {
    name: String,
}

#[derive(Deserialize)]
struct Question {
    subject: Option<Entity>,
    resource: Option<Entity>,
    action: Option<Action>,
    /// The server checks that the value is an object, and then ignores it.
    #[serde(default)]
    #[expect(dead_code, reason = "only its type is checked")]
    context: Option<std::collections::HashMap<String, IgnoredAny>>,
    #[serde(default)]
    evaluations: Vec<Question>,
    options: Option<Options>,
    page: Option<PageAsk>,
}

#[derive(Default, Deserialize)]
struct Options {
    #[serde(default)]
    evaluations_semantic: Semantic,
}

/// The questions of a batch that are judged.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Semantic {
    #[default]
    ExecuteAll,
    DenyOnFirstDeny,
    PermitOnFirstPermit,
}

#[derive(Deserialize)]
struct PageAsk {
    token: Option<String>,
    limit: Option<usize>,
}

/// An error in the request. The service gets the error with the status 400.
struct Wrong(&'static str);

/// A question to door 4. `None` if a part of the question names something that this server does not know. Then the answer is a denial.
type Asked = Option<(Authid, ApplicationAsk)>;

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
        // An evaluation that cannot be read is denied. The other evaluations are judged.
        let asked =
            question.evaluations.iter().map(|one| read(one, Some(&question)).ok().flatten()).collect();
        let mut decisions = judge(faces, asked)?;
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
        let Some(ask) = ask_of(resource, &action.name).filter(|_| subject.kind == "user") else {
            return Ok(nothing());
        };
        let after = match token {
            None => None,
            Some(text) => {
                let id = from_hex(text).and_then(|bytes| <UserId as Key>::from_bytes(&bytes));
                Some(id.ok_or(Wrong("the page token is not one of this server"))?)
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
        let target = Entity { kind: resource.kind.clone(), id: Some(String::new()) };
        let named = resource.kind.parse::<ApplicationName>().ok().filter(|_| resource.kind != "url");
        let (Some(name), Some(authid), Some(ask)) =
            (named, authid_of(subject), ask_of(&target, &action.name))
        else {
            return Ok(nothing());
        };
        let after = token.map(|text| {
            StorePath::from_plain(text).map_err(|_| Wrong("the page token is not one of this server"))
        });
        let after = after.transpose()?;
        let Page { found, after } = faces.house().where_may(&authid, (&name, &ask), after.as_ref(), limit)?;
        let found = found.into_iter().map(|path| json!({ "type": resource.kind, "id": path.as_str() }));
        // The token for the root is a slash, because an empty token would mean that there are no further results.
        Ok(results(found.collect(), after.map(|path| path.to_string())))
    })
}

pub(crate) fn actions(context: RequestContext<'_>) -> Reply<'_> {
    answered(context, |faces, question| {
        let (subject, resource) = (identified(&question.subject)?, identified(&question.resource)?);
        page_of(&question)?;
        let names = ["read", "write", "delete", "administer"];
        let asked = |name| Some((authid_of(subject)?, ask_of(resource, name)?));
        let decisions = judge(faces, names.map(asked).into_iter().collect())?;
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
    /// A door refused, for example because the facts cannot be read.
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
    answer: impl FnOnce(&Faces, Question) -> Result<String, Failed> + Send + 'f,
) -> Reply<'f> {
    Reply::later(async move {
        let RequestContext { faces, mut connection, request, mut trace } = context;
        trace.event.face = "authzen";
        trace.event.path = request.uri().path().to_owned();
        if let Err(failure) = knows_proxy(faces, &mut connection).await {
            trace.failed(&failure);
            let answer = respond(StatusCode::UNAUTHORIZED, &json!("the asking service is not known"));
            trace.answered(&answer);
            return answer;
        }
        // The processes at the Unix socket are known, too. So their connections also free their slots.
        connection.anonymous.release();
        let asked = match question(request, faces).await {
            Ok(question) => answer(faces, question),
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

async fn question(request: Request<Received>, faces: &Faces) -> Result<Question, Failed> {
    if !is_json(request.headers()) {
        return Err(Wrong("expected the Content-Type application/json").into());
    }
    let body = collect_json(request.into_body(), &faces.limits()).await?;
    serde_json::from_slice(&body)
        .map_err(|_| Wrong("the body is not JSON, or a field has the wrong type").into())
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

/// The maximum number of results, and the token of the page.
fn page_of(question: &Question) -> Result<(usize, Option<&str>), Wrong> {
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

fn identified(part: &Option<Entity>) -> Result<&Entity, Wrong> {
    needed(part).and_then(|entity| if entity.id.is_some() { Ok(entity) } else { Err(NO_ID) })
}

/// The question of an evaluation. If the evaluation leaves out a part of the question, the part of the whole batch counts.
fn read(question: &Question, batch: Option<&Question>) -> Result<Asked, Wrong> {
    let subject = question.subject.as_ref().or_else(|| batch?.subject.as_ref());
    let resource = question.resource.as_ref().or_else(|| batch?.resource.as_ref());
    let action = question.action.as_ref().or_else(|| batch?.action.as_ref()).ok_or(MISSING)?;
    let (subject, resource) = (subject.ok_or(MISSING)?, resource.ok_or(MISSING)?);
    if subject.id.is_none() || resource.id.is_none() {
        return Err(NO_ID);
    }
    Ok(authid_of(subject).zip(ask_of(resource, &action.name)))
}

/// The answer to a single question.
fn one(faces: &Faces, question: &Question) -> Result<Verdict, Failed> {
    let decisions = judge(faces, vec![read(question, None)?])?;
    Ok(decisions.into_iter().next().unwrap_or(DENIED))
}

fn judge(faces: &Faces, asked: Vec<Asked>) -> Result<Vec<Verdict>, Failed> {
    let are_known: Vec<bool> = asked.iter().map(Option::is_some).collect();
    let known: Vec<_> = asked.into_iter().flatten().collect();
    let mut judged = faces.house().judge_for_service(&known)?.into_iter();
    let decision = |is_known: bool| match is_known.then(|| judged.next()).flatten() {
        Some(Ok(())) => Verdict { decision: true, context: None },
        Some(Err(why)) => Verdict { decision: false, context: Some(Reason { code: why.code() }) },
        None => DENIED,
    };
    Ok(are_known.into_iter().map(decision).collect())
}

/// The user or token that a subject names.
fn authid_of(subject: &Entity) -> Option<Authid> {
    let id = subject.id.as_deref().filter(|_| subject.kind == "user")?;
    match id.contains('@') {
        true => id.parse().ok(),
        false => Userid::new(id, Realm::local()).ok().map(Authid::from),
    }
}

/// The id of a user in a search result. The id does not contain the realm `local`, and can be used unchanged in a question.
fn shown(user: &Userid) -> String {
    match *user.realm() == Realm::local()
        && Userid::new(user.name(), Realm::local()).is_ok_and(|same| same == *user)
    {
        true if !user.name().contains('@') => user.name().to_owned(),
        _ => user.to_string(),
    }
}

/// The request that a resource and an action stand for.
fn ask_of(resource: &Entity, action: &str) -> Option<ApplicationAsk> {
    let method = match action {
        "read" => "GET",
        "write" => "POST",
        "delete" => "DELETE",
        "administer" => "ACL",
        method => method,
    };
    let method = Method::named(method).filter(|method| method.class_of_destination().is_none())?;
    let id = resource.id.as_deref()?;
    let (site, path) = match resource.kind.as_str() {
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
