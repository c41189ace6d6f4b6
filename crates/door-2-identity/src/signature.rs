//! Requests to other services that were signed with an EC2 key. The service asks about the signature and gets a session of the key's user for the
//! key's project. A request to this server cannot be signed with an EC2 key. Only a session with the role `service` or `admin` can ask this server
//! about a signature.

use crate::fernet::payload::{Audit, AuditId};
use crate::judge::judge_claim;
use crate::refuse::Refusal;
use crate::revocations::Revocations;
use crate::session::{Claim, Lent, Methods, Scope, Session};
use crate::view::View;
use aws_lc_rs::{constant_time, hmac};
use enfilade_facts::tables::BlobId;
use enfilade_facts::{Clocks, Index};

/// A signature that a service asks about.
#[derive(Debug)]
pub struct SignatureAsk {
    /// The id of the key that the request names.
    pub key: BlobId,
    /// The version of the signature.
    pub signing: Signing,
    /// The kind of the signed data: a request with its time, or a request to an object store.
    pub signed: Signed,
    /// The possible forms of the signed text, as the service built them. The signature must match one of these texts.
    pub texts: Vec<Vec<u8>>,
    /// The signature.
    pub signature: Vec<u8>,
}

/// The kind of the signed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// A request with its time, in seconds since the epoch.
    Request(i64),
    /// A request to an object store, which checks the time itself.
    Storage,
}

/// How a text is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// AWS Signature Version 4: HMAC-SHA-256 with a key that is derived from the secret and from the day, region and service in the text.
    V4,
    /// AWS Signature Version 2: HMAC-SHA-256.
    V2,
    /// The older signature of S3: HMAC-SHA-1.
    S3,
}

/// The name of Version 4 in a signed text.
pub const AWS4_HMAC_SHA256: &[u8] = b"AWS4-HMAC-SHA256";

/// The largest difference between the time of a request and the time of this server, in seconds. In Keystone this is `[credential] auth_ttl`, which
/// limits only the age of a request.
const REQUEST_SECONDS_MAX: u64 = 15 * 60;

impl SignatureAsk {
    /// Whether a session may be issued for the signature at this time. An old request must not be replayed, and a request to another service must not
    /// be used for an object store.
    fn is_for_now(&self, now: Clocks) -> bool {
        match self.signed {
            Signed::Request(at) => now.unix_seconds.abs_diff(at) <= REQUEST_SECONDS_MAX,
            Signed::Storage => {
                self.signing != Signing::V4 || self.texts.iter().all(|text| is_of_storage(text))
            }
        }
    }

    fn is_by(&self, secret: &[u8]) -> bool {
        self.texts.iter().any(|text| {
            let made = match self.signing {
                Signing::V4 => signed_v4(secret, text),
                Signing::V2 => Some(mac(hmac::HMAC_SHA256, secret, text)),
                Signing::S3 => Some(mac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret, text)),
            };
            made.is_some_and(|made| {
                constant_time::verify_slices_are_equal(made.as_ref(), &self.signature).is_ok()
            })
        })
    }
}

fn mac(algorithm: hmac::Algorithm, key: &[u8], text: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(algorithm, key), text)
}

/// Whether the scope in a signed text of Version 4 names a service that Keystone accepts at `/v3/s3tokens`.
fn is_of_storage(text: &[u8]) -> bool {
    let scope = text.split(|byte| *byte == b'\n').nth(2);
    let service = scope.and_then(|scope| scope.split(|byte| *byte == b'/').nth(2));
    matches!(service, Some(b"s3" | b"iam" | b"sts"))
}

/// The signature of a text of Version 4. The text has four lines: the second starts with the day, and the third names the day, region and service.
/// `None` for any other text.
fn signed_v4(secret: &[u8], text: &[u8]) -> Option<hmac::Tag> {
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let [AWS4_HMAC_SHA256, date, scope, _] = *lines else { return None };
    let parts: Vec<&[u8]> = scope.split(|byte| *byte == b'/').collect();
    let [day, region, service, b"aws4_request"] = *parts else { return None };
    let is_of_day = !day.is_empty() && date.starts_with(day);
    let sign = |key: &[u8], text: &[u8]| mac(hmac::HMAC_SHA256, key, text);
    let key = [day, region, service, b"aws4_request"]
        .into_iter()
        .fold([b"AWS4", secret].concat(), |key, part| sign(&key, part).as_ref().to_vec());
    is_of_day.then(|| sign(&key, text))
}

/// The audit chain of all sessions of a key. A mark on this chain ends the sessions of the key that were issued up to the last second that the mark
/// covers.
pub fn chain_of(key: &BlobId) -> AuditId {
    let mut chain = AuditId::default();
    chain.iter_mut().zip(key.0).for_each(|(to, byte)| *to = byte);
    chain
}

/// The session of the user who signed the request.
pub(crate) fn judge(
    view: &View<'_>,
    now: Clocks,
    issued_at: i64,
    ask: &SignatureAsk,
    lifetime: i64,
    own: AuditId,
    revocations: &Index<Revocations>,
) -> Result<Session, Refusal> {
    let found = view.blob(&ask.key)?.and_then(|row| Some((row.user, row.project?, row.ec2?)));
    // The signature is computed even if the key does not exist, so that the time does not reveal whether the key exists.
    let is_right = ask.is_by(found.as_ref().map_or(b"", |(.., key)| key.secret.as_bytes()));
    let is_good = is_right && ask.is_for_now(now);
    let (user, project, key) = found.filter(|_| is_good).ok_or(Refusal::WrongSignature)?;
    let claim = Claim {
        user,
        methods: Methods::EC2_KEY,
        scope: Scope::Project(project),
        lent: key.by.map(Lent::Credential),
        issued_at,
        expires_at: now.unix_seconds.saturating_add(lifetime),
        audit: Audit { own, chain: Some(chain_of(&ask.key)) },
    };
    let (account, mut session) = judge_claim(view, now, &claim, revocations)?;
    session.claim.expires_at = claim.expires_at.min(account.last_second().saturating_add(1));
    Ok(session)
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::MirrorHealth;

    fn hex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().as_chunks::<2>().0;
        digits
            .iter()
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    fn is_by(signing: Signing, text: &str, secret: &str, signature: Vec<u8>) -> bool {
        let texts = vec![b"another".to_vec(), text.as_bytes().to_vec()];
        let signed = Signed::Storage;
        SignatureAsk { key: BlobId([0; 32]), signing, signed, texts, signature }.is_by(secret.as_bytes())
    }

    #[test]
    fn a_request_is_good_for_a_quarter_of_an_hour_and_storage_for_its_own_service() {
        let is_good = |signing, signed, text: &str, unix_seconds| {
            let texts = vec![text.as_bytes().to_vec()];
            let ask = SignatureAsk { key: BlobId([0; 32]), signing, signed, texts, signature: Vec::new() };
            ask.is_for_now(Clocks { unix_seconds, tick_millis: 0, mirror: MirrorHealth::Current })
        };
        for (seconds, expected) in [(99, false), (100, true), (1000, true), (1900, true), (1901, false)] {
            let of_request = is_good(Signing::V4, Signed::Request(1000), "", seconds);
            assert_eq!(of_request, expected, "{seconds}");
        }
        assert!(!is_good(Signing::V2, Signed::Request(i64::MIN), "", i64::MAX));
        let scope = |service: &str| {
            format!("AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/r/{service}/aws4_request\nx")
        };
        for (service, expected) in [("s3", true), ("iam", true), ("sts", true), ("ec2", false), ("", false)] {
            assert_eq!(is_good(Signing::V4, Signed::Storage, &scope(service), 0), expected, "{service}");
        }
        assert!(!is_good(Signing::V4, Signed::Storage, "AWS4-HMAC-SHA256", 0));
        assert!(is_good(Signing::S3, Signed::Storage, "GET\n\n\n", 0));
    }

    #[test]
    fn a_text_of_version_4_is_of_the_day_in_its_scope() {
        let text = |date: &str, day: &str| {
            format!("AWS4-HMAC-SHA256\n{date}\n{day}/r/iam/aws4_request\nx").into_bytes()
        };
        for (date, day, expected) in [
            ("20150830T123600Z", "20150830", true),
            ("20150831T123600Z", "20150830", false),
            ("20150830T123600Z", "", false),
        ] {
            assert_eq!(signed_v4(b"secret", &text(date, day)).is_some(), expected, "{date} {day}");
        }
    }

    /// Two published examples: from AWS's page on Version 4, and from S3's page on signing REST requests.
    #[test]
    fn published_examples_are_understood() {
        let text = "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/iam/aws4_request\n\
                    f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59";
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let signature = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";
        assert!(is_by(Signing::V4, text, secret, hex(signature)));
        for (text, secret) in [
            (text.replace("20150830T", "20150831T"), secret),
            (text.replace("us-east-1", "us-east-2"), secret),
            (text.replace("aws4_request", "aws4_reques"), secret),
            (format!("{text}\n"), secret),
            (text.to_owned(), "another"),
        ] {
            assert!(!is_by(Signing::V4, &text, secret, hex(signature)), "{text}");
        }
        assert!(!is_by(Signing::V2, text, secret, hex(signature)));
        assert!(!is_by(Signing::V4, text, secret, Vec::new()));
        let text = "GET\n\n\nTue, 27 Mar 2007 19:36:42 +0000\n/awsexamplebucket1/photos/puppy.jpg";
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        // AWS's page has the signature in Base64: "qgk2+6Sv9/oM7G3qLEjTH1a1l1g=".
        let signature = hex("aa0936fba4aff7fa0cec6dea2c48d31f56b59758");
        assert!(is_by(Signing::S3, text, secret, signature));
    }
}
