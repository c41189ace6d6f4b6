//! Domains.

use super::request_body::{RequestBody, invalid};
use super::resource::{Resource, Store, created, permitted};
use super::schema::{Schema, Type};
use super::{Call, Outcome};
use enfilade_admin::Error;
use enfilade_admin::keystone::RecordId;
use enfilade_facts::tables::{Domain, ResourceKind};
use enfilade_facts::vocabulary::{DomainId, Realm};
use enfilade_passage::About;
use serde_json::{Value, json};

impl Resource for Domain {
    const SCHEMA: Schema = Schema {
        one: "domain",
        many: "domains",
        attributes: &[
            ("id", Type::Text, Type::None),
            ("name", Type::Text, Type::Text),
            ("description", Type::Text, Type::TextOrNull),
            ("enabled", Type::Flag, Type::Flag),
            ("tags", Type::Texts, Type::None),
            ("options", Type::Object, Type::Object),
            ("links", Type::Object, Type::None),
            ("explicit_domain_id", Type::None, Type::None),
        ],
    };
    const KIND: Option<ResourceKind> = Some(ResourceKind::Domain);
    const STORE: Store<Self> = Store::BY_ID;

    fn attributes(&self) -> Value {
        let description = self.description.as_deref().unwrap_or_default();
        json!({ "name": self.name.as_str(), "description": description, "enabled": self.enabled, "tags": [] })
    }

    fn change(&mut self, given: &RequestBody) -> Result<(), Error> {
        if let Some(name) = given.name()? {
            self.name = realm(&name)?;
        }
        given.set_flag("enabled", &mut self.enabled)?;
        given.set_or_remove("description", &mut self.description)
    }

    fn about<'a>(&'a self, id: &'a DomainId) -> About<'a> {
        About { domain: Some(id), ..About::default() }
    }

    fn create(call: &mut Call) -> Outcome {
        let (permit, given) = permitted::<Domain>(call)?;
        let new = Domain::new(realm(&given.needed("name")?)?);
        created(call, (permit, given), &RecordId::New, &new)
    }
}

/// The name of a domain.
pub(super) fn realm(name: &str) -> Result<Realm, Error> {
    name.parse().map_err(|why| invalid(format!("Invalid input for field/attribute name: {why}")))
}
