//! The configuration of a domain. It is stored, checked and shown without secrets. In Keystone it configures the directory that the users of the
//! domain come from. In this server it has no effect.

use super::resource::Resource as _;
use super::{ApiError, ApiResponse, Call, Outcome};
use enfilade_admin::Error;
use enfilade_admin::keystone::set_domain_config;
use enfilade_facts::tables::{ConfigOption, Domain, DomainConfig};
use enfilade_facts::vocabulary::DomainId;
use enfilade_passage::{About, ApiPermit};
use hyper::StatusCode;
use serde_json::{Map, Value, json};

/// A known option: its group, its name, and its default as JSON. An option without a default is a secret.
type Known = (&'static str, &'static str, Option<&'static str>);

/// The options that Keystone 30 accepts, with its defaults.
#[rustfmt::skip]
const KNOWN: &[Known] = &[
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
struct Part {
    group: Option<String>,
    option: Option<String>,
}

/// Keystone answers an invalid configuration with 403.
fn invalid(why: String) -> Error {
    Error::Refused(format!("Invalid domain specific configuration: {why}."))
}

fn known(group: &str, option: &str) -> Result<&'static Known, Error> {
    let found = KNOWN.iter().find(|(of, name, _)| (*of, *name) == (group, option));
    found.ok_or_else(|| {
        invalid(format!("the option {option} in group {group} is not supported for single domains"))
    })
}

impl Part {
    /// The part in the path, whose parameters from `at` on are the group and the option.
    fn of(call: &Call, at: usize) -> Self {
        let part = |at: usize| Some(call.decoded(at)).filter(|text| !text.is_empty());
        Part { group: part(at), option: part(at + 1) }
    }

    /// Refuses a group or option that does not exist.
    fn check(&self) -> Result<(), Error> {
        let Some(group) = &self.group else { return Ok(()) };
        if !KNOWN.iter().any(|(known, ..)| known == group) {
            return Err(invalid(format!("the group {group} is not supported for single domains")));
        }
        self.option.as_ref().map_or(Ok(()), |option| known(group, option).map(drop))
    }

    /// Whether the part contains an option.
    fn contains(&self, group: &str, option: &str) -> bool {
        self.group.as_ref().is_none_or(|own| own == group)
            && self.option.as_ref().is_none_or(|own| own == option)
    }

    fn missing(&self, domain: &str) -> ApiError {
        let what = match (&self.group, &self.option) {
            (Some(group), Some(option)) => format!("option {option} in group {group}"),
            (Some(group), None) => format!("group {group}"),
            (None, _) => "any options".to_owned(),
        };
        let why = format!("Could not find {what} in domain configuration for domain {domain}.");
        ApiError::Message(StatusCode::NOT_FOUND, why)
    }

    /// The response with these options: by group, or one option without its group if the part is one option.
    fn response<'o>(
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

/// The options of a configuration that are not secret.
fn shown(config: &DomainConfig) -> impl Iterator<Item = (&str, &str, Value)> {
    let open = config.options.iter().filter(|option| !option.sensitive);
    open.map(|option| {
        let value = serde_json::from_str(&option.value).unwrap_or_default();
        (option.group.as_str(), option.name.as_str(), value)
    })
}

/// The domain in the path if it exists, the text in the path, and the permit of the call.
fn domain(call: &mut Call) -> Result<(Option<DomainId>, String, ApiPermit), ApiError> {
    let said = call.parameter(0).to_owned();
    let permit = call.allow(&About::default())?;
    let found = call.look(|view| Ok(Domain::find(view, &said)?.map(|(id, _)| id)))?;
    Ok((found, said, permit))
}

fn existing(found: Option<DomainId>, said: &str) -> Result<DomainId, ApiError> {
    found.ok_or_else(|| ApiError::missing("domain", said))
}

pub(super) fn show(call: &mut Call) -> Outcome {
    let (found, said, _) = domain(call)?;
    let part = Part::of(call, 1);
    part.check()?;
    let id = existing(found, &said)?;
    let config = call.look(|view| Ok(view.get::<DomainConfig>(&id)?))?.unwrap_or_default();
    let mut options = shown(&config).filter(|(group, name, _)| part.contains(group, name)).peekable();
    match options.peek() {
        Some(_) => Ok(part.response(StatusCode::OK, options)),
        None => Err(part.missing(&said)),
    }
}

/// The options in the body of a request that changes a part.
fn given(call: &Call, part: &Part) -> Result<Vec<ConfigOption>, ApiError> {
    let body = call.json()?;
    let config = body.get("config").and_then(Value::as_object).filter(|config| !config.is_empty());
    let config = config.ok_or_else(|| invalid("no options are specified in `config`".to_owned()))?;
    let mut groups = config.clone();
    // A request for one option contains the option without its group.
    if let (Some(group), Some(_)) = (&part.group, &part.option) {
        groups = Map::from_iter([(group.clone(), Value::Object(groups))]);
    }
    Ok(options(&groups, part)?)
}

/// The options of a whole configuration: an object of groups, each an object of options.
///
/// # Errors
/// When a group or an option does not exist.
pub fn domain_options(config: &Map<String, Value>) -> Result<Vec<ConfigOption>, Error> {
    options(config, &Part::default())
}

fn options(groups: &Map<String, Value>, part: &Part) -> Result<Vec<ConfigOption>, Error> {
    let mut options = Vec::new();
    for (group, of_group) in groups {
        Part { group: Some(group.clone()), option: None }.check()?;
        let of_group = of_group.as_object().filter(|options| !options.is_empty());
        let expected = || invalid(format!("the group {group} has to be an object of options"));
        for (name, value) in of_group.ok_or_else(expected)? {
            let (_, _, default) = known(group, name)?;
            if !part.contains(group, name) {
                let why = format!("the path names another group or option than {group}.{name} in the body");
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

/// Replaces the whole configuration.
pub(super) fn put(call: &mut Call) -> Outcome {
    let (found, said, permit) = domain(call)?;
    let id = existing(found, &said)?;
    let options = given(call, &Part::default())?;
    let (config, was_there) = call.save(&permit, |ctx| {
        set_domain_config(ctx, &id, |config| {
            config.options.clone_from(&options);
            Ok(())
        })
    })?;
    let status = if was_there { StatusCode::OK } else { StatusCode::CREATED };
    Ok(Part::default().response(status, shown(&config)))
}

/// Changes options. If the path names a group or option, the configuration must contain it.
pub(super) fn update(call: &mut Call) -> Outcome {
    let (found, said, permit) = domain(call)?;
    let id = existing(found, &said)?;
    let part = Part::of(call, 1);
    part.check()?;
    let options = given(call, &part)?;
    unless_absent(call, &id, &part, &said)?;
    let (config, _) = call.save(&permit, |ctx| {
        set_domain_config(ctx, &id, |config| {
            let is_new = |old: &ConfigOption| {
                options.iter().any(|new| (&new.group, &new.name) == (&old.group, &old.name))
            };
            config.options.retain(|old| !is_new(old));
            config.options.extend(options.iter().cloned());
            Ok(())
        })
    })?;
    // As in Keystone, the response contains the whole configuration.
    Ok(Part::default().response(StatusCode::OK, shown(&config)))
}

/// Deletes the options of a part. If the path names a group or option, the configuration must contain it.
pub(super) fn delete(call: &mut Call) -> Outcome {
    let (found, said, permit) = domain(call)?;
    let id = existing(found, &said)?;
    let part = Part::of(call, 1);
    part.check()?;
    unless_absent(call, &id, &part, &said)?;
    call.save(&permit, |ctx| {
        set_domain_config(ctx, &id, |config| {
            config.options.retain(|option| !part.contains(&option.group, &option.name));
            Ok(())
        })
    })?;
    Ok(ApiResponse::no_content())
}

/// Refuses a change of a group or option that the configuration does not have. An option that is a secret counts as contained.
fn unless_absent(call: &Call, id: &DomainId, part: &Part, said: &str) -> Result<(), ApiError> {
    if part.group.is_none() {
        return Ok(());
    }
    let config = call.look(|view| Ok(view.get::<DomainConfig>(id)?))?.unwrap_or_default();
    let has_it = config.options.iter().any(|option| part.contains(&option.group, &option.name));
    if has_it { Ok(()) } else { Err(part.missing(said)) }
}

/// Shows the defaults of all options, of a group, or of one option. A secret has no default.
pub(super) fn defaults(call: &mut Call) -> Outcome {
    call.allow(&About::default())?;
    let part = Part::of(call, 0);
    part.check()?;
    let open = KNOWN.iter().filter(|(group, name, _)| part.contains(group, name));
    let mut options = open
        .filter_map(|(group, name, default)| {
            Some((*group, *name, serde_json::from_str::<Value>((*default)?).ok()?))
        })
        .peekable();
    match options.peek() {
        Some(_) => Ok(part.response(StatusCode::OK, options)),
        None => Err(invalid("the default of a secret is not shown".to_owned()).into()),
    }
}

/// Shows the rules for passwords of the default domain to every user: the configured regular expression, or one for the length; and all rules about
/// the form in words.
pub(super) fn security_compliance(call: &mut Call) -> Outcome {
    const GROUP: &str = "security_compliance";
    let (found, said, _) = domain(call)?;
    let part = Part { group: Some(GROUP.to_owned()), option: Part::of(call, 1).group };
    let id = existing(found, &said)?;
    if id != DomainId::DEFAULT {
        let why = "the rules for passwords are shown only for the default domain";
        return Err(invalid(why.to_owned()).into());
    }
    let rules = call.faces.passwords();
    let all = [("password_regex", rules.regex()), ("password_regex_description", rules.form())];
    let mut options = all
        .into_iter()
        .filter(|(name, _)| part.contains(GROUP, name))
        .map(|(name, value)| (GROUP, name, json!(value)))
        .peekable();
    match options.peek() {
        Some(_) => Ok(part.response(StatusCode::OK, options)),
        None => {
            Err(invalid("only password_regex and password_regex_description are shown".to_owned()).into())
        }
    }
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
