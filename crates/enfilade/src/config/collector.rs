//! The URL of an OpenTelemetry collector, as a value of the configuration.

use hyper::Uri;
use serde::{Deserialize, Serialize};

/// The port on which collectors receive traces over HTTP (OTLP specification, "OTLP/HTTP Default Port").
const PORT: u16 = 4318;
/// The path of traces below the base URL (OTLP specification, "Endpoint URLs for OTLP/HTTP").
const PATH: &str = "/v1/traces";

/// The base URL of a collector that receives traces (OTLP/HTTP).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct CollectorUrl {
    text: String,
    /// The host, without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The value of the header `Host`.
    pub(crate) authority: String,
    /// The path to which traces are sent.
    pub(crate) path: String,
}

impl CollectorUrl {
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

impl TryFrom<String> for CollectorUrl {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || {
            // If the URL contains a user or a query, it can contain a secret. So the error does not contain the URL.
            let shown = if text.contains(['@', '?']) { "the URL" } else { &text };
            format!(
                "`{shown}`: expected `http://`, a host, and an optional port and path, such as http://127.0.0.1:{PORT}; for https, run a collector on this \
                 machine that passes the traces on"
            )
        };
        let url: Uri = text.parse().map_err(|_| wrong())?;
        let (Some("http"), Some(host), Some(authority)) = (url.scheme_str(), url.host(), url.authority())
        else {
            return Err(wrong());
        };
        let after = authority.as_str().strip_prefix(host).ok_or_else(wrong)?;
        let port = match after.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?,
            None if after.is_empty() => PORT,
            None => return Err(wrong()),
        };
        if url.query().is_some() {
            return Err(wrong());
        }
        let base = url.path().trim_end_matches('/');
        let base = base.strip_suffix(PATH).unwrap_or(base);
        Ok(CollectorUrl {
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            authority: format!("{host}:{port}"),
            path: format!("{base}{PATH}"),
            text,
        })
    }
}

impl From<CollectorUrl> for String {
    fn from(url: CollectorUrl) -> String {
        url.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_go_to_the_usual_port_and_path() {
        for (text, host, port, path) in [
            ("http://127.0.0.1:4318", "127.0.0.1", 4318, "/v1/traces"),
            ("http://collector.example", "collector.example", PORT, "/v1/traces"),
            ("http://[::1]:80/otlp/", "::1", 80, "/otlp/v1/traces"),
            ("http://collector.example/v1/traces", "collector.example", PORT, "/v1/traces"),
        ] {
            let url = CollectorUrl::try_from(text.to_owned()).unwrap();
            assert_eq!((url.host.as_str(), url.port, url.path.as_str()), (host, port, path), "{text}");
        }
    }

    #[test]
    fn a_url_of_another_kind_is_refused() {
        for wrong in [
            "",
            "127.0.0.1:4318",
            "https://collector.example",
            "http://",
            "http://user:secret@collector.example",
            "http://collector.example/?key=secret",
            "http://collector.example:",
            "http://collector.example:0",
            "http://collector.example:99999",
            "http://collector.example:43l8",
        ] {
            let why = CollectorUrl::try_from(wrong.to_owned()).unwrap_err();
            assert!(!why.contains("secret"), "{why}");
        }
    }
}
