//! Policies of other services, and the endpoints, services and regions that they are for.

use super::resource::{Saving, StoredResource, claim, claim_region, claim_service};
use crate::change_context::ChangeContext;
use crate::error::{Error, missing};
use enfilade_facts::limits::NAME_CHARS_MAX;
use enfilade_facts::tables::{
    Endpoint, Policy, PolicyAssociation, PolicyTarget, Region, RegionId, ResourceKind,
};
use enfilade_facts::vocabulary::{EndpointId, PolicyId};
use enfilade_facts::{Change, View};
use std::collections::BTreeSet;

/// The maximum size of a policy, in bytes.
const BLOB_BYTES_MAX: usize = 64 * 1024;

impl StoredResource for Policy {
    const NAME: &'static str = "policy";
    const KIND: ResourceKind = ResourceKind::Policy;

    fn prepare(&mut self, _: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_policy(self)
    }

    fn forget(&self, view: &View<'_>, change: &mut Change, id: &PolicyId) -> Result<(), Error> {
        // A change that sets the policy for a target also expects that the policy's record is unchanged. So if such a change and this deletion are
        // made at the same time, they conflict.
        claim(view, change, id, self)?;
        change.delete::<Policy>(id);
        forget_associations(view, change, |_, policy| policy == id)
    }
}

/// Checks the lengths of a policy's texts.
pub(super) fn check_policy(row: &Policy) -> Result<(), Error> {
    match row.blob.len() <= BLOB_BYTES_MAX && row.kind.chars().count() <= NAME_CHARS_MAX {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "a policy's blob has at most {BLOB_BYTES_MAX} bytes, and its type at most {NAME_CHARS_MAX} characters"
        ))),
    }
}

/// Adds to a change the deletion of each association for which `is_forgotten` returns true.
pub(super) fn forget_associations(
    view: &View<'_>,
    change: &mut Change,
    is_forgotten: impl Fn(&PolicyTarget, &PolicyId) -> bool,
) -> Result<(), Error> {
    for (target, row) in view.list::<PolicyAssociation>(&[])? {
        if is_forgotten(&target, &row.policy) {
            change.delete::<PolicyAssociation>(&target);
        }
    }
    Ok(())
}

/// If `is_so` is true, makes `policy` the only policy of a target. If `is_so` is false, and the policy of the target is `policy`, removes this policy
/// from the target.
///
/// # Errors
/// When the policy or a part of the target does not exist, or the facts cannot be changed.
pub fn set_association(
    ctx: &ChangeContext<'_>,
    target: &PolicyTarget,
    policy: &PolicyId,
    is_so: bool,
) -> Result<(), Error> {
    let verb = if is_so { "set" } else { "unset" };
    ctx.commit(&format!("policy {policy} {verb} for {target}"), |view, change| {
        if is_so {
            claim_target(view, change, target)?;
            let row = view.get::<Policy>(policy)?.ok_or_else(|| missing("policy", policy))?;
            claim(view, change, policy, &row)?;
            change.put(target, &PolicyAssociation { policy: *policy });
        } else if let Some(row) = view.get(target)?.filter(|row: &PolicyAssociation| row.policy == *policy) {
            change.expect_same(target, &row).delete::<PolicyAssociation>(target);
        }
        Ok(())
    })?;
    Ok(())
}

/// Claims each part of a target, so that the change conflicts with a deletion of the part at the same time ([`claim`]). All parts must exist. Without
/// the claims, an association could remain after the deletion of its region, and apply to a later region with the same id.
fn claim_target(view: &View<'_>, change: &mut Change, target: &PolicyTarget) -> Result<(), Error> {
    match target {
        PolicyTarget::Endpoint(id) => {
            let row = view.get::<Endpoint>(id)?.ok_or_else(|| missing("endpoint", id))?;
            claim(view, change, id, &row)
        }
        PolicyTarget::Service(id) => claim_service(view, change, id),
        PolicyTarget::InRegion(id, region) => {
            claim_service(view, change, id)?;
            claim_region(view, change, region)
        }
    }
}

/// The policy that applies to an endpoint. If the endpoint itself has a policy, this policy applies. If not, the policy of the service in a region
/// applies: in the endpoint's region or, if that region has no policy for the service, in the nearest region above it that has such a policy. If none
/// of these regions has such a policy, the policy of the service applies.
///
/// # Errors
/// When the facts cannot be read.
pub fn policy_of_endpoint(
    view: &View<'_>,
    id: &EndpointId,
    endpoint: &Endpoint,
) -> Result<Option<(PolicyId, Policy)>, Error> {
    let mut targets = vec![PolicyTarget::Endpoint(*id)];
    let (mut region, mut seen) = (endpoint.region.clone().map(RegionId), BTreeSet::new());
    while let Some(inner) = region.filter(|inner| seen.insert(inner.clone())) {
        region = view.get::<Region>(&inner)?.and_then(|row| row.parent);
        targets.push(PolicyTarget::InRegion(endpoint.service, inner));
    }
    targets.push(PolicyTarget::Service(endpoint.service));
    for target in targets {
        let Some(PolicyAssociation { policy }) = view.get(&target)? else { continue };
        if let Some(row) = view.get::<Policy>(&policy)? {
            return Ok(Some((policy, row)));
        }
    }
    Ok(None)
}

/// The endpoints that the targets of a policy select. For some of them, a policy with a nearer target may apply ([`policy_of_endpoint`]).
///
/// # Errors
/// When the facts cannot be read.
pub fn endpoints_of_policy(view: &View<'_>, id: &PolicyId) -> Result<Vec<(EndpointId, Endpoint)>, Error> {
    let associations = view.list::<PolicyAssociation>(&[])?;
    let targets = associations.into_iter().filter(|(_, row)| row.policy == *id).map(|(target, _)| target);
    let regions = view.list::<Region>(&[])?;
    let mut rules = Vec::new();
    for target in targets {
        let within: BTreeSet<String> = match &target {
            PolicyTarget::InRegion(_, region) => {
                regions_in(&regions, region).into_iter().map(str::to_owned).collect()
            }
            _ => BTreeSet::new(),
        };
        rules.push((target, within));
    }
    let is_meant = |(id, row): &(EndpointId, Endpoint)| {
        rules.iter().any(|(target, within)| match target {
            PolicyTarget::Endpoint(one) => one == id,
            PolicyTarget::Service(service) => *service == row.service,
            PolicyTarget::InRegion(service, _) => {
                *service == row.service && row.region.as_deref().is_some_and(|region| within.contains(region))
            }
        })
    };
    Ok(view.list::<Endpoint>(&[])?.into_iter().filter(is_meant).collect())
}

/// The ids of a region and of all regions in it.
pub(super) fn regions_in<'r>(regions: &'r [(RegionId, Region)], root: &'r RegionId) -> BTreeSet<&'r str> {
    let (mut found, mut edge) = (BTreeSet::from([root.0.as_str()]), vec![root]);
    while let Some(above) = edge.pop() {
        for (id, _) in regions.iter().filter(|(_, row)| row.parent.as_ref() == Some(above)) {
            if found.insert(&id.0) {
                edge.push(id);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_regions_in_a_region_are_found_even_in_a_circle() {
        let region = |id: &str, parent: Option<&str>| {
            let parent = parent.map(|id| RegionId(id.to_owned()));
            (RegionId(id.to_owned()), Region { description: None, parent })
        };
        let all = [region("a", Some("c")), region("b", Some("a")), region("c", Some("b")), region("d", None)];
        for (root, expected) in [("a", vec!["a", "b", "c"]), ("d", vec!["d"]), ("none", vec!["none"])] {
            let root = RegionId(root.to_owned());
            assert_eq!(regions_in(&all, &root).into_iter().collect::<Vec<_>>(), expected);
        }
    }
}
