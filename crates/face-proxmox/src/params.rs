//! Parameters of a call, from the query and from a form or JSON body. A key may have several values.

use enfilade_faces::percent::form_pairs;
use serde_json::Value;
use std::collections::BTreeMap;
use zeroize::Zeroize;

/// The error text for an invalid parameter, in Proxmox's wording.
pub(super) type ParameterError = String;

/// The parameters of a call. The parameters can contain a password, so this type does not implement `Debug`.
#[derive(Default)]
pub(super) struct Params(BTreeMap<String, Vec<String>>);

impl Drop for Params {
    fn drop(&mut self) {
        self.0.values_mut().flatten().for_each(Zeroize::zeroize);
    }
}

impl Params {
    /// Reads the parameters from the query and the body.
    pub(super) fn read(query: &str, body: &[u8], is_json: bool) -> Result<Self, ParameterError> {
        let mut params = Params::default();
        params.form(query.as_bytes())?;
        match is_json {
            true if !body.is_empty() => params.json(body)?,
            _ => params.form(body)?,
        }
        Ok(params)
    }

    fn form(&mut self, text: &[u8]) -> Result<(), ParameterError> {
        let pairs = form_pairs(text).ok_or("a parameter is not percent-encoded UTF-8")?;
        pairs.into_iter().for_each(|(key, value)| self.add(&key, value));
        Ok(())
    }

    fn json(&mut self, body: &[u8]) -> Result<(), ParameterError> {
        let text = |value: Value| match value {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(yes) => Some(yes.to_string()),
            _ => None,
        };
        let Ok(Value::Object(map)) = serde_json::from_slice(body) else {
            return Err("the body is not a JSON object".into());
        };
        for (key, value) in map {
            let values = match value {
                Value::Array(values) => values,
                other => vec![other],
            };
            for value in values {
                let value = text(value)
                    .ok_or_else(|| format!("parameter '{key}': expected a string, a number or a boolean"))?;
                self.add(&key, value);
            }
        }
        Ok(())
    }

    /// Adds a value. `[]` at the end of the key is removed, because some clients write the key of a list as `key[]`.
    fn add(&mut self, key: &str, value: String) {
        self.0.entry(key.trim_end_matches("[]").to_owned()).or_default().push(value);
    }

    /// Refuses parameters that are not in `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), ParameterError> {
        match self.0.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(format!("parameter '{key}': schema does not allow additional properties")),
            None => Ok(()),
        }
    }

    pub(super) fn get(&self, key: &str) -> Result<Option<&str>, ParameterError> {
        match self.0.get(key).map(Vec::as_slice) {
            None | Some([]) => Ok(None),
            Some([value]) => Ok(Some(value)),
            Some(_) => Err(format!("parameter '{key}': it is given more than once")),
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(super) fn all(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// A required parameter.
    pub(super) fn need(&self, key: &str) -> Result<&str, ParameterError> {
        let missing = || format!("parameter '{key}': parameter is missing and it is not optional.");
        self.get(key)?.ok_or_else(missing)
    }

    /// A parameter, parsed as another type.
    pub(super) fn parsed<T: std::str::FromStr>(
        &self,
        key: &str,
        expected: &str,
    ) -> Result<Option<T>, ParameterError> {
        let Some(text) = self.get(key)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| format!("parameter '{key}': expected {expected}"))
    }

    /// A boolean, in the forms that Proxmox accepts.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ParameterError> {
        let Some(text) = self.get(key)? else { return Ok(None) };
        match text.to_ascii_lowercase().as_str() {
            "1" | "on" | "yes" | "true" => Ok(Some(true)),
            "0" | "off" | "no" | "false" => Ok(Some(false)),
            _ => Err(format!("parameter '{key}': expected a boolean")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_json_say_the_same() {
        let form = Params::read("a=1", b"b=two+words%21&delete=x&delete=y&on=1", false).unwrap();
        let json = Params::read("a=1", br#"{"b":"two words!","delete":["x","y"],"on":true}"#, true).unwrap();
        for params in [form, json] {
            assert_eq!((params.need("a"), params.need("b")), (Ok("1"), Ok("two words!")));
            assert_eq!(
                (params.all("delete"), params.flag("on")),
                (["x".to_owned(), "y".into()].as_slice(), Ok(Some(true)))
            );
            assert!(params.only(&["a", "b", "delete"]).unwrap_err().contains("'on'"));
            assert!(
                params.get("delete").is_err() && params.need("none").unwrap_err().contains("not optional")
            );
            assert_eq!(params.parsed::<i64>("a", "a number"), Ok(Some(1)));
            assert!(params.parsed::<i64>("b", "a number").is_err() && params.flag("b").is_err());
        }
        for (query, body, is_json) in [
            ("a=%", b"".as_slice(), false),
            ("", b"[]", true),
            ("", b"{\"a\":{}}", true),
            ("a=%ff", b"", false),
        ] {
            assert!(Params::read(query, body, is_json).is_err());
        }
    }
}
