//! Identity v3, as OpenStack's clients and services use it: tokens, the catalog, and records such as users, projects and roles.
//!
//! Bodies, headers and status codes are the same as in Keystone 30. The status for an invalid token of the caller is 401. The status for an invalid
//! token in `X-Subject-Token` or in the body of a login is 404. Only the log contains the reason why a token is invalid.

mod acting_domains;
mod application_credentials;
mod assignments;
mod auth;
mod blobs;
mod discovery;
mod domain_configs;
mod domains;
mod endpoint_filters;
mod federation;
mod request_body;
mod groups;
mod json_home;
mod listing;
mod oauth1;
mod oauth2;
mod oauth_signature;
mod mapping_rules;
mod policies;
mod project_tags;
mod projects;
mod receipts;
mod render;
mod resource;
mod roles;
mod routes;
mod schema;
mod scopes;
mod services;
mod signatures;
mod tokens;
mod trusts;
mod unified_limits;
mod users;

pub use blobs::{access_key, ec2_id, with_key};
pub use domain_configs::domain_options;
pub use endpoint_filters::group_filters;
pub use mapping_rules::check_mapping_rules;
pub use request_body::mfa_rules;
pub use routes::{V3, V3Need, V3Route};

use bytes::Bytes;
use enfilade_admin::ChangeContext;
use enfilade_faces::credential;
use enfilade_faces::{
    Answer, Body, Connection, Faces, Failure, Incoming, Reply, RequestContext, RequestError, Route, Takes,
    Trace, collect_form, collect_json, status_of,
};
use enfilade_facts::vocabulary::{DomainId, RequestId, percent_decoded_leniently};
use enfilade_facts::{CommitError, Read, SourceError, View};
use enfilade_passage::{
    About, AccessRefusal, ApiPermit, IdentityRefusal, KnownTo, Refusal, Rule, Scope, Visit, rule_named,
};
use hyper::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use routes::{Match, V3Call};
use serde_json::{Value, json};

/// The routes of the API. The route `/` lists the versions of the API.
pub const ROUTES: [Route; 3] = [
    Route::own("/v3", handle).says("Identity v3: show the version"),
    Route::own("/v3/", handle).says("Identity v3"),
    Route::own("/", handle).only("GET, HEAD").says("List the versions of the Identity API"),
];

fn handle(context: RequestContext<'_>) -> Reply<'_> {
    let RequestContext { faces, connection, request, trace } = context;
    Reply::later(async move { answer(faces, &connection, request, trace).await })
}

const SUBJECT: HeaderName = HeaderName::from_static("x-subject-token");
const RECEIPT: HeaderName = HeaderName::from_static("openstack-auth-receipt");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// The response to a call.
pub(crate) struct ApiResponse {
    status: StatusCode,
    body: Body,
    content_type: HeaderValue,
    /// The token that was created or validated.
    subject: Option<HeaderValue>,
    /// The receipt of a login that is not complete.
    receipt: Option<HeaderValue>,
}

impl ApiResponse {
    /// A response with a body of JSON.
    fn new(status: StatusCode, body: Body) -> Self {
        let content_type = HeaderValue::from_static("application/json");
        ApiResponse { status, body, content_type, subject: None, receipt: None }
    }

    fn json(status: StatusCode, value: &Value) -> Self {
        Self::new(status, Body::from(value.to_string()))
    }

    fn no_content() -> Self {
        Self::new(StatusCode::NO_CONTENT, Body::empty())
    }

    /// The response to a login. The header contains the token. The body describes the session.
    fn with_token(status: StatusCode, body: Bytes, token: &str) -> Self {
        ApiResponse { subject: secret_header(token), ..Self::new(status, body.into()) }
    }

    /// The response to a login that is not complete. The header contains the receipt. The body contains the methods that were accepted and the
    /// methods that are still required.
    fn with_receipt(value: &Value, receipt: &str) -> Self {
        ApiResponse { receipt: secret_header(receipt), ..Self::json(StatusCode::UNAUTHORIZED, value) }
    }
}

/// The value of a header that is a secret.
fn secret_header(secret: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(secret).ok().map(|mut value| {
        value.set_sensitive(true);
        value
    })
}

/// The error of a call.
pub(crate) enum ApiError {
    /// One of the doors refused the call, or the request is malformed.
    Failed(Failure),
    /// A status and a text for the client.
    Message(StatusCode, String),
    /// The token in `X-Subject-Token`, or in the body of a login, is invalid. Only the log contains the reason why the token is invalid.
    Subject(Refusal),
    /// An OAuth 2.0 grant type that is not supported.
    GrantType(String),
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        ApiError::Failed(refusal.into())
    }
}

impl From<RequestError> for ApiError {
    fn from(wire: RequestError) -> Self {
        ApiError::Failed(wire.into())
    }
}

impl ApiError {
    fn invalid(why: impl Into<String>) -> Self {
        ApiError::Message(StatusCode::BAD_REQUEST, why.into())
    }

    fn missing(what: &str, id: &str) -> Self {
        ApiError::Message(StatusCode::NOT_FOUND, format!("Could not find {what}: {id}."))
    }
}

impl From<enfilade_admin::Error> for ApiError {
    fn from(why: enfilade_admin::Error) -> Self {
        use enfilade_admin::Error;
        match why {
            Error::Source(why) => Refusal::from(why).into(),
            Error::Exists { .. } => ApiError::Message(StatusCode::CONFLICT, why.to_string()),
            Error::Missing { what, name, .. } => ApiError::missing(what, &name),
            Error::Refused(why) => ApiError::Message(StatusCode::FORBIDDEN, why),
            // The status is not 503, because the same request would fail again.
            Error::Commit(CommitError::TooLarge { what, bytes, limit, .. }) => ApiError::Message(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!(
                    "Request is too large: the record would have a {what} of {bytes} bytes; expected at most {limit}."
                ),
            ),
            Error::Commit(_) => ApiError::Message(StatusCode::SERVICE_UNAVAILABLE, why.to_string()),
            other => ApiError::invalid(other.to_string()),
        }
    }
}

impl From<SourceError> for ApiError {
    fn from(why: SourceError) -> Self {
        Refusal::from(why).into()
    }
}

pub(crate) type Outcome = Result<ApiResponse, ApiError>;

/// An API call with a session that door 2 (identity) accepted.
pub(crate) struct Call {
    faces: Faces,
    visit: Visit,
    head: Parts,
    route: &'static V3Route,
    /// The values of the path parameters.
    parameters: Vec<String>,
    body: Bytes,
    /// The base URL that the client used, such as `https://host:8443`.
    base: String,
    id: RequestId,
}

impl Call {
    /// The authorization rule of this call.
    fn rule(&self) -> Result<&'static Rule, ApiError> {
        rule_named(self.route.rule).ok_or_else(|| RequestError::NoRoute.into())
    }

    /// Returns the permit of door 4 (access) for this call, or its refusal.
    fn allow(&mut self, about: &About<'_>) -> Result<ApiPermit, ApiError> {
        let rule = self.rule()?;
        Ok(self.visit.use_api(rule, about)?)
    }

    /// Does the same as [`Call::allow`], but with the rule of this name. Some calls use this function because a parameter of the call selects another
    /// rule. Other calls use it because they need a second rule.
    fn allow_by(&mut self, rule: &str, about: &About<'_>) -> Result<ApiPermit, ApiError> {
        let rule = rule_named(rule).ok_or(RequestError::NoRoute)?;
        Ok(self.visit.use_api(rule, about)?)
    }

    /// The error of a call about a record that the caller cannot see: the record does not exist, or the caller is not permitted to see it. The error
    /// is the same in both cases. The rule uses the properties in `about` in place of the properties of the record. If the rule permits the call, the
    /// error is `missing`. If the rule refuses the call, [`Rule::known_to`] selects the error. With [`KnownTo::Everybody`], the error is `missing`.
    /// [`KnownTo::Readers`] contains the name of a second rule. In this case, the error is `missing` if the second rule permits the call, or if the
    /// id cannot be the id of a record (`is_id` is false). In all other cases, the error is the refusal.
    fn unseen(&mut self, about: &About<'_>, is_id: bool, missing: ApiError) -> ApiError {
        let Err(why) = self.allow(about) else { return missing };
        match self.rule().map(|rule| rule.known_to) {
            Ok(Some(KnownTo::Everybody)) => missing,
            Ok(Some(KnownTo::Readers(rule))) if !is_id || self.allow_by(rule, about).is_ok() => missing,
            _ => why,
        }
    }

    /// Calls `look` with a view of the facts.
    fn look<R>(&self, look: impl FnOnce(&View<'_>) -> Result<R, ApiError>) -> Result<R, ApiError> {
        self.faces.house().source().read(look)?
    }

    /// Changes the stored facts with a permit of door 4 (access). Converts errors into API errors.
    fn save<R>(
        &self,
        permit: &ApiPermit,
        change: impl FnOnce(&ChangeContext<'_>) -> Result<R, enfilade_admin::Error>,
    ) -> Result<R, ApiError> {
        Ok(self.change(permit, change)?)
    }

    /// Returns the position after the record that the query parameter `marker` names. `place` converts the parameter to this position.
    fn marker(&self, place: impl FnOnce(&str) -> Option<Vec<u8>>) -> Result<Option<Vec<u8>>, ApiError> {
        let Some(text) = self.query("marker").map(listing::plain) else { return Ok(None) };
        place(&text).map(Some).ok_or_else(|| ApiError::missing("marker", &text))
    }

    /// Returns the domain in the scope of the session. If the scope is a project, returns the domain of the project. For any other scope, returns the
    /// domain of the user.
    fn own_domain(&self) -> Option<DomainId> {
        let session = self.visit.identity().session()?;
        Some(match session.claim.scope {
            Scope::Domain(domain) => domain,
            _ => session.project_domain().unwrap_or(session.user_domain),
        })
    }

    /// Changes the stored facts with a permit of door 4 (access). Returns the unmodified result of `change`.
    fn change<R>(&self, permit: &ApiPermit, change: impl FnOnce(&ChangeContext<'_>) -> R) -> R {
        change(&self.faces.change_context(&permit.who().to_word(), permit.requester(), self.id))
    }

    /// The present time, in seconds since the epoch.
    fn now(&self) -> i64 {
        self.faces.house().now().unix_seconds
    }

    /// The body as JSON.
    fn json(&self) -> Result<Value, ApiError> {
        serde_json::from_slice(&self.body).map_err(|_| ApiError::invalid("the body is not JSON"))
    }

    fn parameter(&self, at: usize) -> &str {
        self.parameters.get(at).map_or("", String::as_str)
    }

    /// A path parameter without percent-encoding. In a path, a plus sign does not mean a space.
    fn decoded(&self, at: usize) -> String {
        percent_decoded_leniently(self.parameter(at))
    }

    fn query(&self, name: &str) -> Option<&str> {
        query(&self.head, name)
    }
}

fn forbidden(action: &str) -> ApiError {
    ApiError::Message(StatusCode::FORBIDDEN, not_authorized(action))
}

fn not_authorized(action: &str) -> String {
    format!("You are not authorized to perform the requested action: {action}.")
}

/// The value of a parameter of the query, not decoded. The names of parameters are decoded before the comparison, because clients can also
/// percent-encode names.
fn query<'h>(head: &'h Parts, name: &str) -> Option<&'h str> {
    let pairs = head.uri.query().unwrap_or_default().split('&');
    let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| listing::plain(key) == name).map(|(_, value)| value)
}

async fn answer<B: Incoming>(
    faces: &Faces,
    connection: &Connection,
    request: Request<B>,
    mut trace: Trace,
) -> Answer {
    trace.event.face = "keystone";
    trace.event.path = request.uri().path().to_owned();
    let (head, body) = request.into_parts();
    let base = discovery::base(&head, connection);
    if head.uri.path() == "/" {
        return finish(&base, Ok(discovery::versions(&base)), trace);
    }
    let path = head.uri.path().strip_prefix("/v3").unwrap_or_default().trim_end_matches('/').to_owned();
    let outcome = match routes::find(&head.method, &path) {
        Match::Nothing => {
            Err(ApiError::Message(StatusCode::NOT_FOUND, "The resource could not be found.".to_owned()))
        }
        Match::OtherMethod => Err(RequestError::Method.into()),
        Match::NotServed(reason) => Err(ApiError::Message(
            StatusCode::NOT_IMPLEMENTED,
            format!("This part of the Identity API is not served here: {reason}."),
        )),
        Match::Route(route, parameters) => {
            trace.event.route = route.path;
            let parameters = parameters.into_iter().map(str::to_owned).collect();
            let request = Asked { faces, connection, head, parameters, base: &base };
            request.answer(route, body, &mut trace).await
        }
    };
    finish(&base, outcome, trace)
}

/// Checks the session of the caller (`X-Auth-Token`, or `Authorization: Bearer`) with door 2 (identity).
async fn admit(
    faces: &Faces,
    connection: &Connection,
    head: &Parts,
    trace: &mut Trace,
) -> Result<Visit, ApiError> {
    let carried = credential::beside_a_subject(&head.headers);
    Ok(faces.admit(connection, carried, Takes::Sessions, trace).await?)
}

/// A request with its route.
struct Asked<'a> {
    faces: &'a Faces,
    connection: &'a Connection,
    head: Parts,
    parameters: Vec<String>,
    base: &'a str,
}

impl Asked<'_> {
    async fn answer<B: Incoming>(self, route: &'static V3Route, body: B, trace: &mut Trace) -> Outcome {
        let Asked { faces, connection, head, parameters, base } = self;
        let limits = faces.limits();
        match route.call {
            V3Call::Version => return Ok(discovery::version(&head, base)),
            V3Call::Login => {
                let body = collect_json(body, &limits).await?;
                return auth::login(faces, connection, &head, base, &body, trace).await;
            }
            V3Call::ChangePassword => {
                let body = collect_json(body, &limits).await?;
                let user = parameters.into_iter().next().unwrap_or_default();
                return auth::change_password(faces, connection, &user, &body, trace).await;
            }
            V3Call::ClientCredentials => {
                let body = collect_form(body, &limits).await?;
                return oauth2::token(faces, connection, &head, &body, trace).await;
            }
            V3Call::RequestToken | V3Call::AccessToken => {
                let body = collect_form(body, &limits).await?;
                let is_request = matches!(route.call, V3Call::RequestToken);
                let asked = oauth_signature::SignedRequest::read(&head, base, &body)?;
                let from = oauth1::Client { faces, connection, head: &head };
                return match is_request {
                    true => from.request_token(asked, trace).await,
                    false => from.access_token(asked, trace).await,
                };
            }
            V3Call::Validate | V3Call::Check | V3Call::Ec2 | V3Call::S3 | V3Call::Do(_) => {}
        }
        let visit = admit(faces, connection, &head, trace).await?;
        let body = collect_json(body, &limits).await?;
        let (faces, base) = (faces.clone(), base.to_owned());
        let mut call = Call { faces, visit, head, route, parameters, body, base, id: trace.event.id };
        match route.call {
            // These calls do not wait for a disk, so they do not run on a blocking thread.
            V3Call::Validate => tokens::validate(&mut call),
            V3Call::Check => tokens::check(&mut call),
            V3Call::Ec2 => signatures::ec2(&mut call).await,
            V3Call::S3 => signatures::s3(&mut call).await,
            V3Call::Do(answer) => {
                // A commit waits for the disk, so the call runs on a thread that is allowed to block.
                let turn = call.visit.share().turn().await;
                let done = tokio::task::spawn_blocking(move || {
                    let _turn = turn;
                    answer(&mut call)
                });
                done.await.unwrap_or_else(|_| Err(RequestError::Worker.into()))
            }
            V3Call::Version
            | V3Call::Login
            | V3Call::ChangePassword
            | V3Call::ClientCredentials
            | V3Call::RequestToken
            | V3Call::AccessToken => Err(RequestError::NoRoute.into()),
        }
    }
}

/// The response for a list that is completely in memory.
fn listed(call: &Call, many: &str, rows: Vec<Value>) -> ApiResponse {
    let url = format!("{}{}", call.base, call.head.uri.path());
    let links = json!({ "self": url, "next": null, "previous": null });
    ApiResponse::json(StatusCode::OK, &json!({ many: rows, "links": links }))
}

/// The HTTP response, with the headers that every response of Keystone has.
fn finish(base: &str, outcome: Outcome, mut trace: Trace) -> Answer {
    let is_oauth2 = trace.event.path.starts_with("/v3/OS-OAUTH2/");
    let (said, retry) = match outcome {
        Ok(said) => (said, None),
        Err(why) => {
            let (status, text, retry) = shown_error(&why, &mut trace);
            let body = if is_oauth2 { oauth2::error(&why, status, &text) } else { error(status, &text) };
            (ApiResponse::json(status, &body), retry)
        }
    };
    let mut answer = Response::new(said.body);
    *answer.status_mut() = said.status;
    let headers = answer.headers_mut();
    if said.status != StatusCode::NO_CONTENT {
        headers.insert(CONTENT_TYPE, said.content_type);
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    if is_oauth2 {
        // RFC 6749 §5.1.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if let Some(subject) = said.subject {
        headers.insert(SUBJECT, subject);
    }
    if let Some(receipt) = said.receipt {
        headers.insert(RECEIPT, receipt);
    }
    headers.insert(VARY, HeaderValue::from_static("X-Auth-Token"));
    if let Ok(id) = HeaderValue::from_str(&trace.event.id.to_string()) {
        headers.insert(REQUEST_ID, id);
    }
    if said.status == StatusCode::UNAUTHORIZED
        && let Ok(value) = HeaderValue::from_str(&format!("Keystone uri=\"{base}/v3\""))
    {
        headers.insert(WWW_AUTHENTICATE, value);
    }
    if said.status == StatusCode::MULTIPLE_CHOICES
        && let Ok(value) = HeaderValue::from_str(&format!("{base}/v3/"))
    {
        headers.insert(LOCATION, value);
    }
    if let Some(seconds) = retry {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    trace.answered(&answer);
    if let Body::Stream(pieces) = answer.body_mut() {
        pieces.end(trace);
    }
    answer
}

/// The status, the text and the value of `Retry-After` for the client. The log gets the full error.
fn shown_error(error: &ApiError, trace: &mut Trace) -> (StatusCode, String, Option<u64>) {
    match error {
        ApiError::Message(status, why) => {
            trace.invalid(why);
            (*status, why.clone(), None)
        }
        ApiError::GrantType(said) => {
            let why = format!("The parameter grant_type {said} is not supported.");
            trace.invalid(&why);
            (StatusCode::BAD_REQUEST, why, None)
        }
        ApiError::Subject(refusal) => {
            trace.refused(refusal);
            (StatusCode::NOT_FOUND, "Could not find the token.".to_owned(), None)
        }
        ApiError::Failed(failure) => {
            trace.failed(failure);
            let status = status_of(failure);
            let retry = match failure {
                Failure::Refused(Refusal::Identity(IdentityRefusal::Blocked { seconds })) => Some(*seconds),
                _ if status == StatusCode::SERVICE_UNAVAILABLE => Some(1),
                _ => None,
            };
            let why = match (status, failure) {
                // Clients recognize this text, and ask the user for a new password. The response contains the text only if the password in the
                // request is correct.
                (_, Failure::Refused(Refusal::Identity(IdentityRefusal::PasswordExpired { user, .. }))) => {
                    format!("The password is expired and needs to be changed for user: {user}.")
                }
                (StatusCode::UNAUTHORIZED, _) => {
                    "The request you have made requires authentication.".to_owned()
                }
                (StatusCode::FORBIDDEN, Failure::Refused(Refusal::Identity(refusal))) => refusal.to_string(),
                (_, Failure::Refused(Refusal::Access(AccessRefusal::NoPrivilege { path, .. }))) => {
                    not_authorized(path)
                }
                (_, Failure::Refused(Refusal::Access(AccessRefusal::HoldsMore { path, .. }))) => {
                    let why = "The user or group has roles that a manager of its domain may not assign.";
                    format!("{} {why}", not_authorized(path))
                }
                (_, Failure::Request(wire)) => wire.to_string(),
                _ => status.canonical_reason().unwrap_or("refused").to_owned(),
            };
            (status, why, retry)
        }
    }
}

fn error(status: StatusCode, why: &str) -> Value {
    let title = status.canonical_reason().unwrap_or("Error");
    json!({ "error": { "code": status.as_u16(), "message": why, "title": title } })
}
