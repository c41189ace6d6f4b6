//! The values of the section `[fleet]`.

use super::values::{Spelled, Value, no_list};
use enfilade_fleet::{DELTA, DELTA_MAX, DELTA_MIN};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The machines of etcd, as a list, or as one string, separated by commas or spaces.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Spelled<String>", into = "Vec<String>")]
pub(crate) struct EtcdUrls(pub(crate) Vec<String>);

impl TryFrom<Spelled<String>> for EtcdUrls {
    type Error = String;
    fn try_from(spelled: Spelled<String>) -> Result<Self, String> {
        let urls: Vec<String> = match spelled {
            Spelled::Text(text) => {
                text.split([',', ' ']).filter(|part| !part.is_empty()).map(str::to_owned).collect()
            }
            Spelled::List(urls) => urls,
            Spelled::Other(value) => {
                return Err(no_list(&value, "a list of URLs, such as [\"https://etcd1:2379\"]"));
            }
        };
        // Only an IP address counts as loopback. A name such as `127.example.com` can lead to any machine.
        let is_loopback = |host: &str| {
            let address = host.strip_suffix('/').unwrap_or(host).parse::<SocketAddr>();
            address.is_ok_and(|address| address.ip().is_loopback())
        };
        for url in &urls {
            let is_usable = match url.split_once("://") {
                Some(("https", host)) => !host.is_empty(),
                Some(("http", host)) if is_loopback(host) => true,
                Some(("http", _)) => {
                    return Err(format!(
                        "`{url}`: the changes that a fleet stores in etcd contain hashes of passwords, so etcd on another machine needs TLS; expected https://HOST:PORT"
                    ));
                }
                _ => false,
            };
            if !is_usable {
                return Err(format!(
                    "`{url}` is not the URL of a machine of etcd; expected https://HOST:PORT"
                ));
            }
        }
        match urls.is_empty() {
            true => Err("no URL: expected at least one, such as [\"https://etcd1:2379\"]; without a fleet, remove the key".to_owned()),
            false => Ok(EtcdUrls(urls)),
        }
    }
}

impl From<EtcdUrls> for Vec<String> {
    fn from(EtcdUrls(urls): EtcdUrls) -> Self {
        urls
    }
}

/// The name of a member of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct MemberName(String);

impl MemberName {
    /// The name.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for MemberName {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_word = ["none", "unknown"].contains(&text.as_str());
        match (1..=32).contains(&text.len()) && text.bytes().all(fits) && !is_word {
            true => Ok(MemberName(text)),
            false => Err(format!(
                "`{text}` is not the name of a member; expected 1 to 32 lower-case letters, digits and `-`, and not `none` or `unknown`"
            )),
        }
    }
}

impl std::str::FromStr for MemberName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.to_owned().try_into()
    }
}

impl From<MemberName> for String {
    fn from(name: MemberName) -> Self {
        name.0
    }
}

/// The address of the listener for other members. Other members connect to this address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct MemberAddress(pub(crate) SocketAddr);

impl TryFrom<String> for MemberAddress {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let address = text.parse::<SocketAddr>().ok();
        let is_usable = |address: &SocketAddr| !address.ip().is_unspecified() && address.port() != 0;
        address.filter(is_usable).map(MemberAddress).ok_or_else(|| {
            format!(
                "`{text}` is not an address at which other members reach this machine; expected an IP address and a port, such as 10.0.0.1:8444"
            )
        })
    }
}

impl From<MemberAddress> for String {
    fn from(MemberAddress(address): MemberAddress) -> Self {
        address.to_string()
    }
}

impl Value for MemberAddress {
    fn expected() -> String {
        "IP address and port, such as `10.0.0.1:8444`".to_owned()
    }

    fn sample() -> &'static str {
        "\"127.0.0.1:8444\""
    }
}

/// The lifetime of a proof that a member's facts are current, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "u64", into = "u64")]
pub(crate) struct ProofMillis(pub(crate) u64);

const PROOF_MILLIS: std::ops::RangeInclusive<u64> =
    DELTA_MIN.as_millis() as u64..=DELTA_MAX.as_millis() as u64;

impl Default for ProofMillis {
    fn default() -> Self {
        ProofMillis(DELTA.as_millis() as u64)
    }
}

impl TryFrom<u64> for ProofMillis {
    type Error = String;
    fn try_from(millis: u64) -> Result<Self, String> {
        match PROOF_MILLIS.contains(&millis) {
            true => Ok(ProofMillis(millis)),
            false => Err(format!(
                "{millis} is out of range; expected {} to {} ms",
                PROOF_MILLIS.start(),
                PROOF_MILLIS.end()
            )),
        }
    }
}

impl From<ProofMillis> for u64 {
    fn from(ProofMillis(millis): ProofMillis) -> Self {
        millis
    }
}

/// The prefix of a fleet's keys in etcd.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct LogPrefix(String);

impl LogPrefix {
    /// The prefix.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LogPrefix {
    fn default() -> Self {
        LogPrefix("/enfilade".to_owned())
    }
}

impl TryFrom<String> for LogPrefix {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_/".contains(&byte);
        let is_path = text.len() > 1 && text.starts_with('/') && !text.ends_with('/') && !text.contains("//");
        match is_path && text.len() <= 128 && text.bytes().all(fits) {
            true => Ok(LogPrefix(text)),
            false => Err(format!(
                "`{text}` is not a prefix of keys; expected a path such as /enfilade, of letters, digits, `-`, `_` and `/`"
            )),
        }
    }
}

impl From<LogPrefix> for String {
    fn from(prefix: LogPrefix) -> Self {
        prefix.0
    }
}

impl Value for EtcdUrls {
    fn expected() -> String {
        "list of URLs, such as `[\"https://etcd1:2379\"]`; without TLS only on loopback".to_owned()
    }

    fn sample() -> &'static str {
        r#"["https://etcd1:2379", "https://etcd2:2379", "https://etcd3:2379"]"#
    }
}

impl Value for ProofMillis {
    fn expected() -> String {
        format!("{} to {}", PROOF_MILLIS.start(), PROOF_MILLIS.end())
    }

    fn sample() -> &'static str {
        "1000"
    }
}

impl Value for MemberName {
    fn expected() -> String {
        "1 to 32 lower-case letters, digits and `-`".to_owned()
    }

    fn sample() -> &'static str {
        r#""a""#
    }
}

impl Value for LogPrefix {
    fn expected() -> String {
        "path of letters, digits, `-`, `_` and `/` that begins with `/`".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tls_etcd_must_be_at_an_address_on_loopback() {
        let of = |url: &str| EtcdUrls::try_from(Spelled::Text(url.to_owned()));
        for url in
            ["http://127.0.0.1:2379", "http://127.0.0.1:2379/", "http://[::1]:2379", "https://e.example:1"]
        {
            assert_eq!(of(url), Ok(EtcdUrls(vec![url.to_owned()])));
        }
        for url in [
            "http://127.example.com:2379",
            "http://127.0.0.1:2379@e.example:1",
            "http://127.0.0.1",
            "http://[::1]e.example:1",
            "http://e.example:2379",
            "https://",
            "e.example:2379",
        ] {
            assert!(of(url).is_err(), "{url}");
        }
    }
}
