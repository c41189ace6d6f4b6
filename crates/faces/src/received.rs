//! Bodies of requests, and the functions that read a small body completely.

use crate::request_error::RequestError;
use bytes::Bytes;
use enfilade_facts::limits::Limits;
use http_body_util::{BodyExt, Limited};
use std::time::Duration;

/// The body of a request.
pub trait Incoming: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static {}
impl<B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static> Incoming for B {}

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Reads an XML body.
///
/// # Errors
/// When the body is too large, too slow or broken.
pub async fn collect_xml<B: Incoming>(body: B, limits: &Limits) -> Result<Bytes, RequestError> {
    collect(body, (limits.xml_bytes, "xml_bytes"), limits).await
}

/// Reads a form body.
///
/// # Errors
/// When the body is too large, too slow or broken, or has too many fields.
pub async fn collect_form<B: Incoming>(body: B, limits: &Limits) -> Result<Bytes, RequestError> {
    let whole = collect(body, (limits.json_bytes, "json_bytes"), limits).await?;
    let fields = whole.iter().filter(|byte| **byte == b'&').count() as u64;
    let too_many = RequestError::Parameter("the form has more values than the limit `json_values`");
    if fields >= limits.json_values { Err(too_many) } else { Ok(whole) }
}

/// Reads the body of a message in a binary form.
///
/// # Errors
/// When the body is too large, too slow or broken.
pub async fn collect_message<B: Incoming>(body: B, limits: &Limits) -> Result<Bytes, RequestError> {
    collect(body, (limits.json_bytes, "json_bytes"), limits).await
}

/// Reads a JSON body.
///
/// # Errors
/// When the body is too large, too slow, broken or too deep, or has too many values.
pub async fn collect_json<B: Incoming>(body: B, limits: &Limits) -> Result<Bytes, RequestError> {
    let whole = collect(body, (limits.json_bytes, "json_bytes"), limits).await?;
    let (depth, values) = extent(&whole);
    if depth > limits.json_depth || values > limits.json_values {
        Err(RequestError::JsonDepth)
    } else {
        Ok(whole)
    }
}

/// The greatest depth of nested objects and lists, and the approximate number of values. If the text is not JSON, both numbers are meaningless. They
/// are limited because a parsed value takes many times the bytes of its text.
fn extent(json: &[u8]) -> (u64, u64) {
    let (mut depth, mut most, mut values) = (0_u64, 0, 0);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_text(&mut bytes),
            b'{' | b'[' => {
                (depth, values) = (depth + 1, values + 1);
                most = most.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
    }
    (most, values)
}

/// Skips the rest of a text, with the quotation mark at its end.
fn skip_text(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

/// Reads a body of at most `most` bytes. `most` is the value of the limit `name`.
async fn collect<B: Incoming>(
    body: B,
    (most, name): (u64, &'static str),
    limits: &Limits,
) -> Result<Bytes, RequestError> {
    let whole = Limited::new(body, usize::try_from(most).unwrap_or(usize::MAX)).collect();
    match tokio::time::timeout(Duration::from_secs(limits.body_seconds), whole).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(why)) if why.is::<http_body_util::LengthLimitError>() => {
            Err(RequestError::BodyTooLong(most, name))
        }
        Ok(Err(_)) => Err(RequestError::BodyBroken),
        Err(_) => Err(RequestError::BodySlow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_and_values_are_counted_outside_of_text() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for (json, expected) in [
            ("", (0, 0)),
            ("1", (0, 0)),
            ("{}", (1, 1)),
            (r#"[{"a":[]},[[]]]"#, (3, 6)),
            (r#"{"[[[[,":"{{{{,"}"#, (1, 1)),
            (r#"["\"[[,",[]]"#, (2, 3)),
            (r#"["\\",[[]]]"#, (3, 4)),
            ("]]]][[", (2, 2)),
            ("[1,2,3]", (1, 3)),
            (&deep(500), (500, 500)),
        ] {
            assert_eq!(extent(json.as_bytes()), expected, "{json}");
        }
    }
}
