//! The options that the configuration of a domain may have, and the part of a configuration that a path names.

use super::super::{ApiError, ApiResponse, Call};
use enfilade_admin::Error;
use enfilade_facts::tables::ConfigOption;
use hyper::StatusCode;
use serde_json::{Map, Value, json};

/// A known option: its group, its name, and its default as JSON. An option without a default is a secret.
pub(super) type Known = (&'static str, &'static str, Option<&'static str>);

/// The options that Keystone 30 accepts, with Keystone's defaults.
#[rustfmt::skip]
pub(super) const KNOWN: &[Known] = &[
    ("identity", "driver", Some(r#""sql""#)),
    ("identity", "list_limit", Some("null")),
    ("ldap", "url", Some(r#""ldap://localhost""#)),
    ("ldap", "user", Some("null")),
    ("ldap", "password", None),
    ("ldap", "suffix", Some(r#""cn=example,cn=com""#)),
    ("ldap", "query_scope", Some(r#""one""#)),
    ("ldap", "page_size", Some("0")),
    ("ldap", "alias_dereferencing", Some(r#""default""#)),
    ("ldap", "debug_level", Some("null")),
    ("ldap", "chase_referrals", Some("null")),
    ("ldap", "user_tree_dn", Some("null")),
    ("ldap", "user_filter", Some("null")),
    ("ldap", "user_objectclass", Some(r#""inetOrgPerson""#)),
    ("ldap", "user_id_attribute", Some(r#""cn""#)),
    ("ldap", "user_name_attribute", Some(r#""sn""#)),
    ("ldap", "user_mail_attribute", Some(r#""mail""#)),
    ("ldap", "user_description_attribute", Some(r#""description""#)),
    ("ldap", "user_pass_attribute", Some(r#""userPassword""#)),
    ("ldap", "user_enabled_attribute", Some(r#""enabled""#)),
    ("ldap", "user_enabled_invert", Some("false")),
    ("ldap", "user_enabled_mask", Some("0")),
    ("ldap", "user_enabled_default", Some(r#""True""#)),
    ("ldap", "user_attribute_ignore", Some(r#"["default_project_id"]"#)),
    ("ldap", "user_default_project_id_attribute", Some("null")),
    ("ldap", "user_enabled_emulation", Some("false")),
    ("ldap", "user_enabled_emulation_dn", Some("null")),
    ("ldap", "user_enabled_emulation_use_group_config", Some("false")),
    ("ldap", "user_additional_attribute_mapping", Some("[]")),
    ("ldap", "group_tree_dn", Some("null")),
    ("ldap", "group_filter", Some("null")),
    ("ldap", "group_objectclass", Some(r#""groupOfNames""#)),
    ("ldap", "group_id_attribute", Some(r#""cn""#)),
    ("ldap", "group_name_attribute", Some(r#""ou""#)),
    ("ldap", "group_members_are_ids", Some("false")),
    ("ldap", "group_member_attribute", Some(r#""member""#)),
    ("ldap", "group_desc_attribute", Some(r#""description""#)),
    ("ldap", "group_attribute_ignore", Some("[]")),
    ("ldap", "group_additional_attribute_mapping", Some("[]")),
    ("ldap", "tls_cacertfile", Some("null")),
    ("ldap", "tls_cacertdir", Some("null")),
    ("ldap", "use_tls", Some("false")),
    ("ldap", "tls_req_cert", Some(r#""demand""#)),
    ("ldap", "use_pool", Some("true")),
    ("ldap", "pool_size", Some("10")),
    ("ldap", "pool_retry_max", Some("3")),
    ("ldap", "pool_retry_delay", Some("0.1")),
    ("ldap", "pool_connection_timeout", Some("-1")),
    ("ldap", "pool_connection_lifetime", Some("600")),
    ("ldap", "use_auth_pool", Some("true")),
    ("ldap", "auth_pool_size", Some("100")),
    ("ldap", "auth_pool_connection_lifetime", Some("60")),
];

/// The part of a configuration that a path names: everything, a group, or an option of a group.
#[derive(Default)]
pub(super) struct Part {
    pub(super) group: Option<String>,
    pub(super) option: Option<String>,
}

/// Keystone answers an invalid configuration with 403.
pub(super) fn invalid(why: String) -> Error {
    Error::Refused(format!("Invalid domain specific configuration: {why}."))
}

fn known(group: &str, option: &str) -> Result<&'static Known, Error> {
    let found = KNOWN.iter().find(|(of, name, _)| (*of, *name) == (group, option));
    found.ok_or_else(|| {
        invalid(format!("a domain configuration cannot contain an option {option} in group {group}"))
    })
}

impl Part {
    /// The part that the path names. The parameter of the path with the index `at` is the group, and the next parameter is the option.
    pub(super) fn of(call: &Call, at: usize) -> Self {
        let part = |at: usize| Some(call.decoded(at)).filter(|text| !text.is_empty());
        Part { group: part(at), option: part(at + 1) }
    }

    /// Refuses a group or option that does not exist.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Some(group) = &self.group else { return Ok(()) };
        if !KNOWN.iter().any(|(known, ..)| known == group) {
            return Err(invalid(format!("a domain configuration cannot contain a group {group}")));
        }
        self.option.as_ref().map_or(Ok(()), |option| known(group, option).map(drop))
    }

    /// Whether the part contains an option.
    pub(super) fn contains(&self, group: &str, option: &str) -> bool {
        self.group.as_ref().is_none_or(|own| own == group)
            && self.option.as_ref().is_none_or(|own| own == option)
    }

    pub(super) fn missing(&self, domain: &str) -> ApiError {
        let what = match (&self.group, &self.option) {
            (Some(group), Some(option)) => format!("option {option} in group {group}"),
            (Some(group), None) => format!("group {group}"),
            (None, _) => "any options".to_owned(),
        };
        let why = format!("Could not find {what} in domain configuration for domain {domain}.");
        ApiError::Message(StatusCode::NOT_FOUND, why)
    }

    /// The response with these options, ordered by group. If the part is one option, the response contains
    /// this option without its group.
    pub(super) fn response<'o>(
        &self,
        status: StatusCode,
        options: impl Iterator<Item = (&'o str, &'o str, Value)>,
    ) -> ApiResponse {
        let mut config = Map::new();
        for (group, name, value) in options {
            match self.option {
                Some(_) => drop(config.insert(name.to_owned(), value)),
                None => {
                    let of_group = config.entry(group).or_insert_with(|| json!({}));
                    if let Some(of_group) = of_group.as_object_mut() {
                        of_group.insert(name.to_owned(), value);
                    }
                }
            }
        }
        ApiResponse::json(status, &json!({ "config": config }))
    }
}

/// The options of a whole configuration. The configuration is an object of groups, and each group is an
/// object of options.
/// # Errors
/// When a group or an option does not exist.
pub fn domain_options(config: &Map<String, Value>) -> Result<Vec<ConfigOption>, Error> {
    options(config, &Part::default())
}

/// The options in these groups. Each option must belong to the given part of the configuration.
pub(super) fn options(groups: &Map<String, Value>, part: &Part) -> Result<Vec<ConfigOption>, Error> {
    let mut options = Vec::new();
    for (group, of_group) in groups {
        Part { group: Some(group.clone()), option: None }.check()?;
        let of_group = of_group.as_object().filter(|options| !options.is_empty());
        let expected = || invalid(format!("the group {group} has to be an object of options"));
        for (name, value) in of_group.ok_or_else(expected)? {
            let (_, _, default) = known(group, name)?;
            if !part.contains(group, name) {
                let why = format!(
                    "the body sets {group}.{name}, but the path of the request is for another group or option"
                );
                return Err(invalid(why));
            }
            options.push(ConfigOption {
                group: group.clone(),
                name: name.clone(),
                value: value.to_string(),
                sensitive: default.is_none(),
            });
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_json_and_only_the_password_is_a_secret() {
        let secrets: Vec<_> = KNOWN.iter().filter(|(.., default)| default.is_none()).collect();
        assert_eq!(secrets, [&("ldap", "password", None)]);
        for (group, name, default) in KNOWN {
            let is_json = default.is_none_or(|text| serde_json::from_str::<Value>(text).is_ok());
            assert!(is_json, "{group}.{name}");
        }
    }

    #[test]
    fn a_path_names_known_groups_and_options() {
        let text = |text: &str| Some(text.to_owned());
        for (group, option, is_known) in [
            (None, None, true),
            (text("ldap"), None, true),
            (text("ldap"), text("url"), true),
            (text("ldap"), text("password"), true),
            (text("ldap"), text("driver"), false),
            (text("identity"), text("driver"), true),
            (text("sql"), None, false),
        ] {
            let part = Part { group, option };
            assert_eq!(part.check().is_ok(), is_known, "{:?} {:?}", part.group, part.option);
        }
    }
}
