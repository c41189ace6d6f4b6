//! Sessions: what is granted is what a model grants that knows nothing but everything that ever happened, and looks through
//! all of it each time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a campaign says how far it is")]

mod changes;
mod model;
mod trees;

use enfilade_admin::NewUser;
use enfilade_admin::keystone as admin;
use enfilade_facts::tables::{Password, Revoked, User};
use enfilade_facts::vocabulary::{Authid, DomainId, ProjectId, Realm, RoleId, Secret, UserId, Userid};
use enfilade_facts::{AuditRecord, Change, Read, Refuse};
use enfilade_identity::{Ask, Scope, Session, SessionAsk, Wanted};
use enfilade_passage::{KeyRing, Visit};
use enfilade_testkit::{Remembering, TestHouse};
use model::{Delegation, Dice, Event, Token, Trust, Where, Whom};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Of `pw`: cheap, because thousands come in.
const HASH: &str = "$5$rounds=1000$salt$gdEupGonUIiJCMc1vfHpiFjFhRA3Jf3USQ7IYKjZitD";
const LIFETIME: i64 = 3_600;
const USERS: usize = 4;
const PROJECTS: usize = 3;
const ROLES: [&str; 4] = ["admin", "member", "reader", "auditor"];
/// Whoever has the role of this number has these, too.
const IMPLIED: [&[usize]; 4] = [&[0, 1, 2], &[1, 2], &[2], &[3]];
const KEYS_MAX: usize = 3;

/// What happened, and who is who.
struct World {
    house: TestHouse,
    domains: [(Realm, DomainId); 2],
    users: Vec<(Userid, UserId, usize)>,
    projects: Vec<(ProjectId, usize)>,
    roles: Vec<RoleId>,
    // From here on, what the model knows.
    user_enabled: [bool; USERS],
    domain_enabled: [bool; 2],
    project_enabled: [bool; PROJECTS],
    members: BTreeSet<usize>,
    grants: BTreeSet<(Whom, Where, usize)>,
    credentials: Vec<Delegation>,
    trusts: Vec<Trust>,
    events: Vec<Event>,
    ring: Vec<u32>,
    tokens: Vec<Token>,
    /// How many had to wait for the next second.
    waited: u64,
}

fn audit() -> AuditRecord {
    AuditRecord { who: "a test".into(), what: "a cheap password".into(), unix_seconds: 0 }
}

impl World {
    fn new() -> Self {
        let house = TestHouse::new(Remembering::AsServed);
        let desk = house.desk();
        let domains = ["Default", "other"].map(|name| {
            let realm: Realm = name.parse().unwrap();
            let id = (name == "Default").then_some(DomainId::DEFAULT);
            let (id, _) = admin::add_domain(&desk, &realm, id).unwrap();
            (realm, id)
        });
        let users: Vec<_> = (0..USERS)
            .map(|n| {
                let domain = usize::from(n == USERS - 1);
                let userid: Userid = format!("user{n}@{}", domains[domain].0).parse().unwrap();
                let new = NewUser {
                    userid: userid.clone(),
                    password: None,
                    sid: None,
                    uid: None,
                    gid: None,
                    expires: 0,
                    comment: None,
                };
                let (id, _) = enfilade_admin::add_user(&desk, &new).unwrap();
                (userid, id, domain)
            })
            .collect();
        let projects = (0..PROJECTS)
            .map(|n| {
                let domain = usize::from(n == PROJECTS - 1);
                let made = admin::add_project(&desk, &domains[domain].0, &format!("project{n}"), None);
                (made.unwrap().0, domain)
            })
            .collect();
        let roles = ROLES.iter().map(|role| admin::add_role(&desk, role, None).unwrap().0).collect();
        admin::add_implication(&desk, "admin", "member").unwrap();
        admin::add_implication(&desk, "member", "reader").unwrap();
        enfilade_admin::add_group(&desk, &"staff@Default".parse().unwrap(), None, None, None).unwrap();
        let world = World {
            house,
            domains,
            users,
            projects,
            roles,
            user_enabled: [true; USERS],
            domain_enabled: [true; 2],
            project_enabled: [true; PROJECTS],
            members: BTreeSet::new(),
            grants: BTreeSet::new(),
            credentials: Vec::new(),
            trusts: Vec::new(),
            events: Vec::new(),
            ring: vec![0, 1],
            tokens: Vec::new(),
            waited: 0,
        };
        (0..USERS).for_each(|user| world.give_cheap_password(user));
        world.tell_ring();
        world
    }

    fn now(&self) -> i64 {
        self.house.clock.now().unix_seconds
    }

    fn give_cheap_password(&self, user: usize) {
        let id = self.users[user].1;
        let row = self.house.facts().read(|view| view.get::<User>(&id)).unwrap().unwrap().unwrap();
        let mut change = Change::new(audit());
        change.put(&id, &User { password: Some(Password::of(HASH.into())), ..row });
        self.house.facts().commit(&change).unwrap();
    }

    fn tell_ring(&self) {
        let bytes_of = |n: u32| std::array::from_fn(|at| n.to_be_bytes()[at % 4]);
        let bytes: Vec<(u32, [u8; 32])> = self.ring.iter().map(|n| (*n, bytes_of(*n))).collect();
        let keys: Vec<_> = bytes.iter().map(|(n, bytes)| (*n, bytes)).collect();
        self.house.house.set_keys(Some(KeyRing::new(&keys).unwrap()));
    }

    /// 0 becomes the highest, there is a new 0, and the lowest beside it goes.
    fn rotate(&mut self) {
        // The bytes of a key are those of its number, so what was 0 keeps them only in the original.
        let next = self.ring.iter().max().unwrap() + 1;
        self.ring.push(next);
        if self.ring.len() > KEYS_MAX {
            let lowest = *self.ring.iter().filter(|n| **n != 0).min().unwrap();
            self.ring.retain(|n| *n != lowest);
        }
        self.tell_ring();
    }

    fn roles_on(&self, user: usize, on: Where) -> BTreeSet<usize> {
        let is_of = |whom: &Whom| match whom {
            Whom::User(n) => *n == user,
            Whom::Group => self.members.contains(&user),
        };
        let given = self.grants.iter().filter(|(whom, there, _)| is_of(whom) && *there == on);
        given.flat_map(|(.., role)| IMPLIED[*role].iter().copied()).collect()
    }

    fn may_come_in(&self, user: usize) -> bool {
        self.user_enabled[user] && self.domain_enabled[self.users[user].2]
    }

    /// The roles a session has, or nothing where it is none.
    fn stands(&self, token: &Token) -> Option<BTreeSet<usize>> {
        let user = token.user;
        if !self.may_come_in(user) {
            return None;
        }
        let Some(on) = token.scope else { return Some(BTreeSet::new()) };
        let is_open = match on {
            Where::Project(n) => self.project_enabled[n] && self.domain_enabled[self.projects[n].1],
            Where::Domain(n) => self.domain_enabled[n],
            Where::System => true,
        };
        let mut roles = self.roles_on(user, on);
        if let Some(n) = token.trust {
            let trust = &self.trusts[n];
            let is_over = trust.expires != 0 && trust.expires <= self.now();
            if !trust.is_there || is_over || !self.may_come_in(trust.trustor) || trust.trustee != user {
                return None;
            }
            roles = trust.roles.iter().flat_map(|role| IMPLIED[*role].iter().copied()).collect();
            if !roles.is_subset(&self.roles_on(trust.trustor, on)) {
                return None;
            }
        }
        if let Some(n) = token.credential {
            let delegation = &self.credentials[n];
            if !delegation.is_there {
                return None;
            }
            let given: BTreeSet<usize> =
                delegation.roles.iter().flat_map(|role| IMPLIED[*role].iter().copied()).collect();
            roles = roles.intersection(&given).copied().collect();
        }
        (is_open && !roles.is_empty()).then_some(roles)
    }

    fn is_revoked(&self, token: &Token) -> bool {
        let domain_of_scope = match token.scope {
            Some(Where::Project(n)) => Some(self.projects[n].1),
            Some(Where::Domain(n)) => Some(n),
            _ => None,
        };
        let trust = token.trust.map(|n| &self.trusts[n]);
        let is_of =
            |id| id == self.users[token.user].1 || trust.is_some_and(|t| id == self.users[t.trustor].1);
        let is_in = |id| {
            let of_trustor = trust.map(|trust| self.users[trust.trustor].2);
            let domains = [Some(self.users[token.user].2), domain_of_scope, of_trustor];
            domains.into_iter().flatten().any(|n| self.domains[n].1 == id)
        };
        self.events.iter().any(|event| {
            let is_meant = match event.mark {
                Revoked::Token(id) => id == token.own,
                Revoked::Chain(id) => id == token.chain,
                Revoked::User(id) => is_of(id),
                Revoked::Project(id) => {
                    matches!(token.scope, Some(Where::Project(n)) if self.projects[n].0 == id)
                }
                Revoked::Domain(id) => is_in(id),
                Revoked::Trust(id) => trust.is_some_and(|trust| trust.id == id),
                Revoked::Consumer(_) => false,
            };
            is_meant && token.issued_at <= event.before
        })
    }

    fn expected(&self, token: &Token) -> Option<BTreeSet<usize>> {
        let is_read = self.ring.contains(&token.key) && self.now() < token.expires_at;
        if !is_read || self.is_revoked(token) {
            return None;
        }
        self.stands(token)
    }

    fn scope_of(&self, scope: Option<Where>) -> Scope {
        match scope {
            None => Scope::Unscoped,
            Some(Where::Project(n)) => Scope::Project(self.projects[n].0),
            Some(Where::Domain(n)) => Scope::Domain(self.domains[n].1),
            Some(Where::System) => Scope::System,
        }
    }

    fn found_roles(&self, session: &Session) -> BTreeSet<usize> {
        let number = |id| self.roles.iter().position(|known| *known == id).unwrap();
        session.roles.iter().map(|role| number(role.id)).collect()
    }

    fn come_in_by(&self, token: &Token) -> Result<Visit, &'static str> {
        let ask = SessionAsk { token: Secret::new(token.text.as_bytes()).unwrap() };
        let visit = self.house.house.admit_session(&ask, Ipv4Addr::LOCALHOST.into());
        visit.map_err(|refusal| refusal.code())
    }

    fn check(&self, token: &Token) {
        let expected = self.expected(token);
        match self.come_in_by(token) {
            Ok(visit) => {
                let session = visit.identity().session().unwrap();
                assert_eq!(Some(self.found_roles(session)), expected, "{token:?}");
            }
            Err(code) => assert_eq!(None, expected, "refused with {code}: {token:?}"),
        }
    }

    /// A session of the visit; what comes of it is what the model says.
    async fn issue(&mut self, visit: Visit, parent: Option<Token>, mut token: Token, wanted: Wanted) {
        let mut visit = visit;
        token.issued_at = self.now();
        token.key = *self.ring.iter().max().unwrap();
        let roles = self.stands(&token);
        // Everything of this second may be revoked: then there is nothing to be had before the next, which never comes here.
        if roles.is_some() && self.is_revoked(&token) {
            let waiting = tokio::time::timeout(Duration::from_millis(3), visit.issue(wanted)).await;
            assert!(waiting.is_err(), "{waiting:?}: {token:?}");
            self.waited += 1;
            return;
        }
        match visit.issue(wanted).await {
            Ok(made) => {
                let claim = &made.session.claim;
                assert_eq!(Some(self.found_roles(&made.session)), roles, "{token:?}");
                assert_eq!(claim.expires_at, token.expires_at, "{token:?}");
                if let Some(parent) = &parent {
                    assert!(claim.expires_at <= parent.expires_at && claim.chain() == parent.chain);
                }
                token.own = claim.audit.own;
                token.chain = claim.chain();
                token.text = made.token;
                self.tokens.push(token);
            }
            Err(refusal) => {
                assert_eq!((refusal.code(), roles), ("ID19", None), "{token:?}");
            }
        }
    }

    fn mark(&mut self, mark: Revoked) {
        let before = self.now();
        self.events.push(Event { mark, before });
    }

    fn some_scope(dice: &mut Dice) -> Option<Where> {
        match dice.roll(8) {
            0 => None,
            1 => Some(Where::Domain(dice.roll(2))),
            2 => Some(Where::System),
            _ => Some(Where::Project(dice.roll(PROJECTS))),
        }
    }

    /// One in a while; of those somebody gives this user most often.
    fn some_trust(&self, dice: &mut Dice, user: usize) -> Option<usize> {
        if self.trusts.is_empty() || dice.roll(5) != 0 {
            return None;
        }
        let of_user = |n: &usize| self.trusts[*n].trustee == user;
        let latest = (0..self.trusts.len()).rev().find(of_user).filter(|_| dice.roll(4) != 0);
        latest.or_else(|| Some(dice.roll(self.trusts.len())))
    }

    fn by_trust(&self, n: usize) -> (Option<Where>, Wanted) {
        (Some(Where::Project(self.trusts[n].project)), Wanted::Trust(self.trusts[n].id))
    }

    fn end_of(&self, trust: Option<usize>) -> i64 {
        trust.map(|n| self.trusts[n].expires).filter(|end| *end != 0).unwrap_or(i64::MAX)
    }

    async fn login(&mut self, dice: &mut Dice) {
        let (user, mut scope) = (dice.roll(USERS), Self::some_scope(dice));
        let mut wanted = Wanted::Scope(self.scope_of(scope));
        let trust = self.some_trust(dice, user);
        if let Some(n) = trust {
            (scope, wanted) = self.by_trust(n);
        }
        let ask = Ask { authid: self.users[user].0.clone().into(), secret: Secret::new(b"pw").unwrap() };
        let visit = self.house.come_in(ask).await;
        let may = self.may_come_in(user);
        assert_eq!(visit.is_ok(), may);
        let Ok(visit) = visit else { return };
        let token = Token {
            text: String::new(),
            user,
            scope,
            credential: None,
            trust,
            is_child: false,
            issued_at: 0,
            expires_at: (self.now() + LIFETIME).min(self.end_of(trust)),
            own: [0; 16],
            chain: [0; 16],
            key: 0,
        };
        self.issue(visit, None, token, wanted).await;
    }

    async fn login_by_credential(&mut self, dice: &mut Dice) {
        if self.credentials.is_empty() {
            return;
        }
        let n = dice.roll(self.credentials.len());
        let delegation = self.credentials[n].clone();
        let userid = &self.users[delegation.user].0;
        let name = format!("{userid}!c{n}");
        let ask = Ask {
            authid: name.parse::<Authid>().unwrap(),
            secret: Secret::new(delegation.secret.as_bytes()).unwrap(),
        };
        let visit = self.house.come_in(ask).await;
        let may = delegation.is_there && self.may_come_in(delegation.user);
        assert_eq!(visit.is_ok(), may);
        let Ok(visit) = visit else { return };
        let token = Token {
            text: String::new(),
            user: delegation.user,
            scope: Some(Where::Project(delegation.project)),
            credential: Some(n),
            trust: None,
            is_child: false,
            issued_at: 0,
            expires_at: self.now() + LIFETIME,
            own: [0; 16],
            chain: [0; 16],
            key: 0,
        };
        self.issue(visit, None, token, Wanted::Usual).await;
    }

    async fn rescope(&mut self, dice: &mut Dice) {
        if self.tokens.is_empty() {
            return;
        }
        let parent = self.tokens[dice.roll(self.tokens.len())].clone();
        let mut scope = Self::some_scope(dice);
        let mut wanted = Wanted::Scope(self.scope_of(scope));
        let trust = self.some_trust(dice, parent.user);
        if let Some(n) = trust {
            (scope, wanted) = self.by_trust(n);
        }
        let visit = self.come_in_by(&parent);
        assert_eq!(visit.is_ok(), self.expected(&parent).is_some(), "{parent:?}");
        let Ok(mut visit) = visit else { return };
        let leaves_system = parent.scope == Some(Where::System) && scope != Some(Where::System);
        if parent.credential.is_some() || parent.trust.is_some() || leaves_system {
            let refusal = visit.issue(wanted).await.unwrap_err();
            assert_eq!(refusal.code(), "ID20");
            return;
        }
        let expires_at = parent.expires_at.min(self.end_of(trust));
        let token = Token { scope, trust, expires_at, is_child: true, own: [0; 16], ..parent.clone() };
        self.issue(visit, Some(parent), token, wanted).await;
    }

    async fn step(&mut self, dice: &mut Dice) {
        match dice.roll(100) {
            0..=14 => self.login(dice).await,
            15..=24 => self.login_by_credential(dice).await,
            25..=44 => self.rescope(dice).await,
            45..=64 => self.change(dice),
            65..=74 => self.revoke(dice),
            75 => {
                self.rotate();
            }
            76 if dice.roll(20) == 0 => {
                let user = dice.roll(USERS);
                let password = Secret::new(b"another").unwrap();
                enfilade_admin::set_password(&self.house.desk(), &self.users[user].0, &password).unwrap();
                self.mark(Revoked::User(self.users[user].1));
                self.give_cheap_password(user);
            }
            76 => {
                let lifetime = LIFETIME + 1;
                admin::purge_revocations(&self.house.desk(), lifetime).unwrap();
            }
            77..=90 => self.house.clock.advance_seconds(1),
            91 => self.house.clock.advance_seconds(dice.roll(1_800) as u64),
            _ => {}
        }
        for _ in 0..3.min(self.tokens.len()) {
            let token = self.tokens[dice.roll(self.tokens.len())].clone();
            self.check(&token);
        }
        // What is over for long is of no interest; and so that schedules meet, there are not many.
        if self.tokens.len() > 40 {
            self.tokens.iter().for_each(|token| self.check(token));
            let now = self.now();
            self.tokens.retain(|token| now < token.expires_at + 10);
            let surplus = self.tokens.len().saturating_sub(30);
            self.tokens.drain(..surplus);
        }
        if self.events.len() > 200 {
            let over = self.now() - LIFETIME - 1;
            self.events.retain(|event| event.before >= over);
        }
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[tokio::test]
async fn sessions_are_what_a_model_says_that_scans_everything() {
    let (steps, seed) = (number("ENFILADE_CAMPAIGN_N", 10_000), number("ENFILADE_CAMPAIGN_SEED", 2_026));
    let mut dice = Dice(seed.wrapping_mul(2) + 1);
    let mut world = World::new();
    let (mut made, mut began) = (BTreeMap::<&str, u64>::new(), 0_usize);
    for step in 0..steps {
        let before = world.tokens.len();
        world.step(&mut dice).await;
        if world.tokens.len() > before {
            let token = world.tokens.last().unwrap();
            let kind = match (token.credential, token.is_child) {
                (Some(_), _) => "by credential",
                (None, _) if token.trust.is_some() => "by trust",
                (None, true) => "of another",
                (None, false) => "by password",
            };
            *made.entry(kind).or_default() += 1;
        }
        if steps > 100_000 && step as usize / 100_000 > began {
            began = step as usize / 100_000;
            println!("{step} of {steps} steps");
        }
    }
    // A schedule in which nothing comes about would show nothing.
    for (kind, share) in
        [("by password", 100), ("by credential", 100), ("of another", 100), ("by trust", 400)]
    {
        assert!(made.get(kind).copied().unwrap_or(0) * share > steps, "{made:?} of {steps}");
    }
    assert!(world.waited > 0);
    println!("{steps} steps, sessions made: {made:?}, waited: {}, 0 differences", world.waited);
}
