//! The configuration of a domain. This server stores the configuration, checks it, and shows it without secrets. In Keystone, the configuration
//! describes the directory of the domain's users. In this server the configuration has no effect.

mod known_options;

pub use known_options::domain_options;

use super::resource::Resource as _;
use super::{ApiError, ApiResponse, Call, Outcome};
use enfilade_admin::keystone::set_domain_config;
use enfilade_facts::tables::{ConfigOption, Domain, DomainConfig};
use enfilade_facts::vocabulary::DomainId;
use enfilade_passage::{About, ApiPermit};
use hyper::StatusCode;
use known_options::{KNOWN, Part, invalid, options};
use serde_json::{Map, Value, json};

/// The options of a configuration that are not secret.
fn shown(config: &DomainConfig) -> impl Iterator<Item = (&str, &str, Value)> {
    let open = config.options.iter().filter(|option| !option.sensitive);
    open.map(|option| {
        let value = serde_json::from_str(&option.value).unwrap_or_default();
        (option.group.as_str(), option.name.as_str(), value)
    })
}

/// The domain in the path (if it exists), the text in the path, and the permit of the call.
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

/// The options in the body of a request that changes a part of the configuration.
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

/// Changes options. If the path names a group or option, the configuration must contain this group or option.
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

/// Deletes the options of a part of the configuration. If the path names a group or option, the configuration must contain this group or option.
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

/// Refuses a change of a group or option that the configuration does not contain. For this check, a stored secret option counts like any other stored
/// option, although no response shows it.
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

/// Shows the password rules of the default domain. Every user may make this call. The response contains a regular expression, and a text that
/// describes all rules for the form of a password. If the configuration of the server contains no regular expression, the response contains a regular
/// expression that checks only the length.
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
