//! The Core and Discovery cases of the certification scenario of the AuthZEN Authorization API 1.0 (openid/authzen,
//! `certification/authorization-api-1_0-scenario.md`), as data. The levels "Properties" are left out: they permit something because the asking service
//! says that a user is an administrator, and here only facts count.

use crate::decision_listener::{Asker, Told};
use crate::server::{Scratch, Server};
use serde_json::{Value, json};

/// The fixture of the scenario: alice may read and write `record-1`, bob may read it.
fn fixture() -> (Server, Scratch, Asker) {
    let directory = Scratch::new();
    let socket = directory.path().join("decisions.sock");
    let server = Server::start_with(&[("ENFILADE_DECISIONS__LISTEN", &format!("unix:{}", socket.display()))]);
    server.cli(&["application", "create", "record", "--host", "record.example.com"]);
    for (user, role) in [("alice", "ApplicationUser"), ("bob", "ApplicationReader")] {
        let user = format!("{user}@local");
        server.cli(&["user", "add", &user]);
        server.cli(&["role", "assign", "--path", "/application/record/record-1", "--auth-id", &user, role]);
    }
    let asker = Asker::connect(&socket);
    (server, directory, asker)
}

const ALICE: &str = r#""subject":{"type":"user","id":"alice"}"#;
const BOB: &str = r#""subject":{"type":"user","id":"bob"}"#;
const READ: &str = r#""action":{"name":"read"}"#;
const WRITE: &str = r#""action":{"name":"write"}"#;
const ONE: &str = r#""resource":{"type":"record","id":"record-1"}"#;
const TWO: &str = r#""resource":{"type":"record","id":"record-2"}"#;
const USERS: &str = r#""subject":{"type":"user"}"#;
const RECORDS: &str = r#""resource":{"type":"record"}"#;
const CONTEXT: &str = r#""context":{"time":"2025-06-27T18:03-07:00","ip":"192.168.1.1"}"#;

/// The section of the scenario, the call, the members of the request, and what the response must contain; a number is the status.
const CASES: &[(&str, &str, &[&str], &str)] = &[
    ("2.2.1", "evaluation", &[ALICE, READ, ONE], r#"{"decision":true}"#),
    ("2.2.1 write", "evaluation", &[ALICE, WRITE, ONE], r#"{"decision":true}"#),
    ("2.2.1 bob", "evaluation", &[BOB, READ, ONE], r#"{"decision":true}"#),
    ("2.2.2", "evaluation", &[BOB, WRITE, ONE], r#"{"decision":false}"#),
    ("2.2.3", "evaluation", &[ALICE, READ, ONE, CONTEXT], r#"{"decision":true}"#),
    (
        "2.2.8",
        "evaluation",
        &[
            r#""subject":{"type":"user","id":"alice","properties":{"department":"Sales","role":"manager"}}"#,
            r#""action":{"name":"read","properties":{"method":"GET"}}"#,
            r#""resource":{"type":"record","id":"record-1","properties":{"status":"active","owner":"bob"}}"#,
        ],
        r#"{"decision":true}"#,
    ),
    (
        "2.2.9",
        "evaluation",
        &[ALICE, READ, ONE, r#""foo":"bar","futureField":{"nested":true}"#],
        r#"{"decision":true}"#,
    ),
    ("2.4.1 subject", "evaluation", &[READ, ONE], "400"),
    ("2.4.1 action", "evaluation", &[ALICE, ONE], "400"),
    ("2.4.1 resource", "evaluation", &[ALICE, READ], "400"),
    ("2.4.2 subject type", "evaluation", &[r#""subject":{"id":"alice"}"#, READ, ONE], "400"),
    ("2.4.2 subject id", "evaluation", &[USERS, READ, ONE], "400"),
    ("2.4.2 action name", "evaluation", &[ALICE, r#""action":{}"#, ONE], "400"),
    ("2.4.2 resource type", "evaluation", &[ALICE, READ, r#""resource":{"id":"record-1"}"#], "400"),
    ("2.4.2 resource id", "evaluation", &[ALICE, READ, RECORDS], "400"),
    ("2.4.6 subject", "evaluation", &[r#""subject":"alice""#, READ, ONE], "400"),
    ("2.4.6 action name", "evaluation", &[ALICE, r#""action":{"name":123}"#, ONE], "400"),
    (
        "3.2.1",
        "evaluations",
        &[
            ALICE,
            READ,
            r#""evaluations":[{"resource":{"type":"record","id":"record-1"}},{"resource":{"type":"record","id":"record-2"}}]"#,
        ],
        r#"{"evaluations":[{"decision":true},{"decision":false}]}"#,
    ),
    (
        "3.2.2",
        "evaluations",
        &[BOB, ONE, r#""evaluations":[{"action":{"name":"read"}},{"action":{"name":"write"}}]"#],
        r#"{"evaluations":[{"decision":true},{"decision":false}]}"#,
    ),
    (
        "3.2.5",
        "evaluations",
        &[
            r#""evaluations":[{"subject":{"type":"user","id":"alice"},"action":{"name":"read"},"resource":{"type":"record","id":"record-1"}},
            {"subject":{"type":"user","id":"bob"},"action":{"name":"write"},"resource":{"type":"record","id":"record-1"}}]"#,
        ],
        r#"{"evaluations":[{"decision":true},{"decision":false}]}"#,
    ),
    (
        "3.2.6",
        "evaluations",
        &[
            ALICE,
            READ,
            CONTEXT,
            r#""evaluations":[{"resource":{"type":"record","id":"record-1"}},{"resource":{"type":"record","id":"record-2"},"context":{"source":"x"}}]"#,
        ],
        r#"{"evaluations":[{"decision":true},{"decision":false}]}"#,
    ),
    (
        "3.3 deny on first deny",
        "evaluations",
        &[
            BOB,
            ONE,
            r#""options":{"evaluations_semantic":"deny_on_first_deny"}"#,
            r#""evaluations":[{"action":{"name":"read"}},{"action":{"name":"write"}},{"action":{"name":"read"}}]"#,
        ],
        r#"{"evaluations":[{"decision":true},{"decision":false}]}"#,
    ),
    (
        "3.3 permit on first permit",
        "evaluations",
        &[
            BOB,
            ONE,
            r#""options":{"evaluations_semantic":"permit_on_first_permit"}"#,
            r#""evaluations":[{"action":{"name":"write"}},{"action":{"name":"read"}},{"action":{"name":"write"}}]"#,
        ],
        r#"{"evaluations":[{"decision":false},{"decision":true}]}"#,
    ),
    (
        "3.3 execute all",
        "evaluations",
        &[
            BOB,
            ONE,
            r#""options":{"evaluations_semantic":"execute_all"}"#,
            r#""evaluations":[{"action":{"name":"write"}},{"action":{"name":"read"}}]"#,
        ],
        r#"{"evaluations":[{"decision":false},{"decision":true}]}"#,
    ),
    ("3.4 empty", "evaluations", &[ALICE, READ, ONE, r#""evaluations":[]"#], r#"{"decision":true}"#),
    ("3.4 none", "evaluations", &[ALICE, READ, ONE], r#"{"decision":true}"#),
    (
        "3.4 incomplete",
        "evaluations",
        &[ALICE, r#""evaluations":[{"resource":{"type":"record","id":"record-1"}}]"#],
        r#"{"evaluations":[{"decision":false}]}"#,
    ),
    (
        "4.2.1",
        "search/subject",
        &[USERS, READ, ONE],
        r#"{"results":[{"type":"user","id":"alice"},{"type":"user","id":"bob"}]}"#,
    ),
    (
        "4.2.2",
        "search/subject",
        &[USERS, READ, ONE, CONTEXT],
        r#"{"results":[{"type":"user","id":"alice"},{"type":"user","id":"bob"}]}"#,
    ),
    (
        "4.2.3",
        "search/subject",
        &[ALICE, READ, ONE],
        r#"{"results":[{"type":"user","id":"alice"},{"type":"user","id":"bob"}]}"#,
    ),
    (
        "4.3.1",
        "search/resource",
        &[ALICE, READ, RECORDS],
        r#"{"results":[{"type":"record","id":"record-1"}]}"#,
    ),
    (
        "4.3.2",
        "search/resource",
        &[ALICE, READ, RECORDS, CONTEXT],
        r#"{"results":[{"type":"record","id":"record-1"}]}"#,
    ),
    ("4.3.3", "search/resource", &[ALICE, READ, ONE], r#"{"results":[{"type":"record","id":"record-1"}]}"#),
    ("4.4.1", "search/action", &[ALICE, ONE], r#"{"results":[{"name":"read"},{"name":"write"}]}"#),
    ("4.4.2", "search/action", &[ALICE, ONE, CONTEXT], r#"{"results":[{"name":"read"},{"name":"write"}]}"#),
    ("4.5.1", "search/subject", &[USERS, READ, ONE, r#""page":{"limit":1}"#], r#"{"results":[]}"#),
    (
        "4.6.1",
        "search/action",
        &[r#""subject":{"type":"user","id":"nonexistent-user"}"#, ONE],
        r#"{"results":[],"page":{"next_token":""}}"#,
    ),
    (
        "4.6.1 resource",
        "search/action",
        &[ALICE, r#""resource":{"type":"record","id":"none"}"#],
        r#"{"results":[],"page":{"next_token":""}}"#,
    ),
    (
        "4.6.2",
        "search/subject",
        &[r#""subject":{"type":"spaceship"}"#, READ, ONE],
        r#"{"results":[],"page":{"next_token":""}}"#,
    ),
    (
        "4.6.2 resource",
        "search/resource",
        &[ALICE, READ, r#""resource":{"type":"spaceship"}"#],
        r#"{"results":[],"page":{"next_token":""}}"#,
    ),
    ("4.7.1 subject search", "search/subject", &[USERS, ONE], "400"),
    ("4.7.1 resource search", "search/resource", &[READ, RECORDS], "400"),
    ("4.7.1 action search", "search/action", &[ALICE], "400"),
    ("4.7.2 subject search", "search/subject", &[USERS, READ, RECORDS], "400"),
    ("4.7.2 resource search", "search/resource", &[USERS, READ, RECORDS], "400"),
    ("4.7.2 action search", "search/action", &[USERS, ONE], "400"),
    // Beyond the scenario: a resource by URL, a method as action, and things that nobody knows.
    (
        "url",
        "evaluation",
        &[
            ALICE,
            r#""action":{"name":"POST"}"#,
            r#""resource":{"type":"url","id":"https://record.example.com/record-1?x"}"#,
        ],
        r#"{"decision":true}"#,
    ),
    (
        "url odd path",
        "evaluation",
        &[ALICE, READ, r#""resource":{"type":"url","id":"https://record.example.com/a/../record-1"}"#],
        r#"{"decision":false}"#,
    ),
    ("unknown action", "evaluation", &[ALICE, r#""action":{"name":"fly"}"#, ONE], r#"{"decision":false}"#),
    (
        "unknown subject",
        "evaluation",
        &[r#""subject":{"type":"user","id":"nobody"}"#, READ, ONE],
        r#"{"decision":false}"#,
    ),
    (
        "a claim",
        "evaluation",
        &[r#""subject":{"type":"user","id":"bob","properties":{"role":"admin"}}"#, WRITE, TWO],
        r#"{"decision":false}"#,
    ),
];

/// Whether the response contains everything that is expected: each member of an object, and each element of a list of results.
fn contains(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            expected.iter().all(|(key, value)| found.get(key).is_some_and(|found| contains(found, value)))
        }
        (Value::Array(found), Value::Array(expected)) => match expected.first() {
            Some(first) if first.get("decision").is_some() => {
                found.len() == expected.len()
                    && found.iter().zip(expected).all(|(one, other)| contains(one, other))
            }
            _ => expected.iter().all(|one| found.iter().any(|other| contains(other, one))),
        },
        _ => found == expected,
    }
}

#[test]
fn every_core_case_of_the_scenario_holds() {
    let (_server, _directory, mut asker) = fixture();
    for (section, call, members, expected) in CASES {
        let Told { status, headers, body } = asker.question(call, &format!("{{{}}}", members.join(",")));
        let what = format!("{section}: {status} {body}");
        match expected.parse::<u16>() {
            Ok(expected) => assert_eq!(status, expected, "{what}"),
            Err(_) => {
                assert_eq!((status, headers["content-type"].as_str()), (200, "application/json"), "{what}");
                let (found, expected): (Value, Value) =
                    (serde_json::from_str(&body).unwrap(), serde_json::from_str(expected).unwrap());
                assert!(contains(&found, &expected), "{what}");
                let is_empty = expected["results"].as_array().is_some_and(Vec::is_empty);
                let is_cut = section.starts_with("4.5");
                assert!(!is_empty || is_cut || found["results"] == json!([]), "{what}");
            }
        }
    }
    // 2.4.3 to 2.4.5, and 2.5: content type, malformed and empty bodies, and the id of the request.
    let whole = format!("{{{ALICE},{READ},{ONE}}}");
    for (lines, body, expected) in [
        (&["Content-Type: text/plain"][..], whole.as_str(), 400),
        (&[], &whole, 400),
        (&["Content-Type: application/json"], "{", 400),
        (&["Content-Type: application/json"], "", 400),
        (&["Content-Type: application/json; charset=utf-8"], &whole, 200),
    ] {
        let told = asker.send("POST /access/v1/evaluation", lines, body);
        assert_eq!(told.status, expected, "{lines:?} {body}");
        assert!(!told.headers["x-request-id"].is_empty());
    }
    let lines = ["Content-Type: application/json", "X-Request-ID: bfe9eb29-ab87-4ca3-be83-a1d5d8305716"];
    for _ in 0..3 {
        let told = asker.send("POST /access/v1/evaluation", &lines, &whole);
        assert_eq!(told.headers["x-request-id"], "bfe9eb29-ab87-4ca3-be83-a1d5d8305716");
        assert_eq!(told.body, r#"{"decision":true}"#);
    }
}

#[test]
fn a_search_goes_on_page_by_page() {
    let (_server, _directory, mut asker) = fixture();
    for (call, members, expected) in [
        ("search/subject", [USERS, READ, ONE], vec!["admin", "alice", "bob"]),
        ("search/resource", [ALICE, READ, RECORDS], vec!["record-1"]),
    ] {
        let (mut found, mut token) = (Vec::new(), String::new());
        for _ in 0..10 {
            let page = format!(r#""page":{{"limit":1,"token":"{token}"}}"#);
            let told = asker.question(call, &format!("{{{},{page}}}", members.join(",")));
            let value: Value = serde_json::from_str(&told.body).unwrap();
            found.extend(
                value["results"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()),
            );
            value["page"]["next_token"].as_str().unwrap().clone_into(&mut token);
            if token.is_empty() {
                break;
            }
        }
        found.sort();
        assert_eq!(
            (found, token.as_str()),
            (expected.iter().map(|id| (*id).to_owned()).collect(), ""),
            "{call}"
        );
    }
    let bad = format!(r#"{{{USERS},{READ},{ONE},"page":{{"token":"x"}}}}"#);
    assert_eq!(asker.question("search/subject", &bad).status, 400);
}

/// 6: the metadata of the service.
#[test]
fn the_configuration_names_the_service_that_was_asked() {
    let (_server, _directory, mut asker) = fixture();
    let told = asker.send("GET /.well-known/authzen-configuration", &[], "");
    let value: Value = serde_json::from_str(&told.body).unwrap();
    assert_eq!((told.status, told.headers["content-type"].as_str()), (200, "application/json"));
    assert_eq!(value["policy_decision_point"], "https://pdp.example.com");
    for (key, path) in [
        ("access_evaluation_endpoint", "/access/v1/evaluation"),
        ("access_evaluations_endpoint", "/access/v1/evaluations"),
        ("search_subject_endpoint", "/access/v1/search/subject"),
        ("search_resource_endpoint", "/access/v1/search/resource"),
        ("search_action_endpoint", "/access/v1/search/action"),
    ] {
        assert_eq!(value[key], format!("https://pdp.example.com{path}"));
    }
    // The listener serves nothing else.
    for path in ["/dav/main/", "/v3", "/api2/json/version", "/whoami", "/metrics", "/"] {
        assert_eq!(asker.send(&format!("GET {path}"), &[], "").status, 404, "{path}");
    }
}
