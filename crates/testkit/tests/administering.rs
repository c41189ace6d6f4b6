//! Administration by the Proxmox API (door 4). The privileges of a user on a path decide which calls are permitted. A user needs no privilege for a
//! call about the user's own record. Lent credentials may make fewer calls.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_access::{AdminAsk, Lending};
use enfilade_admin::keystone::{self as admin, On};
use enfilade_admin::{NewUser, Target, TokenTerms};
use enfilade_facts::Requester;
use enfilade_facts::vocabulary::{Authid, Privileges, RolePath, Secret, Userid};
use enfilade_identity::{Scope, SecretAsk, Wanted};
use enfilade_passage::{KeyRing, Visit};
use enfilade_testkit::{Remembering, TestHouse, hash_key};

const PASSWORD: &str = "correct horse";

fn userid(name: &str) -> Userid {
    format!("{name}@local").parse().unwrap()
}

/// `root` has the role Admin everywhere; `ann` has no role. Each of the two users has a password, the token `test` with all roles, and the tokens
/// `narrow` and `bare` with roles of their own: `narrow` has the role Admin, `bare` has none.
async fn visits() -> (TestHouse, Vec<(&'static str, Visit)>) {
    let mut house = TestHouse::new(Remembering::AsServed);
    let mut logins = Vec::new();
    for (name, logged_in) in
        [("root", ["root", "root!narrow", "root!bare"]), ("ann", ["ann", "ann!narrow", "ann!bare"])]
    {
        let user = userid(name);
        house.add_user(&user, None);
        let ctx = house.change_context();
        enfilade_admin::set_password(&ctx, &user, &Secret::new(PASSWORD.as_bytes()).unwrap()).unwrap();
        let terms = TokenTerms { own_roles: true, ..TokenTerms::default() };
        let [narrow, bare] = ["narrow", "bare"].map(|token| {
            enfilade_admin::create_token(&ctx, &hash_key(), &user, &token.parse().unwrap(), &terms).unwrap()
        });
        house.assign("/", &narrow.tokenid, "Admin");
        logins.push((logged_in[0], Authid::from(user.clone()), PASSWORD.to_owned()));
        logins.push((logged_in[1], narrow.tokenid, narrow.value));
        logins.push((logged_in[2], bare.tokenid, bare.value));
    }
    house.assign("/", &Authid::from(userid("root")), "Admin");
    let mut visits = Vec::new();
    for (name, authid, secret) in logins {
        let secret = Secret::new(secret.as_bytes()).unwrap();
        visits.push((name, house.come_in(SecretAsk { authid, secret }).await.unwrap()));
    }
    for (name, user) in [("root!test", "root"), ("ann!test", "ann")] {
        visits.push((name, house.admit(&Authid::from(userid(user))).await.unwrap()));
    }
    (house, visits)
}

#[tokio::test]
async fn privileges_decide_except_about_the_own_record_and_for_lent_credentials() {
    const ADMINISTRATOR: Option<Requester> = Some(Requester::Administrator);
    const USER: Option<Requester> = Some(Requester::User);
    let modify = Privileges::PERMISSIONS_MODIFY;
    let (_house, mut visits) = visits().await;
    for (who, needed, lending, own, expected) in [
        ("root", modify, Lending::People, None, ADMINISTRATOR),
        ("root", modify, Lending::People, Some("ann"), ADMINISTRATOR),
        ("root", modify, Lending::People, Some("root"), ADMINISTRATOR),
        ("root", Privileges::NONE, Lending::Reads, None, USER),
        ("root!test", modify, Lending::People, None, ADMINISTRATOR),
        // Tokens with roles of their own cannot administer users. For other calls, both the token and its owner need a role with the privilege.
        ("root!narrow", modify, Lending::People, None, None),
        ("root!narrow", modify, Lending::Keys, None, None),
        ("root!narrow", modify, Lending::Manages, None, ADMINISTRATOR),
        ("root!narrow", modify, Lending::Reads, None, ADMINISTRATOR),
        ("root!bare", modify, Lending::Reads, None, None),
        ("root!bare", Privileges::NONE, Lending::Reads, None, USER),
        ("ann", modify, Lending::People, None, None),
        ("ann", modify, Lending::People, Some("root"), None),
        ("ann", modify, Lending::People, Some("ann"), USER),
        ("ann", Privileges::NONE, Lending::People, Some("root"), USER),
        // A token cannot change the record of its owner.
        ("ann!test", modify, Lending::People, Some("ann"), None),
        ("ann!test", Privileges::NONE, Lending::People, None, USER),
        ("ann!narrow", modify, Lending::Manages, None, None),
        ("ann!bare", modify, Lending::Manages, Some("ann"), None),
    ] {
        let (_, visit) = visits.iter_mut().find(|(name, _)| *name == who).unwrap();
        let (path, own) = ("/access/users".parse::<RolePath>().unwrap(), own.map(userid));
        let permit = visit.administer(&AdminAsk { path: &path, needed, lending, own: own.as_ref() });
        let requester = permit.as_ref().ok().map(|permit| permit.requester());
        assert_eq!(requester, expected, "{who} {needed:?} {lending:?} {own:?}: {permit:?}");
        if let Ok(permit) = permit {
            assert_eq!(permit.who().user, userid(who.split('!').next().unwrap()));
        }
    }
}

/// A session for a project has the privileges of its roles in the datastores that are bound to the project. Elsewhere the session may make no call,
/// not even a call that needs no privilege. The user has the role Admin on all paths, which does not count in the session.
#[tokio::test]
async fn a_session_for_a_project_administers_the_datastores_of_the_project_alone() {
    const ADMINISTRATOR: Option<Requester> = Some(Requester::Administrator);
    const USER: Option<Requester> = Some(Requester::User);
    let house = TestHouse::new(Remembering::AsServed);
    house.house.set_keys(Some(KeyRing::new(&[(0, &[7; 32]), (1, &[8; 32])]).unwrap()));
    let (ctx, ann, realm) = (house.change_context(), userid("ann"), "local".parse().unwrap());
    let (project, _) = admin::add_project(&ctx, &realm, "p", None).unwrap();
    enfilade_admin::add_user(&ctx, &NewUser::named(ann.clone())).unwrap();
    enfilade_admin::set_password(&ctx, &ann, &Secret::new(PASSWORD.as_bytes()).unwrap()).unwrap();
    admin::add_role(&ctx, "admin", None).unwrap();
    admin::grant_role(&ctx, &Target::User(ann.clone()), &On::Project(project), "admin").unwrap();
    house.assign("/", &Authid::from(ann.clone()), "Admin");
    for name in ["bound", "other"] {
        house.add_datastore(&name.parse().unwrap());
    }
    admin::bind_datastore(&ctx, &"bound".parse().unwrap(), Some(project)).unwrap();
    // A session that was issued before the password was changed has ended.
    house.clock.advance_seconds(60);
    let secret = Secret::new(PASSWORD.as_bytes()).unwrap();
    let mut visit = house.come_in(SecretAsk { authid: Authid::from(ann.clone()), secret }).await.unwrap();
    let issued = visit.issue(Wanted::Scope(Scope::Project(project))).await.unwrap();
    let mut visit = house.come_in_by(issued.token.as_bytes()).unwrap();
    for (path, needed, expected) in [
        ("/datastore/bound", Privileges::DATASTORE_MODIFY, ADMINISTRATOR),
        ("/datastore/bound", Privileges::NONE, USER),
        ("/datastore/other", Privileges::DATASTORE_MODIFY, None),
        ("/datastore/other", Privileges::NONE, USER),
        ("/access/users", Privileges::PERMISSIONS_MODIFY, None),
        ("/access/users", Privileges::NONE, None),
    ] {
        let path: RolePath = path.parse().unwrap();
        let ask = AdminAsk { path: &path, needed, lending: Lending::Manages, own: Some(&ann) };
        let requester = visit.administer(&ask).ok().map(|permit| permit.requester());
        assert_eq!(requester, expected, "{path} {needed:?}");
    }
}
