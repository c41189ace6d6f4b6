//! Time-based one-time passwords (RFC 6238: HMAC-SHA-1, steps of 30 seconds, six digits).

use aws_lc_rs::{constant_time, hmac};
use std::ops::RangeInclusive;

/// The length of a time step, in seconds.
const STEP_SECONDS: i64 = 30;
/// The number of possible passcodes, which have six digits.
const PASSCODES: u32 = 1_000_000;

/// The time step of a time in seconds since the epoch.
pub(crate) fn step_at(unix_seconds: i64) -> u64 {
    u64::try_from(unix_seconds.div_euclid(STEP_SECONDS)).unwrap_or(0)
}

/// The passcode of a time step (RFC 4226, section 5.3).
pub(crate) fn passcode_of(secret: &[u8], step: u64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let tag = tag.as_ref();
    let offset = usize::from(tag.last().copied().unwrap_or(0) & 0xf);
    let part = tag.get(offset..).and_then(|rest| rest.first_chunk::<4>()).copied().unwrap_or_default();
    format!("{:06}", (u32::from_be_bytes(part) & 0x7fff_ffff) % PASSCODES)
}

/// The time steps that have this passcode. The function compares the given passcode with the passcode of every step in `steps`, in constant time.
pub(crate) fn right_steps(secret: &[u8], shown: &[u8], steps: RangeInclusive<u64>) -> Vec<u64> {
    let is_right = |step: &u64| {
        let expected = passcode_of(secret, *step);
        constant_time::verify_slices_are_equal(expected.as_bytes(), shown).is_ok()
    };
    steps.filter(is_right).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last six digits of the test vectors for SHA-1 in appendix B of RFC 6238.
    #[test]
    fn published_passcodes_are_right() {
        for (seconds, expected) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(passcode_of(b"12345678901234567890", step_at(seconds)), expected, "{seconds}");
        }
    }

    #[test]
    fn a_step_has_thirty_seconds() {
        for (seconds, step) in [(-1, 0), (0, 0), (29, 0), (30, 1), (59, 1), (60, 2)] {
            assert_eq!(step_at(seconds), step, "{seconds}");
        }
    }

    #[test]
    fn only_the_whole_passcode_of_a_given_step_is_right() {
        let secret = b"12345678901234567890";
        let steps = |passcode: &str, steps| right_steps(secret, passcode.as_bytes(), steps);
        assert_eq!(steps("287082", 0..=1), [1]);
        assert_eq!(steps("287082", 2..=3), Vec::<u64>::new());
        for wrong in ["28708", "2870820", " 287082", "287083", ""] {
            assert_eq!(steps(wrong, 0..=3), Vec::<u64>::new(), "{wrong}");
        }
    }
}
