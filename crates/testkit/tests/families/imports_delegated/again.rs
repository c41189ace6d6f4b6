//! Repeated imports: a record that was deleted on this server stays deleted, and a secret that was removed on this server stays removed.

use super::*;
use crate::imports::import_with;
use enfilade_admin::Imported;
use enfilade_admin::keystone as admin;
use enfilade_admin::keystone::CloudTerms;
use enfilade_admin::{regenerate_token, remove_lost_hashes, withdraw_from};
use enfilade_facts::tables::{Grant, Group, Membership, Password, Revocation, Revoked};
use enfilade_testkit::hash_key;

const DELETED: &str = "an earlier import added this record, and the record was later deleted, removed or revoked on this server; to import the record again, use --restore-deleted";
const HERE: &str = "the record already exists in this store";
/// The length of a year in seconds.
const YEAR: u64 = 365 * 86_400;
const RESTORED: CloudTerms = CloudTerms { pretend: false, restore_deleted: true };

#[test]
fn what_was_deleted_here_stays_deleted() {
    let house = TestHouse::new(Remembering::AsServed);
    let ctx = house.change_context();
    let secret = SharedSecret::from_random([7; 16]);
    let (consumer, token) = (ConsumerId::from_bytes([30; 16]), AccessTokenId::from_bytes([31; 16]));
    let (key, lent) = (BlobId([32; 32]), TrustId::from_bytes([33; 16]));
    let ec2 = Some(Ec2Key { secret: "s".to_owned(), by: None });
    let blob = blob(1, "ec2", Some(PROJECT), ec2);
    let access_token = AccessToken {
        consumer,
        secret: secret.clone(),
        user: ANN,
        project: PROJECT,
        roles: vec![COOK],
        expires: ctx.now.unix_seconds + 100,
    };
    let delegated = vec![
        credential(Verifier::Missing),
        CloudRecord::Blob(key, Box::new(blob.clone())),
        trust(33, |trust| trust.uses = Some(3)),
        CloudRecord::Consumer(consumer, Consumer { description: None, secret }),
        CloudRecord::AccessToken(token, Box::new(access_token)),
    ];
    let things = [world(), delegated.clone()].concat();
    assert!(import(&house, &things, false).iter().all(|item| item.left_out.is_none()));

    admin::delete_application_credential(&ctx, &ANN, &CREDENTIAL).unwrap();
    admin::delete_blob(&ctx, &key, &blob).unwrap();
    admin::delete_trust(&ctx, &lent).unwrap();
    admin::delete_access_token(&ctx, &ANN, &token).unwrap();
    admin::delete::<Consumer>(&ctx, &consumer).unwrap();
    for pretend in [true, false, false] {
        let report = import(&house, &things, pretend);
        for item in &report[world().len()..] {
            assert_eq!(item.left_out.as_deref(), Some(DELETED), "{item:?}");
        }
    }
    house
        .facts()
        .read(|view| {
            assert!(view.get::<Credential>(&CREDENTIAL).unwrap().is_none());
            assert!(view.get::<Blob>(&key).unwrap().is_none());
            assert!(view.get::<Trust>(&lent).unwrap().is_none());
            assert!(view.get::<AccessToken>(&token).unwrap().is_none());
            assert!(view.get::<Consumer>(&consumer).unwrap().is_none());
        })
        .unwrap();
}

#[test]
fn a_credential_that_had_a_secret_here_gets_none_from_an_import() {
    let hash = enfilade_identity::hash_generated(&generated(), *b"twelve bytes").unwrap();
    let with = |verifier: Verifier| [world(), vec![credential(verifier)]].concat();
    let (owner, name) = ("ann@cloud".parse().unwrap(), "ci".parse().unwrap());
    for had_one in [false, true] {
        let house = TestHouse::new(Remembering::AsServed);
        let ctx = house.change_context();
        import(&house, &with(Verifier::Missing), false);
        if had_one {
            regenerate_token(&ctx, &hash_key(), &owner, &name, 0).unwrap();
            assert_eq!(remove_lost_hashes(&ctx).unwrap().len(), 1);
        }
        let report = import(&house, &with(Verifier::Upgrading(hash.clone())), false);
        let item = &report[world().len()];
        assert_eq!(item.left_out.is_some(), had_one, "{item:?}");
        let row = house.facts().read(|view| view.get::<Credential>(&CREDENTIAL)).unwrap().unwrap().unwrap();
        assert_eq!(row.verifier == Verifier::Missing, had_one);
    }
}

/// The reason for which each record is left out.
fn reasons(report: &[Imported]) -> Vec<Option<&str>> {
    report.iter().map(|item| item.left_out.as_deref()).collect()
}

#[test]
fn users_groups_members_and_roles_that_were_removed_here_stay_removed() {
    let house = TestHouse::new(Remembering::AsServed);
    let ctx = house.change_context();
    let things = world();
    import(&house, &things, false);
    let member = MembershipKey { member: Member::User(ANN), group: CREW };
    let (who, scope) = (Grantee::Group(CREW), GrantScope::Project(PROJECT));
    let grant = GrantKey { who, scope, role: COOK };
    admin::set_grant(&ctx, &grant, false).unwrap();
    admin::set_member(&ctx, &member, false).unwrap();
    enfilade_admin::delete_user(&ctx, &BEN).unwrap();
    admin::delete::<NamedRole>(&ctx, &WASHER).unwrap();
    let expected = things.iter().map(|thing| match thing {
        CloudRecord::Member(_) | CloudRecord::Grant(_) | CloudRecord::User(BEN, _) => Some(DELETED),
        CloudRecord::Role(WASHER, _) => Some(DELETED),
        _ => Some(HERE),
    });
    let expected: Vec<_> = expected.collect();
    for pretend in [true, false, false] {
        assert_eq!(reasons(&import(&house, &things, pretend)), expected);
    }
    // A role that implies the deleted role is imported without this implication.
    let with_chef = [things.clone(), vec![role(RoleId::from_bytes([60; 16]), "chef", vec![WASHER])]].concat();
    let report = import(&house, &with_chef, true);
    let chef = report.last().unwrap();
    assert!(chef.differs.as_ref().is_some_and(|differs| differs.contains("washer")), "{chef:?}");
    // The group is deleted with its members and roles. The members and roles are not imported again, because the group that they belong to does not
    // exist.
    admin::delete::<Group>(&ctx, &CREW).unwrap();
    let report = import(&house, &things, false);
    assert_eq!(report[7].left_out.as_deref(), Some(DELETED), "{report:?}");
    assert!(report[8..].iter().all(|item| item.left_out.as_ref().is_some_and(|why| why.contains("group"))));

    let restored = import_with(&house, &things, RESTORED);
    let added: Vec<_> = restored.iter().filter(|item| item.left_out.is_none()).map(Imported::what).collect();
    assert_eq!(added.len(), 5, "{added:?}");
    house
        .facts()
        .read(|view| {
            assert!(view.get::<User>(&BEN).unwrap().is_some());
            assert!(view.get::<Membership>(&member).unwrap().is_some());
            assert!(view.get::<Grant>(&grant).unwrap().is_some());
        })
        .unwrap();
}

#[test]
fn the_name_of_a_deleted_record_may_belong_to_another_record() {
    let house = TestHouse::new(Remembering::AsServed);
    let ctx = house.change_context();
    let things = world();
    import(&house, &things, false);
    admin::delete::<NamedRole>(&ctx, &WASHER).unwrap();
    admin::add_role(&ctx, "washer", None).unwrap();
    let taken = |restore: bool| admin::taken_names(house.facts(), &things, restore).unwrap();
    assert_eq!(taken(false), [] as [&str; 0]);
    assert_eq!(taken(true), ["role washer"]);
    assert!(import(&house, &things, false).iter().all(|item| item.left_out.is_some()));
}

#[test]
fn a_password_that_was_removed_or_revoked_here_stays_away() {
    let with_password = |id: UserId, name: &str, password: Option<Password>| match user(id, name) {
        CloudRecord::User(id, user) => CloudRecord::User(id, Box::new(CloudUser { password, ..*user })),
        other => other,
    };
    let hash = "$5$rounds=1000$salt$gdEupGonUIiJCMc1vfHpiFjFhRA3Jf3USQ7IYKjZitD".to_owned();
    let things = |ann: bool, ben: bool| {
        let password = |has: bool| has.then(|| Password::of(hash.clone()));
        vec![domain(), with_password(ANN, "ann", password(ann)), with_password(BEN, "ben", password(ben))]
    };
    let house = TestHouse::new(Remembering::AsServed);
    let ctx = house.change_context();
    let passwords = || {
        let has = |view: &View<'_>, id| view.get::<User>(id).unwrap().unwrap().password.is_some();
        house.facts().read(|view| [has(view, &ANN), has(view, &BEN)]).unwrap()
    };
    // Ann is imported with a password, and ben without one.
    import(&house, &things(true, false), false);
    assert_eq!(passwords(), [true, false]);
    withdraw_from(&ctx, &ANN).unwrap();
    admin::revoke(&ctx, &[Revoked::User(BEN)], None, "revoke").unwrap();
    // The mark of the revocation is purged when all sessions that it covers have expired.
    for _ in 0..2 {
        house.clock.advance_seconds(YEAR);
        admin::purge_revocations(&house.change_context(), 0).unwrap();
    }
    let mark = house.facts().read(|view| view.get::<Revocation>(&Revoked::User(BEN))).unwrap().unwrap();
    assert!(mark.is_none());
    for pretend in [true, false, false] {
        let report = import(&house, &things(true, true), pretend);
        let why: Vec<_> = report.iter().filter(|item| item.kind == "password").collect();
        assert_eq!(why.len(), 2, "{report:?}");
        assert_eq!(why[0].left_out.as_deref(), Some(DELETED));
        let why = why[1].left_out.as_ref().unwrap();
        assert!(why.contains("were revoked on this server"), "{why}");
        assert_eq!(passwords(), [false, false]);
    }
    import_with(&house, &things(true, true), RESTORED);
    assert_eq!(passwords(), [true, true]);
}
