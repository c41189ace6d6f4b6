//! Tests of application credentials: the access rules of a credential, which are records of its user, and the microseconds of its expiry time.

use crate::world::{NOBODY, World};
use enfilade_admin::keystone::{CloudRecord, CloudTerms, import_cloud};
use enfilade_admin::{LimitModel, TokenEdit, set_token};
use enfilade_facts::Read;
use enfilade_facts::limits::ACCESS_RULES_OF_USER_MAX;
use enfilade_facts::tables::{AccessRule, AccessRuleKey, Delegation};
use enfilade_facts::vocabulary::{AccessRuleId, CredentialId, UserId, to_rfc3339};
use enfilade_testkit::cloud_credential;
use serde_json::{Value, json};

const RULES: &str = "/v3/users/<member>/access_rules";
const CREDENTIALS: &str = "/v3/users/<member>/application_credentials";

async fn with_token(world: &World, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let mut headers = vec![("x-auth-token", token), ("content-type", "application/json")];
    let body = if body.is_null() { String::new() } else { world.filled(&body.to_string()) };
    if body.is_empty() {
        headers.pop();
    }
    let (status, _, text) = world.ask(&headers, method, &world.filled(path), &body).await;
    (status, serde_json::from_str(&text).unwrap_or_default())
}

async fn call(world: &World, who: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    with_token(world, &world.login(who).await, method, path, body).await
}

/// Creates an application credential of `member` with these attributes.
async fn create(world: &World, name: &str, more: &Value) -> (u16, Value) {
    let mut given = more.clone();
    given["name"] = json!(name);
    let (status, mut answer) =
        call(world, "member", "POST", CREDENTIALS, &json!({ "application_credential": given })).await;
    (status, answer["application_credential"].take())
}

fn get(path: &str) -> Value {
    json!({ "service": "compute", "method": "GET", "path": path })
}

/// Creates a credential with these rules, which must succeed. Returns the id of the credential, and the ids of its rules.
async fn ids(world: &World, name: &str, rules: Value) -> (String, Vec<String>) {
    let (status, made) = create(world, name, &json!({ "access_rules": rules })).await;
    assert_eq!(status, 201, "{made}");
    let id = |row: &Value| row["id"].as_str().unwrap().to_owned();
    (id(&made), made["access_rules"].as_array().unwrap().iter().map(id).collect())
}

async fn listed(world: &World, path: &str) -> Vec<Value> {
    let (status, answer) = call(world, "member", "GET", path, &Value::Null).await;
    assert_eq!(status, 200, "{answer}");
    answer["access_rules"].as_array().unwrap().clone()
}

fn stored(world: &World, user: &str) -> Vec<(AccessRuleKey, AccessRule)> {
    let user: UserId = world.id(user).parse().unwrap();
    world.house.facts().read(|view| view.list(&AccessRuleKey::all_of(&user)).unwrap()).unwrap()
}

#[tokio::test]
async fn a_rule_is_one_record_of_its_user_and_outlives_its_credentials() {
    let world = World::new(LimitModel::Flat).await;
    let (one, of_one) = ids(&world, "one", json!([get("/a"), get("/b"), get("/a")])).await;
    let [a, b] = of_one.as_slice() else { panic!("{of_one:?}") };
    let (two, of_two) = ids(&world, "two", json!([get("/c"), get("/b")])).await;
    let [c, also_b] = of_two.as_slice() else { panic!("{of_two:?}") };
    assert!(b == also_b && a != b && b != c && a != c);
    // A rule can be given by its id. Other attributes of the same object are ignored.
    let by_id = json!([{ "id": a }, { "id": a, "path": "/other" }, get("/a")]);
    let (three, of_three) = ids(&world, "three", by_id).await;
    assert_eq!(of_three, std::slice::from_ref(a));
    // The creation of a credential writes its rules again, even if the rules exist already. So if another request prepared the deletion of such a
    // rule before it could see the credential, the deletion is not committed.
    let newest = world.house.facts().at().revision;
    let (key, _) = stored(&world, "member").into_iter().find(|(_, rule)| rule.path == "/a").unwrap();
    let written = world.house.facts().read(|view| view.revision_of::<AccessRule>(&key).unwrap()).unwrap();
    assert_eq!(written, Some(newest));

    let all = listed(&world, RULES).await;
    assert_eq!(all.len(), 3);
    for row in &all {
        let path = format!("{RULES}/{}", row["id"].as_str().unwrap());
        assert_eq!(row["links"]["self"], world.filled(&format!("https://here{path}")));
        let expected = (200, json!({ "access_rule": row }));
        assert_eq!(call(&world, "member", "GET", &path, &Value::Null).await, expected);
    }
    let only_b = listed(&world, &format!("{RULES}?path=/b&method=GET")).await;
    assert_eq!((only_b.len(), &only_b[0]["id"]), (1, &json!(b)));

    let rule_a = format!("{RULES}/{a}");
    let (status, answer) = call(&world, "member", "DELETE", &rule_a, &Value::Null).await;
    assert!(status == 403 && answer.to_string().contains("uses this access rule"), "{answer}");
    for id in [one, three] {
        let path = format!("{CREDENTIALS}/{id}");
        assert_eq!(call(&world, "member", "DELETE", &path, &Value::Null).await.0, 204);
    }
    assert_eq!(listed(&world, RULES).await, all);
    for (who, path, expected) in [
        ("other", rule_a.clone(), 403),
        ("other", format!("{RULES}/{NOBODY}"), 403),
        ("member", format!("{RULES}/{b}"), 403),
        ("member", rule_a.clone(), 204),
        ("member", rule_a.clone(), 404),
        ("member", format!("{RULES}/no-rule"), 404),
    ] {
        assert_eq!(call(&world, who, "DELETE", &path, &Value::Null).await.0, expected, "{who} {path}");
    }
    assert_eq!(call(&world, "member", "GET", &rule_a, &Value::Null).await.0, 404);
    assert_eq!(create(&world, "late", &json!({ "access_rules": [{ "id": a }] })).await.0, 404);
    assert_eq!(call(&world, "member", "DELETE", &format!("{CREDENTIALS}/{two}"), &Value::Null).await.0, 204);
    // As in Keystone, the role admin on a project gives no access to the access rules of other users.
    for (who, expected) in [("admin", 403), ("member", 204)] {
        assert_eq!(
            call(&world, who, "DELETE", &format!("{RULES}/{b}"), &Value::Null).await.0,
            expected,
            "{who}"
        );
    }
    // After the deletion, a new rule for the same request gets another id.
    assert_ne!(ids(&world, "again", json!([get("/a")])).await.1, std::slice::from_ref(a));
}

#[tokio::test]
async fn a_rule_is_named_by_its_user_only_and_goes_with_the_user() {
    let world = World::new(LimitModel::Flat).await;
    let path = "/v3/users/<other>/application_credentials";
    let body = json!({ "application_credential": { "name": "theirs", "access_rules": [get("/a")] } });
    let (status, theirs) = call(&world, "other", "POST", path, &body).await;
    assert_eq!(status, 201, "{theirs}");
    let theirs = &theirs["application_credential"]["access_rules"][0]["id"];
    for (rules, expected) in [
        (json!([{ "id": theirs }]), 404),
        (json!([{ "id": NOBODY }]), 404),
        (json!([{ "id": "no-rule" }]), 404),
        (json!([{ "id": 7 }]), 400),
        (json!([{ "id": null }]), 400),
        (json!([{}]), 400),
        (json!(["x"]), 400),
        // A credential without rules would be valid for every request.
        (json!("x"), 400),
        (json!({}), 400),
        (json!([{ "service": "compute", "method": "LOCK", "path": "/a" }]), 400),
        (json!([get("a")]), 400),
    ] {
        let (status, answer) = create(&world, "wrong", &json!({ "access_rules": rules })).await;
        assert_eq!(status, expected, "{rules}: {answer}");
    }
    assert_eq!(stored(&world, "member"), []);
    let (_, mine) = ids(&world, "mine", json!([get("/a")])).await;
    assert_ne!(mine[0], theirs.as_str().unwrap());
    let path = format!("{RULES}/{}", theirs.as_str().unwrap());
    assert_eq!(call(&world, "member", "GET", &path, &Value::Null).await.0, 404);

    assert_eq!(call(&world, "admin", "DELETE", "/v3/users/<member>", &Value::Null).await.0, 204);
    assert_eq!((stored(&world, "member").len(), stored(&world, "other").len()), (0, 1));
}

#[tokio::test]
async fn a_session_of_a_credential_deletes_no_rule() {
    let world = World::new(LimitModel::Flat).await;
    let rules = json!({ "access_rules": [get("/a")] });
    let (_, ruled) = create(&world, "ruled", &rules).await;
    let (_, free) = create(&world, "free", &json!({ "unrestricted": true })).await;
    let rule = format!("{RULES}/{}", ruled["access_rules"][0]["id"].as_str().unwrap());
    let path = format!("{CREDENTIALS}/{}", ruled["id"].as_str().unwrap());
    assert_eq!(call(&world, "member", "DELETE", &path, &Value::Null).await.0, 204);
    let login = json!({ "id": free["id"], "secret": free["secret"] });
    let identity = json!({ "methods": ["application_credential"], "application_credential": login });
    let body = json!({ "auth": { "identity": identity } }).to_string();
    let headers = [("content-type", "application/json")];
    let (status, answered, text) = world.ask(&headers, "POST", "/v3/auth/tokens", &body).await;
    assert_eq!(status, 201, "{text}");
    let token = answered["x-subject-token"].to_str().unwrap();
    assert_eq!(with_token(&world, token, "GET", &rule, &Value::Null).await.0, 200);
    assert_eq!(with_token(&world, token, "DELETE", &rule, &Value::Null).await.0, 403);
    assert_eq!(call(&world, "member", "DELETE", &rule, &Value::Null).await.0, 204);
}

#[tokio::test]
async fn a_user_has_a_limited_number_of_rules() {
    let world = World::new(LimitModel::Flat).await;
    let mut many: Vec<Value> = (0..=ACCESS_RULES_OF_USER_MAX).map(|n| get(&format!("/{n}"))).collect();
    let body = json!({ "application_credential": { "name": "over", "access_rules": many } });
    let (status, answer) = call(&world, "member", "POST", CREDENTIALS, &body).await;
    let why = format!("at most {ACCESS_RULES_OF_USER_MAX} access rules");
    assert!(status == 403 && answer.to_string().contains(&why), "{answer}");
    assert_eq!(stored(&world, "member"), []);
    many.pop();
    let (status, _) = create(&world, "many", &json!({ "access_rules": many })).await;
    assert_eq!((status, stored(&world, "member").len()), (201, ACCESS_RULES_OF_USER_MAX));
    let (status, answer) = create(&world, "more", &json!({ "access_rules": [get("/0"), get("/new")] })).await;
    assert!(status == 403 && answer == Value::Null, "{status} {answer}");
    assert_eq!(create(&world, "same", &json!({ "access_rules": [get("/0")] })).await.0, 201);
}

/// Rules of Keystone keep their ids, unless the user has the same rule here.
#[tokio::test]
async fn imported_credentials_have_rules_of_their_user() {
    let world = World::new(LimitModel::Flat).await;
    let (_, here) = ids(&world, "here", json!([get("/b")])).await;
    let rule = |n: u8, path: &str| AccessRule {
        id: AccessRuleId::from_bytes([n; 16]),
        service: "compute".to_owned(),
        method: "GET".to_owned(),
        path: path.to_owned(),
    };
    let credential = |n: u8, rules: Vec<AccessRule>| {
        let (owner, project) = (world.id("member").parse().unwrap(), world.id("a").parse().unwrap());
        let mut row = cloud_credential(owner, &format!("c{n}"), project, Vec::new());
        row.delegation.rules = rules;
        CloudRecord::Credential(CredentialId::from_bytes([n; 16]), Box::new(row))
    };
    let things = [credential(1, vec![rule(51, "/a")]), credential(2, vec![rule(51, "/a"), rule(52, "/b")])];
    let report = import_cloud(&world.house.change_context(), &things, CloudTerms::default(), |_| {}).unwrap();
    assert!(report.iter().all(|one| one.left_out.is_none()), "{report:?}");
    let [a, b] = [rule(51, "/a"), AccessRule { id: here[0].parse().unwrap(), ..rule(0, "/b") }];
    let mut rules: Vec<AccessRule> = stored(&world, "member").into_iter().map(|(_, rule)| rule).collect();
    rules.sort_by(|one, other| one.path.cmp(&other.path));
    assert_eq!(rules, [a.clone(), b.clone()]);
    let second = CredentialId::from_bytes([2; 16]);
    let copies = world.house.facts().read(|view| view.get::<Delegation>(&second).unwrap()).unwrap();
    assert_eq!(copies.unwrap().rules, [a.clone(), b]);

    let path = format!("{RULES}/{}", a.id);
    assert_eq!(call(&world, "member", "DELETE", &path, &Value::Null).await.0, 403);
    for n in [1, 2] {
        let path = format!("{CREDENTIALS}/{}", CredentialId::from_bytes([n; 16]));
        assert_eq!(call(&world, "member", "DELETE", &path, &Value::Null).await.0, 204);
    }
    assert_eq!(call(&world, "member", "DELETE", &path, &Value::Null).await.0, 204);
}

#[tokio::test]
async fn a_credential_shows_the_microseconds_of_its_expiry_and_ends_no_later() {
    let world = World::new(LimitModel::Flat).await;
    let now = world.house.clock.now().unix_seconds;
    let at = |seconds: i64| to_rfc3339(now + seconds).trim_end_matches('Z').to_owned();
    let mut exact = Value::Null;
    for (name, given, shown) in [
        ("exact", format!("{}.123456", at(100)), format!("{}.123456", at(100))),
        ("longer", format!("{}.9999999Z", at(100)), format!("{}.999999", at(100))),
        ("short", format!("{}.5Z", at(100)), format!("{}.500000", at(100))),
        ("whole", format!("{}Z", at(100)), format!("{}.000000", at(100))),
    ] {
        let (status, made) = create(&world, name, &json!({ "expires_at": given })).await;
        assert_eq!((status, &made["expires_at"]), (201, &json!(shown)), "{made}");
        let path = format!("{CREDENTIALS}/{}", made["id"].as_str().unwrap());
        let (_, read) = call(&world, "member", "GET", &path, &Value::Null).await;
        assert_eq!(read["application_credential"]["expires_at"], shown);
        if name == "exact" {
            exact = made;
        }
    }
    // The credential would expire at once.
    assert_eq!(create(&world, "now", &json!({ "expires_at": format!("{}.9", at(0)) })).await.0, 400);

    let login = json!({ "id": exact["id"], "secret": exact["secret"] });
    let identity = json!({ "methods": ["application_credential"], "application_credential": login });
    let body = json!({ "auth": { "identity": identity } }).to_string();
    let headers = [("content-type", "application/json")];
    world.house.clock.advance_seconds(99);
    assert_eq!(world.ask(&headers, "POST", "/v3/auth/tokens", &body).await.0, 201);
    world.house.clock.advance_seconds(1);
    assert_eq!(world.ask(&headers, "POST", "/v3/auth/tokens", &body).await.0, 401);

    // The microseconds belong to the expiry time in the request. If the expiry time of the credential is changed later, the new time has no
    // microseconds.
    let edit = TokenEdit { expires: Some(now + 200), ..TokenEdit::default() };
    let ctx = world.house.change_context();
    set_token(&ctx, &"member@Default".parse().unwrap(), &"exact".parse().unwrap(), &edit).unwrap();
    let path = format!("{CREDENTIALS}/{}", exact["id"].as_str().unwrap());
    let (_, read) = call(&world, "member", "GET", &path, &Value::Null).await;
    assert_eq!(read["application_credential"]["expires_at"], format!("{}.000000", at(200)));
}
