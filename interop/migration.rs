//! The reports of imports: the records of the source, the imported records, the omitted records with the reasons, and the next steps.

use crate::curl::{PROPFIND_0, curl};
use crate::server::{BINARY, Scratch, Server, WITHOUT_PENALTIES, until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub(crate) fn hash(secret: &str) -> String {
    let output = Command::new("openssl").args(["passwd", "-5", secret]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub(crate) fn enfilade(data: &Path, arguments: &[&str]) -> Output {
    Command::new(BINARY).arg("--data").arg(data).args(arguments).output().unwrap()
}

/// The standard output of a command that succeeds.
pub(crate) fn said(data: &Path, arguments: &[&str]) -> String {
    let output = enfilade(data, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Writes the files of a Proxmox Backup Server: ann has a password, bob and root@pam have second factors, and carl belongs to an LDAP directory.
pub(crate) fn proxmox(directory: &Path, stores: &Path) {
    for made in ["chunks/.chunks", "plain"] {
        std::fs::create_dir_all(stores.join(made)).unwrap();
    }
    // Without an ACL the mode bits decide. Ann has no uid on this machine, so the mode bits for others apply.
    for store in ["chunks", "plain"] {
        std::fs::set_permissions(stores.join(store), PermissionsExt::from_mode(0o777)).unwrap();
    }
    std::fs::create_dir_all(directory).unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    let users = "user: ann@pbs\n\nuser: bob@pbs\n\nuser: carl@corp\n\nuser: dan@pbs\n\nuser: root@pam\n\n";
    write("user.cfg", users);
    write(
        "acl.cfg",
        "acl:1:/datastore:ann@pbs:DatastorePowerUser\nacl:1:/datastore/plain/a:dan@pbs:DatastoreReader\n",
    );
    let shadow = format!(
        "{{\"ann\":\"{}\",\"bob\":\"{}\",\"ghost\":\"{}\"}}",
        hash("ann's"),
        hash("bob's"),
        hash("ghost's")
    );
    write("shadow.json", &shadow);
    write("domains.cfg", "ldap: corp\n\tcomment The company\n\tserver1 ldap.example.org\n\n");
    write(
        "tfa.json",
        "{\"users\":{\"bob@pbs\":{\"totp\":[{\"info\":{\"id\":\"1\"},\"entry\":\"otpauth://x\"}]},\"root@pam\":{\"recovery\":{\"secret\":\"s\"}}}}",
    );
    write("remote.cfg", "remote: other\n\thost x\n\n");
    let store = |name: &str| format!("datastore: {name}\n\tpath {}/{name}\n\n", stores.display());
    write("datastore.cfg", &(store("chunks") + &store("plain") + &store("gone")));
}

pub(crate) fn whoami(server: &Server, login: &str) -> u16 {
    curl(server, login, "/whoami", &[]).status
}

fn ticket(server: &Server, user: &str, password: &str) -> u16 {
    let form = [format!("username={user}"), format!("password={password}")];
    let [user, password] = &form;
    let form = ["--data-urlencode", user, "--data-urlencode", password];
    curl(server, "", "/api2/json/access/ticket", &form).status
}

#[test]
fn a_proxmox_server_is_imported_and_every_difference_is_told() {
    let there = Scratch::new();
    let (directory, stores) = (there.path().join("pbs"), there.path().join("stores"));
    proxmox(&directory, &stores);
    let from = directory.to_str().unwrap();
    let mut told = (String::new(), String::new());
    let server = Server::start_on(
        |data| {
            told.0 = said(data, &["import", "proxmox", from, "--pretend"]);
            assert!(!data.exists(), "a pretended import creates nothing");
            told.1 = said(data, &["--json", "import", "proxmox", from]);
        },
        &[WITHOUT_PENALTIES],
    );
    let report = lines(&told.1);
    let find = |what: &str, key: &str| {
        let item = report.iter().find(|item| item["what"] == what);
        item.unwrap_or_else(|| panic!("{what}: {report:#?}"))[key].as_str().unwrap_or_default().to_owned()
    };
    for (what, key, expected) in [
        ("password ann@pbs", "left_out", ""),
        ("user ann@pbs", "differs", ""),
        (
            "password bob@pbs",
            "left_out",
            "the user needs a second factor in Proxmox (totp), and this server imports no second factors",
        ),
        (
            "second factor bob@pbs",
            "left_out",
            "totp: second factors are not imported; the user's password was left out, too",
        ),
        (
            "second factor root@pam",
            "left_out",
            "recovery: second factors are not imported; no password was imported for the user",
        ),
        (
            "user carl@corp",
            "differs",
            "without a password: Proxmox checks passwords of the realm with ldap, which this server does not support",
        ),
        ("user dan@pbs", "differs", "without a password: shadow.json has no password of this user"),
        (
            "user root@pam",
            "differs",
            "without a password: the password belongs to a system account of the Proxmox server",
        ),
        ("realm corp", "differs", "this server does not check logins with ldap"),
        ("password ghost@pbs", "left_out", "user.cfg has no such user"),
        ("file remote.cfg", "left_out", "remotes: this server does not pull data from other servers"),
        ("datastore plain", "differs", ""),
        (
            "roles ann@pbs on /datastore",
            "differs",
            "on this server, DatastorePowerUser gives access to all files below the path; on Proxmox Backup Server, this role gives access only to the user's own backups",
        ),
        (
            "roles dan@pbs on /datastore/plain/a",
            "differs",
            "on this server the files of this namespace are in /datastore/plain/ns/a, so the roles are assigned on that path",
        ),
    ] {
        assert_eq!(find(what, key), expected, "{what}");
    }
    assert!(find("datastore chunks", "differs").starts_with("read-only: "));
    assert!(find("datastore gone", "differs").contains("may be a chunk store"));
    let last = report.last().unwrap();
    let users = last["kinds"].as_array().unwrap().iter().find(|kind| kind["kind"] == "user").unwrap();
    assert_eq!((&users["there"], &users["taken"]), (&Value::from(5), &Value::from(5)));
    assert!(last["notes"].to_string().contains("Fernet keys were created"), "{last}");
    let next = last["next"].to_string();
    for expected in [
        "user passwd root@pam",
        "user passwd bob@pbs",
        "user passwd carl@corp",
        "--without-second-factor",
        "datastore maintenance chunks none",
        "acl set chunks / 'allow USER@REALM modify inherit=files,dirs' --recursive",
        "-u 'ann@pbs' -X PROPFIND",
        // The report proposes a request for `plain`, because the other datastores are read-only.
        "https://127.0.0.1:8443/dav/plain/",
    ] {
        assert!(next.contains(expected), "{expected}: {next}");
    }
    // The report as plain text has the same content, and `--pretend` changes nothing.
    for expected in [
        "WOULD BE IMPORTED",
        "password ann@pbs",
        "second factor bob@pbs",
        "nothing was changed; to import",
        from,
    ] {
        assert!(told.0.contains(expected), "{expected}: {}", told.0);
    }

    assert_eq!((whoami(&server, "ann@pbs:ann's"), whoami(&server, "ann@pbs:bob's")), (200, 401));
    assert_eq!((whoami(&server, "bob@pbs:bob's"), ticket(&server, "bob@pbs", "bob's")), (401, 401));
    assert_eq!(ticket(&server, "ann@pbs", "ann's"), 200, "{}", server.log());
    let put = |path: &str| curl(&server, "ann@pbs:ann's", path, &["--upload-file", "/etc/hostname"]).status;
    assert_eq!(curl(&server, "ann@pbs:ann's", "/dav/chunks/", &PROPFIND_0).status, 207);
    assert_eq!((put("/dav/plain/a"), put("/dav/chunks/a")), (201, 503));
    server.cli(&["datastore", "maintenance", "chunks", "none"]);
    assert_eq!(put("/dav/chunks/a"), 201);
    // The chunk store is writable now, and `doctor` warns of this.
    let doctor = server.cli_output(&["doctor"], "");
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("is a chunk store of Proxmox Backup Server"));

    // An existing user gets no password, because a different person may have the same name in the source.
    let again = server.cli(&["import", "proxmox", from, "--without-second-factor"]);
    assert_eq!((again.last().unwrap()["taken"].as_u64(), whoami(&server, "bob@pbs:bob's")), (Some(0), 401));
    let again = server.cli(&["import", "proxmox", from, "--without-second-factor", "--same-source"]);
    let taken: Vec<&Value> =
        again.iter().filter(|item| item["kind"] == "password" && item["left_out"].is_null()).collect();
    assert_eq!((taken.len(), &taken[0]["name"]), (1, &Value::from("bob@pbs")), "{again:#?}");
    assert_eq!((again.last().unwrap()["taken"].as_u64(), whoami(&server, "bob@pbs:bob's")), (Some(1), 200));
}

#[test]
fn an_import_brings_nothing_back_that_was_removed_or_revoked() {
    let there = Scratch::new();
    let (source, stores) = (there.path().join("pbs"), there.path().join("stores"));
    proxmox(&source, &stores);
    let write = |name: &str, text: &str| std::fs::write(source.join(name), text).unwrap();
    std::fs::remove_file(source.join("tfa.json")).unwrap();
    write("user.cfg", "user: ann@pbs\n\ntoken: ann@pbs!t\n\nuser: bob@pbs\n\nuser: dan@pbs\n\n");
    write("token.shadow", &format!("{{\"ann@pbs!t\":\"{}\"}}", hash("one")));
    let acl = "acl:1:/datastore/plain:ann@pbs,bob@pbs,dan@pbs:DatastoreReader\n";
    write("acl.cfg", acl);
    let from = source.to_str().unwrap();
    let server =
        Server::start_on(|data| drop(said(data, &["import", "proxmox", from])), &[WITHOUT_PENALTIES]);
    let logins = ["ann@pbs:ann's", "ann@pbs!t:one", "bob@pbs:bob's"];
    assert_eq!(logins.map(|login| whoami(&server, login)), [200; 3]);
    let dump = server.cli(&["facts", "dump"]);
    let listed = dump.iter().filter(|row| row["key"]["kind"] == "Imported").map(|row| {
        let id = row["key"]["id"].as_array().unwrap().iter();
        String::from_utf8(id.map(|byte| byte.as_u64().unwrap() as u8).collect()).unwrap()
    });
    assert!(listed.clone().any(|name| name == "token ann@pbs!t"), "{:?}", listed.collect::<Vec<_>>());
    server.cli(&["revoke", "user", "ann@pbs", "--everything"]);
    server.cli(&["user", "remove", "bob@pbs"]);
    server.cli(&["role", "remove", "--path", "/datastore/plain", "--auth-id", "dan@pbs", "DatastoreReader"]);
    // If the source removes a right that a role gives in Enfilade, the report mentions this, too.
    write(
        "acl.cfg",
        &format!("{acl}acl:1:/datastore/plain:ann@pbs:NoAccess\n").replace("ann@pbs,bob", "bob"),
    );
    for options in [&[][..], &["--same-source"], &["--same-source", "--without-second-factor"]] {
        let again = server.cli(&[&["import", "proxmox", from], options].concat());
        assert_eq!(again.last().unwrap()["taken"], 0, "{options:?}: {again:#?}");
        assert_eq!(logins.map(|login| whoami(&server, login)), [401; 3], "{options:?}");
    }
    let again = server.cli(&["import", "proxmox", from, "--same-source"]);
    for (what, expected) in [
        ("password ann@pbs", "revoked on this server"),
        ("token ann@pbs!t", "removed or revoked on this server"),
        (
            "user bob@pbs",
            "removed or revoked on this server; to have the entry again, create the user with `enfilade user add`",
        ),
        ("roles dan@pbs on /datastore/plain", "removed or revoked on this server"),
        ("roles ann@pbs on /datastore/plain", "still has DatastoreReader on this path"),
    ] {
        let item =
            again.iter().find(|item| item["what"] == what).unwrap_or_else(|| panic!("{what}: {again:#?}"));
        assert!(item["left_out"].as_str().unwrap_or_default().contains(expected), "{what}: {item}");
    }
}

#[test]
fn second_factors_that_cannot_be_read_stop_the_import() {
    let there = Scratch::new();
    let directory = there.path().join("pbs");
    proxmox(&directory, there.path());
    let (data, from) = (there.path().join("data"), directory.to_str().unwrap());
    for text in ["{\"users\":[\"otpauth://secret\"]}", "{\"bob@pbs\":{\"totp\":[\"otpauth://secret\"]}}"] {
        std::fs::write(directory.join("tfa.json"), text).unwrap();
        let refused = enfilade(&data, &["import", "proxmox", from]);
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && why.contains("tfa.json") && !why.contains("secret"), "{why}");
        assert!(!data.exists(), "a failed import creates nothing");
    }
    said(&data, &["import", "proxmox", from, "--without-second-factor"]);
}

#[test]
fn an_import_that_fails_creates_nothing_and_says_what_it_expected() {
    let there = Scratch::new();
    let (data, source) = (there.path().join("data"), there.path().join("pbs"));
    proxmox(&source, there.path());
    let file = source.join("user.cfg");
    let none = there.path().join("none");
    let expected = "expected the directory with the files of a Proxmox Backup Server";
    for (given, why) in [
        (
            &none,
            format!(
                "`{}` cannot be opened: No such file or directory (os error 2): {expected}",
                none.display()
            ),
        ),
        (&file, format!("`{}` is not a directory: {expected}", file.display())),
    ] {
        let refused = enfilade(&data, &["import", "proxmox", given.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(&why) && !data.exists(), "{said}");
    }
    let mut cloud = Command::new(BINARY);
    cloud.arg("--data").arg(&data).args(["import", "keystone", "--os-cloud", "old"]);
    let clouds = there.path().join("clouds.yaml");
    std::fs::write(&clouds, "clouds:\n  old:\n    auth:\n      auth_url: http://127.0.0.1:1/v3\n      username: a\n      password: b\n").unwrap();
    let refused = cloud.env("OS_CLIENT_CONFIG_FILE", &clouds).output().unwrap();
    assert!(!refused.status.success() && !data.exists(), "{refused:?}");
    // A directory into which an operator has put a `user.cfg` stays unchanged.
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("user.cfg"), "user: ann@pbs\n\n").unwrap();
    let refused = enfilade(&data, &["import", "proxmox", source.to_str().unwrap()]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("this server follows its own user.cfg"),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 1);
}

/// Runs a printed command for a listing with the user's password. Returns the status of the response.
fn status_of(line: &str, user: &str, password: &str) -> String {
    let line = line.replace(&format!("-u '{user}'"), &format!("-u \"{user}:{password}\""));
    let output =
        Command::new("sh").args(["-c", &format!("{line} -s -o /dev/null -w '%{{http_code}}'")]).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn the_printed_request_works_and_names_who_may_make_it() {
    let there = Scratch::new();
    let (source, stores) = (there.path().join("pbs"), there.path().join("stores"));
    proxmox(&source, &stores);
    std::fs::write(source.join("acl.cfg"), "acl:1:/datastore/plain:ann@pbs:DatastorePowerUser\n").unwrap();
    let from = source.to_str().unwrap();
    let mut report = String::new();
    let server = Server::start_on(
        |data| {
            report = said(data, &["--json", "import", "proxmox", from]);
            // The report names the administrator, and not the only user with a password.
            let init = enfilade(data, &["init"]);
            let why = String::from_utf8_lossy(&init.stderr).into_owned();
            assert!(why.contains("user passwd root@pam") && !why.contains("ann@pbs"), "{why}");
        },
        &[WITHOUT_PENALTIES],
    );
    let try_it = |report: &[Value]| {
        let next = report.last().unwrap()["next"].as_array().unwrap().clone();
        let step = next.last().unwrap().clone();
        let line = step["commands"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned();
        (step["why"].as_str().unwrap().to_owned(), line)
    };
    let (why, line) = try_it(&lines(&report));
    assert_eq!(why, "start the server, then try");
    let here = line.replace("127.0.0.1:8443", &server.address);
    assert_eq!(status_of(&here, "ann@pbs", "ann's"), "207", "{line}");
    // While a server runs, the report does not say to start a server.
    let (why, line) = try_it(&server.cli(&["import", "proxmox", from]));
    assert!(
        why.contains("the running server")
            && line.contains(&format!("https://{}/dav/plain/", server.address)),
        "{why} {line}"
    );
    assert_eq!(status_of(&line, "ann@pbs", "ann's"), "207", "{line}");
    // The start of the server prints the same request.
    drop(server);
    let again = there.path().join("again");
    said(&again, &["import", "proxmox", from]);
    let mut command = Command::new(BINARY);
    command.arg("--data").arg(&again).args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--ops-listen",
        "127.0.0.1:0",
    ]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while reader.read_line(&mut text).unwrap() > 0 && !text.contains("try:\n") && !text.contains("yet; ") {}
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = status_of(line.trim(), "ann@pbs", "ann's");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(status, "207", "{text}{line}");
    // If no user who can log in may list a datastore, the next step explains the reason.
    std::fs::write(source.join("acl.cfg"), "").unwrap();
    let nobody = there.path().join("nobody");
    said(&nobody, &["import", "proxmox", from]);
    let text = start_lines(&nobody);
    assert!(
        text.contains("no user who can log in has the right to list a datastore yet; to see the reason:\n"),
        "{text}"
    );
    let explained = enfilade(&nobody, &["explain", "ann@pbs", "plain"]);
    assert!(text.contains("explain ann@pbs plain\n") && explained.status.code() == Some(3), "{text}");
}

#[test]
fn files_in_the_data_directory_are_followed_and_their_passwords_imported() {
    let there = Scratch::new();
    let server = Server::start_on(|data| proxmox(data, there.path()), &[WITHOUT_PENALTIES]);
    assert_eq!(whoami(&server, "ann@pbs:ann's"), 401);
    let unused = [
        "shadow.json has 1 password that is not in use: run `",
        "domains.cfg has realms that do not exist on this server, or that have a comment only in this file: corp; run `",
        "tfa.json is not in use: this server imports no second factors, but Proxmox has second factors of bob@pbs, root@pam; `",
        "root@pam has all rights but no password, and no other administrator can log in: run `",
    ];
    for told in unused.into_iter().chain(["is a chunk store of Proxmox Backup Server"]) {
        until("it is logged", &server, || server.log().contains(told));
    }
    let doctor = || String::from_utf8(server.cli_output(&["doctor"], "").stdout).unwrap();
    let before = doctor();
    assert!(unused.iter().all(|told| before.contains(told)), "{before}");
    let data = server.data();
    let before = std::fs::read(data.join("user.cfg")).unwrap();
    let report = server.cli(&["import", "proxmox", data.to_str().unwrap()]);
    // Users and datastores come from the edited files. For these records, the report mentions only differences.
    let told = |kind: &str| report.iter().filter(|item| item["kind"] == kind).collect::<Vec<_>>();
    assert!(told("datastore").is_empty() && told("user").iter().all(|item| item["differs"] != Value::Null));
    let mut users: Vec<&str> = told("user").iter().filter_map(|item| item["name"].as_str()).collect();
    users.sort_unstable();
    assert_eq!(users, ["bob@pbs", "carl@corp", "dan@pbs", "root@pam"], "{report:#?}");
    let next = report.last().unwrap()["next"].to_string();
    assert!(next.contains("user passwd root@pam"), "{report:#?}");
    assert!(
        next.contains("writable on this server") && next.contains("datastore maintenance chunks read-only"),
        "{next}"
    );
    let realm = report.iter().find(|item| item["what"] == "realm corp").unwrap();
    assert_eq!((&realm["left_out"], realm["differs"].is_string()), (&Value::Null, true), "{realm}");
    let domains = server.cli(&["domain", "list"]);
    assert!(domains.iter().any(|row| row["description"] == "The company"), "{domains:#?}");
    let after = doctor();
    let is_said = unused.map(|told| after.contains(told));
    assert_eq!(is_said, [false, false, true, true], "{after}");
    let chunks = there.path().join("more");
    std::fs::create_dir_all(chunks.join(".chunks")).unwrap();
    let made = server.cli_output(&["datastore", "create", "more", "--path", chunks.to_str().unwrap()], "");
    let warned = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(
        made.status.success() && warned.contains("is a chunk store of Proxmox Backup Server"),
        "{warned}"
    );
    let realms = curl(&server, "ann@pbs:ann's", "/api2/json/access/domains", &[]).text();
    // The comment of a realm is for administrators.
    assert!(realms.contains("\"corp\"") && !realms.contains("The company"), "{realms}");
    let domains = server.cli(&["domain", "list"]);
    assert!(domains.iter().any(|domain| domain["description"] == "The company"), "{domains:?}");
    assert_eq!(std::fs::read(data.join("user.cfg")).unwrap(), before);
    assert_eq!((whoami(&server, "ann@pbs:ann's"), whoami(&server, "bob@pbs:bob's")), (200, 401));
    assert_eq!(ticket(&server, "ann@pbs", "ann's"), 200, "{}", server.log());
    // Records in edited files are not counted as imported.
    let kinds = report.last().unwrap()["kinds"].to_string();
    assert!(!kinds.contains("\"user\"") && !kinds.contains("\"roles\""), "{kinds}");
    // A revoked password does not come back, and no report advises to restore it.
    server.cli(&["revoke", "user", "ann@pbs", "--everything"]);
    assert!(!doctor().contains("shadow.json has"), "{}", doctor());
    let again = server.cli(&["import", "proxmox", data.to_str().unwrap()]);
    assert_eq!((&again.last().unwrap()["taken"], whoami(&server, "ann@pbs:ann's")), (&Value::from(0), 401));
    let elsewhere = there.path().join("elsewhere");
    proxmox(&elsewhere, there.path());
    let refused = server.cli_output(&["import", "proxmox", elsewhere.to_str().unwrap()], "");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("this server follows its own user.cfg"));
}

/// The lines of a start, up to the line after `try:` or a similar heading.
fn start_lines(data: &Path) -> String {
    let mut command = Command::new(BINARY);
    command.arg("--data").arg(data).args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut text = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    while reader.read_line(&mut text).unwrap() > 0 && !text.contains("try:\n") && !text.contains("yet; ") {}
    reader.read_line(&mut text).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    text
}

#[test]
fn a_start_names_only_users_and_datastores_that_exist() {
    let there = Scratch::new();
    let (data, stores) = (there.path().join("data"), there.path().join("stores"));
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("user.cfg"), "user: ann@pbs\n\n").unwrap();
    let text = start_lines(&data);
    assert!(text.contains("nobody can log in yet; set a password:\n"), "{text}");
    assert!(text.contains("user passwd root@pam"), "{text}");
    assert!(!text.contains("admin@local") && !text.contains("main"), "{text}");
    let store = stores.join("tank");
    said(&data, &["datastore", "create", "tank", "--path", store.to_str().unwrap()]);
    said(&data, &["token", "create", "ann@pbs!laptop"]);
    // The start prints a request only if the request works. The token has no role on the datastore yet.
    let text = start_lines(&data);
    assert!(
        text.contains("to see the reason:\n") && text.contains("explain 'ann@pbs!laptop' tank\n"),
        "{text}"
    );
    for who in ["ann@pbs", "ann@pbs!laptop"] {
        said(&data, &["role", "assign", "--path", "/datastore/tank", "--auth-id", who, "DatastoreReader"]);
    }
    let text = start_lines(&data);
    assert!(text.contains("-u 'ann@pbs!laptop' ") && text.contains("/dav/tank/\n"), "{text}");
}

/// The output of `bootstrap`.
fn bootstrap(data: &Path, more: &[&str]) -> String {
    let mut command = Command::new(BINARY);
    command.arg("--data").arg(data).args(more).args(["bootstrap", "--password-stdin"]);
    command.env("ENFILADE_TLS__LISTEN", "0.0.0.0:8443").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"a long password\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn bootstrap_names_the_other_administrator_and_addresses_that_answer() {
    let there = Scratch::new();
    let data = there.path().join("data");
    // A password that is too short is refused before anything is created.
    let mut short = Command::new("sh");
    short.args(["-c", "echo short | \"$0\" --data \"$1\" bootstrap --password-stdin", BINARY]);
    let refused = short.arg(&data).output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("the password is too short") && !data.exists(), "{why}");
    said(&data, &["init"]);
    let text = bootstrap(&data, &[]);
    for expected in [
        "user admin@Default created; the user has the role admin on project admin@Default and on the system\n",
        "another user has the name admin: admin@local;",
        "openstack user show --domain Default admin\n",
        "OS_AUTH_URL=https://localhost:8443/v3 ",
        "--public-url https://HOST:PORT/v3",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("0.0.0.0"), "{text}");
    assert!(bootstrap(&data, &[]).contains("already existed, and the password of the user was replaced"));
    // A later bootstrap without --public-url keeps the URLs of the earlier command.
    let urls = || {
        let output =
            Command::new(BINARY).arg("--data").arg(&data).args(["catalog", "list", "--json"]).output();
        let service: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        let endpoints = service["endpoints"].as_array().unwrap().iter();
        endpoints.map(|row| row["url"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (first, second, inside) = ("https://a.example/v3", "https://b.example/v3", "https://c.example/v3");
    let with = |arguments: &[&str]| {
        let script = "echo a long enough password | \"$0\" --data \"$@\"";
        let mut bootstrap = Command::new("sh");
        bootstrap.args(["-c", script, BINARY]).arg(&data).args(["bootstrap", "--password-stdin"]);
        let output = bootstrap.args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    with(&["--public-url", first]);
    assert_eq!(urls(), [first; 3]);
    assert!(with(&[]).contains(&format!("keeps the public URL {first}")));
    assert_eq!(urls(), [first; 3]);
    with(&["--public-url", second, "--internal-url", inside]);
    with(&[]);
    assert_eq!(urls(), [second, inside, second]);
    // A new public URL also replaces the other URLs that were equal to the old public URL. URLs that differed from the old public URL stay.
    let says = with(&["--public-url", first]);
    assert!(says.contains(&format!("the catalog keeps the internal URL {inside} of")), "{says}");
    assert_eq!(urls(), [first, inside, first]);
    // If `bootstrap` runs before the first start, there is one administrator, and the first start adds none.
    let alone = there.path().join("alone");
    let made: Value = serde_json::from_str(&bootstrap(&alone, &["--json"])).unwrap();
    assert_eq!((&made["same_name"], &made["created"]), (&Value::Array(Vec::new()), &Value::Bool(true)));
    let init = enfilade(&alone, &["init"]);
    assert!(!init.status.success());
    assert_eq!(said(&alone, &["--json", "user", "list"]).lines().count(), 1);
}

#[test]
fn every_line_of_a_crt_list_that_cannot_be_used_is_named() {
    let there = Scratch::new();
    let data = there.path().join("data");
    said(&data, &["init"]);
    let list = there.path().join("crt-list");
    let good = data.join("tls/localhost.pem");
    let good = good.display();
    let check = |text: String| {
        std::fs::write(&list, text).unwrap();
        let mut command = Command::new(BINARY);
        command.arg("--data").arg(&data).args(["certs", "check"]).env("ENFILADE_TLS__CRT_LIST", &list);
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap() + std::str::from_utf8(&output.stdout).unwrap()
    };
    let text = check(format!(
        "{good}\n{good} [sigalgs x]\n{good}\n\nmissing.pem\n{good} [verify required ca-file none.pem]\n"
    ));
    for expected in ["crt-list:2: ", "crt-list:6: ", "missing.pem: ", "(crt-list:5)"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let text = check(format!("{good}\nmissing.pem\n"));
    assert!(text.contains("(crt-list:2)") && text.contains("1 certificate can be used, 1 cannot"), "{text}");
}
