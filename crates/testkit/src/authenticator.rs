//! An authenticator app: computes codes from a secret in base32.

use aws_lc_rs::hmac;

/// The code that the app shows at this time (RFC 6238).
pub fn code_at(secret_base32: &str, unix_seconds: i64) -> String {
    let (mut secret, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in secret_base32.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'2'..=b'7' => digit - b'2' + 26,
            _ => panic!("`{secret_base32}` is not base32"),
        };
        bits = bits << 5 | u32::from(value);
        count += 5;
        if count >= 8 {
            count -= 8;
            secret.push((bits >> count & 0xff) as u8);
        }
    }
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &secret);
    let tag = hmac::sign(&key, &u64::try_from(unix_seconds / 30).unwrap_or(0).to_be_bytes());
    let tag = tag.as_ref();
    let at = usize::from(tag.last().copied().unwrap_or(0) & 0xf);
    let part = tag.iter().skip(at).take(4).fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
    format!("{:06}", (part & 0x7fff_ffff) % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::code_at;

    #[test]
    fn the_app_shows_the_codes_of_rfc_6238() {
        let secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
        assert_eq!((code_at(secret, 59), code_at(secret, 1_111_111_109)), ("287082".into(), "081804".into()));
    }
}
