//! The host of a URL, without its port.

use super::{Malformed, PathRefused, StorePath, Word};
use core::net::Ipv6Addr;
use std::fmt;
use std::str::FromStr;

/// The longest host name, in bytes (RFC 1035 §2.3.4).
const BYTES_MAX: usize = 253;
/// The longest part of a host name between two dots, in bytes (RFC 1035 §2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// A host name in lower case, or an IP address; an IPv6 address is in brackets. The text contains no port, and no dot at its end. Each host has one
/// spelling, so that hosts can be compared as texts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Word);

impl HostName {
    /// The host in a `Host` header (RFC 9110 §7.2): a host with an optional port. The port is ignored. `None` if the text does not have this form.
    pub fn of_authority(text: &str) -> Option<Self> {
        let end = text.rfind(':').filter(|at| !text.get(*at..).is_some_and(|rest| rest.contains(']')));
        let (host, port) = match end {
            Some(at) => (text.get(..at)?, text.get(at + 1..)?),
            None => (text, ""),
        };
        let is_port =
            port.is_empty() || port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
        host.parse().ok().filter(|_| is_port)
    }

    /// The host and the path of a URL such as `https://wiki.example.com/a?b=c`. The port and the query are ignored.
    ///
    /// # Errors
    /// [`PathRefused`] if the text is not a URL with `http` or `https`, or if its path is refused.
    pub fn and_path_of(url: &str) -> Result<(Self, StorePath), PathRefused> {
        let rest = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let rest = rest.ok_or(PathRefused::Url)?;
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let host = Self::of_authority(authority).ok_or(PathRefused::Url)?;
        let path = match target.starts_with('/') {
            true => StorePath::from_target(target),
            false => StorePath::from_target(&format!("/{target}")),
        };
        Ok((host, path?))
    }

    /// The host as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = Malformed;
    fn from_str(text: &str) -> Result<Self, Malformed> {
        let expected = "expected a host name such as wiki.example.com, or an IP address (IPv6 in brackets), without a port";
        let wrong = || Malformed::new("host", text, expected);
        if let Some(address) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let address: Ipv6Addr = address.parse().map_err(|_| wrong())?;
            return Ok(HostName(format!("[{address}]").into()));
        }
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label =
            |label: &str| (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(is_fit);
        match text.len() <= BYTES_MAX && text.split('.').all(is_label) {
            true => Ok(HostName(text.to_ascii_lowercase().into())),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_spelling() {
        for (text, expected) in [
            ("wiki.example.com", Some("wiki.example.com")),
            ("Wiki.Example.COM:8443", Some("wiki.example.com")),
            ("wiki:", Some("wiki")),
            ("127.0.0.1:80", Some("127.0.0.1")),
            ("[::1]:80", Some("[::1]")),
            ("[0:0::1]", Some("[::1]")),
            ("wiki.example.com.", None),
            ("wiki..example.com", None),
            ("wiki:80:80", None),
            ("wiki:99999", None),
            ("wiki:+80", None),
            ("::1", None),
            ("[::1", None),
            ("[::1]x", None),
            ("user@wiki", None),
            ("wiki/a", None),
            ("wiki%2ea", None),
            ("", None),
            (":80", None),
        ] {
            let found = HostName::of_authority(text).map(|host| host.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        for (url, expected) in [
            ("https://wiki.example.com:8443/a/b?c", Some("wiki.example.com /a/b")),
            ("http://wiki.example.com", Some("wiki.example.com /")),
            ("https://wiki.example.com?a", Some("wiki.example.com /")),
            ("ftp://wiki.example.com/", None),
            ("https:///a", None),
            ("https://wiki.example.com/a;b", None),
            ("https://wiki.example.com//", None),
        ] {
            let found = HostName::and_path_of(url).ok().map(|(host, path)| format!("{host} {path}"));
            assert_eq!(found.as_deref(), expected, "{url}");
        }
        assert!("wiki:80".parse::<HostName>().is_err());
        assert!("a".repeat(64).parse::<HostName>().is_err());
        assert!(["a"; 128].join(".").parse::<HostName>().is_err());
    }
}
