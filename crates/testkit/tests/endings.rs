//! Makes each change that ends sessions, in a separate world. Sessions that depend on the changed record end with the commit, and stay ended when the
//! change is undone. A session that is issued after the change was undone has all roles again.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use enfilade_admin::keystone::{self as admin, NewTrust, On, ProjectEdit};
use enfilade_admin::{NewUser, Target, TokenEdit, TokenTerms, UserEdit};
use enfilade_facts::limits::CLOCK_SKEW_SECONDS;
use enfilade_facts::tables::{
    AccessToken, Blob, BlobId, Consumer, Domain, ENDINGS, Ec2Key, Name, NameKey, Project, Reverse,
    ReverseKey, Revoked, SharedSecret, Trust,
};
use enfilade_facts::vocabulary::{
    AccessTokenId, ConsumerId, CredentialId, DomainId, GroupName, ProjectId, Realm, Secret, TrustId, UserId,
    Userid,
};
use enfilade_facts::{AuditRecord, Change, MemoSeed, Read as _, View};
use enfilade_identity::fernet::frame;
use enfilade_identity::fernet::payload::Audit;
use enfilade_identity::{
    Claim, Context, IdentityMemo, Lent, Methods, Scope, SessionState, chain_of, check_session,
};
use enfilade_passage::KeyRing;
use enfilade_testkit::{Remembering, TestHouse, hash_key, new_application_credential, new_trust};

const KEY: BlobId = BlobId([9; 32]);
const CONSUMER: ConsumerId = ConsumerId::from_bytes([10; 16]);
const ACCESS: AccessTokenId = AccessTokenId::from_bytes([11; 16]);

/// Ann has two roles on a project of her domain: `own` directly, and `given` through a group in a group. `given` implies `implied`.
struct World {
    house: TestHouse,
    ann: (Userid, UserId),
    bea: UserId,
    domain: (Realm, DomainId),
    groups: [GroupName; 2],
    project: ProjectId,
    credential: CredentialId,
    trust: TrustId,
}

fn keys() -> KeyRing {
    KeyRing::new(&[(0, &[7; 32]), (1, &[8; 32])]).unwrap()
}

impl World {
    fn new() -> Self {
        let house = TestHouse::new(Remembering::AsServed);
        house.house.set_keys(Some(keys()));
        let ctx = house.change_context();
        let domains = ["tenant", "crews"].map(|name| {
            let realm: Realm = name.parse().unwrap();
            let (id, _) = admin::add_domain(&ctx, &realm, None).unwrap();
            (realm, id)
        });
        let user = |name: &str| {
            let userid: Userid = format!("{name}@tenant").parse().unwrap();
            let (id, _) = enfilade_admin::add_user(&ctx, &NewUser::named(userid.clone())).unwrap();
            (userid, id)
        };
        let (ann, (_, bea)) = (user("ann"), user("bea"));
        for role in ["own", "given", "implied"] {
            admin::add_role(&ctx, role, None).unwrap();
        }
        admin::add_implication(&ctx, "given", "implied").unwrap();
        let (project, _) = admin::add_project(&ctx, &domains[0].0, "p", None).unwrap();
        let groups: [GroupName; 2] = ["inner@tenant", "outer@crews"].map(|name| {
            let name: GroupName = name.parse().unwrap();
            enfilade_admin::add_group(&ctx, &name, None, None, None).unwrap();
            name
        });
        let (who, [inner, outer]) = (Target::User(ann.0.clone()), groups.clone().map(Target::Group));
        enfilade_admin::add_member(&ctx, &groups[0], &who).unwrap();
        enfilade_admin::add_member(&ctx, &groups[1], &inner).unwrap();
        admin::grant_role(&ctx, &who, &On::Project(project), "own").unwrap();
        admin::grant_role(&ctx, &outer, &On::Project(project), "given").unwrap();
        let new = new_application_credential(ann.1, "c", project, &["own"]);
        let (made, ..) = admin::create_application_credential(&ctx, &hash_key(), &new).unwrap();
        let new = NewTrust { impersonation: false, ..new_trust(ann.1, bea, project, &["own"]) };
        let (trust, ..) = admin::create_trust(&ctx, &new).unwrap();
        admin::create_blob(&ctx, &KEY, &blob(ann.1, project, "secret")).unwrap();
        add_access(&house, ann.1, project);
        let [domain, _] = domains;
        World { ann, bea, domain, groups, project, credential: made.id, trust, house }
    }

    /// Issues a session of the kind `what`, with an audit id of 16 bytes `own`. Returns the token of the session.
    fn session(&self, what: &str, own: u8) -> String {
        self.seal(&self.claim(what, own))
    }

    fn seal(&self, claim: &Claim) -> String {
        let issued_at = u64::try_from(claim.issued_at).unwrap();
        frame::seal(&keys(), issued_at, claim.audit.own, &claim.to_payload()).unwrap()
    }

    fn claim(&self, what: &str, own: u8) -> Claim {
        let (mut user, mut methods, mut lent, mut chain) = (self.ann.1, Methods::PASSWORD, None, None);
        match what {
            "by a credential" => {
                (methods, lent) = (Methods::APPLICATION_CREDENTIAL, Some(Lent::Credential(self.credential)));
            }
            "by a trust" => (user, lent) = (self.bea, Some(Lent::Trust(self.trust))),
            "by an access token" => (methods, lent) = (Methods::OAUTH1, Some(Lent::AccessToken(ACCESS))),
            "by a key" => (methods, chain) = (Methods::EC2_KEY, Some(chain_of(&KEY))),
            _ => {}
        }
        let now = self.house.clock.now().unix_seconds;
        Claim {
            user,
            methods,
            scope: Scope::Project(self.project),
            lent,
            issued_at: now,
            expires_at: now + 3_600,
            audit: Audit { own: [own; 16], chain },
        }
    }

    /// The roles of a session. They are empty if the session has ended.
    fn roles(&self, token: &str) -> Vec<String> {
        let Ok(visit) = self.house.come_in_by(token.as_bytes()) else { return Vec::new() };
        visit.identity().session().unwrap().roles.iter().map(|role| role.name.clone()).collect()
    }

    fn ann(&self) -> Target {
        Target::User(self.ann.0.clone())
    }

    fn role(&self, name: &str) -> enfilade_facts::vocabulary::RoleId {
        let roles = admin::list_named_roles(self.house.facts()).unwrap();
        roles.into_iter().find(|(_, row)| row.name == name).unwrap().0
    }

    fn enable_user(&self, enabled: bool) {
        let edit = UserEdit { enabled: Some(enabled), ..UserEdit::default() };
        enfilade_admin::set_user(&self.house.change_context(), &self.ann.0, &edit).unwrap();
    }

    fn expire_user(&self, expires: i64) {
        let edit = UserEdit { expires: Some(expires), ..UserEdit::default() };
        enfilade_admin::set_user(&self.house.change_context(), &self.ann.0, &edit).unwrap();
    }

    fn set_credential(&self, edit: &TokenEdit) {
        enfilade_admin::set_token(&self.house.change_context(), &self.ann.0, &"c".parse().unwrap(), edit)
            .unwrap();
    }

    fn regenerate(&self, grace: i64) {
        let key = hash_key();
        let name = "c".parse().unwrap();
        enfilade_admin::regenerate_token(&self.house.change_context(), &key, &self.ann.0, &name, grace)
            .unwrap();
    }

    fn revoke(&self, mark: Revoked) {
        admin::revoke(&self.house.change_context(), &[mark], None, "a test").unwrap();
    }
}

/// Adds an access token with which a consumer acts for the user, with the role `own`.
fn add_access(house: &TestHouse, user: UserId, project: ProjectId) {
    let roles = admin::list_named_roles(house.facts()).unwrap();
    let roles = roles.into_iter().filter(|(_, row)| row.name == "own").map(|(id, _)| id).collect();
    let secret = SharedSecret::from_random([12; 16]);
    let row =
        AccessToken { consumer: CONSUMER, secret: secret.clone(), user, project, roles, expires: i64::MAX };
    let record = AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 0, request: None };
    let mut change = Change::new(record);
    change.put(&CONSUMER, &Consumer { description: None, secret }).put(&ACCESS, &row);
    for key in [
        ReverseKey::AccessBy(CONSUMER, ACCESS),
        ReverseKey::AccessOf(user, ACCESS),
        ReverseKey::AccessFor(project, ACCESS),
    ] {
        change.put(&key, &Reverse);
    }
    house.facts().commit(&change).unwrap();
}

fn blob(user: UserId, project: ProjectId, secret: &str) -> Blob {
    let ec2 = Some(Ec2Key { secret: secret.into(), by: None });
    Blob { user, project: Some(project), kind: "ec2".into(), blob: "{}".into(), ec2 }
}

/// The kind of session that the change ends, the roles of the session after the change, and a function that undoes the change, if the change can be
/// undone.
type Taken = (&'static str, &'static [&'static str], Option<Box<dyn Fn(&World)>>);

fn take(what: &str, world: &World) -> Taken {
    let ctx = world.house.change_context();
    let undo = |undo: fn(&World)| Some(Box::new(undo) as Box<dyn Fn(&World)>);
    let [inner, outer] = world.groups.clone();
    let on = On::Project(world.project);
    match what {
        "a user is disabled" => {
            world.enable_user(false);
            ("in person", &[], undo(|world| world.enable_user(true)))
        }
        "a user is deleted" => {
            enfilade_admin::remove_user(&ctx, &world.ann.0).unwrap();
            ("in person", &[], None)
        }
        "a user gets another password" => {
            for password in ["one", "another"] {
                let password = Secret::new(password.as_bytes()).unwrap();
                enfilade_admin::set_password(&ctx, &world.ann.0, &password).unwrap();
            }
            ("in person", &[], undo(|_| {}))
        }
        "a user confirms a second factor in the console" => {
            let (key, now) = (hash_key(), world.house.clock.now().unix_seconds);
            let secret = enfilade_admin::begin_second_factor(&ctx, &key, &world.ann.1).unwrap();
            let code = enfilade_testkit::authenticator::code_at(&secret.base32(), now);
            let code = Secret::new(code.as_bytes()).unwrap();
            enfilade_admin::confirm_second_factor(&ctx, &key, &world.ann.1, &code).unwrap();
            ("in person", &[], undo(|_| {}))
        }
        "an expired user gets a later expiry date" => {
            world.expire_user(1);
            ("in person", &[], undo(|world| world.expire_user(0)))
        }
        "a user is removed from a group" => {
            enfilade_admin::remove_member(&ctx, &inner, &world.ann()).unwrap();
            let back = |world: &World| {
                enfilade_admin::add_member(&world.house.change_context(), &world.groups[0], &world.ann())
                    .unwrap();
            };
            ("in person", &[], undo(back))
        }
        "a group is removed from another group" => {
            enfilade_admin::remove_member(&ctx, &outer, &Target::Group(inner)).unwrap();
            let back = |world: &World| {
                let inner = Target::Group(world.groups[0].clone());
                enfilade_admin::add_member(&world.house.change_context(), &world.groups[1], &inner).unwrap();
            };
            ("in person", &[], undo(back))
        }
        "a group is deleted" => {
            enfilade_admin::remove_group(&ctx, &outer).unwrap();
            // A deleted group cannot be restored, so the user gets the role directly.
            let back = |world: &World| {
                let on = On::Project(world.project);
                admin::grant_role(&world.house.change_context(), &world.ann(), &on, "given").unwrap();
            };
            ("in person", &[], undo(back))
        }
        "a role is taken from a user" => {
            admin::take_role(&ctx, &world.ann(), &on, "own").unwrap();
            let back = |world: &World| {
                let on = On::Project(world.project);
                admin::grant_role(&world.house.change_context(), &world.ann(), &on, "own").unwrap();
            };
            ("in person", &[], undo(back))
        }
        "a role is taken from a group" => {
            admin::take_role(&ctx, &Target::Group(outer), &on, "given").unwrap();
            let back = |world: &World| {
                let (on, group) = (On::Project(world.project), Target::Group(world.groups[1].clone()));
                admin::grant_role(&world.house.change_context(), &group, &on, "given").unwrap();
            };
            ("in person", &[], undo(back))
        }
        "an implied role is removed from a role" => {
            admin::set_implied(&ctx, &world.role("given"), &world.role("implied"), false).unwrap();
            let back = |world: &World| {
                let (role, implied) = (world.role("given"), world.role("implied"));
                assert!(admin::set_implied(&world.house.change_context(), &role, &implied, true).unwrap());
            };
            ("in person", &[], undo(back))
        }
        "a role is deleted" => {
            admin::remove_named_role(&ctx, "given").unwrap();
            ("in person", &[], None)
        }
        "a project is disabled" => {
            let set = |world: &World, enabled| {
                let edit = ProjectEdit { enabled: Some(enabled), ..ProjectEdit::default() };
                admin::set_project(&world.house.change_context(), &world.project, &edit).unwrap();
            };
            set(world, false);
            ("in person", &[], Some(Box::new(move |world| set(world, true))))
        }
        "a project is deleted" => {
            admin::delete::<Project>(&ctx, &world.project).unwrap();
            ("in person", &[], None)
        }
        "a domain is disabled" => {
            admin::set_domain(&ctx, &"crews".parse().unwrap(), false).unwrap();
            let back = |world: &World| {
                admin::set_domain(&world.house.change_context(), &"crews".parse().unwrap(), true).unwrap();
            };
            ("in person", &[], undo(back))
        }
        "a domain is deleted" => {
            admin::set_domain(&ctx, &world.domain.0, false).unwrap();
            // The records in the deleted domain still exist, but do not count any more.
            admin::delete::<Domain>(&ctx, &world.domain.1).unwrap();
            ("in person", &[], None)
        }
        "the secret of an application credential is replaced" => {
            world.regenerate(0);
            ("by a credential", &[], undo(|_| {}))
        }
        "the grace period of the old secret of an application credential ends" => {
            world.regenerate(60);
            world.set_credential(&TokenEdit { end_grace: true, ..TokenEdit::default() });
            ("by a credential", &[], undo(|_| {}))
        }
        "an application credential is disabled" => {
            world.set_credential(&TokenEdit { enabled: Some(false), ..TokenEdit::default() });
            let edit = || TokenEdit { enabled: Some(true), ..TokenEdit::default() };
            ("by a credential", &[], Some(Box::new(move |world| world.set_credential(&edit()))))
        }
        "an application credential is deleted" => {
            admin::delete_application_credential(&ctx, &world.ann.1, &world.credential).unwrap();
            ("by a credential", &[], None)
        }
        "a trust is deleted" => {
            admin::delete_trust(&ctx, &world.trust).unwrap();
            ("by a trust", &[], None)
        }
        "an EC2 key is deleted, or gets another secret" => {
            let [before, after] = ["secret", "next"].map(|secret| blob(world.ann.1, world.project, secret));
            admin::update_blob(&ctx, &KEY, &before, &after).unwrap();
            ("by a key", &[], undo(|_| {}))
        }
        "an OAuth access token is deleted" => {
            admin::delete_access_token(&ctx, &world.ann.1, &ACCESS).unwrap();
            ("by an access token", &[], None)
        }
        "an OAuth consumer is deleted" => {
            admin::delete::<Consumer>(&ctx, &CONSUMER).unwrap();
            ("by an access token", &[], None)
        }
        "a token is revoked (`revoke session`)" => {
            world.revoke(Revoked::Token([1; 16]));
            ("in person", &[], undo(|_| {}))
        }
        "the sessions of a user are revoked (`revoke user`)" => {
            world.revoke(Revoked::User(world.ann.1));
            ("in person", &[], undo(|_| {}))
        }
        "the sessions of a group are revoked (`revoke group`)" => {
            let look = |view: &View<'_>| enfilade_admin::users_in_group(view, &outer);
            let (group, members) = world.house.facts().read(look).unwrap().unwrap();
            assert_eq!(members, [world.ann.1], "a member of a group in the group");
            members.into_iter().for_each(|member| world.revoke(Revoked::User(member)));
            world.revoke(Revoked::Group(group));
            ("in person", &[], undo(|_| {}))
        }
        "the sessions for a project or domain are revoked (`revoke project`, `revoke domain`)" => {
            world.revoke(Revoked::Project(world.project));
            ("in person", &[], undo(|_| {}))
        }
        "all sessions and credentials of a user are revoked (`revoke user --everything`)" => {
            enfilade_admin::withdraw_from(&ctx, &world.ann.1).unwrap();
            ("by a credential", &[], None)
        }
        "all sessions and lent credentials for a project are revoked (`revoke project --everything`)" => {
            enfilade_admin::withdraw_for(&ctx, &world.project).unwrap();
            ("by a key", &[], None)
        }
        other => panic!("no step for `{other}`: add it here"),
    }
}

#[test]
fn what_ended_does_not_come_back() {
    for (what, ..) in ENDINGS {
        let world = World::new();
        let kinds = ["in person", "by a credential", "by a trust", "by a key", "by an access token"];
        let sessions = kinds.map(|kind| world.session(kind, 1));
        let whole = sessions.clone().map(|token| world.roles(&token));
        assert!(whole.iter().all(|roles| !roles.is_empty()), "{what}: {whole:?}");
        let (kind, left, undo) = take(what, &world);
        let at = kinds.iter().position(|known| *known == kind).unwrap();
        let (old, whole) = (&sessions[at], &whole[at]);
        assert_eq!(world.roles(old), left, "{what}");
        let Some(undo) = undo else { continue };
        undo(&world);
        assert_eq!(world.roles(old), left, "{what}, undone");
        // A session of another server counts as issued after the change only if its issue time is later than the change by more than the allowed
        // clock skew.
        world.house.clock.advance_seconds(CLOCK_SKEW_SECONDS.unsigned_abs() + 1);
        assert_eq!(world.roles(old), left, "{what}, undone, later");
        assert_eq!(world.roles(&world.session(kind, 2)), *whole, "{what}: a new session");
    }
}

type MarkOf = fn(&World) -> Revoked;

#[test]
fn a_refusal_says_what_was_revoked() {
    let marks: [(&str, MarkOf, &str); 11] = [
        ("in person", |_| Revoked::Token([1; 16]), "the token itself was revoked"),
        ("in person", |_| Revoked::Chain([1; 16]), "the audit chain of the session was revoked"),
        ("in person", |world| Revoked::User(world.ann.1), "all sessions of the user were ended"),
        ("in person", |world| Revoked::Project(world.project), "all sessions for the project were ended"),
        ("in person", |world| Revoked::Domain(world.domain.1), "all sessions of the domain were ended"),
        ("by a trust", |world| Revoked::Trust(world.trust), "all sessions of the trust were ended"),
        ("by a trust", |world| Revoked::User(world.ann.1), "all sessions of the user were ended"),
        (
            "by an access token",
            |_| Revoked::AccessToken(ACCESS),
            "all sessions of the OAuth access token were ended",
        ),
        (
            "by an access token",
            |_| Revoked::Consumer(CONSUMER),
            "all sessions of the OAuth consumer were ended",
        ),
        (
            "by a credential",
            |world| Revoked::Credential(world.credential),
            "all sessions of the application credential were ended",
        ),
        (
            "in person",
            |world| Revoked::Role(world.role("implied")),
            "a group, role or role assignment that the session depends on was removed",
        ),
    ];
    for (kind, mark, said) in marks {
        let world = World::new();
        let token = world.session(kind, 1);
        world.revoke(mark(&world));
        let why = world.house.come_in_by(token.as_bytes()).map(drop).unwrap_err();
        assert!(why.to_string().ends_with(said), "{kind}: {why}");
    }
}

/// The sessions and ways in of Ann that are refused, with the reason.
fn refused(world: &World, sessions: &[Claim]) -> Vec<String> {
    let (now, key) = (world.house.clock.now(), hash_key());
    let (sessions_known, memo) = (SessionState::default(), IdentityMemo::new(MemoSeed([1; 16]), 1 << 16));
    let context = Context { hash_key: &key, sessions: &sessions_known, memo: &memo };
    let look = |view: &View<'_>| {
        let ways = enfilade_admin::ways_of(view, &world.ann.1).unwrap().into_iter();
        let ways = ways.map(|way| (way.name.clone(), way.check(view, now, &context)));
        let sessions = sessions.iter().map(|claim| check_session(view, now, claim, &context));
        let sessions = sessions.map(|judged| ("session".to_owned(), judged));
        let refused = ways.chain(sessions).filter_map(|(name, judged)| Some((name, judged.err()?)));
        refused.map(|(name, why)| format!("{}: {why}", name.split(' ').next().unwrap())).collect()
    };
    world.house.facts().read(look).unwrap()
}

/// For each way in, `user access` and `revoke` report the same result that a login would have.
#[test]
fn ways_in_are_refused_as_logins_are() {
    let world = World::new();
    let ctx = world.house.change_context();
    let password = Secret::new(b"correct horse").unwrap();
    enfilade_admin::set_password(&ctx, &world.ann.0, &password).unwrap();
    let terms = TokenTerms::default();
    enfilade_admin::create_token(&ctx, &hash_key(), &world.ann.0, &"t".parse().unwrap(), &terms).unwrap();
    // A new password ends the sessions that were issued before it.
    world.house.clock.advance_seconds(60);
    let (ctx, session) = (world.house.change_context(), world.claim("in person", 1));
    let of = |sessions: &[Claim]| refused(&world, sessions);
    assert_eq!(of(&[session]), Vec::<String>::new());

    let set_domain = |enabled| admin::set_domain(&ctx, &world.domain.0, enabled).unwrap();
    set_domain(false);
    let all = of(&[session]);
    assert_eq!(
        all.len(),
        7,
        "password, token, application credential, key, trust, access token, session: {all:?}"
    );
    assert!(all.iter().filter(|why| why.contains("its realm")).count() >= 2, "{all:?}");
    set_domain(true);
    let ended = of(&[session]);
    assert!(ended.iter().all(|why| why.starts_with("session")) && ended.len() == 1, "{ended:?}");

    let set_token = |enabled| {
        let edit = TokenEdit { enabled: Some(enabled), ..TokenEdit::default() };
        enfilade_admin::set_token(&ctx, &world.ann.0, &"t".parse().unwrap(), &edit).unwrap();
    };
    set_token(false);
    let why = of(&[]);
    assert!(why.len() == 1 && why[0].contains("the token"), "{why:?}");
    set_token(true);

    let row = admin::find_trust(world.house.facts(), &world.trust).unwrap().unwrap();
    for (uses, refused) in [(Some(1), 0), (Some(0), 1), (None, 0)] {
        let record =
            AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 0, request: None };
        let mut change = Change::new(record);
        change.put(&world.trust, &Trust { uses, ..row.clone() });
        world.house.facts().commit(&change).unwrap();
        assert_eq!(of(&[]).len(), refused, "{uses:?}: {:?}", of(&[]));
    }
}

/// An access token gives only the delegated roles that its user still has, as in Keystone.
#[test]
fn an_access_token_gives_the_roles_that_its_user_has() {
    let world = World::new();
    let (ctx, on) = (world.house.change_context(), On::Project(world.project));
    assert_eq!(world.roles(&world.session("by an access token", 1)), ["own"]);
    admin::take_role(&ctx, &world.ann(), &on, "own").unwrap();
    world.house.clock.advance_seconds(CLOCK_SKEW_SECONDS.unsigned_abs() + 1);
    assert!(world.roles(&world.session("by an access token", 2)).is_empty());
    admin::grant_role(&ctx, &world.ann(), &on, "own").unwrap();
    assert_eq!(world.roles(&world.session("by an access token", 3)), ["own"]);
    let other = Claim { user: world.bea, ..world.claim("by an access token", 4) };
    assert!(world.roles(&world.seal(&other)).is_empty(), "the session of another user");
}

#[test]
fn a_trust_gives_nothing_while_the_trustor_lacks_one_of_its_roles() {
    let world = World::new();
    let (ctx, on) = (world.house.change_context(), On::Project(world.project));
    assert_eq!(world.roles(&world.session("by a trust", 1)), ["own"]);
    admin::take_role(&ctx, &world.ann(), &on, "own").unwrap();
    world.house.clock.advance_seconds(CLOCK_SKEW_SECONDS.unsigned_abs() + 1);
    assert!(world.roles(&world.session("by a trust", 2)).is_empty());
    admin::grant_role(&ctx, &world.ann(), &on, "own").unwrap();
    assert_eq!(world.roles(&world.session("by a trust", 3)), ["own"]);
}

#[test]
fn a_mark_of_the_domain_of_the_project_ends_a_session_of_a_user_of_another_domain() {
    let world = World::new();
    let ctx = world.house.change_context();
    let crews: Realm = "crews".parse().unwrap();
    let (project, _) = admin::add_project(&ctx, &crews, "q", None).unwrap();
    admin::grant_role(&ctx, &world.ann(), &On::Project(project), "own").unwrap();
    let claim = Claim { scope: Scope::Project(project), ..world.claim("in person", 1) };
    let token = world.seal(&claim);
    assert_eq!(world.roles(&token), ["own"]);
    let find = |view: &View<'_>| view.get::<Name>(&NameKey::domain(&crews));
    let domain = world.house.facts().read(find).unwrap().unwrap().unwrap().domain();
    world.revoke(Revoked::Domain(domain));
    assert!(world.roles(&token).is_empty());
}
