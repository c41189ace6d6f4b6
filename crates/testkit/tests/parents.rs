//! A credential, a trust or an EC2 key is not created if its parent record is deleted during the creation. In these tests another server deletes the
//! parent record after the creation has read it, and before the creation is committed.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_admin::keystone as admin;
use enfilade_admin::{ChangeContext, Error, NewUser, Target};
use enfilade_facts::tables::{Blob, BlobId, Ec2Key, NamedRole};
use enfilade_facts::vocabulary::{CredentialId, ProjectId, RoleId, TrustId, UserId, Userid};
use enfilade_facts::{At, Change, CommitError, Read as _, Source, SourceError, View};
use enfilade_testkit::{
    Remembering, TestHouse, cloud_credential, cloud_trust, hash_key, new_application_credential, new_trust,
};
use std::sync::Mutex;

type Act<'a> = Box<dyn FnOnce() + Send + 'a>;

/// A store in which another server makes a change right before the next commit.
struct Meanwhile<'a> {
    facts: &'a dyn Source,
    act: Mutex<Option<Act<'a>>>,
}

impl Source for Meanwhile<'_> {
    fn at(&self) -> At {
        self.facts.at()
    }
    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError> {
        self.facts.with_view(look)
    }
    fn commit(&self, change: &Change) -> Result<At, CommitError> {
        if !change.is_empty()
            && let Some(act) = self.act.lock().unwrap().take()
        {
            act();
        }
        self.facts.commit(change)
    }
}

struct World {
    house: TestHouse,
    ann: UserId,
    bob: UserId,
    project: ProjectId,
}

impl World {
    fn new() -> Self {
        let house = TestHouse::new(Remembering::AsServed);
        let ctx = house.change_context();
        let [ann, bob] = ["ann@local", "bob@local"].map(|name| {
            let name: Userid = name.parse().unwrap();
            enfilade_admin::add_user(&ctx, &NewUser::named(name)).unwrap().0
        });
        let (project, _) = admin::add_project(&ctx, &"local".parse().unwrap(), "site", None).unwrap();
        admin::add_role(&ctx, "worker", None).unwrap();
        let to_ann = Target::User("ann@local".parse().unwrap());
        admin::grant_role(&ctx, &to_ann, &admin::On::Project(project), "worker").unwrap();
        World { house, ann, bob, project }
    }

    fn credential(
        &self,
        ctx: &ChangeContext<'_>,
        name: &str,
        by: Option<CredentialId>,
    ) -> Result<CredentialId, Error> {
        let new = admin::NewApplicationCredential {
            unrestricted: true,
            by,
            ..new_application_credential(self.ann, name, self.project, &["worker"])
        };
        admin::create_application_credential(ctx, &hash_key(), &new).map(|(made, ..)| made.id)
    }

    fn trust(
        &self,
        ctx: &ChangeContext<'_>,
        by: Option<CredentialId>,
        parent: Option<TrustId>,
    ) -> Result<TrustId, Error> {
        let new = admin::NewTrust {
            redelegations: if parent.is_some() { 0 } else { 1 },
            parent,
            by,
            ..new_trust(self.ann, self.bob, self.project, &["worker"])
        };
        admin::create_trust(ctx, &new).map(|(id, ..)| id)
    }

    fn ec2_key(&self, ctx: &ChangeContext<'_>, by: CredentialId) -> Result<(), Error> {
        let ec2 = Some(Ec2Key { secret: "secret".to_owned(), by: Some(by) });
        let (kind, blob) = ("ec2".to_owned(), "{}".to_owned());
        let row = Blob { user: self.ann, project: Some(self.project), kind, blob, ec2 };
        admin::create_blob(ctx, &admin::random_id().unwrap(), &row)
    }
}

type Create = fn(&World, &ChangeContext<'_>, CredentialId, TrustId) -> Result<(), Error>;

const CREATED: [(&str, Create); 4] = [
    ("a credential", |world, ctx, by, _| world.credential(ctx, "child", Some(by)).map(drop)),
    ("a trust", |world, ctx, by, _| world.trust(ctx, Some(by), None).map(drop)),
    ("a trust from a trust", |world, ctx, _, from| world.trust(ctx, None, Some(from)).map(drop)),
    ("an EC2 key", |world, ctx, by, _| world.ec2_key(ctx, by)),
];

#[test]
fn nothing_is_created_from_what_is_deleted_meanwhile() {
    for (what, create) in CREATED {
        for deleted in [false, true] {
            let world = World::new();
            let ctx = world.house.change_context();
            let parent = world.credential(&ctx, "parent", None).unwrap();
            let lent = world.trust(&ctx, None, None).unwrap();
            let delete = || {
                admin::delete_application_credential(&ctx, &world.ann, &parent).unwrap();
                admin::delete_trust(&ctx, &lent).unwrap();
            };
            let act = deleted.then(|| Box::new(delete) as Act<'_>);
            let meanwhile = Meanwhile { facts: ctx.facts, act: Mutex::new(act) };
            let outcome = create(&world, &ChangeContext { facts: &meanwhile, ..ctx }, parent, lent);
            let is_expected = match outcome {
                Ok(()) => !deleted,
                Err(ref why) => deleted && matches!(why, Error::Missing { .. }),
            };
            assert!(is_expected, "{what}, parent deleted: {deleted}: {outcome:?}");
        }
    }
}

/// Records of another cloud: a trust, a credential of type `cert`, an application credential and a role. They refer to bob, or to a role that exists
/// here.
fn imported(world: &World, worker: RoleId) -> [admin::CloudRecord; 4] {
    let trust = cloud_trust(world.ann, world.bob, world.project, vec![worker]);
    let (kind, blob) = ("cert".to_owned(), "{}".to_owned());
    let blob = Blob { user: world.bob, project: None, kind, blob, ec2: None };
    let credential = cloud_credential(world.bob, "ci", world.project, vec![worker]);
    let role = NamedRole { name: "lead".to_owned(), domain: None, description: None, implies: vec![worker] };
    [
        admin::CloudRecord::Trust(TrustId::from_bytes([1; 16]), Box::new(trust)),
        admin::CloudRecord::Blob(BlobId([2; 32]), Box::new(blob)),
        admin::CloudRecord::Credential(CredentialId::from_bytes([3; 16]), Box::new(credential)),
        admin::CloudRecord::Role(RoleId::from_bytes([4; 16]), role),
    ]
}

#[test]
fn nothing_is_imported_for_what_is_deleted_meanwhile() {
    for nth in 0..4 {
        for deleted in [false, true] {
            let world = World::new();
            let ctx = world.house.change_context();
            let bob: Userid = "bob@local".parse().unwrap();
            let project = admin::On::Project(world.project);
            admin::grant_role(&ctx, &Target::User(bob.clone()), &project, "worker").unwrap();
            let other = admin::add_role(&ctx, "other", None).unwrap().0;
            let roles = admin::list_named_roles(ctx.facts).unwrap();
            let worker = roles.iter().find(|(_, role)| role.name == "worker").unwrap().0;
            // `delete` also deletes the role `other`, which the imported role (`nth` is 3) implies. The other records need the role `worker`, so
            // `worker` is not deleted.
            let role = if nth == 3 { other } else { worker };
            let things: Vec<_> = imported(&world, role).into_iter().skip(nth).take(1).collect();
            let delete = || {
                enfilade_admin::remove_user(&ctx, &bob).unwrap();
                admin::remove_named_role(&ctx, "other").unwrap();
            };
            let act = deleted.then(|| Box::new(delete) as Act<'_>);
            let meanwhile = Meanwhile { facts: ctx.facts, act: Mutex::new(act) };
            let report = admin::import_cloud(
                &ChangeContext { facts: &meanwhile, ..ctx },
                &things,
                admin::CloudTerms::default(),
                |_| {},
            )
            .unwrap();
            let whole = report.iter().all(|item| {
                item.left_out.is_none()
                    && item.differs.as_ref().is_none_or(|differs| !differs.contains("implied"))
            });
            assert_eq!(whole, !deleted, "{report:?}");
            let lead = RoleId::from_bytes([4; 16]);
            let lead = ctx.facts.read(|view| view.get::<NamedRole>(&lead)).unwrap().unwrap();
            assert!(lead.is_none_or(|lead| lead.implies.is_empty() == deleted));
        }
    }
}
