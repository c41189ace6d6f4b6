//! Federation: identity providers with their protocols, mappings, and service providers.

use super::resource::{Saving, StoredResource, claim};
use crate::change_context::{ChangeContext, random};
use crate::comment::check_comment;
use crate::error::{Error, missing};
use enfilade_facts::limits::{
    FEDERATION_ID_BYTES_MAX, FEDERATION_ID_CHARS_MAX, KEY_BYTES_MAX, NAME_CHARS_MAX,
};
use enfilade_facts::tables::{
    Domain, IdentityProvider, IdentityProviderId, Mapping, MappingId, Name, NameKey, Protocol, ProtocolKey,
    RemoteId, RemoteIdOwner, ResourceKind, ServiceProvider, ServiceProviderId,
};
use enfilade_facts::vocabulary::{DomainId, Realm};
use enfilade_facts::{Change, View};
use std::collections::BTreeSet;

/// The maximum size of the rules of a mapping, in bytes.
const RULES_BYTES_MAX: usize = 64 * 1024;

/// The maximum length of a URL of a service provider, in characters, as in Keystone's API.
const URL_CHARS_MAX: usize = 225;

/// Checks an id that the creator of the record chooses. The id becomes a part of keys of the store and of paths in URLs.
fn check_id(what: &str, id: &str) -> Result<(), Error> {
    let is_long = id.chars().nth(FEDERATION_ID_CHARS_MAX).is_some() || FEDERATION_ID_BYTES_MAX < id.len();
    match id.is_empty() || is_long || id.contains('/') || id.chars().any(char::is_control) {
        true => Err(Error::Invalid(format!(
            "the {what}'s id is empty, has more than {FEDERATION_ID_CHARS_MAX} characters or {FEDERATION_ID_BYTES_MAX} bytes, or contains `/` or control characters"
        ))),
        false => Ok(()),
    }
}

impl StoredResource for IdentityProvider {
    const NAME: &'static str = "identity provider";
    const KIND: ResourceKind = ResourceKind::IdentityProvider;

    fn prepare(&mut self, at: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_identity_provider(at.id, self)?;
        let new: BTreeSet<String> = self.remote_ids.drain(..).collect();
        let before: BTreeSet<String> =
            at.before.iter().flat_map(|before| &before.remote_ids).cloned().collect();
        for gone in before.difference(&new) {
            at.change.delete::<RemoteIdOwner>(&RemoteId(gone.clone()));
        }
        for added in new.difference(&before) {
            take_remote_id(at.view, at.change, at.id, added)?;
        }
        self.remote_ids = new.into_iter().collect();
        Ok(())
    }

    fn forget(&self, view: &View<'_>, change: &mut Change, id: &IdentityProviderId) -> Result<(), Error> {
        forget_provider(view, change, id, self)
    }
}

pub(super) fn check_identity_provider(id: &IdentityProviderId, row: &IdentityProvider) -> Result<(), Error> {
    check_id(IdentityProvider::NAME, &id.0)?;
    check_comment(row.description.as_deref())?;
    let is_good = |text: &String| {
        let is_long = text.chars().nth(NAME_CHARS_MAX).is_some() || KEY_BYTES_MAX < text.len();
        !text.is_empty() && !is_long && !text.chars().any(char::is_control)
    };
    match row.remote_ids.iter().all(is_good) {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "a remote id is empty, has more than {NAME_CHARS_MAX} characters or {KEY_BYTES_MAX} bytes, or contains control characters"
        ))),
    }
}

/// Reserves a remote id, if no identity provider has it.
fn take_remote_id(
    view: &View<'_>,
    change: &mut Change,
    provider: &IdentityProviderId,
    text: &str,
) -> Result<(), Error> {
    let id = RemoteId(text.to_owned());
    if view.get::<RemoteIdOwner>(&id)?.is_some() {
        let hint = "first remove it from the identity provider that has it";
        return Err(Error::Exists { what: "remote id", name: text.to_owned(), hint });
    }
    change.expect_absent::<RemoteIdOwner>(&id).put(&id, &RemoteIdOwner { provider: provider.clone() });
    Ok(())
}

/// Adds to a change the deletion of a provider with its protocols and remote ids.
fn forget_provider(
    view: &View<'_>,
    change: &mut Change,
    id: &IdentityProviderId,
    row: &IdentityProvider,
) -> Result<(), Error> {
    // A change that saves a protocol of the provider also expects that the provider's record is unchanged. So if such a change and this deletion are
    // made at the same time, they conflict.
    claim(view, change, id, row)?;
    for (key, _) in view.list::<Protocol>(&ProtocolKey::of(id))? {
        change.delete::<Protocol>(&key);
    }
    for remote in &row.remote_ids {
        change.delete::<RemoteIdOwner>(&RemoteId(remote.clone()));
    }
    change.delete::<IdentityProvider>(id);
    Ok(())
}

/// Adds to a change the deletion of the providers of a domain.
pub(super) fn forget_providers_of(
    view: &View<'_>,
    change: &mut Change,
    domain: &DomainId,
) -> Result<(), Error> {
    for (id, row) in view.list::<IdentityProvider>(&[])?.into_iter().filter(|(_, row)| row.domain == *domain)
    {
        forget_provider(view, change, &id, &row)?;
    }
    Ok(())
}

/// Creates an identity provider. If no domain is given, the provider gets a new domain. The new domain has its own id as its name.
///
/// # Errors
/// When the id or a remote id is taken, the domain does not exist, the provider is invalid, or the facts cannot be changed.
pub fn create_identity_provider(
    ctx: &ChangeContext<'_>,
    id: &IdentityProviderId,
    domain: Option<DomainId>,
    build: impl Fn(DomainId) -> Result<IdentityProvider, Error>,
) -> Result<IdentityProvider, Error> {
    let (row, _) = ctx.commit(&format!("identity provider create {id}"), |view, change| {
        let domain = match domain {
            Some(domain) => {
                view.get::<Domain>(&domain)?.ok_or_else(|| missing("domain", domain.to_keystone()))?;
                change.expect_present::<Domain>(&domain);
                domain
            }
            None => add_domain_of(change, id)?,
        };
        if view.get::<IdentityProvider>(id)?.is_some() {
            let hint = "choose another id";
            return Err(Error::Exists { what: IdentityProvider::NAME, name: id.to_string(), hint });
        }
        let mut row = build(domain)?;
        row.prepare(&mut Saving { view, change, id, before: None, limit_model: ctx.limit_model })?;
        row.put(change, id, None);
        Ok(row)
    })?;
    Ok(row)
}

/// Adds a domain for the users of a provider to a change.
fn add_domain_of(change: &mut Change, provider: &IdentityProviderId) -> Result<DomainId, Error> {
    let id = DomainId::from_bytes(random()?);
    let name: Realm = id.to_string().parse()?;
    let description = Some(format!("the users of the identity provider {provider}"));
    let by_name = NameKey::domain(&name);
    change.expect_absent::<Name>(&by_name).put(&by_name, &Name::new(id.stored(), name.as_str()));
    change.expect_absent::<Domain>(&id).put(&id, &Domain { description, ..Domain::new(name) });
    Ok(id)
}

impl StoredResource for Protocol {
    const NAME: &'static str = "protocol";
    const KIND: ResourceKind = ResourceKind::Protocol;

    /// The mapping and the provider have to exist. As in Keystone, the mapping can be deleted later.
    fn prepare(&mut self, at: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_protocol(at.id, self)?;
        if at.view.get::<Mapping>(&self.mapping)?.is_none() {
            return Err(Error::Invalid(format!(
                "Invalid input for field/attribute mapping_id of protocol: there is no mapping `{}`.",
                self.mapping
            )));
        }
        at.change.expect_present::<Mapping>(&self.mapping);
        let provider = at.view.get::<IdentityProvider>(&at.id.provider)?;
        let provider = provider.ok_or_else(|| missing(IdentityProvider::NAME, &at.id.provider))?;
        claim(at.view, at.change, &at.id.provider, &provider)
    }

    fn forget(&self, _: &View<'_>, change: &mut Change, id: &ProtocolKey) -> Result<(), Error> {
        change.delete::<Protocol>(id);
        Ok(())
    }
}

pub(super) fn check_protocol(key: &ProtocolKey, row: &Protocol) -> Result<(), Error> {
    check_id(IdentityProvider::NAME, &key.provider.0)?;
    check_id(Protocol::NAME, &key.protocol)?;
    match row
        .remote_id_attribute
        .as_ref()
        .is_some_and(|text| text.chars().nth(FEDERATION_ID_CHARS_MAX).is_some())
    {
        true => Err(Error::Invalid(format!(
            "the remote_id_attribute has more than {FEDERATION_ID_CHARS_MAX} characters"
        ))),
        false => Ok(()),
    }
}

impl StoredResource for Mapping {
    const NAME: &'static str = "mapping";
    const KIND: ResourceKind = ResourceKind::Mapping;

    fn prepare(&mut self, at: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_mapping(at.id, self)
    }

    fn forget(&self, _: &View<'_>, change: &mut Change, id: &MappingId) -> Result<(), Error> {
        change.delete::<Mapping>(id);
        Ok(())
    }
}

pub(super) fn check_mapping(id: &MappingId, row: &Mapping) -> Result<(), Error> {
    check_id(Mapping::NAME, &id.0)?;
    match row.rules.len() <= RULES_BYTES_MAX {
        true => Ok(()),
        false => {
            Err(Error::Invalid(format!("the rules of a mapping have more than {RULES_BYTES_MAX} bytes")))
        }
    }
}

impl StoredResource for ServiceProvider {
    const NAME: &'static str = "service provider";
    const KIND: ResourceKind = ResourceKind::ServiceProvider;

    fn prepare(&mut self, at: &mut Saving<'_, '_, Self>) -> Result<(), Error> {
        check_service_provider(at.id, self)
    }

    fn forget(&self, _: &View<'_>, change: &mut Change, id: &ServiceProviderId) -> Result<(), Error> {
        change.delete::<ServiceProvider>(id);
        Ok(())
    }
}

pub(super) fn check_service_provider(id: &ServiceProviderId, row: &ServiceProvider) -> Result<(), Error> {
    check_id(ServiceProvider::NAME, &id.0)?;
    check_comment(row.description.as_deref())?;
    check_url("auth_url", &row.auth_url)?;
    check_url("sp_url", &row.sp_url)?;
    match row.relay_state_prefix.chars().nth(NAME_CHARS_MAX).is_none() {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "Invalid input for field/attribute relay_state_prefix of service_provider: expected at most {NAME_CHARS_MAX} characters."
        ))),
    }
}

/// Checks that a URL has a scheme, a colon and further text, is at most [`URL_CHARS_MAX`] characters long, and contains no control characters.
fn check_url(name: &str, url: &str) -> Result<(), Error> {
    let is_scheme = |text: &str| {
        !text.is_empty() && text.chars().all(|one| one.is_ascii_alphanumeric() || "+.-".contains(one))
    };
    let is_url = url.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty());
    match is_url && url.chars().nth(URL_CHARS_MAX).is_none() && !url.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "Invalid input for field/attribute {name} of service_provider: expected a URL of at most {URL_CHARS_MAX} characters."
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_parts_of_paths_and_keys() {
        for (id, is_good) in [
            ("myidp", true),
            ("a b+ü", true),
            (&"x".repeat(64), true),
            (&"x".repeat(65), false),
            (&"😀".repeat(62), true),
            (&"😀".repeat(63), false),
            ("", false),
            ("a/b", false),
            ("a\n", false),
        ] {
            assert_eq!(check_id("mapping", id).is_ok(), is_good, "{id:?}");
        }
    }

    #[test]
    fn a_url_has_a_scheme() {
        for (url, is_good) in [
            ("https://sp.example/Shibboleth.sso/SAML2/ECP", true),
            ("urn:x", true),
            ("https:", false),
            ("://x", false),
            ("sp.example", false),
            ("ht tp://x", false),
            ("https://x\n", false),
            (&format!("x:{}", "y".repeat(223)), true),
            (&format!("x:{}", "y".repeat(224)), false),
        ] {
            assert_eq!(check_url("sp_url", url).is_ok(), is_good, "{url:?}");
        }
    }
}
