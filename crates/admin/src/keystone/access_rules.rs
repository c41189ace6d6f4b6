//! Access rules. An access rule belongs to a user. Application credentials refer to access rules.

use crate::change_context::{ChangeContext, random};
use crate::error::Error;
use enfilade_facts::limits::ACCESS_RULES_OF_USER_MAX;
use enfilade_facts::tables::{AccessRule, AccessRuleKey, Delegation, Name, NameKey};
use enfilade_facts::vocabulary::{AccessRuleId, UserId};
use enfilade_facts::{At, Change, Read, Source, SourceError, View};

/// An access rule for a new application credential.
#[derive(Clone, Debug)]
pub enum WantedRule {
    /// A rule of the owner, by its id.
    Id(AccessRuleId),
    /// A rule for a kind of request. The rule is created if the owner has no rule with this service, method and path.
    Request {
        /// The kind of service.
        service: String,
        /// The HTTP method.
        method: String,
        /// The path.
        path: String,
    },
}

impl WantedRule {
    fn is(&self, rule: &AccessRule) -> bool {
        match self {
            WantedRule::Id(id) => rule.id == *id,
            WantedRule::Request { service, method, path } => {
                (&rule.service, &rule.method, &rule.path) == (service, method, path)
            }
        }
    }
}

fn missing(id: &AccessRuleId) -> Error {
    let hint = "see `openstack access rule list`";
    Error::Missing { what: "access rule", name: id.to_string(), hint }
}

/// Returns the access rules for a new application credential, each once. Rules that the owner does not have yet are added to the change. If a
/// returned rule existed before this call, the change is committed only if the rule still exists.
pub(super) fn rules_for(
    view: &View<'_>,
    change: &mut Change,
    owner: &UserId,
    wanted: &[WantedRule],
) -> Result<Vec<AccessRule>, Error> {
    let mut known = if wanted.is_empty() { Vec::new() } else { access_rules_in(view, owner)? };
    let mut rules: Vec<AccessRule> = Vec::new();
    for wanted in wanted {
        let found = known.iter().find(|rule| wanted.is(rule)).cloned();
        let rule = match (found, wanted) {
            (Some(rule), _) if rules.contains(&rule) => continue,
            (Some(rule), _) => {
                change.expect_same(&AccessRuleKey::of(*owner, &rule), &rule);
                rule
            }
            (None, WantedRule::Id(id)) => return Err(missing(id)),
            (None, WantedRule::Request { .. }) if known.len() >= ACCESS_RULES_OF_USER_MAX => {
                return Err(Error::Refused(format!(
                    "a user has at most {ACCESS_RULES_OF_USER_MAX} access rules, and the request needs more; delete access rules that no application credential uses, or request fewer access rules"
                )));
            }
            (None, WantedRule::Request { service, method, path }) => {
                let (service, method, path) = (service.clone(), method.clone(), path.clone());
                let rule = AccessRule { id: AccessRuleId::from_bytes(random()?), service, method, path };
                change.expect_absent::<AccessRule>(&AccessRuleKey::of(*owner, &rule));
                known.push(rule.clone());
                rule
            }
        };
        // An existing rule is written again. So if a deletion of the rule was built before this change, the deletion conflicts with this change.
        change.put(&AccessRuleKey::of(*owner, &rule), &rule);
        rules.push(rule);
    }
    Ok(rules)
}

fn access_rules_in(view: &View<'_>, owner: &UserId) -> Result<Vec<AccessRule>, SourceError> {
    let rules = view.list::<AccessRule>(&AccessRuleKey::all_of(owner))?;
    Ok(rules.into_iter().map(|(_, rule)| rule).collect())
}

/// The access rules of a user.
///
/// # Errors
/// When the facts cannot be read.
pub fn access_rules_of(source: &dyn Source, owner: &UserId) -> Result<Vec<AccessRule>, Error> {
    Ok(source.read(|view| access_rules_in(view, owner))??)
}

/// Deletes an access rule of a user.
///
/// # Errors
/// When the user has no rule with this id, an application credential of the user has the rule, or the facts cannot be changed.
pub fn delete_access_rule(ctx: &ChangeContext<'_>, owner: &UserId, id: &AccessRuleId) -> Result<At, Error> {
    let ((), at) = ctx.commit(&format!("access rule {id} delete"), |view, change| {
        let rules = access_rules_in(view, owner)?;
        let rule = rules.iter().find(|rule| rule.id == *id).ok_or_else(|| missing(id))?;
        for (_, name) in view.list::<Name>(&NameKey::tokens_of(owner))? {
            let delegation = view.get::<Delegation>(&name.credential())?;
            if delegation.is_some_and(|row| row.rules.iter().any(|own| own.id == *id)) {
                let why = "uses this access rule; delete the credential first";
                return Err(Error::Refused(format!("application credential {} {why}", name.text)));
            }
        }
        let key = AccessRuleKey::of(*owner, rule);
        let revision = view.revision_of::<AccessRule>(&key)?.ok_or_else(|| missing(id))?;
        change.expect_revision::<AccessRule>(&key, revision).delete::<AccessRule>(&key);
        Ok(())
    })?;
    Ok(at)
}

/// Adds the deletion of all access rules of a user to a change.
pub(crate) fn forget_access_rules(view: &View<'_>, change: &mut Change, owner: &UserId) -> Result<(), Error> {
    for (key, _) in view.list::<AccessRule>(&AccessRuleKey::all_of(owner))? {
        change.delete::<AccessRule>(&key);
    }
    Ok(())
}
