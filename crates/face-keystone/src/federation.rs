//! Federation (`OS-FEDERATION`): identity providers with their protocols, mappings, and service providers. Users cannot log in by federation, so the
//! status of the calls for such a login is 501.

use super::listing::{self, Each, Filters, records};
use super::mapping_rules::{DEFAULT_VERSION, check_mapping_rules};
use super::request_body::{RequestBody, invalid};
use super::resource::{Id, Record, Resource, Store, add, answer, created, described_whole, link, permitted};
use super::schema::{Schema, Type};
use super::{ApiError, Call, Outcome};
use enfilade_admin::Error;
use enfilade_admin::keystone::{RecordId, create_identity_provider};
use enfilade_faces::percent::push_name;
use enfilade_facts::View;
use enfilade_facts::limits::FEDERATION_ID_BYTES_MAX;
use enfilade_facts::tables::{
    Domain, IdentityProvider, IdentityProviderId, Key as _, Mapping, MappingId, Protocol, ProtocolKey,
    ResourceKind, ServiceProvider, ServiceProviderId,
};
use enfilade_passage::{About, ApiPermit};
use hyper::StatusCode;
use serde_json::{Value, json};

/// The default value of the attribute `relay_state_prefix` (as in Keystone).
const RELAY_STATE_PREFIX: &str = "ss:mem:";

macro_rules! chosen {
    ($($id:ident),*) => {$(
        impl Id for $id {
            fn from_text(text: &str) -> Option<Self> {
                (text.len() <= FEDERATION_ID_BYTES_MAX).then(|| $id(text.to_owned()))
            }
            fn to_text(&self) -> String {
                self.0.clone()
            }
        }
    )*};
}
chosen!(IdentityProviderId, MappingId, ServiceProviderId);

impl Resource for IdentityProvider {
    const SCHEMA: Schema = Schema {
        one: "identity_provider",
        many: "identity_providers",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("enabled", Type::Flag, Type::Flag),
            ("description", Type::TextOrNull, Type::TextOrNull),
            ("remote_ids", Type::Texts, Type::Texts),
            ("domain_id", Type::Text, Type::TextOrNull),
            ("authorization_ttl", Type::NumberOrNull, Type::NumberOrNull),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = None;
    const UNDER: &'static str = "/OS-FEDERATION";
    const STORE: Store<Self> = Store::BY_ID;
    const HAS_OPTIONS: bool = false;
    const DECODES_ID: bool = true;

    fn attributes(&self) -> Value {
        json!({
            "enabled": self.enabled, "description": self.description, "remote_ids": self.remote_ids,
            "domain_id": self.domain.to_keystone(), "authorization_ttl": self.authorization_ttl,
        })
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        given.unless_empty()?;
        given.only(&["enabled", "description", "remote_ids", "authorization_ttl"])?;
        set_provider(self, given)
    }

    fn described(base: &str, record: Record<Self>, _: &ApiPermit) -> Value {
        let own = link::<Self>(base, &record.id.0);
        let mut body = described_whole(base, record);
        add(&mut body, "links", json!({ "protocols": format!("{own}/protocols"), "self": own }));
        body
    }

    fn create(call: &mut Call) -> Outcome {
        let (permit, given) = permitted::<Self>(call)?;
        given.only(&["enabled", "description", "remote_ids", "authorization_ttl", "domain_id"])?;
        let domain = match given.text("domain_id")?.flatten() {
            None => None,
            Some(said) => {
                let missing = || ApiError::missing("domain", &said);
                Some(call.look(|view| Domain::find(view, &said)?.ok_or_else(missing))?.0)
            }
        };
        let in_domain = |domain| -> Result<IdentityProvider, Error> {
            let (description, remote_ids, authorization_ttl) = (None, Vec::new(), None);
            let mut new =
                IdentityProvider { domain, enabled: false, description, remote_ids, authorization_ttl };
            set_provider(&mut new, &given)?;
            Ok(new)
        };
        let id = IdentityProviderId(call.decoded(0));
        let row = call.save(&permit, |ctx| create_identity_provider(ctx, &id, domain, in_domain))?;
        Ok(answer(call, StatusCode::CREATED, Record::bare(id, row), &permit))
    }
}

fn set_provider(row: &mut IdentityProvider, given: &RequestBody) -> Result<(), Error> {
    given.set_flag("enabled", &mut row.enabled)?;
    if let Some(text) = given.text("description")? {
        row.description = text;
    }
    if let Some(ids) = given.distinct_texts("remote_ids")? {
        row.remote_ids = ids;
    }
    if let Some(minutes) = given.count_or_null("authorization_ttl")? {
        row.authorization_ttl = minutes;
    }
    Ok(())
}

impl Id for ProtocolKey {
    /// The text consists of the id of the provider, a slash, and the id of the protocol. Ids contain no slash.
    fn from_text(text: &str) -> Option<Self> {
        let (provider, protocol) = text.split_once('/')?;
        let is_short = protocol.len() <= FEDERATION_ID_BYTES_MAX;
        let provider = IdentityProviderId::from_text(provider).filter(|_| is_short)?;
        Some(ProtocolKey { provider, protocol: protocol.to_owned() })
    }
    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl Resource for Protocol {
    const SCHEMA: Schema = Schema {
        one: "protocol",
        many: "protocols",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("mapping_id", Type::Text, Type::Text),
            ("remote_id_attribute", Type::None, Type::TextOrNull),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = None;
    const STORE: Store<Self> = Store::BY_ID;
    const HAS_OPTIONS: bool = false;

    /// As in Keystone, only lists show `remote_id_attribute`.
    fn attributes(&self) -> Value {
        json!({ "mapping_id": self.mapping.0 })
    }

    /// As in Keystone, every body must contain `mapping_id`.
    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        given.only(&["mapping_id", "remote_id_attribute"])?;
        self.mapping = MappingId(given.needed("mapping_id")?);
        if let Some(attribute) = given.text("remote_id_attribute")? {
            self.remote_id_attribute = attribute;
        }
        Ok(())
    }

    fn said(call: &Call) -> String {
        format!("{}/{}", call.decoded(0), call.decoded(1))
    }

    fn described(base: &str, record: Record<Self>, _: &ApiPermit) -> Value {
        let ProtocolKey { provider, protocol } = record.id.clone();
        let provider = link::<IdentityProvider>(base, &provider.0);
        let mut own = format!("{provider}/protocols/");
        push_name(&mut own, &protocol);
        let mut body = described_whole(base, record);
        add(&mut body, "id", json!(protocol));
        add(&mut body, "links", json!({ "identity_provider": provider, "self": own }));
        body
    }

    /// Lists the protocols of a provider. As in Keystone, the list is empty if the provider does not exist.
    fn list(call: &mut Call) -> Outcome {
        let permit = call.allow(&About::default())?;
        let Some(provider) = IdentityProviderId::from_text(&call.decoded(0)) else {
            return Ok(listing::none(call, Self::SCHEMA.many));
        };
        let of = |protocol: &str| ProtocolKey::from_text(&format!("{provider}/{protocol}"));
        let after = call.marker(|text| of(text).map(|key| key.bytes()))?;
        let (base, own) = (call.base.clone(), permit.clone());
        let source = move |view: &View<'_>, after: Option<&[u8]>, each: Each<'_>| {
            records::<Protocol>(view, &ProtocolKey::of(&provider), after, |key, row| {
                let (place, attribute) = (key.bytes(), row.remote_id_attribute.clone());
                let mut body = Self::described(&base, Record::bare(key, row), &own);
                add(&mut body, "idp_id", json!(provider.0));
                add(&mut body, "remote_id_attribute", json!(attribute));
                Ok(each(place, body))
            })
        };
        let filters = Filters::of(&call.head, &[]);
        listing::answer(call, Self::SCHEMA.many, &permit, filters, after, Box::new(source))
    }

    fn create(call: &mut Call) -> Outcome {
        let permitted = permitted::<Self>(call)?;
        let key = ProtocolKey { provider: IdentityProviderId(call.decoded(0)), protocol: call.decoded(1) };
        let new =
            Protocol { mapping: MappingId(permitted.1.needed("mapping_id")?), remote_id_attribute: None };
        created(call, permitted, &RecordId::NewWith(key), &new)
    }
}

impl Resource for Mapping {
    const SCHEMA: Schema = Schema {
        one: "mapping",
        many: "mappings",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("rules", Type::List, Type::List),
            ("schema_version", Type::Text, Type::TextOrNull),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = None;
    const UNDER: &'static str = "/OS-FEDERATION";
    const STORE: Store<Self> = Store::BY_ID;
    const HAS_OPTIONS: bool = false;
    const DECODES_ID: bool = true;

    fn attributes(&self) -> Value {
        let rules: Value = serde_json::from_str(&self.rules).unwrap_or_default();
        json!({ "rules": rules, "schema_version": self.schema_version })
    }

    /// As in Keystone, a change replaces the whole mapping. If the body has no version, the mapping gets the default version. Other attributes in the
    /// body are ignored.
    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        *self = mapping(given)?;
        Ok(())
    }

    fn create(call: &mut Call) -> Outcome {
        let permitted = permitted::<Self>(call)?;
        let new = mapping(&permitted.1)?;
        created(call, permitted, &RecordId::NewWith(MappingId(call.decoded(0))), &new)
    }
}

fn mapping(given: &RequestBody) -> Result<Mapping, Error> {
    let version = given.text("schema_version")?.flatten().filter(|version| !version.is_empty());
    let schema_version = version.unwrap_or_else(|| DEFAULT_VERSION.to_owned());
    let rules = given.value("rules").unwrap_or(&Value::Null);
    check_mapping_rules(&schema_version, rules).map_err(invalid)?;
    Ok(Mapping { rules: rules.to_string(), schema_version })
}

impl Resource for ServiceProvider {
    const SCHEMA: Schema = Schema {
        one: "service_provider",
        many: "service_providers",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("auth_url", Type::Text, Type::Text),
            ("sp_url", Type::Text, Type::Text),
            ("enabled", Type::Flag, Type::Flag),
            ("description", Type::TextOrNull, Type::TextOrNull),
            ("relay_state_prefix", Type::Text, Type::TextOrNull),
            ("links", Type::Object, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = None;
    const UNDER: &'static str = "/OS-FEDERATION";
    const STORE: Store<Self> = Store::BY_ID;
    const HAS_OPTIONS: bool = false;
    const DECODES_ID: bool = true;

    fn attributes(&self) -> Value {
        let ServiceProvider { auth_url, sp_url, enabled, description, relay_state_prefix } = self;
        json!({
            "auth_url": auth_url, "sp_url": sp_url, "enabled": enabled, "description": description,
            "relay_state_prefix": relay_state_prefix,
        })
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        given.unless_empty()?;
        given.only(&["auth_url", "sp_url", "enabled", "description", "relay_state_prefix"])?;
        given.set("auth_url", &mut self.auth_url)?;
        given.set("sp_url", &mut self.sp_url)?;
        given.set_flag("enabled", &mut self.enabled)?;
        if let Some(text) = given.text("description")? {
            self.description = text;
        }
        if let Some(prefix) = given.text("relay_state_prefix")? {
            self.relay_state_prefix = prefix.unwrap_or_else(|| RELAY_STATE_PREFIX.to_owned());
        }
        Ok(())
    }

    fn create(call: &mut Call) -> Outcome {
        let permitted = permitted::<Self>(call)?;
        let given = &permitted.1;
        let new = ServiceProvider {
            auth_url: given.needed("auth_url")?,
            sp_url: given.needed("sp_url")?,
            enabled: false,
            description: None,
            relay_state_prefix: RELAY_STATE_PREFIX.to_owned(),
        };
        created(call, permitted, &RecordId::NewWith(ServiceProviderId(call.decoded(0))), &new)
    }
}
