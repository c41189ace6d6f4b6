//! What the model knows of what was given and taken.

use super::World;
use enfilade_facts::limits::CLOCK_SKEW_SECONDS;
use enfilade_facts::tables::Revoked;
use enfilade_facts::vocabulary::{CredentialId, GroupId, GroupName, TrustId};
use std::collections::BTreeSet;

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % sides
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Where {
    Project(usize),
    Domain(usize),
    System,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whom {
    User(usize),
    /// By its number among the groups.
    Group(usize),
}

/// A group, and the domain it is in by its number among the domains.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) name: GroupName,
    pub(crate) id: GroupId,
    pub(crate) domain: usize,
}

/// Something that was revoked, with the second up to which.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) mark: Revoked,
    pub(crate) before: i64,
}

/// What was taken from somebody: for a session from before it is gone, though it was given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Grant(Whom, Where, usize),
    /// The one group out of the other.
    Nested(usize, usize),
    /// A role that another implied.
    Implied(usize, usize),
    /// Whatever groups of this domain gave: it was disabled.
    Domain(usize),
    /// Whatever was made with this credential: it was disabled, or has another secret.
    Credential(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) user: usize,
    pub(crate) scope: Option<Where>,
    pub(crate) credential: Option<usize>,
    pub(crate) trust: Option<usize>,
    /// Whether it came of a token.
    pub(crate) is_child: bool,
    pub(crate) issued_at: i64,
    pub(crate) expires_at: i64,
    pub(crate) own: [u8; 16],
    pub(crate) chain: [u8; 16],
    pub(crate) key: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Delegation {
    pub(crate) id: CredentialId,
    pub(crate) secret: String,
    pub(crate) user: usize,
    pub(crate) project: usize,
    pub(crate) roles: BTreeSet<usize>,
    pub(crate) is_there: bool,
    pub(crate) enabled: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Trust {
    pub(crate) id: TrustId,
    pub(crate) trustor: usize,
    pub(crate) trustee: usize,
    pub(crate) project: usize,
    pub(crate) roles: BTreeSet<usize>,
    /// 0 is for ever.
    pub(crate) expires: i64,
    pub(crate) is_there: bool,
}

/// What the model says: it looks through everything that ever happened.
impl World {
    /// Whether it was taken in the second a session was issued, or later.
    pub(crate) fn is_lost(&self, what: Taken, issued_at: i64) -> bool {
        self.taken.iter().any(|(taken, at)| *taken == what && issued_at <= *at)
    }

    /// The groups a session has: those that are there, by whatever was not taken since.
    pub(crate) fn groups_of(&self, user: usize, issued_at: i64) -> BTreeSet<usize> {
        let counts = |group: &usize| {
            let domain = self.groups[*group].as_ref().map(|group| group.domain);
            domain.is_some_and(|domain| !self.is_lost(Taken::Domain(domain), issued_at))
        };
        let direct = self.members.iter().filter(|(_, member)| *member == user).map(|(group, _)| *group);
        let mut found: BTreeSet<usize> = direct.filter(counts).collect();
        loop {
            let by_nesting = self.nested.iter().filter(|(inner, outer)| {
                found.contains(inner) && !self.is_lost(Taken::Nested(*inner, *outer), issued_at)
            });
            let more: BTreeSet<usize> = by_nesting.map(|(_, outer)| *outer).filter(counts).collect();
            if more.is_subset(&found) {
                return found;
            }
            found.extend(more);
        }
    }

    pub(crate) fn with_implied(
        &self,
        roles: impl IntoIterator<Item = usize>,
        issued_at: i64,
    ) -> BTreeSet<usize> {
        let mut found: BTreeSet<usize> = roles.into_iter().collect();
        loop {
            let implied = self.implied.iter().filter(|(role, implied)| {
                found.contains(role) && !self.is_lost(Taken::Implied(*role, *implied), issued_at)
            });
            let more: BTreeSet<usize> = implied.map(|(_, implied)| *implied).collect();
            if more.is_subset(&found) {
                return found;
            }
            found.extend(more);
        }
    }

    pub(crate) fn roles_on(&self, user: usize, on: Where, issued_at: i64) -> BTreeSet<usize> {
        let groups = self.groups_of(user, issued_at);
        let gives =
            |group: usize| self.groups[group].as_ref().is_some_and(|group| self.domain_enabled[group.domain]);
        let is_of = |whom: &Whom| match whom {
            Whom::User(n) => *n == user,
            Whom::Group(n) => groups.contains(n) && gives(*n),
        };
        let given = self.grants.iter().filter(|(whom, there, role)| {
            is_of(whom) && *there == on && !self.is_lost(Taken::Grant(*whom, *there, *role), issued_at)
        });
        self.with_implied(given.map(|(.., role)| *role), issued_at)
    }

    pub(crate) fn may_come_in(&self, user: usize) -> bool {
        self.user_enabled[user] && self.domain_enabled[self.users[user].2]
    }

    /// The roles a session has that was issued at this second, or nothing where it is none.
    pub(crate) fn stands(&self, token: &Token, issued_at: i64) -> Option<BTreeSet<usize>> {
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
        let mut roles = self.roles_on(user, on, issued_at);
        if let Some(n) = token.trust {
            let trust = &self.trusts[n];
            let is_over = trust.expires != 0 && trust.expires <= self.now();
            if !trust.is_there || is_over || !self.may_come_in(trust.trustor) || trust.trustee != user {
                return None;
            }
            roles = self.with_implied(trust.roles.iter().copied(), issued_at);
            if !roles.is_subset(&self.roles_on(trust.trustor, on, issued_at)) {
                return None;
            }
        }
        if let Some(n) = token.credential {
            let delegation = &self.credentials[n];
            if !delegation.is_there || !delegation.enabled {
                return None;
            }
            let given = self.with_implied(delegation.roles.iter().copied(), issued_at);
            roles = roles.intersection(&given).copied().collect();
        }
        (is_open && !roles.is_empty()).then_some(roles)
    }

    pub(crate) fn is_revoked(&self, token: &Token) -> bool {
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
        let of_credential = token.credential.map(Taken::Credential);
        let is_old_secret = of_credential.is_some_and(|taken| self.is_lost(taken, token.issued_at));
        let is_marked = self.events.iter().any(|event| {
            let is_meant = match event.mark {
                Revoked::Token(id) => id == token.own,
                Revoked::Chain(id) => id == token.chain,
                Revoked::User(id) => is_of(id),
                Revoked::Project(id) => {
                    matches!(token.scope, Some(Where::Project(n)) if self.projects[n].0 == id)
                }
                Revoked::Domain(id) => is_in(id),
                Revoked::Trust(id) => trust.is_some_and(|trust| trust.id == id),
                Revoked::Consumer(_)
                | Revoked::Credential(_)
                | Revoked::Group(_)
                | Revoked::Role(_)
                | Revoked::Link(_) => false,
            };
            // Who has one token in mind means it, whatever any clock says.
            let is_one = matches!(event.mark, Revoked::Token(_) | Revoked::Chain(_) | Revoked::Trust(_));
            is_meant && (is_one || token.issued_at <= event.before)
        });
        is_marked || is_old_secret
    }

    pub(crate) fn expected(&self, token: &Token) -> Option<BTreeSet<usize>> {
        let is_in_time = (token.issued_at - CLOCK_SKEW_SECONDS..token.expires_at).contains(&self.now());
        let is_read = self.ring.contains(&token.key) && is_in_time;
        if !is_read || self.is_revoked(token) {
            return None;
        }
        self.stands(token, token.issued_at)
    }
}
