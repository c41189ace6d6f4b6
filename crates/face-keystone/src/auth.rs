//! `POST /v3/auth/tokens`: the user, the methods of the login, and the requested scope.

use super::oauth_signature::SignedRequest;
use super::oauth1;
use super::render::{Form, token_body};
use super::{ApiError, ApiResponse, Outcome, query, receipts};
use enfilade_admin::keystone::{
    CredentialRef, DomainRef, ResourceRef, authid_of_credential, authid_of_user, domain_of, find_trust,
    project_of, use_passcode, use_trust,
};
use enfilade_admin::second_factor_of;
use enfilade_faces::{Connection, Faces, Failure, RequestError, Trace, status_of};
use enfilade_facts::Requester;
use enfilade_facts::vocabulary::{RequestId, Secret, TrustId, UserId, Word};
use enfilade_passage::{
    Credential, House, IdentityRefusal, IssuedToken, Passcode, Receipt, Refusal, Scope, SecretAsk,
    SessionAsk, Wanted,
};
use hyper::StatusCode;
use hyper::http::request::Parts;
use serde_json::Value;
use std::net::IpAddr;
use zeroize::Zeroizing;

/// A proof of identity.
#[derive(Debug)]
enum Proof {
    Password(ResourceRef, Secret),
    Token(SessionAsk),
    Credential(CredentialRef, Secret),
}

/// A user and a passcode.
type Given = (ResourceRef, Secret);

/// The methods of a login: a proof, a passcode, or both. A login by a signature has no other method.
#[derive(Debug)]
enum Proofs {
    Proof(Proof, Option<Given>),
    Passcode(Given),
    /// A signature of an OAuth 1.0a consumer, in the header of the request.
    OAuth1,
}

/// The requested scope, with the names and ids from the request.
#[derive(Debug, PartialEq, Eq)]
enum ScopeRef {
    Usual,
    Unscoped,
    Project(ResourceRef),
    Domain(DomainRef),
    System,
    Trust(String),
}

pub(super) async fn login(
    faces: &Faces,
    connection: &Connection,
    head: &Parts,
    base: &str,
    body: &[u8],
    trace: &mut Trace,
) -> Outcome {
    let (proofs, scope) = read(body)?;
    let (house, from) = (faces.arc_house(), connection.peer.ip());
    let asked = receipts::receipt_of(head)?;
    let receipt = asked.as_ref().map(|ask| house.read_receipt(ask)).transpose()?;
    let mut arrival = match proofs {
        Proofs::OAuth1 => {
            // The signature does not cover a JSON body (RFC 5849 §3.4.1.3.1). So the body is not part of the signed text.
            let signed = SignedRequest::read(head, base, &[])?;
            let client = oauth1::Client { faces, connection, head };
            let made = client.session(signed, asked.as_ref(), || wanted(house, scope), trace).await?;
            return answer(faces, head, &made);
        }
        Proofs::Proof(proof, given) => {
            let credential = credential_of(faces, proof, trace)?;
            let arrived = trace.admitted(house.arrive(&credential, from)).await;
            let arrival = arrived.map_err(|refusal| not_admitted(refusal, &credential))?;
            match given {
                Some(given) => {
                    let proven = Some(arrival.user());
                    arrival.with_passcode(passcode(faces, given, proven, from, trace).await?.0)?
                }
                None => arrival,
            }
        }
        Proofs::Passcode(given) => {
            let proven = receipt.as_ref().map(Receipt::user);
            let (passcode, named) = passcode(faces, given, proven, from, trace).await?;
            house.arrive_by_passcode(passcode, named)
        }
    };
    if let Some(receipt) = receipt {
        arrival = arrival.with_receipt(receipt)?;
    }
    let who = arrival.authid().to_word();
    trace.event.authid = who.clone();
    if let Some(receipt) = arrival.receipt().await? {
        return receipts::answer(house.source(), &receipt, &arrival, trace);
    }
    connection.anonymous.release();
    let wanted = wanted(house, scope)?;
    let trust = match &wanted {
        Wanted::Trust(id) => {
            find_trust(house.source(), id)?.filter(|trust| trust.uses.is_some()).map(|_| *id)
        }
        _ => None,
    };
    if let Some(id) = trust {
        // The use of the trust is counted only after this check, because a refused request must not consume a use of the trust.
        arrival.would_issue(wanted)?;
        count_use(faces, who, id, trace.event.id).await?;
    }
    let made = arrival.issue(wanted).await?;
    answer(faces, head, &made)
}

/// The error for a refused credential. The statuses are the same as in Keystone. An invalid token in the body gets 404, like an invalid
/// `X-Subject-Token`. Any other invalid credential gets 401.
fn not_admitted(refusal: Refusal, credential: &Credential) -> ApiError {
    let failure = Failure::from(refusal);
    let is_unauthorized = status_of(&failure) == StatusCode::UNAUTHORIZED;
    match (failure, credential) {
        (Failure::Refused(refusal), Credential::Session(_)) if is_unauthorized => ApiError::Subject(refusal),
        (failure, _) => ApiError::Failed(failure),
    }
}

/// The response to a login.
fn answer(faces: &Faces, head: &Parts, made: &IssuedToken) -> Outcome {
    let form = Form { with_catalog: query(head, "nocatalog").is_none() };
    let (body, _) = token_body(faces.house().source(), &made.session, faces.catalog(), form)?;
    Ok(ApiResponse::with_token(StatusCode::CREATED, body, &made.token))
}

/// The requested scope, with ids instead of names.
fn wanted(house: &House, scope: ScopeRef) -> Result<Wanted, ApiError> {
    let nowhere = || {
        ApiError::from(Refusal::from(IdentityRefusal::NoScope("the project, domain or trust does not exist")))
    };
    Ok(match scope {
        ScopeRef::Usual => Wanted::Usual,
        ScopeRef::Unscoped => Wanted::Scope(Scope::Unscoped),
        ScopeRef::System => Wanted::Scope(Scope::System),
        ScopeRef::Trust(id) => Wanted::Trust(id.parse().map_err(|_| nowhere())?),
        ScopeRef::Project(project) => {
            Wanted::Scope(Scope::Project(project_of(house.source(), &project)?.ok_or_else(nowhere)?))
        }
        ScopeRef::Domain(domain) => {
            Wanted::Scope(Scope::Domain(domain_of(house.source(), &domain)?.ok_or_else(nowhere)?))
        }
    })
}

/// The credential that door 2 checks for this proof. If the proof names a user or an application credential by name or id, this function looks up its
/// authid. A token needs no lookup.
fn credential_of(faces: &Faces, proof: Proof, trace: &mut Trace) -> Result<Credential, ApiError> {
    let house = faces.arc_house();
    Ok(match proof {
        Proof::Token(ask) => Credential::Session(ask),
        Proof::Password(user, secret) => {
            let named = user.word();
            trace.event.authid = named.clone();
            let authid = authid_of_user(house.source(), &user)?;
            Credential::NamedSecret(SecretAsk { authid, secret }, named)
        }
        Proof::Credential(credential, secret) => {
            let named = credential.word();
            trace.event.authid = named.clone();
            let authid = authid_of_credential(house.source(), &credential)?;
            Credential::NamedSecret(SecretAsk { authid, secret }, named)
        }
    })
}

/// Checks a passcode and commits its use, so that nobody can use the passcode again. Returns the passcode, and the name or id that the client sent.
/// `proven` is the user that another method of this login has authenticated.
async fn passcode(
    faces: &Faces,
    (user, secret): Given,
    proven: Option<UserId>,
    from: IpAddr,
    trace: &mut Trace,
) -> Result<(Passcode, Word), ApiError> {
    let (house, named) = (faces.arc_house(), user.word());
    trace.event.authid = named.clone();
    let authid = authid_of_user(house.source(), &user)?;
    let who = authid.to_word();
    let ask = SecretAsk { authid, secret };
    let passcode = trace.admitted(house.check_passcode(&ask, proven, &named, from)).await?;
    let (faces, request) = (faces.clone(), trace.event.id);
    let done = tokio::task::spawn_blocking(move || {
        let used = use_passcode(&faces.change_context(&who, Requester::User, request), &passcode);
        match used {
            Ok(()) => Ok((passcode, named)),
            Err(enfilade_admin::Error::Identity(refusal)) => Err(Refusal::from(refusal).into()),
            Err(other) => Err(other.into()),
        }
    });
    done.await.unwrap_or_else(|_| Err(RequestError::Worker.into()))
}

/// Counts a use of a trust with a limited number of uses. The caller calls this function before it issues the session. Otherwise two requests could
/// both get the last use.
async fn count_use(faces: &Faces, who: Word, id: TrustId, request: RequestId) -> Result<(), ApiError> {
    let faces = faces.clone();
    let done = tokio::task::spawn_blocking(move || {
        Ok(use_trust(&faces.change_context(&who, Requester::User, request), &id)?)
    });
    done.await.unwrap_or_else(|_| Err(RequestError::Worker.into()))
}

/// `POST /v3/users/{id}/password`. The body must contain the current password. The caller does not need a session. If the user has a second factor,
/// the body must also contain a code in the field `passcode`. The server checks the current password as in a login, with the same delays.
pub(super) async fn change_password(
    faces: &Faces,
    connection: &Connection,
    user: &str,
    body: &[u8],
    trace: &mut Trace,
) -> Outcome {
    let value: Value = serde_json::from_slice(body).map_err(|_| ApiError::invalid("the body is not JSON"))?;
    let given = value.get("user").ok_or_else(|| missing("user"))?;
    let old = secret(given, "original_password")?;
    let new = Zeroizing::new(text(given, "password").ok_or_else(|| missing("user.password"))?);
    let (house, from) = (faces.arc_house(), connection.peer.ip());
    let said = ResourceRef::Id(user.to_owned());
    let authid = authid_of_user(house.source(), &said)?;
    let who = authid.to_word();
    trace.event.authid = who.clone();
    let credential = Credential::NamedSecret(SecretAsk { authid, secret: old.clone() }, said.word());
    let id = match trace.admitted(house.admit(&credential, from)).await {
        Ok(visit) => visit.principal().user,
        // The password is correct, but a login with it would not succeed: the password has expired, or the login needs further methods. In both
        // cases, the user may change the password.
        Err(Refusal::Identity(
            IdentityRefusal::PasswordExpired { user, .. } | IdentityRefusal::MoreMethods { user, .. },
        )) => *user,
        Err(refusal) => return Err(refusal.into()),
    };
    if second_factor_of(house.source(), &id)?.is_some() {
        // If the user has a second factor, the old password alone is not enough. In Keystone, this call never asks for a code, so Keystone defines no
        // name for this field.
        passcode(faces, (said, secret(given, "passcode")?), Some(id), from, trace).await?;
    }
    connection.anonymous.release();
    let (faces, request) = (faces.clone(), trace.event.id);
    let done = tokio::task::spawn_blocking(move || {
        super::users::set_own_password(&faces.change_context(&who, Requester::User, request), &id, &old, &new)
    });
    done.await.unwrap_or_else(|_| Err(RequestError::Worker.into()))?;
    Ok(ApiResponse::no_content())
}

/// Parses a body. The error names the attribute that is missing or has the wrong type.
fn read(body: &[u8]) -> Result<(Proofs, ScopeRef), ApiError> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|_| ApiError::invalid("the body is not JSON; expected {\"auth\": {\"identity\": …}}"))?;
    let auth = value.get("auth").ok_or_else(|| missing("auth"))?;
    let identity = auth.get("identity").ok_or_else(|| missing("auth.identity"))?;
    let methods =
        identity.get("methods").and_then(Value::as_array).ok_or_else(|| missing("auth.identity.methods"))?;
    let (mut proof, mut passcode, mut is_signed, mut seen) = (None, None, false, Vec::new());
    for method in methods {
        let method = method.as_str().ok_or_else(|| missing("auth.identity.methods[0]"))?;
        // As in Keystone, a repeated method counts once.
        if seen.contains(&method) {
            continue;
        }
        seen.push(method);
        let of_method = || identity.get(method).ok_or_else(|| missing(&format!("auth.identity.{method}")));
        if method == "totp" {
            let user = of_method()?.get("user").ok_or_else(|| missing("auth.identity.totp.user"))?;
            passcode = Some((thing(user, "auth.identity.totp.user")?, secret(user, "passcode")?));
        } else if method == "oauth1" {
            is_signed = true;
        } else if proof.replace(self::proof(method, of_method)?).is_some() {
            return Err(ApiError::invalid(
                "auth.identity.methods: expected at most one of password, token and application_credential, optionally together with totp",
            ));
        }
    }
    let proofs = match (proof, passcode, is_signed) {
        (Some(proof), passcode, false) => Proofs::Proof(proof, passcode),
        (None, Some(passcode), false) => Proofs::Passcode(passcode),
        (None, None, true) => Proofs::OAuth1,
        (None, None, false) => {
            return Err(ApiError::invalid("auth.identity.methods: expected at least one method"));
        }
        (_, _, true) => {
            return Err(ApiError::invalid(
                "auth.identity.methods: expected no other method together with oauth1; for a second factor, log in with the other methods first, \
                 and send the receipt of that login (header Openstack-Auth-Receipt) with the signed request",
            ));
        }
    };
    Ok((proofs, scope(auth.get("scope"))?))
}

/// The proof for a method of the login. `of_method` returns the JSON object for this method in the request.
fn proof<'v>(method: &str, of_method: impl Fn() -> Result<&'v Value, ApiError>) -> Result<Proof, ApiError> {
    Ok(match method {
        "password" => {
            let user = of_method()?.get("user").ok_or_else(|| missing("auth.identity.password.user"))?;
            Proof::Password(thing(user, "auth.identity.password.user")?, secret(user, "password")?)
        }
        "token" => Proof::Token(SessionAsk { token: secret(of_method()?, "id")? }),
        "application_credential" => {
            let place = "auth.identity.application_credential";
            let given = of_method()?;
            let credential = match (text(given, "id"), text(given, "name")) {
                (Some(id), _) => CredentialRef::Id(id),
                (None, Some(name)) => {
                    let user = given.get("user").ok_or_else(|| missing(&format!("{place}.user")))?;
                    CredentialRef::Named(name, thing(user, &format!("{place}.user"))?)
                }
                (None, None) => return Err(missing(&format!("{place}.id"))),
            };
            Proof::Credential(credential, secret(given, "secret")?)
        }
        _ => return Err(Refusal::from(IdentityRefusal::NoCredential).into()),
    })
}

fn scope(value: Option<&Value>) -> Result<ScopeRef, ApiError> {
    let Some(scope) = value.filter(|value| !value.is_null()) else { return Ok(ScopeRef::Usual) };
    if scope == "unscoped" {
        return Ok(ScopeRef::Unscoped);
    }
    let given = |name: &str| scope.get(name).filter(|value| !value.is_null());
    match (given("project"), given("domain"), given("system"), given("OS-TRUST:trust"), given("unscoped")) {
        (Some(project), None, None, None, None) => {
            Ok(ScopeRef::Project(thing(project, "auth.scope.project")?))
        }
        (None, Some(domain), None, None, None) => {
            Ok(ScopeRef::Domain(self::domain(domain, "auth.scope.domain")?))
        }
        (None, None, Some(system), None, None) if system.get("all") == Some(&Value::Bool(true)) => {
            Ok(ScopeRef::System)
        }
        (None, None, None, None, Some(_)) => Ok(ScopeRef::Unscoped),
        (None, None, None, Some(trust), None) => {
            Ok(ScopeRef::Trust(text(trust, "id").ok_or_else(|| missing("auth.scope.OS-TRUST:trust.id"))?))
        }
        _ => Err(ApiError::invalid(
            "auth.scope: expected one of project, domain, system.all, OS-TRUST:trust and unscoped",
        )),
    }
}

/// Reads a reference to a user or a project: an id, or a name and a domain.
fn thing(value: &Value, place: &str) -> Result<ResourceRef, ApiError> {
    match (text(value, "id"), text(value, "name")) {
        (Some(id), _) => Ok(ResourceRef::Id(id)),
        (None, Some(name)) => {
            let domain = value.get("domain").ok_or_else(|| missing(&format!("{place}.domain")))?;
            Ok(ResourceRef::Named(name, self::domain(domain, &format!("{place}.domain"))?))
        }
        (None, None) => Err(missing(&format!("{place}.id or .name"))),
    }
}

fn domain(value: &Value, place: &str) -> Result<DomainRef, ApiError> {
    match (text(value, "id"), text(value, "name")) {
        (Some(id), _) => Ok(DomainRef::Id(id)),
        (None, Some(name)) => Ok(DomainRef::Name(name)),
        (None, None) => Err(missing(&format!("{place}.id or .name"))),
    }
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().map(str::to_owned)
}

/// Reads a secret. A text that is not a valid secret is refused in the same way as a wrong secret.
fn secret(value: &Value, name: &str) -> Result<Secret, ApiError> {
    let text = Zeroizing::new(text(value, name).ok_or_else(|| missing(name))?);
    Secret::new(text.as_bytes()).ok_or_else(|| Refusal::from(IdentityRefusal::NoCredential).into())
}

fn missing(place: &str) -> ApiError {
    ApiError::invalid(format!("Expecting to find {place} in the request body."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_said_and_what_cannot() {
        let of = |text: &str| read(text.as_bytes());
        let password = r#""identity":{"methods":["password"],"password":{"user":{"name":"a","domain":{"id":"default"},"password":"p"}}}"#;
        for (scope, expected) in [
            ("", ScopeRef::Usual),
            (r#","scope":"unscoped""#, ScopeRef::Unscoped),
            (r#","scope":{"system":{"all":true}}"#, ScopeRef::System),
            (r#","scope":{"domain":{"name":"d"}}"#, ScopeRef::Domain(DomainRef::Name("d".into()))),
            (r#","scope":{"project":{"id":"1"}}"#, ScopeRef::Project(ResourceRef::Id("1".into()))),
        ] {
            let (proofs, scope) = of(&format!("{{\"auth\":{{{password}{scope}}}}}")).ok().unwrap();
            assert_eq!(scope, expected);
            assert!(
                matches!(proofs, Proofs::Proof(Proof::Password(ResourceRef::Named(name, DomainRef::Id(id)), _), None) if name == "a" && id == "default")
            );
        }
        let totp = r#""totp":{"user":{"id":"1","passcode":"123456"}}"#;
        let with = |names: &str, more: &str| {
            of(&format!(r#"{{"auth":{{"identity":{{"methods":[{names}],{totp}{more}}}}}}}"#)).ok().unwrap().0
        };
        let token = r#","token":{"id":"t"}"#;
        assert!(matches!(with(r#""totp""#, ""), Proofs::Passcode((ResourceRef::Id(id), _)) if id == "1"));
        for names in [r#""totp","token""#, r#""token","totp""#, r#""token","totp","token","totp""#] {
            assert!(matches!(with(names, token), Proofs::Proof(Proof::Token(_), Some(_))), "{names}");
        }
        let signed = r#"{"auth":{"identity":{"methods":["oauth1"],"oauth1":{}}}}"#;
        assert!(matches!(of(signed).ok().unwrap().0, Proofs::OAuth1));
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"auth":{}}"#,
            r#"{"auth":{"identity":{"methods":[]}}}"#,
            r#"{"auth":{"identity":{"methods":["password","token"],"password":{},"token":{}}}}"#,
            r#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"a","password":"p"}}}}}"#,
            r#"{"auth":{"identity":{"methods":["token"],"token":{"id":1}}}}"#,
            r#"{"auth":{"identity":{"methods":["oauth1","token"],"oauth1":{},"token":{"id":"t"}}}}"#,
            r#"{"auth":{"identity":{"methods":["totp","oauth1"],"oauth1":{},"totp":{"user":{"id":"1","passcode":"123456"}}}}}"#,
            r#"{"auth":{"identity":{"methods":["totp"],"totp":{"user":{"id":"1"}}}}}"#,
            r#"{"auth":{"identity":{"methods":["totp"],"totp":{"passcode":"123456"}}}}"#,
            r#"{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"secret":"s"}}}}"#,
        ] {
            assert!(matches!(of(wrong), Err(ApiError::Message(StatusCode::BAD_REQUEST, _))), "{wrong}");
        }
        let mixed = r#"{"auth":{"identity":{"methods":["oauth1","token"],"oauth1":{},"token":{"id":"t"}}}}"#;
        let why = match of(mixed) {
            Err(ApiError::Message(_, why)) => why,
            _ => String::new(),
        };
        assert!(why.contains("send the receipt of that login (header Openstack-Auth-Receipt)"), "{why}");
        let both = r#","scope":{"project":{"id":"1"},"domain":{"id":"2"}}"#;
        assert!(of(&format!("{{\"auth\":{{{password}{both}}}}}")).is_err());
    }

    /// Every input is parsed, or refused with an error. No input causes a panic.
    #[test]
    fn fuzzed_bodies_are_read_or_refused() {
        let n: u64 = std::env::var("ENFILADE_CAMPAIGN_N").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut roll = |sides: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) as usize % sides
        };
        let whole = br#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"a","domain":{"id":"default"},"password":"p"}}},"scope":{"project":{"id":"1"}}}}"#;
        let words: [&[u8]; 12] = [
            b"null",
            b"[]",
            b"{}",
            b"true",
            b"\"token\"",
            b"\"unscoped\"",
            b"1e999",
            b"\"\\u0000\"",
            b"[[[[[[[[",
            b",",
            b":",
            b"\xff",
        ];
        let (mut read_whole, mut refused) = (0, 0);
        for _ in 0..n {
            let mut body = whole.to_vec();
            for _ in 0..=roll(3) {
                let at = roll(body.len());
                match roll(4) {
                    0 => body[at] ^= 1 << roll(8),
                    1 => drop(body.drain(at..(at + roll(12)).min(body.len()))),
                    2 => drop(body.splice(at..at, words[roll(words.len())].iter().copied())),
                    _ => {
                        let end = (at + roll(10)).min(body.len());
                        drop(body.splice(at..end, words[roll(words.len())].iter().copied()));
                    }
                }
                if body.is_empty() {
                    body.push(b'{');
                }
            }
            match read(&body) {
                Ok(_) => read_whole += 1,
                Err(ApiError::Message(status, why)) => {
                    assert!(status.is_client_error() || status == StatusCode::NOT_IMPLEMENTED, "{why}");
                    refused += 1;
                }
                Err(_) => refused += 1,
            }
        }
        assert!(read_whole > 0 && refused > 0, "{read_whole} {refused}");
    }
}
