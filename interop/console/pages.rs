//! The pages of the console for the account, for explanations, and for administrators.

use super::{Browser, PASSWORD, server, set_password};
use crate::curl::{PROPFIND_0, curl};
use crate::server::{Server, until};
use serde_json::json;

/// The server, with an administrator and an auditor.
fn world() -> Server {
    let server = server();
    for (name, role) in [("root@local", "Admin"), ("eve@local", "Audit")] {
        server.cli(&["user", "add", name]);
        set_password(&server, name);
        server.cli(&["role", "assign", "--path", "/", "--auth-id", name, role]);
    }
    server
}

fn signed_in<'s>(server: &'s Server, user: &str) -> Browser<'s> {
    let browser = Browser::new(server);
    browser.sign_in(user);
    browser
}

#[test]
fn people_manage_their_own_tokens_sessions_and_password() {
    let server = world();
    let alice = signed_in(&server, "alice");
    let create = |fields: &[(&str, &str)]| alice.act("/console/account/create-token", fields);
    let made = create(&[("name", "laptop"), ("days", "30"), ("role", "")]);
    let text = made.text();
    let secret = text.split("<code id=\"secret\">").nth(1).and_then(|rest| rest.split('<').next()).unwrap();
    let login = format!("alice@local!laptop:{secret}");
    assert_eq!(curl(&server, &login, "/dav/main/", &PROPFIND_0).status, 207);
    assert!(!alice.open("/console/account").text().contains(secret) && !server.log().contains(secret));
    // A token with a separate role has only this role.
    let made = create(&[
        ("name", "narrow"),
        ("days", "1"),
        ("role", "DatastoreReader"),
        ("path", "/datastore/main"),
    ]);
    assert_eq!(made.status, 200, "{}", made.text());
    let roles = server.cli(&["role", "list"]);
    assert!(
        roles
            .iter()
            .any(|role| role["who"] == "alice@local!narrow" || role["auth_id"] == "alice@local!narrow"),
        "{roles:?}"
    );
    for (fields, why) in [
        (&[("name", "laptop"), ("days", "30")][..], "already exists"),
        (&[("name", ""), ("days", "30")], "token name"),
        (&[("name", "x"), ("days", "31")], "choose when"),
        (&[("name", "x"), ("days", "1"), ("role", "Admin"), ("path", "nowhere")], "role path"),
        (
            &[("name", "x"), ("days", "1"), ("role", "ApplicationUser"), ("path", "/datastore/main")],
            "no effect",
        ),
    ] {
        let refused = create(fields);
        assert!(refused.status == 422 && refused.text().contains(why), "{fields:?}: {}", refused.text());
    }
    let tokens = server.cli(&["token", "list", "alice@local"]);
    assert!(!tokens.iter().any(|token| token.to_string().contains("alice@local!x\"")), "{tokens:?}");
    assert_eq!(alice.act("/console/account/delete-token", &[("name", "laptop")]).status, 303);
    assert_eq!(curl(&server, &login, "/dav/main/", &PROPFIND_0).status, 401);
    // Alice can end the session of her second browser.
    let second = signed_in(&server, "alice");
    let bob = signed_in(&server, "bob");
    let page = alice.open("/console/account").text();
    let sessions: Vec<&str> = page.split("name=\"session\" value=\"").skip(1).collect();
    assert_eq!(sessions.len(), 1, "{page}");
    let session = sessions[0].split('"').next().unwrap();
    // Bob cannot end a session of alice.
    assert_eq!(bob.act("/console/account/end-session", &[("session", session)]).status, 422);
    assert_eq!(second.open("/console/").status, 200);
    assert_eq!(alice.act("/console/account/end-session", &[("session", session)]).status, 303);
    assert_eq!((second.open("/console/").status, alice.open("/console/").status), (303, 200));
    // Alice changes her password.
    let change = |present, new, again| {
        alice.act("/console/account/password", &[("present", present), ("new", new), ("again", again)])
    };
    assert!(change("wrong", "x", "x").text().contains("present password is wrong"));
    assert!(change(PASSWORD, "x", "y").text().contains("differ"));
    assert_eq!(alice.open("/console/").status, 200);
    let changed = change(PASSWORD, "battery staple", "battery staple");
    assert!(
        changed.status == 200 && changed.text().contains("The password was changed"),
        "{}",
        changed.text()
    );
    assert_eq!(alice.open("/console/").status, 303);
    let login =
        |password| alice.submit("/console/sign-in", &[("user", "alice"), ("password", password)]).status;
    assert_eq!((login(PASSWORD), login("battery staple")), (403, 303));
}

#[test]
fn an_explanation_has_five_doors_and_needs_the_right_to_ask_about_others() {
    let server = world();
    server.cli(&["acl", "set", "main", "/", "allow authenticated read inherit=files,dirs"]);
    let (root, alice, eve) =
        (signed_in(&server, "root"), signed_in(&server, "alice"), signed_in(&server, "eve"));
    let ask = |browser: &Browser<'_>, who: &str, right: &str| {
        browser.open(&format!("/console/explain?who={who}&right={right}&datastore=main&path=/"))
    };
    let page = ask(&root, "bob%40local", "read").text();
    assert!(page.contains("bob@local</strong> may read") && page.matches("<h3>").count() == 5, "{page}");
    let page = ask(&root, "bob%40local", "add-file").text();
    assert!(
        page.contains("bob@local</strong> may not add files")
            && page.contains("enfilade role assign --path /datastore/main"),
        "{page}"
    );
    // All users may ask about their own access. Only an administrator may ask about the access of other users. An auditor may not, although an
    // auditor sees all roles.
    assert!(ask(&alice, "alice%40local", "read").text().contains("You may read"));
    for (browser, who) in [(&alice, "bob%40local"), (&eve, "bob%40local"), (&alice, "root%40local")] {
        assert_eq!(ask(browser, who, "read").status, 403, "{who}");
    }
    for area in ["review", "review-csv"] {
        let status = |browser: &Browser<'_>| browser.open(&format!("/console/{area}/main/")).status;
        assert_eq!((status(&root), status(&alice), status(&eve)), (200, 403, 403), "{area}");
    }
    std::fs::write(server.data().join("datastores/main/=a,b"), "x").unwrap();
    // If one user cannot log in, the review still works for the other users.
    server.cli(&["domain", "add", "shut"]);
    server.cli(&["user", "add", "carl@shut"]);
    server.cli(&["domain", "disable", "shut"]);
    let csv = root.open("/console/review-csv/main/").text();
    assert!(
        csv.starts_with("path,kind,who,rights\n/,directory,") && csv.contains("\"/=a,b\",file,"),
        "{csv}"
    );
    assert!(root.open("/console/review/main/").text().contains("bob@local"));
}

#[test]
fn administrators_do_what_the_command_line_does_and_nobody_else_does() {
    let server = world();
    let (root, eve, alice) =
        (signed_in(&server, "root"), signed_in(&server, "eve"), signed_in(&server, "alice"));
    let areas = [
        "users",
        "groups",
        "roles",
        "datastores",
        "applications",
        "certificates",
        "keys",
        "changes",
        "refusals",
        "health",
    ];
    for area in areas {
        let status = |browser: &Browser<'_>| browser.open(&format!("/console/{area}")).status;
        // A user without a privilege sees an empty list of datastores, as in the API.
        let of_alice = if area == "datastores" { 200 } else { 403 };
        assert_eq!((status(&root), status(&eve), status(&alice)), (200, 200, of_alice), "{area}");
    }
    assert!(!alice.open("/console/datastores").text().contains("Active operations"));
    // An administrator may do these actions. An auditor and a user may not do them.
    for (path, fields, location) in [
        (
            "users/add",
            &[("name", "carl@local"), ("password", "battery staple")][..],
            "/console/users?user=carl%40local&done=user",
        ),
        ("users/disable", &[("name", "carl@local")], "/console/users?user=carl%40local&done=changed"),
        ("users/enable", &[("name", "carl@local")], "/console/users?user=carl%40local&done=changed"),
        (
            "users/password",
            &[("name", "carl@local"), ("password", PASSWORD)],
            "/console/users?user=carl%40local&done=changed",
        ),
        (
            "roles/assign",
            &[("who", "carl@local"), ("role", "DatastoreReader"), ("path", "/datastore/main")],
            "/console/roles?done=changed",
        ),
        (
            "roles/remove",
            &[("who", "carl@local"), ("role", "DatastoreReader"), ("path", "/datastore/main")],
            "/console/roles?done=changed",
        ),
        ("groups/add", &[("group", "staff")], "/console/groups?done=changed"),
        (
            "groups/add-member",
            &[("group", "staff"), ("member", "carl@local")],
            "/console/groups?done=changed",
        ),
        (
            "groups/remove-member",
            &[("group", "staff"), ("member", "carl@local")],
            "/console/groups?done=changed",
        ),
        ("groups/remove", &[("group", "staff")], "/console/groups?done=changed"),
        (
            "datastores/maintenance",
            &[("name", "main"), ("mode", "read-only")],
            "/console/datastores?done=changed",
        ),
        ("datastores/maintenance", &[("name", "main"), ("mode", "none")], "/console/datastores?done=changed"),
        (
            "applications/add",
            &[
                ("application", "wiki"),
                ("hosts", "wiki.example.com, docs.example.com"),
                ("public", "/static"),
            ],
            "/console/applications?done=changed",
        ),
        (
            "applications/set",
            &[("application", "wiki"), ("hosts", "wiki.example.com"), ("administer", "/admin,/settings")],
            "/console/applications?done=changed",
        ),
        ("users/end-sessions", &[("name", "carl@local")], "/console/users?user=carl%40local&done=changed"),
        ("users/remove", &[("name", "carl@local")], "/console/users?done=removed"),
    ] {
        for other in [&eve, &alice] {
            assert_eq!(other.act(&format!("/console/{path}"), fields).status, 403, "{path}");
        }
        let done = root.act(&format!("/console/{path}"), fields);
        assert_eq!((done.status, done.header("location")), (303, location), "{path}: {}", done.text());
        if path == "users/password" {
            assert_eq!(signed_in(&server, "carl").open("/console/").status, 200);
        }
    }
    assert!(!server.cli(&["user", "list"]).iter().any(|user| user["user"] == "carl@local"));
    let changes = root.open("/console/changes?q=carl").text();
    assert!(
        changes.contains("role assign DatastoreReader to carl@local") && changes.contains("root@local"),
        "{changes}"
    );
    let wiki = &server.cli(&["application", "show", "wiki"])[0];
    assert_eq!((&wiki["hosts"], &wiki["public"]), (&json!(["wiki.example.com"]), &json!([])), "{wiki}");
    assert_eq!(wiki["administer"], json!(["/admin", "/settings"]), "{wiki}");
    let applications = root.open("/console/applications").text();
    assert!(applications.contains("value=\"/admin,/settings\""), "{applications}");
    for (field, text) in [("hosts", "no host"), ("hosts", ""), ("public", "static")] {
        let usual = [("application", "wiki"), ("hosts", "wiki.example.com"), (field, text)];
        let fields: Vec<_> =
            usual.into_iter().filter(|(name, value)| *name != field || *value == text).collect();
        let refused = root.act("/console/applications/set", &fields);
        assert_eq!(refused.status, 422, "{field}={text}: {}", refused.text());
    }
    let gone = root.act("/console/applications/remove", &[("application", "wiki")]);
    assert_eq!((gone.status, server.cli(&["application", "list"]).len()), (303, 0));
    // If the command line refuses something, the console refuses it with the same sentence.
    let refused = root.act("/console/users/add", &[("name", "alice@local")]);
    assert!(refused.status == 422 && refused.text().contains("already exists"), "{}", refused.text());
}

#[test]
fn roles_of_a_user_are_not_shown_without_the_privilege_for_roles() {
    let server = world();
    server.cli(&["role", "assign", "--path", "/access/users", "--auth-id", "bob@local", "Audit"]);
    let page = |user: &str| signed_in(&server, user).open("/console/users?user=eve%40local").text();
    let (of_root, of_bob) = (page("root"), page("bob"));
    assert!(of_root.contains("<dt>Groups</dt>") && !of_root.contains("You may not see roles"), "{of_root}");
    assert!(of_bob.contains("You may not see roles") && !of_bob.contains("<dt>Groups</dt>"), "{of_bob}");
}

#[test]
fn certificates_show_what_a_client_gets_for_a_name() {
    let server = world();
    let root = signed_in(&server, "root");
    let page = |name: &str| root.open(&format!("/console/certificates?name={name}")).text();
    let text = page("localhost");
    assert!(text.contains("asks for <strong>localhost</strong> gets the certificate <code>"), "{text}");
    assert!(text.contains("/tls/") && text.contains(" days</span>") && text.contains("ECDSA"), "{text}");
    assert!(!text.contains("default certificate"), "{text}");
    let text = page("unknown.example.com");
    assert!(
        text.contains(
            "No certificate was found for this name or address, so this is the default certificate."
        ),
        "{text}"
    );
    let text = page(&"a".repeat(300));
    assert!(text.contains("at most 253 characters"), "{text}");
    // The page lists a certificate file that cannot be used.
    std::fs::write(server.data().join("tls/broken.pem"), "no certificate").unwrap();
    until("the broken file is noticed", &server, || page("").contains("broken.pem"));
    let keys = root.open("/console/keys").text();
    assert!(keys.contains("signs now") && keys.contains("signs after the next rotation"), "{keys}");
}

#[test]
fn refusals_hide_paths_from_people_who_do_not_administer_the_datastore() {
    let server = world();
    let (root, eve) = (signed_in(&server, "root"), signed_in(&server, "eve"));
    let alice = server.add_token("alice@local!refused");
    assert_eq!(curl(&server, &alice, "/dav/main/secret-name.txt", &[]).status, 404);
    assert_eq!(curl(&server, "alice@local!refused:wrong", "/dav/main/", &PROPFIND_0).status, 401);
    let page = |browser: &Browser<'_>, query: &str| browser.open(&format!("/console/refusals{query}")).text();
    let text = page(&root, "");
    assert!(text.contains("secret-name.txt") && text.contains("alice@local!refused"), "{text}");
    assert!(text.contains("/console/explain?who=alice%40local%21refused&amp;right=read"), "{text}");
    assert!(text.contains("ID05") && text.contains("wrong secret or password"), "{text}");
    let only = page(&root, "?door=identity&code=ID05");
    assert!(only.contains("ID05") && !only.contains("secret-name.txt"), "{only}");
    let text = page(&eve, "");
    assert!(text.contains("alice@local!refused") && !text.contains("secret-name.txt"), "{text}");
    assert!(
        text.contains("wrong secret or password") && text.contains("no such file or directory"),
        "{text}"
    );
    // The name in a failed login may be a password in the wrong field, so only an administrator sees it.
    assert_eq!(curl(&server, "hunter2@local:x", "/dav/main/", &PROPFIND_0).status, 401);
    assert!(page(&root, "").contains("hunter2") && !page(&eve, "").contains("hunter2"));
}
