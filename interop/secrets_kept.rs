//! Tests which callers see the secrets of `/v3/credentials` and EC2 keys.

use crate::curl::curl;
use crate::gone::{Cloud, project};
use crate::matrix::Client;
use serde_json::{Value, json};

fn with_user(name: &str) -> (Cloud, String, String) {
    let cloud = Cloud::start();
    let user = cloud.make("user", json!({ "name": name, "domain_id": "default", "password": "pw" }));
    let own = cloud.make("project", json!({ "name": "own", "domain_id": "default" }));
    cloud.change(
        "PUT",
        &format!("/v3/projects/{own}/users/{user}/roles/{}", cloud.role("member")),
        &Value::Null,
    );
    (cloud, user, own)
}

/// A long list is sent in pieces. Between the pieces, the server judges the session again.
#[test]
fn a_user_lists_all_own_credentials_however_long_the_list_is() {
    let (cloud, user, _) = with_user("ann");
    let ann = cloud.login("ann", "default", "pw", project("own", "default")).unwrap();
    // A piece ends after a number of bytes, or after a number of examined records. The test creates lists for both cases.
    let mut client = Client::new(&cloud.server);
    let mut made: Vec<String> = [(600, 700), (8, 60_000)]
        .into_iter()
        .flat_map(|(count, bytes)| std::iter::repeat_n("x".repeat(bytes), count))
        .map(|blob| {
            client.made(
                &ann,
                "/v3/credentials",
                "credential",
                json!({ "type": "cert", "blob": blob, "user_id": user }),
            )
        })
        .collect();
    made.sort();
    let header = format!("X-Auth-Token: {ann}");
    for path in ["/v3/credentials".to_owned(), format!("/v3/credentials?user_id={user}")] {
        for version in ["--http1.1", "--http2"] {
            let answer = curl(&cloud.server, "", &path, &[version, "--header", &header]);
            let said: Value = serde_json::from_str(&answer.text()).unwrap_or_default();
            let rows = said["credentials"].as_array().map_or(&[][..], Vec::as_slice);
            let mut ids: Vec<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
            ids.sort_unstable();
            assert_eq!((answer.status, ids.len()), (200, made.len()), "{path} {version}");
            assert_eq!(ids, made, "{path} {version}");
        }
    }
}

/// A reader of the system sees the keys without their secrets, because the secrets would let the reader act as every user.
#[test]
fn secrets_are_told_to_their_user_and_to_administrators() {
    let (cloud, user, _) = with_user("ann");
    let auditor = cloud.make("user", json!({ "name": "eve", "domain_id": "default", "password": "pw" }));
    cloud.change("PUT", &format!("/v3/system/users/{auditor}/roles/{}", cloud.role("reader")), &Value::Null);
    let ann = cloud.login("ann", "default", "pw", project("own", "default")).unwrap();
    let eve = cloud.login("eve", "default", "pw", json!({ "system": { "all": true } })).unwrap();
    let admin = cloud.login("admin", "default", "pw", project("admin", "default")).unwrap();
    let keys = format!("/v3/users/{user}/credentials/OS-EC2");
    let (status, key) = cloud.call(&ann, "POST", &keys, &json!({}));
    assert_eq!(status, 201, "{key}");
    let secret = key["credential"]["secret"].as_str().unwrap().to_owned();
    let access = key["credential"]["access"].as_str().unwrap().to_owned();
    let (_, all) = cloud.call(&ann, "GET", "/v3/credentials", &Value::Null);
    let id = all["credentials"][0]["id"].as_str().unwrap().to_owned();
    for (who, token, is_told) in
        [("the user", &ann, true), ("an administrator", &admin, true), ("a reader", &eve, false)]
    {
        for path in [
            keys.clone(),
            format!("{keys}/{access}"),
            "/v3/credentials".to_owned(),
            format!("/v3/credentials?user_id={user}"),
            format!("/v3/credentials/{id}"),
        ] {
            let (status, said) = cloud.call(token, "GET", &path, &Value::Null);
            let text = said.to_string();
            assert_eq!((status, text.contains(&secret)), (200, is_told), "{who}: {path}: {text}");
            assert!(text.contains(&user), "{who}: {path}: {text}");
        }
    }
}

/// The blob of a credential may name a trust. An EC2 key with such a blob would give all rights of its user instead of the rights of the trust.
/// Therefore the credential is refused.
#[test]
fn a_key_that_names_a_trust_is_refused() {
    let (cloud, user, own) = with_user("ann");
    let ann = cloud.login("ann", "default", "pw", project("own", "default")).unwrap();
    let key = |access: &str, more: Value| {
        let mut blob = json!({ "access": access, "secret": "s" });
        blob.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "credential": { "type": "ec2", "project_id": own, "user_id": user, "blob": blob.to_string() } })
    };
    let some = "0123456789abcdef".repeat(2);
    for (access, more, expected) in [
        ("a", json!({}), 201),
        ("b", json!({ "trust_id": null, "app_cred_id": null, "access_token_id": null }), 201),
        ("c", json!({ "trust_id": some }), 400),
        ("d", json!({ "app_cred_id": some }), 400),
        ("e", json!({ "access_token_id": some }), 400),
    ] {
        let (status, said) = cloud.call(&ann, "POST", "/v3/credentials", &key(access, more.clone()));
        assert_eq!(status, expected, "{more}: {said}");
        if status == 201 {
            let path = format!("/v3/credentials/{}", said["credential"]["id"].as_str().unwrap());
            let edited = key(access, json!({ "trust_id": some }));
            let edited = json!({ "credential": { "blob": edited["credential"]["blob"] } });
            let (status, said) = cloud.call(&ann, "PATCH", &path, &edited);
            assert_eq!(status, 400, "{said}");
        }
    }
}
