//! Parses durations and points in time, in the forms that people write.

use crate::clock;
use enfilade_facts::vocabulary::from_rfc3339;

/// The smallest number that is accepted as seconds since the epoch. A smaller number would be a time before 1973, so the user probably meant a
/// duration.
const EPOCH_SECONDS_MIN: i64 = 100_000_000;

/// Parses a duration: `90s`, `15m`, `24h`, `7d`, `2w`.
pub(crate) fn seconds(text: &str) -> Result<i64, String> {
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        Some('w') => 604_800,
        _ => return Err("expected a number and s, m, h, d or w, as in `24h`".into()),
    };
    let count = text.get(..text.len() - 1).and_then(|count| count.parse::<u32>().ok());
    count.map(|count| i64::from(count) * unit).ok_or_else(|| "expected a whole number before the unit".into())
}

/// Parses a point in time: `30d` (30 days from now), `2027-01-31` (0:00 UTC), `2027-01-31T18:00:00Z`, seconds since the epoch, or `never`. Returns
/// seconds since the epoch, or 0 for `never`.
pub(crate) fn moment(text: &str) -> Result<i64, String> {
    moment_after(text, clock::now().unix_seconds)
}

/// Parses a point in time as [`moment`] does, but refuses a time in the past. This is for the expiry of a new user or token.
pub(crate) fn future(text: &str) -> Result<i64, String> {
    future_after(text, clock::now().unix_seconds)
}

fn future_after(text: &str, now: i64) -> Result<i64, String> {
    match moment_after(text, now)? {
        past if past != 0 && past <= now => Err("expected a time in the future, or never".to_owned()),
        moment => Ok(moment),
    }
}

fn moment_after(text: &str, now: i64) -> Result<i64, String> {
    const EXPECTED: &str = "expected a duration such as 30d, a date such as 2027-01-31, a time such as 2027-01-31T18:00:00Z, or never";
    if matches!(text, "never" | "0") {
        return Ok(0);
    }
    if let Ok(number) = text.parse::<i64>() {
        return match number {
            number if number < EPOCH_SECONDS_MIN => {
                Err(format!("{text} seconds since the epoch is before 1973; {EXPECTED}"))
            }
            number => Ok(number),
        };
    }
    let time = if text.contains('T') { text.to_owned() } else { format!("{text}T00:00:00Z") };
    match (seconds(text), from_rfc3339(&time)) {
        (Ok(seconds), _) => Ok(now + seconds),
        (_, Some(moment)) => Ok(moment),
        _ => Err(EXPECTED.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        let now = 1_800_000_000;
        for (text, expected) in [
            ("never", 0),
            ("0", 0),
            ("30d", now + 30 * 86_400),
            ("2w", now + 14 * 86_400),
            ("90m", now + 5400),
            ("1970-01-02", 86_400),
            ("2027-01-31", 1_801_353_600),
            ("2027-01-31T18:00:00Z", 1_801_353_600 + 18 * 3600),
            ("1900000000", 1_900_000_000),
        ] {
            assert_eq!(moment_after(text, now), Ok(expected), "{text}");
        }
        for wrong in ["30", "", "d", "-5d", "soon", "2027-13-01", "31.1.2027", "-1", "2027-01-31T", "é"] {
            assert!(moment_after(wrong, now).is_err(), "{wrong}");
        }
        // The expiry of a new user or token may not be in the past.
        for (text, is_taken) in [("never", true), ("1s", true), ("0s", false), ("2020-01-01", false)] {
            assert_eq!(future_after(text, now).is_ok(), is_taken, "{text}");
        }
    }
}
