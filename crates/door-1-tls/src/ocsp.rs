//! Checks OCSP responses (RFC 6960) before they are stapled to handshakes: whether a response is about the leaf certificate, and how long it is
//! valid. The signature of the response is not checked here, because the client checks it.

use crate::leaf::{Der, serial, tag, time};

const ENUMERATED: u8 = 0x0a;
const RESPONSE_BYTES: u8 = 0xa0;
const GOOD: u8 = 0x80;
const NEXT_UPDATE: u8 = 0xa0;

/// Returns the last second in which the response is valid (in seconds since the epoch), or `i64::MAX` if the response contains no `nextUpdate`.
///
/// # Errors
/// The reason why the response cannot be stapled, for example that it is about another certificate.
pub(crate) fn good_until(response: &[u8], leaf: &[u8]) -> Result<i64, &'static str> {
    let mut outer =
        Der(Der(response).expect(tag::SEQUENCE).ok_or("the file is not an OCSP response in DER")?);
    match outer.expect(ENUMERATED) {
        Some([0]) => {}
        Some(_) => return Err("the authority answered with an error"),
        None => return Err("the file is not an OCSP response in DER"),
    }
    let serial = serial(leaf).ok_or("the certificate has no serial number")?;
    single(outer, serial).ok_or("the response is for another certificate, or cannot be parsed")?
}

fn single(mut outer: Der<'_>, serial: &[u8]) -> Option<Result<i64, &'static str>> {
    let mut bytes = Der(Der(outer.expect(RESPONSE_BYTES)?).expect(tag::SEQUENCE)?);
    bytes.expect(tag::OID)?;
    let mut basic = Der(Der(bytes.expect(tag::OCTETS)?).expect(tag::SEQUENCE)?);
    let mut data = Der(basic.expect(tag::SEQUENCE)?);
    data.next_if(tag::VERSION);
    // Skips the responder's name or key, and the time of the response.
    data.next()?;
    data.expect(tag::TIME)?;
    let mut answers = Der(data.expect(tag::SEQUENCE)?);
    while let Some(answer) = answers.expect(tag::SEQUENCE) {
        let mut answer = Der(answer);
        let mut about = Der(answer.expect(tag::SEQUENCE)?);
        about.expect(tag::SEQUENCE)?;
        about.expect(tag::OCTETS)?;
        about.expect(tag::OCTETS)?;
        let is_this = about.expect(tag::INTEGER)? == serial;
        let (status, _) = answer.next()?;
        answer.expect(tag::TIME)?;
        if !is_this {
            continue;
        }
        if status != GOOD {
            return Some(Err("the response says that the certificate is revoked or unknown"));
        }
        let until = match answer.next_if(NEXT_UPDATE) {
            Some(inside) => time(Der(inside).next()?)?,
            None => i64::MAX,
        };
        return Some(Ok(until));
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let inside = parts.concat();
        let length = match inside.len() {
            short @ 0..=0x7f => vec![short as u8],
            long => vec![0x82, (long >> 8) as u8, long as u8],
        };
        [&[tag], length.as_slice(), &inside].concat()
    }

    /// A response about a serial number. Its signature is all zeros, because only the client checks it.
    pub(crate) fn answer(serial: &[u8], status: u8, next_update: &[u8]) -> Vec<u8> {
        let sequence = |parts: &[&[u8]]| der(tag::SEQUENCE, parts);
        let time = |text: &[u8]| der(tag::TIME, &[text]);
        let about = sequence(&[
            &sequence(&[&der(tag::OID, &[&[0x2b, 0x0e, 0x03, 0x02, 0x1a]])]),
            &der(tag::OCTETS, &[&[1; 20]]),
            &der(tag::OCTETS, &[&[2; 20]]),
            &der(tag::INTEGER, &[serial]),
        ]);
        let next = der(NEXT_UPDATE, &[&time(next_update)]);
        let single = sequence(&[&about, &der(status, &[]), &time(b"20200101000000Z"), &next]);
        let by = der(0xa2, &[&der(tag::OCTETS, &[&[3; 20]])]);
        let data = sequence(&[&by, &time(b"20200101000000Z"), &sequence(&[&single])]);
        let basic = sequence(&[&data, &sequence(&[]), &der(0x03, &[&[0; 65]])]);
        let bytes =
            sequence(&[&der(tag::OID, &[&[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1]]), &der(tag::OCTETS, &[&basic])]);
        sequence(&[&der(ENUMERATED, &[&[0]]), &der(RESPONSE_BYTES, &[&bytes])])
    }

    #[test]
    fn a_response_is_stapled_if_it_is_good_and_about_the_leaf() {
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let leaf = made.cert.der();
        let number = serial(leaf).unwrap();
        let good = answer(number, GOOD, b"20300101000000Z");
        assert_eq!(good_until(&good, leaf), Ok(1_893_456_000));
        assert!(good_until(&answer(&[9], GOOD, b"20300101000000Z"), leaf).is_err());
        assert!(good_until(&answer(number, 0xa1, b"20300101000000Z"), leaf).unwrap_err().contains("revoked"));
        assert!(good_until(&[0x30, 3, ENUMERATED, 1, 6], leaf).unwrap_err().contains("error"));
        for end in 0..good.len() {
            assert!(good_until(&good[..end], leaf).is_err(), "{end}");
            // Every result is acceptable here, because the client checks the signature. Only a panic would be an error.
            for bit in 0..8 {
                let mut bent = good.clone();
                bent[end] ^= 1 << bit;
                let _ = good_until(&bent, leaf);
            }
        }
    }
}
