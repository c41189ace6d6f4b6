//! Random grants, removals and revocations.

use super::model::{Delegation, Dice, Event, Holder, Taken, Trust, Where};
use super::{GROUPS, GUESTS, IMPLIED, PROJECTS, ROLES, USERS, World, make_group};
use enfilade_admin::keystone::{self as admin, NewTrust, ProjectEdit};
use enfilade_admin::{Target, TokenEdit, UserEdit};
use enfilade_facts::tables::{Domain, GrantKey, GrantScope, Grantee, NamedRole, Revoked};
use enfilade_testkit::{hash_key, new_application_credential, new_trust};
use std::collections::BTreeSet;

impl World {
    pub(crate) fn change(&mut self, dice: &mut Dice) {
        if dice.roll(3) == 0 {
            return self.change_groups(dice);
        }
        let on = match dice.roll(7) {
            0 => Where::Domain(dice.roll(2)),
            1 => Where::System,
            2 => Where::Below(dice.roll(2)),
            _ => Where::Project(dice.roll(PROJECTS)),
        };
        let (user, role) = (dice.roll(USERS), dice.roll(ROLES.len()));
        let ctx = self.house.change_context();
        match dice.roll(20) {
            0..=5 => {
                let holder = self.some_holder(dice, user);
                self.grant((holder, on, role), true);
            }
            6..=8 => {
                let given: Vec<_> = self.grants.iter().copied().collect();
                let Some(grant) = given.get(dice.roll(given.len().max(1))).copied() else {
                    return;
                };
                self.grant(grant, false);
                // Often the role is granted again at once, either in the same way or in another way.
                let (holder, on, role) = grant;
                let below = match on {
                    Where::Project(n) => Where::Below(self.projects[n].1),
                    Where::Below(n) => {
                        Where::Project((0..PROJECTS).find(|p| self.projects[*p].1 == n).unwrap())
                    }
                    other => other,
                };
                match dice.roll(6) {
                    0 | 1 => self.grant(grant, true),
                    2 => self.grant((holder, below, role), true),
                    3 => {
                        let other = self.some_holder(dice, user);
                        self.grant((other, on, role), true);
                    }
                    _ => {}
                }
            }
            9 => {
                let is_so = self.implied.len() < 2 || dice.roll(3) != 0;
                let (role, implied) = IMPLIED[dice.roll(2)];
                let (id, implied_id) = (self.roles[role], self.roles[implied]);
                admin::set_implied(&ctx, &id, &implied_id, is_so).unwrap();
                match is_so {
                    true => drop(self.implied.insert((role, implied))),
                    false if self.implied.remove(&(role, implied)) => self.take(Taken::Role(id)),
                    false => {}
                }
            }
            10 => {
                // If the user is disabled, the user is enabled. An enabled user is disabled in one of five cases, and in half of these cases enabled
                // again at once.
                let enabled = !self.user_enabled[user] || dice.roll(5) != 0;
                self.enable_user(user, enabled);
                if !enabled && dice.roll(2) == 0 {
                    self.enable_user(user, true);
                }
            }
            11 => {
                let n = dice.roll(PROJECTS);
                let enabled = !self.project_enabled[n] || dice.roll(5) != 0;
                self.enable_project(n, enabled);
                if !enabled && dice.roll(2) == 0 {
                    self.enable_project(n, true);
                }
            }
            12 => {
                let n = dice.roll(2);
                let enabled = !self.domain_enabled[n] || dice.roll(5) != 0;
                self.enable_domain(n, enabled);
                if !enabled && dice.roll(2) == 0 {
                    self.enable_domain(n, true);
                }
            }
            13 => {
                let project = dice.roll(PROJECTS);
                let n = self.credentials.len();
                let roles: BTreeSet<usize> = (0..=dice.roll(2)).map(|_| dice.roll(ROLES.len())).collect();
                let new = new_application_credential(
                    self.users[user].1,
                    &format!("c{n}"),
                    self.projects[project].0,
                    &roles.iter().map(|role| ROLES[*role]).collect::<Vec<_>>(),
                );
                let key = hash_key();
                let (made, secret, _) = admin::create_application_credential(&ctx, &key, &new).unwrap();
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
                        let key = hash_key();
                        let made = enfilade_admin::regenerate_token(&ctx, &key, owner, &name, 0).unwrap();
                        self.credentials[n].secret = made.value;
                        self.take(Taken::Credential(n));
                    } else {
                        let edit = TokenEdit { enabled: Some(!delegation.enabled), ..TokenEdit::default() };
                        enfilade_admin::set_token(&ctx, owner, &name, &edit).unwrap();
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
                    admin::delete_application_credential(&ctx, &owner, &delegation.id).unwrap();
                    self.credentials[n].is_there = false;
                }
            }
            15..=17 => self.trust_or_not(dice),
            18 if dice.roll(4) == 0 => self.make_role_again(),
            _ => {}
        }
    }

    /// The user with the index `user`, or a random existing group.
    fn some_holder(&self, dice: &mut Dice, user: usize) -> Holder {
        let group = Some(dice.roll(GROUPS.len())).filter(|n| self.groups[*n].is_some());
        group.filter(|_| dice.roll(2) == 0).map_or(Holder::User(user), Holder::Group)
    }

    /// Grants or removes a role.
    fn grant(&mut self, (holder, on, role): (Holder, Where, usize), is_so: bool) {
        let who = match holder {
            Holder::User(n) => Grantee::User(self.users[n].1),
            Holder::Group(n) => Grantee::Group(self.groups[n].as_ref().unwrap().id),
        };
        let scope = match on {
            Where::Project(n) => GrantScope::Project(self.projects[n].0),
            Where::Domain(n) => GrantScope::Domain(self.domains[n].1),
            Where::Below(n) => GrantScope::BelowDomain(self.domains[n].1),
            Where::System => GrantScope::System,
        };
        let key = GrantKey { who, scope, role: self.roles[role] };
        admin::set_grant(&self.house.change_context(), &key, is_so).unwrap();
        match is_so {
            true => drop(self.grants.insert((holder, on, role))),
            false => {
                self.grants.remove(&(holder, on, role));
                self.take(Taken::Grant(holder, on));
            }
        }
    }

    /// Deletes the last role, and creates another role with its name. Grants of the deleted role are swept later.
    fn make_role_again(&mut self) {
        let role = ROLES.len() - 1;
        admin::delete::<NamedRole>(&self.house.change_context(), &self.roles[role]).unwrap();
        let gone: Vec<_> = self.grants.iter().copied().filter(|(.., given)| *given == role).collect();
        for grant in gone {
            self.grants.remove(&grant);
            self.take(Taken::Grant(grant.0, grant.1));
        }
        let credentials = 0..self.credentials.len();
        for n in credentials.filter(|n| self.credentials[*n].roles.contains(&role)).collect::<Vec<_>>() {
            self.credentials[n].roles.remove(&role);
            self.take(Taken::Credential(n));
        }
        let trusts = 0..self.trusts.len();
        for n in trusts.filter(|n| self.trusts[*n].roles.contains(&role)).collect::<Vec<_>>() {
            self.trusts[n].roles.remove(&role);
            self.take(Taken::Trust(n));
        }
        self.roles[role] = admin::add_role(&self.house.change_context(), ROLES[role], None).unwrap().0;
    }

    fn enable_user(&mut self, user: usize, enabled: bool) {
        let edit = UserEdit { enabled: Some(enabled), ..UserEdit::default() };
        enfilade_admin::set_user(&self.house.change_context(), &self.users[user].0, &edit).unwrap();
        if std::mem::replace(&mut self.user_enabled[user], enabled) && !enabled {
            self.mark(Revoked::User(self.users[user].1));
            self.note_losses();
        }
    }

    fn enable_project(&mut self, n: usize, enabled: bool) {
        let edit = ProjectEdit { enabled: Some(enabled), ..ProjectEdit::default() };
        admin::set_project(&self.house.change_context(), &self.projects[n].0, &edit).unwrap();
        if std::mem::replace(&mut self.project_enabled[n], enabled) && !enabled {
            self.mark(Revoked::Project(self.projects[n].0));
            self.note_losses();
        }
    }

    fn enable_domain(&mut self, n: usize, enabled: bool) {
        admin::set_domain(&self.house.change_context(), &self.domains[n].0, enabled).unwrap();
        if std::mem::replace(&mut self.domain_enabled[n], enabled) && !enabled {
            self.mark(Revoked::Domain(self.domains[n].1));
            self.take(Taken::Domain(self.domains[n].1));
        }
    }

    /// Changes the members of groups. Also deletes groups, either alone or together with their domain.
    fn change_groups(&mut self, dice: &mut Dice) {
        let ctx = self.house.change_context();
        let n = dice.roll(GROUPS.len());
        let Some(group) = self.groups[n].clone() else {
            // The group and its domain are created again. The domain gets another id.
            let (id, _) = admin::add_domain(&ctx, &self.domains[GUESTS].0, None).unwrap();
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
                    enfilade_admin::remove_member(&ctx, &group.name, &member).unwrap();
                    self.mark(Revoked::User(self.users[user].1));
                } else {
                    enfilade_admin::add_member(&ctx, &group.name, &member).unwrap();
                    self.members.insert((n, user));
                }
            }
            6..=8 if n != 0 => {
                let outer = self.groups[0].clone().unwrap().name;
                let member = Target::Group(group.name.clone());
                if self.nested.remove(&(n, 0)) {
                    enfilade_admin::remove_member(&ctx, &outer, &member).unwrap();
                    self.take(Taken::Group(group.id));
                }
                if dice.roll(2) == 0 {
                    enfilade_admin::add_member(&self.house.change_context(), &outer, &member).unwrap();
                    self.nested.insert((n, 0));
                }
            }
            // The group may contain other groups.
            9 if n != GUESTS => {
                enfilade_admin::remove_group(&ctx, &group.name).unwrap();
                self.forget_group(n);
                self.groups[n] = Some(make_group(&self.house, n));
            }
            10 if n == GUESTS => self.enable_domain(GUESTS, !self.domain_enabled[GUESTS]),
            11 if n == GUESTS && !self.domain_enabled[GUESTS] => {
                // The records in the deleted domain are deleted later, or not at all.
                admin::delete::<Domain>(&ctx, &self.domains[GUESTS].1).unwrap();
                // The domain was disabled before it was deleted, so no session for it exists.
                self.take(Taken::Domain(self.domains[GUESTS].1));
                self.forget_group(n);
            }
            _ => drop(admin::sweep(&ctx).unwrap()),
        }
    }

    /// Removes the group from the model. Each of its members gets a mark, because after the removal nothing connects the members to the group.
    fn forget_group(&mut self, n: usize) {
        self.groups[n] = None;
        let ended = self.ended();
        let members: Vec<usize> =
            self.members.iter().filter(|(group, _)| *group == n).map(|(_, user)| *user).collect();
        for user in members {
            self.events.push(Event { mark: Revoked::User(self.users[user].1), ended });
        }
        let inner: Vec<_> = self.nested.iter().filter(|(_, outer)| *outer == n).map(|(n, _)| *n).collect();
        for inner in inner {
            let id = self.groups[inner].as_ref().unwrap().id;
            self.taken.push((Taken::Group(id), ended));
        }
        self.members.retain(|(group, _)| *group != n);
        self.nested.retain(|(inner, outer)| *inner != n && *outer != n);
        self.grants.retain(|(holder, ..)| *holder != Holder::Group(n));
        // If a group with this name is created later, it is another group.
        self.taken
            .retain(|(what, _)| !matches!(what, Taken::Grant(holder, _) if *holder == Holder::Group(n)));
    }

    fn trust_or_not(&mut self, dice: &mut Dice) {
        let ctx = self.house.change_context();
        if !self.trusts.is_empty() && dice.roll(4) == 0 {
            let n = dice.roll(self.trusts.len());
            if std::mem::take(&mut self.trusts[n].is_there) {
                let id = self.trusts[n].id;
                admin::delete_trust(&ctx, &id).unwrap();
                self.mark(Revoked::Trust(id));
            }
            return;
        }
        let (trustor, trustee, project) = (dice.roll(USERS), dice.roll(USERS), dice.roll(PROJECTS));
        let held: Vec<usize> = self.roles_on(trustor, Where::Project(project)).into_iter().collect();
        let roles: BTreeSet<usize> = match held.is_empty() || dice.roll(10) == 0 {
            true => [dice.roll(ROLES.len())].into(),
            false => (0..=dice.roll(2)).map(|_| held[dice.roll(held.len())]).collect(),
        };
        let expires = if dice.roll(2) == 0 { 0 } else { self.now() + 1 + dice.roll(2_000) as i64 };
        let new = NewTrust {
            impersonation: dice.roll(2) == 0,
            expires,
            ..new_trust(
                self.users[trustor].1,
                self.users[trustee].1,
                self.projects[project].0,
                &roles.iter().map(|role| ROLES[*role]).collect::<Vec<_>>(),
            )
        };
        let made = admin::create_trust(&ctx, &new);
        // A user cannot lend a role that the user does not have.
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
        admin::revoke(&self.house.change_context(), &marks, end, "a test").unwrap();
        marks.into_iter().for_each(|mark| self.mark(mark));
        // Adds up to 19 marks of unknown tokens, so that marks of known tokens are not always the newest.
        for _ in 0..dice.roll(20) {
            let nobodys = std::array::from_fn(|_| dice.roll(256) as u8);
            admin::revoke(&self.house.change_context(), &[Revoked::Token(nobodys)], None, "a test").unwrap();
            if dice.roll(8) == 0 && !self.tokens.is_empty() {
                let token = self.tokens[dice.roll(self.tokens.len())].clone();
                self.check(&token);
            }
        }
    }
}
