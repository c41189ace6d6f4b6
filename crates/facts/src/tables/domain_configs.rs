//! The configuration of a domain: options of the LDAP directory that the users of the domain come from. No decision of the server depends on these
//! options yet.

use super::{REDACTED, Row, Table};
use crate::codec::{Reader, Writer};
use crate::vocabulary::DomainId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An option.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigOption {
    /// The group, such as `ldap`.
    pub group: String,
    /// The name of the option in its group.
    pub name: String,
    /// The value, as JSON.
    pub value: String,
    /// Whether the value is a secret.
    pub sensitive: bool,
}

impl fmt::Debug for ConfigOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.sensitive { REDACTED } else { &self.value };
        write!(f, "{}.{} = {value}", self.group, self.name)
    }
}

/// All options of a domain, by group and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainConfig {
    /// The options.
    pub options: Vec<ConfigOption>,
}

impl Row for DomainConfig {
    const TABLE: Table = Table::DomainConfigs;
    type Key = DomainId;

    fn redact(&mut self) -> bool {
        let mut secrets = self.options.iter_mut().filter(|option| option.sensitive).peekable();
        let has_secrets = secrets.peek().is_some();
        // The value is JSON, so the word that replaces a secret is a JSON string.
        secrets.for_each(|option| option.value = format!("\"{REDACTED}\""));
        has_secrets
    }

    fn encode(&self, to: &mut Writer) {
        to.list(&self.options, |to, option| {
            to.text(&option.group).text(&option.name).text(&option.value).flag(option.sensitive);
        });
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let option = |from: &mut Reader<'_>| {
            Some(ConfigOption {
                group: from.text()?,
                name: from.text()?,
                value: from.text()?,
                sensitive: from.flag()?,
            })
        };
        Some(DomainConfig { options: from.list(option)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_in_a_dump_and_not_in_a_log() {
        let option = |name: &str, value: &str, sensitive| ConfigOption {
            group: "ldap".to_owned(),
            name: name.to_owned(),
            value: format!("\"{value}\""),
            sensitive,
        };
        let mut config = DomainConfig {
            options: vec![option("password", "hunter2", true), option("url", "ldap://x", false)],
        };
        let printed = format!("{config:?}");
        assert!(printed.contains("ldap://x") && !printed.contains("hunter2"), "{printed}");
        assert!(config.redact());
        let values: Vec<_> = config.options.iter().map(|option| option.value.as_str()).collect();
        assert_eq!(values, ["\"redacted\"", "\"ldap://x\""]);
        config.options.remove(0);
        assert!(!config.redact());
    }
}
