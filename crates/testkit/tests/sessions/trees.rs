//! Tests trees of sessions. Each session of a tree was issued for another session. No session may last longer or have more rights than the session
//! that it was issued for.

use super::model::Dice;
use enfilade_admin::keystone::{self as admin, NewApplicationCredential, NewTrust, On};
use enfilade_admin::{NewUser, Target};
use enfilade_facts::vocabulary::{CredentialId, DomainId, ProjectId, Realm, TrustId, UserId, Userid};
use enfilade_identity::fernet::frame;
use enfilade_identity::fernet::payload::Audit;
use enfilade_identity::{Claim, Lent, Methods, Reach, Scope, Wanted};
use enfilade_passage::{KeyRing, Visit};
use enfilade_testkit::{Remembering, TestHouse, hash_key, new_application_credential, new_trust};
use std::collections::{BTreeMap, BTreeSet};

struct World {
    house: TestHouse,
    ring: KeyRing,
    user: UserId,
    projects: Vec<ProjectId>,
    credential: (CredentialId, ProjectId),
    /// A trust: another user lends `user` a role that `user` does not have, namely reader on the last project.
    trust: (TrustId, i64),
}

fn ring() -> KeyRing {
    KeyRing::new(&[(0, &[7; 32]), (1, &[8; 32])]).unwrap()
}

impl World {
    fn new() -> Self {
        let house = TestHouse::new(Remembering::AsServed);
        let ctx = house.change_context();
        let realm: Realm = "Default".parse().unwrap();
        admin::add_domain(&ctx, &realm, Some(DomainId::DEFAULT)).unwrap();
        let [(userid, user), (other, trustor)] = ["ann@Default", "bea@Default"].map(|name| {
            let userid: Userid = name.parse().unwrap();
            let new = NewUser::named(userid.clone());
            (userid, enfilade_admin::add_user(&ctx, &new).unwrap().0)
        });
        for role in ["admin", "member", "reader"] {
            admin::add_role(&ctx, role, None).unwrap();
        }
        admin::add_implication(&ctx, "member", "reader").unwrap();
        let projects: Vec<ProjectId> =
            (0..4).map(|n| admin::add_project(&ctx, &realm, &format!("p{n}"), None).unwrap().0).collect();
        let who = Target::User(userid);
        // The user has no role on the last project. So the server refuses a session for this project, except a session by the trust.
        for (project, role) in projects.iter().zip(["admin", "member", "reader"]) {
            admin::grant_role(&ctx, &who, &On::Project(*project), role).unwrap();
        }
        admin::grant_role(&ctx, &who, &On::Project(projects[0]), "member").unwrap();
        admin::grant_role(&ctx, &who, &On::Domain(realm), "member").unwrap();
        admin::grant_role(&ctx, &who, &On::System, "reader").unwrap();
        admin::grant_role(&ctx, &Target::User(other), &On::Project(projects[3]), "member").unwrap();
        let expires = house.clock.now().unix_seconds + 5_000;
        let new = NewTrust { expires, ..new_trust(trustor, user, projects[3], &["reader"]) };
        let trust = (admin::create_trust(&ctx, &new).unwrap().0, expires);
        let new = NewApplicationCredential {
            unrestricted: true,
            ..new_application_credential(user, "c", projects[0], &["member"])
        };
        let (made, ..) = admin::create_application_credential(&ctx, &hash_key(), &new).unwrap();
        let credential = (made.id, projects[0]);
        house.house.set_keys(Some(ring()));
        World { house, ring: ring(), user, projects, credential, trust }
    }

    fn root(&self, dice: &mut Dice, n: u64) -> Claim {
        let now = self.house.clock.now().unix_seconds;
        let mut own = [1; 16];
        own[..8].copy_from_slice(&n.to_be_bytes());
        let (scope, credential) = match dice.roll(6) {
            0 => (Scope::Project(self.credential.1), Some(self.credential.0)),
            _ => (self.some_scope(dice), None),
        };
        Claim {
            user: self.user,
            methods: if credential.is_some() { Methods::APPLICATION_CREDENTIAL } else { Methods::PASSWORD },
            scope,
            lent: credential.map(Lent::Credential),
            issued_at: now - i64::try_from(dice.roll(100)).unwrap(),
            // Some root sessions expire sooner than a new session would.
            expires_at: now + 1 + i64::try_from(dice.roll(10_000)).unwrap(),
            audit: Audit { own, chain: None },
        }
    }

    fn some_scope(&self, dice: &mut Dice) -> Scope {
        match dice.roll(8) {
            0 | 1 => Scope::Unscoped,
            2 => Scope::Domain(DomainId::DEFAULT),
            3 => Scope::System,
            n => Scope::Project(self.projects[n - 4]),
        }
    }

    fn come_in(&self, token: &str) -> Option<Visit> {
        self.house.come_in_by(token.as_bytes()).ok()
    }

    /// All roles that a session may have on the scope.
    fn most(&self, scope: Scope, lent: Option<Lent>) -> BTreeSet<&'static str> {
        let roles: &[&str] = match scope {
            _ if matches!(lent, Some(Lent::Trust(_))) => &["reader"],
            Scope::Unscoped => &[],
            Scope::Domain(_) => &["member", "reader"],
            Scope::System => &["reader"],
            Scope::Project(id) if id == self.projects[0] && lent.is_some() => &["member", "reader"],
            Scope::Project(id) => match self.projects.iter().position(|known| *known == id) {
                Some(0) => &["admin", "member", "reader"],
                Some(1) => &["member", "reader"],
                Some(2) => &["reader"],
                _ => &[],
            },
        };
        roles.iter().copied().collect()
    }
}

#[tokio::test]
async fn no_session_outlives_or_outgrows_what_it_comes_of() {
    let trees = super::number("ENFILADE_CAMPAIGN_N", 10_000);
    let mut dice = Dice(super::number("ENFILADE_CAMPAIGN_SEED", 5) * 2 + 1);
    let world = World::new();
    let (mut made, mut trusted, mut refused) = (0_u64, 0_u64, BTreeMap::<&str, u64>::new());
    for n in 0..trees {
        let root = world.root(&mut dice, n);
        let issued_at = u64::try_from(root.issued_at).unwrap();
        let token = frame::seal(&world.ring, issued_at, [5; 16], &root.to_payload()).unwrap();
        let mut sessions = vec![(token, root)];
        for _ in 0..1 + dice.roll(4) {
            let (token, parent) = sessions[dice.roll(sessions.len())].clone();
            let Some(mut visit) = world.come_in(&token) else {
                // Only a root session for the last project is refused, because the user has no role on this project.
                assert_eq!(parent.scope, Scope::Project(world.projects[3]));
                break;
            };
            let scope = world.some_scope(&mut dice);
            let wanted = match dice.roll(8) {
                0 => Wanted::Usual,
                1 => Wanted::Trust(world.trust.0),
                _ => Wanted::Scope(scope),
            };
            match visit.issue(wanted).await {
                Ok(child) => {
                    let claim = child.session.claim;
                    assert!(claim.expires_at <= parent.expires_at && claim.issued_at >= parent.issued_at);
                    assert_eq!((claim.user, claim.chain()), (parent.user, root.chain()), "{claim:?}");
                    assert_eq!(claim.methods, parent.methods.and(Methods::TOKEN));
                    assert!(parent.lent.is_none() && claim.credential().is_none());
                    let by_trust = claim.lent == Some(Lent::Trust(world.trust.0));
                    assert!(claim.lent.is_none() || by_trust && claim.expires_at <= world.trust.1);
                    trusted += u64::from(by_trust);
                    assert!(
                        parent.scope != Scope::System
                            || matches!(claim.scope, Scope::System | Scope::Unscoped)
                    );
                    let held: BTreeSet<&str> =
                        child.session.roles.iter().map(|role| role.name.as_str()).collect();
                    assert!(held.is_subset(&world.most(claim.scope, claim.lent)), "{held:?} {claim:?}");
                    // The token contains the same claim as the issued session, and the session reaches at most the project of its scope.
                    let inside = world.come_in(&child.token).unwrap();
                    let reach = &inside.principal().reach;
                    assert_ne!(*reach, Reach::Everything, "{claim:?}");
                    assert!(*reach == Reach::Nothing || claim.scope.project().is_some());
                    assert_eq!(inside.identity().session().unwrap().claim, claim);
                    sessions.push((child.token, claim));
                    made += 1;
                }
                Err(refusal) => {
                    let code = enfilade_facts::Refuse::code(&refusal);
                    let is_delegated = parent.lent.is_some() || parent.scope == Scope::System;
                    assert!(code == "ID19" || code == "ID20" && is_delegated, "{refusal}: {parent:?}");
                    *refused.entry(code).or_default() += 1;
                }
            }
        }
        for (token, claim) in &sessions {
            if let Some(visit) = world.come_in(token) {
                let held: BTreeSet<&str> =
                    visit.identity().session().unwrap().roles.iter().map(|role| role.name.as_str()).collect();
                let most = world.most(claim.scope, claim.lent);
                assert!(held.is_subset(&most), "{held:?} {claim:?}");
            }
        }
        if trees > 100_000 && n % 100_000 == 99_999 {
            println!("{} of {trees} trees", n + 1);
        }
    }
    assert!(made > trees / 2 && trusted > trees / 50 && refused.len() == 2, "{made} {refused:?}");
    println!("{trees} trees, {made} sessions made of others ({trusted} by a trust), refused: {refused:?}");
}
