//! Random calls: any route of the tables, with ids of existing records, and bodies with the attributes of any call.

use crate::world::{Dice, ROLES, World};
use enfilade_facts::tables::{
    AccessToken, Blob, Consumer, Delegation, Domain, Endpoint, EndpointGroup, Group, Key, Limit, NamedRole,
    Policy, Project, RegisteredLimit, RequestToken, Row, Service, Trust,
};
use enfilade_facts::{Read, SourceError, View};
use serde_json::{Map, Value, json};

/// The ids of existing records.
pub(crate) struct Ids {
    pub(crate) users: Vec<String>,
    projects: Vec<String>,
    domains: Vec<String>,
    groups: Vec<String>,
    roles: Vec<String>,
    blobs: Vec<String>,
    accesses: Vec<String>,
    credentials: Vec<String>,
    pub(crate) trusts: Vec<String>,
    consumers: Vec<String>,
    request_tokens: Vec<String>,
    access_tokens: Vec<String>,
    services: Vec<String>,
    endpoints: Vec<String>,
    endpoint_groups: Vec<String>,
    policies: Vec<String>,
    registered_limits: Vec<String>,
    limits: Vec<String>,
}

fn ids<R: Row>(view: &View<'_>, text: impl Fn(R::Key) -> String) -> Result<Vec<String>, SourceError>
where
    R::Key: Key,
{
    Ok(view.list::<R>(&[])?.into_iter().map(|(id, _)| text(id)).collect())
}

impl Ids {
    pub(crate) fn of(world: &World) -> Ids {
        let read = |view: &View<'_>| {
            let access = |blob: &Blob| {
                let blob: Value = serde_json::from_str(&blob.blob).unwrap_or_default();
                blob["access"].as_str().map(str::to_owned)
            };
            Ok::<_, SourceError>(Ids {
                users: world.users.values().map(ToString::to_string).collect(),
                projects: ids::<Project>(view, |id| id.to_string())?,
                domains: ids::<Domain>(view, |id| id.to_keystone())?,
                groups: ids::<Group>(view, |id| id.to_string())?,
                roles: ids::<NamedRole>(view, |id| id.to_string())?,
                blobs: ids::<Blob>(view, |id| id.to_string())?,
                accesses: view.list::<Blob>(&[])?.iter().filter_map(|(_, row)| access(row)).collect(),
                credentials: ids::<Delegation>(view, |id| id.to_string())?,
                trusts: ids::<Trust>(view, |id| id.to_string())?,
                consumers: ids::<Consumer>(view, |id| id.to_string())?,
                request_tokens: ids::<RequestToken>(view, |id| id.to_string())?,
                access_tokens: ids::<AccessToken>(view, |id| id.to_string())?,
                services: ids::<Service>(view, |id| id.to_string())?,
                endpoints: ids::<Endpoint>(view, |id| id.to_string())?,
                endpoint_groups: ids::<EndpointGroup>(view, |id| id.to_string())?,
                policies: ids::<Policy>(view, |id| id.to_string())?,
                registered_limits: ids::<RegisteredLimit>(view, |id| id.to_string())?,
                limits: ids::<Limit>(view, |id| id.to_string())?,
            })
        };
        world.house.facts().read(read).unwrap().unwrap()
    }

    /// A value for a path parameter.
    fn parameter(&self, name: &str, path: &str, dice: &mut Dice) -> String {
        let nobody = ["00000000000000000000000000000001".to_owned()];
        let all = match name {
            "user_id" => &self.users,
            "project_id" => &self.projects,
            "domain_id" => &self.domains,
            "group_id" => &self.groups,
            "role_id" | "prior_role_id" | "implied_role_id" => &self.roles,
            "credential_id" if path.contains("OS-EC2") => &self.accesses,
            "credential_id" => &self.blobs,
            "application_credential_id" => &self.credentials,
            "trust_id" => &self.trusts,
            "consumer_id" => &self.consumers,
            "request_token_id" => &self.request_tokens,
            "access_token_id" => &self.access_tokens,
            "service_id" => &self.services,
            "endpoint_id" => &self.endpoints,
            "endpoint_group_id" => &self.endpoint_groups,
            "policy_id" => &self.policies,
            "registered_limit_id" => &self.registered_limits,
            "limit_id" => &self.limits,
            "group" => return (*dice.of(&["ldap", "identity"])).to_owned(),
            "option" => return (*dice.of(&["url", "password", "driver"])).to_owned(),
            "userid" => {
                return (*dice.of(&["alice@Default", "mallory@Default", "bob@Default", "made@Default"]))
                    .to_owned();
            }
            "name" if path.contains("datastore") => return (*dice.of(&["of-a", "of-b", "made"])).to_owned(),
            "name" => return (*dice.of(&["machine", "lent", "made", "mallorys"])).to_owned(),
            "node" => return "localhost".to_owned(),
            _ => return (*dice.of(&["x", "proxmox-backup", "RegionOne"])).to_owned(),
        };
        let all = if all.is_empty() { &nobody[..] } else { all };
        dice.of(all).clone()
    }

    /// A path from the template of a route.
    pub(crate) fn path(&self, template: &str, dice: &mut Dice) -> String {
        let fill = |part: &str, dice: &mut Dice| match part
            .strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'))
        {
            Some(name) => self.parameter(name, template, dice),
            None => part.to_owned(),
        };
        let parts: Vec<String> = template.split('/').map(|part| fill(part, dice)).collect();
        parts.join("/")
    }

    /// A value for an attribute of this name; never the current password.
    fn value(&self, name: &str, dice: &mut Dice) -> Value {
        let id = |all: &[String], dice: &mut Dice| match all.is_empty() {
            true => Value::Null,
            false => json!(dice.of(all)),
        };
        match name {
            "user_id" | "trustor_user_id" | "trustee_user_id" => id(&self.users, dice),
            "project_id" | "tenant_id" | "default_project_id" => id(&self.projects, dice),
            "parent_id" if dice.once_in(3) => id(&self.projects, dice),
            "domain_id" if dice.once_in(2) => id(&self.domains, dice),
            "roles" => {
                let role = |dice: &mut Dice| match dice.once_in(2) {
                    true => json!({ "name": dice.of(&ROLES) }),
                    false => json!({ "id": id(&self.roles, dice) }),
                };
                (0..=dice.roll(2)).map(|_| role(dice)).collect()
            }
            "name" => json!(format!("n{}", dice.roll(40))),
            "type" => json!(dice.of(&["ec2", "ec2", "totp", "cert"])),
            "blob" => {
                let known = id(&self.accesses, dice);
                let access = if dice.once_in(2) { known } else { json!(format!("k{}", dice.roll(50))) };
                json!(json!({ "access": access, "secret": "chosen" }).to_string())
            }
            "password" | "original_password" | "secret" => json!("chosen"),
            "impersonation" | "unrestricted" | "enabled" | "allow_redelegation" | "is_domain" => {
                json!(dice.once_in(2))
            }
            "resource_name" => json!(format!("n{}", dice.roll(5))),
            "default_limit" | "resource_limit" => json!(dice.roll(5)),
            "filters" => json!({ "interface": "public" }),
            "redelegation_count" => json!(dice.roll(4)),
            "remaining_uses" => json!(1 + dice.roll(3)),
            "expires_at" => {
                json!(dice.of(&["2026-01-01T01:00:00Z", "2030-01-01T00:00:00Z", "2000-01-01T00:00:00Z"]))
            }
            "access_rules" => json!([{ "service": "identity", "method": "GET", "path": "/v3/users" }]),
            "options" => {
                json!({ dice.of(&["lock_password", "immutable", "multi_factor_auth_enabled"]).to_owned(): dice.once_in(2) })
            }
            "url" => json!("https://elsewhere.example/"),
            "interface" => json!("public"),
            "service_id" => id(&self.services, dice),
            "email" | "description" => json!("words"),
            _ => Value::Null,
        }
    }

    fn object(&self, must: &[&str], may: &[&str], dice: &mut Dice) -> Value {
        let mut object = Map::new();
        for name in must {
            object.insert((*name).to_owned(), self.value(name, dice));
        }
        for name in may.iter().filter(|_| dice.once_in(4)).copied().collect::<Vec<_>>() {
            object.insert(name.to_owned(), self.value(name, dice));
        }
        object.retain(|_, value| !value.is_null());
        Value::Object(object)
    }

    /// A body with an object for each kind of call.
    pub(crate) fn body(&self, dice: &mut Dice) -> Value {
        let account = [
            "name",
            "password",
            "enabled",
            "options",
            "domain_id",
            "email",
            "default_project_id",
            "description",
        ];
        let trust = ["trustor_user_id", "trustee_user_id", "project_id", "roles", "impersonation"];
        let lent = ["unrestricted", "roles", "expires_at", "access_rules"];
        let mut secret = lent.to_vec();
        // The attribute `secret` is rare, because the server has to compute a slow hash if the client chooses the secret.
        if dice.once_in(100) {
            secret.push("secret");
        }
        json!({
            "user": self.object(&[], &[&account[..], &["original_password"]].concat(), dice),
            "group": self.object(&["name"], &["domain_id", "description"], dice),
            "project": self.object(&["name"], &["domain_id", "parent_id", "enabled", "options", "is_domain"], dice),
            "domain": self.object(&["name"], &["enabled", "description"], dice),
            "role": self.object(&["name"], &["description", "options"], dice),
            "service": self.object(&["name", "type"], &["enabled"], dice),
            "endpoint": self.object(&["service_id", "interface", "url"], &["enabled"], dice),
            "region": self.object(&[], &["description"], dice),
            "credential": self.object(&["type", "blob"], &["user_id", "project_id", "project_id"], dice),
            "application_credential": self.object(&["name"], &secret, dice),
            "trust": self.object(&trust, &["allow_redelegation", "redelegation_count", "remaining_uses", "expires_at"], dice),
            "endpoint_group": self.object(&["name", "filters"], &["description"], dice),
            "policy": self.object(&["type", "blob"], &[], dice),
            "registered_limit": self.object(&["default_limit"], &["description"], dice),
            "registered_limits": [self.object(&["service_id", "resource_name", "default_limit"], &[], dice)],
            "limit": self.object(&["resource_limit"], &["description"], dice),
            "limits": [self.object(&["service_id", "resource_name", "resource_limit", "project_id"], &[], dice)],
            "identity_provider": self.object(&[], &["enabled", "description", "domain_id"], dice),
            "protocol": { "mapping_id": dice.of(&["x", "proxmox-backup", "RegionOne"]) },
            "mapping": { "rules": [{ "local": [{ "user": { "name": "{0}" } }], "remote": [{ "type": "REMOTE_USER" }] }] },
            "service_provider": {
                "auth_url": "https://elsewhere.example", "sp_url": "https://elsewhere.example", "enabled": dice.once_in(2),
            },
            "config": { "ldap": { "url": "ldap://elsewhere.example", "password": "chosen" } },
            "consumer": self.object(&[], &["description"], dice), "roles": self.value("roles", dice),
            "tenant_id": self.value("tenant_id", dice), "tags": ["t"],
        })
    }

    /// Parameters of a call of the Proxmox API, which refuses unknown parameters.
    pub(crate) fn parameters(&self, path: &str, place: &str, dice: &mut Dice) -> Value {
        let who =
            ["alice@Default", "mallory@Default", "bob@Default", "alice@Default!lent", "mallory@Default!made"];
        let known: &[&str] = match path {
            "access/users" => &["userid", "password", "enable", "comment"],
            "access/users/{userid}" => &["password", "enable", "expire", "comment"],
            "access/users/{userid}/token/{name}" => &["enable", "expire", "comment", "regenerate"],
            "access/acl" => &["path", "role", "auth-id", "propagate", "delete"],
            "config/datastore" => &["name", "path", "comment"],
            "config/datastore/{name}" => &["comment", "maintenance-mode"],
            _ => &["comment", "name", "path", "userid"],
        };
        let needed = ["userid", "path", "role", "auth-id", "name"];
        let mut object = Map::new();
        for name in known {
            if !needed.contains(name) && !dice.once_in(3) {
                continue;
            }
            let value = match *name {
                "userid" => json!("made@Default"),
                "password" => json!("a chosen password"),
                "enable" | "propagate" | "regenerate" | "delete" => json!(dice.once_in(2)),
                "expire" => json!(dice.of(&[0, 1, 4_000_000_000_u64])),
                "path" if path.starts_with("config") => json!(format!("{place}/made{}", dice.roll(3))),
                "path" => json!(dice.of(&["/", "/datastore/of-a", "/datastore/of-b", "/access"])),
                "role" => json!(dice.of(&["Admin", "DatastoreAdmin", "Audit", "NoAccess"])),
                "auth-id" => json!(dice.of(&who)),
                "name" => json!("made"),
                "maintenance-mode" => json!("read-only"),
                _ => json!("words"),
            };
            object.insert((*name).to_owned(), value);
        }
        Value::Object(object)
    }
}
