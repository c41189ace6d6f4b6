//! Imports the access rules of application credentials. The rules are records of the credential's owner.

use super::Taking;
use crate::error::Error;
use enfilade_facts::tables::{AccessRule, AccessRuleKey};
use enfilade_facts::vocabulary::UserId;

impl Taking<'_, '_> {
    /// The rules with their ids in this store: a rule that the user already has keeps its id.
    pub(super) fn rules_here(&self, owner: UserId, rules: &[AccessRule]) -> Result<Vec<AccessRule>, Error> {
        let mut here: Vec<AccessRule> = Vec::new();
        for rule in rules {
            let key = AccessRuleKey::of(owner, rule);
            let known = match self.made.rules.get(&key) {
                Some(known) => Some(known.clone()),
                None => self.view.get::<AccessRule>(&key)?,
            };
            let rule = known.unwrap_or_else(|| rule.clone());
            if !here.contains(&rule) {
                here.push(rule);
            }
        }
        Ok(here)
    }

    /// Adds the rules of a new credential to the change. Existing rules are written again. So if a rule is deleted at the same time because no
    /// credential has it yet, that deletion conflicts with this change.
    pub(super) fn put_rules(&mut self, owner: UserId, rules: &[AccessRule]) -> Result<(), Error> {
        for rule in rules {
            let key = AccessRuleKey::of(owner, rule);
            self.change.expect_unchanged(&key, self.view.get::<AccessRule>(&key)?.as_ref()).put(&key, rule);
            self.made.rules.insert(key, rule.clone());
        }
        Ok(())
    }
}
