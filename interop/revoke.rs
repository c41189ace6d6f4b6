//! The output of `user access` and `revoke` agrees with the server: the test tries each credential before and after the revocation.

use crate::curl::{command, curl};
use crate::gone::{Cloud, enabled, project};
use crate::locks::{LOCK, lock, open, put};
use crate::server::{BINARY, Server, WITHOUT_PENALTIES, until, wait_until};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

const ALICE: &str = "alice@Default";

/// Alice with one credential of each kind, on a running server.
struct World {
    cloud: Cloud,
    /// The logins of her API tokens.
    tokens: Vec<String>,
    /// The id and the secret of her application credential.
    credential: (String, String),
    /// The access key and the secret of her EC2 key.
    key: (String, String),
    /// The ids of two trusts: from bob to alice, and from alice to bob.
    trusts: [String; 2],
    /// The issued sessions of alice: token and audit id.
    issued: RefCell<Vec<(String, String)>>,
    ids: [String; 3],
}

impl World {
    fn new() -> Self {
        let cloud = Cloud::start();
        let user = |name: &str| {
            cloud.make("user", json!({ "name": name, "password": "pw", "domain_id": "default" }))
        };
        let (alice, bob) = (user("alice"), user("bob"));
        let work = cloud.make("project", json!({ "name": "work", "domain_id": "default" }));
        let member = cloud.role("member");
        for user in [&alice, &bob] {
            let path = format!("/v3/projects/{work}/users/{user}/roles/{member}");
            cloud.change("PUT", &path, &Value::Null);
        }
        let server = &cloud.server;
        let role = ["role", "assign", "--path", "/datastore/main", "--auth-id", ALICE, "DatastorePowerUser"];
        server.cli(&role);
        server.cli(&["group", "add", "crew@Default"]);
        server.cli(&["group", "member", "add", "crew@Default", ALICE]);
        let tokens = ["laptop", "phone"].map(|name| server.add_token(&format!("{ALICE}!{name}"))).to_vec();
        let made = &server.cli(&["token", "create", &format!("{ALICE}!ci"), "--project", "work"])[0];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let credential = (text(&made["id"]), text(&made["value"]));
        let login = |name: &str| cloud.login(name, "default", "pw", project("work", "default")).unwrap();
        let lend = |by: &str, from: &str, to: &str| {
            let trust = json!({
                "trustor_user_id": from, "trustee_user_id": to, "project_id": work, "impersonation": false,
                "roles": [{ "name": "member" }],
            });
            let (status, made) = cloud.call(by, "POST", "/v3/OS-TRUST/trusts", &json!({ "trust": trust }));
            assert_eq!(status, 201, "{made}");
            text(&made["trust"]["id"])
        };
        let (hers, his) = (login("alice"), login("bob"));
        let trusts = [lend(&his, &bob, &alice), lend(&hers, &alice, &bob)];
        let keys = format!("/v3/users/{alice}/credentials/OS-EC2");
        let (status, made) = cloud.call(&hers, "POST", &keys, &json!({ "tenant_id": work }));
        assert_eq!(status, 201, "{made}");
        let key = (text(&made["credential"]["access"]), text(&made["credential"]["secret"]));
        let issued = RefCell::default();
        let world = World { cloud, tokens, credential, key, trusts, issued, ids: [alice, bob, work] };
        world.note(Some(hers));
        world
    }

    /// Records a session of alice. Returns whether a session was issued.
    fn note(&self, token: Option<String>) -> bool {
        let audit_id =
            |token: &str| self.cloud.stands(token).unwrap()["audit_ids"][0].as_str().unwrap().to_owned();
        self.issued.borrow_mut().extend(token.iter().map(|token| (token.clone(), audit_id(token))));
        token.is_some()
    }

    fn login(&self, name: &str, scope: Value) -> Option<String> {
        self.cloud.login(name, "default", "pw", scope)
    }

    fn whoami(&self, login: &str) -> bool {
        curl(&self.cloud.server, login, "/whoami", &[]).status == 200
    }

    /// Whether a credential works. The test uses the credential as a client would.
    fn works(&self, way: &str, name: &str) -> bool {
        let by_trust = |who: &str| self.login(who, json!({ "OS-TRUST:trust": { "id": name } }));
        match way {
            "password" => self.whoami(&format!("{ALICE}:pw")),
            "API token" => {
                let login = self.tokens.iter().find(|login| login.starts_with(&format!("{name}:")));
                self.whoami(login.unwrap())
            }
            "application credential" => {
                let (id, secret) = &self.credential;
                let credential = json!({ "id": id, "secret": secret });
                let identity =
                    json!({ "methods": ["application_credential"], "application_credential": credential });
                self.note(self.cloud.issue(identity, Value::Null))
            }
            "EC2 key" => self.signs(),
            "trust from another user" => self.note(by_trust("alice")),
            "trust to another user" => by_trust("bob").is_some(),
            other => panic!("{other}"),
        }
    }

    /// Whether a request to S3 that was signed with the key is accepted.
    fn signs(&self) -> bool {
        let (access, secret) = &self.key;
        let sign = "printf 'hello world!' | openssl dgst -sha1 -hmac \"$0\" -binary | openssl base64 -A";
        let signature = Command::new("sh").args(["-c", sign, secret]).output().unwrap().stdout;
        let signature = String::from_utf8(signature).unwrap();
        let signed = json!({ "access": access, "signature": signature, "token": "aGVsbG8gd29ybGQh" });
        let admin = self.cloud.login("admin", "default", "pw", project("admin", "default")).unwrap();
        let body = json!({ "credentials": signed });
        self.cloud.call(&admin, "POST", "/v3/s3tokens", &body).0 == 200
    }

    fn access(&self) -> Value {
        self.cloud.server.cli(&["user", "access", ALICE])[0].clone()
    }

    /// The audit ids of the sessions of alice that the server accepts.
    fn standing(&self) -> BTreeSet<String> {
        let issued = self.issued.borrow();
        let stands = issued.iter().filter(|(token, _)| self.cloud.stands(token).is_some());
        stands.map(|(_, id)| id.clone()).collect()
    }

    /// Tries every credential that `user access` lists, and compares the results. Returns the kinds of the working credentials.
    fn check(&self, what: &str) -> Vec<String> {
        let said = self.access();
        let listed = self.cloud.server.cli(&["session", "list", ALICE]);
        let listed: BTreeSet<String> =
            listed.iter().map(|row| row["audit_id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(said["sessions_at_least"], listed.len(), "{what}");
        let standing = self.standing();
        assert!(standing.is_subset(&listed), "{what}: {standing:?} {listed:?}");
        let ended = self.issued.borrow().iter().map(|(_, id)| id.clone()).collect::<BTreeSet<_>>();
        assert!(
            ended.difference(&standing).all(|id| !listed.contains(id)),
            "{what}: an ended session is listed"
        );
        let ways: Vec<(String, String, bool)> = said["ways"]
            .as_array()
            .unwrap()
            .iter()
            .map(|way| {
                let text = |key: &str| way[key].as_str().unwrap().to_owned();
                (text("way"), text("name"), way["works"].as_bool().unwrap())
            })
            .collect();
        for (way, name, works) in &ways {
            assert_eq!(self.works(way, name), *works, "{what}: {way} {name}: {said}");
        }
        ways.into_iter().filter(|(.., works)| *works).map(|(way, ..)| way).collect()
    }

    fn revoke(&self, arguments: &[&str]) -> Value {
        self.cloud.server.cli(&[&["revoke"], arguments].concat())[0].clone()
    }

    /// The plain-text output of a command.
    fn told(&self, arguments: &[&str]) -> String {
        let mut enfilade = Command::new(BINARY);
        let output = enfilade.arg("--data").arg(self.cloud.server.data()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

const EVERY: [&str; 7] = [
    "password",
    "API token",
    "API token",
    "application credential",
    "EC2 key",
    "trust from another user",
    "trust to another user",
];

#[test]
fn what_revoke_says_is_what_the_server_does() {
    let world = World::new();
    let (server, work) = (&world.cloud.server, || project("work", "default"));
    assert_eq!(world.check("at first"), EVERY);

    // A token, and then the whole user, is disabled and enabled.
    server.cli(&["token", "set", &format!("{ALICE}!phone"), "--disable"]);
    assert_eq!(world.check("a token disabled").len(), EVERY.len() - 1);
    server.cli(&["token", "set", &format!("{ALICE}!phone"), "--enable"]);
    server.cli(&["user", "disable", ALICE]);
    assert_eq!(world.check("the user disabled"), [""; 0]);
    let told = world.told(&["revoke", "user", ALICE]);
    assert!(told.contains("no valid session of user alice@Default is known"), "{told}");
    assert!(told.contains("refused at present, but not deleted: the password, 2 API tokens"), "{told}");
    server.cli(&["user", "enable", ALICE]);
    assert_eq!(world.check("the user enabled"), EVERY);

    // Revokes one session, and then a chain.
    let sessions = [world.login("alice", work()).unwrap(), world.login("alice", work()).unwrap()];
    let [first, other] = sessions.clone();
    let again = json!({ "methods": ["token"], "token": { "id": other } });
    let third = world.cloud.issue(again, work()).unwrap();
    for token in [&first, &other, &third] {
        world.note(Some(token.clone()));
    }
    let id = |token: &str| {
        let issued = world.issued.borrow();
        issued.iter().find(|(issued, _)| issued == token).unwrap().1.clone()
    };
    let before = world.standing();
    let said = world.revoke(&["session", &id(&first)]);
    assert_eq!(said["ended"]["sessions_at_least"], 1, "{said}");
    assert_eq!(said["still_works"]["passwords"], 1, "{said}");
    let said = world.revoke(&["session", &id(&third), "--chain"]);
    assert_eq!(said["ended"]["sessions_at_least"], 2, "{said}");
    let ended: BTreeSet<String> = before.difference(&world.standing()).cloned().collect();
    assert_eq!(ended, [&first, &other, &third].map(|token| id(token)).into());
    let said = world.revoke(&["token", &id(&first)]);
    assert_eq!(said["ended"]["sessions_at_least"], 0, "it ended before: {said}");

    // Revokes an API token, and the sessions of a project, of the user, and of a group.
    let said = world.revoke(&["token", &format!("{ALICE}!phone")]);
    assert_eq!((&said["ended"]["api_tokens"], &said["still_works"]["api_tokens"]), (&json!(1), &json!(1)));
    assert!(!world.whoami(&world.tokens[1]));
    let left = world.check("a token revoked");
    assert_eq!(left.len(), EVERY.len() - 1);
    for (what, name) in
        [("project", "work"), ("user", ALICE), ("group", "crew@Default"), ("domain", "Default")]
    {
        world.note(world.login("alice", work()));
        let (known, standing) = (world.access()["sessions_at_least"].clone(), world.standing().len());
        assert!(standing > 0);
        let said = world.revoke(&[what, name]);
        assert_eq!(world.standing(), BTreeSet::new(), "{what}");
        let ended = said["ended"]["sessions_at_least"].as_u64().unwrap();
        assert!(known.as_u64().unwrap() <= ended, "{what}: {said}");
        assert_eq!(said["ended"]["passwords"], 0);
        assert_eq!(world.check(what), left, "a revocation of sessions leaves everything else: {what}");
    }
    let told = world.told(&["revoke", "user", ALICE]);
    let works = "the password, 1 API token, 1 application credential, 1 EC2 key, 1 trust from another user and \
                 1 trust to another user still work: enfilade revoke user alice@Default --everything";
    assert!(told.contains("ended at least ") && told.contains(works), "{told}");
    let listed = world.told(&["revoke", "list"]);
    assert!(listed.contains("ISSUED UP TO") && listed.contains("up to one minute in the future"), "{listed}");
}

/// The name that `user access` shows ends one EC2 key or one trust, and no other credential.
#[test]
fn one_ec2_key_or_one_trust_is_ended_alone() {
    let world = World::new();
    let named = |kind: &str| {
        let said = world.access();
        let ways = said["ways"].as_array().unwrap().clone();
        ways.into_iter().find(|way| way["way"] == kind).map(|way| way["name"].as_str().unwrap().to_owned())
    };
    // The name is the access key that programs use, not its digest.
    assert_eq!(named("EC2 key"), Some(world.key.0.clone()));
    let said = world.revoke(&["ec2-key", &world.key.0]);
    assert_eq!((&said["revoked"], &said["ended"]["ec2_keys"]), (&json!("EC2 key"), &json!(1)), "{said}");
    assert!(!world.signs() && named("EC2 key").is_none());
    let by_trust = world.login("alice", json!({ "OS-TRUST:trust": { "id": world.trusts[0] } }));
    assert!(world.note(by_trust));
    let before = world.standing().len();
    let said = world.revoke(&["trust", &world.trusts[0]]);
    assert_eq!(said["ended"]["trusts_to_others"], 1, "{said}");
    assert!(said["ended"]["sessions_at_least"].as_u64() >= Some(1), "{said}");
    assert_eq!((world.standing().len(), named("trust from another user")), (before - 1, None));
    assert_eq!(named("trust to another user"), Some(world.trusts[1].clone()));
    let told = world.told(&["revoke", "trust", &world.trusts[1]]);
    assert!(told.contains("deleted for good: 1 trust to another user"), "{told}");
    let left = ["password", "API token", "API token", "application credential"];
    assert_eq!(world.check("key and trusts revoked"), left);
    for arguments in [["revoke", "ec2-key", &world.key.0], ["revoke", "trust", &world.trusts[0]]] {
        let output = world.cloud.server.cli_output(&arguments, "");
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && why.contains("there is no"), "{why}");
    }
}

/// The header of a POST request that a consumer signs (RFC 5849). A key is an id and its secret.
fn signed(url: &str, consumer: &Key, token: Option<&Key>, verifier: Option<&str>, nonce: u32) -> String {
    let encoded = |text: &str| {
        [("+", "%2B"), ("/", "%2F"), (":", "%3A"), ("=", "%3D"), ("&", "%26")]
            .iter()
            .fold(text.to_owned(), |text, (plain, code)| text.replace(plain, code))
    };
    let seconds = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs().to_string();
    let nonce = nonce.to_string();
    let mut parameters = vec![
        ("oauth_consumer_key", consumer.0.as_str()),
        ("oauth_nonce", &nonce),
        ("oauth_signature_method", "HMAC-SHA1"),
        ("oauth_timestamp", &seconds),
    ];
    parameters.extend(token.map(|(id, _)| ("oauth_token", id.as_str())));
    parameters.extend(verifier.map(|verifier| ("oauth_verifier", verifier)));
    let pairs: Vec<_> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let text = format!("POST&{}&{}", encoded(url), encoded(&pairs.join("&")));
    let key = format!("{}&{}", consumer.1, token.map_or("", |(_, secret)| secret));
    let sign = "printf %s \"$1\" | openssl dgst -sha1 -hmac \"$0\" -binary | openssl base64 -A";
    let signature = Command::new("sh").args(["-c", sign, &key, &text]).output().unwrap().stdout;
    let signature = encoded(&String::from_utf8(signature).unwrap());
    parameters.push(("oauth_signature", &signature));
    let parts: Vec<_> = parameters.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    format!("Authorization: OAuth {}", parts.join(", "))
}

type Key = (String, String);

/// Lets the administrator approve a request of a consumer. Returns the access token.
fn approved(cloud: &Cloud, consumer: &Key, project: &str, nonce: u32) -> Key {
    let ask = |path: &str, token: Option<&Key>, verifier: Option<&str>| {
        let header = signed(&cloud.server.url(path), consumer, token, verifier, nonce);
        let project = format!("Requested-Project-Id: {project}");
        let answer =
            curl(&cloud.server, "", path, &["--request", "POST", "--header", &header, "--header", &project]);
        let text = answer.text();
        assert_eq!(answer.status, 201, "{text}");
        let part = |name: &str| {
            let mut parts = text.split('&').filter_map(|part| part.split_once('='));
            parts.find(|(known, _)| *known == name).unwrap().1.to_owned()
        };
        (part("oauth_token"), part("oauth_token_secret"))
    };
    let request = ask("/v3/OS-OAUTH1/request_token", None, None);
    let path = format!("/v3/OS-OAUTH1/authorize/{}", request.0);
    let told = cloud.change("PUT", &path, &json!({ "roles": [{ "name": "admin" }] }));
    ask("/v3/OS-OAUTH1/access_token", Some(&request), told["token"]["oauth_verifier"].as_str())
}

/// The name that `user access` shows ends one OAuth access token, and no other credential.
#[test]
fn one_access_token_is_ended_alone() {
    let cloud = Cloud::start();
    let server = &cloud.server;
    let admin = cloud.login("admin", "default", "pw", project("admin", "default")).unwrap();
    let work = cloud.stands(&admin).unwrap()["project"]["id"].as_str().unwrap().to_owned();
    let made =
        cloud.change("POST", "/v3/OS-OAUTH1/consumers", &json!({ "consumer": {} }))["consumer"].clone();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let consumer = (text("id"), text("secret"));
    let tokens = [1, 2].map(|nonce| approved(&cloud, &consumer, &work, nonce));
    let login = |token: &Key, nonce| {
        let (path, body) = ("/v3/auth/tokens", r#"{"auth":{"identity":{"methods":["oauth1"],"oauth1":{}}}}"#);
        let header = signed(&server.url(path), &consumer, Some(token), None, nonce);
        let json = "Content-Type: application/json";
        let answer = curl(server, "", path, &["--header", &header, "--header", json, "--data", body]);
        let token = answer.head.iter().find_map(|line| line.strip_prefix("x-subject-token: "));
        token.map(|token| token.trim().to_owned())
    };
    let sessions = [login(&tokens[0], 3).unwrap(), login(&tokens[1], 4).unwrap()];
    let named = || {
        let said = server.cli(&["user", "access", "admin@Default"])[0].clone();
        let ways = said["ways"].as_array().unwrap().clone().into_iter();
        let ways = ways.filter(|way| way["way"] == "OAuth access token" && way["works"] == true);
        ways.map(|way| way["name"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    assert_eq!(named(), tokens.iter().map(|(id, _)| id.clone()).collect());
    let said = server.cli(&["revoke", "access-token", &tokens[0].0])[0].clone();
    assert_eq!(said["revoked"], "OAuth access token", "{said}");
    assert_eq!(
        (&said["ended"]["oauth_access_tokens"], &said["ended"]["sessions_at_least"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(said["still_works"]["oauth_access_tokens"], 1, "{said}");
    assert_eq!(sessions.each_ref().map(|token| cloud.stands(token).is_some()), [false, true]);
    assert_eq!((login(&tokens[0], 5), named()), (None, BTreeSet::from([tokens[1].0.clone()])));
    assert!(login(&tokens[1], 6).is_some() && cloud.stands(&admin).is_some());
    let output = server.cli_output(&["revoke", "access-token", &tokens[0].0], "");
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && why.contains("there is no OAuth access token"), "{why}");
}

/// Some credentials and trusts have no audit id of a session. A mark of the audit id zero does not end them.
#[test]
fn a_mark_of_the_audit_id_zero_ends_nothing() {
    let world = World::new();
    let [alice, bob, work] = &world.ids;
    let trust = json!({
        "trustor_user_id": bob, "trustee_user_id": alice, "project_id": work, "impersonation": false,
        "remaining_uses": 3, "roles": [{ "name": "member" }],
    });
    let his = world.login("bob", project("work", "default")).unwrap();
    let (status, made) = world.cloud.call(&his, "POST", "/v3/OS-TRUST/trusts", &json!({ "trust": trust }));
    assert_eq!(status, 201, "{made}");
    let id = made["trust"]["id"].as_str().unwrap();
    for what in ["session", "chain"] {
        world.revoke(&[what, "AAAAAAAAAAAAAAAAAAAAAA"]);
        assert_eq!(world.check(what).len(), EVERY.len() + 1);
    }
    let use_it = || world.login("alice", json!({ "OS-TRUST:trust": { "id": id } })).is_some();
    assert_eq!([use_it(), use_it()], [true, false]);
}

#[test]
fn after_everything_was_revoked_no_way_in_is_left() {
    let world = World::new();
    let server = &world.cloud.server;
    assert_eq!(world.check("at first"), EVERY);
    open(server);
    let login = &world.tokens[0];
    assert_eq!(put(server, login, "/dav/main/file"), 201);
    assert_eq!(lock(server, login, "/dav/main/file", "0").0, 200);
    std::fs::File::create(server.data().join("datastores/main/big.bin")).unwrap().set_len(8 << 30).unwrap();
    let taken = server.scratch.path().join("taken");
    let mut download = command(server, login)
        .args(["--http1.1", "--limit-rate", "20M", "--output"])
        .arg(&taken)
        .arg(server.url("/dav/main/big.bin"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the download runs", server, || std::fs::metadata(&taken).is_ok_and(|meta| meta.len() > 0));
    assert!(download.try_wait().unwrap().is_none());

    let said = world.revoke(&["user", ALICE, "--everything"]);
    for (what, count) in [
        ("passwords", 1),
        ("api_tokens", 2),
        ("application_credentials", 1),
        ("ec2_keys", 1),
        ("trusts_from_others", 1),
        ("trusts_to_others", 1),
        ("locks", 1),
    ] {
        assert_eq!(said["ended"][what], count, "{what}: {said}");
    }
    assert!(said["still_works"].as_object().unwrap().values().all(|count| *count == 0), "{said}");
    wait_until(Duration::from_secs(60), "the download ends", || download.try_wait().unwrap().is_some());
    assert!(!download.wait().unwrap().success());
    for way in EVERY {
        let name = match way {
            "API token" => login.split_once(':').unwrap().0,
            "trust from another user" => &world.trusts[0],
            "trust to another user" => &world.trusts[1],
            _ => "",
        };
        assert!(!world.works(way, name), "{way}");
    }
    assert_eq!((world.standing(), world.check("everything revoked")), (BTreeSet::new(), Vec::new()));
    assert_eq!(world.access()["ways"], json!([]));
    assert!(world.told(&["user", "access", ALICE]).contains("this user has no password"));
    // The file has no lock any more.
    let admin = format!("admin@local:{}", server.password);
    let arguments = ["--request", "LOCK", "--data", LOCK, "--header", "Depth: 0"];
    assert_eq!(curl(server, &admin, "/dav/main/file", &arguments).status, 200);
    // The output contains the command that lets the user log in again.
    let told = world.told(&["revoke", "user", ALICE, "--everything"]);
    assert!(told.contains("to let a user log in again: enfilade user passwd alice@Default"), "{told}");
    let output = server.cli_output(&["user", "passwd", ALICE, "--password-stdin"], "pw");
    assert!(output.status.success());
    assert_eq!(world.check("a new password"), ["password"]);
    world.note(Some(world.login("alice", project("work", "default")).unwrap()));
    assert_eq!(world.standing().len(), 1, "roles and memberships stayed");

    // A trust can be used only in a session by password. Therefore a user without a password cannot use a trust.
    let carol = server.cli(&["user", "add", "carol@Default"])[0]["id"].as_str().unwrap().to_owned();
    let [_, bob, work] = &world.ids;
    let trust = json!({
        "trustor_user_id": bob, "trustee_user_id": carol, "project_id": work, "impersonation": false,
        "roles": [{ "name": "member" }],
    });
    let his = world.login("bob", project("work", "default")).unwrap();
    assert_eq!(world.cloud.call(&his, "POST", "/v3/OS-TRUST/trusts", &json!({ "trust": trust })).0, 201);
    let trust = || {
        server.cli(&["user", "access", "carol@Default"])[0]["ways"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .clone()
    };
    assert_eq!((&trust()["works"], &trust()["way"]), (&json!(false), &json!("trust from another user")));
    assert!(
        server.cli_output(&["user", "passwd", "carol@Default", "--password-stdin"], "pw").status.success()
    );
    assert_eq!(trust()["works"], true);

    // Revokes credentials of bob for the project, and credentials of the members of a group.
    let made = &server.cli(&["token", "create", "bob@Default!ci", "--project", "work"])[0];
    let ci = format!("bob@Default!ci:{}", made["value"].as_str().unwrap());
    assert!(world.whoami(&ci));
    let said = world.revoke(&["project", "work"]);
    assert_eq!(said["still_works"]["application_credentials"], 1, "{said}");
    assert!(world.whoami(&ci) && world.standing().is_empty());
    let said = world.revoke(&["project", "work", "--everything"]);
    assert_eq!(said["ended"]["application_credentials"], 1, "{said}");
    assert!(!world.whoami(&ci) && world.whoami("bob@Default:pw"));
    let said = world.revoke(&["group", "crew@Default", "--everything"]);
    assert_eq!(said["ended"]["passwords"], 1, "{said}");
    assert!(!world.whoami(&format!("{ALICE}:pw")) && world.whoami("bob@Default:pw"));
    world.cloud.change("PATCH", &format!("/v3/users/{bob}"), &enabled("user", false));
    let access = server.cli(&["user", "access", "bob@Default"])[0].clone();
    assert_eq!(access["ways"][0]["why_not"], "the user is disabled", "{access}");
}

/// For a user in `user.cfg`, the tokens, their secrets and their roles are deleted in the files. Other records stay.
#[test]
fn everything_of_a_user_of_user_cfg_is_deleted_in_the_files() {
    let prepare = |data: &std::path::Path| {
        std::fs::create_dir_all(data).unwrap();
        std::fs::write(
            data.join("user.cfg"),
            "user: kept@local\n\tenable true\n\nuser: other@local\n\tenable true\n",
        )
        .unwrap();
        std::fs::write(data.join("acl.cfg"), "").unwrap();
    };
    let server = Server::start_on(prepare, &[WITHOUT_PENALTIES]);
    let whoami = |login: &str| curl(&server, login, "/whoami", &[]).status;
    let logins = ["kept@local!t", "other@local!t"].map(|token| server.add_token(token));
    for who in ["kept@local!t", "kept@local", "other@local!t"] {
        server.cli(&[
            "role",
            "assign",
            "--path",
            "/datastore/main",
            "--auth-id",
            who,
            "DatastoreReader",
            "--before-creation",
        ]);
    }
    assert!(server.cli_output(&["user", "passwd", "kept@local", "--password-stdin"], "pw").status.success());
    let passwords = || whoami("kept@local:pw");
    assert_eq!((whoami(&logins[0]), whoami(&logins[1]), passwords()), (200, 200, 200));
    let access = server.cli(&["user", "access", "kept@local"])[0].clone();
    assert_eq!(access["roles"].as_array().unwrap().len(), 1, "{access}");
    let said = server.cli(&["revoke", "user", "kept@local", "--everything"])[0].clone();
    assert_eq!((&said["ended"]["api_tokens"], &said["ended"]["passwords"]), (&json!(1), &json!(1)));
    assert_eq!((whoami(&logins[0]), whoami(&logins[1]), passwords()), (401, 200, 401));
    for (file, gone, stays) in [
        ("user.cfg", "token: kept@local!t", "user: kept@local"),
        ("token.shadow", "kept@local!t", "other@local!t"),
        ("acl.cfg", "kept@local!t", "kept@local"),
    ] {
        let text = std::fs::read_to_string(server.data().join(file)).unwrap();
        assert!(!text.contains(gone) && text.contains(stays), "{file}: {text}");
    }
}
