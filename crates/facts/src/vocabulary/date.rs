//! Seconds and days since the epoch as dates of the Gregorian calendar, in UTC, and as RFC 3339 text.

use time::{Date, Month, OffsetDateTime, Time};

/// The seconds of 9999-12-31T23:59:59Z: RFC 3339 and HTTP have no later years.
pub const LAST_SECOND: i64 = 253_402_300_799;
/// The seconds of -9999-01-01T00:00:00Z, the earliest time that the library `time` supports.
const FIRST_SECOND: i64 = -377_705_116_800;
const SECONDS_PER_DAY: i64 = 86_400;
/// The number of microseconds in a second.
pub const MICROS_PER_SECOND: i64 = 1_000_000;

/// The date and time of these seconds. Seconds before [`FIRST_SECOND`] or after [`LAST_SECOND`] become that first or last second.
fn moment(unix_seconds: i64) -> OffsetDateTime {
    let seconds = unix_seconds.clamp(FIRST_SECOND, LAST_SECOND);
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// The year, month and day of a date that is given as a number of days since 1970-01-01. A day after the year 9999 becomes the last day of that year.
pub fn date_of(days: i64) -> (i32, u8, u8) {
    let date = moment(days.saturating_mul(SECONDS_PER_DAY)).date();
    (date.year(), date.month().into(), date.day())
}

/// The day of a date, counted from 1970-01-01; `None` if there is no such month, or the year has more than four digits. If `day` is greater than the
/// length of the month, the result is a day in the next month.
pub fn days_of(year: i32, month: u8, day: u8) -> Option<i64> {
    let first = Date::from_calendar_date(year, Month::try_from(month).ok()?, 1).ok()?;
    let epoch = OffsetDateTime::UNIX_EPOCH.to_julian_day();
    Some(i64::from(first.to_julian_day() - epoch) + i64::from(day) - 1)
}

/// The seconds as RFC 3339 text. A time after the year 9999 becomes the last second of that year: RFC 3339 has four digits for a year.
pub fn to_rfc3339(unix_seconds: i64) -> String {
    let moment = moment(unix_seconds);
    let (year, month, day) = (moment.year(), u8::from(moment.month()), moment.day());
    let (hour, minute, second) = moment.to_hms();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Converts RFC 3339 text to seconds. The text can contain a fraction of a second, which is cut off. The `Z` at the end can be missing; no other time
/// zone is accepted.
pub fn from_rfc3339(text: &str) -> Option<i64> {
    micros_from_rfc3339(text).map(|micros| micros.div_euclid(MICROS_PER_SECOND))
}

/// Converts RFC 3339 text to microseconds, in the forms that [`from_rfc3339`] accepts. Decimals after the sixth are cut off.
pub fn micros_from_rfc3339(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (text, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = |text: &str, separator: char| -> Option<[u8; 2]> {
        let (a, b) = text.split_once(separator)?;
        let number = |text: &str| text.parse().ok().filter(|_| text.len() == 2 && are_digits(text));
        Some([number(a)?, number(b)?])
    };
    let (date, time) = text.split_once('T').filter(|_| are_digits(fraction))?;
    let (year, date) = date.split_once('-').filter(|(year, _)| year.len() == 4 && are_digits(year))?;
    let [month, day] = numbers(date, '-')?;
    let (hour, time) = time.split_once(':').filter(|(hour, _)| hour.len() == 2 && are_digits(hour))?;
    let [minute, second] = numbers(time, ':')?;
    let date = Date::from_calendar_date(year.parse().ok()?, Month::try_from(month).ok()?, day).ok()?;
    let time = Time::from_hms(hour.parse().ok()?, minute, second).ok()?;
    let micros: i64 = format!("{fraction:0<6.6}").parse().ok()?;
    Some(date.with_time(time).assume_utc().unix_timestamp() * MICROS_PER_SECOND + micros)
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
            (-62_167_219_200, "0000-01-01T00:00:00Z"),
            (LAST_SECOND, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(to_rfc3339(seconds), text);
            assert_eq!(from_rfc3339(text), Some(seconds));
            assert_eq!(from_rfc3339(&text.replace('Z', ".000000Z")), Some(seconds));
            assert_eq!(from_rfc3339(&text.replace('Z', ".5")), Some(seconds));
            for (decimals, micros) in
                [("Z", 0), (".5", 500_000), (".000001Z", 1), (".999999", 999_999), (".9999999Z", 999_999)]
            {
                let micros = Some(seconds * MICROS_PER_SECOND + micros);
                assert_eq!(micros_from_rfc3339(&text.replace('Z', decimals)), micros, "{text} {decimals}");
            }
        }
        for wrong in [
            "",
            "T",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T23:60:00Z",
            "2016-12-31T23:59:60Z",
            "2026-01-01",
            "2026-1-01T00:00:00Z",
            "2026-01-01T00:00:00+01:00",
            "2026-01-01T00:00:00-00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.5.5Z",
            "2026-01-01T00:00:00ZZ",
            "2026-01-01T00:00:00z",
            "2026-01-01t00:00:00Z",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00:00:00Z",
            "2026-01-01-01T00:00:00Z",
            "2026-01-01T00:00:00\0",
            "2026-01-00T00:00:00Z",
            "+026-01-01T00:00:00Z",
            "-026-01-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "2026-+1-01T00:00:00Z",
            "2026-01-01T+1:00:00Z",
            "٢٠٢٦-01-01T00:00:00Z",
        ] {
            assert_eq!(from_rfc3339(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_no_form_can_show_is_the_nearest_that_it_can() {
        for (seconds, text) in [
            (LAST_SECOND + 1, "9999-12-31T23:59:59Z"),
            (i64::MAX, "9999-12-31T23:59:59Z"),
            (FIRST_SECOND, "-9999-01-01T00:00:00Z"),
            (i64::MIN, "-9999-01-01T00:00:00Z"),
        ] {
            assert_eq!(to_rfc3339(seconds), text, "{seconds}");
        }
        assert_eq!((date_of(i64::MAX), date_of(i64::MIN)), ((9999, 12, 31), (-9999, 1, 1)));
    }

    #[test]
    fn days_as_dates_and_back() {
        for days in (-800_000..2_900_000).step_by(97) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year, month, day), Some(days), "{year}-{month}-{day}");
        }
        // A certificate can contain a day that the month does not have.
        assert_eq!(days_of(2026, 2, 31), days_of(2026, 3, 3));
        assert_eq!(days_of(1970, 1, 0), Some(-1));
        assert_eq!((days_of(2026, 0, 1), days_of(2026, 13, 1), days_of(10_000, 1, 1)), (None, None, None));
    }
}
