//! Requests that an OAuth 1.0a consumer signed: the parameters in `Authorization: OAuth`, and the text that the consumer signed (RFC 5849 §3.4.1).

use super::signatures::encoded;
use super::{ApiError, Parts};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use enfilade_faces::credential;
use enfilade_faces::percent::form_pairs;
use enfilade_facts::vocabulary::{ConsumerId, percent_decoded};
use enfilade_passage::{OAuthAsk, OAuthToken, Refusal};
use hyper::header::CONTENT_TYPE;

/// A signed request. The signature is not checked yet.
pub(super) struct SignedRequest {
    /// The parameters in the header, without `realm`.
    parameters: Vec<(String, String)>,
    text: String,
}

/// The maximum number of parameters in the header. OAuth defines nine parameters.
const PARAMETERS_MAX: usize = 32;

/// The parameter that contains the signature. This parameter is not part of the signed text.
const SIGNATURE: &str = "oauth_signature";

impl SignedRequest {
    /// Reads the header, and builds the signed text. `base` is the scheme and the host with which the client reached this server. `body` is part of
    /// the signed text only if it is a form.
    pub(super) fn read(head: &Parts, base: &str, body: &[u8]) -> Result<Self, ApiError> {
        let header = credential::oauth(&head.headers).map_err(Refusal::from)?;
        let parameters = in_header(header).ok_or_else(|| {
            ApiError::invalid(
                "the parameters of `Authorization: OAuth` cannot be read; expected name=\"value\", each once",
            )
        })?;
        let is_form =
            head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| {
                let kind = kind.split(';').next().unwrap_or_default().trim();
                kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
            });
        let not_encoded = || ApiError::invalid("the query or the form is not percent-encoded UTF-8");
        let mut signed =
            form_pairs(head.uri.query().unwrap_or_default().as_bytes()).ok_or_else(not_encoded)?;
        signed.extend(form_pairs(if is_form { body } else { &[] }).ok_or_else(not_encoded)?);
        signed.extend(parameters.iter().filter(|(name, _)| name != SIGNATURE).cloned());
        let url = format!("{}{}", base_url(base), head.uri.path());
        let text = format!("{}&{}&{}", head.method, encoded(&url), encoded(&normalized(&signed)));
        let request = SignedRequest { parameters, text };
        let (method, version) = (request.get("oauth_signature_method")?, request.find("oauth_version"));
        match method == "HMAC-SHA1" && version.is_none_or(|version| version == "1.0") {
            true => Ok(request),
            false => Err(ApiError::invalid(
                "oauth_signature_method: expected HMAC-SHA1; oauth_version: expected 1.0 or nothing",
            )),
        }
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A required parameter of the header.
    pub(super) fn get(&self, name: &str) -> Result<&str, ApiError> {
        let found = self.find(name).filter(|value| !value.is_empty());
        found.ok_or_else(|| ApiError::invalid(format!("Expecting to find {name} in `Authorization: OAuth`.")))
    }

    /// The question to door 2. A malformed id is treated like an unknown id. A malformed signature is treated like a wrong signature.
    pub(super) fn ask(&self, token: OAuthToken) -> Result<OAuthAsk, ApiError> {
        let timestamp = self.get("oauth_timestamp")?;
        let seconds = timestamp.parse::<u32>().ok().filter(|_| timestamp.bytes().all(|b| b.is_ascii_digit()));
        let seconds =
            seconds.ok_or_else(|| ApiError::invalid("oauth_timestamp: expected seconds since 1970"))?;
        Ok(OAuthAsk {
            consumer: self.get("oauth_consumer_key")?.parse().unwrap_or(ConsumerId::from_bytes([0; 16])),
            token,
            text: self.text.clone().into_bytes(),
            signature: STANDARD.decode(self.get(SIGNATURE)?).unwrap_or_default(),
            timestamp: seconds.into(),
            nonce: self.get("oauth_nonce")?.to_owned(),
        })
    }
}

/// The parameters of the header, without `realm`. `None` if a parameter cannot be read or is present twice, or if there are more than
/// [`PARAMETERS_MAX`] parameters.
fn in_header(header: &str) -> Option<Vec<(String, String)>> {
    let mut parameters: Vec<(String, String)> = Vec::new();
    for part in header.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=')?;
        let value = value.trim_start().strip_prefix('"')?.strip_suffix('"')?;
        if name.eq_ignore_ascii_case("realm") {
            continue;
        }
        let decoded = |text: &str| String::from_utf8(percent_decoded(text.as_bytes())?).ok();
        let (name, value) = (decoded(name.trim_end())?, decoded(value)?);
        if parameters.len() >= PARAMETERS_MAX || parameters.iter().any(|(known, _)| *known == name) {
            return None;
        }
        parameters.push((name, value));
    }
    Some(parameters)
}

/// The scheme and the host as the signed text contains them: in lower case, without the default port of the scheme (RFC 5849 §3.4.1.2).
fn base_url(base: &str) -> String {
    let base = base.to_ascii_lowercase();
    let usual = if base.starts_with("https:") { ":443" } else { ":80" };
    match base.strip_suffix(usual) {
        Some(host) => host.to_owned(),
        None => base,
    }
}

/// The parameters, percent-encoded and sorted (RFC 5849 §3.4.1.3.2).
fn normalized(parameters: &[(String, String)]) -> String {
    let mut pairs: Vec<_> = parameters.iter().map(|(name, value)| (encoded(name), encoded(value))).collect();
    pairs.sort();
    pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::{Method, Request};

    fn parts(method: Method, url: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn text(head: &Parts, base: &str, body: &[u8]) -> Option<String> {
        SignedRequest::read(head, base, body).ok().map(|request| request.text)
    }

    /// Tests the example of RFC 5849 §3.4.1.1.
    #[test]
    fn the_signed_text_is_that_of_the_rfc() {
        let header = "OAuth realm=\"Example\", oauth_consumer_key=\"9djdj82h48djs9d2\", oauth_token=\"kkk9d7dh3k39sjv7\", \
                      oauth_signature_method=\"HMAC-SHA1\", oauth_timestamp=\"137131201\", oauth_nonce=\"7d8f3e4a\", \
                      oauth_signature=\"bYT5CMsGcbgUdFHObYMEfcx6bsw%3D\"";
        let kind = "application/x-www-form-urlencoded";
        let head = parts(
            Method::POST,
            "/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b",
            &[("authorization", header), ("content-type", kind)],
        );
        let expected = "POST&http%3A%2F%2Fexample.com%2Frequest&a2%3Dr%2520b%26a3%3D2%2520q%26a3%3Da%26b5%3D%253D%25253D%26c%2540%3D%26\
                        c2%3D%26oauth_consumer_key%3D9djdj82h48djs9d2%26oauth_nonce%3D7d8f3e4a%26oauth_signature_method%3DHMAC-SHA1%26\
                        oauth_timestamp%3D137131201%26oauth_token%3Dkkk9d7dh3k39sjv7";
        for base in ["http://example.com", "http://EXAMPLE.com:80"] {
            assert_eq!(text(&head, base, b"c2&a3=2+q").as_deref(), Some(expected), "{base}");
        }
        // A body that is not a form is not part of the signed text.
        let other =
            parts(Method::POST, "/", &[("authorization", header), ("content-type", "application/json")]);
        let with = text(&other, "https://a:8443", b"c2&a3=2+q");
        assert_eq!(with, text(&other, "https://a:8443", b""));
        assert!(with.unwrap().starts_with("POST&https%3A%2F%2Fa%3A8443%2F&oauth_consumer_key"));
    }

    #[test]
    fn other_headers_are_refused() {
        let is_read = |header: &str| {
            let head = parts(Method::POST, "/", &[("authorization", header)]);
            text(&head, "https://a", b"").is_some()
        };
        assert!(is_read("OAuth oauth_signature_method=\"HMAC-SHA1\",oauth_version=\"1.0\""));
        let mut many = "OAuth oauth_signature_method=\"HMAC-SHA1\"".to_owned();
        (1..PARAMETERS_MAX).for_each(|n| many.push_str(&format!(",a{n}=\"\"")));
        assert!(is_read(&many) && !is_read(&format!("{many},a=\"\"")));
        for wrong in [
            "OAuth",
            "OAuth ",
            "OAuth oauth_signature_method=HMAC-SHA1",
            "OAuth oauth_signature_method=\"PLAINTEXT\"",
            "OAuth oauth_signature_method=\"HMAC-SHA1\",oauth_version=\"2.0\"",
            "OAuth oauth_signature_method=\"HMAC-SHA1\",oauth_nonce=\"a\",oauth_nonce=\"b\"",
            "OAuth oauth_signature_method=\"HMAC-SHA1\",oauth_nonce=\"%\"",
            "Basic oauth_signature_method=\"HMAC-SHA1\"",
        ] {
            assert!(!is_read(wrong), "{wrong}");
        }
    }
}
