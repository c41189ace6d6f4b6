//! What is given and taken, and what is revoked, at random.

use super::model::{Delegation, Dice, Trust, Where, Whom};
use super::{PROJECTS, ROLES, USERS, World};
use enfilade_admin::keystone::{self as admin, NewApplicationCredential, NewTrust, On, ProjectEdit};
use enfilade_admin::{Target, UserEdit};
use enfilade_facts::tables::Revoked;
use enfilade_facts::vocabulary::{UserId, Userid};
use enfilade_identity::HashKey;
use std::collections::BTreeSet;

impl World {
    pub(crate) fn change(&mut self, dice: &mut Dice) {
        let on = match dice.roll(6) {
            0 => Where::Domain(dice.roll(2)),
            1 => Where::System,
            _ => Where::Project(dice.roll(PROJECTS)),
        };
        let (user, role) = (dice.roll(USERS), dice.roll(ROLES.len()));
        let desk = self.house.desk();
        let target = |whom: Whom, users: &[(Userid, UserId, usize)]| match whom {
            Whom::User(n) => Target::User(users[n].0.clone()),
            Whom::Group => Target::Group("staff@Default".parse().unwrap()),
        };
        let there = match on {
            Where::Project(n) => On::Project(self.projects[n].0),
            Where::Domain(n) => On::Domain(self.domains[n].0.clone()),
            Where::System => On::System,
        };
        match dice.roll(20) {
            0..=5 => {
                let whom = if dice.roll(4) == 0 { Whom::Group } else { Whom::User(user) };
                admin::grant_role(&desk, &target(whom, &self.users), &there, ROLES[role]).unwrap();
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
                admin::take_role(&desk, &target(whom, &self.users), &there, ROLES[role]).unwrap();
                self.grants.remove(&(whom, on, role));
            }
            9 => {
                let (group, member) =
                    ("staff@Default".parse().unwrap(), target(Whom::User(user), &self.users));
                if self.members.remove(&user) {
                    enfilade_admin::remove_member(&desk, &group, &member).unwrap();
                } else {
                    enfilade_admin::add_member(&desk, &group, &member).unwrap();
                    self.members.insert(user);
                }
            }
            10 => {
                // Whoever is kept out comes back sooner than the others go.
                let enabled = !self.user_enabled[user] || dice.roll(5) != 0;
                let edit = UserEdit { enabled: Some(enabled), ..UserEdit::default() };
                enfilade_admin::set_user(&desk, &self.users[user].0, &edit).unwrap();
                self.user_enabled[user] = enabled;
                if !enabled {
                    self.mark(Revoked::User(self.users[user].1));
                }
            }
            11 => {
                let n = dice.roll(PROJECTS);
                let enabled = !self.project_enabled[n] || dice.roll(5) != 0;
                let edit = ProjectEdit { enabled: Some(enabled), ..ProjectEdit::default() };
                admin::set_project(&desk, &self.projects[n].0, &edit).unwrap();
                self.project_enabled[n] = enabled;
            }
            12 => {
                let n = dice.roll(2);
                let enabled = !self.domain_enabled[n] || dice.roll(5) != 0;
                admin::set_domain(&desk, &self.domains[n].0, enabled).unwrap();
                self.domain_enabled[n] = enabled;
                if !enabled {
                    self.mark(Revoked::Domain(self.domains[n].1));
                }
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
                self.credentials.push(Delegation { id, secret, user, project, roles, is_there: true });
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
        let held: Vec<usize> = self.roles_on(trustor, Where::Project(project)).into_iter().collect();
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
        let mut marks = Vec::new();
        match dice.roll(10) {
            0 => marks.push(Revoked::User(self.users[dice.roll(USERS)].1)),
            1 => marks.push(Revoked::Project(self.projects[dice.roll(PROJECTS)].0)),
            2 if dice.roll(3) == 0 => marks.push(Revoked::Domain(self.domains[dice.roll(2)].1)),
            _ if self.tokens.is_empty() => return,
            _ => {
                let own = self.tokens[dice.roll(self.tokens.len())].own;
                marks.push(Revoked::Token(own));
                marks.extend((dice.roll(2) == 0).then_some(Revoked::Chain(own)));
            }
        }
        admin::revoke(&self.house.desk(), &marks, "a test").unwrap();
        marks.into_iter().for_each(|mark| self.mark(mark));
        // And some of nobody here: so many that what was newest before is not any more, or a few.
        for _ in 0..dice.roll(20) {
            let nobodys = std::array::from_fn(|_| dice.roll(256) as u8);
            admin::revoke(&self.house.desk(), &[Revoked::Token(nobodys)], "a test").unwrap();
            if dice.roll(8) == 0 && !self.tokens.is_empty() {
                let token = self.tokens[dice.roll(self.tokens.len())].clone();
                self.check(&token);
            }
        }
    }
}
