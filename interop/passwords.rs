//! The password rules of `[passwords]`, for every command and call that sets a password.

use crate::curl::curl;
use crate::server::{Server, WITHOUT_PENALTIES};
use serde_json::{Value, json};

struct House {
    server: Server,
}

impl House {
    /// The rules are in the configuration file, because commands must apply them, too.
    fn with(rules: &[&str]) -> Self {
        let mut server = Server::start_with(&[WITHOUT_PENALTIES]);
        let config = format!("[identity]\npenalties = false\n[passwords]\n{}\n", rules.join("\n"));
        server.configure(&config);
        server.kill_and_restart();
        House { server }
    }

    /// Sets the password by a command. Returns the error text if the command is refused.
    fn set(&self, verb: &str, password: &str) -> Result<(), String> {
        let output = self
            .server
            .cli_output(&["user", verb, "ann@local", "--password-stdin"], &format!("{password}\n"));
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(why) }
    }

    fn ann(&self) -> String {
        let users = self.server.cli(&["user", "list"]);
        let ann = users.iter().find(|user| user["user"] == "ann@local").unwrap();
        ann["id"].as_str().unwrap().to_owned()
    }

    fn whoami(&self, password: &str) -> u16 {
        curl(&self.server, &format!("ann@local:{password}"), "/whoami", &[]).status
    }

    /// Logs in by the Identity API. Returns the status, the body, and the token.
    fn login(&self, name: &str, password: &str, scope: Value) -> (u16, Value, Option<String>) {
        let user = json!({ "name": name, "domain": { "name": "local" }, "password": password });
        let mut auth = json!({ "identity": { "methods": ["password"], "password": { "user": user } } });
        auth["scope"] = scope;
        let answer =
            curl(&self.server, "", "/v3/auth/tokens", &["--data", &json!({ "auth": auth }).to_string()]);
        let token =
            answer.head.iter().find_map(|line| line.strip_prefix("x-subject-token: ")).map(str::to_owned);
        (answer.status, serde_json::from_slice(&answer.body).unwrap(), token)
    }

    /// Ann changes her own password. Returns the status and the body.
    fn change(&self, old: &str, new: &str) -> (u16, String) {
        let body = json!({ "user": { "original_password": old, "password": new } }).to_string();
        let path = format!("/v3/users/{}/password", self.ann());
        let answer = curl(&self.server, "", &path, &["--data", &body]);
        (answer.status, answer.text())
    }
}

fn message(body: &Value) -> &str {
    body["error"]["message"].as_str().unwrap()
}

#[test]
fn what_somebody_else_has_chosen_is_good_for_choosing_another() {
    let house = House::with(&[
        "characters_min = 6",
        "kinds_min = 2",
        "change_given = true",
        "unlike_last = 2",
        "expire_after = '90d'",
    ]);
    assert!(house.set("add", "a1").unwrap_err().contains("at least 6 characters"));
    assert!(house.set("add", "letters").unwrap_err().contains("too few kinds"));
    house.set("add", "given-1").unwrap();
    assert_eq!((house.whoami("given-1"), house.whoami("wrong-1")), (401, 401));
    let shown = || {
        let data = house.server.data();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_enfilade"));
        let output = command.arg("--data").arg(data).args(["user", "list"]).output().unwrap();
        let table = String::from_utf8(output.stdout).unwrap();
        table.lines().find(|line| line.starts_with("ann@local")).unwrap().to_owned()
    };
    assert!(shown().contains("to be changed"), "{}", shown());
    let (status, body, _) = house.login("ann", "given-1", Value::Null);
    let expected = format!("The password is expired and needs to be changed for user: {}.", house.ann());
    assert_eq!((status, message(&body)), (401, expected.as_str()));
    // With a wrong password, a client does not learn that the password has expired.
    let (status, body, _) = house.login("ann", "wrong-1", Value::Null);
    assert_eq!((status, message(&body)), (401, "The request you have made requires authentication."));
    assert!(house.server.log().contains("\"ID25\""));

    assert_eq!(house.change("wrong-1", "own-pw-1").0, 401);
    for (bad, why) in [("given-1", "the old one"), ("own-1", "too short"), ("ownpassword", "too few kinds")] {
        let (status, said) = house.change("given-1", bad);
        assert!(status == 400 && said.contains(why), "{bad}: {status} {said}");
    }
    assert_eq!(house.change("given-1", "own-pw-1"), (204, String::new()));
    assert!(shown().contains("until 20"), "{}", shown());
    assert_eq!((house.whoami("given-1"), house.whoami("own-pw-1")), (401, 200));
    let (status, said) = house.change("own-pw-1", "given-1");
    assert!(status == 400 && said.contains("one of the last 2"), "{status} {said}");
    assert_eq!(house.change("own-pw-1", "own-pw-2").0, 204);
    assert_eq!(house.change("own-pw-2", "given-1").0, 204);

    // The answers about tokens and users contain the expiry of the password.
    let (status, body, token) = house.login("ann", "given-1", Value::Null);
    let until = body["token"]["user"]["password_expires_at"].as_str().unwrap_or_default().to_owned();
    assert!(status == 201 && until.ends_with(".000000Z"), "{body}");
    // An administrator sets a password: the sessions of the user end, and the user must change the password
    // again.
    house.set("passwd", "given-2").unwrap();
    assert_eq!((house.whoami("given-1"), house.whoami("given-2")), (401, 401));
    let own = format!("X-Auth-Token: {}", token.unwrap());
    assert_eq!(curl(&house.server, "", "/v3/auth/catalog", &["--header", &own]).status, 401);
}

#[test]
fn an_own_one_is_kept_for_a_while_and_grows_old() {
    let house = House::with(&["expire_after = '15s'", "keep_for = '1h'"]);
    house.set("add", "first").unwrap();
    assert_eq!(house.whoami("first"), 200);
    let (status, said) = house.change("first", "second");
    assert!(status == 400 && said.contains("too recently"), "{status} {said}");
    let (status, body, token) = house.login("ann", "first", Value::Null);
    assert_eq!(status, 201);
    assert_eq!(body["token"]["expires_at"], body["token"]["user"]["password_expires_at"]);
    let own = format!("X-Auth-Token: {}", token.unwrap());
    assert_eq!(curl(&house.server, "", "/v3/auth/projects", &["--header", &own]).status, 200);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while house.whoami("first") == 200 {
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    // Sessions that were made with a password end when the password expires, at the latest.
    assert_eq!(curl(&house.server, "", "/v3/auth/projects", &["--header", &own]).status, 401);
    // A password that must be changed may be changed before `keep_for` has passed.
    assert_eq!(house.change("first", "second").0, 204);
    assert_eq!(house.whoami("second"), 200);
}

#[test]
fn options_of_a_user_are_obeyed_and_passwords_are_found_by_their_end() {
    let house = House::with(&["expire_after = '90d'", "change_given = true"]);
    let url = house.server.url("/v3");
    let bootstrapped = house
        .server
        .cli_output(&["bootstrap", "--password-stdin", "--public-url", &url], "the administrator's\n");
    assert!(bootstrapped.status.success(), "{}", String::from_utf8_lossy(&bootstrapped.stderr));
    let body = json!({ "auth": {
        "identity": { "methods": ["password"], "password": { "user": { "name": "admin", "domain": { "id": "default" }, "password": "the administrator's" } } },
        "scope": { "system": { "all": true } } } });
    let answer = curl(&house.server, "", "/v3/auth/tokens", &["--data", &body.to_string()]);
    assert_eq!(answer.status, 201, "{}", house.server.log());
    let token = answer.head.iter().find_map(|line| line.strip_prefix("x-subject-token: ")).unwrap();
    let token = format!("X-Auth-Token: {token}");
    let ask = |path: &str, arguments: &[&str]| {
        let answer = curl(&house.server, "", path, &[&["--header", &token], arguments].concat());
        assert!(answer.status < 300, "{path}: {}", answer.text());
        serde_json::from_slice::<Value>(&answer.body).unwrap()
    };
    house.set("add", "given").unwrap();
    let path = format!("/v3/users/{}", house.ann());
    let with = |options: Value| {
        let body = json!({ "user": { "options": options } }).to_string();
        ask(&path, &["--request", "PATCH", "--data", &body])["user"]["password_expires_at"].clone()
    };
    assert_eq!(house.whoami("given"), 401);
    let until = with(json!({ "ignore_change_password_upon_first_use": true }));
    assert_eq!(house.whoami("given"), 200);
    let found = |filter: &str| {
        let list = ask(&format!("/v3/users?name=ann&password_expires_at={filter}"), &[]);
        list["users"].as_array().unwrap().len()
    };
    let until = until.as_str().unwrap().replace(".000000Z", "Z");
    let counts = ["eq", "lte", "gte", "neq", "lt", "gt"].map(|how| found(&format!("{how}:{until}")));
    assert_eq!(counts, [1, 1, 1, 0, 0, 0]);
    assert_eq!(found("gt:2026-01-01T00:00:00Z"), 1);
    let wrong = curl(&house.server, "", "/v3/users?password_expires_at=soon", &["--header", &token]);
    assert_eq!(wrong.status, 400);
    assert_eq!(with(json!({ "ignore_password_expiry": true })), Value::Null);
    assert_eq!(found("gt:2026-01-01T00:00:00Z"), 0);
    with(json!({ "ignore_password_expiry": null, "ignore_change_password_upon_first_use": null }));
    assert_eq!(house.whoami("given"), 401);
}
