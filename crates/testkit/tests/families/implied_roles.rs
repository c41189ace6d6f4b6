//! Role implications, and roles of domains.

use crate::world::{NOBODY, Row, World, none};
use enfilade_admin::keystone::{
    CloudRecord, CloudTerms, add_implication, add_role, define_role, import_cloud, save,
};
use enfilade_admin::keystone::{RecordId, list_named_roles};
use enfilade_admin::{Error, LimitModel};
use enfilade_facts::tables::NamedRole;
use enfilade_facts::vocabulary::{DomainId, RoleId};
use enfilade_testkit::{Remembering, TestHouse};
use serde_json::{Value, json};

#[tokio::test]
#[rustfmt::skip]
async fn implied_roles() {
    let role = |name: &str, domain: Value| json!({ "role": { "name": name, "domain_id": domain } });
    let implies = |prior: &str, implied: &str| -> &'static str {
        format!("/v3/roles/<{prior}>/implies/<{implied}>").leak()
    };
    let one = implies("lead", "help");
    let nobody: &'static str = format!("/v3/roles/<lead>/implies/{NOBODY}").leak();
    let rows: Vec<Row> = vec![
        ("admin", "POST", "/v3/roles -> lead", role("lead", none()), 201, &[]),
        ("admin", "POST", "/v3/roles -> help", role("help", none()), 201, &[]),
        ("admin", "POST", "/v3/roles -> local", role("local", json!("default")), 201, &[]),
        ("admin", "POST", "/v3/roles -> far-one", role("far-one", json!("<elsewhere>")), 201, &[]),
        ("admin", "GET", "/v3/roles?name=admin -> admins", none(), 200, &[]),
        ("admin", "GET", one, none(), 404, &["implied role"]),
        ("admin", "HEAD", one, none(), 404, &[]),
        ("admin", "DELETE", one, none(), 404, &["implied role"]),
        ("member", "PUT", one, none(), 403, &["not authorized"]),
        ("admin", "PUT", nobody, none(), 404, &["role"]),
        ("admin", "PUT", one, none(), 201, &["\"prior_role\":{\"id\":\"<lead>\"", "\"implies\":{\"id\":\"<help>\"", "/v3/roles/<lead>/implies/<help>\""]),
        ("admin", "PUT", one, none(), 409, &["already"]),
        ("admin", "GET", one, none(), 200, &["\"name\":\"lead\"", "\"name\":\"help\""]),
        ("admin", "HEAD", one, none(), 204, &[]),
        ("member", "HEAD", one, none(), 403, &[]),
        ("admin", "GET", "/v3/roles/<lead>/implies", none(), 200, &["\"implies\":[{\"id\":\"<help>\"", "/v3/roles/<lead>/implies\""]),
        ("admin", "GET", "/v3/role_inferences", none(), 200, &["\"implies\":[{\"id\":\"<help>\"", "\"prior_role\":{\"id\":\"<lead>\"", "!\"next\""]),
        ("member", "GET", "/v3/role_inferences", none(), 403, &[]),
        // No role may imply `admin`. Only a role of a domain may imply a role of a domain.
        ("admin", "PUT", implies("lead", "admins"), none(), 403, &["admin"]),
        ("admin", "PUT", implies("lead", "local"), none(), 403, &["domain"]),
        ("admin", "PUT", implies("lead", "lead"), none(), 403, &["itself"]),
        ("admin", "PUT", implies("far-one", "local"), none(), 201, &[]),
        ("admin", "PUT", implies("local", "help"), none(), 201, &[]),
        ("admin", "PUT", implies("admins", "help"), none(), 201, &[]),
        // An implied role may not get the name `admin` either.
        ("admin", "PATCH", "/v3/roles/<local>", json!({ "role": { "name": "admin" } }), 403, &["far-one implies this role"]),
        ("admin", "PATCH", "/v3/roles/<far-one>", json!({ "role": { "name": "admin" } }), 200, &[]),
        ("admin", "PUT", implies("local", "far-one"), none(), 403, &["admin"]),
        ("admin", "DELETE", one, none(), 204, &[]),
        ("admin", "HEAD", one, none(), 404, &[]),
        ("admin", "DELETE", one, none(), 404, &[]),
    ];
    World::new(LimitModel::Flat).await.hold(&rows).await;
}

#[tokio::test]
#[rustfmt::skip]
async fn a_role_of_a_domain_on_a_project() {
    let role = json!({ "role": { "name": "local", "domain_id": "default" } });
    let inherited = "/v3/OS-INHERIT/projects/<far>/users/<member>/roles/<local>/inherited_to_projects";
    let rows: Vec<Row> = vec![
        ("admin", "POST", "/v3/roles -> local", role, 201, &[]),
        ("admin", "PUT", "/v3/projects/<a>/users/<member>/roles/<local>", none(), 204, &[]),
        ("admin", "PUT", "/v3/projects/<far>/users/<member>/roles/<local>", none(), 403, &["different domains"]),
        ("admin", "HEAD", "/v3/projects/<far>/users/<member>/roles/<local>", none(), 404, &[]),
        ("admin", "PUT", inherited, none(), 403, &["different domains"]),
        ("admin", "PUT", "/v3/domains/<elsewhere>/users/<member>/roles/<local>", none(), 204, &[]),
    ];
    World::new(LimitModel::Flat).await.hold(&rows).await;
}

/// The commands and the import follow the API's rules for implied roles.
#[test]
fn commands_and_imports_let_no_role_imply_what_the_api_refuses() {
    let house = TestHouse::new(Remembering::AsServed);
    let ctx = house.change_context();
    let named = |name: &str, domain: Option<DomainId>, implies: Vec<RoleId>| NamedRole {
        name: name.to_owned(),
        domain,
        description: None,
        implies,
    };
    let domain = enfilade_admin::keystone::add_domain(&ctx, &"Default".parse().unwrap(), None).unwrap().0;
    let row = named("local", Some(domain), Vec::new());
    let local = save(&ctx, &RecordId::New, &|_| Ok((row.clone(), String::new()))).unwrap().id;
    let admin = add_role(&ctx, "admin", None).unwrap().0;
    add_role(&ctx, "lead", None).unwrap();
    for implied in [local.to_string(), "admin".to_owned(), "lead".to_owned()] {
        let done = add_implication(&ctx, "lead", &implied);
        assert!(matches!(done, Err(Error::Refused(_))), "{implied}: {done:?}");
    }
    let done = define_role(&ctx, "new", None, &[local.to_string()]);
    assert!(matches!(done, Err(Error::Refused(_))), "{done:?}");

    let id = |n: u8| RoleId::from_bytes([n; 16]);
    let roles = [
        (id(1), named("first", None, vec![admin, local, id(1), id(2), id(3)])),
        (id(2), named("second", None, Vec::new())),
        (id(3), named("third", Some(domain), vec![id(2), local])),
    ];
    let roles: Vec<_> = roles.into_iter().map(|(id, row)| CloudRecord::Role(id, row)).collect();
    import_cloud(&ctx, &roles, CloudTerms::default(), |_| {}).unwrap();
    let all = list_named_roles(house.facts()).unwrap();
    let implied = |of: RoleId| &all.iter().find(|(id, _)| *id == of).unwrap().1.implies;
    assert_eq!((implied(id(1)), implied(id(3))), (&vec![id(2)], &vec![id(2), local]));
}
