//! Request bodies. A body is an object that contains one named object. The schema defines the types of some attributes. Any other attribute is stored
//! unchanged.

use super::Call;
use super::schema::Schema;
use enfilade_admin::Error;
use enfilade_facts::vocabulary::Malformed;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::str::FromStr;

/// The body of a request: the named object, and its name.
pub(super) struct RequestBody {
    what: &'static str,
    object: Map<String, Value>,
}

pub(super) fn invalid(why: impl Into<String>) -> Error {
    Error::Invalid(why.into())
}

/// A function that returns whether a value has the type of an option.
type IsIt = fn(&Value) -> bool;

/// Keystone's options of a user, and the type of each. The option `immutable` is not in this list, because every kind of resource with options
/// accepts it. In Keystone, users do not have the option `immutable`.
const OPTIONS_OF_USER: [(&str, IsIt); 7] = [
    ("ignore_change_password_upon_first_use", Value::is_boolean),
    ("ignore_password_expiry", Value::is_boolean),
    ("ignore_lockout_failure_attempts", Value::is_boolean),
    ("lock_password", Value::is_boolean),
    ("ignore_user_inactivity", Value::is_boolean),
    ("multi_factor_auth_enabled", Value::is_boolean),
    ("multi_factor_auth_rules", are_rules),
];

/// Whether a value has the type of an option; `None` if this server does not know the option.
fn is_of_option(what: &str, name: &str, value: &Value) -> Option<bool> {
    let of_user = OPTIONS_OF_USER.iter().find(|(known, _)| what == "user" && *known == name);
    match of_user {
        Some((_, is_it)) => Some(is_it(value)),
        None => (name == "immutable").then(|| value.is_boolean()),
    }
}

impl RequestBody {
    /// Reads the object named `what` from the body.
    pub(super) fn of(call: &Call, what: &'static str) -> Result<Self, Error> {
        let body: Value = serde_json::from_slice(&call.body).map_err(|_| invalid("the body is not JSON"))?;
        match body {
            Value::Object(mut body) => match body.remove(what) {
                Some(Value::Object(mut object)) => {
                    // Keystone removes blanks before and after the name of a user, group, project or domain.
                    if ["user", "group", "project", "domain"].contains(&what)
                        && let Some(Value::String(name)) = object.get_mut("name")
                    {
                        *name = name.trim().to_owned();
                    }
                    Ok(RequestBody { what, object })
                }
                _ => Err(invalid(format!("Expecting to find {what} in the body."))),
            },
            _ => Err(invalid("the body is not a JSON object")),
        }
    }

    /// Reads the list named `many`. Each object in the list describes one `what`. An empty list is refused.
    pub(super) fn all_of(call: &Call, many: &str, what: &'static str) -> Result<Vec<Self>, Error> {
        let body: Value = serde_json::from_slice(&call.body).map_err(|_| invalid("the body is not JSON"))?;
        let all = body.get(many).and_then(Value::as_array).filter(|all| !all.is_empty());
        let all =
            all.and_then(|all| all.iter().map(|one| one.as_object().cloned()).collect::<Option<Vec<_>>>());
        let expected =
            || invalid(format!("Expecting to find {many}, a list of at least one object, in the body."));
        Ok(all.ok_or_else(expected)?.into_iter().map(|object| RequestBody { what, object }).collect())
    }

    /// The body without these attributes.
    pub(super) fn without(mut self, names: &[&str]) -> Self {
        self.object.retain(|name, _| !names.contains(&name.as_str()));
        self
    }

    /// Refuses every attribute that is not in this list.
    pub(super) fn only(&self, names: &[&str]) -> Result<(), Error> {
        match self.object.keys().find(|name| !names.contains(&name.as_str())) {
            Some(name) => Err(self.wrong(name, &format!("only {}", names.join(", ")))),
            None => Ok(()),
        }
    }

    /// Refuses an object without attributes.
    pub(super) fn unless_empty(&self) -> Result<(), Error> {
        match self.object.is_empty() {
            true => Err(invalid(format!(
                "Expecting to find at least one attribute of {} in the body.",
                self.what
            ))),
            false => Ok(()),
        }
    }

    fn wrong(&self, name: &str, expected: &str) -> Error {
        let what = self.what;
        invalid(format!("Invalid input for field/attribute {name} of {what}: expected {expected}."))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.object.contains_key(name)
    }

    /// A text: `None` if the attribute is absent, `Some(None)` if it is null.
    pub(super) fn text(&self, name: &str) -> Result<Option<Option<String>>, Error> {
        match self.object.get(name) {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(None)),
            Some(Value::String(text)) => Ok(Some(Some(text.clone()))),
            Some(_) => Err(self.wrong(name, "a string")),
        }
    }

    /// A required text, which is not empty.
    pub(super) fn needed(&self, name: &str) -> Result<String, Error> {
        let found = self.text(name)?.flatten().filter(|text| !text.is_empty());
        found.ok_or_else(|| self.wrong(name, "a string that is not empty"))
    }

    /// The name, if the body has one. An empty name is refused.
    pub(super) fn name(&self) -> Result<Option<String>, Error> {
        if self.has("name") { self.needed("name").map(Some) } else { Ok(None) }
    }

    /// Sets a name or another text, if the body has it. An empty text is refused.
    pub(super) fn set(&self, name: &str, to: &mut String) -> Result<(), Error> {
        if self.has(name) {
            *to = self.needed(name)?;
        }
        Ok(())
    }

    /// Sets a text, if the body contains it. An empty text or null removes the stored text.
    pub(super) fn set_or_remove(&self, name: &str, to: &mut Option<String>) -> Result<(), Error> {
        if let Some(text) = self.text(name)? {
            *to = text.filter(|text| !text.is_empty());
        }
        Ok(())
    }

    /// Sets a flag, if the body has it.
    pub(super) fn set_flag(&self, name: &str, to: &mut bool) -> Result<(), Error> {
        *to = self.flag(name)?.unwrap_or(*to);
        Ok(())
    }

    /// Whether the body leaves a text unchanged: the attribute is absent, or has the stored value.
    pub(super) fn keeps(&self, name: &str, is: Option<&str>) -> Result<bool, Error> {
        Ok(self.text(name)?.is_none_or(|said| said.as_deref() == is))
    }

    /// Whether the body removes the option `immutable`.
    pub(super) fn unlocks(&self) -> bool {
        let option = self.object.get("options").and_then(|options| options.get("immutable"));
        option.is_some_and(|value| *value == Value::Bool(false) || value.is_null())
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, Error> {
        match self.object.get(name) {
            None => Ok(None),
            Some(Value::Bool(yes)) => Ok(Some(*yes)),
            Some(_) => Err(self.wrong(name, "true or false")),
        }
    }

    /// An id. `None` if the attribute is absent, `Some(None)` if it is null.
    pub(super) fn id<I: FromStr<Err = Malformed>>(&self, name: &str) -> Result<Option<Option<I>>, Error> {
        match self.text(name)? {
            None => Ok(None),
            Some(None) => Ok(Some(None)),
            Some(Some(text)) => text.parse().map(|id| Some(Some(id))).map_err(|why: Malformed| {
                self.wrong(name, why.expected.strip_prefix("expected ").unwrap_or(why.expected))
            }),
        }
    }

    /// A required id.
    pub(super) fn needed_id<I: FromStr<Err = Malformed>>(&self, name: &str) -> Result<I, Error> {
        self.id(name)?.flatten().ok_or_else(|| self.wrong(name, "32 lower-case hexadecimal digits"))
    }

    /// A limit. The value -1 means that there is no limit. Any other value must not be negative.
    pub(super) fn limit(&self, name: &str) -> Result<Option<i32>, Error> {
        let Some(value) = self.object.get(name) else { return Ok(None) };
        let limit = value.as_i64().and_then(|number| i32::try_from(number).ok()).filter(|limit| *limit >= -1);
        limit.map(Some).ok_or_else(|| self.wrong(name, "a number from -1 to 2147483647"))
    }

    /// A required limit.
    pub(super) fn needed_limit(&self, name: &str) -> Result<i32, Error> {
        self.limit(name)?.ok_or_else(|| self.wrong(name, "a number from -1 to 2147483647"))
    }

    /// A number that is not negative. `None` if the attribute is absent, `Some(None)` if it is null.
    pub(super) fn count_or_null(&self, name: &str) -> Result<Option<Option<u32>>, Error> {
        let Some(value) = self.object.get(name) else { return Ok(None) };
        if value.is_null() {
            return Ok(Some(None));
        }
        let count = value.as_i64().and_then(|number| i32::try_from(number).ok());
        let count = count.and_then(|number| u32::try_from(number).ok());
        count.map(|count| Some(Some(count))).ok_or_else(|| self.wrong(name, "a number from 0 to 2147483647"))
    }

    /// An attribute of any type.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.object.get(name)
    }

    /// An object.
    pub(super) fn object(&self, name: &str) -> Result<Option<&Map<String, Value>>, Error> {
        let Some(value) = self.object.get(name) else { return Ok(None) };
        value.as_object().map(Some).ok_or_else(|| self.wrong(name, "an object"))
    }

    /// A list of texts.
    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, Error> {
        let Some(value) = self.object.get(name) else { return Ok(None) };
        let all = value.as_array().and_then(|all| {
            all.iter().map(|one| one.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        all.map(Some).ok_or_else(|| self.wrong(name, "a list of strings"))
    }

    /// A list of texts. A list with duplicates is refused. Null means an empty list.
    pub(super) fn distinct_texts(&self, name: &str) -> Result<Option<Vec<String>>, Error> {
        if self.object.get(name).is_some_and(Value::is_null) {
            return Ok(Some(Vec::new()));
        }
        let all = self.texts(name)?;
        let count = all.iter().flatten().collect::<BTreeSet<_>>().len();
        match all.as_ref().is_none_or(|all| all.len() == count) {
            true => Ok(all),
            false => Err(self.wrong(name, "each string only once")),
        }
    }

    /// The additional attributes to store. They are the stored attributes, with the attributes of the body added. An attribute of the body replaces a
    /// stored attribute of the same name. A null in the body removes an attribute or option.
    pub(super) fn extra(&self, schema: &Schema, before: &str) -> Result<String, Error> {
        let mut kept: Map<String, Value> = serde_json::from_str(before).unwrap_or_default();
        let new = self.object.iter().filter(|(name, _)| !schema.has(name));
        for (name, value) in new.filter(|(name, _)| !["id", "links", "options"].contains(&name.as_str())) {
            match value {
                Value::Null => kept.remove(name),
                value => kept.insert(name.clone(), value.clone()),
            };
        }
        if let Some(given) = self.object.get("options") {
            let given = given.as_object().ok_or_else(|| self.wrong("options", "an object"))?;
            let mut options = match kept.remove("options") {
                Some(Value::Object(options)) => options,
                _ => Map::new(),
            };
            for (name, value) in given {
                match (is_of_option(self.what, name, value), value) {
                    (Some(_), Value::Null) => drop(options.remove(name)),
                    // An earlier version stored options that are not accepted any more. Such an option can still be removed.
                    (None, Value::Null) if options.contains_key(name) => drop(options.remove(name)),
                    (Some(true), value) => drop(options.insert(name.clone(), value.clone())),
                    _ => {
                        return Err(self.wrong(
                            &format!("options.{name}"),
                            "a resource option that Keystone defines, with a value of the right type",
                        ));
                    }
                }
            }
            if !options.is_empty() {
                kept.insert("options".to_owned(), Value::Object(options));
            }
        }
        Ok(if kept.is_empty() { String::new() } else { Value::Object(kept).to_string() })
    }
}

/// Whether a value has the form of `multi_factor_auth_rules` (as in Keystone): a list of rules. Each rule is a list of methods. No rule is repeated
/// in the list, and no method is repeated in a rule.
fn are_rules(value: &Value) -> bool {
    let is_rule = |rule: &Value| {
        let methods = rule.as_array().filter(|methods| !methods.is_empty());
        methods.is_some_and(|methods| methods.iter().all(Value::is_string) && are_different(methods))
    };
    value.as_array().is_some_and(|rules| rules.iter().all(is_rule) && are_different(rules))
}

fn are_different(all: &[Value]) -> bool {
    all.iter().enumerate().all(|(at, one)| !all.iter().take(at).any(|other| other == one))
}

/// The rules for multi-factor authentication in the options of a user. Empty if `multi_factor_auth_enabled` is false, because Keystone then ignores
/// the rules.
pub fn mfa_rules(options: &Map<String, Value>) -> Vec<Vec<String>> {
    let rules = options.get("multi_factor_auth_rules").filter(|rules| are_rules(rules));
    let is_off = options.get("multi_factor_auth_enabled") == Some(&Value::Bool(false));
    let text = |method: &Value| method.as_str().map(str::to_owned);
    let rule = |rule: &Value| rule.as_array().into_iter().flatten().filter_map(text).collect();
    rules.and_then(Value::as_array).filter(|_| !is_off).into_iter().flatten().map(rule).collect()
}

/// Whether an option is set in the additional attributes of a record.
pub(super) fn has_option(extra: &Map<String, Value>, name: &str) -> bool {
    extra.get("options").and_then(|options| options.get(name)) == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_option_has_its_type_and_its_kind_of_resource() {
        for (what, name, value, expected) in [
            ("user", "ignore_user_inactivity", json!(true), Some(true)),
            ("user", "ignore_lockout_failure_attempts", json!("true"), Some(false)),
            ("user", "lock_password", json!(1), Some(false)),
            ("user", "multi_factor_auth_rules", json!([["totp"]]), Some(true)),
            ("user", "immutable", json!(true), Some(true)),
            ("user", "tags", json!([]), None),
            ("project", "immutable", json!(true), Some(true)),
            ("project", "lock_password", json!(true), None),
        ] {
            assert_eq!(is_of_option(what, name, &value), expected, "{what} {name}");
        }
    }

    #[test]
    fn rules_are_lists_of_different_methods_and_in_force_unless_switched_off() {
        let both = json!([["password", "totp"]]);
        for (rules, expected) in [
            (json!([]), true),
            (both.clone(), true),
            (json!([["password"], ["password", "totp"]]), true),
            (json!(["password"]), false),
            (json!([[]]), false),
            (json!([[1]]), false),
            (json!([["totp", "totp"]]), false),
            (json!([["totp"], ["totp"]]), false),
            (json!({}), false),
        ] {
            assert_eq!(are_rules(&rules), expected, "{rules}");
        }
        for (enabled, expected) in [(json!(null), 1), (json!(true), 1), (json!(false), 0)] {
            let options = json!({ "multi_factor_auth_enabled": enabled, "multi_factor_auth_rules": both });
            assert_eq!(mfa_rules(options.as_object().unwrap()).len(), expected, "{enabled}");
        }
        assert!(mfa_rules(&Map::new()).is_empty());
    }
}
