//! The output of the commands for a cloud: `bootstrap`, domains, projects, roles on them, the catalog, and the list of cloud administrators.

use crate::command::why;
use crate::every_command::House;
use crate::server::{BINARY, Scratch, Server, short_passwords, until};
use serde_json::Value;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(data: &Path, line: &str) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("--data").arg(data).args(line.split(' ')).envs(short_passwords(data));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The write fails if the command reads no password and closes its standard input.
    let _ = child.stdin.take().unwrap().write_all(b"a long enough password\n");
    child.wait_with_output().unwrap()
}

/// The text of a command on standard output and standard error.
fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn says(data: &Path, line: &str) -> String {
    let output = run(data, line);
    assert!(output.status.success(), "{line}: {}", text(&output));
    text(&output)
}

fn refuses(data: &Path, line: &str) -> String {
    let output = run(data, line);
    assert!(!output.status.success(), "{line} said success: {}", text(&output));
    why(&output)
}

/// The URLs of the identity service, each with its region.
fn urls(data: &Path) -> Vec<(String, String)> {
    let rows = says(data, "catalog list --json");
    let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let identity = rows.into_iter().find(|row| row["type"] == "identity").unwrap();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let endpoints = identity["endpoints"].as_array().unwrap().iter();
    endpoints.map(|row| (text(row, "region"), text(row, "url"))).collect()
}

#[test]
fn a_new_region_takes_the_urls_of_the_first_and_a_url_gets_its_path() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let said = says(&data, "bootstrap --password-stdin --public-url https://127.0.0.1:18443");
    assert!(said.contains("OS_AUTH_URL=https://127.0.0.1:18443/v3 "), "{said}");
    let line = "bootstrap --password-stdin --user root@Other --project op --region R2";
    let said = says(&data, line);
    let expected = "region R2 gets the public URL https://127.0.0.1:18443/v3 of region RegionOne";
    assert!(said.contains(expected) && said.contains("OS_AUTH_URL=https://127.0.0.1:18443/v3 "), "{said}");
    assert!(urls(&data).iter().all(|(_, url)| url == "https://127.0.0.1:18443/v3"), "{:?}", urls(&data));
    assert_eq!(urls(&data).iter().filter(|(region, _)| region == "R2").count(), 3);
    // After the second command, R2 has separate URLs.
    assert!(says(&data, line).contains("the catalog keeps the public URL https://127.0.0.1:18443/v3"));
    let said = says(&data, "bootstrap --password-stdin --public-url http://k.example:5000/");
    let warning = "warning: clients send passwords and tokens to http://k.example:5000/v3 without encryption: use https://";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
    let said = says(&data, "bootstrap --password-stdin --public-url http://127.0.0.1:5000");
    assert!(!said.contains("without encryption"), "{said}");
}

#[test]
fn an_endpoint_is_in_the_only_region_or_the_region_is_asked_for() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    says(&data, "bootstrap --password-stdin");
    says(&data, "catalog service object-store swift");
    let said = says(&data, "catalog endpoint swift public https://swift/v1");
    assert!(said.contains("the public endpoint of region RegionOne has the URL https://swift/v1"), "{said}");
    says(&data, "bootstrap --password-stdin --region R2");
    let why = refuses(&data, "catalog endpoint swift internal https://swift/v1");
    assert!(why.contains("several regions: add --region with one of R2, RegionOne"), "{why}");
    says(&data, "catalog endpoint swift internal https://swift/v1 --region=");
    // The URL of the endpoint without a region is changed, and no further endpoint is created.
    let said = says(&data, "catalog endpoint swift internal https://swift/v2");
    assert!(said.contains("the internal endpoint has the URL https://swift/v2"), "{said}");
    let listed = says(&data, "catalog list");
    assert_eq!(listed.matches("https://swift/").count(), 2, "{listed}");
}

#[test]
fn the_last_administrator_of_the_cloud_is_not_removed_by_mistake() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    says(&data, "bootstrap --password-stdin");
    let is_refused = |line: &str| {
        let why = refuses(&data, line);
        let is_told = why.contains("nothing was changed: no user who can log in would have the role admin")
            && why.contains("enfilade bootstrap --user NAME@DOMAIN")
            && why.contains("or add --force");
        assert!(is_told, "{line}: {why}");
    };
    for line in ["user disable admin@Default", "user remove admin@Default", "domain disable Default"] {
        is_refused(line);
    }
    // The role admin on the project is enough to administer the cloud, so the role on the system can be removed.
    says(&data, "role remove --system --auth-id admin@Default admin");
    let last = "role remove --project admin --auth-id admin@Default admin";
    for line in [last, "project remove admin", "project set admin --disable"] {
        is_refused(line);
    }
    says(&data, "project set admin --description x");
    let said = says(&data, &format!("{last} --force"));
    assert!(said.contains("warning: no user who can log in has the role admin on the system"), "{said}");
    // No user is left who could administer the cloud, so the command refuses nothing more.
    says(&data, "user disable admin@Default");
    says(&data, "user enable admin@Default");
    says(&data, "bootstrap --password-stdin");
    is_refused("user disable admin@Default");
    // A member of a group with the role also administers the cloud, if the member can log in.
    for line in [
        "domain add ops",
        "group add crew@ops",
        "user add ann@ops --password-stdin",
        "group member add crew@ops ann@ops",
        "role assign --system --auth-id @crew@ops admin",
        "user disable admin@Default",
    ] {
        says(&data, line);
    }
    for line in ["domain disable ops", "group member remove crew@ops ann@ops", "group remove crew@ops"] {
        is_refused(line);
    }
    let doctor = text(&run(&data, "doctor"));
    let note = doctor.lines().find(|line| line.contains("administrators")).unwrap();
    assert!(
        note.starts_with("ok ") && note.contains("ann@ops can log in and administers the cloud"),
        "{doctor}"
    );
    assert!(note.contains("role assign --path / --auth-id ann@ops Admin"), "{doctor}");
}

#[test]
fn a_disabled_domain_user_or_project_is_named_and_not_a_missing_role() {
    let house = House::new();
    let data = house.scratch.path().join("data");
    for line in [
        "user add bob@corp",
        "group add crew@corp",
        "group member add crew@corp bob@corp",
        "role assign --project demo@corp --auth-id @crew@corp reviewer",
        "domain disable corp",
    ] {
        house.must(line);
    }
    let access = says(&data, "user access bob@corp");
    assert!(access.contains("nothing works until you run: enfilade domain enable corp"), "{access}");
    assert!(access.contains("give no roles while their domain is disabled: @crew@corp;"), "{access}");
    assert!(!access.contains("no role is assigned"), "{access}");
    let create = "token create bob@corp!z --project demo@corp";
    for (line, again, parts) in [
        ("", "domain enable corp", ["the domain corp is disabled", "`enfilade domain enable corp`"]),
        (
            "project set demo@corp --disable",
            "project set demo@corp --enable",
            ["project demo@corp is disabled", "`enfilade project set demo@corp --enable`"],
        ),
        (
            "user disable bob@corp",
            "user enable bob@corp",
            ["user bob@corp is disabled", "`enfilade user enable bob@corp`"],
        ),
    ] {
        if !line.is_empty() {
            says(&data, line);
        }
        let why = refuses(&data, create);
        assert!(why.contains("every login with the token would be refused"), "{why}");
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        says(&data, again);
    }
    says(&data, create);
}

#[test]
fn the_full_names_and_the_consequences_are_told() {
    let house = House::new();
    let data = house.scratch.path().join("data");
    for (line, expected) in [
        (
            "role assign --project demo@corp --auth-id @staff reviewer",
            "@staff@local has the role reviewer on project demo@corp",
        ),
        (
            "role remove --project demo@corp --auth-id @staff reviewer",
            "@staff@local no longer has the role reviewer on project demo@corp",
        ),
        ("role list", "@staff@local"),
        ("datastore show main", "file system used"),
        ("datastore set main --project demo@corp --quota 1G", "project demo@corp"),
        ("project remove demo@corp", "no longer bound to a project: datastore main"),
        ("project add alone --domain corp", "project alone@corp created"),
    ] {
        let said = says(&data, line);
        assert!(said.contains(expected), "{line}: {said}");
    }
    let shown = says(&data, "datastore show main");
    assert!(!shown.contains("file system used") && shown.contains("quota"), "{shown}");
    let why = refuses(&data, "domain remove corp");
    assert!(why.contains("domain `corp` is not empty: 1 project; remove them first"), "{why}");
    // A line of `acl.cfg` names a group of the realm `local` without the realm.
    std::fs::write(data.join("acl.cfg"), "acl:1:/datastore/main:@staff:DatastoreReader\n").unwrap();
    let listed = says(&data, "role list");
    let row = listed.lines().find(|line| line.starts_with("/datastore/main") && line.contains("acl.cfg"));
    assert!(row.is_some_and(|row| row.contains("@staff@local")), "{listed}");
}

#[test]
fn an_endpoint_that_leads_to_a_port_without_a_server_is_told() {
    let mut server = Server::start();
    let bootstrap = |server: &Server, url: &str| {
        let output =
            server.cli_output(&["bootstrap", "--password-stdin", "--public-url", url], "the password\n");
        assert!(output.status.success(), "{}", why(&output));
    };
    let doctor = |server: &Server| String::from_utf8(server.cli_output(&["doctor"], "").stdout).unwrap();
    bootstrap(&server, "https://127.0.0.1:1/v3");
    let said = doctor(&server);
    let expected =
        "says that the identity service is at https://127.0.0.1:1/v3, but no program listens on port 1";
    assert!(said.contains(expected), "{said}");
    server.kill_and_restart();
    until("the endpoint is named", &server, || {
        let log = server.log();
        log.contains(
            "says that the identity service is at https://127.0.0.1:1/v3, but this server listens on",
        ) && log.contains("A login at this server works, but every later call fails")
    });
    // An address of another machine is not checked, and the right port causes no warning.
    for url in ["https://cloud.example:1/v3".to_owned(), server.url("/v3")] {
        bootstrap(&server, &url);
        let said = doctor(&server);
        assert!(!said.contains("that the identity service is at"), "{url}: {said}");
    }
}
