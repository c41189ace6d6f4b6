//! `/ec2tokens` and `/s3tokens`. A service received a request that was signed with an EC2 key. The service now asks this server for the owner of the
//! key: `/ec2tokens` returns a session of the owner, and `/s3tokens` only describes the owner. For `/ec2tokens` the service sends the parts of the
//! signed request, and this server builds the signed string from these parts.

use super::render::{Form, token_body};
use super::{ApiError, ApiResponse, Call, Outcome, blobs};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use enfilade_facts::tables::Blob;
use enfilade_facts::vocabulary::{from_hex, from_rfc3339};
use enfilade_passage::{AWS4_HMAC_SHA256, About, IdentityRefusal, Refusal, SignatureAsk, Signed, Signing};
use hyper::StatusCode;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// A function that reads the signature and the signed string from the body.
type Read = fn(&Map<String, Value>) -> Result<SignatureAsk, ApiError>;

/// `POST /v3/ec2tokens`. The service sends the parts of the signed request.
pub(super) async fn ec2(call: &mut Call) -> Outcome {
    answer(call, read_ec2, true).await
}

/// `POST /v3/s3tokens`. The service sends the signed string. The response shows the user and contains no token (as in Keystone).
pub(super) async fn s3(call: &mut Call) -> Outcome {
    answer(call, read_s3, false).await
}

async fn answer(call: &mut Call, read: Read, with_token: bool) -> Outcome {
    let permit = call.allow(&About::default())?;
    let given = call.json()?;
    let signed = ["credentials", "credential", "ec2Credentials"].iter().find_map(|name| given.get(name));
    let signed = signed.and_then(Value::as_object).ok_or_else(|| missing("credentials"))?;
    let ask = read(signed)?;
    // The blob of a key that an older version of this server stored can refer to a trust, an access token or another application credential. Such a
    // reference does not limit the session of the key. So the session would have more rights than the reference allows, and the key is refused.
    if call
        .look(|view| Ok(view.get::<Blob>(&ask.key)?))?
        .is_some_and(|row| !blobs::has_no_other_reference(&row))
    {
        return Err(wrong());
    }
    let made = call.visit.issue_signed(&permit, &ask).await?;
    let form = Form { with_catalog: true };
    let (body, _) = token_body(call.faces.house().source(), &made.session, call.faces.catalog(), form)?;
    Ok(match with_token {
        true => ApiResponse::with_token(StatusCode::OK, body, &made.token),
        false => ApiResponse::new(StatusCode::OK, body.into()),
    })
}

fn missing(name: &str) -> ApiError {
    ApiError::invalid(format!("Expecting to find {name} in the body."))
}

fn wrong() -> ApiError {
    Refusal::from(IdentityRefusal::WrongSignature).into()
}

fn text<'a>(of: &'a Map<String, Value>, name: &str) -> Result<&'a str, ApiError> {
    of.get(name).and_then(Value::as_str).ok_or_else(|| missing(name))
}

fn signature(signed: &Map<String, Value>, signing: Signing) -> Result<Vec<u8>, ApiError> {
    let text = text(signed, "signature")?;
    let read = match signing {
        Signing::V4 => from_hex(text),
        Signing::V2 | Signing::S3 => STANDARD.decode(text).ok(),
    };
    read.ok_or_else(wrong)
}

fn read_s3(signed: &Map<String, Value>) -> Result<SignatureAsk, ApiError> {
    let key = blobs::ec2_id(text(signed, "access")?);
    let token = text(signed, "token")?;
    let said = URL_SAFE.decode(token).or_else(|_| STANDARD.decode(token)).map_err(|_| wrong())?;
    let signing = if said.starts_with(b"AWS4") { Signing::V4 } else { Signing::S3 };
    let signature = signature(signed, signing)?;
    Ok(SignatureAsk { key, signing, signed: Signed::Storage, texts: vec![said], signature })
}

/// The parts of a signed request, as a service sends them.
struct Request<'a> {
    verb: &'a str,
    host: &'a str,
    path: &'a str,
    parameters: Map<String, Value>,
    headers: Map<String, Value>,
}

fn read_ec2(signed: &Map<String, Value>) -> Result<SignatureAsk, ApiError> {
    let object = |name: &str| signed.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    let request = Request {
        verb: text(signed, "verb")?,
        host: text(signed, "host")?,
        path: text(signed, "path")?,
        parameters: object("params"),
        headers: object("headers"),
    };
    let key = blobs::ec2_id(text(signed, "access")?);
    let version = request.parameters.get("SignatureVersion").map(plain);
    let (signing, date, texts) = match version.as_deref() {
        Some("2") => request.v2(),
        None => request.v4(text(signed, "body_hash").unwrap_or_default()),
        // Signatures of versions 0 and 1 cover too little of a request to be secure.
        Some(_) => None,
    }
    .ok_or_else(wrong)?;
    let signature = signature(signed, signing)?;
    Ok(SignatureAsk { key, signing, signed: Signed::Request(date), texts, signature })
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads a date such as `2015-08-30T12:36:00Z`, with or without dashes and colons.
fn seconds(date: &str) -> Option<i64> {
    if date.len() != 16 {
        return from_rfc3339(date);
    }
    let part = |from: usize, to: usize| date.get(from..to);
    let (day, time) = ((part(0, 4)?, part(4, 6)?, part(6, 8)?), (part(9, 11)?, part(11, 13)?, part(13, 15)?));
    let long = format!("{}-{}-{}T{}:{}:{}Z", day.0, day.1, day.2, time.0, time.1, time.2);
    from_rfc3339(&long).filter(|_| part(8, 9) == Some("T") && part(15, 16) == Some("Z"))
}

impl Request<'_> {
    /// Version 2 signs method, host, path and parameters.
    fn v2(&self) -> Option<(Signing, i64, Vec<Vec<u8>>)> {
        let date = seconds(self.parameters.get("Timestamp")?.as_str()?)?;
        let mut parameters = self.parameters.clone();
        parameters.insert("SignatureMethod".into(), "HmacSHA256".into());
        let query = query(&parameters);
        let text = |host: &str| format!("{}\n{host}\n{}\n{query}", self.verb, self.path).into_bytes();
        // Some clients omit the port from the signed string.
        let without_port = self.host.rsplit_once(':').map(|(host, _)| host);
        Some((Signing::V2, date, [Some(self.host), without_port].into_iter().flatten().map(text).collect()))
    }

    /// Version 4 signs a digest of method, path, parameters, the headers that the signature lists, and the body.
    fn v4(&self, body_hash: &str) -> Option<(Signing, i64, Vec<Vec<u8>>)> {
        let headers: Vec<(String, &str)> = self
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.trim().to_ascii_lowercase(), value.as_str()?.trim())))
            .collect();
        let header = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value);
        let parameter = |name: &str| self.parameters.get(name).and_then(Value::as_str);
        let in_header = header("authorization").filter(|said| said.as_bytes().starts_with(AWS4_HMAC_SHA256));
        let is_in_query = parameter("X-Amz-Algorithm").map(str::as_bytes) == Some(AWS4_HMAC_SHA256);
        let said = |name: &str| match in_header {
            Some(said) => {
                let (_, after) = said.split_once(&format!("{name}="))?;
                after.split(',').next().map(str::trim)
            }
            None => parameter(&format!("X-Amz-{name}")).filter(|_| is_in_query),
        };
        let names = said("SignedHeaders")?;
        let (_, scope) = said("Credential")?.split_once('/')?;
        let date = header("x-amz-date").or_else(|| parameter("X-Amz-Date"))?;
        let query =
            if self.verb.eq_ignore_ascii_case("POST") { String::new() } else { query(&self.parameters) };
        let mut request = format!("{}\n{}\n{query}\n", self.verb.to_ascii_uppercase(), self.path);
        for name in names.split(';') {
            if let Some(value) = header(name) {
                let _ = writeln!(request, "{name}:{value}");
            }
        }
        let _ = write!(request, "\n{names}\n{body_hash}");
        let mut text = [AWS4_HMAC_SHA256, b"\n", date.as_bytes(), b"\n", scope.as_bytes(), b"\n"].concat();
        for byte in digest(&SHA256, request.as_bytes()).as_ref() {
            text.extend(format!("{byte:02x}").into_bytes());
        }
        Some((Signing::V4, seconds(date)?, vec![text]))
    }
}

/// The canonical query string: the parameters sorted by name, and percent-encoded by the rules of AWS.
fn query(parameters: &Map<String, Value>) -> String {
    let mut names: Vec<&String> = parameters.keys().collect();
    names.sort();
    let pair = |name: &String| {
        let value = parameters.get(name).map(plain).unwrap_or_default();
        format!("{}={}", encoded(name), encoded(&value))
    };
    names.into_iter().map(pair).collect::<Vec<_>>().join("&")
}

/// Percent-encodes all bytes except the unreserved characters (RFC 3986 §2.3).
pub(super) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut to, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => to.push(byte.into()),
            _ => {
                let _ = write!(to, "%{byte:02X}");
            }
        }
        to
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(signed: &Value) -> Option<(Signing, Signed, Vec<String>)> {
        let SignatureAsk { signing, signed, texts, .. } = read_ec2(signed.as_object().unwrap()).ok()?;
        Some((signing, signed, texts.into_iter().map(|text| String::from_utf8(text).unwrap()).collect()))
    }

    /// Tests the published example of AWS for version 4.
    #[test]
    fn version_4_is_put_together_as_published() {
        let mut signed = json!({
            "access": "AKIDEXAMPLE", "signature": "5d67", "verb": "GET", "host": "iam.amazonaws.com", "path": "/",
            "params": { "Action": "ListUsers", "Version": "2010-05-08" },
            "headers": {
                "Host": "iam.amazonaws.com", "X-Amz-Date": "20150830T123600Z",
                "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
                "Authorization": "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
                                  SignedHeaders=content-type;host;x-amz-date, Signature=5d67",
            },
            "body_hash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        });
        let text = "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/iam/aws4_request\n\
                    f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59";
        let at = Signed::Request(seconds("2015-08-30T12:36:00Z").unwrap());
        let expected = Some((Signing::V4, at, vec![text.to_owned()]));
        assert_eq!(read(&signed), expected);
        // The date in the header is signed. A date in a parameter is ignored.
        signed["params"]["Timestamp"] = "2024-01-01T00:00:00Z".into();
        assert_eq!(read(&signed).map(|(_, signed, _)| signed), Some(at));
    }

    /// Tests the published example of AWS for version 2.
    #[test]
    fn version_2_is_put_together_as_published() {
        let mut signed = json!({
            "access": "AKIDEXAMPLE", "signature": "AAAA", "verb": "GET", "host": "elasticmapreduce.amazonaws.com:443", "path": "/",
            "params": {
                "AWSAccessKeyId": "AKIAIOSFODNN7EXAMPLE", "Action": "DescribeJobFlows", "SignatureVersion": "2",
                "Timestamp": "2011-10-03T15:19:30", "Version": "2009-03-31",
            },
        });
        let text = |host: &str| {
            format!(
                "GET\n{host}\n/\nAWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Action=DescribeJobFlows&SignatureMethod=HmacSHA256&\
                 SignatureVersion=2&Timestamp=2011-10-03T15%3A19%3A30&Version=2009-03-31"
            )
        };
        let host = "elasticmapreduce.amazonaws.com";
        let expected = vec![text(&format!("{host}:443")), text(host)];
        let at = Signed::Request(seconds("2011-10-03T15:19:30Z").unwrap());
        assert_eq!(read(&signed), Some((Signing::V2, at, expected)));
        signed["params"]["SignatureVersion"] = "1".into();
        assert_eq!(read(&signed), None);
        signed["params"]["SignatureVersion"] = "2".into();
        signed["params"].as_object_mut().unwrap().remove("Timestamp");
        assert_eq!(read(&signed), None);
    }
}
