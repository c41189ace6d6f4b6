//! The form of a mapping's rules, for the versions 1.0, 2.0 and 3.0 of Keystone's mapping rules.

use serde_json::Value;

/// The version of rules that contain no version. Keystone has the same default.
pub(super) const DEFAULT_VERSION: &str = "1.0";

/// The form of a part of the rules.
enum Form {
    Text,
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of any values.
    Values,
    /// A list of parts. The number is the minimum length of the list, and the form is the form of each part.
    List(usize, &'static Form),
    /// An object with these attributes and no others.
    Object(&'static [Attribute]),
    /// An object of one of these forms. The text describes the forms. No object can match two of the forms.
    OneOf(&'static [&'static [Attribute]], &'static str),
}

/// An attribute: its name, whether it is required, and its form.
type Attribute = (&'static str, bool, Form);

const DOMAIN: Form = Form::Object(&[("id", false, Form::Text), ("name", false, Form::Text)]);
const USER: Form = Form::Object(&[
    ("id", false, Form::Text),
    ("name", false, Form::Text),
    ("email", false, Form::Text),
    ("domain", false, DOMAIN),
    ("type", false, Form::Word(&["ephemeral", "local"])),
]);
const ROLES: Form = Form::List(0, &Form::Object(&[("name", true, Form::Text)]));
const PROJECTS: Form = Form::List(0, &Form::Object(&[("name", true, Form::Text), ("roles", true, ROLES)]));
const PROJECTS_IN_DOMAINS: Form = Form::List(
    0,
    &Form::Object(&[("name", true, Form::Text), ("roles", true, ROLES), ("domain", false, DOMAIN)]),
);
const GROUP: Form = Form::OneOf(
    &[&[("id", true, Form::Text)], &[("name", true, Form::Text), ("domain", true, DOMAIN)]],
    "either id, or name and domain",
);

macro_rules! local {
    ($projects:expr $(, $more:expr)*) => {
        Form::Object(&[
            ("user", false, USER),
            ("projects", false, $projects),
            ("group", false, GROUP),
            ("groups", false, Form::Text),
            ("group_ids", false, Form::Text),
            ("domain", false, DOMAIN),
            $($more,)*
        ])
    };
}

/// A condition on a remote attribute: the attribute's name (`type`), a list of values, and whether the values are regular expressions.
macro_rules! condition {
    ($name:literal) => {
        &[("type", true, Form::Text), ($name, true, Form::Values), ("regex", false, Form::Flag)]
    };
}
const REMOTE: Form = Form::List(
    1,
    &Form::OneOf(
        &[
            &[("type", true, Form::Text)],
            condition!("any_one_of"),
            condition!("not_any_of"),
            condition!("blacklist"),
            condition!("whitelist"),
        ],
        "type, and at most one of the lists any_one_of, not_any_of, blacklist and whitelist",
    ),
);

macro_rules! rules {
    ($local:expr) => {
        Form::List(1, &Form::Object(&[("local", true, Form::List(0, &$local)), ("remote", true, REMOTE)]))
    };
}

/// The form of the rules of each version.
static VERSIONS: [(&str, Form); 3] = [
    (DEFAULT_VERSION, rules!(local!(PROJECTS))),
    ("2.0", rules!(local!(PROJECTS_IN_DOMAINS))),
    ("3.0", rules!(local!(PROJECTS_IN_DOMAINS, ("projects_json", false, Form::Text)))),
];

/// Checks the rules of a mapping. An error names the first part that has a wrong form.
///
/// # Errors
/// When the version is unknown, or a part of the rules has a wrong form.
pub fn check_mapping_rules(version: &str, rules: &Value) -> Result<(), String> {
    let Some((_, form)) = VERSIONS.iter().find(|(known, _)| *known == version) else {
        let known: Vec<_> = VERSIONS.iter().map(|(known, _)| *known).collect();
        return Err(wrong("schema_version", &format!("one of {}", known.join(", "))));
    };
    check(form, rules, "rules")
}

fn wrong(at: &str, expected: &str) -> String {
    format!("Invalid input for field/attribute {at} of mapping: expected {expected}.")
}

fn check(form: &Form, value: &Value, at: &str) -> Result<(), String> {
    let unless = |is_good: bool, expected: &str| if is_good { Ok(()) } else { Err(wrong(at, expected)) };
    match form {
        Form::Text => unless(value.is_string(), "a string"),
        Form::Flag => unless(value.is_boolean(), "true or false"),
        Form::Word(words) => {
            let is_one = value.as_str().is_some_and(|text| words.contains(&text));
            unless(is_one, &format!("one of {}", words.join(", ")))
        }
        Form::Values => unless(value.is_array(), "a list"),
        Form::List(least, form) => {
            let all = value.as_array().filter(|all| all.len() >= *least);
            let all = all.ok_or_else(|| wrong(at, &format!("a list of at least {least} objects")))?;
            all.iter().enumerate().try_for_each(|(n, one)| check(form, one, &format!("{at}[{n}]")))
        }
        Form::Object(attributes) => check_object(attributes, value, at),
        Form::OneOf(objects, expected) => {
            let is_one = objects.iter().any(|attributes| check_object(attributes, value, at).is_ok());
            unless(is_one, expected)
        }
    }
}

fn check_object(attributes: &[Attribute], value: &Value, at: &str) -> Result<(), String> {
    let object = value.as_object().ok_or_else(|| wrong(at, "an object"))?;
    let names = || attributes.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
    if let Some(name) = object.keys().find(|name| attributes.iter().all(|(known, ..)| known != name)) {
        return Err(wrong(&format!("{at}.{name}"), &format!("only {}", names())));
    }
    attributes.iter().try_for_each(|(name, is_required, form)| match object.get(*name) {
        Some(value) => check(form, value, &format!("{at}.{name}")),
        None if *is_required => Err(wrong(&format!("{at}.{name}"), "this attribute, which is required")),
        None => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(local: Value, remote: Value) -> Value {
        json!([{ "local": [local], "remote": [remote] }])
    }

    #[test]
    fn rules_have_the_form_of_their_version() {
        let user = || json!({ "type": "REMOTE_USER" });
        let local = |local: Value| rule(local, json!({ "type": "REMOTE_USER" }));
        let remote = |remote: Value| rule(json!({}), remote);
        let project = json!({ "projects": [{ "name": "p", "roles": [{ "name": "member" }] }] });
        let elsewhere = json!({ "projects": [{ "name": "p", "roles": [], "domain": { "id": "default" } }] });
        for (version, rules, wrong) in [
            ("1.0", json!(null), Some("rules ")),
            ("1.0", json!([]), Some("at least 1")),
            ("1.0", json!([{}]), Some("rules[0].local")),
            ("1.0", json!([{ "local": [], "remote": [] }]), Some("rules[0].remote")),
            ("1.0", json!([{ "local": [], "remote": [user()], "x": 1 }]), Some("rules[0].x")),
            ("1.0", json!([{ "local": [], "remote": [user()] }]), None),
            ("4.0", local(json!({})), Some("schema_version")),
            ("1.0", local(json!({ "user": { "name": "{0}", "type": "ephemeral" } })), None),
            ("1.0", local(json!({ "user": { "type": "x" } })), Some("rules[0].local[0].user.type")),
            ("1.0", local(json!({ "user": { "domain": { "x": "y" } } })), Some("user.domain.x")),
            ("1.0", local(json!({ "group": { "id": "g" } })), None),
            ("1.0", local(json!({ "group": { "name": "g", "domain": { "name": "d" } } })), None),
            ("1.0", local(json!({ "group": { "name": "g" } })), Some("local[0].group")),
            ("1.0", local(json!({ "groups": "{0}", "group_ids": "{1}" })), None),
            ("1.0", local(json!({ "groups": ["x"] })), Some("local[0].groups")),
            ("1.0", local(project.clone()), None),
            ("1.0", local(json!({ "projects": [{ "name": "p" }] })), Some("projects[0].roles")),
            ("1.0", local(elsewhere.clone()), Some("projects[0].domain")),
            ("2.0", local(elsewhere.clone()), None),
            ("2.0", local(json!({ "projects_json": "{0}" })), Some("projects_json")),
            ("3.0", local(json!({ "projects_json": "{0}" })), None),
            ("3.0", local(elsewhere), None),
            ("1.0", remote(json!({ "type": "x", "any_one_of": ["a", 1] })), None),
            ("1.0", remote(json!({ "type": "x", "not_any_of": [], "regex": true })), None),
            ("1.0", remote(json!({ "type": "x", "whitelist": "a" })), Some("rules[0].remote[0]")),
            ("1.0", remote(json!({ "type": "x", "regex": true })), Some("rules[0].remote[0]")),
            ("1.0", remote(json!({ "type": "x", "any_one_of": [], "blacklist": [] })), Some("remote[0]")),
            ("1.0", remote(json!({ "whitelist": [] })), Some("rules[0].remote[0]")),
        ] {
            let answer = check_mapping_rules(version, &rules);
            match wrong {
                None => assert_eq!(answer, Ok(()), "{version} {rules}"),
                Some(part) => assert!(answer.unwrap_err().contains(part), "{version} {rules}"),
            }
        }
    }
}
