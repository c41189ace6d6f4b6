//! What is given and taken, and what is revoked, at random.

use super::model::{Delegation, Dice, Taken, Trust, Where, Whom};
use super::{GROUPS, GUESTS, IMPLIED, PROJECTS, ROLES, USERS, World, make_group};
use enfilade_admin::keystone::{self as admin, NewApplicationCredential, NewTrust, On, ProjectEdit};
use enfilade_admin::{Target, TokenEdit, UserEdit};
use enfilade_facts::tables::Revoked;
use enfilade_identity::HashKey;
use std::collections::BTreeSet;

impl World {
    pub(crate) fn change(&mut self, dice: &mut Dice) {
        if dice.roll(3) == 0 {
            return self.change_groups(dice);
        }
        let on = match dice.roll(6) {
            0 => Where::Domain(dice.roll(2)),
            1 => Where::System,
            _ => Where::Project(dice.roll(PROJECTS)),
        };
        let (user, role) = (dice.roll(USERS), dice.roll(ROLES.len()));
        let desk = self.house.desk();
        let target = |whom: Whom, world: &World| match whom {
            Whom::User(n) => Target::User(world.users[n].0.clone()),
            Whom::Group(n) => Target::Group(world.groups[n].as_ref().unwrap().name.clone()),
        };
        let there = match on {
            Where::Project(n) => On::Project(self.projects[n].0),
            Where::Domain(n) => On::Domain(self.domains[n].0.clone()),
            Where::System => On::System,
        };
        match dice.roll(20) {
            0..=5 => {
                let group = Some(dice.roll(GROUPS.len())).filter(|n| self.groups[*n].is_some());
                let whom = group.filter(|_| dice.roll(2) == 0).map_or(Whom::User(user), Whom::Group);
                admin::grant_role(&desk, &target(whom, self), &there, ROLES[role]).unwrap();
                self.grants.insert((whom, on, role));
            }
            6..=8 => {
                let given: Vec<_> = self.grants.iter().copied().collect();
                let Some((whom, on, role)) = given.get(dice.roll(given.len().max(1))).copied() else {
                    return;
                };
                let there = match on {
                    Where::Project(n) => On::Project(self.projects[n].0),
                    Where::Domain(n) => On::Domain(self.domains[n].0.clone()),
                    Where::System => On::System,
                };
                admin::take_role(&desk, &target(whom, self), &there, ROLES[role]).unwrap();
                self.grants.remove(&(whom, on, role));
                self.take(Taken::Grant(whom, on, role));
                // Often it is given again at once.
                if dice.roll(2) == 0 {
                    admin::grant_role(&self.house.desk(), &target(whom, self), &there, ROLES[role]).unwrap();
                    self.grants.insert((whom, on, role));
                }
            }
            9 => {
                let is_so = self.implied.len() < 2 || dice.roll(3) != 0;
                let (role, implied) = IMPLIED[dice.roll(2)];
                let (id, implied_id) = (self.roles[role], self.roles[implied]);
                admin::set_implied(&desk, &id, &implied_id, is_so).unwrap();
                match is_so {
                    true => drop(self.implied.insert((role, implied))),
                    false if self.implied.remove(&(role, implied)) => {
                        self.take(Taken::Implied(role, implied))
                    }
                    false => {}
                }
            }
            10 => {
                // Whoever is kept out comes back sooner than the others go.
                let enabled = !self.user_enabled[user] || dice.roll(5) != 0;
                let edit = UserEdit { enabled: Some(enabled), ..UserEdit::default() };
                enfilade_admin::set_user(&desk, &self.users[user].0, &edit).unwrap();
                if std::mem::replace(&mut self.user_enabled[user], enabled) && !enabled {
                    self.mark(Revoked::User(self.users[user].1));
                }
            }
            11 => {
                let n = dice.roll(PROJECTS);
                let enabled = !self.project_enabled[n] || dice.roll(5) != 0;
                let edit = ProjectEdit { enabled: Some(enabled), ..ProjectEdit::default() };
                admin::set_project(&desk, &self.projects[n].0, &edit).unwrap();
                if std::mem::replace(&mut self.project_enabled[n], enabled) && !enabled {
                    self.mark(Revoked::Project(self.projects[n].0));
                }
            }
            12 => {
                let n = dice.roll(2);
                let enabled = !self.domain_enabled[n] || dice.roll(5) != 0;
                self.enable_domain(n, enabled);
            }
            13 => {
                let project = dice.roll(PROJECTS);
                let n = self.credentials.len();
                let roles: BTreeSet<usize> = (0..=dice.roll(2)).map(|_| dice.roll(ROLES.len())).collect();
                let new = NewApplicationCredential {
                    owner: self.users[user].1,
                    name: format!("c{n}").parse().unwrap(),
                    project: self.projects[project].0,
                    roles: roles.iter().map(|role| ROLES[*role].to_owned()).collect(),
                    unrestricted: false,
                    rules: Vec::new(),
                    by: None,
                    expires: 0,
                    comment: None,
                    secret: None,
                };
                let key = HashKey::new(&[42; 32]);
                let (made, secret, _) = admin::create_application_credential(&desk, &key, &new).unwrap();
                let (id, secret) = (made.id, secret.unwrap());
                self.credentials.push(Delegation {
                    id,
                    secret,
                    user,
                    project,
                    roles,
                    is_there: true,
                    enabled: true,
                });
            }
            14 if dice.roll(3) != 0 && !self.credentials.is_empty() => {
                let n = dice.roll(self.credentials.len());
                let delegation = self.credentials[n].clone();
                if delegation.is_there {
                    let (owner, name) = (&self.users[delegation.user].0, format!("c{n}").parse().unwrap());
                    if dice.roll(2) == 0 {
                        let key = HashKey::new(&[42; 32]);
                        let made = enfilade_admin::regenerate_token(&desk, &key, owner, &name, 0).unwrap();
                        self.credentials[n].secret = made.value;
                        self.take(Taken::Credential(n));
                    } else {
                        let edit = TokenEdit { enabled: Some(!delegation.enabled), ..TokenEdit::default() };
                        enfilade_admin::set_token(&desk, owner, &name, &edit).unwrap();
                        self.credentials[n].enabled = !delegation.enabled;
                        if delegation.enabled {
                            self.take(Taken::Credential(n));
                        }
                    }
                }
            }
            14 if !self.credentials.is_empty() => {
                let n = dice.roll(self.credentials.len());
                let delegation = self.credentials[n].clone();
                if delegation.is_there {
                    let owner = self.users[delegation.user].1;
                    admin::delete_application_credential(&desk, &owner, &delegation.id).unwrap();
                    self.credentials[n].is_there = false;
                }
            }
            15..=17 => self.trust_or_not(dice),
            _ => {}
        }
    }

    fn enable_domain(&mut self, n: usize, enabled: bool) {
        admin::set_domain(&self.house.desk(), &self.domains[n].0, enabled).unwrap();
        if std::mem::replace(&mut self.domain_enabled[n], enabled) && !enabled {
            self.mark(Revoked::Domain(self.domains[n].1));
            self.take(Taken::Domain(n));
        }
    }

    /// Users and groups in groups, and groups that go, with their domain or alone.
    fn change_groups(&mut self, dice: &mut Dice) {
        let desk = self.house.desk();
        let n = dice.roll(GROUPS.len());
        let Some(group) = self.groups[n].clone() else {
            // With the domain, which has another id.
            let (id, _) = admin::add_domain(&desk, &self.domains[GUESTS].0, None).unwrap();
            self.domains[GUESTS].1 = id;
            self.domain_enabled[GUESTS] = true;
            self.groups[n] = Some(make_group(&self.house, n));
            return;
        };
        match dice.roll(12) {
            0..=5 => {
                let user = dice.roll(USERS);
                let member = Target::User(self.users[user].0.clone());
                if self.members.remove(&(n, user)) {
                    enfilade_admin::remove_member(&desk, &group.name, &member).unwrap();
                    self.mark(Revoked::User(self.users[user].1));
                } else {
                    enfilade_admin::add_member(&desk, &group.name, &member).unwrap();
                    self.members.insert((n, user));
                }
            }
            6..=8 if n != 0 => {
                let outer = self.groups[0].clone().unwrap().name;
                let member = Target::Group(group.name);
                if self.nested.remove(&(n, 0)) {
                    enfilade_admin::remove_member(&desk, &outer, &member).unwrap();
                    self.take(Taken::Nested(n, 0));
                }
                if dice.roll(2) == 0 {
                    enfilade_admin::add_member(&self.house.desk(), &outer, &member).unwrap();
                    self.nested.insert((n, 0));
                }
            }
            9 if n == 1 => {
                enfilade_admin::remove_group(&desk, &group.name).unwrap();
                self.forget_group(n);
                self.groups[n] = Some(make_group(&self.house, n));
            }
            10 if n == GUESTS => self.enable_domain(GUESTS, !self.domain_enabled[GUESTS]),
            11 if n == GUESTS && !self.domain_enabled[GUESTS] => {
                // What is in it is swept later, if ever.
                admin::delete_domain(&desk, &self.domains[GUESTS].1).unwrap();
                self.forget_group(n);
            }
            _ => drop(admin::sweep(&desk).unwrap()),
        }
    }

    fn forget_group(&mut self, n: usize) {
        self.groups[n] = None;
        self.members.retain(|(group, _)| *group != n);
        self.nested.retain(|(inner, outer)| *inner != n && *outer != n);
        self.grants.retain(|(whom, ..)| *whom != Whom::Group(n));
        // The next of this name is another, in another domain if it is of the guests.
        self.taken.retain(|(what, _)| match what {
            Taken::Grant(whom, ..) => *whom != Whom::Group(n),
            Taken::Nested(inner, outer) => *inner != n && *outer != n,
            Taken::Domain(domain) => (n, *domain) != (GUESTS, GUESTS),
            Taken::Implied(..) | Taken::Credential(_) => true,
        });
    }

    fn trust_or_not(&mut self, dice: &mut Dice) {
        let desk = self.house.desk();
        if !self.trusts.is_empty() && dice.roll(4) == 0 {
            let n = dice.roll(self.trusts.len());
            if std::mem::take(&mut self.trusts[n].is_there) {
                let id = self.trusts[n].id;
                admin::delete_trust(&desk, &id).unwrap();
                self.mark(Revoked::Trust(id));
            }
            return;
        }
        let (trustor, trustee, project) = (dice.roll(USERS), dice.roll(USERS), dice.roll(PROJECTS));
        let held: Vec<usize> =
            self.roles_on(trustor, Where::Project(project), i64::MAX).into_iter().collect();
        let roles: BTreeSet<usize> = match held.is_empty() || dice.roll(10) == 0 {
            true => [dice.roll(ROLES.len())].into(),
            false => (0..=dice.roll(2)).map(|_| held[dice.roll(held.len())]).collect(),
        };
        let expires = if dice.roll(2) == 0 { 0 } else { self.now() + 1 + dice.roll(2_000) as i64 };
        let new = NewTrust {
            trustor: self.users[trustor].1,
            trustee: self.users[trustee].1,
            project: self.projects[project].0,
            roles: roles.iter().map(|role| ROLES[*role].to_owned()).collect(),
            impersonation: dice.roll(2) == 0,
            expires,
            uses: None,
            redelegations: 0,
            parent: None,
            by: None,
        };
        let made = admin::create_trust(&desk, &new);
        // Nobody lends what they have not.
        assert_eq!(made.is_ok(), roles.iter().all(|role| held.contains(role)), "{roles:?} of {held:?}");
        if let Ok((id, ..)) = made {
            self.trusts.push(Trust { id, trustor, trustee, project, roles, expires, is_there: true });
        }
    }

    pub(crate) fn revoke(&mut self, dice: &mut Dice) {
        let (mut marks, mut end) = (Vec::new(), None);
        match dice.roll(10) {
            0 => marks.push(Revoked::User(self.users[dice.roll(USERS)].1)),
            1 => marks.push(Revoked::Project(self.projects[dice.roll(PROJECTS)].0)),
            2 if dice.roll(3) == 0 => {
                marks.push(Revoked::Domain(self.domains[dice.roll(self.domains.len())].1));
            }
            _ if self.tokens.is_empty() => return,
            _ => {
                let token = &self.tokens[dice.roll(self.tokens.len())];
                let own = token.own;
                end = Some(token.expires_at);
                marks.push(Revoked::Token(own));
                marks.extend((dice.roll(2) == 0).then_some(Revoked::Chain(own)));
            }
        }
        admin::revoke(&self.house.desk(), &marks, end, "a test").unwrap();
        marks.into_iter().for_each(|mark| self.mark(mark));
        // And some of nobody here: so many that what was newest before is not any more, or a few.
        for _ in 0..dice.roll(20) {
            let nobodys = std::array::from_fn(|_| dice.roll(256) as u8);
            admin::revoke(&self.house.desk(), &[Revoked::Token(nobodys)], None, "a test").unwrap();
            if dice.roll(8) == 0 && !self.tokens.is_empty() {
                let token = self.tokens[dice.roll(self.tokens.len())].clone();
                self.check(&token);
            }
        }
    }
}
