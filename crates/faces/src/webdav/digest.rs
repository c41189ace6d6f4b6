//! `Repr-Digest` and `Content-Digest` (RFC 9530): what came is compared with what its sender says it is, before it is shown to anybody.

use crate::respond::Wire;
use aws_lc_rs::digest::{Context, SHA256, SHA512};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;

/// A digest that is worked out while bytes come, and what it is to be.
pub(crate) struct Running(Context, Vec<u8>);

/// What the sender says, where it is something we can check: a PUT has the whole representation for content, so either header will do.
pub(crate) fn asked(headers: &HeaderMap) -> Result<Vec<Running>, Wire> {
    let mut all = Vec::new();
    for name in ["repr-digest", "content-digest"] {
        for value in headers.get_all(name) {
            let bad = Wire::Header("Repr-Digest or Content-Digest");
            let text = value.to_str().map_err(|_| bad)?;
            for member in text.split(',').map(str::trim).filter(|member| !member.is_empty()) {
                let (algorithm, value) = member.split_once('=').ok_or(bad)?;
                let expected = || {
                    let value = value.strip_prefix(':').and_then(|value| value.strip_suffix(':'));
                    value.and_then(|value| STANDARD.decode(value).ok()).ok_or(bad)
                };
                match algorithm.trim() {
                    "sha-256" => all.push(Running(Context::new(&SHA256), expected()?)),
                    "sha-512" => all.push(Running(Context::new(&SHA512), expected()?)),
                    // §5: what is not known, or broken for long, is not looked at.
                    _ => {}
                }
            }
        }
    }
    Ok(all)
}

impl Running {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Whether it came out as was said.
    pub(crate) fn holds(self) -> bool {
        self.0.finish().as_ref() == self.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    fn holds(value: &str) -> Result<Vec<bool>, Wire> {
        let header = (HeaderName::from_static("repr-digest"), HeaderValue::from_str(value).unwrap());
        let all = asked(&HeaderMap::from_iter([header]))?;
        let add = |mut one: Running| {
            one.add(b"hel");
            one.add(b"lo");
            one.holds()
        };
        Ok(all.into_iter().map(add).collect())
    }

    #[test]
    fn what_is_said_is_what_came() {
        let right = "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:";
        assert_eq!(holds(right), Ok(vec![true]));
        assert_eq!(
            holds("sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCR=:"),
            Err(Wire::Header("Repr-Digest or Content-Digest"))
        );
        assert_eq!(holds("sha-256=:AAAA:"), Ok(vec![false]));
        assert_eq!(holds("md5=:AAAA:"), Ok(vec![]), "not looked at");
        assert_eq!(holds(&format!("unixsum=:AA==:, {right}")), Ok(vec![true]));
        for bad in ["sha-256", "sha-256=x", "sha-512=:*:"] {
            assert!(holds(bad).is_err(), "{bad}");
        }
    }
}
