//! `enfilade import keystone`: all records of an Identity API are imported with their ids.

use crate::curl::{PROPFIND_0, curl};
use crate::proxmox::python_path;
use crate::server::{BINARY, Scratch, Server, WITHOUT_PENALTIES, until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A token of the administrator.
fn login(server: &Server) -> String {
    session(server).unwrap()
}

/// A token of the administrator, if the server issues one.
fn session(server: &Server) -> Option<String> {
    let user = json!({ "name": "admin", "domain": { "id": "default" }, "password": "pw" });
    let scope = json!({ "project": { "name": "admin", "domain": { "id": "default" } } });
    let body = json!({ "auth": { "identity": { "methods": ["password"], "password": { "user": user } }, "scope": scope } });
    let answer = curl(server, "", "/v3/auth/tokens", &["-d", &body.to_string()]);
    let token = answer.head.iter().find_map(|line| line.strip_prefix("x-subject-token: "));
    token.map(|token| token.trim().to_owned())
}

fn call(server: &Server, token: &str, method: &str, path: &str, body: &Value) -> Value {
    let header = format!("X-Auth-Token: {token}");
    let text = body.to_string();
    let mut arguments = vec!["--request", method, "--header", &header];
    if !body.is_null() {
        arguments.extend(["--data", &text]);
    }
    let answer = curl(server, "", path, &arguments);
    assert!(answer.status < 300, "{method} {path}: {} {}", answer.status, answer.text());
    serde_json::from_str(&answer.text()).unwrap_or_default()
}

/// The records of a list, without links.
fn held(server: &Server, token: &str, path: &str, many: &str) -> Vec<Value> {
    let mut rows = call(server, token, "GET", path, &Value::Null)[many].as_array().unwrap().clone();
    rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("links")));
    rows.sort_by_key(ToString::to_string);
    rows
}

const LISTS: [(&str, &str); 17] = [
    ("/v3/domains", "domains"),
    ("/v3/projects", "projects"),
    ("/v3/users", "users"),
    ("/v3/groups", "groups"),
    ("/v3/roles", "roles"),
    ("/v3/regions", "regions"),
    ("/v3/services", "services"),
    ("/v3/endpoints", "endpoints"),
    ("/v3/role_assignments", "role_assignments"),
    ("/v3/registered_limits", "registered_limits"),
    ("/v3/limits", "limits"),
    ("/v3/policies", "policies"),
    ("/v3/OS-EP-FILTER/endpoint_groups", "endpoint_groups"),
    ("/v3/OS-FEDERATION/mappings", "mappings"),
    ("/v3/OS-FEDERATION/identity_providers", "identity_providers"),
    ("/v3/OS-FEDERATION/identity_providers/a%20b/protocols", "protocols"),
    ("/v3/OS-FEDERATION/service_providers", "service_providers"),
];

/// Creates a record of each kind of federation.
fn federation(server: &Server, token: &str, domain: &str) {
    let rules = json!([{ "local": [{ "user": { "name": "{0}" } }], "remote": [{ "type": "REMOTE_USER" }] }]);
    let provider =
        json!({ "domain_id": domain, "enabled": true, "remote_ids": ["urn:a"], "authorization_ttl": 5 });
    let service = json!({ "auth_url": "https://sp.example/v3", "sp_url": "https://sp.example/sp" });
    for (path, body) in [
        ("mappings/people", json!({ "mapping": { "rules": rules, "schema_version": "2.0" } })),
        ("identity_providers/a%20b", json!({ "identity_provider": provider })),
        (
            "identity_providers/a%20b/protocols/saml2",
            json!({ "protocol": { "mapping_id": "people", "remote_id_attribute": "Issuer" } }),
        ),
        ("service_providers/beta", json!({ "service_provider": service })),
    ] {
        call(server, token, "PUT", &format!("/v3/OS-FEDERATION/{path}"), &body);
    }
}

/// Creates limits, a policy and endpoint filters for a project in the domain. Returns the paths of the associations and filters.
fn for_services(server: &Server, token: &str, domain: &str, project: &str) -> Vec<String> {
    let made = |path: &str, body: Value| {
        let answer = call(server, token, "POST", path, &body);
        let made = answer.as_object().unwrap().values().find(|value| value.is_array() || value.is_object());
        let made = made.unwrap();
        made.get(0).unwrap_or(made)["id"].as_str().unwrap().to_owned()
    };
    let service = made("/v3/services", json!({ "service": { "type": "volume", "name": "store" } }));
    let region = made("/v3/regions", json!({ "region": { "id": "b/ü" } }));
    let endpoint =
        json!({ "service_id": service, "interface": "public", "region_id": region, "url": "https://store" });
    let endpoint = made("/v3/endpoints", json!({ "endpoint": endpoint }));
    let registered = |region: Value| json!({ "service_id": service, "region_id": region, "resource_name": " volumes", "default_limit": 5 });
    let both = [registered(Value::Null), registered(json!(region))];
    made("/v3/registered_limits", json!({ "registered_limits": both }));
    let limit = |owner: &str, id: &str, region: Value| json!({ owner: id, "service_id": service, "region_id": region, "resource_name": " volumes", "resource_limit": -1 });
    let both = [limit("project_id", project, json!(region)), limit("domain_id", domain, Value::Null)];
    made("/v3/limits", json!({ "limits": both }));
    let policy =
        made("/v3/policies", json!({ "policy": { "type": "application/json", "blob": "{\"a\": 1}" } }));
    let group = json!({ "name": "none here", "filters": { "region_id": null, "interface": "admin" } });
    let group = made("/v3/OS-EP-FILTER/endpoint_groups", json!({ "endpoint_group": group }));
    let paths = vec![
        format!("/v3/policies/{policy}/OS-ENDPOINT-POLICY/services/{service}/regions/b%2F%C3%BC"),
        format!("/v3/OS-EP-FILTER/projects/{project}/endpoints/{endpoint}"),
        format!("/v3/OS-EP-FILTER/endpoint_groups/{group}/projects/{project}"),
    ];
    for path in &paths {
        call(server, token, "PUT", path, &Value::Null);
    }
    call(
        server,
        token,
        "PUT",
        &format!("/v3/domains/{domain}/config"),
        &json!({ "config": { "ldap": { "url": "ldap://x" } } }),
    );
    paths
}

#[test]
fn a_cloud_is_taken_over_under_the_same_ids() {
    let cloud = Server::start_with(&[WITHOUT_PENALTIES]);
    let output = cloud.cli_output(&["bootstrap", "--password-stdin", "--public-url", &cloud.url("")], "pw");
    assert!(output.status.success());
    let token = login(&cloud);
    let made = |path: &str, what: &str, body: Value| {
        let answer = call(&cloud, &token, "POST", path, &json!({ what: body }));
        answer[what]["id"].as_str().unwrap().to_owned()
    };
    let domain = made("/v3/domains", "domain", json!({ "name": "d1", "description": "one" }));
    let outer =
        made("/v3/projects", "project", json!({ "name": "outer", "domain_id": domain, "tags": ["red"] }));
    let inner =
        made("/v3/projects", "project", json!({ "name": "inner", "domain_id": domain, "parent_id": outer }));
    let user = made(
        "/v3/users",
        "user",
        json!({ "name": "ann", "domain_id": domain, "email": "a@b", "default_project_id": inner }),
    );
    let group = made("/v3/groups", "group", json!({ "name": "crew", "domain_id": domain }));
    let role = made("/v3/roles", "role", json!({ "name": "cook" }));
    for path in [
        format!("/v3/groups/{group}/users/{user}"),
        format!("/v3/projects/{outer}/groups/{group}/roles/{role}"),
        format!("/v3/OS-INHERIT/domains/{domain}/users/{user}/roles/{role}/inherited_to_projects"),
        format!("/v3/system/users/{user}/roles/{role}"),
    ] {
        call(&cloud, &token, "PUT", &path, &Value::Null);
    }
    let associated = for_services(&cloud, &token, &domain, &outer);
    federation(&cloud, &token, &domain);
    let me = call(&cloud, &token, "GET", "/v3/users?name=admin&domain_id=default", &Value::Null);
    let me = me["users"][0]["id"].as_str().unwrap();
    let path = format!("/v3/users/{me}/application_credentials");
    made(&path, "application_credential", json!({ "name": "ci", "roles": [{ "name": "reader" }] }));

    // The role of ben is one of the roles that `bootstrap` creates.
    let ben = json!({ "name": "ben", "domain_id": domain, "password": "correct horse" });
    let ben = made("/v3/users", "user", ben);
    let roles = call(&cloud, &token, "GET", "/v3/roles?name=reader", &Value::Null);
    let reader = roles["roles"][0]["id"].as_str().unwrap();
    call(&cloud, &token, "PUT", &format!("/v3/roles/{role}/implies/{reader}"), &Value::Null);
    call(&cloud, &token, "PUT", &format!("/v3/projects/{outer}/users/{ben}/roles/{reader}"), &Value::Null);
    let of_ben = json!({ "identity": { "methods": ["password"], "password": { "user": { "id": ben, "password": "correct horse" } } },
                         "scope": { "project": { "id": outer } } });
    let answer = curl(&cloud, "", "/v3/auth/tokens", &["-d", &json!({ "auth": of_ben }).to_string()]);
    let session = answer.head.iter().find_map(|line| line.strip_prefix("x-subject-token: ")).unwrap();
    let lent = json!({ "application_credential": { "name": "of-ben" } });
    call(&cloud, session.trim(), "POST", &format!("/v3/users/{ben}/application_credentials"), &lent);

    let here = Server::start();
    let trust = format!("cacert: {}", cloud.certificate().display());
    let import = |more: &[&str]| import(&here, &cloud.url("/v3"), &trust, more);
    // A hash of `correct horse`, made by Keystone 30.
    let hash = "$pbkdf2-sha512$25000$lXbTmu90b9GbGUBqFUSxYQ$rVNfJTGshSWsinPyNh8fq9Dtp7InA1BGbdBpPaf6AhzSLJ+aDvaKUWFnSyJKScEVnRzeHmPYcJkGyZqlODYq1g";
    let dump = here.scratch.path().join("keystone.sql");
    let text = format!(
        "CREATE TABLE `local_user` (\n  `id` int,\n  `user_id` varchar(64)\n);\nINSERT INTO `local_user` VALUES (1,'{user}');\n\
         CREATE TABLE `password` (\n  `id` int,\n  `local_user_id` int,\n  `password_hash` text,\n  `created_at_int` bigint,\n  `expires_at_int` bigint\n);\nINSERT INTO `password` VALUES (1,1,'{hash}',1,NULL);\n"
    );
    std::fs::write(&dump, text).unwrap();
    let before = here.cli(&["facts", "status"]);
    let dump = dump.to_str().unwrap();
    let would = import(&["--pretend", "--passwords", dump]);
    assert_eq!(here.cli(&["facts", "status"])[0]["revision"], before[0]["revision"]);
    let report = import(&["--passwords", dump]);
    let named: Vec<&str> = report.iter().filter_map(|line| line["what"].as_str()).collect();
    for expected in [
        "project outer@d1",
        "password ann@d1",
        "application credential admin@Default!ci",
        "member of group crew@d1: ann@d1",
        "role assignment cook of group crew@d1 on project outer@d1",
        "role assignment cook of ann@d1 on domain d1, inherited",
        "registered limit  volumes of service store in region b/ü",
        "limit  volumes of project outer@d1",
        "endpoint group none here",
        "endpoint filter endpoint https://store for project outer@d1",
        "endpoint filter endpoint group none here for project outer@d1",
        "configuration of domain d1",
        "mapping people",
        "identity provider a b",
        "protocol a b/saml2",
        "service provider beta",
    ] {
        assert!(named.contains(&expected), "{expected}: {named:#?}");
    }
    let next = report.last().unwrap()["next"].to_string();
    for expected in ["token regenerate '", "admin@Default!ci", "catalog endpoint "] {
        assert!(next.contains(expected), "{expected}: {next}");
    }
    let (would, did) = (would.last().unwrap(), report.last().unwrap());
    assert!(did["taken"].as_u64() > Some(35) && did["taken"] == would["taken"], "{would} {did} {report:#?}");

    // The records are the same as in the source. The administrator gets a new password for the comparison.
    let output = here.cli_output(&["user", "passwd", "admin@Default", "--password-stdin"], "pw");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    make_keys(&here);
    let token_here = login(&here);
    comes_in(&here, "ann", &outer);
    let is_of_the_place = |row: &Value| {
        row["name"] == "local" || row["domain_id"].as_str().is_some_and(|id| id != "default" && id != domain)
    };
    for (path, many) in LISTS {
        let strip =
            |rows: Vec<Value>| rows.into_iter().filter(|row| !is_of_the_place(row)).collect::<Vec<_>>();
        let (there, here) =
            (strip(held(&cloud, &token, path, many)), strip(held(&here, &token_here, path, many)));
        assert_eq!(there, here, "{path}");
        assert!(!there.is_empty(), "{path}");
    }
    for path in &associated {
        call(&here, &token_here, "GET", path, &Value::Null);
    }
    let credentials = held(&here, &token_here, &path, "application_credentials");
    assert_eq!(credentials[0]["name"], "ci");
    // The credential has no secret yet, and the explanation gives this reason.
    let output = here.cli_output(&["explain", "admin@Default!ci", "main"], "");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("ID08") && said.contains("enfilade token regenerate 'admin@Default!ci'"), "{said}");
    assert_eq!(curl(&here, "admin@Default!ci:x", "/dav/main/", &[]).status, 401);
    until("the reason is in the log", &here, || here.log().contains("ID08"));
    // A second import adds nothing.
    let again = import(&[]);
    assert_eq!(again.last().unwrap()["taken"], 0, "{again:#?}");
    // Lists show imported records by name. The records have the same ids as in the source.
    let listed = here.cli(&["role", "list", "--named"]);
    assert!(listed.iter().any(|row| row["on"] == "domain d1, inherited"), "{listed:#?}");
    here.cli(&["role", "remove", "--domain", "d1", "--inherited", "--auth-id", "ann@d1", "cook"]);
    let listed = here.cli(&["role", "list", "--named"]);
    assert!(listed.iter().all(|row| row["on"] != "domain d1, inherited"), "{listed:#?}");
    // The source has a domain `local` with a user in it.
    assert!(
        report.last().unwrap()["notes"].to_string().contains("The domain `local` of the source"),
        "{report:#?}"
    );

    // If `bootstrap` ran earlier, the import is refused without `--leave-out-taken`.
    let late = Server::start_with(&[WITHOUT_PENALTIES]);
    assert!(late.cli_output(&["bootstrap", "--password-stdin"], "pw").status.success());
    let before = late.cli(&["facts", "status"]);
    let refused = import_output(&late, &cloud.url("/v3"), &trust, &[]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("role admin"), "{why}");
    assert!(why.contains("run `enfilade bootstrap` after the import"), "{why}");
    assert_eq!(late.cli(&["facts", "status"])[0]["revision"], before[0]["revision"]);
    let left = import_output(&late, &cloud.url("/v3"), &trust, &["--leave-out-taken", "--pretend"]);
    let left = String::from_utf8_lossy(&left.stdout).into_owned();
    assert!(left.contains("the user or group of the role assignment does not exist"), "{left}");
    let of_ben = left.lines().find(|line| line.contains("ben@d1!of-ben")).unwrap();
    // The service of `bootstrap` remains the only service of its type and name.
    let service = left.lines().find(|line| line.contains("service identity keystone")).unwrap();
    assert!(service.contains("another service in this store has this type and name"), "{left}");
    assert!(
        left.contains(
            "without the implied roles that are not in this store or that this role may not imply: reader"
        ),
        "{left}"
    );
    assert!(
        of_ben.contains("the credential's user has no role on the credential's project in this store"),
        "{left}"
    );
}

/// The output of a successful command, line by line.
pub(crate) fn import(here: &Server, url: &str, trust: &str, more: &[&str]) -> Vec<Value> {
    let output = import_output(here, url, trust, more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn import_output(here: &Server, url: &str, trust: &str, more: &[&str]) -> Output {
    let clouds = here.scratch.path().join("clouds.yaml");
    let auth = "username: admin\n      password: pw\n      project_name: admin";
    let text = format!("clouds:\n  old:\n    auth:\n      auth_url: {url}\n      {auth}\n    {trust}\n");
    std::fs::write(&clouds, text).unwrap();
    let mut command = Command::new(BINARY);
    command.args(["--json", "--data"]).arg(here.data()).args(["import", "keystone", "--os-cloud", "old"]);
    command.args(more).env("OS_CLIENT_CONFIG_FILE", &clouds).output().unwrap()
}

/// Creates Fernet keys, because a data directory has no keys after an import.
fn make_keys(here: &Server) {
    assert!(here.cli_output(&["keys", "init"], "").status.success());
    until("the keys are taken", here, || session(here).is_some());
}

/// Logs in with the password of the source.
fn comes_in(here: &Server, name: &str, project: &str) {
    let user = json!({ "name": name, "domain": { "name": "d1" }, "password": "correct horse" });
    let scope = json!({ "project": { "id": project } });
    let body = json!({ "auth": { "identity": { "methods": ["password"], "password": { "user": user } }, "scope": scope } });
    let answer = curl(here, "", "/v3/auth/tokens", &["-d", &body.to_string()]);
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// Imports from a real Keystone, with the password hashes in its database.
#[test]
fn keystone_itself_is_taken_over() {
    let scratch = Scratch::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/keystone_server.py");
    let mut keystone = Command::new("python3")
        .arg(script)
        .arg(scratch.path())
        .env("PYTHONPATH", python_path())
        .env("PYTHONWARNINGS", "ignore")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(scratch.path().join("stderr")).unwrap())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(keystone.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said = || std::fs::read_to_string(scratch.path().join("stderr")).unwrap();
    let there: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{}", said()));
    let here = Server::start_with(&[WITHOUT_PENALTIES]);
    let import = |more: &[&str]| import(&here, there["url"].as_str().unwrap(), "verify: true", more);
    let dump = there["dump"].as_str().unwrap();
    let would = import(&["--pretend", "--passwords", dump]);
    let did = import(&["--passwords", dump]);
    let taken = did.last().unwrap()["taken"].as_u64().unwrap();
    assert!(taken > 25 && would.last().unwrap()["taken"] == taken, "{did:#?}");
    let is_totp = |line: &Value| line.to_string().contains("credential of type totp eve@d1");
    assert_eq!(did.iter().filter(|line| is_totp(line)).count(), 1, "{did:#?}");
    let of_kind =
        |kind: &str| did.iter().filter(|line| line["kind"] == kind && line["left_out"].is_null()).count();
    for kind in
        ["trust", "EC2 key", "OAuth consumer", "configuration of domain", "secret of application credential"]
    {
        assert_eq!(of_kind(kind), 1, "{kind}: {did:#?}");
    }
    // The password of Keystone's administrator is also valid in Enfilade.
    make_keys(&here);
    let token = login(&here);
    let lists = there["lists"].as_object().unwrap();
    let outer = lists["projects"].as_array().unwrap().iter().find(|row| row["name"] == "outer").unwrap();
    comes_in(&here, "ann", outer["id"].as_str().unwrap());
    // The secret that Keystone generated and the trust are valid in Enfilade.
    let ci = json!({ "methods": ["application_credential"], "application_credential": there["ci"] });
    let ann = json!({ "name": "ann", "domain": { "name": "d1" }, "password": "correct horse" });
    let ann = json!({ "methods": ["password"], "password": { "user": ann } });
    let trust = json!({ "OS-TRUST:trust": { "id": there["trust"] } });
    for auth in [json!({ "identity": ci }), json!({ "identity": ann, "scope": trust })] {
        let body = json!({ "auth": auth }).to_string();
        let answer = curl(&here, "", "/v3/auth/tokens", &["-d", &body]);
        assert_eq!(answer.status, 201, "{auth}: {}", answer.text());
    }
    let key = &there["key"];
    let path = format!(
        "/v3/users/{}/credentials/OS-EC2/{}",
        there["me"].as_str().unwrap(),
        key["access"].as_str().unwrap()
    );
    assert_eq!(call(&here, &token, "GET", &path, &Value::Null)["credential"]["secret"], key["secret"]);
    let body = r#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"eve","domain":{"name":"d1"},"password":"correct horse"}}}}}"#;
    let answer = curl(&here, "", "/v3/auth/tokens", &["-d", body]);
    assert!(answer.status == 401 && answer.text().contains("[[\"password\",\"totp\"]]"), "{}", answer.text());
    for (many, rows) in lists {
        let (path, many) = match many.as_str() {
            "credentials" => {
                let user = there["me"].as_str().unwrap();
                (format!("/v3/users/{user}/application_credentials"), "application_credentials")
            }
            "endpoint_groups" => ("/v3/OS-EP-FILTER/endpoint_groups".to_owned(), "endpoint_groups"),
            many @ ("identity_providers" | "mappings" | "service_providers") => {
                (format!("/v3/OS-FEDERATION/{many}"), many)
            }
            "protocols" => ("/v3/OS-FEDERATION/identity_providers/acme/protocols".to_owned(), "protocols"),
            many => (format!("/v3/{many}"), many),
        };
        let ours = held(&here, &token, &path, many);
        for row in rows.as_array().unwrap() {
            assert!(ours.iter().any(|own| is_same(row, own)), "{path}: {row}\n{ours:#?}");
        }
    }
    for path in there["associated"].as_array().unwrap() {
        call(&here, &token, "GET", &format!("/v3{}", path.as_str().unwrap()), &Value::Null);
    }
    assert_eq!(import(&[]).last().unwrap()["taken"], 0);
    of_a_directory(&here, &token, &there, scratch.path());
    drop(keystone.stdin.take());
    keystone.wait().unwrap();
}

/// Tests a user and a group with ids of 64 digits. Keystone assigns such ids to users and groups of LDAP directories. Enfilade treats them like other
/// users and groups.
fn of_a_directory(here: &Server, admin: &str, there: &Value, keystone: &Path) {
    let [lena, group] = ["id", "group"].map(|what| there["lena"][what].as_str().unwrap());
    assert_eq!((lena.len(), group.len()), (64, 64));
    let members = call(here, admin, "GET", &format!("/v3/groups/{group}/users"), &Value::Null);
    assert_eq!(members["users"][0]["id"], lena);
    // A session of this user can do everything that other sessions can do.
    let project = there["lists"]["projects"].as_array().unwrap().iter().find(|row| row["name"] == "outer");
    let project = project.unwrap()["id"].as_str().unwrap();
    let user = json!({ "id": lena, "password": "correct horse" });
    let scope = json!({ "project": { "id": project } });
    let login = json!({ "methods": ["password"], "password": { "user": user } });
    let issued = |identity: &Value, scope: &Value| {
        let body = json!({ "auth": { "identity": identity, "scope": scope } }).to_string();
        let answer = curl(here, "", "/v3/auth/tokens", &["-d", &body]);
        assert_eq!(answer.status, 201, "{}", answer.text());
        let token = answer.head.iter().find_map(|line| line.strip_prefix("x-subject-token: "));
        let told: Value = serde_json::from_str(&answer.text()).unwrap();
        assert_eq!(told["token"]["user"]["id"], lena);
        token.unwrap().trim().to_owned()
    };
    let login = issued(&login, &scope);
    let roles = format!("/v3/role_assignments?user.id={lena}&effective");
    let roles = call(here, admin, "GET", &roles, &Value::Null);
    // The user's role implies a second role, and the second role implies a third. The group also has the second role.
    assert!(roles["role_assignments"].as_array().unwrap().len() >= 3, "{roles}");
    let made = json!({ "application_credential": { "name": "hers" } });
    let path = format!("/v3/users/{lena}/application_credentials");
    let made = call(here, &login, "POST", &path, &made)["application_credential"].clone();
    let credential = json!({ "id": made["id"], "secret": made["secret"] });
    issued(
        &json!({ "methods": ["application_credential"], "application_credential": credential }),
        &Value::Null,
    );
    let key = json!({ "tenant_id": project });
    let key = call(here, &login, "POST", &format!("/v3/users/{lena}/credentials/OS-EC2"), &key);
    assert_eq!(key["credential"]["user_id"], lena);
    let status = |token: &str| {
        let header = format!("X-Auth-Token: {token}");
        curl(here, "", &format!("/v3/users/{lena}"), &["-H", &header]).status
    };
    assert_eq!(status(&login), 200);
    // A token that Keystone issued to this user is valid in Enfilade, if Enfilade has the keys of Keystone.
    for key in std::fs::read_dir(keystone.join("fernet")).unwrap().map(Result::unwrap) {
        let (name, new) = (key.file_name(), here.data().join("keys/new-key"));
        std::fs::copy(key.path(), &new).unwrap();
        std::fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::rename(&new, here.data().join("keys/fernet").join(name)).unwrap();
    }
    let of_keystone = there["lena"]["token"].as_str().unwrap();
    until("the keys are followed", here, || status(of_keystone) == 200);
    // Files, the list of sessions, a dump and the deletion work as for other users.
    let listed = here.cli(&["session", "list"]);
    assert!(listed.iter().any(|row| row.to_string().contains("lena@d1")), "{listed:?}");
    assert_eq!(curl(here, "lena@d1:correct horse", "/dav/", &PROPFIND_0).status, 207);
    let dump = here.scratch.path().join("dump.jsonl");
    let dump = dump.to_str().unwrap();
    here.cli(&["facts", "dump", "--secrets", dump]);
    assert!(std::fs::read_to_string(dump).unwrap().contains(lena));
    here.cli(&["facts", "load", dump, "--force", "--accept-rollback"]);
    assert_eq!(here.cli(&["facts", "check"])[0]["sound"], true);
    assert_eq!(curl(here, "lena@d1:correct horse", "/dav/", &PROPFIND_0).status, 207);
    here.cli(&["revoke", "user", "lena@d1"]);
    assert_eq!(status(of_keystone), 401);
    assert_eq!(curl(here, "lena@d1:correct horse", "/dav/", &PROPFIND_0).status, 207);
    here.cli(&["user", "remove", "lena@d1"]);
    assert_eq!(curl(here, "lena@d1:correct horse", "/dav/", &PROPFIND_0).status, 401);
    assert_eq!(here.cli(&["facts", "check"])[0]["sound"], true);
}

/// Whether an imported record has all attributes of Keystone's record, except links and attributes that only Keystone has.
fn is_same(there: &Value, here: &Value) -> bool {
    const ITS_OWN: [&str; 5] = ["links", "is_domain", "options", "password_expires_at", "unrestricted"];
    match (there, here) {
        (Value::Object(there), Value::Object(_)) => {
            let mut fields = there.iter().filter(|(name, _)| !ITS_OWN.contains(&name.as_str()));
            fields.all(|(name, value)| is_same(value, &here[name]))
        }
        (Value::Array(there), Value::Array(here)) => {
            there.iter().all(|one| here.iter().any(|own| is_same(one, own)))
        }
        (there, here) => there == here,
    }
}
