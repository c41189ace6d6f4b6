//! OAuth 1.0a (`OS-OAUTH1`): administrators create consumers, and users approve request tokens. Consumers exchange the request tokens for access
//! tokens, and log in with the access tokens.

use super::oauth_signature::SignedRequest;
use super::render::time;
use super::request_body::{RequestBody, invalid};
use super::resource::{Resource, Store, add, described_whole, edited, permitted};
use super::schema::{Schema, Type};
use super::trusts::{role, said_roles};
use super::{ApiError, ApiResponse, Call, Outcome, listed, users};
use enfilade_admin::keystone::{
    RecordId, access_tokens_of, approve_request_token, create_access_token, create_request_token,
    delete_access_token, list_named_roles, new_shared_secret, save,
};
use enfilade_admin::{ChangeContext, Error};
use enfilade_faces::{Connection, Faces, RequestError, Trace};
use enfilade_facts::Requester;
use enfilade_facts::tables::{AccessToken, Consumer, ResourceKind, SharedSecret};
use enfilade_facts::vocabulary::{
    AccessTokenId, ProjectId, RequestId, RequestTokenId, UserId, Word, word_of_id,
};
use enfilade_passage::{About, ApiPermit, IssuedToken, OAuthProof, OAuthToken, SessionAsk, Verifier, Wanted};
use hyper::StatusCode;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use serde_json::{Value, json};

impl Resource for Consumer {
    const SCHEMA: Schema = Schema {
        one: "consumer",
        many: "consumers",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("description", Type::TextOrNull, Type::TextOrNull),
            ("secret", Type::None, Type::None),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = Some(ResourceKind::Consumer);
    const HAS_OPTIONS: bool = false;
    const UNDER: &'static str = "/OS-OAUTH1";
    const STORE: Store<Self> = Store::BY_ID;

    /// Only the response to the creation of a consumer contains its secret.
    fn attributes(&self) -> Value {
        json!({ "description": self.description })
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        if let Some(description) = given.text("description")? {
            self.description = description;
        }
        Ok(())
    }

    fn keeps(&self, given: &RequestBody) -> Result<(), Error> {
        given.unless_empty()?;
        match given.has("secret") {
            true => Err(invalid("the secret of a consumer cannot be changed; create another consumer")),
            false => Ok(()),
        }
    }

    fn create(call: &mut Call) -> Outcome {
        let (permit, given) = permitted::<Consumer>(call)?;
        let new = Consumer { description: None, secret: new_shared_secret()? };
        let build = |before: Option<(&Consumer, &str)>| edited(&given, before, Some(&new));
        let saved = call.save(&permit, |ctx| save(ctx, &RecordId::New, &build))?;
        let secret = saved.row.secret.text();
        let mut body = described_whole::<Consumer>(&call.base, saved.into());
        add(&mut body, "secret", json!(secret));
        Ok(ApiResponse::json(StatusCode::CREATED, &json!({ "consumer": body })))
    }
}

/// A client that claims to be a consumer. Door 2 checks the signature of the consumer later.
pub(super) struct Client<'a> {
    pub(super) faces: &'a Faces,
    pub(super) connection: &'a Connection,
    pub(super) head: &'a Parts,
}

impl Client<'_> {
    /// Asks door 2 whether the consumer signed the request.
    async fn prove(
        &self,
        asked: &SignedRequest,
        token: OAuthToken,
        trace: &mut Trace,
    ) -> Result<(OAuthProof, Word), ApiError> {
        let named = word_of_id(asked.get("oauth_consumer_key")?);
        trace.event.authid = named.clone();
        let ask = asked.ask(token)?;
        let from = self.connection.peer.ip();
        let proof = trace.admitted(self.faces.house().prove_oauth(&ask, &named, from)).await?;
        self.connection.anonymous.release();
        Ok((proof, named))
    }

    /// Changes the facts, with the consumer as author. The commit waits for a disk.
    async fn change<R: Send + 'static>(
        &self,
        who: Word,
        request: RequestId,
        change: impl FnOnce(&ChangeContext<'_>) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, ApiError> {
        let faces = self.faces.clone();
        let done = tokio::task::spawn_blocking(move || {
            Ok(change(&faces.change_context(&who, Requester::User, request))?)
        });
        done.await.unwrap_or_else(|_| Err(RequestError::Worker.into()))
    }

    /// `POST /v3/OS-OAUTH1/request_token`.
    pub(super) async fn request_token(&self, asked: SignedRequest, trace: &mut Trace) -> Outcome {
        let said = self.head.headers.get("requested-project-id").and_then(|id| id.to_str().ok());
        let said =
            said.ok_or_else(|| ApiError::invalid("Expecting to find the header Requested-Project-Id."))?;
        let (proof, who) = self.prove(&asked, OAuthToken::None, trace).await?;
        let project: ProjectId = said.parse().map_err(|_| ApiError::missing("project", said))?;
        let create = move |ctx: &ChangeContext<'_>| create_request_token(ctx, &proof, &project);
        let (id, row) = self.change(who, trace.event.id, create).await?;
        Ok(form(&id.to_string(), &row.secret, row.expires))
    }

    /// `POST /v3/OS-OAUTH1/access_token`.
    pub(super) async fn access_token(&self, asked: SignedRequest, trace: &mut Trace) -> Outcome {
        let id = asked.get("oauth_token")?.parse().unwrap_or(RequestTokenId::from_bytes([0; 16]));
        let token = OAuthToken::Request(id, Verifier(asked.get("oauth_verifier")?.to_owned()));
        let (proof, who) = self.prove(&asked, token, trace).await?;
        let create = move |ctx: &ChangeContext<'_>| create_access_token(ctx, &proof);
        let (id, row) = self.change(who, trace.event.id, create).await?;
        Ok(form(&id.to_string(), &row.secret, row.expires))
    }

    /// `POST /v3/auth/tokens` with the method `oauth1`: creates a session of the user who authorized the access token. The scope is looked up only
    /// after door 2 has accepted the signature, because a client without an access token must not learn which projects exist.
    pub(super) async fn session(
        &self,
        asked: SignedRequest,
        receipt: Option<&SessionAsk>,
        wanted: impl FnOnce() -> Result<Wanted, ApiError>,
        trace: &mut Trace,
    ) -> Result<IssuedToken, ApiError> {
        let id = asked.get("oauth_token")?.parse().unwrap_or(AccessTokenId::from_bytes([0; 16]));
        let (proof, _) = self.prove(&asked, OAuthToken::Access(id), trace).await?;
        Ok(self.faces.arc_house().issue_for_access(&proof, receipt, wanted()?).await?)
    }
}

/// The response with a new token and its secret, form-encoded.
fn form(id: &str, secret: &SharedSecret, expires: i64) -> ApiResponse {
    let secret = secret.text().unwrap_or_default();
    let body = format!("oauth_token={id}&oauth_token_secret={secret}&oauth_expires_at={}", time(expires));
    let content_type = HeaderValue::from_static("application/x-www-form-urlencoded");
    ApiResponse { content_type, ..ApiResponse::new(StatusCode::CREATED, body.into()) }
}

/// `PUT /v3/OS-OAUTH1/authorize/{request_token_id}`: the user of the session delegates some of the user's roles.
pub(super) fn approve(call: &mut Call) -> Outcome {
    let permit = call.allow(&About::default())?;
    let id: Result<RequestTokenId, _> = call.parameter(0).parse();
    let id = id.map_err(|_| ApiError::missing("request token", call.parameter(0)))?;
    let roles = said_roles(&call.json()?, "roles")?;
    let user = call.visit.principal().user;
    let verifier = call.save(&permit, |ctx| approve_request_token(ctx, &id, &user, &roles))?;
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "token": { "oauth_verifier": verifier.text() } })))
}

/// The id and the record of an access token.
type Row = (AccessTokenId, AccessToken);

/// The access tokens of the user in the path, and the permit for the call.
fn of_user(call: &mut Call) -> Result<(UserId, Vec<Row>, ApiPermit), ApiError> {
    let (user, domain) = users::of_path(call, 0)?;
    let permit = call.allow(&About { user: Some(&user), domain: domain.as_ref(), ..About::default() })?;
    users::existing(call, &user)?;
    let rows = call.look(|view| Ok(access_tokens_of(view, &user)?))?;
    Ok((user, rows, permit))
}

/// The access token in the path, if the user in the path authorized it.
fn found(call: &mut Call) -> Result<(UserId, Row, ApiPermit), ApiError> {
    let (user, rows, permit) = of_user(call)?;
    let said = call.parameter(1);
    let row = rows.into_iter().find(|(id, _)| id.to_string() == said);
    let row = row.ok_or_else(|| ApiError::missing("access token", said))?;
    Ok((user, row, permit))
}

fn body(base: &str, (id, row): &Row) -> Value {
    let url = format!("{base}/v3/users/{}/OS-OAUTH1/access_tokens/{id}", row.user);
    json!({
        "id": id.to_string(), "consumer_id": row.consumer.to_string(), "authorizing_user_id": row.user.to_string(),
        "project_id": row.project.to_string(), "expires_at": time(row.expires),
        "links": { "self": url, "roles": format!("{url}/roles") },
    })
}

pub(super) fn list(call: &mut Call) -> Outcome {
    let (_, rows, _) = of_user(call)?;
    let rows = rows.iter().map(|row| body(&call.base, row)).collect();
    Ok(listed(call, "access_tokens", rows))
}

pub(super) fn show(call: &mut Call) -> Outcome {
    let (_, row, _) = found(call)?;
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "access_token": body(&call.base, &row) })))
}

pub(super) fn delete(call: &mut Call) -> Outcome {
    let (user, (id, _), permit) = found(call)?;
    call.save(&permit, |ctx| delete_access_token(ctx, &user, &id))?;
    Ok(ApiResponse::no_content())
}

pub(super) fn list_roles(call: &mut Call) -> Outcome {
    let (_, (_, row), _) = found(call)?;
    let named = list_named_roles(call.faces.house().source())?;
    let rows = row.roles.iter().map(|id| role(call, id, &named)).collect();
    Ok(listed(call, "roles", rows))
}

pub(super) fn show_role(call: &mut Call) -> Outcome {
    let (_, (_, row), _) = found(call)?;
    let named = list_named_roles(call.faces.house().source())?;
    let id = row.roles.iter().find(|id| id.to_string() == call.parameter(2));
    let id = id.ok_or_else(|| ApiError::missing("role", call.parameter(2)))?;
    Ok(ApiResponse::json(StatusCode::OK, &json!({ "role": role(call, id, &named) })))
}
