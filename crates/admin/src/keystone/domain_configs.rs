//! The configuration of a domain.

use crate::change_context::ChangeContext;
use crate::error::{Error, missing};
use enfilade_facts::tables::{Domain, DomainConfig};
use enfilade_facts::vocabulary::DomainId;

/// Changes the configuration of a domain. Returns the new configuration, and whether the domain had a configuration before. A configuration without
/// options is deleted.
///
/// # Errors
/// When the domain does not exist, `edit` refuses, or the facts cannot be changed.
pub fn set_domain_config(
    ctx: &ChangeContext<'_>,
    id: &DomainId,
    edit: impl Fn(&mut DomainConfig) -> Result<(), Error>,
) -> Result<(DomainConfig, bool), Error> {
    let (done, _) = ctx.commit("domain configure", |view, change| {
        let domain = view.get::<Domain>(id)?.ok_or_else(|| missing("domain", id.to_keystone()))?;
        change.describe(format!("domain configure {}", domain.name)).expect_present::<Domain>(id);
        let before = view.get::<DomainConfig>(id)?;
        let mut config = before.clone().unwrap_or_default();
        edit(&mut config)?;
        config.options.sort_by(|a, b| (&a.group, &a.name).cmp(&(&b.group, &b.name)));
        change.expect_unchanged(id, before.as_ref());
        match config.options.is_empty() {
            true => change.delete::<DomainConfig>(id),
            false => change.put(id, &config),
        };
        Ok((config, before.is_some()))
    })?;
    Ok(done)
}
