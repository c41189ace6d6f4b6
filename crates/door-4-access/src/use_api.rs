//! Keystone's API: may they do this? The roles of the session decide, by Keystone's default rules (oslo.policy of release 30), and what was
//! lent does no more than [`crate::Lending`] says.

use crate::lending::only_made_by;
use crate::permit::ApiPermit;
use crate::policy::{About, Rule};
use crate::refuse::Refusal;
use enfilade_identity::IdentityPermit;

/// May the visitor? The one place an [`ApiPermit`] is made (invariant D2). The identity holds at this moment.
///
/// # Errors
/// [`Refusal::NoPrivilege`].
pub fn use_api(
    identity: &IdentityPermit,
    rule: &'static Rule,
    about: &About<'_>,
) -> Result<ApiPermit, Refusal> {
    let principal = identity.principal();
    match identity.session().filter(|session| rule.lets(principal, session, about)) {
        Some(session) => Ok(ApiPermit {
            who: principal.authid.clone(),
            only_domain: rule.only_domain(session),
            only_made_by: only_made_by(session, rule.lending),
        }),
        None => {
            let (path, missing) = (format!("identity:{}", rule.name), "a role that may".to_owned());
            Err(Refusal::NoPrivilege { path, missing })
        }
    }
}
