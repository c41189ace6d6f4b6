//! Seconds since the epoch as people and protocols write them: RFC 3339 in UTC.

/// As a date and time.
pub fn to_rfc3339(unix_seconds: i64) -> String {
    let (days, seconds) = (unix_seconds.div_euclid(86_400), unix_seconds.rem_euclid(86_400));
    // Counted in eras of 400 years that begin on the first of March, so that a leap day is the last of its year.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// From one, with or without a fraction of a second (which is cut off), and `Z` or nothing at the end.
pub fn from_rfc3339(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (text, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let (date, time) = text.split_once('T')?;
    let numbers = |text: &str, separator: char, lengths: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        let parts: [&str; 3] = parts.try_into().ok()?;
        let fits = parts.iter().zip(lengths).all(|(part, length)| part.len() == length);
        let [a, b, c] =
            parts.map(|part| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse::<i64>().ok()));
        fits.then_some([a??, b??, c??])
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let is_time = hour < 24 && minute < 60 && second < 60 && !fraction.is_empty();
    if !is_time || !fraction.bytes().all(|b| b.is_ascii_digit()) || !(1..=12).contains(&month) {
        return None;
    }
    // Months counted from March, years that begin with it.
    let (moved, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * moved + moved.div_euclid(4) - moved.div_euclid(100) + moved.div_euclid(400);
    let days = days + (153 * from_march + 2) / 5 + day - 1 - 719_468;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    // A day its month does not have came out as one of the next.
    to_rfc3339(seconds).starts_with(date).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_dates_and_back() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(to_rfc3339(seconds), text);
            assert_eq!(from_rfc3339(text), Some(seconds));
            assert_eq!(from_rfc3339(&text.replace('Z', ".000000Z")), Some(seconds));
            assert_eq!(from_rfc3339(&text.replace('Z', ".5")), Some(seconds));
        }
        for wrong in [
            "",
            "T",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01",
            "2026-1-01T00:00:00Z",
            "2026-01-01T00:00:00+01:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-00T00:00:00Z",
            "+026-01-01T00:00:00Z",
        ] {
            assert_eq!(from_rfc3339(wrong), None, "{wrong}");
        }
    }
}
