//! Tests sessions: the server must grant the same as a model that stores every event and searches all events each time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a campaign says how far it is")]

mod changes;
mod model;
mod reasons;
mod trees;

use enfilade_admin::NewUser;
use enfilade_admin::keystone as admin;
use enfilade_facts::tables::{Revocation, Revoked};
use enfilade_facts::vocabulary::{
    Authid, DomainId, GroupId, ProjectId, Realm, RoleId, Secret, UserId, Userid,
};
use enfilade_facts::{Horizon, Read, Refuse};
use enfilade_identity::fernet::frame;
use enfilade_identity::fernet::payload::Audit;
use enfilade_identity::{Claim, Methods, Scope, SecretAsk, Session, Wanted};
use enfilade_passage::{KeyRing, Refusal, Visit};
use enfilade_testkit::{Remembering, TestHouse};
use model::{Delegation, Dice, Ended, Event, Group, Holder, Issued, Taken, Token, Trust, Where};
use std::collections::{BTreeMap, BTreeSet};

const LIFETIME: i64 = 3_600;
const USERS: usize = 4;
const PROJECTS: usize = 3;
const ROLES: [&str; 4] = ["admin", "member", "reader", "auditor"];
/// The implications at the start, as pairs of indices: a role, and the role that it implies.
const IMPLIED: [(usize, usize); 2] = [(0, 1), (1, 2)];
const GROUPS: [&str; 3] = ["staff@Default", "nested@Default", "crew@guests"];
/// The index of the guests' domain, which is deleted and created again with its group.
const GUESTS: usize = 2;
const KEYS_MAX: usize = 3;

/// The server, and the model of its records and events.
struct World {
    house: TestHouse,
    domains: [(Realm, DomainId); 3],
    users: Vec<(Userid, UserId, usize)>,
    projects: Vec<(ProjectId, usize)>,
    roles: Vec<RoleId>,
    // The following fields are the state of the model.
    user_enabled: [bool; USERS],
    domain_enabled: [bool; 3],
    project_enabled: [bool; PROJECTS],
    /// The groups; `None` for a group that does not exist at present.
    groups: [Option<Group>; 3],
    /// Each user in a group: the index of the group, and the index of the user.
    members: BTreeSet<(usize, usize)>,
    /// Each group in a group: the index of the inner group, and the index of the outer group.
    nested: BTreeSet<(usize, usize)>,
    implied: BTreeSet<(usize, usize)>,
    grants: BTreeSet<(Holder, Where, usize)>,
    credentials: Vec<Delegation>,
    trusts: Vec<Trust>,
    events: Vec<Event>,
    taken: Vec<(Taken, Ended)>,
    /// The number of events so far. It is the place of the newest event in the order of events.
    places: u64,
    /// The number of seconds by which the wall clock is ahead of the right time.
    wall: i64,
    ring: Vec<u32>,
    tokens: Vec<Token>,
    /// The number of sessions with an issue time later than the clock. The reason is a mark in the present second, or a clock that was set back.
    later: u64,
}

/// Creates the group `GROUPS[n]`.
fn make_group(house: &TestHouse, n: usize) -> Group {
    let name: enfilade_facts::vocabulary::GroupName = GROUPS[n].parse().unwrap();
    let (id, _) = enfilade_admin::add_group(&house.change_context(), &name, None, None, None).unwrap();
    Group { name, id, domain: if n == GUESTS { GUESTS } else { 0 } }
}

impl World {
    fn new() -> Self {
        let house = TestHouse::new(Remembering::AsServed);
        let ctx = house.change_context();
        let domains = ["Default", "other", "guests"].map(|name| {
            let realm: Realm = name.parse().unwrap();
            let id = (name == "Default").then_some(DomainId::DEFAULT);
            let (id, _) = admin::add_domain(&ctx, &realm, id).unwrap();
            (realm, id)
        });
        let users: Vec<_> = (0..USERS)
            .map(|n| {
                let domain = usize::from(n == USERS - 1);
                let userid: Userid = format!("user{n}@{}", domains[domain].0).parse().unwrap();
                let new = NewUser::named(userid.clone());
                let (id, _) = enfilade_admin::add_user(&ctx, &new).unwrap();
                (userid, id, domain)
            })
            .collect();
        let projects = (0..PROJECTS)
            .map(|n| {
                let domain = usize::from(n == PROJECTS - 1);
                let made = admin::add_project(&ctx, &domains[domain].0, &format!("project{n}"), None);
                (made.unwrap().0, domain)
            })
            .collect();
        let roles = ROLES.iter().map(|role| admin::add_role(&ctx, role, None).unwrap().0).collect();
        admin::add_implication(&ctx, "admin", "member").unwrap();
        admin::add_implication(&ctx, "member", "reader").unwrap();
        let groups = [0, 1, 2].map(|n| Some(make_group(&house, n)));
        let world = World {
            house,
            domains,
            users,
            projects,
            roles,
            user_enabled: [true; USERS],
            domain_enabled: [true; 3],
            project_enabled: [true; PROJECTS],
            groups,
            members: BTreeSet::new(),
            nested: BTreeSet::new(),
            implied: IMPLIED.into(),
            grants: BTreeSet::new(),
            credentials: Vec::new(),
            trusts: Vec::new(),
            events: Vec::new(),
            taken: Vec::new(),
            ring: vec![0, 1],
            tokens: Vec::new(),
            places: 0,
            wall: 0,
            later: 0,
        };
        (0..USERS).for_each(|user| world.give_cheap_password(user));
        world.tell_ring();
        world
    }

    fn now(&self) -> i64 {
        self.house.clock.now().unix_seconds
    }

    fn next_place(&mut self) -> u64 {
        self.places += 1;
        self.places
    }

    /// The present moment, as the time of a revocation or a removal.
    fn ended(&mut self) -> Ended {
        Ended { place: self.next_place(), last: self.last_issue() }
    }

    /// The latest issue time that a token may have now.
    fn last_issue(&self) -> i64 {
        self.house.facts().read(Horizon::of).unwrap().unwrap().last_issue(self.now())
    }

    /// The second up to which marks of expired tokens were purged.
    fn purged(&self) -> i64 {
        let passed = self.house.facts().read(|view| view.get::<Revocation>(&Revoked::Passed));
        let purged = passed.unwrap().unwrap().map_or(i64::MIN, |passed| passed.issued_before);
        assert!(purged <= self.now() - self.wall, "marks were purged up to a time in the future");
        purged
    }

    fn give_cheap_password(&self, user: usize) {
        self.house.give_cheap_password(&self.users[user].1);
    }

    fn tell_ring(&self) {
        self.house.house.set_keys(Some(self.keys()));
    }

    fn keys(&self) -> KeyRing {
        let bytes_of = |n: u32| std::array::from_fn(|at| n.to_be_bytes()[at % 4]);
        let bytes: Vec<(u32, [u8; 32])> = self.ring.iter().map(|n| (*n, bytes_of(*n))).collect();
        let keys: Vec<_> = bytes.iter().map(|(n, bytes)| (*n, bytes)).collect();
        KeyRing::new(&keys).unwrap()
    }

    /// Key 0 gets a number above all others, and a new key 0 is created. If there are too many keys, the key with the lowest number above 0 is
    /// deleted.
    fn rotate(&mut self) {
        // In this test, the bytes of a key follow from its number. In Keystone, the old key 0 keeps its bytes under its new number.
        let next = self.ring.iter().max().unwrap() + 1;
        self.ring.push(next);
        if self.ring.len() > KEYS_MAX {
            let lowest = *self.ring.iter().filter(|n| **n != 0).min().unwrap();
            self.ring.retain(|n| *n != lowest);
        }
        self.tell_ring();
    }

    fn scope_of(&self, scope: Option<Where>) -> Scope {
        match scope {
            None => Scope::Unscoped,
            Some(Where::Project(n)) => Scope::Project(self.projects[n].0),
            Some(Where::Domain(n)) => Scope::Domain(self.domains[n].1),
            Some(Where::System) => Scope::System,
            Some(Where::Below(_)) => panic!("no session has the scope of all projects of a domain"),
        }
    }

    fn found_roles(&self, session: &Session) -> BTreeSet<usize> {
        let number = |id| self.roles.iter().position(|known| *known == id).unwrap();
        session.roles.iter().map(|role| number(role.id)).collect()
    }

    /// Authenticates. On a busy machine the gate may refuse to compute the hash. In that case the login is repeated.
    async fn come_in(&self, ask: SecretAsk) -> Result<Visit, &'static str> {
        loop {
            match self.house.come_in(ask.clone()).await.map_err(|refusal| refusal.code()) {
                Err("ID09") => {}
                answer => return answer,
            }
        }
    }

    fn ask(&self, token: &Token) -> Result<Visit, Refusal> {
        self.house.come_in_by(token.text.as_bytes())
    }

    fn come_in_by(&self, token: &Token) -> Result<Visit, &'static str> {
        self.ask(token).map_err(|refusal| refusal.code())
    }

    fn check(&self, token: &Token) {
        let expected = self.expected(token);
        assert!(expected.is_none() || !token.has_lost, "it lost something: {token:?}");
        match self.come_in_by(token) {
            Ok(visit) => {
                let session = visit.identity().session().unwrap();
                assert_eq!(Some(self.found_roles(session)), expected, "{token:?}");
                let is =
                    |group: &Option<Group>, id: &GroupId| group.as_ref().is_some_and(|group| group.id == *id);
                let number = |id: &GroupId| self.groups.iter().position(|group| is(group, id)).unwrap();
                let groups: BTreeSet<usize> = visit.principal().groups.iter().map(number).collect();
                assert_eq!(groups, self.groups_of(token.user), "{token:?}");
            }
            Err(code) => {
                assert!(expected.is_none(), "refused with {code}: {token:?}\n{}", self.reasons(token));
            }
        }
    }

    /// Issues a session. The outcome must equal the outcome of the model.
    async fn issue(&mut self, visit: Visit, parent: Option<Token>, mut token: Token, wanted: Wanted) {
        let mut visit = visit;
        token.key = *self.ring.iter().max().unwrap();
        let now = self.now();
        token.issued = Issued { place: Some(self.next_place()), second: now };
        // A session is issued at once, even right after a revocation, and even if the clock is wrong.
        let roles = self.stands(&token, true);
        let is_over = roles.is_some() && !self.ends_later(&token);
        match visit.issue(wanted).await {
            Ok(made) => {
                assert!(!is_over, "{token:?}");
                let claim = &made.session.claim;
                assert_eq!(Some(self.found_roles(&made.session)), roles, "{token:?}");
                assert_eq!(claim.expires_at, token.expires_at, "{token:?}");
                assert!(now <= claim.issued_at && claim.issued_at <= self.last_issue(), "{token:?}");
                if let Some(parent) = &parent {
                    assert!(claim.expires_at <= parent.expires_at && claim.chain() == parent.chain);
                }
                self.later += u64::from(now < claim.issued_at);
                token.issued.second = claim.issued_at;
                token.own = claim.audit.own;
                token.chain = claim.chain();
                token.text = made.token;
                token.held = self.held(&token);
                self.check(&token);
                self.tokens.push(token);
            }
            // The clock is so far behind that a session would end before the last purge.
            Err(refusal) if is_over => assert_eq!(refusal.code(), "ID27", "{token:?}"),
            Err(refusal) => {
                assert_eq!((refusal.code(), roles), ("ID19", None), "{token:?}");
            }
        }
    }

    fn mark(&mut self, mark: Revoked) {
        let ended = self.ended();
        self.events.retain(|event| event.mark != mark);
        self.events.push(Event { mark, ended });
    }

    fn take(&mut self, what: Taken) {
        let ended = self.ended();
        self.taken.retain(|(taken, _)| *taken != what);
        self.taken.push((what, ended));
        // Lost rights are recorded now, before the same right may be granted again.
        self.note_losses();
    }

    /// Adds a token of another server with the same keys and another clock.
    fn foreign(&mut self, dice: &mut Dice) {
        let (user, scope) = (dice.roll(USERS), Self::some_scope(dice));
        let issued_at = self.now() + dice.roll(14) as i64 - 4;
        let claim = Claim {
            user: self.users[user].1,
            methods: Methods::PASSWORD,
            scope: self.scope_of(scope),
            lent: None,
            issued_at,
            expires_at: issued_at + LIFETIME,
            audit: Audit { own: std::array::from_fn(|_| dice.roll(256) as u8), chain: None },
        };
        let text = frame::seal(&self.keys(), issued_at as u64, [5; 16], &claim.to_payload()).unwrap();
        let (own, expires_at) = (claim.audit.own, claim.expires_at);
        let key = *self.ring.iter().max().unwrap();
        let (credential, trust, is_child, chain) = (None, None, false, own);
        self.tokens.push(Token {
            text,
            user,
            scope,
            credential,
            trust,
            is_child,
            issued: Issued { place: None, second: issued_at },
            expires_at,
            own,
            chain,
            key,
            held: None,
            has_lost: false,
        });
        self.note_losses();
    }

    fn some_scope(dice: &mut Dice) -> Option<Where> {
        match dice.roll(8) {
            0 => None,
            1 => Some(Where::Domain(dice.roll(2))),
            2 => Some(Where::System),
            _ => Some(Where::Project(dice.roll(PROJECTS))),
        }
    }

    /// Returns a trust in some cases. Most often it is a trust for this user.
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
        let ask =
            SecretAsk { authid: self.users[user].0.clone().into(), secret: Secret::new(b"pw").unwrap() };
        let visit = self.come_in(ask).await;
        let may = self.may_come_in(user);
        assert_eq!(visit.is_ok(), may, "{:?}", visit.err());
        let Ok(visit) = visit else { return };
        let token = Token {
            text: String::new(),
            user,
            scope,
            credential: None,
            trust,
            is_child: false,
            issued: Issued { place: None, second: 0 },
            expires_at: (self.now() + LIFETIME).min(self.end_of(trust)),
            own: [0; 16],
            chain: [0; 16],
            key: 0,
            held: None,
            has_lost: false,
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
        let ask = SecretAsk {
            authid: name.parse::<Authid>().unwrap(),
            secret: Secret::new(delegation.secret.as_bytes()).unwrap(),
        };
        let visit = self.come_in(ask).await;
        let may = delegation.is_there && delegation.enabled && self.may_come_in(delegation.user);
        assert_eq!(visit.is_ok(), may, "{:?}", visit.err());
        let Ok(visit) = visit else { return };
        let token = Token {
            text: String::new(),
            user: delegation.user,
            scope: Some(Where::Project(delegation.project)),
            credential: Some(n),
            trust: None,
            is_child: false,
            issued: Issued { place: None, second: 0 },
            expires_at: self.now() + LIFETIME,
            own: [0; 16],
            chain: [0; 16],
            key: 0,
            held: None,
            has_lost: false,
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
        let token = Token {
            scope,
            trust,
            expires_at,
            is_child: true,
            own: [0; 16],
            has_lost: false,
            ..parent.clone()
        };
        self.issue(visit, Some(parent), token, wanted).await;
    }

    async fn step(&mut self, dice: &mut Dice) {
        match dice.roll(100) {
            0..=14 => self.login(dice).await,
            15..=24 => self.login_by_credential(dice).await,
            25..=44 => self.rescope(dice).await,
            45..=64 => {
                self.change(dice);
                self.note_losses();
            }
            65..=74 => self.revoke(dice),
            75 => {
                self.rotate();
            }
            76 if dice.roll(20) == 0 => {
                let user = dice.roll(USERS);
                let password = Secret::new(b"another").unwrap();
                enfilade_admin::set_password(&self.house.change_context(), &self.users[user].0, &password)
                    .unwrap();
                self.mark(Revoked::User(self.users[user].1));
                self.give_cheap_password(user);
            }
            76 => {
                admin::purge_revocations(&self.house.change_context(), 0).unwrap();
            }
            77..=90 => self.house.clock.advance_seconds(1),
            91 => self.house.clock.advance_seconds(dice.roll(1_800) as u64),
            92 => self.set_clock(dice),
            93..=94 => self.foreign(dice),
            _ => {}
        }
        for _ in 0..3.min(self.tokens.len()) {
            let token = self.tokens[dice.roll(self.tokens.len())].clone();
            self.check(&token);
        }
        // Drops expired tokens, and keeps only a few tokens, so that the events often concern known tokens.
        if self.tokens.len() > 40 {
            self.tokens.iter().for_each(|token| self.check(token));
            let now = self.now();
            self.tokens.retain(|token| now < token.expires_at + 10);
            let surplus = self.tokens.len().saturating_sub(30);
            self.tokens.drain(..surplus);
        }
    }

    /// Sets the wall clock. The clock is set ahead or back, by a little or by days, and often to the right time again.
    fn set_clock(&mut self, dice: &mut Dice) {
        let most = [10, 10, 120, 8_000, 400_000][dice.roll(5)];
        let by = match self.wall {
            0 => dice.roll(2 * most + 1) as i64 - most as i64,
            wrong => -wrong,
        };
        self.wall += by;
        self.house.clock.set_wall(by);
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Prints the step at which a check failed.
struct Reached(u64);

impl Drop for Reached {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("a check failed at step {}", self.0);
        }
    }
}

#[tokio::test]
async fn sessions_are_what_a_model_says_that_scans_everything() {
    let (steps, seed) = (number("ENFILADE_CAMPAIGN_N", 10_000), number("ENFILADE_CAMPAIGN_SEED", 2_026));
    let mut dice = Dice(seed.wrapping_mul(2) + 1);
    let mut world = World::new();
    let (mut made, mut began) = (BTreeMap::<&str, u64>::new(), 0_usize);
    let mut reached = Reached(0);
    for step in 0..steps {
        reached.0 = step;
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
    // A run without successful steps would prove nothing.
    for (kind, share) in
        [("by password", 100), ("by credential", 100), ("of another", 100), ("by trust", 400)]
    {
        assert!(made.get(kind).copied().unwrap_or(0) * share > steps, "{made:?} of {steps}");
    }
    assert!(world.later > 0);
    println!(
        "{steps} steps, sessions made: {made:?}, with an issue time later than the clock: {}, 0 differences",
        world.later
    );
}
