//! The origin of URLs, as a value of the configuration.

use enfilade_facts::vocabulary::HostName;
use serde::{Deserialize, Serialize};

/// The scheme, host and port of URLs (RFC 6454 §4), as browsers write them in the header `Origin`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct UrlOrigin(String);

impl UrlOrigin {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The host, without the port.
    pub(crate) fn host(&self) -> Option<HostName> {
        self.0.strip_prefix("https://").and_then(HostName::of_authority)
    }
}

impl TryFrom<String> for UrlOrigin {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}`: expected `https://`, a host name and an optional port, such as https://files.example.com, without a path"
            )
        };
        let authority = text.strip_prefix("https://").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        let authority = authority.ok_or_else(wrong)?;
        let host = HostName::of_authority(authority).ok_or_else(wrong)?;
        // Browsers leave out the usual port 443.
        let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        Ok(UrlOrigin(match port.filter(|port| *port != 443) {
            Some(port) => format!("https://{host}:{port}"),
            None => format!("https://{host}"),
        }))
    }
}

impl From<UrlOrigin> for String {
    fn from(UrlOrigin(text): UrlOrigin) -> Self {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_the_spelling_of_browsers() {
        let read = |text: &str| UrlOrigin::try_from(text.to_owned()).map(String::from).ok();
        for (text, expected) in [
            ("https://files.example.com", "https://files.example.com"),
            ("https://Files.Example.com/", "https://files.example.com"),
            ("https://files.example.com:443", "https://files.example.com"),
            ("https://files.example.com:8443", "https://files.example.com:8443"),
            ("https://[::1]:8443", "https://[::1]:8443"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        for wrong in [
            "",
            "files.example.com",
            "http://files.example.com",
            "https://",
            "https://a/b",
            "https://a@b",
            "https://a b",
            "https://a:b",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
