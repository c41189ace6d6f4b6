//! Tests the sessions that door 2 issues: the duration of a session, its project, and the changes of other records that end the session. Also tests
//! long calls of Keystone's API, which door 4 judges again.

#![allow(clippy::unwrap_used, reason = "tests")]

use aws_lc_rs::hmac;
use enfilade_access::{About, Lends, Rule, rule_named};
use enfilade_admin::keystone::{
    self as admin, NewApplicationCredential, NewTrust, On, ProjectEdit, WantedRule,
};
use enfilade_admin::{NewUser, Target, TokenEdit};
use enfilade_facts::limits::{CLOCK_SKEW_SECONDS, GROUPS_PER_USER_MAX};
use enfilade_facts::tables::{
    Blob, BlobId, Ec2Key, FileFault, FileName, Group, Member, Membership, MembershipKey, Mirrored,
    MirroredFile, NamedRole, Revoked, Trust, User,
};
use enfilade_facts::vocabulary::{
    Authid, CredentialId, DomainId, GroupId, ProjectId, Secret, Sid, TrustId, UserId, Userid,
};
use enfilade_facts::{AuditRecord, Change, MemoSeed, Read, Refuse, View};
use enfilade_identity::fernet::frame;
use enfilade_identity::fernet::payload::Audit;
use enfilade_identity::{
    Claim, IdentityMemo, Lent, Methods, Reach, Scope, SecretAsk, SessionAsk, SignatureAsk, Signed, Signing,
    Wanted, chain_of,
};
use enfilade_passage::{KeyRing, SessionTerms, Visit};
use enfilade_testkit::{Remembering, TestHouse, hash_key, new_application_credential, new_trust};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const PASSWORD: &str = "correct horse";
const KEY: BlobId = BlobId([9; 32]);

/// Ann has the role `own` on the project `p` of the domain `tenant`, and `own` implies `implied`. Bea has no role.
struct World {
    house: TestHouse,
    ann: (Userid, UserId),
    bea: (Userid, UserId),
    domain: DomainId,
    project: ProjectId,
}

fn keys() -> KeyRing {
    KeyRing::new(&[(0, &[7; 32]), (1, &[8; 32])]).unwrap()
}

fn change() -> Change {
    Change::new(AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 0, request: None })
}

fn rule(name: &str) -> &'static Rule {
    rule_named(name).unwrap()
}

fn memo() -> IdentityMemo {
    IdentityMemo::new(MemoSeed([1; 16]), 1 << 16)
}

impl World {
    fn new() -> Self {
        let house = TestHouse::new(Remembering::AsServed);
        house.house.set_keys(Some(keys()));
        let ctx = house.change_context();
        let (domain, _) = admin::add_domain(&ctx, &"tenant".parse().unwrap(), None).unwrap();
        let (project, _) = admin::add_project(&ctx, &"tenant".parse().unwrap(), "p", None).unwrap();
        let [ann, bea] = ["ann@tenant", "bea@tenant"].map(|name| {
            let userid: Userid = name.parse().unwrap();
            let (id, _) = enfilade_admin::add_user(&ctx, &NewUser::named(userid.clone())).unwrap();
            enfilade_admin::set_password(&ctx, &userid, &Secret::new(PASSWORD.as_bytes()).unwrap()).unwrap();
            (userid, id)
        });
        for role in ["own", "implied", "admin"] {
            admin::add_role(&ctx, role, None).unwrap();
        }
        admin::add_implication(&ctx, "own", "implied").unwrap();
        // A new password ends the sessions that were issued before it. So the sessions of these tests begin a minute later.
        house.clock.advance_seconds(60);
        let world = World { house, ann, bea, domain, project };
        world.grant("own", On::Project(project));
        world
    }

    fn grant(&self, role: &str, on: On) {
        let who = Target::User(self.ann.0.clone());
        admin::grant_role(&self.house.change_context(), &who, &on, role).unwrap();
    }

    async fn log_in(&self, userid: &Userid) -> Visit {
        let secret = Secret::new(PASSWORD.as_bytes()).unwrap();
        self.house.come_in(SecretAsk { authid: Authid::from(userid.clone()), secret }).await.unwrap()
    }

    /// A session of Ann, issued now.
    fn session(&self, scope: Scope, methods: Methods, lent: Option<Lent>) -> Visit {
        self.house.come_in_by(self.token(self.ann.1, scope, methods, lent).as_bytes()).unwrap()
    }

    fn token(&self, user: UserId, scope: Scope, methods: Methods, lent: Option<Lent>) -> String {
        let now = self.house.clock.now().unix_seconds;
        let audit = Audit { own: [1; 16], chain: None };
        let claim = Claim { user, methods, scope, lent, issued_at: now, expires_at: now + 3_600, audit };
        frame::seal(&keys(), u64::try_from(now).unwrap(), [1; 16], &claim.to_payload()).unwrap()
    }

    fn application_credential(&self, name: &str, by: Option<CredentialId>) -> CredentialId {
        self.new_credential(name, by, Vec::new()).0
    }

    /// Creates an application credential of Ann. Returns the id of the credential, and the question to door 2 for a login with the credential.
    fn new_credential(
        &self,
        name: &str,
        by: Option<CredentialId>,
        rules: Vec<WantedRule>,
    ) -> (CredentialId, SecretAsk) {
        let new = NewApplicationCredential {
            unrestricted: true,
            rules,
            by,
            ..new_application_credential(self.ann.1, name, self.project, &["own"])
        };
        let ctx = self.house.change_context();
        let (made, secret, _) = admin::create_application_credential(&ctx, &hash_key(), &new).unwrap();
        let authid = Authid { user: self.ann.0.clone(), token: Some(new.name) };
        (made.id, SecretAsk { authid, secret: Secret::new(secret.unwrap().as_bytes()).unwrap() })
    }

    /// The code of door 2's answer to a token.
    fn code(&self, token: &str) -> &'static str {
        self.house.come_in_by(token.as_bytes()).map_or_else(|why| why.code(), |_| "permit")
    }

    /// The reach of a session for the project with these roles.
    fn by(&self, roles: &[&str]) -> Reach {
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        Reach::Project { project: self.project, roles }
    }

    fn open_project(&self, enabled: bool) {
        let edit = ProjectEdit { enabled: Some(enabled), ..ProjectEdit::default() };
        admin::set_project(&self.house.change_context(), &self.project, &edit).unwrap();
    }

    /// A trust of Ann for Bea.
    fn trust(&self, redelegations: u8) -> TrustId {
        let new = NewTrust { redelegations, ..new_trust(self.ann.1, self.bea.1, self.project, &["own"]) };
        admin::create_trust(&self.house.change_context(), &new).unwrap().0
    }

    /// The names of Ann's roles on the project.
    fn roles(&self) -> Vec<String> {
        let roles = |view: &View<'_>| {
            enfilade_identity::roles_of(view, &self.ann.1, &self.project, None).unwrap_or_default()
        };
        self.house.facts().read(roles).unwrap().into_iter().map(|role| role.name).collect()
    }
}

#[tokio::test]
async fn a_session_ends_with_its_second_and_is_shown_to_services_for_a_while() {
    let world = World::new();
    let mut visit = world.log_in(&world.ann.0).await;
    let service = world.log_in(&world.bea.0).await;
    let issued = visit.issue(Wanted::Scope(Scope::Project(world.project))).await.unwrap();
    let ask = || SessionAsk { token: Secret::new(issued.token.as_bytes()).unwrap() };
    let SessionTerms { token_seconds, expired_seconds, .. } = SessionTerms::default();
    let mut elapsed = 0;
    for (second, admits, validates, shows_expired) in [
        (0, true, true, true),
        (token_seconds - 1, true, true, true),
        (token_seconds, false, false, true),
        (token_seconds + expired_seconds - 1, false, false, true),
        (token_seconds + expired_seconds, false, false, false),
    ] {
        world.house.clock.advance_seconds((second - elapsed).try_into().unwrap());
        elapsed = second;
        // The session is judged twice, because the second verdict comes from the memo.
        for _ in 0..2 {
            let seen = [
                world.house.come_in_by(issued.token.as_bytes()).is_ok(),
                service.validate(&ask(), false).is_ok(),
                service.validate(&ask(), true).is_ok(),
            ];
            assert_eq!(seen, [admits, validates, shows_expired], "second {second}");
        }
    }
}

#[tokio::test]
async fn a_session_without_a_wanted_scope_is_for_the_default_project() {
    let world = World::new();
    let mut scopes = Vec::new();
    for project in [None, Some(world.project)] {
        admin::set_default_project(&world.house.change_context(), &world.ann.0, project).unwrap();
        let mut visit = world.log_in(&world.ann.0).await;
        scopes.push(visit.issue(Wanted::Usual).await.unwrap().session.claim.scope);
    }
    assert_eq!(scopes, [Scope::Unscoped, Scope::Project(world.project)]);
}

#[test]
fn an_application_credential_made_by_another_does_not_outlive_it() {
    let world = World::new();
    let first = world.application_credential("first", None);
    let second = world.application_credential("second", Some(first));
    let enable = |enabled| TokenEdit { enabled: Some(enabled), ..TokenEdit::default() };
    let expire = |expires| TokenEdit { expires: Some(expires), ..TokenEdit::default() };
    for (edit, expected) in [
        (enable(true), "permit"),
        (enable(false), "ID06"),
        (enable(true), "permit"),
        (expire(1), "ID07"),
        (expire(0), "permit"),
    ] {
        let ctx = world.house.change_context();
        enfilade_admin::set_token(&ctx, &world.ann.0, &"first".parse().unwrap(), &edit).unwrap();
        world.house.clock.advance_seconds(60);
        // This token is issued after the change of the credential `first`, so no mark of this change ends it.
        let (scope, lent) = (Scope::Project(world.project), Some(Lent::Credential(second)));
        let token = world.token(world.ann.1, scope, Methods::APPLICATION_CREDENTIAL, lent);
        assert_eq!(world.code(&token), expected, "{edit:?}");
    }
}

#[test]
fn a_session_by_a_trust_ends_with_the_trust_and_with_the_one_above_it() {
    let world = World::new();
    let scope = Scope::Project(world.project);
    let put = |id: &TrustId, row: &Trust| world.house.facts().commit(change().put(id, row)).unwrap();
    let token = |user, id| world.token(user, scope, Methods::PASSWORD, Some(Lent::Trust(id)));
    let now = world.house.clock.now().unix_seconds;
    let (first, second) = (world.trust(1), TrustId::from_bytes([2; 16]));
    let row = admin::find_trust(world.house.facts(), &first).unwrap().unwrap();
    let until = |expires| Trust { expires, ..row.clone() };
    put(&first, &until(now + 100));
    let to_bea = token(world.bea.1, first);
    for (seconds, expected) in [(0, "permit"), (99, "permit"), (1, "ID19"), (1, "ID19")] {
        world.house.clock.advance_seconds(seconds);
        assert_eq!(world.code(&to_bea), expected, "{seconds} s later");
    }
    // Bea delegates the trust again.
    put(&second, &Trust { trustee: world.ann.1, parent: Some(first), ..until(0) });
    let to_ann = token(world.ann.1, second);
    for (what, above, expected) in [
        ("the first trust never expires", until(0), "permit"),
        ("the first trust expires in a second", until(now + 102), "permit"),
        ("the first trust has expired", until(now + 101), "ID19"),
        ("the first trust is its own parent", Trust { parent: Some(first), ..until(0) }, "ID19"),
        ("the first trust never expires, again", until(0), "permit"),
    ] {
        put(&first, &above);
        assert_eq!(world.code(&to_ann), expected, "{what}");
    }
    world.house.facts().commit(change().delete::<Trust>(&first)).unwrap();
    assert_eq!(world.code(&to_ann), "ID19");
}

#[tokio::test]
async fn an_application_credential_reaches_its_project_while_that_is_open() {
    let world = World::new();
    let rule =
        WantedRule::Request { service: "identity".into(), method: "GET".into(), path: "/v3/users".into() };
    let (_, whole) = world.new_credential("whole", None, Vec::new());
    // Access rules permit requests to services of OpenStack, and not to datastores.
    let (_, with_rules) = world.new_credential("with-rules", None, vec![rule]);
    for (is_open, reached) in [(true, world.by(&["implied", "own"])), (false, Reach::Nothing)] {
        world.open_project(is_open);
        for (ask, reached) in [(&whole, &reached), (&with_rules, &Reach::Nothing)] {
            let visit = world.house.come_in(ask.clone()).await.unwrap();
            assert_eq!(visit.identity().principal().reach, *reached, "{} {is_open}", ask.authid);
        }
    }
}

#[tokio::test]
async fn a_session_is_issued_for_no_more_than_its_basis() {
    let world = World::new();
    let ctx = world.house.change_context();
    let (other, _) = admin::add_project(&ctx, &"tenant".parse().unwrap(), "q", None).unwrap();
    world.grant("own", On::Project(other));
    let [here, there] = [world.project, other].map(Scope::Project);
    let (id, ask) = world.new_credential("c", None, Vec::new());
    let (lent, trust) = (Some(Lent::Credential(id)), Some(Lent::Trust(world.trust(0))));
    let trusted = world.token(world.bea.1, here, Methods::PASSWORD, trust);
    let visits = [
        ("a login", world.log_in(&world.ann.0).await),
        ("its session", world.session(here, Methods::PASSWORD, None)),
        ("a credential", world.house.come_in(ask).await.unwrap()),
        ("a credential's session", world.session(here, Methods::APPLICATION_CREDENTIAL, lent)),
        ("a trust's session", world.house.come_in_by(trusted.as_bytes()).unwrap()),
        ("an EC2 key's session", world.session(here, Methods::EC2_KEY, None)),
    ];
    for (who, expected) in [
        ("a login", [Ok(Scope::Unscoped), Ok(Scope::Unscoped), Ok(here), Ok(there)]),
        ("its session", [Ok(Scope::Unscoped), Ok(Scope::Unscoped), Ok(here), Ok(there)]),
        ("a credential", [Ok(here), Err("ID20"), Ok(here), Err("ID20")]),
        ("a credential's session", [Err("ID20"); 4]),
        ("a trust's session", [Err("ID20"); 4]),
        ("an EC2 key's session", [Err("ID20"); 4]),
    ] {
        let (_, visit) = visits.iter().find(|(name, _)| *name == who).unwrap();
        let wanted = [Scope::Unscoped, here, there].map(Wanted::Scope);
        for (wanted, expected) in [Wanted::Usual].into_iter().chain(wanted).zip(expected) {
            let issued = visit.clone().issue(wanted).await;
            let scope = issued.map(|issued| issued.session.claim.scope).map_err(|why| why.code());
            assert_eq!(scope, expected, "{who}: {wanted:?}");
        }
    }
}

#[test]
fn a_token_is_valid_from_a_little_before_its_second_of_issue() {
    let world = World::new();
    let token = world.token(world.ann.1, Scope::Unscoped, Methods::PASSWORD, None);
    // A refusal is not remembered, so it has no effect on the next case. In the last case, the memo contains the permit of the previous cases.
    for (early, expected) in [
        (CLOCK_SKEW_SECONDS + 100, "ID26"),
        (CLOCK_SKEW_SECONDS + 1, "ID26"),
        (CLOCK_SKEW_SECONDS, "permit"),
        (0, "permit"),
        (CLOCK_SKEW_SECONDS + 1, "ID26"),
    ] {
        world.house.clock.set_wall(-early);
        assert_eq!(world.code(&token), expected, "{early} s before");
        world.house.clock.set_wall(early);
    }
}

#[test]
fn a_user_reaches_a_project_in_person_and_by_each_trust() {
    let world = World::new();
    let reached = |user: UserId| {
        let now = world.house.clock.now();
        let reaches = |view: &View<'_>| {
            enfilade_identity::reaches(view, now, user, Some(&world.project), &memo()).unwrap()
        };
        let principals = world.house.facts().read(reaches).unwrap();
        principals.into_iter().map(|principal| principal.reach).collect::<Vec<_>>()
    };
    let in_project = world.by(&["implied", "own"]);
    assert_eq!(reached(world.bea.1), [Reach::Everything]);
    world.trust(0);
    assert_eq!(reached(world.bea.1), [Reach::Everything, in_project.clone()]);
    assert_eq!(reached(world.ann.1), [Reach::Everything, in_project]);
    world.open_project(false);
    assert_eq!(reached(world.ann.1), [Reach::Everything]);
}

#[test]
fn a_role_of_a_domain_counts_for_what_it_implies_while_the_domain_is_enabled() {
    let world = World::new();
    assert_eq!(world.roles(), ["implied", "own"]);
    let ctx = world.house.change_context();
    let (crews, _) = admin::add_domain(&ctx, &"crews".parse().unwrap(), None).unwrap();
    let named = admin::list_named_roles(world.house.facts()).unwrap();
    let (id, role) = named.into_iter().find(|(_, role)| role.name == "own").unwrap();
    let of_domain = NamedRole { domain: Some(crews), ..role };
    world.house.facts().commit(change().put(&id, &of_domain)).unwrap();
    assert_eq!(world.roles(), ["implied"]);
    admin::set_domain(&ctx, &"crews".parse().unwrap(), false).unwrap();
    assert_eq!(world.roles(), Vec::<String>::new());
}

#[test]
fn a_user_may_be_in_as_many_groups_as_the_limit_says() {
    let world = World::new();
    let add = |from: usize, to: usize| {
        let mut filling = change();
        for n in from..to {
            let group = GroupId::from_bytes((n as u128 + 1).to_be_bytes());
            let row = Group {
                domain: world.domain,
                name: format!("g{n}"),
                sid: Sid::of_unix_group(n as u32),
                also: Vec::new(),
                gid: None,
                comment: None,
            };
            filling.put(&group, &row);
            filling.put(&MembershipKey { member: Member::User(world.ann.1), group }, &Membership);
        }
        world.house.facts().commit(&filling).unwrap();
    };
    let code = || {
        let (now, authid) = (world.house.clock.now(), Authid::from(world.ann.0.clone()));
        let would = |view: &View<'_>| {
            enfilade_identity::who_would(view, now, &authid, None, &memo()).map_err(|why| why.code())
        };
        world.house.facts().read(would).unwrap().map(|principal| principal.groups.len())
    };
    add(0, GROUPS_PER_USER_MAX);
    assert_eq!(code(), Ok(GROUPS_PER_USER_MAX));
    add(GROUPS_PER_USER_MAX, GROUPS_PER_USER_MAX + 1);
    assert_eq!(code(), Err("ID11"));
}

#[test]
fn a_users_file_that_is_not_believed_any_more_refuses_its_users() {
    let world = World::new();
    let user: User = world.house.facts().read(|view| view.get(&world.bea.1)).unwrap().unwrap().unwrap();
    let mirrored = User { mirrored: Some(Mirrored { fault: None }), ..user };
    world.house.facts().commit(change().put(&world.bea.1, &mirrored)).unwrap();
    let fault = |refuses| Some(FileFault { line: 3, reason: "it is gone".into(), since: 0, refuses });
    for (what, fault, is_refused) in [
        ("no fault", None, false),
        ("a fault since a moment ago", fault(false), false),
        ("a fault for too long", fault(true), true),
    ] {
        let (version, problems, since, good) = (None, Vec::new(), None, None);
        let file = MirroredFile { version, digest: [0; 16], fault, problems, problem_count: 0, since, good };
        world.house.facts().commit(change().put(&FileName::Users, &file)).unwrap();
        for (userid, is_refused) in [(&world.bea.0, is_refused), (&world.ann.0, false)] {
            let (now, authid) = (world.house.clock.now(), Authid::from(userid.clone()));
            let would =
                |view: &View<'_>| enfilade_identity::who_would(view, now, &authid, None, &memo()).is_err();
            assert_eq!(world.house.facts().read(would).unwrap(), is_refused, "{userid}: {what}");
        }
    }
}

#[tokio::test]
async fn a_service_gets_a_session_for_a_right_signature_of_now() {
    let world = World::new();
    world.grant("admin", On::Project(world.project));
    let ec2 = Some(Ec2Key { secret: "secret".into(), by: None });
    let row =
        Blob { user: world.ann.1, project: Some(world.project), kind: "ec2".into(), blob: "{}".into(), ec2 };
    admin::create_blob(&world.house.change_context(), &KEY, &row).unwrap();
    let mut service = world.session(Scope::Project(world.project), Methods::PASSWORD, None);
    let permit = service.use_api(rule("list_users"), &About::default()).unwrap();
    let now = world.house.clock.now().unix_seconds;
    let ask = |secret: &str, at| SignatureAsk {
        key: KEY,
        signing: Signing::V2,
        signed: Signed::Request(at),
        texts: vec![b"text".to_vec()],
        signature: hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), b"text")
            .as_ref()
            .to_vec(),
    };
    for (secret, at, expected) in [
        ("secret", now, true),
        ("secret", now - 3_600, false),
        ("another", now, false),
        ("another", now - 3_600, false),
    ] {
        let issued = service.issue_signed(&permit, &ask(secret, at)).await;
        assert_eq!(issued.is_ok(), expected, "{secret} {at}");
        let chain = issued.ok().and_then(|issued| issued.session.claim.audit.chain);
        assert_eq!(chain, expected.then_some([9; 16]));
    }
    assert_eq!(chain_of(&KEY), [9; 16]);
    // All sessions of the key are in one chain. The chain is revoked here. A new secret of the key would also revoke the chain. After the revocation,
    // a new session gets an issue time that is later than all issue times that the mark covers.
    let old = service.issue_signed(&permit, &ask("secret", now)).await.unwrap();
    let mark = Revoked::Chain(chain_of(&KEY));
    admin::revoke(&world.house.change_context(), &[mark], None, "a test").unwrap();
    let new = service.issue_signed(&permit, &ask("secret", now)).await.unwrap();
    assert_eq!([&old, &new].map(|issued| world.code(&issued.token)), ["ID03", "permit"]);
}

#[test]
fn only_a_trust_that_may_be_delegated_again_makes_trusts() {
    let world = World::new();
    for (redelegations, expected) in [(0, false), (1, true), (2, true)] {
        let lent = Some(Lent::Trust(world.trust(redelegations)));
        let token = world.token(world.bea.1, Scope::Project(world.project), Methods::PASSWORD, lent);
        let mut visit = world.house.come_in_by(token.as_bytes()).unwrap();
        // The session belongs to the trustee, because the trust has no impersonation. So the rule must permit the call about any user.
        for user in [world.ann.1, world.bea.1] {
            for (roles, expected) in [("own", expected), ("admin", false)] {
                let lends = Some(Lends { project: &world.project, roles: &[roles.to_owned()] });
                let about = About { user: Some(&user), lends, ..About::default() };
                let allowed = visit.use_api(rule("create_trust"), &about).is_ok();
                assert_eq!(allowed, expected, "{redelegations} {roles} {user}");
            }
        }
    }
}

#[test]
fn a_long_call_goes_on_while_its_role_permits_it() {
    let world = World::new();
    let ctx = world.house.change_context();
    admin::add_role(&ctx, "reader", None).unwrap();
    world.grant("reader", On::Domain("tenant".parse().unwrap()));
    world.grant("admin", On::Project(world.project));
    let (domain, project, user) = (Some(&world.domain), Some(&world.project), Some(&world.ann.1));
    let (in_domain, in_project) = (Scope::Domain(world.domain), Scope::Project(world.project));
    let mut calls = Vec::new();
    for (name, scope, about) in [
        ("list_users", in_domain, About::default()),
        ("get_domain", in_domain, About { domain, ..About::default() }),
        ("get_project", in_project, About { project, ..About::default() }),
        ("get_user", Scope::Unscoped, About { user, ..About::default() }),
        ("list_users", in_project, About::default()),
    ] {
        let mut visit = world.session(scope, Methods::PASSWORD, None);
        let permit = visit.use_api(rule(name), &about).unwrap();
        visit.may_go_on(&permit).unwrap();
        calls.push((name, scope, visit, permit));
    }
    // Without the role `admin`, the second call of `list_users` would list other users than before. The loss of the role ends all sessions that
    // depend on it.
    let who = Target::User(world.ann.0.clone());
    admin::take_role(&ctx, &who, &On::Project(world.project), "admin").unwrap();
    let goes_on: Vec<bool> =
        calls.iter_mut().map(|(.., visit, permit)| visit.may_go_on(permit).is_ok()).collect();
    assert_eq!(goes_on, [true, true, false, true, false]);
    // If the user gets a role that permits more, the result of the call would also differ. So the call must not continue.
    world.house.clock.advance_seconds(60);
    let mut visit = world.session(in_project, Methods::PASSWORD, None);
    let permit = visit.use_api(rule("get_project"), &About { project, ..About::default() }).unwrap();
    visit.may_go_on(&permit).unwrap();
    world.grant("admin", On::Project(world.project));
    let why = visit.may_go_on(&permit).unwrap_err().to_string();
    assert!(why.contains("the role with which the call started"), "{why}");
}

/// Another server has moved the horizon. Before this server issues a session, it makes its own change of the horizon. Without this change, a third
/// server that has not applied the first change yet would refuse the session.
#[tokio::test]
async fn a_session_is_issued_when_every_server_knows_the_horizon() {
    let asked = Arc::new(AtomicU32::new(0));
    let house = TestHouse::changed(Remembering::AsServed, |parts| {
        let (allow, asked) = (Arc::clone(&parts.allow_issue), Arc::clone(&asked));
        parts.allow_issue = Arc::new(move |now, second| {
            asked.fetch_add(1, Ordering::Relaxed);
            allow(now, second)
        });
    });
    house.house.set_keys(Some(keys()));
    let ann: Userid = "ann@Default".parse().unwrap();
    admin::add_domain(&house.change_context(), ann.realm(), None).unwrap();
    house.add_login("ann");
    let issue = async || {
        let ask = SecretAsk { authid: ann.clone().into(), secret: Secret::new(b"pw").unwrap() };
        house.come_in(ask).await.unwrap().issue(Wanted::Scope(Scope::Unscoped)).await.unwrap();
        asked.load(Ordering::Relaxed)
    };
    let now = house.clock.now();
    for (ahead, expected) in [(3_600, [1, 1]), (7_200, [1, 1])] {
        admin::allow_issue(house.facts(), now, now.unix_seconds + ahead).unwrap();
        assert_eq!([issue().await, issue().await], expected, "the horizon is {ahead} s ahead");
    }
    house.clock.advance_seconds(61);
    assert_eq!([issue().await, issue().await], [2, 2], "the time is after the horizon that this server set");
}
