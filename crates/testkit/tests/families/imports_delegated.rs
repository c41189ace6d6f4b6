//! Imports of records that users of a Keystone delegated: application credentials with their secrets, trusts, EC2 keys, OAuth consumers and access
//! tokens.

mod again;

use crate::imports::{DOMAIN, PROJECT, domain, import, is_left, project};
use enfilade_admin::keystone::{CloudCredential, CloudRecord, CloudUser};
use enfilade_facts::limits::COMMENT_BYTES_MAX;
use enfilade_facts::tables::{
    AccessToken, Blob, BlobId, ConfigOption, Consumer, Credential, DomainConfig, Ec2Key, GrantKey,
    GrantScope, Grantee, Member, MembershipKey, NamedRole, Profile, Project, Reverse, ReverseKey,
    SharedSecret, Trust, User, Verifier,
};
use enfilade_facts::vocabulary::{
    AccessTokenId, ConsumerId, CredentialId, DomainId, GroupId, ProjectId, RoleId, Secret, TrustId, UserId,
};
use enfilade_facts::{Read as _, View};
use enfilade_identity::SecretAsk;
use enfilade_testkit::{Remembering, TestHouse, cloud_credential, cloud_trust};

/// The ids of Ann and of the group have the form that Keystone uses for users and groups of LDAP directories.
const ANN: UserId = UserId::from_long([3; 32]);
const BEN: UserId = UserId::from_bytes([4; 16]);
const CREW: GroupId = GroupId::from_long([5; 32]);
/// A role that ann has through a group, and a role that this role implies.
const COOK: RoleId = RoleId::from_bytes([6; 16]);
const WASHER: RoleId = RoleId::from_bytes([7; 16]);
/// A role that ann does not have.
const ADMIN: RoleId = RoleId::from_bytes([8; 16]);
const CREDENTIAL: CredentialId = CredentialId::from_bytes([9; 16]);
const NOBODY: [u8; 16] = [200; 16];

/// A secret of the form that Keystone generates.
fn generated() -> String {
    format!("{}w", "aB3_-".repeat(17))
}

fn role(id: RoleId, name: &str, implies: Vec<RoleId>) -> CloudRecord {
    CloudRecord::Role(id, NamedRole { name: name.to_owned(), domain: None, description: None, implies })
}

fn user(id: UserId, name: &str) -> CloudRecord {
    let user = CloudUser {
        domain: DOMAIN,
        name: name.to_owned(),
        enabled: true,
        comment: None,
        password: None,
        profile: Profile::default(),
        extra: String::new(),
    };
    CloudRecord::User(id, Box::new(user))
}

/// The records of ann and ben. Ann has a role on the project through a group.
fn world() -> Vec<CloudRecord> {
    let scope = GrantScope::Project(PROJECT);
    vec![
        domain(),
        role(COOK, "cook", vec![WASHER]),
        role(WASHER, "washer", Vec::new()),
        role(ADMIN, "admin", Vec::new()),
        project(),
        user(ANN, "ann"),
        user(BEN, "ben"),
        CloudRecord::Group(CREW, DOMAIN, "crew".to_owned(), None),
        CloudRecord::Member(MembershipKey { member: Member::User(ANN), group: CREW }),
        CloudRecord::Grant(GrantKey { who: Grantee::Group(CREW), scope, role: COOK }),
    ]
}

fn credential(verifier: Verifier) -> CloudRecord {
    let row = CloudCredential { verifier, ..cloud_credential(ANN, "ci", PROJECT, vec![COOK]) };
    CloudRecord::Credential(CREDENTIAL, Box::new(row))
}

/// Imports the world and these records, first as a dry run. For each record, checks the beginning of the reason for which the import leaves out the
/// record. Also checks that another import changes nothing.
fn imported(house: &TestHouse, rows: &[(CloudRecord, Option<&str>)]) {
    let before = world();
    let things: Vec<_> =
        before.iter().cloned().chain(rows.iter().map(|(record, _)| record.clone())).collect();
    for pretend in [true, false] {
        let report = import(house, &things, pretend);
        assert!(report[..before.len()].iter().all(|item| item.left_out.is_none()), "{report:?}");
        for ((_, why), item) in rows.iter().zip(&report[before.len()..]) {
            is_left(item, *why);
        }
    }
    let all = |view: &View<'_>| {
        let trusts = view.list::<Trust>(&[]).unwrap();
        let blobs = view.list::<Blob>(&[]).unwrap();
        (trusts, blobs, view.list::<AccessToken>(&[]).unwrap(), view.list::<Reverse>(&[]).unwrap())
    };
    let first = house.facts().read(all).unwrap();
    assert!(import(house, &things, false).iter().all(|item| item.left_out.is_some()));
    assert_eq!(house.facts().read(all).unwrap(), first);
}

fn ask(secret: &str) -> SecretAsk {
    SecretAsk { authid: "ann@cloud!ci".parse().unwrap(), secret: Secret::new(secret.as_bytes()).unwrap() }
}

#[tokio::test]
async fn an_application_credential_works_with_its_secret_and_needs_the_slow_hash_once() {
    let secret = generated();
    let hash = enfilade_identity::hash_generated(&secret, *b"twelve bytes").unwrap();
    let house = TestHouse::new(Remembering::AsServed);
    let with = |verifier: Verifier| [world(), vec![credential(verifier)]].concat();
    let report = import(&house, &with(Verifier::Missing), false);
    let item = report.last().unwrap();
    assert!(item.kind == "application credential" && item.lacks_secret(), "{item:?}");
    assert!(house.come_in(ask(&secret)).await.is_err());

    // A later import with a dump adds the secret. A further import does not add the secret again.
    let things = with(Verifier::Upgrading(hash.clone()));
    for (is_added, kind) in [(true, "secret of application credential"), (false, "application credential")] {
        let report = import(&house, &things, false);
        let item = &report[things.len() - 1];
        assert_eq!((item.left_out.is_none(), item.kind), (is_added, kind), "{report:?}");
    }
    assert!(house.come_in(ask("wrong")).await.is_err());
    assert!(house.upgrades.try_recv().is_err());
    assert!(house.come_in(ask(&secret)).await.is_ok());
    let upgrade = house.upgrades.try_recv().unwrap();
    assert!(enfilade_admin::upgrade_token(&house.change_context(), &upgrade).unwrap());
    let computed = house.house.gate().counts().computed;
    assert!(house.come_in(ask(&secret)).await.is_ok() && house.come_in(ask("wrong")).await.is_err());
    assert_eq!(house.house.gate().counts().computed, computed);
    // No later import restores the slow hash.
    assert!(import(&house, &things, false).iter().all(|item| item.left_out.is_some()));
    let row = house.facts().read(|view| view.get::<Credential>(&CREDENTIAL)).unwrap().unwrap().unwrap();
    assert!(matches!(row.verifier, Verifier::Keyed(_)));

    // In a new store, the credential is imported together with its secret.
    let house = TestHouse::new(Remembering::AsServed);
    let report = import(&house, &things, false);
    assert!(
        report
            .iter()
            .all(|item| item.left_out.is_none() && !(item.name.contains('!') && item.lacks_secret()))
    );
    assert_eq!(report.iter().filter(|item| item.name == "ann@cloud!ci").count(), 2, "{report:?}");
    assert!(house.come_in(ask(&secret)).await.is_ok());
}

#[tokio::test]
async fn a_secret_that_a_person_may_have_chosen_keeps_its_slow_hash() {
    let hash = enfilade_identity::hash_password(&Secret::new(b"correct horse").unwrap()).unwrap();
    let house = TestHouse::new(Remembering::AsServed);
    import(&house, &[world(), vec![credential(Verifier::Upgrading(hash))]].concat(), false);
    assert!(house.come_in(ask("correct horse")).await.is_ok());
    assert!(house.come_in(ask("correct cow")).await.is_err());
    assert!(house.upgrades.try_recv().is_err());
}

/// bcrypt reads only the first 72 bytes of a secret. So a login with a secret that differs only after these bytes must not replace the hash with a
/// hash of the wrong secret.
#[tokio::test]
async fn a_bcrypt_hash_of_a_long_secret_stays() {
    // This hash was made with libxcrypt for `generated()`.
    let hash = "$2b$04$abcdefghijklmnopqrstuuBeZfpqi0T9ln3St.8ZhuL7LJwnT.riW";
    let house = TestHouse::new(Remembering::AsServed);
    import(&house, &[world(), vec![credential(Verifier::Upgrading(hash.to_owned()))]].concat(), false);
    let other = format!("{}A", &generated()[..85]);
    for secret in [other.as_str(), &generated(), &other] {
        assert!(house.come_in(ask(secret)).await.is_ok(), "{secret}");
        assert!(house.upgrades.try_recv().is_err(), "{secret}");
    }
    assert!(house.come_in(ask(&generated()[..71])).await.is_err());
}

fn trust(n: u8, change: impl Fn(&mut Trust)) -> CloudRecord {
    let mut row = cloud_trust(ANN, BEN, PROJECT, vec![COOK]);
    change(&mut row);
    CloudRecord::Trust(TrustId::from_bytes([n; 16]), Box::new(row))
}

#[test]
fn trusts_are_imported_once_as_far_as_they_could_be_created_here() {
    let house = TestHouse::new(Remembering::AsServed);
    let now = house.change_context().now.unix_seconds;
    let id = |n: u8| TrustId::from_bytes([n; 16]);
    let rows = [
        (trust(10, |trust| trust.roles = vec![COOK, WASHER]), None),
        (trust(11, |trust| (trust.uses, trust.impersonation) = (Some(3), false)), None),
        (trust(12, |trust| (trust.redelegations, trust.expires) = (2, now + 100)), None),
        (trust(13, |trust| (trust.parent, trust.redelegations) = (Some(id(12)), 1)), None),
        (trust(14, |trust| trust.roles = vec![ADMIN]), Some("ann@cloud does not have the role admin")),
        (trust(15, |trust| trust.roles = Vec::new()), Some("no role")),
        (trust(16, |trust| trust.trustor = BEN), Some("ben@cloud does not have the role cook")),
        (trust(17, |trust| trust.trustee = UserId::from_bytes(NOBODY)), Some("the trustee")),
        (trust(18, |trust| trust.project = ProjectId::from_bytes(NOBODY)), Some("the project")),
        (trust(19, |trust| trust.expires = now - 1), Some("has expired")),
        (trust(20, |trust| trust.uses = Some(0)), Some("no remaining uses")),
        (trust(21, |trust| trust.redelegations = 4), Some("at most 3 times")),
        (trust(22, |trust| (trust.uses, trust.redelegations) = (Some(1), 1)), Some("not at all")),
        (trust(23, |trust| trust.parent = Some(id(200))), Some("this trust was redelegated from a trust")),
        (trust(24, |trust| trust.parent = Some(id(11))), Some("fewer redelegations")),
        (
            trust(25, |trust| (trust.parent, trust.roles) = (Some(id(12)), vec![WASHER])),
            Some("no additional roles"),
        ),
    ];
    imported(&house, &rows);
    house
        .facts()
        .read(|view| {
            let get = |n: u8| view.get::<Trust>(&id(n)).unwrap();
            assert_eq!(get(11).unwrap().uses, Some(3));
            // A redelegated trust ends no later than the trust from which it comes.
            assert_eq!(get(13).unwrap().expires, now + 100);
            assert!(get(14).is_none());
            let of_ben = view.list::<Reverse>(&ReverseKey::trusts_of(&BEN)).unwrap();
            assert_eq!(of_ben.len(), 4);
        })
        .unwrap();
}

fn blob(n: u8, kind: &str, project: Option<ProjectId>, key: Option<Ec2Key>) -> Blob {
    let blob = format!("{{\"access\": \"{n}\", \"secret\": \"s\"}}");
    Blob { user: ANN, project, kind: kind.to_owned(), blob, ec2: key }
}

#[test]
fn keys_and_other_credentials_are_imported_once() {
    let house = TestHouse::new(Remembering::AsServed);
    let record = |n: u8, blob: &Blob| CloudRecord::Blob(BlobId([n; 32]), Box::new(blob.clone()));
    let key = |by: Option<CredentialId>| Some(Ec2Key { secret: "s".to_owned(), by });
    let plain = blob(1, "ec2", Some(PROJECT), key(None));
    let of_credential = blob(2, "ec2", Some(PROJECT), key(Some(CREDENTIAL)));
    let of_ben = Blob { user: BEN, ..of_credential.clone() };
    let rows = [
        (credential(Verifier::Missing), None),
        (record(1, &plain), None),
        (record(2, &of_credential), None),
        (record(3, &of_ben), Some("the application credential with which the key was made")),
        (
            record(4, &blob(4, "ec2", Some(PROJECT), key(Some(CredentialId::from_bytes(NOBODY))))),
            Some("the application credential with which the key was made"),
        ),
        (record(5, &blob(5, "ec2", None, key(None))), Some("the project of the key")),
        (
            record(6, &blob(6, "ec2", Some(ProjectId::from_bytes(NOBODY)), key(None))),
            Some("the project of the key"),
        ),
        (record(7, &blob(7, "cert", Some(ProjectId::from_bytes(NOBODY)), None)), None),
        (record(8, &Blob { user: UserId::from_bytes(NOBODY), ..plain.clone() }), Some("user does not exist")),
        (record(9, &Blob { blob: "x".repeat(1 << 17), ..plain.clone() }), Some("at most")),
    ];
    imported(&house, &rows);
    house
        .facts()
        .read(|view| {
            let get = |n: u8| view.get::<Blob>(&BlobId([n; 32])).unwrap();
            assert_eq!((get(1), get(2)), (Some(plain), Some(of_credential)));
            assert_eq!(get(7).unwrap().project, None);
            assert_eq!(view.list::<Reverse>(&ReverseKey::blobs_of(&ANN)).unwrap().len(), 3);
        })
        .unwrap();
}

#[test]
fn consumers_access_tokens_and_configurations_are_imported_once() {
    let house = TestHouse::new(Remembering::AsServed);
    let now = house.change_context().now.unix_seconds;
    let secret = SharedSecret::from_random([7; 16]);
    let consumer = ConsumerId::from_bytes([30; 16]);
    let token = |n: u8, change: &dyn Fn(&mut AccessToken)| {
        let mut row = AccessToken {
            consumer,
            secret: secret.clone(),
            user: ANN,
            project: PROJECT,
            roles: vec![COOK],
            expires: now + 100,
        };
        change(&mut row);
        CloudRecord::AccessToken(AccessTokenId::from_bytes([n; 16]), Box::new(row))
    };
    let option = ConfigOption {
        group: "ldap".to_owned(),
        name: "password".to_owned(),
        value: "\"s\"".to_owned(),
        sensitive: true,
    };
    let config = DomainConfig { options: vec![option] };
    let rows = [
        (CloudRecord::Consumer(consumer, Consumer { description: None, secret: secret.clone() }), None),
        (token(40, &|_| {}), None),
        (token(41, &|token| token.consumer = ConsumerId::from_bytes(NOBODY)), Some("the consumer")),
        (token(42, &|token| token.user = BEN), Some("ben@cloud does not have the role cook")),
        (token(43, &|token| token.expires = now), Some("has expired")),
        (token(44, &|token| token.project = ProjectId::from_bytes(NOBODY)), Some("user or project")),
        (CloudRecord::Configuration(DOMAIN, config.clone()), None),
        (CloudRecord::Configuration(DomainId::from_bytes(NOBODY), config), Some("the domain does not exist")),
    ];
    imported(&house, &rows);
    let held = |view: &View<'_>| view.get::<Consumer>(&consumer).unwrap().unwrap().secret;
    assert_eq!(house.facts().read(held).unwrap().text(), secret.text());
}

#[test]
fn texts_that_a_request_could_not_set_are_left_behind() {
    let house = TestHouse::new(Remembering::AsServed);
    let mut things = world();
    for thing in &mut things {
        match thing {
            CloudRecord::Project(_, project) => {
                project.description = Some("x".repeat(COMMENT_BYTES_MAX + 1));
                project.tags = vec!["a/b".to_owned()];
            }
            CloudRecord::User(_, user) => user.comment = Some("two\nlines".to_owned()),
            _ => {}
        }
    }
    let report = import(&house, &things, false);
    let item = |name: &str| report.iter().find(|item| item.name == name).unwrap();
    let differs = item("p@cloud").differs.clone().unwrap();
    assert!(differs.contains("description") && differs.contains("tags"), "{differs}");
    assert!(item("ann@cloud").lacks_secret() && item("ann@cloud").left_out.is_none());
    house
        .facts()
        .read(|view| {
            let project = view.get::<Project>(&PROJECT).unwrap().unwrap();
            assert!(project.description.is_none() && project.tags.is_empty());
            assert_eq!(view.get::<User>(&ANN).unwrap().unwrap().comment, None);
        })
        .unwrap();
}
