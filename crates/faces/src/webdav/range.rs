//! Byte ranges (RFC 9110 §14). One range is served; several in one request get the whole file, as the RFC allows.

use std::ops::Range;

/// What a `Range` header asks for of a file of `bytes` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All of it: no header, one we need not understand, or several ranges.
    Whole,
    /// These bytes.
    Part(Range<u64>),
    /// Nothing that is in the file.
    Outside,
}

pub(crate) fn asked(header: Option<&str>, bytes: u64) -> Asked {
    let Some(spec) = header.and_then(|text| text.strip_prefix("bytes=")) else { return Asked::Whole };
    let Some((first, last)) = spec.split_once('-').filter(|_| !spec.contains(',')) else {
        return Asked::Whole;
    };
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    let range = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(bytes),
        (Some(first), None) if last.is_empty() => first..bytes,
        (None, Some(count)) if first.is_empty() => bytes.saturating_sub(count)..bytes,
        _ => return Asked::Whole,
    };
    if range.is_empty() { Asked::Outside } else { Asked::Part(range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_file_of_ten_bytes() {
        for (header, expected) in [
            ("bytes=0-0", Asked::Part(0..1)),
            ("bytes=2-5", Asked::Part(2..6)),
            ("bytes=2-", Asked::Part(2..10)),
            ("bytes=-3", Asked::Part(7..10)),
            ("bytes=-30", Asked::Part(0..10)),
            ("bytes=5-99999999999999999999999", Asked::Part(5..10)),
            ("bytes=10-", Asked::Outside),
            ("bytes=-0", Asked::Outside),
            ("bytes=5-2", Asked::Whole),
            ("bytes=0-1,3-4", Asked::Whole),
            ("bytes=", Asked::Whole),
            ("bytes=-", Asked::Whole),
            ("bytes=+1-2", Asked::Whole),
            ("lines=1-2", Asked::Whole),
        ] {
            assert_eq!(asked(Some(header), 10), expected, "{header}");
        }
        assert_eq!(asked(None, 10), Asked::Whole);
        assert_eq!(asked(Some("bytes=0-"), 0), Asked::Outside);
    }
}
