//! The model of grants, removals and revocations.

use super::World;
use enfilade_facts::tables::Revoked;
use enfilade_facts::vocabulary::{CredentialId, DomainId, GroupId, GroupName, RoleId, TrustId};
use std::collections::BTreeSet;

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        // This is xorshift64*.
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
    /// Every project of this domain.
    Below(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    User(usize),
    /// The index of a group.
    Group(usize),
}

/// A group, with the index of its domain.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) name: GroupName,
    pub(crate) id: GroupId,
    pub(crate) domain: usize,
}

/// When a session was issued: its place in the order of events, and its second of issue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issued {
    /// `None` for a token of another server with the same keys. Such a server does not take part in the order of events.
    pub(crate) place: Option<u64>,
    pub(crate) second: i64,
}

/// When something was revoked or taken away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) place: u64,
    /// Tokens of other servers have ended if their second of issue is not later than this second.
    pub(crate) last: i64,
}

impl Ended {
    /// Whether a session was issued before this moment. For sessions of this server, the order of events decides, not a clock.
    pub(crate) fn is_about(self, issued: Issued) -> bool {
        issued.place.map_or(issued.second <= self.last, |place| place < self.place)
    }
}

/// Something that was revoked.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) mark: Revoked,
    pub(crate) ended: Ended,
}

/// A change that took rights away: earlier sessions that depend on the changed record have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A role of this holder on this scope was removed.
    Grant(Holder, Where),
    /// This group is no longer in another group, so its members lost the roles of the other group.
    Group(GroupId),
    /// This role no longer implies another role, or was deleted.
    Role(RoleId),
    /// This domain was disabled, so its groups grant nothing.
    Domain(DomainId),
    /// This credential was disabled, or has another secret.
    Credential(usize),
    /// A role that this trust lends was deleted.
    Trust(usize),
}

/// The rights of a session at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) roles: BTreeSet<usize>,
    pub(crate) groups: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) user: usize,
    pub(crate) scope: Option<Where>,
    pub(crate) credential: Option<usize>,
    pub(crate) trust: Option<usize>,
    /// Whether the token was issued for another token.
    pub(crate) is_child: bool,
    pub(crate) issued: Issued,
    pub(crate) expires_at: i64,
    pub(crate) own: [u8; 16],
    pub(crate) chain: [u8; 16],
    pub(crate) key: u32,
    /// The rights of the token after the last change.
    pub(crate) held: Option<Held>,
    /// Whether a change reduced the rights of the token. If so, the token has ended, even if the rest of the model disagrees.
    pub(crate) has_lost: bool,
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
    /// In seconds since the epoch; 0 if the trust does not expire.
    pub(crate) expires: i64,
    pub(crate) is_there: bool,
}

/// The verdicts of the model. The model searches all events for each verdict.
impl World {
    /// Whether the change `what` was made after a session was issued.
    pub(crate) fn is_marked(&self, what: Taken, issued: Issued) -> bool {
        self.taken.iter().any(|(taken, ended)| *taken == what && ended.is_about(issued))
    }

    /// The groups of a user, including groups that contain a group of the user.
    pub(crate) fn groups_of(&self, user: usize) -> BTreeSet<usize> {
        let direct = self.members.iter().filter(|(_, member)| *member == user);
        let mut found: BTreeSet<usize> = direct.map(|(group, _)| *group).collect();
        loop {
            let by_nesting = self.nested.iter().filter(|(inner, _)| found.contains(inner));
            let more: BTreeSet<usize> = by_nesting.map(|(_, outer)| *outer).collect();
            if more.is_subset(&found) {
                return found;
            }
            found.extend(more);
        }
    }

    pub(crate) fn with_implied(&self, roles: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
        let mut found: BTreeSet<usize> = roles.into_iter().collect();
        loop {
            let implied = self.implied.iter().filter(|(role, _)| found.contains(role));
            let more: BTreeSet<usize> = implied.map(|(_, implied)| *implied).collect();
            if more.is_subset(&found) {
                return found;
            }
            found.extend(more);
        }
    }

    /// A user, and the user's groups in enabled domains.
    fn holders(&self, user: usize) -> Vec<Holder> {
        let gives = |group: &usize| {
            self.groups[*group].as_ref().is_some_and(|group| self.domain_enabled[group.domain])
        };
        let groups = self.groups_of(user).into_iter().filter(gives).map(Holder::Group);
        [Holder::User(user)].into_iter().chain(groups).collect()
    }

    /// Grants of these scopes apply to this scope: the scope itself and, for a project, the scope "every project of its domain".
    fn nodes(&self, on: Where) -> Vec<Where> {
        match on {
            Where::Project(n) => vec![on, Where::Below(self.projects[n].1)],
            _ => vec![on],
        }
    }

    pub(crate) fn roles_on(&self, user: usize, on: Where) -> BTreeSet<usize> {
        let (holders, nodes) = (self.holders(user), self.nodes(on));
        let counts =
            |(holder, there, _): &&(Holder, Where, usize)| holders.contains(holder) && nodes.contains(there);
        self.with_implied(self.grants.iter().filter(counts).map(|(.., role)| *role))
    }

    /// Whether a group of the user, or the domain of such a group, has a mark that ends the session.
    fn is_over_by(&self, user: usize, issued: Issued) -> bool {
        self.groups_of(user).into_iter().filter_map(|n| self.groups[n].as_ref()).any(|group| {
            self.is_marked(Taken::Group(group.id), issued)
                || self.is_marked(Taken::Domain(self.domains[group.domain].1), issued)
        })
    }

    /// Like [`World::is_over_by`], but also considers grants on the scope.
    fn is_over_on(&self, user: usize, on: Where, issued: Issued) -> bool {
        let (holders, nodes) = (self.holders(user), self.nodes(on));
        let mut both =
            holders.iter().flat_map(|holder| nodes.iter().map(|node| Taken::Grant(*holder, *node)));
        self.is_over_by(user, issued)
            || both.any(|taken| self.is_marked(taken, issued))
            || self.is_over_with(&self.roles_on(user, on), issued)
    }

    fn is_over_with(&self, roles: &BTreeSet<usize>, issued: Issued) -> bool {
        roles.iter().any(|role| self.is_marked(Taken::Role(self.roles[*role]), issued))
    }

    /// Whether a mark ends the session. Only the records that the session depends on now are searched.
    pub(crate) fn is_over(&self, token: &Token) -> bool {
        let at = token.issued;
        let by_trust = |n: usize| {
            let trust = &self.trusts[n];
            self.is_marked(Taken::Trust(n), at)
                || self.is_over_on(trust.trustor, Where::Project(trust.project), at)
                || self.is_over_with(&self.with_implied(trust.roles.iter().copied()), at)
        };
        let by_credential = |n: usize| {
            let roles = self.with_implied(self.credentials[n].roles.iter().copied());
            self.is_marked(Taken::Credential(n), at) || self.is_over_with(&roles, at)
        };
        self.is_over_by(token.user, at)
            || token.trust.is_some_and(by_trust)
            || token.credential.is_some_and(by_credential)
            || token.trust.is_none() && token.scope.is_some_and(|on| self.is_over_on(token.user, on, at))
    }

    /// Called after each change: records which tokens lost rights. A token that lost a right has lost the right for good. Exception: tokens from
    /// another server with a clock that is further ahead than allowed.
    pub(crate) fn note_losses(&mut self) {
        let (mut tokens, ended) = (std::mem::take(&mut self.tokens), self.ended());
        for token in &mut tokens {
            let held = self.held(token);
            let is_less = match (&token.held, &held) {
                (Some(before), Some(now)) => {
                    !before.roles.is_subset(&now.roles) || !before.groups.is_subset(&now.groups)
                }
                (before, None) => before.is_some(),
                (None, Some(_)) => false,
            };
            token.has_lost |= is_less && ended.is_about(token.issued);
            token.held = held;
        }
        self.tokens = tokens;
    }

    /// The rights that a session would have now if neither marks nor time ended it.
    pub(crate) fn held(&self, token: &Token) -> Option<Held> {
        let roles = self.stands(token, false)?;
        Some(Held { roles, groups: self.groups_of(token.user) })
    }

    pub(crate) fn may_come_in(&self, user: usize) -> bool {
        self.user_enabled[user] && self.domain_enabled[self.users[user].2]
    }

    /// The roles of a new session for the same scope; `None` if it would be refused.
    pub(crate) fn stands(&self, token: &Token, in_time: bool) -> Option<BTreeSet<usize>> {
        let user = token.user;
        if !self.may_come_in(user) {
            return None;
        }
        let Some(on) = token.scope else { return Some(BTreeSet::new()) };
        let is_open = match on {
            Where::Project(n) => self.project_enabled[n] && self.domain_enabled[self.projects[n].1],
            Where::Domain(n) | Where::Below(n) => self.domain_enabled[n],
            Where::System => true,
        };
        let mut roles = self.roles_on(user, on);
        if let Some(n) = token.trust {
            let trust = &self.trusts[n];
            let is_over = in_time && trust.expires != 0 && trust.expires <= self.now();
            if !trust.is_there || is_over || !self.may_come_in(trust.trustor) || trust.trustee != user {
                return None;
            }
            roles = self.with_implied(trust.roles.iter().copied());
            if roles.is_empty() || !roles.is_subset(&self.roles_on(trust.trustor, on)) {
                return None;
            }
        }
        if let Some(n) = token.credential {
            let delegation = &self.credentials[n];
            if !delegation.is_there || !delegation.enabled {
                return None;
            }
            let given = self.with_implied(delegation.roles.iter().copied());
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
                Revoked::Consumer(_)
                | Revoked::AccessToken(_)
                | Revoked::Credential(_)
                | Revoked::Group(_)
                | Revoked::Role(_)
                | Revoked::Link(_)
                | Revoked::Horizon
                | Revoked::Passed
                | Revoked::Last => false,
            };
            // A mark for one token, chain or trust counts independently of clocks.
            let is_one = matches!(event.mark, Revoked::Token(_) | Revoked::Chain(_) | Revoked::Trust(_));
            is_meant && (is_one || event.ended.is_about(token.issued))
        })
    }

    /// Whether the session has not expired by the clock, and expires after the second up to which marks were purged.
    pub(crate) fn ends_later(&self, token: &Token) -> bool {
        self.now() < token.expires_at && self.purged() < token.expires_at
    }

    pub(crate) fn expected(&self, token: &Token) -> Option<BTreeSet<usize>> {
        let is_in_time = token.issued.second <= self.last_issue() && self.ends_later(token);
        let is_read = self.ring.contains(&token.key) && is_in_time;
        if !is_read || self.is_revoked(token) || self.is_over(token) {
            return None;
        }
        self.stands(token, true)
    }
}
