//! Passkeys (Web Authentication, level 2): the data that a browser sends about a passkey, and the checks of these data.
//!
//! At sign-in, a user who entered the password can use a passkey in place of a code. The browser binds each answer of an authenticator to a challenge
//! and to the origin of the page. So this server does not accept an answer that was made for a page of another site. The server does not ask for an
//! attestation, because it accepts every kind of authenticator.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use enfilade_facts::limits::{PASSKEY_DATA_BYTES_MAX, PASSKEY_ID_BYTES_MAX, PASSKEY_KEY_BYTES_MAX};
use enfilade_facts::tables::{Octets, Passkey};

/// The kinds of keys that a page asks for, as numbers of COSE (RFC 9053, RFC 8812): ES256, EdDSA and RS256.
pub const PASSKEY_ALGORITHMS: [i32; 3] = [-7, -8, -257];

/// The bytes with which a SubjectPublicKeyInfo begins, for each kind of key, and the algorithm of the signatures (RFC 5480, RFC 8410, RFC 8017).
const ALGORITHMS: [(&[u8], &dyn VerificationAlgorithm, KeyForm); 3] = [
    (
        b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00",
        &ECDSA_P256_SHA256_ASN1,
        KeyForm::Rest,
    ),
    (b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00", &ED25519, KeyForm::Rest),
    (b"\x30\x82", &RSA_PKCS1_2048_8192_SHA256, KeyForm::Whole),
];

/// The part of a SubjectPublicKeyInfo that the library reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyForm {
    /// Only the bytes that follow the fixed beginning.
    Rest,
    /// All bytes.
    Whole,
}

/// The bits of the flags of an authenticator.
const USER_PRESENT: u8 = 0x01;
const HAS_CREDENTIAL: u8 = 0x40;
/// The total length of the first three fields of `authenticatorData`, in bytes: the digest of the host, the flags, and the counter.
const HEAD: usize = 37;

/// The page to which the answer of an authenticator must belong.
#[derive(Clone, Debug)]
pub struct Ceremony<'a> {
    /// The challenge of the page.
    pub challenge: [u8; 32],
    /// The origin of the page: `https://`, the host, and the port if it is not 443.
    pub origin: &'a str,
}

/// A new passkey, as the browser sends it.
#[derive(Clone, Debug)]
pub struct NewPasskey {
    /// The id of the passkey.
    pub id: Vec<u8>,
    /// The public key, as SubjectPublicKeyInfo in DER.
    pub key: Vec<u8>,
    /// `clientDataJSON`.
    pub client_data: Vec<u8>,
    /// `authenticatorData`.
    pub authenticator_data: Vec<u8>,
}

/// The answer of an authenticator to a challenge.
#[derive(Clone, Debug)]
pub struct Assertion {
    /// The id of the passkey.
    pub id: Vec<u8>,
    /// `clientDataJSON`.
    pub client_data: Vec<u8>,
    /// `authenticatorData`.
    pub authenticator_data: Vec<u8>,
    /// The signature of `authenticatorData` and of the digest of `clientDataJSON`.
    pub signature: Vec<u8>,
}

/// The challenge that is computed from a secret. At sign-in, the secret is the receipt for the password. For a new passkey, the secret is the CSRF
/// token of the session. So the server need not store a challenge while it waits for the answer.
pub fn passkey_challenge(secret: &[u8]) -> [u8; 32] {
    sha256(&[b"challenge for a passkey:", secret].concat())
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut all = [0; 32];
    all.copy_from_slice(digest(&SHA256, bytes).as_ref());
    all
}

/// The host of an origin. The host is the relying party of the passkeys of this origin.
pub fn host_of_origin(origin: &str) -> Option<&str> {
    let authority = origin.strip_prefix("https://")?;
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "443"));
    let is_plain = !host.is_empty() && !host.contains(['/', '@', '[', ']', ':']);
    (is_plain && port.bytes().all(|byte| byte.is_ascii_digit())).then_some(host)
}

/// Checks that the browser made these data for this page (section 7.1, steps 7 to 9, and section 7.2, steps 11 to 13; also `crossOrigin`).
fn check_client_data(data: &[u8], kind: &str, ceremony: &Ceremony<'_>) -> Result<(), &'static str> {
    let data: serde_json::Value = serde_json::from_slice(data)
        .map_err(|_| "the data of the browser (`clientDataJSON`) is not JSON: try another browser")?;
    let text = |name: &str| data.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    let challenge = URL_SAFE_NO_PAD.encode(ceremony.challenge);
    match () {
        () if text("type") != kind => {
            Err("the browser answered another kind of request: load the page again, then try again")
        }
        () if text("challenge") != challenge => {
            Err("the answer belongs to another challenge: load the page again, then try again")
        }
        () if text("origin") != ceremony.origin => Err("the answer belongs to a page of another origin"),
        () if data.get("crossOrigin").and_then(serde_json::Value::as_bool) == Some(true) => {
            Err("the page was in a frame of another site")
        }
        () => Ok(()),
    }
}

/// The flags and the counter in the data of an authenticator. Checks that the data are for this host, and that the user confirmed the use of the
/// passkey.
fn head(data: &[u8], host: &str) -> Result<(u8, u32), &'static str> {
    let head: &[u8; HEAD] = data
        .first_chunk()
        .ok_or("the data of the authenticator (`authenticatorData`) is too short: try another browser")?;
    let [rest @ .., flags, a, b, c, d] = head;
    if rest != &sha256(host.as_bytes()) {
        return Err("the authenticator answered for another host");
    }
    match flags & USER_PRESENT {
        0 => Err("the user did not confirm the use of the passkey"),
        _ => Ok((*flags, u32::from_be_bytes([*a, *b, *c, *d]))),
    }
}

/// The algorithm of the signatures of a public key, and the bytes that the library reads.
fn algorithm(key: &[u8]) -> Option<(&'static dyn VerificationAlgorithm, &[u8])> {
    ALGORITHMS.iter().find_map(|(prefix, algorithm, form)| {
        let rest = key.strip_prefix(*prefix)?;
        Some((*algorithm, if *form == KeyForm::Whole { key } else { rest }))
    })
}

impl NewPasskey {
    /// Checks a new passkey (section 7.1).
    ///
    /// # Errors
    /// A text for the user: the reason why the passkey is refused.
    pub fn check(self, ceremony: &Ceremony<'_>, name: &str, now: i64) -> Result<Passkey, &'static str> {
        let sizes = [
            (self.id.len(), PASSKEY_ID_BYTES_MAX),
            (self.key.len(), PASSKEY_KEY_BYTES_MAX),
            (self.client_data.len(), PASSKEY_DATA_BYTES_MAX),
            (self.authenticator_data.len(), PASSKEY_DATA_BYTES_MAX),
        ];
        if sizes.iter().any(|(bytes, most)| *bytes == 0 || bytes > most) {
            return Err("the browser sent no passkey, or a passkey that is too long");
        }
        let host =
            host_of_origin(ceremony.origin).ok_or("a passkey needs https and a host name (no IP address)")?;
        check_client_data(&self.client_data, "webauthn.create", ceremony)?;
        let (flags, counter) = head(&self.authenticator_data, host)?;
        // The first `HEAD` bytes are followed by the model of the authenticator (16 bytes), the length of the id (2 bytes), and the id.
        let id = self.authenticator_data.get(HEAD + 18..).unwrap_or_default();
        let length = self.authenticator_data.get(HEAD + 16..HEAD + 18).unwrap_or_default();
        let is_named = flags & HAS_CREDENTIAL != 0
            && length == (self.id.len() as u16).to_be_bytes()
            && id.starts_with(&self.id);
        if !is_named {
            return Err(
                "the id in the data of the authenticator differs from the id that the browser sent: try another browser",
            );
        }
        let parsed = algorithm(&self.key).and_then(|(kind, key)| ParsedPublicKey::new(kind, key).ok());
        parsed.ok_or("the authenticator made a key of a kind that this server does not support (expected ES256, EdDSA or RS256): use another authenticator")?;
        Ok(Passkey {
            id: Octets(self.id),
            key: Octets(self.key),
            host: host.to_owned(),
            name: name.to_owned(),
            made_at: now,
            used_at: 0,
            counter,
            answered: Vec::new(),
        })
    }
}

impl Assertion {
    /// Checks that an answer was signed with this passkey, and is valid (section 7.2). Returns the counter of the authenticator.
    ///
    /// # Errors
    /// A text for the log: the reason why the answer is refused.
    pub fn check(&self, passkey: &Passkey, ceremony: &Ceremony<'_>) -> Result<u32, &'static str> {
        let sizes = [&self.client_data, &self.authenticator_data, &self.signature].map(Vec::len);
        if sizes.iter().any(|bytes| *bytes > PASSKEY_DATA_BYTES_MAX) {
            return Err("the answer of the authenticator is too long");
        }
        let host = host_of_origin(ceremony.origin).filter(|host| *host == passkey.host);
        let host = host.ok_or("the passkey was made for another host")?;
        check_client_data(&self.client_data, "webauthn.get", ceremony)?;
        let (_, counter) = head(&self.authenticator_data, host)?;
        let (algorithm, key) = algorithm(&passkey.key.0).ok_or("the stored key has an unknown kind")?;
        let signed = [self.authenticator_data.as_slice(), &sha256(&self.client_data)].concat();
        UnparsedPublicKey::new(algorithm, key)
            .verify(&signed, &self.signature)
            .map_err(|_| "the signature of the authenticator is wrong")?;
        // A counter that does not grow is a sign of a copy of the authenticator (step 21). 0 means that the authenticator has no counter.
        match (passkey.counter, counter) {
            (0, 0) => Ok(0),
            (known, counter) if known < counter => Ok(counter),
            _ => Err("the counter of the authenticator did not grow: perhaps the authenticator was copied"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

    const ORIGIN: &str = "https://files.example.com:8443";

    fn ceremony(challenge: u8) -> Ceremony<'static> {
        Ceremony { challenge: [challenge; 32], origin: ORIGIN }
    }

    fn client_data(kind: &str, challenge: u8, origin: &str) -> Vec<u8> {
        let challenge = URL_SAFE_NO_PAD.encode([challenge; 32]);
        format!(r#"{{"type":"{kind}","challenge":"{challenge}","origin":"{origin}","crossOrigin":false}}"#)
            .into_bytes()
    }

    fn authenticator_data(host: &str, flags: u8, counter: u32, id: &[u8]) -> Vec<u8> {
        let mut data = sha256(host.as_bytes()).to_vec();
        data.push(flags);
        data.extend(counter.to_be_bytes());
        if !id.is_empty() {
            data.extend([0; 16]);
            data.extend((id.len() as u16).to_be_bytes());
            data.extend(id);
        }
        data
    }

    fn pair() -> EcdsaKeyPair {
        EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap()
    }

    fn new_passkey(pair: &EcdsaKeyPair) -> NewPasskey {
        NewPasskey {
            id: vec![7; 16],
            key: [ALGORITHMS[0].0, pair.public_key().as_ref()].concat(),
            client_data: client_data("webauthn.create", 1, ORIGIN),
            authenticator_data: authenticator_data("files.example.com", 0x45, 0, &[7; 16]),
        }
    }

    fn assertion(pair: &EcdsaKeyPair, challenge: u8, host: &str, origin: &str, counter: u32) -> Assertion {
        let client_data = client_data("webauthn.get", challenge, origin);
        let authenticator_data = authenticator_data(host, 0x05, counter, &[]);
        let signed = [authenticator_data.as_slice(), &sha256(&client_data)].concat();
        let signature = pair.sign(&SystemRandom::new(), &signed).unwrap().as_ref().to_vec();
        Assertion { id: vec![7; 16], client_data, authenticator_data, signature }
    }

    #[test]
    fn a_new_passkey_belongs_to_its_page() {
        let pair = pair();
        let good = new_passkey(&pair).check(&ceremony(1), "phone", 9).unwrap();
        assert_eq!((good.host.as_str(), good.name.as_str(), good.made_at), ("files.example.com", "phone", 9));
        let refused = |change: fn(&mut NewPasskey), challenge| {
            let mut shown = new_passkey(&pair);
            change(&mut shown);
            shown.check(&ceremony(challenge), "phone", 9).unwrap_err()
        };
        for (why, refused) in [
            ("another challenge", refused(|_| {}, 2)),
            (
                "another kind of request",
                refused(|new| new.client_data = client_data("webauthn.get", 1, ORIGIN), 1),
            ),
            (
                "another origin",
                refused(|new| new.client_data = client_data("webauthn.create", 1, "https://evil.example"), 1),
            ),
            ("is not JSON", refused(|new| new.client_data = b"{".to_vec(), 1)),
            ("differs from the id", refused(|new| new.id = vec![8; 16], 1)),
            (
                "another host",
                refused(
                    |new| new.authenticator_data = authenticator_data("evil.example", 0x45, 0, &[7; 16]),
                    1,
                ),
            ),
            (
                "did not confirm",
                refused(
                    |new| new.authenticator_data = authenticator_data("files.example.com", 0x40, 0, &[7; 16]),
                    1,
                ),
            ),
            ("of a kind", refused(|new| new.key = b"\x30\x59\x30\x13".to_vec(), 1)),
            ("too long", refused(|new| new.id = vec![7; 1024], 1)),
            ("no passkey", refused(|new| new.key = Vec::new(), 1)),
            ("too short", refused(|new| new.authenticator_data.truncate(20), 1)),
        ] {
            assert!(refused.contains(why), "{refused} where {why} was expected");
        }
    }

    #[test]
    fn an_answer_counts_only_with_its_key_challenge_host_and_origin() {
        let (pair, other) = (pair(), pair());
        let passkey = new_passkey(&pair).check(&ceremony(1), "phone", 9).unwrap();
        let host = "files.example.com";
        let check = |shown: &Assertion| shown.check(&passkey, &ceremony(3));
        assert_eq!(check(&assertion(&pair, 3, host, ORIGIN, 0)), Ok(0));
        assert_eq!(check(&assertion(&pair, 3, host, ORIGIN, 5)), Ok(5));
        for (why, shown) in [
            ("signature", assertion(&other, 3, host, ORIGIN, 0)),
            ("another challenge", assertion(&pair, 4, host, ORIGIN, 0)),
            ("another host", assertion(&pair, 3, "evil.example", ORIGIN, 0)),
            ("another origin", assertion(&pair, 3, host, "https://files.example.com", 0)),
            ("signature", Assertion { signature: vec![0; 70], ..assertion(&pair, 3, host, ORIGIN, 0) }),
            (
                "signature",
                Assertion {
                    authenticator_data: authenticator_data(host, 0x05, 9, &[]),
                    ..assertion(&pair, 3, host, ORIGIN, 0)
                },
            ),
            ("too long", Assertion { signature: vec![0; 5000], ..assertion(&pair, 3, host, ORIGIN, 0) }),
        ] {
            let refused = check(&shown).unwrap_err();
            assert!(refused.contains(why), "{refused} where {why} was expected");
        }
        let counted = Passkey { counter: 5, ..passkey.clone() };
        for (counter, is_good) in [(0, false), (5, false), (6, true)] {
            let shown = assertion(&pair, 3, host, ORIGIN, counter);
            assert_eq!(shown.check(&counted, &ceremony(3)).is_ok(), is_good, "{counter}");
        }
        let elsewhere = Passkey { host: "other.example.com".to_owned(), ..passkey };
        let refused = assertion(&pair, 3, host, ORIGIN, 0).check(&elsewhere, &ceremony(3)).unwrap_err();
        assert!(refused.contains("made for another host"), "{refused}");
    }

    #[test]
    fn the_host_of_an_origin() {
        for (origin, host) in [
            ("https://files.example.com", Some("files.example.com")),
            ("https://localhost:8443", Some("localhost")),
            ("http://localhost:8443", None),
            ("https://[::1]:8443", None),
            ("https://user@host", None),
            ("https://host/path", None),
            ("https://", None),
            ("null", None),
        ] {
            assert_eq!(host_of_origin(origin), host, "{origin}");
        }
    }
}
