//! The dependents of a removed record are deleted later, and then get the revocation mark of the removed record. So a session that was issued after
//! the removal stays valid.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_admin::keystone as admin;
use enfilade_admin::{NewUser, Target};
use enfilade_facts::tables::Domain;
use enfilade_facts::vocabulary::{GroupName, Realm, UserId, Userid};
use enfilade_identity::fernet::frame;
use enfilade_identity::fernet::payload::Audit;
use enfilade_identity::{Claim, Methods, Scope};
use enfilade_passage::KeyRing;
use enfilade_testkit::{Remembering, TestHouse};

fn keys() -> KeyRing {
    KeyRing::new(&[(0, &[7; 32]), (1, &[8; 32])]).unwrap()
}

/// Issues a session of this server. Its issue time is later than every mark.
fn sign_in(house: &TestHouse, user: UserId, own: u8) -> String {
    house.clock.advance_seconds(10);
    let now = house.clock.now().unix_seconds;
    let claim = Claim {
        user,
        methods: Methods::PASSWORD,
        scope: Scope::Unscoped,
        lent: None,
        issued_at: now,
        expires_at: now + 3_600,
        audit: Audit { own: [own; 16], chain: None },
    };
    frame::seal(&keys(), u64::try_from(now).unwrap(), [own; 16], &claim.to_payload()).unwrap()
}

fn stands(house: &TestHouse, token: &str) -> bool {
    house.come_in_by(token.as_bytes()).is_ok()
}

/// Ann is in a group of a domain, and that group is in a group of another domain. The domain of the inner group is removed, and its records are swept
/// in `steps` steps. Then Ann signs in. Finally the outer group is removed, and all dependents are deleted.
#[test]
fn a_group_in_a_removed_group_that_is_gone_itself_ends_nothing_new() {
    for steps in 0..4 {
        let house = TestHouse::new(Remembering::AsServed);
        house.house.set_keys(Some(keys()));
        let ctx = || house.change_context();
        let domains = ["home", "crews"].map(|name| {
            let realm: Realm = name.parse().unwrap();
            let (id, _) = admin::add_domain(&ctx(), &realm, None).unwrap();
            (realm, id)
        });
        let ann: Userid = "ann@home".parse().unwrap();
        let (id, _) = enfilade_admin::add_user(&ctx(), &NewUser::named(ann.clone())).unwrap();
        let [inner, outer] = ["inner@crews", "outer@home"].map(|name| {
            let name: GroupName = name.parse().unwrap();
            enfilade_admin::add_group(&ctx(), &name, None, None, None).unwrap();
            name
        });
        enfilade_admin::add_member(&ctx(), &inner, &Target::User(ann)).unwrap();
        enfilade_admin::add_member(&ctx(), &outer, &Target::Group(inner)).unwrap();
        let before = sign_in(&house, id, 1);
        assert!(stands(&house, &before));
        let [_, (crews, crews_id)] = &domains;
        admin::set_domain(&ctx(), crews, false).unwrap();
        admin::delete::<Domain>(&ctx(), crews_id).unwrap();
        assert!(!stands(&house, &before));
        for _ in 0..steps {
            admin::sweep(&ctx()).unwrap();
        }
        let after = sign_in(&house, id, 2);
        assert!(stands(&house, &after), "after {steps} steps");
        enfilade_admin::remove_group(&ctx(), &outer).unwrap();
        while admin::sweep(&ctx()).unwrap() {}
        assert!(stands(&house, &after), "after {steps} steps, and the outer group");
        assert!(!stands(&house, &before), "after {steps} steps, and the outer group");
    }
}
