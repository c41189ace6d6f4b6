//! The output of `enfilade explain` and `acl review` agrees with real responses. The sticky bit prevents deletion by other users.

use crate::curl::{PROPFIND_0, curl};
use crate::server::Server;
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt as _, chown};

fn explain(server: &Server, arguments: &[&str]) -> Option<String> {
    let output = server.cli_output(&[&["explain"], arguments].concat(), "");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let refused = said["doors"].as_array().unwrap().iter().find(|door| door["verdict"] == "refuse");
    assert_eq!(output.status.code(), Some(if refused.is_some() { 3 } else { 0 }), "{said}");
    refused.map(|door| format!("{} {}", door["door"].as_str().unwrap(), door["code"].as_str().unwrap()))
}

#[test]
fn explain_and_review_ask_for_every_directory_on_the_way() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let root = server.data().join("datastores/main");
    std::fs::create_dir_all(root.join("outer/inner")).unwrap();
    std::fs::write(root.join("outer/inner/file"), "x").unwrap();
    server.cli(&["acl", "set", "main", "/outer", "allow alice@local read-attributes,read-acl"]);
    server.cli(&["acl", "set", "main", "/outer/inner", "allow alice@local full"]);
    server.cli(&["acl", "set", "main", "/outer/inner/file", "allow alice@local full"]);
    let file = "/outer/inner/file";
    for (check, status, explained, rows) in [("no", 200, None, 2), ("yes", 404, Some("access AC02"), 0)] {
        server.cli(&["datastore", "set", "main", "--check-traverse", check]);
        assert_eq!(curl(&server, &alice, &format!("/dav/main{file}"), &[]).status, status);
        assert_eq!(explain(&server, &["alice@local", "main", file, "read"]).as_deref(), explained);
        let review = server.cli(&["acl", "review", "main", "/outer/inner", "--auth-id", "alice@local"]);
        assert_eq!(review.len(), rows, "{review:?}");
    }
}

#[test]
fn explain_says_that_a_store_is_absent_for_somebody_without_a_role() {
    let server = Server::start();
    server.cli(&["user", "add", "bob@local"]);
    server.add_token("bob@local!test");
    assert_eq!(explain(&server, &["bob@local", "main", "/", "read"]).as_deref(), Some("access AC01"));
    server.cli(&["datastore", "maintenance", "main", "offline"]);
    // Users without a role do not learn that the datastore is closed.
    assert_eq!(explain(&server, &["bob@local", "main", "/", "read"]).as_deref(), Some("access AC01"));
    assert_eq!(explain(&server, &["bob@local", "nowhere", "/", "read"]).as_deref(), Some("access AC01"));
    let said = server.cli_output(&["explain", "bob@local", "nowhere"], "").stdout;
    assert!(String::from_utf8_lossy(&said).contains("there is no such datastore"));
    assert_eq!(explain(&server, &["admin@local", "main", "/", "read"]).as_deref(), Some("datastore DS02"));
}

/// The next step that an explanation proposes: the field `next` of the last door that refuses.
fn next(server: &Server, arguments: &[&str]) -> String {
    let output = server.cli_output(&[&["explain"], arguments].concat(), "");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let refused = said["doors"].as_array().unwrap().iter().rfind(|door| door["verdict"] == "refuse");
    refused.map(|door| door["next"].as_str().unwrap().to_owned()).unwrap_or_default()
}

#[test]
fn an_application_credential_and_a_session_have_the_roles_of_their_project() {
    let server = Server::start();
    server.cli(&["role", "define", "reader"]);
    server.cli(&["project", "add", "plain@local"]);
    server.cli(&["user", "add", "zoe@local"]);
    server.cli(&["role", "assign", "--project", "plain@local", "--auth-id", "zoe@local", "reader"]);
    let made = server.cli(&["token", "create", "zoe@local!ci", "--project", "plain@local"]);
    let ci = format!("zoe@local!ci:{}", made[0]["value"].as_str().unwrap());
    let status = || curl(&server, &ci, "/dav/main/", &PROPFIND_0).status;
    let ask = ["zoe@local!ci", "main"];
    assert_eq!((status(), explain(&server, &ask).as_deref()), (404, Some("access AC01")));
    assert!(
        next(&server, &ask).contains("enfilade datastore set main --project plain@local"),
        "{}",
        next(&server, &ask)
    );
    // The datastore is bound to another project. A new binding would remove the old binding.
    server.cli(&["project", "add", "other@local"]);
    server.cli(&["datastore", "set", "main", "--project", "other@local"]);
    let step = next(&server, &ask);
    assert!(step.contains("for the project other@local") && !step.contains("datastore set"), "{step}");
    server.cli(&["datastore", "set", "main", "--project", "plain@local"]);
    assert_eq!((status(), explain(&server, &ask)), (207, None));
    // A login with the user's password or API token gives no roles on the project. A session for the project gives these roles.
    server.add_token("zoe@local!test");
    assert_eq!(explain(&server, &["zoe@local", "main"]).as_deref(), Some("access AC01"));
    // No role on the path is proposed, because it would give more rights than the roles on the project.
    for who in ["zoe@local", "zoe@local!test"] {
        let step = next(&server, &[who, "main", "/file"]);
        let session = step.contains("the project plain@local") && step.contains("--project plain@local");
        assert!(session && !step.contains("role assign"), "{step}");
    }
    assert_eq!(explain(&server, &["zoe@local", "main", "--project", "plain@local"]), None);
    assert_eq!(
        explain(&server, &["zoe@local", "main", "/", "write", "--project", "plain@local"]).as_deref(),
        Some("access AC03")
    );
}

#[test]
fn nobody_can_log_in_after_everything_of_a_user_was_revoked() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastoreReader");
    assert_eq!(explain(&server, &["alice@local", "main"]), None);
    server.cli(&["revoke", "user", "alice@local", "--everything"]);
    assert_eq!(curl(&server, &alice, "/dav/main/", &PROPFIND_0).status, 401);
    assert_eq!(explain(&server, &["alice@local", "main"]).as_deref(), Some("identity ID04"));
    assert_eq!(explain(&server, &["alice@local!test", "main"]).as_deref(), Some("identity ID04"));
    assert!(next(&server, &["alice@local", "main"]).contains("enfilade user passwd alice@local"));
}

#[test]
fn a_new_file_is_judged_by_its_directory() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastoreReader");
    let put = |path: &str| curl(&server, &alice, path, &["--data", "x", "--request", "PUT"]).status;
    assert_eq!(put("/dav/main/new"), 403);
    let ask = ["alice@local", "main", "/new", "write-data"];
    assert_eq!(explain(&server, &ask).as_deref(), Some("access AC03"));
    assert_eq!(put("/dav/main/no/new"), 409);
    assert_eq!(
        explain(&server, &["alice@local", "main", "/no/new", "write"]).as_deref(),
        Some("content CT02")
    );
    // The next step is a command that succeeds.
    let step = next(&server, &ask);
    let command = step.split("enfilade ").nth(1).unwrap_or_else(|| panic!("{step}"));
    server.cli(&command.split(' ').collect::<Vec<_>>());
    assert_eq!((explain(&server, &ask), put("/dav/main/new")), (None, 201), "{step}");
}

#[test]
fn the_next_step_gives_only_what_is_missing_and_takes_nothing_away() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    let root = server.data().join("datastores/main");
    std::fs::create_dir_all(root.join("family")).unwrap();
    std::fs::write(root.join("family/file"), "x").unwrap();
    std::fs::set_permissions(root.join("family/file"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let run = |step: &str, expected: &str| {
        let command = step.split("enfilade ").nth(1).unwrap_or_else(|| panic!("{step}"));
        assert!(command.starts_with(expected), "{step}");
        let line = format!("exec \"$@\" {}", command.split(';').next().unwrap());
        let arguments = ["-c", &line, "sh", crate::server::BINARY, "--data"];
        let done = std::process::Command::new("sh").args(arguments).arg(server.data()).output().unwrap();
        assert!(done.status.success(), "{step}: {done:?}");
    };
    // For a user without a role, a role on the requested path is proposed.
    server.cli(&["user", "add", "bob@local"]);
    server.add_token("bob@local!test");
    let ask = ["bob@local", "main", "/family/file", "read-data"];
    run(&next(&server, &ask), "role assign --path /datastore/main/family/file --auth-id bob@local");
    assert_eq!(explain(&server, &ask), None);
    // The proposed command keeps all lines of the ACL.
    server.cli(&["acl", "set", "main", "/family/file", "allow alice@local full"]);
    run(&next(&server, &ask), "acl set main /family/file 'allow bob@local ");
    assert_eq!(explain(&server, &ask), None);
    assert_eq!(curl(&server, &alice, "/dav/main/family/file", &[]).status, 200);
    // The explanation names the cause, although a request gets the same answer as for an absent object.
    std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
    for (path, expected) in [
        ("/link", "is a symbolic link"),
        ("/link/x", "/link is a symbolic link"),
        ("/family/file/x", "/family/file is a file"),
    ] {
        let step = next(&server, &["admin@local", "main", path, "read-data"]);
        assert!(step.contains(expected), "{step}");
    }
    // An ACL would replace the mode bits, so no ACL is proposed.
    std::fs::write(root.join("plain"), "x").unwrap();
    std::fs::set_permissions(root.join("plain"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let step = next(&server, &["alice@local", "main", "/plain", "read-data"]);
    assert!(step.contains("mode bits 600") && !step.contains("acl set"), "{step}");
}

#[test]
fn a_new_password_says_what_else_lets_the_user_in() {
    let server = Server::start();
    server.add_user("alice", "DatastoreReader");
    let passwd = ["user", "passwd", "alice@local", "--password-stdin"];
    let output = server.cli_output(&passwd, "a long new password\n");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["other_credentials"], 1, "{said}");
}

#[test]
fn an_assigned_role_says_what_decides_about_its_effect() {
    let server = Server::start();
    server.add_user("alice", "DatastorePowerUser");
    let assign = |path: &str, role: &str| {
        let command = std::process::Command::new(crate::server::BINARY)
            .arg("--data")
            .arg(server.data())
            .args(["role", "assign"])
            .args(["--path", path, "--auth-id", "alice@local", role])
            .output()
            .unwrap();
        assert!(command.status.success(), "{command:?}");
        String::from_utf8([command.stdout, command.stderr].concat()).unwrap()
    };
    let main = "/datastore/main";
    let said = assign(main, "DatastoreReader");
    assert!(
        said.contains("in addition to DatastorePowerUser; to remove the other roles: enfilade role remove"),
        "{said}"
    );
    assign(main, "NoAccess");
    let said = assign(main, "DatastoreBackup");
    assert!(said.contains("the role has no effect, because NoAccess is on the same path"), "{said}");
    let said = assign("/datastore/main/famly", "DatastoreReader");
    assert!(said.contains("warning: /datastore/main/famly (`"), "{said}");
}

#[test]
fn the_sticky_bit_keeps_a_file_from_being_deleted_or_moved_by_others() {
    let server = Server::start();
    let alice = server.add_user("alice", "DatastorePowerUser");
    server.cli(&["user", "set", "alice@local", "--uid", "4100"]);
    let root = server.data().join("datastores/main");
    for (directory, mode) in [("sticky", 0o1777), ("plain", 0o777)] {
        let place = root.join(directory);
        std::fs::create_dir(&place).unwrap();
        for (name, uid) in [("own", 4100), ("others", 4101), ("moved", 4101)] {
            std::fs::write(place.join(name), "x").unwrap();
            std::fs::set_permissions(place.join(name), std::fs::Permissions::from_mode(0o666)).unwrap();
            chown(place.join(name), Some(uid), Some(4999)).unwrap();
        }
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode)).unwrap();
        chown(&place, Some(0), Some(0)).unwrap();
    }
    let delete = |path: &str| curl(&server, &alice, path, &["-X", "DELETE"]).status;
    let rename = |path: &str| {
        let to = format!("Destination: {}", server.url(&format!("{path}-renamed")));
        curl(&server, &alice, path, &["-X", "MOVE", "-H", &to]).status
    };
    assert_eq!(
        explain(&server, &["alice@local", "main", "/sticky/others", "delete"]).as_deref(),
        Some("access AC03")
    );
    assert_eq!(explain(&server, &["alice@local", "main", "/plain/others", "delete"]), None);
    assert_eq!((delete("/dav/main/sticky/others"), delete("/dav/main/plain/others")), (403, 204));
    assert_eq!((rename("/dav/main/sticky/moved"), rename("/dav/main/plain/moved")), (403, 201));
    assert_eq!((delete("/dav/main/sticky/own"), delete("/dav/main/plain/own")), (204, 204));
    assert!(root.join("sticky/others").exists() && root.join("sticky/moved").exists());
}
