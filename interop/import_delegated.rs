//! After an import from an Identity API, the delegations of users work without a change: application credentials, trusts, EC2 keys, consumers.

use crate::gone::Cloud;
use crate::import_cloud::import;
use crate::server::{Server, WITHOUT_PENALTIES};
use aws_lc_rs::hmac;
use serde_json::{Value, json};
use std::process::Command;

const NOTHING: Value = Value::Null;

/// A secret in the form that Keystone generates. As in Keystone, bcrypt reads 72 bytes of the secret.
fn secret() -> String {
    format!("{}w", "aB3_-".repeat(17))
}

/// The bcrypt hash of a secret, by the system's crypt(3).
fn bcrypt(secret: &str) -> String {
    let program = "print crypt($ARGV[0], '$2b$04$abcdefghijklmnopqrstuu')";
    let output = Command::new("perl").args(["-e", program, secret]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The question of an object store about a request that was signed with the key.
fn signed(key: &Value) -> Value {
    let text = b"AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/r/s3/aws4_request\nx";
    let in_base64 = "QVdTNC1ITUFDLVNIQTI1NgoyMDE1MDgzMFQxMjM2MDBaCjIwMTUwODMwL3IvczMvYXdzNF9yZXF1ZXN0Cng=";
    let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    let first = format!("AWS4{}", key["secret"].as_str().unwrap()).into_bytes();
    let parts = ["20150830", "r", "s3", "aws4_request"];
    let derived = parts.iter().fold(first, |key, part| sign(&key, part.as_bytes()).as_ref().to_vec());
    let signature: String = sign(&derived, text).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "credentials": { "access": key["access"], "token": in_base64, "signature": signature } })
}

/// A cloud in which ann has delegated a role on a project by each kind of delegation.
struct World {
    cloud: Cloud,
    domain: String,
    ann: String,
    ben: String,
    /// The ids of ann's application credential, and of her trust for ben.
    credential: String,
    trust: String,
    /// Ann's EC2 key.
    key: Value,
    /// A dump with the secrets, which the API does not show.
    dump: String,
}

impl World {
    fn new() -> Self {
        let cloud = Cloud::start();
        let domain = cloud.make("domain", json!({ "name": "d1" }));
        let project = cloud.make("project", json!({ "name": "p", "domain_id": domain }));
        let [ann, ben] = ["ann", "ben"]
            .map(|name| cloud.make("user", json!({ "name": name, "domain_id": domain, "password": "pw" })));
        let reader = cloud.role("reader");
        cloud.change("PUT", &format!("/v3/projects/{project}/users/{ann}/roles/{reader}"), &NOTHING);
        let session = cloud.login("ann", &domain, "pw", json!({ "project": { "id": project } })).unwrap();
        let make = |path: &str, what: &str, body: Value| {
            let (status, mut answer) = cloud.call(&session, "POST", path, &body);
            assert!((200..300).contains(&status), "{path}: {status} {answer}");
            answer[what].take()
        };
        let id = |made: &Value| made["id"].as_str().unwrap().to_owned();
        let trust = json!({
            "trustor_user_id": ann, "trustee_user_id": ben, "project_id": project, "impersonation": true,
            "remaining_uses": 5, "roles": [{ "name": "reader" }],
        });
        let trust = make("/v3/OS-TRUST/trusts", "trust", json!({ "trust": trust }));
        let path = format!("/v3/users/{ann}/credentials/OS-EC2");
        let key = make(&path, "credential", json!({ "tenant_id": project }));
        let cert = json!({ "type": "cert", "blob": "a certificate", "user_id": ann });
        make("/v3/credentials", "credential", json!({ "credential": cert }));
        let path = format!("/v3/users/{ann}/application_credentials");
        let ci = json!({ "application_credential": { "name": "ci", "secret": secret() } });
        let credential = id(&make(&path, "application_credential", ci));
        let consumer = json!({ "consumer": { "description": "robot" } });
        let consumer = cloud.change("POST", "/v3/OS-OAUTH1/consumers", &consumer)["consumer"].take();
        let config = json!({ "config": { "ldap": { "url": "ldap://x", "password": "s3cret" } } });
        cloud.change("PUT", &format!("/v3/domains/{domain}/config"), &config);

        let (of_ben, of_ci) = (bcrypt("pw"), bcrypt(&secret()));
        let (robot, of_robot) = (id(&consumer), consumer["secret"].as_str().unwrap());
        let dump = format!(
            "CREATE TABLE `local_user` (\n  `id` int,\n  `user_id` varchar(64)\n);\nINSERT INTO `local_user` VALUES (1,'{ben}');\n\
             CREATE TABLE `password` (\n  `id` int,\n  `local_user_id` int,\n  `password_hash` text,\n  `created_at_int` bigint,\n  `expires_at_int` bigint\n);\nINSERT INTO `password` VALUES (1,1,'{of_ben}',1,NULL);\n\
             CREATE TABLE `application_credential` (\n  `id` varchar(64),\n  `secret_hash` varchar(255)\n);\n\
             INSERT INTO `application_credential` VALUES ('{credential}','{of_ci}');\n\
             CREATE TABLE `consumer` (\n  `id` varchar(64),\n  `secret` varchar(64)\n);\nINSERT INTO `consumer` VALUES ('{robot}','{of_robot}');\n\
             CREATE TABLE `access_token` (\n  `id` varchar(64),\n  `access_secret` varchar(64),\n  `authorizing_user_id` varchar(64),\n  `project_id` varchar(64),\n  `role_ids` text,\n  `consumer_id` varchar(64),\n  `expires_at` varchar(64)\n);\n\
             INSERT INTO `access_token` VALUES ('{robot}','{of_robot}','{ann}','{project}','[\\\"{reader}\\\"]','{robot}',NULL);\n\
             CREATE TABLE `sensitive_config` (\n  `domain_id` varchar(64),\n  `group` varchar(255),\n  `option` varchar(255),\n  `value` text\n);\n\
             INSERT INTO `sensitive_config` VALUES ('{domain}','ldap','password','\\\"s3cret\\\"');\n"
        );
        let trust = id(&trust);
        World { cloud, domain, ann, ben, credential, trust, key, dump }
    }
}

/// The records of the lists of delegations, without links.
fn delegated(cloud: &Cloud, domain: &str) -> Vec<Value> {
    let mut all: Vec<Value> = ["OS-TRUST/trusts", "credentials", "OS-OAUTH1/consumers"]
        .iter()
        .map(|path| {
            let many = path.rsplit('/').next().unwrap();
            let mut rows = cloud.change("GET", &format!("/v3/{path}"), &NOTHING)[many].take();
            for row in rows.as_array_mut().unwrap() {
                let row = row.as_object_mut().unwrap();
                row.remove("links");
                row.remove("roles_links");
                row.remove("roles");
            }
            rows.as_array_mut().unwrap().sort_by_key(ToString::to_string);
            rows
        })
        .collect();
    all.push(cloud.change("GET", &format!("/v3/domains/{domain}/config"), &NOTHING));
    all
}

#[test]
fn what_users_delegated_works_after_an_import() {
    let World { cloud, domain, ann, ben, credential, trust, key, dump } = World::new();
    let here = Server::start_with(&[WITHOUT_PENALTIES]);
    let file = here.scratch.path().join("keystone.sql");
    std::fs::write(&file, dump).unwrap();
    let trusted = format!("cacert: {}", cloud.server.certificate().display());
    let take = |here: &Server, more: &[&str]| import(here, &cloud.server.url("/v3"), &trusted, more);
    let with_dump = ["--passwords", file.to_str().unwrap()];
    let would = take(&here, &[&with_dump[..], &["--pretend"]].concat());
    let did = take(&here, &with_dump);
    assert_eq!(would.last().unwrap()["kinds"], did.last().unwrap()["kinds"]);
    for what in [
        "trust of ann@d1 for ben@d1 on project p@d1",
        "EC2 key ann@d1 on project p@d1",
        "credential ann@d1 of type cert",
        "application credential ann@d1!ci",
        "secret of application credential ann@d1!ci",
        "OAuth consumer robot",
        "OAuth access token of ann@d1 on project p@d1",
        "configuration of domain d1",
    ] {
        let item = did.iter().find(|item| item["what"] == what);
        let item = item.unwrap_or_else(|| panic!("{what}: {did:#?}"));
        assert!(item["left_out"].is_null() && item["differs"].is_null(), "{item}");
    }
    // Without the dump, the credential has no secret, and a consumer cannot be imported.
    let bare = Server::start_with(&[WITHOUT_PENALTIES]);
    let report = take(&bare, &[]);
    let item = |what: &str| report.iter().find(|item| item["what"] == what).unwrap();
    assert_eq!(item("application credential ann@d1!ci")["differs"], "without a secret");
    assert!(report.iter().any(|item| item["kind"] == "OAuth consumer" && !item["left_out"].is_null()));
    assert!(
        report.last().unwrap()["next"].to_string().contains("application_credential consumer"),
        "{report:#?}"
    );
    // A later import adds the secret.
    let file = with_dump[1];
    let later = take(&bare, &["--passwords", file]);
    let added: Vec<&Value> =
        later.iter().filter(|item| item["left_out"].is_null() && item["what"].is_string()).collect();
    assert!(added.iter().any(|item| item["kind"] == "secret of application credential"), "{added:#?}");
    drop(bare);

    let here = Cloud::on(here);
    assert_eq!(delegated(&cloud, &domain), delegated(&here, &domain));
    let with_secret = |secret: &str| {
        let given = json!({ "id": credential, "secret": secret });
        here.issue(
            json!({ "methods": ["application_credential"], "application_credential": given }),
            Value::Null,
        )
    };
    assert!(with_secret(&secret()).is_some() && with_secret("wrong").is_none());
    // A login with a different end of the secret succeeds, too, because bcrypt reads only 72 bytes. Afterwards, the owner's secret must still be
    // accepted.
    let other = format!("{}A", &secret()[..85]);
    assert!(with_secret(&other).is_some() && with_secret(&secret()[..71]).is_none());
    let session = here.login("ben", &domain, "pw", json!({ "OS-TRUST:trust": { "id": trust } }));
    let told = here.stands(&session.unwrap()).unwrap();
    assert_eq!(
        (&told["user"]["id"], &told["OS-TRUST:trust"]["trustee_user"]["id"]),
        (&json!(ann), &json!(ben))
    );
    let told = here.change("POST", "/v3/s3tokens", &signed(&key));
    assert_eq!(told["token"]["user"]["id"], json!(ann), "{told}");
    // Another import changes nothing: the count of the trust's uses and the hash stay.
    let again = take(&here.server, &["--passwords", file]);
    assert_eq!(again.last().unwrap()["taken"], 0, "{again:#?}");
    let trusts = here.change("GET", "/v3/OS-TRUST/trusts", &NOTHING);
    assert_eq!(trusts["trusts"][0]["remaining_uses"], 4);
    assert!(with_secret(&secret()).is_some() && with_secret(&other).is_some());
    let shown = &here.server.cli(&["token", "show", "ann@d1!ci"])[0];
    assert!(shown["checked_by"].as_str().unwrap().starts_with("a slow hash ($2b$)"), "{shown}");
}

#[test]
fn what_is_deleted_after_an_import_stays_deleted() {
    let World { cloud, dump, .. } = World::new();
    let here = Server::start_with(&[WITHOUT_PENALTIES]);
    let file = here.scratch.path().join("keystone.sql");
    std::fs::write(&file, dump).unwrap();
    let trusted = format!("cacert: {}", cloud.server.certificate().display());
    let take_with = |here: &Server, option: &[&str]| {
        let dump = ["--passwords", file.to_str().unwrap()];
        import(here, &cloud.server.url("/v3"), &trusted, &[&dump, option].concat())
    };
    let take = |here: &Server| take_with(here, &[]);
    let first = take(&here);
    let here = Cloud::on(here);
    let stored = here.change("GET", "/v3/credentials", &NOTHING)["credentials"].take();
    for row in stored.as_array().unwrap() {
        here.change("DELETE", &format!("/v3/credentials/{}", row["id"].as_str().unwrap()), &NOTHING);
    }
    here.server.cli(&["token", "delete", "ann@d1!ci"]);
    let again = take(&here.server);
    assert_eq!(again.last().unwrap()["taken"], 0, "{again:#?}");
    for what in [
        "EC2 key ann@d1 on project p@d1",
        "credential ann@d1 of type cert",
        "application credential ann@d1!ci",
    ] {
        let item = again.iter().find(|item| item["what"] == what).unwrap();
        let why = item["left_out"].as_str().unwrap();
        assert!(
            why.starts_with(
                "an earlier import added this record, and the record was later deleted, removed or revoked on this server; "
            ),
            "{item}"
        );
    }
    assert_eq!(here.change("GET", "/v3/credentials", &NOTHING)["credentials"], json!([]));
    // Revokes all credentials of a user with a password, and removes another user.
    here.server.cli(&["revoke", "user", "ben@d1", "--everything"]);
    here.server.cli(&["user", "remove", "ann@d1"]);
    let again = take(&here.server);
    assert_eq!(again.last().unwrap()["taken"], 0, "{again:#?}");
    for what in ["password ben@d1", "user ann@d1"] {
        let item = again.iter().find(|item| item["what"] == what).unwrap();
        assert!(item["left_out"].as_str().unwrap().contains("--restore-deleted"), "{item}");
    }
    let users = format!("{:?}", here.server.cli(&["user", "list"]));
    assert!(users.contains("ben@d1") && !users.contains("ann@d1"), "{users}");
    // The option restores deleted records that the first import had imported.
    let restored = take_with(&here.server, &["--restore-deleted"]);
    for what in ["password ben@d1", "user ann@d1", "application credential ann@d1!ci"] {
        let is_taken =
            |report: &[Value]| report.iter().any(|item| item["what"] == what && item["left_out"].is_null());
        assert!(is_taken(&first) && is_taken(&restored), "{what}: {restored:#?}");
    }
}
