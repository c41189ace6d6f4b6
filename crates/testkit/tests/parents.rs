//! A credential, a trust or an EC2 key is not created when its parent record is deleted meanwhile. In these tests another server deletes the parent
//! record after the creation has read it, and before the creation is committed.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_admin::keystone as admin;
use enfilade_admin::{ChangeContext, Error, NewUser, Target};
use enfilade_facts::tables::{Blob, Ec2Key};
use enfilade_facts::vocabulary::{CredentialId, ProjectId, TrustId, UserId, Userid};
use enfilade_facts::{At, Change, CommitError, Source, SourceError, View};
use enfilade_identity::HashKey;
use enfilade_testkit::{Remembering, TestHouse};
use std::sync::Mutex;

type Act<'a> = Box<dyn FnOnce() + Send + 'a>;

/// A store in which another server acts right before the next commit.
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
        if let Some(act) = self.act.lock().unwrap().take() {
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
            owner: self.ann,
            name: name.parse().unwrap(),
            project: self.project,
            roles: vec!["worker".to_owned()],
            unrestricted: true,
            rules: Vec::new(),
            expires_micros: 0,
            by,
            comment: None,
            secret: None,
        };
        admin::create_application_credential(ctx, &HashKey::new(&[42; 32]), &new).map(|(made, ..)| made.id)
    }

    fn trust(
        &self,
        ctx: &ChangeContext<'_>,
        by: Option<CredentialId>,
        parent: Option<TrustId>,
    ) -> Result<TrustId, Error> {
        let new = admin::NewTrust {
            trustor: self.ann,
            trustee: self.bob,
            project: self.project,
            roles: vec!["worker".to_owned()],
            impersonation: true,
            expires: 0,
            uses: None,
            redelegations: if parent.is_some() { 0 } else { 1 },
            parent,
            by,
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
