//! `Repr-Digest` and `Content-Digest` (RFC 9530): the received content is compared with the digests of the sender before the content becomes visible.

use aws_lc_rs::digest::{Context, SHA256, SHA512};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use enfilade_faces::{RequestError, list};
use hyper::HeaderMap;
use hyper::header::HeaderValue;

/// The header with which a client asks for a digest (RFC 9530 §4).
pub(crate) const WANTED: &str = "want-repr-digest";

/// A digest that is computed while bytes arrive, and its expected value.
pub(crate) struct Running(Context, Vec<u8>);

/// The digests from the sender that use a supported algorithm. The content of a PUT is the whole representation, so `Repr-Digest` and
/// `Content-Digest` mean the same here.
pub(crate) fn asked(headers: &HeaderMap) -> Result<Vec<Running>, RequestError> {
    let mut all = Vec::new();
    for name in ["repr-digest", "content-digest"] {
        for value in headers.get_all(name) {
            let bad = RequestError::Header("Repr-Digest or Content-Digest");
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
                    // RFC 9530 §5: unknown and insecure algorithms are ignored.
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

    /// Whether the digest has the expected value.
    pub(crate) fn holds(self) -> bool {
        self.0.finish().as_ref() == self.1
    }
}

/// The digest of content in memory, if the client asks for a digest (`Want-Repr-Digest`, RFC 9530 §4). Of the supported algorithms, the function uses
/// the algorithm that the client prefers.
pub(crate) fn wanted(headers: &HeaderMap, whole: &[u8]) -> Option<HeaderValue> {
    let said = list(headers, WANTED)?;
    let liking = |name: &str| {
        let of = |member: &str| member.trim().strip_prefix(name)?.strip_prefix('=')?.parse::<u8>().ok();
        said.split(',').find_map(of).unwrap_or(0)
    };
    let (name, algorithm) = match (liking("sha-256"), liking("sha-512")) {
        (0, 0) => return None,
        (shorter, longer) if longer > shorter => ("sha-512", &SHA512),
        _ => ("sha-256", &SHA256),
    };
    let digest = STANDARD.encode(aws_lc_rs::digest::digest(algorithm, whole));
    HeaderValue::from_str(&format!("{name}=:{digest}:")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderName;

    fn holds(value: &str) -> Result<Vec<bool>, RequestError> {
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
    fn what_is_wanted_is_said() {
        for (value, expected) in [
            ("sha-256=3", Some("sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:")),
            ("sha-512=1, sha-256=10", Some("sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:")),
            ("sha-256=0", None),
            ("md5=10", None),
            ("sha-256", None),
        ] {
            let header = (HeaderName::from_static("want-repr-digest"), HeaderValue::from_str(value).unwrap());
            let said = wanted(&HeaderMap::from_iter([header]), b"hello");
            assert_eq!(said.as_ref().and_then(|said| said.to_str().ok()), expected, "{value}");
        }
        assert_eq!(wanted(&HeaderMap::new(), b"hello"), None);
        let mut headers = HeaderMap::new();
        for value in ["md5=1", "sha-256=1"] {
            headers.append(WANTED, HeaderValue::from_static(value));
        }
        assert!(wanted(&headers, b"hello").is_some(), "two lines of a list header must count as one list");
    }

    #[test]
    fn what_is_said_is_what_came() {
        let right = "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:";
        assert_eq!(holds(right), Ok(vec![true]));
        assert_eq!(
            holds("sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCR=:"),
            Err(RequestError::Header("Repr-Digest or Content-Digest"))
        );
        assert_eq!(holds("sha-256=:AAAA:"), Ok(vec![false]));
        assert_eq!(holds("md5=:AAAA:"), Ok(vec![]), "an insecure algorithm must be ignored");
        assert_eq!(holds(&format!("unixsum=:AA==:, {right}")), Ok(vec![true]));
        for bad in ["sha-256", "sha-256=x", "sha-512=:*:"] {
            assert!(holds(bad).is_err(), "{bad}");
        }
    }
}
