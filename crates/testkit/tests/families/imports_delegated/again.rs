//! Imports that are repeated: what was deleted or lost its secret here stays so.

use super::*;
use enfilade_admin::keystone as admin;
use enfilade_admin::{regenerate_token, remove_lost_hashes};
use enfilade_testkit::hash_key;

const DELETED: &str = "it was imported before and deleted here since";

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
