//! Identity v3 with OpenStack's clients and services. Keystone's code reads tokens of the server, and the server reads tokens of Keystone's code.

use crate::curl::{Answer, curl};
use crate::proxmox::python_path;
use crate::server::{Server, WITHOUT_PENALTIES, until};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PASSWORD: &str = "the administrator's";

struct Cloud {
    server: Server,
}

impl Cloud {
    fn start() -> Self {
        let cloud = Cloud { server: Server::start_with(&[WITHOUT_PENALTIES]) };
        let url = cloud.url("");
        cloud.cli_with(&["bootstrap", "--password-stdin", "--public-url", &url], PASSWORD);
        cloud
    }

    /// Adds a user with the role `service`.
    fn add_service(&self) {
        self.cli_with(&["user", "add", "service@Default", "--password-stdin"], "the service's");
        self.server.cli(&["project", "add", "service"]);
        self.server.cli(&[
            "role",
            "assign",
            "--project",
            "service",
            "--auth-id",
            "service@Default",
            "service",
        ]);
    }

    fn url(&self, path: &str) -> String {
        self.server.url(&format!("/v3{path}"))
    }

    fn cli_with(&self, arguments: &[&str], input: &str) -> Vec<Value> {
        let output = self.server.cli_output(arguments, input);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Creates a trust by which a new user lends the role `reader` on the project to the trustee. Returns its id.
    fn trust(&self, trustee: &str, project: &str) -> String {
        self.cli_with(&["user", "add", "trustor@Default", "--password-stdin"], "pw");
        self.server.cli(&["role", "assign", "--project", "admin", "--auth-id", "trustor@Default", "reader"]);
        let (_, token) = self.login("trustor", "pw", PROJECT);
        let token = token.unwrap();
        let trustor = self.validate(&token).1["token"]["user"]["id"].as_str().unwrap().to_owned();
        let header = format!("X-Auth-Token: {token}");
        let ask = |roles: &str, trustor: &str| {
            let body = format!(
                r#"{{"trust":{{"trustor_user_id":"{trustor}","trustee_user_id":"{trustee}","project_id":"{project}","impersonation":true,"roles":[{roles}]}}}}"#
            );
            curl(&self.server, "", "/v3/OS-TRUST/trusts", &["-H", &header, "-d", &body])
        };
        assert_eq!(ask(r#"{"name":"admin"}"#, &trustor).status, 400, "the trustor does not have this role");
        assert_eq!(ask("", &trustor).status, 400);
        assert_eq!(ask(r#"{"name":"reader"}"#, trustee).status, 403, "a user cannot lend for another user");
        let made = ask(r#"{"name":"reader"}"#, &trustor);
        assert_eq!(made.status, 201, "{:?}", String::from_utf8_lossy(&made.body));
        let made: Value = serde_json::from_slice(&made.body).unwrap();
        made["trust"]["id"].as_str().unwrap().to_owned()
    }

    /// A token of the administrator for this scope.
    fn token(&self, scope: &str) -> String {
        let (status, token) = self.login("admin", PASSWORD, scope);
        assert_eq!(status, 201, "{scope}: {}", self.server.log());
        token.unwrap()
    }

    fn login(&self, user: &str, password: &str, scope: &str) -> (u16, Option<String>) {
        let body = format!(
            r#"{{"auth":{{"identity":{{"methods":["password"],"password":{{"user":{{"name":"{user}","domain":{{"id":"default"}},"password":"{password}"}}}}}}{scope}}}}}"#
        );
        let answer = curl(&self.server, "", "/v3/auth/tokens", &["-d", &body]);
        (answer.status, subject_of(&answer))
    }

    /// Validates a token as the administrator. Returns the status and the body.
    fn validate(&self, token: &str) -> (u16, Value) {
        let admin = self.token(PROJECT);
        let (mine, subject) = (format!("X-Auth-Token: {admin}"), format!("X-Subject-Token: {token}"));
        let answer = curl(&self.server, "", "/v3/auth/tokens", &["-H", &mine, "-H", &subject]);
        (answer.status, serde_json::from_str(&answer.text()).unwrap_or_default())
    }

    fn python(&self, script: &str, arguments: &[&str]) -> Vec<Value> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop").join(script);
        let output = Command::new("python3")
            .arg(&script)
            .args(arguments)
            .env("PYTHONPATH", python_path())
            .env("PYTHONWARNINGS", "ignore")
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{errors}\n{}", script.display(), self.server.log());
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The token in the header of an answer.
fn subject_of(answer: &Answer) -> Option<String> {
    let mut lines = answer.head.iter();
    lines.find_map(|line| line.strip_prefix("x-subject-token: ")).map(|token| token.trim().to_owned())
}

const PROJECT: &str = r#","scope":{"project":{"name":"admin","domain":{"id":"default"}}}"#;

/// schemathesis sends generated requests. No response is a 5xx, and every response conforms to `identity-v3.openapi.json`.
#[test]
fn the_api_is_what_its_document_says() {
    let cloud = Cloud::start();
    let token = cloud.token(PROJECT);
    let admin = cloud.validate(&token).1["token"].clone();
    let header = format!("X-Auth-Token: {token}");
    // Makes these records immutable, because schemathesis would delete its own account otherwise. The roles are immutable already.
    for (what, id) in [
        ("user", &admin["user"]["id"]),
        ("project", &admin["project"]["id"]),
        ("domain", &admin["user"]["domain"]["id"]),
    ] {
        let path = format!("/v3/{what}s/{}", id.as_str().unwrap());
        let body = format!(r#"{{"{what}":{{"options":{{"immutable":true}}}}}}"#);
        let answer = curl(&cloud.server, "", &path, &["-X", "PATCH", "-H", &header, "-d", &body]);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    let examples = std::env::var("ENFILADE_CAMPAIGN_N").unwrap_or_else(|_| "4".to_owned());
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/identity-v3.openapi.json");
    let output = Command::new("python3")
        .args(["-m", "schemathesis.cli", "run"])
        .arg(document)
        .args([
            "--url",
            &format!("http://{}", cloud.server.plain),
            "--header",
            &header,
            "--no-color",
            "--seed",
            "1",
        ])
        .args(["--phases", "fuzzing,stateful", "--max-examples", &examples, "--generation-database", "none"])
        // These calls are excluded, because schemathesis would revoke its own token.
        .args(["--exclude-path", "/v3/auth/tokens", "--checks"])
        .arg(
            "not_a_server_error,response_schema_conformance,status_code_conformance,content_type_conformance",
        )
        .env("PYTHONPATH", python_path())
        .current_dir(cloud.server.scratch.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", said.lines().rev().take(12).collect::<Vec<_>>().join("\n"));
}

#[test]
fn everything_is_managed_with_openstacks_client() {
    let cloud = Cloud::start();
    let certificate = cloud.server.certificate();
    let told = cloud.python("keystone_manage.py", &[&cloud.url(""), certificate.to_str().unwrap(), PASSWORD]);
    assert_eq!(told[0]["held"], true);
}

#[test]
fn services_learn_who_signed_with_an_ec2_key() {
    let cloud = Cloud::start();
    cloud.add_service();
    let certificate = cloud.server.certificate();
    let arguments = [&cloud.url(""), certificate.to_str().unwrap(), PASSWORD, "the service's"];
    let told = cloud.python("keystone_ec2.py", &arguments);
    assert_eq!(told[0]["held"], true);
    assert!(cloud.server.log().contains("ID24"), "{}", cloud.server.log());
}

#[test]
fn programs_act_for_a_user_by_oauth() {
    let cloud = Cloud::start();
    cloud.add_service();
    let certificate = cloud.server.certificate();
    let arguments = [&cloud.url(""), certificate.to_str().unwrap(), PASSWORD, "the service's"];
    let told = cloud.python("keystone_oauth.py", &arguments);
    assert_eq!(told[0]["held"], true);
    assert!(cloud.server.log().contains("ID28"), "{}", cloud.server.log());
}

#[test]
fn clients_and_services_of_openstack_work() {
    let cloud = Cloud::start();
    cloud.add_service();
    let service = cloud.server.cli(&["catalog", "service", "object-store", "swift"]);
    let service = service[0]["id"].as_str().unwrap();
    let url = "https://swift.example/v1/AUTH_$(project_id)s";
    cloud.server.cli(&["catalog", "endpoint", service, "public", url, "--region", "RegionOne"]);
    let certificate = cloud.server.certificate();
    let arguments = [&cloud.url(""), certificate.to_str().unwrap(), PASSWORD, "the service's"];
    let told = cloud.python("keystone_client.py", &arguments);
    let log = cloud.server.log();
    let token = told[0]["admin"].as_str().unwrap();
    assert!(
        log.contains("\"face\":\"keystone\"") && !log.contains(token) && !log.contains(PASSWORD),
        "{log}"
    );
}

#[test]
fn tokens_of_keystone_are_good_here_and_ours_there() {
    let cloud = Cloud::start();
    let (_, told) = cloud.validate(&cloud.token(PROJECT));
    let (user, project) =
        (told["token"]["user"]["id"].as_str().unwrap(), told["token"]["project"]["id"].as_str().unwrap());
    cloud.server.cli(&["role", "assign", "--domain", "Default", "--auth-id", "admin@Default", "admin"]);
    let made = cloud.server.cli(&["token", "create", "admin@Default!ac", "--project", "admin"]);
    let (credential, secret) = (made[0]["id"].as_str().unwrap(), made[0]["value"].as_str().unwrap());
    let keys = cloud.server.data().join("keys/fernet");
    let keys = keys.to_str().unwrap();

    let trust = cloud.trust(user, project);
    let minted =
        cloud.python("keystone_tokens.py", &[keys, "mint", user, project, "default", credential, &trust]);
    assert_eq!(minted.len(), 6);
    for one in &minted {
        let (status, told) = cloud.validate(one["token"].as_str().unwrap());
        assert_eq!(status, 200, "{one}: {told}");
        assert_eq!(told["token"]["audit_ids"], one["audit_ids"], "{one}");
        // In a session of an impersonating trust, services see the trustor.
        match one["kind"] == 3 {
            false => assert_eq!(told["token"]["user"]["id"], user),
            true => {
                assert_eq!(told["token"]["OS-TRUST:trust"]["trustee_user"]["id"], user);
                assert_eq!(told["token"]["user"]["name"], "trustor");
            }
        }
    }

    let by_credential = format!(
        r#"{{"auth":{{"identity":{{"methods":["application_credential"],"application_credential":{{"id":"{credential}","secret":"{secret}"}}}}}}}}"#
    );
    let of_credential =
        subject_of(&curl(&cloud.server, "", "/v3/auth/tokens", &["-d", &by_credential])).unwrap();
    let ours = [
        (cloud.token(r#","scope":"unscoped""#), "user_id", user),
        (cloud.token(r#","scope":{"domain":{"id":"default"}}"#), "domain_id", "default"),
        (cloud.token(PROJECT), "project_id", project),
        (cloud.token(r#","scope":{"system":{"all":true}}"#), "system", "all"),
        (of_credential, "app_cred_id", credential),
        (cloud.token(&format!(r#","scope":{{"OS-TRUST:trust":{{"id":"{trust}"}}}}"#)), "trust_id", &trust),
    ];
    let mut arguments = vec![keys, "read"];
    arguments.extend(ours.iter().map(|(token, ..)| token.as_str()));
    let read = cloud.python("keystone_tokens.py", &arguments);
    for (said, (token, name, expected)) in read.iter().zip(&ours) {
        assert_eq!(said[*name], **expected, "{said}");
        assert_eq!(said["user_id"], user);
        let (_, told) = cloud.validate(token);
        assert_eq!(said["audit_ids"], told["token"]["audit_ids"]);
        assert_eq!(said["expires_at"], told["token"]["expires_at"]);
        assert_eq!(said["methods"], told["token"]["methods"]);
    }
    // When the trust is deleted, all sessions of the trust end, also those that Keystone issued.
    let minted_by_trust = minted.iter().find(|one| one["kind"] == 3).unwrap();
    let by_trust = [minted_by_trust["token"].as_str().unwrap(), &ours[5].0];
    let header = format!("X-Auth-Token: {}", cloud.login("trustor", "pw", PROJECT).1.unwrap());
    let path = format!("/v3/OS-TRUST/trusts/{trust}");
    assert_eq!(curl(&cloud.server, "", &path, &["-H", &header, "-X", "DELETE"]).status, 204);
    by_trust.iter().for_each(|token| assert_eq!(cloud.validate(token).0, 404));
    assert_eq!(cloud.validate(&ours[2].0).0, 200, "a session without the trust must stay valid");
}

#[test]
fn a_session_for_a_project_mounts_what_is_bound_to_it_and_nothing_else() {
    let cloud = Cloud::start();
    let server = &cloud.server;
    let place = server.scratch.path().join("tank");
    server.cli(&["datastore", "create", "tank", "--path", place.to_str().unwrap()]);
    for (user, role) in [("reader", "reader"), ("member", "member"), ("nobody", "service")] {
        cloud.cli_with(&["user", "add", &format!("{user}@Default"), "--password-stdin"], "pw");
        server.cli(&["role", "assign", "--project", "admin", "--auth-id", &format!("{user}@Default"), role]);
    }
    let status = |token: &str, path: &str, rest: &[&str]| {
        let header = format!("X-Auth-Token: {token}");
        let mut arguments = vec!["-H", &header];
        arguments.extend(rest);
        curl(server, "", path, &arguments).status
    };
    let token = |user: &str| cloud.login(user, "pw", PROJECT).1.unwrap();
    let (reader, member, nobody) = (token("reader"), token("member"), token("nobody"));
    let (file, manifest) = ("/dav/tank/file", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    assert_eq!(status(&member, file, &["-T", manifest]), 404, "it is not bound yet");
    server.cli(&["datastore", "set", "tank", "--project", "admin"]);
    assert_eq!(status(&member, file, &["-T", manifest]), 201);
    assert_eq!(status(&reader, file, &[]), 200);
    let bearer = format!("Authorization: Bearer {reader}");
    assert_eq!(curl(server, "", file, &["-H", &bearer]).status, 200);
    assert_eq!(status(&reader, file, &["-T", manifest]), 403);
    assert_eq!(status(&nobody, file, &[]), 404, "the user has no role that gives access to the datastore");
    // A role of the user on another datastore has no effect in the session, because a session for a project gives access only to this project.
    server.cli(&[
        "role",
        "assign",
        "--path",
        "/datastore/main",
        "--auth-id",
        "member@Default",
        "DatastoreAdmin",
    ]);
    assert_eq!(status(&member, "/dav/main/", &[]), 404);
    // A request with two credentials is refused.
    assert_eq!(status(&member, file, &["-H", &bearer]), 400);
    // Valid sessions are listed, with user and scope.
    let listed = |user: &str| {
        let rows = server.cli(&["session", "list", user]);
        rows.iter().map(|row| row["for"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed("member@Default"), ["project admin@Default"]);
    // The removal of a role, or the end of a session, takes effect at once.
    server.cli(&["role", "remove", "--project", "admin", "--auth-id", "reader@Default", "reader"]);
    assert_eq!(status(&reader, file, &[]), 401);
    server.cli(&["session", "end", "member@Default"]);
    assert_eq!(status(&member, file, &[]), 401);
    assert_eq!(listed("member@Default"), [""; 0]);
    let again = token("member");
    assert_eq!(status(&again, file, &[]), 200, "a new login right after the end of the sessions must work");
    // The same rules apply to a user in `user.cfg`, also when another program edits the file.
    std::fs::write(server.data().join("user.cfg"), "user: kept@Default\n\tenable true\n").unwrap();
    server.cli(&["user", "list"]);
    server.cli(&["role", "assign", "--project", "admin", "--auth-id", "kept@Default", "reader"]);
    cloud.cli_with(&["user", "passwd", "kept@Default", "--password-stdin"], "pw");
    let kept = token("kept");
    assert_eq!(status(&kept, file, &[]), 200);
    for enabled in ["false", "true"] {
        let text = format!("user: kept@Default\n\tenable {enabled}\n");
        std::fs::write(server.data().join("user.cfg"), text).unwrap();
        server.cli(&["user", "list"]);
        assert_eq!(status(&kept, file, &[]), 401, "enable {enabled}: the old session must stay invalid");
    }
    server.cli(&["project", "set", "admin", "--disable"]);
    assert_eq!(status(&again, file, &[]), 401);
    server.cli(&["project", "set", "admin", "--enable"]);
    assert_eq!(status(&again, file, &[]), 401, "what ended does not come back");
    let again = token("member");
    assert_eq!(status(&again, file, &[]), 200);
    server.cli(&["datastore", "set", "tank", "--project", ""]);
    assert_eq!(status(&again, file, &[]), 404);
}

#[test]
fn keys_turn_while_tokens_are_in_use() {
    let cloud = Cloud::start();
    let old = cloud.token(PROJECT);
    let is_good = |token: &str| {
        let header = format!("X-Auth-Token: {token}");
        curl(&cloud.server, "", "/v3/auth/catalog", &["-H", &header]).status == 200
    };
    let turn = || cloud.server.cli(&["keys", "rotate", "--force"]);
    turn();
    let before_it_was_seen = cloud.token(PROJECT);
    assert!(is_good(&old) && is_good(&before_it_was_seen));
    // The server reads new keys within a second. On a busy machine this takes longer.
    std::thread::sleep(Duration::from_secs(6));
    let new = cloud.token(PROJECT);
    assert!(is_good(&old) && is_good(&before_it_was_seen) && is_good(&new));
    // Three keys are kept: the second rotation removes the key that signed first.
    turn();
    until("the oldest key is gone", &cloud.server, || !is_good(&old));
    assert!(!is_good(&old) && is_good(&new) && is_good(&cloud.token(PROJECT)));
}

#[test]
fn servers_turn_the_keys_on_time_and_one_of_them_does() {
    let environment = [
        WITHOUT_PENALTIES,
        ("ENFILADE_IDENTITY__ROTATE_EVERY", "2s"),
        ("ENFILADE_IDENTITY__MAX_ACTIVE_KEYS", "50"),
    ];
    let server = Server::start_with(&environment);
    let mut other = server.another(&environment);
    let primary = || {
        let keys = server.cli(&["keys", "list"]);
        keys.iter().filter_map(|key| key["key"].as_u64()).max().unwrap()
    };
    // The time is taken first, because a rotation may happen while the command lists the keys.
    let began = std::time::Instant::now();
    let first = primary();
    while primary() < first + 3 {
        assert!(began.elapsed().as_secs() < 60, "{}", server.log());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // Although there are two servers, each rotation waited for the interval. The age of a key is counted in whole seconds, so two intervals of 2 s
    // take at least 3 s.
    assert!(began.elapsed().as_secs() >= 3, "{:?}", began.elapsed());
    let _ = other.kill();
    let _ = other.wait();
    let warned = server.log().contains("rotate_every");
    assert!(warned, "no warning, although 50 keys are too few with a rotation every two seconds");
}

#[test]
fn what_the_api_refuses_the_command_line_refuses_too() {
    let cloud = Cloud::start();
    let said = |arguments: &[&str]| {
        let output = cloud.server.cli_output(arguments, "");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (is_done, why) = said(&["role", "undefine", "member"]);
    assert!(
        !is_done && why.contains("immutable") && why.contains("0 assignments and 2 implications"),
        "{why}"
    );
    let removed = &cloud.server.cli(&["role", "undefine", "member", "--force"])[0];
    assert_eq!((removed["assignments"].as_u64(), removed["implications"].as_u64()), (Some(0), Some(2)));
    cloud.server.cli(&["domain", "add", "acme"]);
    assert_eq!(cloud.server.cli(&["project", "add", "dev@acme"])[0]["domain"], "acme");
    let (is_done, why) = said(&["project", "add", "dev", "--domain", "acne"]);
    assert!(!is_done && why.contains("did you mean `acme`?"), "{why}");
    // An application credential cannot get a role that its owner does not have.
    cloud.cli_with(&["user", "add", "ann@acme", "--password-stdin"], "the password of ann");
    let grant = ["role", "assign", "--project", "dev@acme", "--auth-id", "ann@acme", "reader"];
    cloud.server.cli(&grant);
    let credential = ["token", "create", "ann@acme!ci", "--project", "dev@acme", "--role"];
    let (is_done, why) = said(&[&credential[..], &["admin"]].concat());
    assert!(!is_done && why.contains("roles there: reader"), "{why}");
    cloud.server.cli(&[&credential[..], &["reader"]].concat());
    let shown = &cloud.server.cli(&["token", "show", "ann@acme!ci"])[0];
    assert_eq!(shown["limited_to"], "reader on project dev@acme");
    let (is_done, why) = said(&["token", "set", "ann@acme!ci", "--owner-roles"]);
    assert!(!is_done && why.contains("is an application credential: its roles cannot be changed"), "{why}");
    let (is_done, why) = said(&["revoke", "session", "ann@acme!ci"]);
    assert!(!is_done && why.contains("enfilade revoke token 'ann@acme!ci'"), "{why}");
    // A role that the owner lost is not listed as a role of the credential. Groups are listed with their realm.
    cloud.server.cli(&["group", "add", "crew@acme"]);
    cloud.server.cli(&["group", "member", "add", "crew@acme", "ann@acme"]);
    cloud.server.cli(&["role", "assign", "--domain", "acme", "--auth-id", "@crew@acme", "reader"]);
    cloud.server.cli(&["role", "remove", "--project", "dev@acme", "--auth-id", "ann@acme", "reader"]);
    let access = &cloud.server.cli(&["user", "access", "ann@acme"])[0];
    let ways = access["ways"].as_array().unwrap();
    let way = ways.iter().find(|way| way["name"] == "ann@acme!ci").unwrap();
    let gives =
        "no role on project dev@acme; without reader: the owner no longer has this role on the project";
    assert_eq!(way["gives"], gives, "{way}");
    assert_eq!(access["roles"][0]["assigned_to"], "@crew@acme", "{access}");
}

#[test]
fn a_bootstrap_that_is_refused_changes_nothing() {
    let server = Server::start();
    // The domain `Default` gets the id `default` even before `bootstrap`.
    assert_eq!(server.cli(&["domain", "add", "Default"])[0]["id"], "default");
    server.cli(&["user", "add", "boss@Default"]);
    server.cli(&["user", "disable", "boss@Default"]);
    let revision = || server.cli(&["facts", "status"])[0]["revision"].clone();
    let before = revision();
    for (more, part) in [
        (["--public-url", "ftp://k"], "is not a valid URL"),
        (["--region", "x\ny"], "the region's id"),
        (["--project", ""], "the project's name"),
        (["--user", "boss@Default"], "enfilade user enable boss@Default"),
    ] {
        let output = server.cli_output(&[&["bootstrap", "--password-stdin"], &more[..]].concat(), PASSWORD);
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && why.contains(part), "{more:?}: {why}");
        assert_eq!(revision(), before, "{more:?}");
    }
}

#[test]
fn the_log_says_how_much_was_sent() {
    let cloud = Cloud::start();
    let header = format!("X-Auth-Token: {}", cloud.token(PROJECT));
    // Lists are sent as a stream while they are created. The answer about a session is sent at once.
    for path in ["/v3/users", "/v3/role_assignments", "/v3/auth/tokens"] {
        let subject = header.replace("Auth", "Subject");
        let answer = curl(&cloud.server, "", path, &["-H", &header, "-H", &subject]);
        assert!(answer.status == 200 && !answer.body.is_empty(), "{path}: {answer:?}");
        let bytes = format!("\"status\":200,\"bytes\":{},", answer.body.len());
        let path =
            format!("\"verb\":\"GET\",\"authid\":\"admin@Default\",\"datastore\":\"\",\"path\":\"{path}\"");
        let told = || cloud.server.log().lines().any(|line| line.contains(&path) && line.contains(&bytes));
        let waited = (0..1200).any(|_| told() || (std::thread::sleep(Duration::from_millis(50)), false).1);
        assert!(waited, "{path} {bytes}: {}", cloud.server.log());
    }
}
