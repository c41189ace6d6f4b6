//! Login tickets: the tokens of sessions in the form that Proxmox's clients use.

use super::params::Params;
use super::plain;
use enfilade_faces::credential::{ticket_of, ticket_text};
use enfilade_faces::{
    Answer, Connection, Faces, Failure, Received, RequestError, Trace, collect_form, collect_json, status_of,
};
use enfilade_facts::vocabulary::{Authid, Secret, Userid};
use enfilade_passage::{Credential, IdentityRefusal, Refusal, SecretAsk};
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};

/// `POST /api2/json/access/ticket`: creates a ticket from a password or from a valid ticket.
pub(crate) async fn login(
    faces: &Faces,
    connection: &Connection,
    request: Request<Received>,
    mut trace: Trace,
) -> Answer {
    trace.event.face = "proxmox";
    request.uri().path().clone_into(&mut trace.event.path);
    let answer = match tried(faces, connection, request, &mut trace).await {
        Ok(data) => plain(StatusCode::OK, "application/json", json!({ "data": data }).to_string()),
        Err(failure) => {
            trace.failed(&failure);
            // Clients parse the body as JSON, even if the status is an error.
            plain(status_of(&failure), "application/json", json!({ "data": null }).to_string())
        }
    };
    trace.answered(&answer);
    answer
}

async fn tried(
    faces: &Faces,
    connection: &Connection,
    request: Request<Received>,
    trace: &mut Trace,
) -> Result<Value, Failure> {
    if request.method() != Method::POST {
        return Err(RequestError::Method.into());
    }
    let kind = request.headers().get(CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let (body, limits) = (request.into_body(), faces.limits());
    let body = match is_json {
        true => collect_json(body, &limits).await?,
        false => collect_form(body, &limits).await?,
    };
    let params = Params::read("", &body, is_json);
    let params = params.map_err(|_| RequestError::Parameter("expected a form or a JSON object"))?;
    let missing = RequestError::Parameter("expected one `username` and one `password`");
    let given = |name: &str| params.get(name).ok().flatten().ok_or(missing);
    let (username, password) = (given("username")?, given("password")?);
    trace.event.authid = Authid::word_of(username);
    let userid: Userid =
        username.parse().map_err(|_| RequestError::Parameter("`username`: expected USER@REALM"))?;
    let (house, from) = (faces.arc_house(), connection.peer.ip());
    let credential = if password.starts_with("PBS:") {
        let ticket = ticket_of(password, None)?;
        if !ticket.is_of(&Authid::from(userid.clone())) {
            let why = "the ticket belongs to another user".to_owned();
            return Err(Refusal::from(IdentityRefusal::Malformed(why)).into());
        }
        Credential::Ticket { ticket, changes_something: false }
    } else {
        let secret = Secret::new(password.as_bytes()).ok_or(RequestError::Parameter(
            "`password`: it is empty, longer than 511 bytes or contains a NUL byte",
        ))?;
        Credential::Secret(SecretAsk { authid: Authid::from(userid.clone()), secret })
    };
    let mut visit = trace.admitted(house.admit(&credential, from)).await?;
    trace.time(&mut visit);
    connection.anonymous.release();
    let made = visit.ticket(&credential).await?;
    Ok(json!({
        "username": userid.to_string(), "ticket": ticket_text(&Authid::from(userid), &made.token),
        "CSRFPreventionToken": made.csrf,
    }))
}
