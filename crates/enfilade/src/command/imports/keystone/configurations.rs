//! Reads the configurations of domains.

use super::super::cloud::Api;
use super::super::dump::Dump;
use super::{Asked, domain, text, unknown};
use enfilade_admin::Imported;
use enfilade_admin::keystone::CloudRecord;
use enfilade_facts::tables::DomainConfig;
use serde_json::{Map, Value, json};

/// Adds the configuration of each domain that has a configuration. The API does not show secret options. So the secret options come from the dump.
pub(super) async fn configurations(
    api: &mut Api,
    asked: &mut Asked,
    domains: &[Value],
    dump: &Dump,
) -> anyhow::Result<()> {
    let kind = "configuration of domain";
    for row in domains {
        let Some(said) = text(row, "id") else { continue };
        let shown = match api.find(&format!("domains/{said}/config")).await? {
            Ok(shown) => shown.and_then(|body| body.get("config").and_then(Value::as_object).cloned()),
            Err(refused) => {
                asked.left.push(unknown(kind, &refused));
                break;
            }
        };
        let config = with_secrets(shown.unwrap_or_default(), &said, dump);
        if config.is_empty() {
            continue;
        }
        let called = text(row, "name").unwrap_or_else(|| said.clone());
        match (domain(row, "id"), enfilade_keystone::domain_options(&config)) {
            (Some(id), Ok(mut options)) => {
                options.sort_by(|a, b| (&a.group, &a.name).cmp(&(&b.group, &b.name)));
                asked.things.push(CloudRecord::Configuration(id, DomainConfig { options }));
            }
            (_, Err(why)) => asked.left.push(Imported::left(kind, called, why.to_string())),
            (None, _) => asked.each(kind, std::slice::from_ref(row), |_| None),
        }
    }
    Ok(())
}

/// The configuration of a domain, with the secret options from the dump.
fn with_secrets(mut config: Map<String, Value>, domain: &str, dump: &Dump) -> Map<String, Value> {
    for option in dump.options.iter().filter(|option| option.domain == domain) {
        let value =
            serde_json::from_str(&option.value).unwrap_or_else(|_| Value::from(option.value.as_str()));
        let group = config.entry(option.group.clone()).or_insert_with(|| json!({}));
        if let Some(group) = group.as_object_mut() {
            group.insert(option.name.clone(), value);
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use super::super::super::dump::DumpedOption;
    use super::*;

    #[test]
    fn secrets_of_the_dump_go_to_their_domain() {
        let option = |domain: &str, value: &str| DumpedOption {
            domain: domain.to_owned(),
            group: "ldap".to_owned(),
            name: "password".to_owned(),
            value: value.to_owned(),
        };
        let dump = Dump { options: vec![option("a", "\"s3cret\""), option("b", "plain")], ..Dump::default() };
        let shown = json!({ "ldap": { "url": "ldap://x" } }).as_object().unwrap().clone();
        let expected = json!({ "ldap": { "url": "ldap://x", "password": "s3cret" } });
        assert_eq!(Value::from(with_secrets(shown.clone(), "a", &dump)), expected);
        assert_eq!(
            Value::from(with_secrets(Map::new(), "b", &dump)),
            json!({ "ldap": { "password": "plain" } })
        );
        assert_eq!(with_secrets(shown.clone(), "c", &dump), shown);
    }
}
