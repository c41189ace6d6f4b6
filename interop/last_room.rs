//! The last part of the LMDB map is reserved for changes by administrators. Users cannot fill this part, even if they revoke their tokens many times.

use crate::curl::curl;
use crate::gone::{Cloud, project};
use crate::nearly_full::{MEBIBYTES, change, fill, open, set_map, status};
use crate::server::{Server, WITHOUT_PENALTIES};
use enfilade_facts::Source;
use enfilade_facts::limits::MAP_PERCENT_OF_USERS_MAX;
use enfilade_facts::tables::Revoked;
use enfilade_sources::lmdb::Lmdb;
use serde_json::{Value, json};
use std::path::Path;

const MINE: &str = "kept for administrators' changes that take rights away";

/// Revokes tokens that do not exist, until changes by users are refused.
fn fill_for_users(lmdb: &Lmdb) {
    for n in 0_u128.. {
        let status = lmdb.status();
        if status.map_bytes / 100 * MAP_PERCENT_OF_USERS_MAX < status.used_bytes {
            return;
        }
        let mut change = change();
        (0..2).for_each(|m| _ = change.end(Revoked::Token((n << 64 | m << 120 | 2).to_be_bytes())));
        lmdb.commit(&change).unwrap();
    }
}

#[test]
fn what_users_do_for_themselves_leaves_room_for_what_administrators_take_away() {
    let cloud = Cloud::on(Server::start_on(|data| set_map(data, MEBIBYTES), &[WITHOUT_PENALTIES]));
    let server = &cloud.server;
    let alice = server.add_user("alice", "DatastoreReader");
    let passwd = ["user", "passwd", "alice@local", "--password-stdin"];
    assert!(server.cli_output(&passwd, "a long password\n").status.success());
    let own: Vec<String> = (0..2).map(|n| server.add_token(&format!("alice@local!own{n}"))).collect();
    let person =
        |name: &str| cloud.make("user", json!({ "name": name, "domain_id": "default", "password": "pw" }));
    let [ann, ben] = ["ann", "ben"].map(person);
    let (member, of) =
        (cloud.role("member"), cloud.make("project", json!({ "name": "of", "domain_id": "default" })));
    for user in [&ann, &ben] {
        cloud.change("PUT", &format!("/v3/projects/{of}/users/{user}/roles/{member}"), &Value::Null);
    }
    let session = |name: &str| cloud.login(name, "default", "pw", project("of", "default")).unwrap();
    let token = session("ann");
    let lent = json!({ "application_credential": { "name": "job" } });
    let credentials = format!("/v3/users/{ann}/application_credentials");
    let (_, made) = cloud.call(&token, "POST", &credentials, &lent);
    let credential = format!("{credentials}/{}", made["application_credential"]["id"].as_str().unwrap());
    let trust = json!({ "trust": {
        "trustor_user_id": ann, "trustee_user_id": ben, "project_id": of, "impersonation": true,
        "roles": [{ "id": member }], "remaining_uses": 5,
    } });
    let (_, made) = cloud.call(&token, "POST", "/v3/OS-TRUST/trusts", &trust);
    let trust = made["trust"]["id"].as_str().unwrap().to_owned();

    let lmdb = open(&server.data());
    fill(&lmdb);
    fill_for_users(&lmdb);
    let refused = |(status, said): (u16, String)| {
        assert!(status == 503 && said.contains(MINE), "{status} {said}");
    };
    let by_header = |by: &str, subject: &str| {
        let headers = [format!("X-Auth-Token: {by}"), format!("X-Subject-Token: {subject}")];
        let gone = ["--request", "DELETE", "--header", &headers[0], "--header", &headers[1]];
        let answer = curl(server, "", "/v3/auth/tokens", &gone);
        (answer.status, answer.text())
    };
    let called = |(status, said): (u16, Value)| (status, said.to_string());
    // Users can still log in.
    let token = session("ann");
    refused(by_header(&token, &token));
    refused(called(cloud.call(&token, "DELETE", &credential, &Value::Null)));
    let password = json!({ "user": { "original_password": "pw", "password": "another" } });
    refused(called(cloud.call("", "POST", &format!("/v3/users/{ann}/password"), &password)));
    let identity =
        json!({ "methods": ["password"], "password": { "user": { "id": ben, "password": "pw" } } });
    let by_trust =
        json!({ "auth": { "identity": identity, "scope": { "OS-TRUST:trust": { "id": trust } } } });
    let answer = curl(server, "", "/v3/auth/tokens", &["-d", &by_trust.to_string()]);
    refused((answer.status, answer.text()));
    let path = |n: usize| format!("/api2/json/access/users/alice%40local/token/own{n}");
    let answer = curl(server, "alice@local:a long password", &path(0), &["--request", "DELETE"]);
    refused((answer.status, answer.text()));
    // None of these changes was made.
    assert!(cloud.stands(&token).is_some());
    assert_eq!([&alice, &own[0], &own[1]].map(|login| status(server, login)), [207; 3]);
    session("ann");

    let admin = cloud.login("admin", "default", "pw", project("admin", "default")).unwrap();
    assert_eq!(by_header(&admin, &token).0, 204);
    assert!(cloud.stands(&token).is_none());
    let answer =
        curl(server, &format!("admin@local:{}", server.password), &path(0), &["--request", "DELETE"]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    server.cli(&["token", "delete", "alice@local!own1"]);
    assert_eq!([&alice, &own[0], &own[1]].map(|login| status(server, login)), [207, 401, 401]);
    let tokens = [session("ann"), session("ben")];
    let disabled = json!({ "user": { "enabled": false } });
    cloud.change("PATCH", &format!("/v3/users/{ann}"), &disabled);
    server.cli(&["revoke", "user", "ben@Default"]);
    server.cli(&["user", "disable", "alice@local"]);
    assert!(tokens.iter().all(|token| cloud.stands(token).is_none()));
    assert_eq!(status(server, &alice), 401);
    assert_eq!(server.cli(&["facts", "check"])[0]["sound"], true);
}

/// The server changes an edited file before the facts. Therefore it must check before the change whether the facts have enough space.
#[test]
fn a_file_is_not_changed_for_a_user_whose_change_finds_no_room() {
    let prepare = |data: &Path| {
        set_map(data, MEBIBYTES);
        std::fs::write(data.join("user.cfg"), "user: ann@pbs\n\n").unwrap();
    };
    let server = Server::start_on(prepare, &[WITHOUT_PENALTIES]);
    let passwd = ["user", "passwd", "ann@pbs", "--password-stdin"];
    let done = server.cli_output(&passwd, "a long password\n");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    server.cli(&["token", "create", "ann@pbs!own"]);
    let files = || {
        ["user.cfg", "token.shadow"].map(|name| std::fs::read_to_string(server.data().join(name)).unwrap())
    };
    let before = files();
    let lmdb = open(&server.data());
    fill(&lmdb);
    fill_for_users(&lmdb);
    let path = "/api2/json/access/users/ann%40pbs/token/own";
    let answer = curl(&server, "ann@pbs:a long password", path, &["--request", "DELETE"]);
    assert!(answer.status == 503 && answer.text().contains(MINE), "{}", answer.text());
    assert!(before[0].contains("ann@pbs!own") && files() == before);
    server.cli(&["token", "delete", "ann@pbs!own"]);
    assert!(!files()[0].contains("ann@pbs!own"));
    // A command that gives rights is refused before it changes the file. A command that removes rights is not refused.
    let before = files();
    for arguments in [&["user", "add", "bob@pbs"][..], &["user", "set", "ann@pbs", "--comment", "somebody"]] {
        let output = server.cli_output(arguments, "");
        let why = String::from_utf8_lossy(&output.stderr);
        let is_refused = why.contains("the rest is kept for changes that take rights away");
        assert!(!output.status.success() && is_refused, "{arguments:?}: {why}");
        assert!(files() == before && !why.contains("the change is in the file"), "{arguments:?}: {why}");
    }
    server.cli(&["user", "set", "ann@pbs", "--expires", "2001-09-09"]);
    assert_ne!(files()[0], before[0]);
    // The server follows an edit by an editor, even if the edit gives rights.
    std::fs::write(server.data().join("user.cfg"), files()[0].clone() + "user: carol@pbs\n\n").unwrap();
    let users = server.cli(&["user", "list"]);
    assert!(users.iter().any(|user| user.to_string().contains("carol@pbs")), "{users:?}");
}

/// NoAccess removes rights. Therefore the removal of NoAccess gives rights.
#[test]
fn no_access_is_given_and_not_taken_back_when_the_map_is_nearly_full() {
    let server = Server::start_on(|data| set_map(data, MEBIBYTES), &[WITHOUT_PENALTIES]);
    let logins = ["alice", "bob", "carol"].map(|name| server.add_user(name, "DatastoreReader"));
    let role = |what: &'static str, name: &'static str, role: &'static str| {
        let who = format!("{name}@local");
        server.cli_output(&["role", what, "--path", "/datastore/main", "--auth-id", &who, role], "")
    };
    for name in ["alice", "carol"] {
        assert!(role("assign", name, "NoAccess").status.success());
    }
    // Without this role, the record contains only NoAccess, and removing NoAccess would delete it.
    assert!(role("remove", "alice", "DatastoreReader").status.success());
    fill(&open(&server.data()));
    let kept = role("remove", "alice", "NoAccess");
    let why = String::from_utf8_lossy(&kept.stderr);
    assert!(!kept.status.success() && why.contains("kept for changes that take rights away"), "{why}");
    assert!(role("assign", "bob", "NoAccess").status.success());
    assert!(role("remove", "bob", "DatastoreReader").status.success());
    assert!(!role("remove", "bob", "NoAccess").status.success());
    assert_eq!(logins.each_ref().map(|login| status(&server, login)), [404; 3]);
    // The NoAccess of a deleted user is deleted with the user.
    server.cli(&["user", "remove", "carol@local"]);
    assert_eq!(status(&server, &logins[2]), 401);
}
