//! OAuth 2.0 client credentials: the client is an application credential.

use crate::world::World;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use enfilade_admin::LimitModel;
use serde_json::{Value, json};

const PATH: &str = "/v3/OS-OAUTH2/token";
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
}

/// An application credential of `member` on the project `a`: its id and secret.
async fn credential(world: &World) -> (String, String) {
    let token = world.login("member").await;
    let body = json!({ "application_credential": { "name": "client" } }).to_string();
    let headers = [("x-auth-token", token.as_str()), ("content-type", "application/json")];
    let path = world.filled("/v3/users/<member>/application_credentials");
    let (status, _, text) = world.ask(&headers, "POST", &path, &body).await;
    assert_eq!(status, 201, "{text}");
    let made: Value = serde_json::from_str(&text).unwrap();
    let text = |name: &str| made["application_credential"][name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

#[tokio::test]
async fn an_application_credential_gets_a_token() {
    let world = World::new(LimitModel::Flat).await;
    let (id, secret) = credential(&world).await;
    let (login, grant) = (basic(&id, &secret), "grant_type=client_credentials");
    let in_form = format!("{grant}&client_id={id}&client_secret={secret}");
    let by_header = [("authorization", login.as_str()), FORM];
    for (headers, body) in [(&by_header[..], grant), (&[FORM], in_form.as_str())] {
        let (status, answered, text) = world.ask(headers, "POST", PATH, body).await;
        assert_eq!(status, 200, "{text}");
        assert_eq!(answered["cache-control"], "no-store");
        let made: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&made["token_type"], &made["expires_in"]), (&json!("Bearer"), &json!(3600)));
        // A service validates the token like any other token.
        let admin = world.login("admin").await;
        let headers =
            [("x-auth-token", admin.as_str()), ("x-subject-token", made["access_token"].as_str().unwrap())];
        let (status, _, text) = world.ask(&headers, "GET", "/v3/auth/tokens", "").await;
        assert_eq!(status, 200, "{text}");
        assert!(text.contains(&world.filled("\"id\":\"<a>\"")) && text.contains(&id), "{text}");
        // A client of keystoneauth also sends the token of its own session.
        let bearer = format!("Bearer {}", made["access_token"].as_str().unwrap());
        let both = [("x-auth-token", admin.as_str()), ("authorization", bearer.as_str())];
        assert_eq!(world.ask(&both, "GET", "/v3/projects", "").await.0, 200);
    }
}

#[tokio::test]
async fn other_requests_get_the_errors_of_rfc_6749() {
    let world = World::new(LimitModel::Flat).await;
    let (id, secret) = credential(&world).await;
    let (good, wrong, nobody) =
        (basic(&id, &secret), basic(&id, "wrong"), basic("00000000000000000000000000000001", "wrong"));
    let grant = "grant_type=client_credentials";
    let twice = format!("{grant}&client_secret={secret}");
    let bearer = "Bearer abc".to_owned();
    let (json, none) = (("content-type", "application/json"), String::new());
    let failures = || world.house.house.penalties().counts().failed;
    let before = failures();
    for (login, kind, body, status, error) in [
        (&good, FORM, "", 400, "invalid_request"),
        (&good, json, grant, 400, "invalid_request"),
        (&good, FORM, "grant_type=%", 400, "invalid_request"),
        (&good, FORM, "grant_type=password", 400, "unsupported_grant_type"),
        (&good, FORM, "grant_type=client_credentials&grant_type=password", 400, "invalid_request"),
        (&good, FORM, twice.as_str(), 400, "invalid_request"),
        (&bearer, FORM, grant, 400, "invalid_request"),
        (&none, FORM, grant, 401, "invalid_client"),
        (&none, FORM, "grant_type=client_credentials&client_id=a", 401, "invalid_client"),
        (&wrong, FORM, grant, 401, "invalid_client"),
        (&nobody, FORM, grant, 401, "invalid_client"),
    ] {
        let mut headers = vec![kind];
        headers.extend((!login.is_empty()).then_some(("authorization", login.as_str())));
        let (is, answered, text) = world.ask(&headers, "POST", PATH, body).await;
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((is, &told["error"]), (status, &json!(error)), "{body}: {text}");
        assert!(told["error_description"].is_string() && !text.contains(&secret), "{text}");
        assert_eq!(answered.contains_key("www-authenticate"), status == 401, "{body}");
    }
    // A login with the wrong secret and a login of a client that does not exist both count as failed logins.
    assert_eq!(failures() - before, 2);
    let (status, _, text) = world.ask(&[], "GET", PATH, "").await;
    assert_eq!((status, text.contains("other_error")), (405, true), "{text}");
}

#[tokio::test]
async fn the_rules_of_the_user_for_multi_factor_authentication_concern_the_client() {
    let mut world = World::new(LimitModel::Flat).await;
    let (id, secret) = credential(&world).await;
    let login = basic(&id, &secret);
    for (rules, expected) in [
        (json!([["password", "totp"]]), 401),
        (json!([["password", "totp"], ["application_credential"]]), 200),
        (Value::Null, 200),
    ] {
        let body = json!({ "user": { "options": { "multi_factor_auth_rules": rules } } });
        world.hold(&[("admin", "PATCH", "/v3/users/<member>", body, 200, &[])]).await;
        let headers = [("authorization", login.as_str()), FORM];
        let (status, _, text) = world.ask(&headers, "POST", PATH, "grant_type=client_credentials").await;
        assert_eq!(status, expected, "{rules}: {text}");
        assert_eq!(text.contains("invalid_client"), expected == 401, "{text}");
    }
}
