//! Byte ranges (RFC 9110 §14): one range, or a few ranges that do not overlap.

use std::ops::Range;

/// The ranges that a `Range` header requests of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The whole file: the `Range` header is missing or malformed, its unit is not `bytes`, or it contains too many or overlapping ranges (RFC 9110
    /// §14.2).
    Whole,
    /// One range.
    Part(Range<u64>),
    /// Several ranges. Each range is a separate part of the response.
    Parts(Vec<Range<u64>>),
    /// None of the requested ranges contains a byte of the file.
    Outside,
}

pub(crate) fn asked(header: Option<&str>, bytes: u64, ranges_max: u64) -> Asked {
    let Some(specs) = header.and_then(|text| text.strip_prefix("bytes=")) else { return Asked::Whole };
    let mut ranges = Vec::new();
    for spec in specs.split(',') {
        if ranges.len() as u64 >= ranges_max {
            return Asked::Whole;
        }
        match one(spec.trim(), bytes) {
            Some(range) => ranges.push(range),
            None => return Asked::Whole,
        }
    }
    ranges.retain(|range| !range.is_empty());
    match ranges.as_slice() {
        [] => Asked::Outside,
        [range] => Asked::Part(range.clone()),
        several if overlap(several) => Asked::Whole,
        _ => Asked::Parts(ranges),
    }
}

fn overlap(ranges: &[Range<u64>]) -> bool {
    let mut sorted: Vec<&Range<u64>> = ranges.iter().collect();
    sorted.sort_unstable_by_key(|range| range.start);
    sorted.iter().zip(sorted.iter().skip(1)).any(|(range, next)| next.start < range.end)
}

/// Reads one range, and limits it to the bytes in the file. `None` if the range is malformed.
fn one(spec: &str, bytes: u64) -> Option<Range<u64>> {
    let (first, last) = spec.split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Some(first..last.saturating_add(1).min(bytes)),
        (Some(first), None) if last.is_empty() => Some(first..bytes),
        (None, Some(count)) if first.is_empty() => Some(bytes.saturating_sub(count)..bytes),
        _ => None,
    }
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
            ("bytes=0-1,3-4", Asked::Parts(vec![0..2, 3..5])),
            ("bytes=3-4, 0-1", Asked::Parts(vec![3..5, 0..2])),
            ("bytes=0-1,10-", Asked::Part(0..2)),
            ("bytes=10-,11-", Asked::Outside),
            ("bytes=0-1,1-2", Asked::Whole),
            ("bytes=0-0,2-2,4-4,6-6", Asked::Whole),
            ("bytes=0-1,,3-4", Asked::Whole),
            ("bytes=", Asked::Whole),
            ("bytes=-", Asked::Whole),
            ("bytes=+1-2", Asked::Whole),
            ("lines=1-2", Asked::Whole),
        ] {
            assert_eq!(asked(Some(header), 10, 3), expected, "{header}");
        }
        assert_eq!(asked(None, 10, 3), Asked::Whole);
        assert_eq!(asked(Some("bytes=0-"), 0, 3), Asked::Outside);
    }
}
