//! Imports the files of a Proxmox server, and removes an imported user.

use crate::curl::curl;
use crate::server::Server;
use std::process::Command;
use std::time::Duration;

#[test]
fn a_proxmox_house_is_taken_over_once_and_what_cannot_be_is_named() {
    let server = Server::start();
    let from = server.scratch.path().join("proxmox-backup");
    let old = server.scratch.path().join("old-store");
    std::fs::create_dir_all(&from).unwrap();
    std::fs::create_dir_all(&old).unwrap();
    let hash = |method: &str, secret: &str| {
        let output =
            Command::new("openssl").args(["passwd", method, "-salt", "abcdefgh", secret]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let write = |name: &str, text: &str| std::fs::write(from.join(name), text).unwrap();
    write(
        "user.cfg",
        "user: root@pam\n\nuser: ann@pbs\n\tcomment Ann\n\ntoken: ann@pbs!backup\n\ntoken: ann@pbs!lost\n\n\
         token: ann@pbs!weak\n\nuser: bob@pbs\n\tfoo 1\n\n",
    );
    let shadow = format!(
        "{{\"ann@pbs!backup\":\"{}\",\"ann@pbs!weak\":\"{}\"}}",
        hash("-6", "one secret"),
        hash("-1", "x")
    );
    write("token.shadow", &shadow);
    write(
        "acl.cfg",
        "acl:1:/datastore/old:ann@pbs,@staff:DatastorePowerUser\nacl:1:/datastore/old:ann@pbs!backup:DatastoreReader\n",
    );
    let store = format!(
        "datastore: old\n\tpath {}\n\tgc-schedule daily\n\ndatastore: main\n\tpath /x\n\n\
         datastore: inside\n\tpath {}/inside\n\n",
        old.display(),
        old.display()
    );
    write("datastore.cfg", &store);
    std::fs::write(old.join("plan.txt"), "the plan").unwrap();
    let from = from.to_str().unwrap();

    let before = server.cli(&["user", "list"]);
    let pretended = server.cli(&["import", "proxmox", from, "--pretend"]);
    assert_eq!(server.cli(&["user", "list"]), before);
    let report = server.cli(&["import", "proxmox", from]);
    assert_eq!(pretended[..report.len() - 1], report[..report.len() - 1]);
    let became = |what: &str| {
        let item =
            report.iter().find(|item| item["what"] == what).unwrap_or_else(|| panic!("{what}: {report:#?}"));
        item["left_out"].as_str().unwrap_or("taken").to_owned()
    };
    for (what, expected) in [
        ("user ann@pbs", "taken"),
        ("user root@pam", "taken"),
        ("token ann@pbs!backup", "taken"),
        ("token ann@pbs!lost", "token.shadow has no hash of the token's secret"),
        (
            "token ann@pbs!weak",
            "the hash of the token's secret cannot be used: the hash has an unknown scheme",
        ),
        ("user bob@pbs", "user.cfg, line 13: unknown property 'foo'"),
        ("roles ann@pbs on /datastore/old", "taken"),
        ("roles ann@pbs!backup on /datastore/old", "taken"),
        ("roles @staff on /datastore/old", "there is no group `staff@local`"),
        ("datastore old", "taken"),
        ("datastore main", "another datastore has this name here, with the path `"),
        ("datastore inside", "the path `"),
    ] {
        assert!(became(what).starts_with(expected), "{what}: {}", became(what));
    }
    let login = "ann@pbs!backup:one secret";
    let read = curl(&server, login, "/dav/old/plan.txt", &[]);
    assert_eq!((read.status, read.text().as_str()), (200, "the plan"));
    assert_eq!(curl(&server, login, "/dav/old/new.txt", &["--upload-file", "/etc/hostname"]).status, 403);
    assert!(
        std::fs::read_to_string(server.data().join("datastore.cfg")).unwrap().contains("gc-schedule daily")
    );
    let again = server.cli(&["import", "proxmox", from]);
    assert_eq!(again.last().unwrap()["taken"], 0, "{again:#?}");

    server.cli(&["user", "set", "ann@pbs", "--comment", "Anna"]);
    assert!(server.cli(&["user", "list"]).iter().any(|user| user["comment"] == "Anna"));
    server.cli(&["user", "remove", "ann@pbs"]);
    assert_eq!(curl(&server, login, "/whoami", &[]).status, 401);
    assert!(server.cli(&["token", "list"]).is_empty());
    assert!(
        !server.cli(&["role", "list"]).iter().any(|role| role["auth_id"].as_str().unwrap().contains("ann"))
    );
    let missing = server.cli_output(&["user", "remove", "ann@pbs"], "");
    assert!(String::from_utf8(missing.stderr).unwrap().contains("there is no user `ann@pbs`"));
}

/// A datastore, users and a group of this server have the same names as records of the source. The import gives the users of the source no rights on
/// this server's datastore. It gives this server's users and group none of the roles that the source assigns to the same names.
#[test]
fn roles_of_an_import_never_reach_records_that_are_not_of_the_source() {
    let server = Server::start();
    let place = |name: &str| {
        let path = server.scratch.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("plan.txt"), name).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let hash = |secret: &str| {
        let output = Command::new("openssl").args(["passwd", "-5", secret]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let (theirs, ours, from) = (place("theirs"), place("ours"), place("proxmox-backup"));
    server.cli(&["datastore", "create", "tenant", "--path", &theirs]);
    server.cli(&["datastore", "create", "gone", "--path", &place("other")]);
    let twin = place("twin");
    server.cli(&["datastore", "create", "twin", "--path", &twin]);
    server.cli(&["domain", "add", "pbs"]);
    server.cli(&["user", "add", "bob@pbs"]);
    server.cli(&["group", "add", "staff"]);
    let write = |name: &str, text: &str| std::fs::write(format!("{from}/{name}"), text).unwrap();
    write("user.cfg", "user: ann@pbs\n\nuser: bob@pbs\n\ntoken: bob@pbs!t\n\ntoken: ann@pbs!t\n\n");
    write("shadow.json", &format!("{{\"ann\":\"{}\"}}", hash("ann's")));
    write("token.shadow", &format!("{{\"bob@pbs!t\":\"{0}\",\"ann@pbs!t\":\"{0}\"}}", hash("one")));
    write(
        "datastore.cfg",
        &format!(
            "datastore: tenant\n\tpath {ours}\n\ndatastore: mine\n\tpath {ours}2\n\ndatastore: twin\n\tpath {twin}\n\n"
        ),
    );
    std::fs::create_dir(format!("{ours}2")).unwrap();
    write(
        "acl.cfg",
        "acl:1:/:ann@pbs:Admin\nacl:1:/datastore:ann@pbs!t:DatastoreAdmin\nacl:1:/access/users:ann@pbs:Admin\n\
         acl:1:/datastore/tenant:ann@pbs,ann@pbs!t:DatastoreReader\nacl:1:/datastore/tenant/ns1:ann@pbs:DatastoreReader\n\
         acl:1:/datastore/gone:ann@pbs:DatastoreReader\nacl:1:/datastore/nowhere:ann@pbs:DatastoreReader\n\
         acl:1:/datastore/mine:ann@pbs,bob@pbs,bob@pbs!t,@staff,eve@pbs:DatastoreReader\nacl:1:/datastore/main:ann@pbs:NoAccess\nacl:1:/datastore/twin:ann@pbs:DatastoreReader\n",
    );
    let report = server.cli(&["import", "proxmox", &from]);
    let why = |what: &str| {
        let item =
            report.iter().find(|item| item["what"] == what).unwrap_or_else(|| panic!("{what}: {report:#?}"));
        item["left_out"].as_str().unwrap_or("taken").to_owned()
    };
    let another = "the source has no datastore `gone`, and on this server `gone` is another datastore, to which the roles would apply";
    let left = "the datastore `tenant` of the source was not imported, and on this server `tenant` is another datastore";
    for (what, expected) in [
        (
            "roles ann@pbs on /",
            "the roles would also apply to datastores that were on this server before the import: gone, main, tenant, twin",
        ),
        (
            "roles ann@pbs!t on /datastore",
            "the roles would also apply to datastores that were on this server before the import",
        ),
        (
            "roles ann@pbs on /access/users",
            "the path is not a datastore path, so the roles would also give rights on users that are only on this server",
        ),
        ("roles ann@pbs on /datastore/tenant", left),
        ("roles ann@pbs!t on /datastore/tenant", left),
        ("roles ann@pbs on /datastore/tenant/ns1", left),
        ("roles ann@pbs on /datastore/gone", another),
        (
            "roles ann@pbs on /datastore/nowhere",
            "the datastore `nowhere` is not in the source and not on this server",
        ),
        ("roles ann@pbs on /datastore/mine", "taken"),
        ("roles ann@pbs on /datastore/main", "taken"),
        ("roles ann@pbs on /datastore/twin", "the datastore `twin` was on this server before the import"),
        (
            "roles bob@pbs on /datastore/mine",
            "the user `bob@pbs` was on this server before the import, and is possibly not the same as in the source",
        ),
        ("token bob@pbs!t", "the user `bob@pbs` was on this server before the import"),
        ("roles bob@pbs!t on /datastore/mine", "there is no token `bob@pbs!t`"),
        (
            "roles @staff on /datastore/mine",
            "the source has no groups, so the group `staff@local` on this server is a different group",
        ),
        ("roles eve@pbs on /datastore/mine", "there is no user `eve@pbs`"),
    ] {
        assert!(why(what).starts_with(expected), "{what}: {}", why(what));
    }
    let next = report.last().unwrap()["next"].to_string();
    assert!(
        next.contains("entries with roles were left out") && next.contains("role assign --path"),
        "{next}"
    );
    let roles = server.cli(&["role", "list"]);
    let given: Vec<_> =
        roles.iter().filter(|role| role["auth_id"] != "admin@local").map(|role| &role["path"]).collect();
    assert!(
        given.iter().all(|path| *path == "/datastore/mine" || *path == "/datastore/main" || *path == "/"),
        "{roles:#?}"
    );
    for path in ["/dav/tenant/plan.txt", "/dav/gone/plan.txt", "/dav/twin/plan.txt", "/dav/main/"] {
        assert_eq!(curl(&server, "ann@pbs:ann's", path, &[]).status, 404, "{path}");
    }
    // Imports from the same source again. With `--same-source`, the datastores, users and tokens of this server count as the records of the same
    // names in the source.
    let acl = std::fs::read_to_string(format!("{from}/acl.cfg")).unwrap();
    write("acl.cfg", &(acl + "acl:1:/datastore/mine/a:ann@pbs:DatastoreReader\n"));
    let again = server.cli(&["import", "proxmox", &from]);
    assert_eq!(again.last().unwrap()["taken"], 0, "{again:#?}");
    let again = server.cli(&["import", "proxmox", &from, "--same-source"]);
    let taken = |what: &str| again.iter().any(|item| item["what"] == what && item["left_out"].is_null());
    assert!(
        taken("roles ann@pbs on /datastore/mine/a") && taken("roles ann@pbs on /datastore/twin"),
        "{again:#?}"
    );
    assert_eq!(curl(&server, "ann@pbs:ann's", "/dav/tenant/plan.txt", &[]).status, 404);
}

#[test]
fn a_token_that_was_taken_over_is_upgraded_when_its_secret_is_used() {
    let server = Server::start();
    let from = server.scratch.path().join("proxmox-backup");
    std::fs::create_dir_all(&from).unwrap();
    let secret = "550e8400-e29b-41d4-a716-446655440000";
    let hash = Command::new("openssl").args(["passwd", "-5", secret]).output().unwrap().stdout;
    let hash = String::from_utf8(hash).unwrap();
    std::fs::write(from.join("user.cfg"), "user: ann@pbs\n\ntoken: ann@pbs!tok\n\n").unwrap();
    std::fs::write(from.join("token.shadow"), format!("{{\"ann@pbs!tok\":\"{}\"}}", hash.trim())).unwrap();
    server.cli(&["import", "proxmox", from.to_str().unwrap()]);
    let checked_by =
        || server.cli(&["token", "show", "ann@pbs!tok"])[0]["checked_by"].as_str().unwrap().to_owned();
    let login = format!("ann@pbs!tok:{secret}");
    assert_eq!(curl(&server, &login, "/whoami", &[]).status, 200);
    assert_eq!(checked_by(), "a slow hash ($5$), as for passwords");
    let marked = server.cli(&["token", "upgrade", "ann@pbs!tok"]);
    assert_eq!(marked[0]["left_as_it_is"], serde_json::Value::Null);
    assert_eq!(
        checked_by(),
        "a slow hash ($5$), as for passwords; if the secret has a form that Enfilade, Proxmox or Keystone generates, the next use of the secret replaces the hash with a fast one"
    );
    assert_eq!(curl(&server, &login, "/whoami", &[]).status, 200);
    let is_upgraded = || checked_by() == "a fast keyed hash";
    assert!((0..600).any(|_| is_upgraded() || (std::thread::sleep(Duration::from_millis(100)), false).1));
    assert_eq!(curl(&server, &login, "/whoami", &[]).status, 200);
    assert_eq!(curl(&server, &login.replace("550e", "650e"), "/whoami", &[]).status, 401);
    let again = server.cli(&["token", "upgrade", "--all"]);
    assert_eq!(again[0]["left_as_it_is"], "the token already has a fast hash");
}

#[test]
fn a_user_of_the_files_is_removed_from_all_of_them() {
    let server = Server::start();
    let write = |name: &str, text: &str| std::fs::write(server.data().join(name), text).unwrap();
    write("user.cfg", "user: ann@pbs\n\ntoken: ann@pbs!t\n\nuser: annette@pbs\n\n");
    write("token.shadow", "{\"ann@pbs!t\":\"$5$x\",\"annette@pbs!t\":\"$5$y\"}");
    write("acl.cfg", "acl:1:/:ann@pbs,ann@pbs!t,annette@pbs:Audit\n");
    server.cli(&["user", "remove", "ann@pbs"]);
    let read = |name: &str| std::fs::read_to_string(server.data().join(name)).unwrap();
    assert_eq!(read("user.cfg"), "user: annette@pbs\n\n");
    assert_eq!(read("token.shadow"), "{\"annette@pbs!t\":\"$5$y\"}");
    assert_eq!(read("acl.cfg"), "acl:1:/:annette@pbs:Audit\n");
    let users = server.cli(&["user", "list"]);
    assert!(!users.iter().any(|user| user["user"] == "ann@pbs"), "{users:#?}");
    let refused = server.cli_output(&["user", "remove", "root@pam"], "");
    assert!(!refused.status.success());
}
