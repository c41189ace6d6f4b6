//! The header `traceparent`, in which a proxy or another member names its span (W3C Trace Context).

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// The header with the ids of the trace and of the span (W3C Trace Context §3.2).
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// A span outside this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParentSpan {
    /// The id of the trace; not 0.
    pub(crate) trace_id: u128,
    /// The id of the span; not 0.
    pub(crate) span_id: u64,
    /// Whether the sender exports the trace.
    pub(crate) is_sampled: bool,
}

impl ParentSpan {
    /// Reads the header `traceparent` (W3C Trace Context §3.2). `None` if the header is missing, occurs twice, or is not valid. Versions after 00 can
    /// contain further fields, which are ignored.
    pub(crate) fn read(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let text = values.next()?.to_str().ok()?;
        if values.next().is_some() {
            return None;
        }
        let mut fields = text.split('-');
        let version = hex(fields.next()?, 2)?;
        let (trace_id, span_id) = (hex(fields.next()?, 32)?, hex(fields.next()?, 16)?);
        let flags = hex(fields.next()?, 2)?;
        let is_valid =
            version != 0xff && (version != 0 || fields.next().is_none()) && trace_id != 0 && span_id != 0;
        is_valid.then_some(ParentSpan { trace_id, span_id: span_id as u64, is_sampled: flags & 1 == 1 })
    }

    /// The value of the header with which this server names a span.
    pub(crate) fn header(self) -> Option<HeaderValue> {
        let ParentSpan { trace_id, span_id, is_sampled } = self;
        HeaderValue::from_str(&format!("00-{trace_id:032x}-{span_id:016x}-{:02x}", u8::from(is_sampled))).ok()
    }
}

/// A number of exactly `digits` hexadecimal digits. Only lower case is valid.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_valid = text.len() == digits && text.bytes().all(is_digit);
    is_valid.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn read(values: &[&str]) -> Option<ParentSpan> {
        let row = |value: &&str| (TRACEPARENT, HeaderValue::from_str(value).unwrap());
        ParentSpan::read(&values.iter().map(row).collect())
    }

    #[test]
    fn a_traceparent_is_read_as_it_is_written() {
        let text = format!("00-{TRACE}-{SPAN}-01");
        let parent = read(&[&text]).unwrap();
        assert!(parent.is_sampled);
        assert_eq!(parent.header().unwrap(), text);
        let later = format!("cc-{TRACE}-{SPAN}-00-more");
        assert_eq!(read(&[&later]), Some(ParentSpan { is_sampled: false, ..parent }));
    }

    #[test]
    fn an_invalid_traceparent_is_ignored() {
        for wrong in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-+{}-{SPAN}-01", "1".repeat(31)),
        ] {
            assert_eq!(read(&[&wrong]), None, "{wrong}");
        }
        let right = format!("00-{TRACE}-{SPAN}-01");
        assert_eq!(read(&[&right, &right]), None);
    }
}
