//! The frame: `0x80 | issued at, u64 big-endian seconds | IV 16 | AES-128-CBC of the payload, PKCS#7 | HMAC-SHA256 32`, in base64url
//! without padding (github.com/fernet/spec; Keystone removes the `=`). The bytes of a token have exactly one
//! valid text: other alphabets, padding, and unused bits that are not 0 are refused.

use super::KeyRing;
use aws_lc_rs::cipher::{DecryptionContext, EncryptionContext};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::{constant_time, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const VERSION: u8 = 0x80;
const IV_BYTES: usize = 16;
const HEAD_BYTES: usize = 1 + 8 + IV_BYTES;
const TAG_BYTES: usize = 32;
/// The longest token that is read, in characters. Keystone's tokens have 162 to 204 characters; a token with ten groups of a federation has about
/// 500.
pub const TOKEN_CHARS_MAX: usize = 1024;
const TOKEN_BYTES_MAX: usize = TOKEN_CHARS_MAX / 4 * 3;

/// None of the keys signed a token with this text. The error does not say why the token is refused, because the reason would help an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not a Fernet token that was signed with one of the keys")]
pub struct NotOurs;

/// A buffer for a payload, so that opening a token allocates nothing.
pub struct Room([u8; TOKEN_BYTES_MAX]);

impl Default for Room {
    fn default() -> Self {
        Room([0; TOKEN_BYTES_MAX])
    }
}

/// An opened token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened<'r> {
    /// When the token was signed, in seconds since the epoch.
    pub issued_at: u64,
    /// The payload of the token.
    pub payload: &'r [u8],
    /// The number of the key that signed the token.
    pub key: u32,
}

/// Checks the signature of a token, then decrypts its payload.
///
/// # Errors
/// [`NotOurs`].
pub fn open<'r>(ring: &KeyRing, token: &str, room: &'r mut Room) -> Result<Opened<'r>, NotOurs> {
    if token.len() > TOKEN_CHARS_MAX {
        return Err(NotOurs);
    }
    // The decoder is strict: it accepts no padding and no other alphabet, and unused bits must be zero.
    let length = URL_SAFE_NO_PAD.decode_slice(token, &mut room.0).map_err(|_| NotOurs)?;
    let bytes = room.0.get_mut(..length).ok_or(NotOurs)?;
    let (signed, tag) =
        bytes.split_at_mut_checked(length.checked_sub(TAG_BYTES).ok_or(NotOurs)?).ok_or(NotOurs)?;
    let key = ring.keys.iter().find(|key| {
        let expected = hmac::sign(&key.signing, signed);
        constant_time::verify_slices_are_equal(expected.as_ref(), tag).is_ok()
    });
    let key = key.ok_or(NotOurs)?;
    let (head, encrypted) = signed.split_at_mut_checked(HEAD_BYTES).ok_or(NotOurs)?;
    let (version, head) = head.split_first().ok_or(NotOurs)?;
    let (issued_at, iv) = head.split_first_chunk::<8>().ok_or(NotOurs)?;
    let iv: [u8; IV_BYTES] = iv.try_into().map_err(|_| NotOurs)?;
    if *version != VERSION {
        return Err(NotOurs);
    }
    let issued_at = u64::from_be_bytes(*issued_at);
    let context = DecryptionContext::Iv128(FixedLength::from(iv));
    // The library refuses an empty ciphertext, and a ciphertext with a length that is not a multiple of the block size.
    let payload = key.decrypting.decrypt(encrypted, context).map_err(|_| NotOurs)?;
    Ok(Opened { issued_at, payload, key: key.index })
}

/// Encrypts and signs a payload with the primary key. The IV must be random.
///
/// # Errors
/// [`NotOurs`] when the ring is empty, or the encryption fails.
pub fn seal(ring: &KeyRing, issued_at: u64, iv: [u8; IV_BYTES], payload: &[u8]) -> Result<String, NotOurs> {
    let key = ring.keys.first().ok_or(NotOurs)?;
    let mut encrypted = payload.to_vec();
    let context = EncryptionContext::Iv128(FixedLength::from(iv));
    key.encrypting.less_safe_encrypt(&mut encrypted, context).map_err(|_| NotOurs)?;
    let mut token = vec![VERSION];
    token.extend(issued_at.to_be_bytes());
    token.extend(iv);
    token.extend(encrypted);
    let tag = hmac::sign(&key.signing, &token);
    token.extend_from_slice(tag.as_ref());
    Ok(URL_SAFE_NO_PAD.encode(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(keys: &[(u32, u8)]) -> KeyRing {
        let bytes: Vec<(u32, [u8; 32])> = keys.iter().map(|(index, byte)| (*index, [*byte; 32])).collect();
        KeyRing::new(&bytes.iter().map(|(index, bytes)| (*index, bytes)).collect::<Vec<_>>()).unwrap()
    }

    fn open_owned(ring: &KeyRing, token: &str) -> Option<(u64, Vec<u8>, u32)> {
        let mut room = Room::default();
        open(ring, token, &mut room)
            .ok()
            .map(|opened| (opened.issued_at, opened.payload.to_vec(), opened.key))
    }

    /// The key and the token of `verify.json` in the specification, without the padding.
    #[test]
    fn the_token_of_the_specification_is_opened_and_sealed() {
        let key: [u8; 32] = base64::engine::general_purpose::URL_SAFE
            .decode("cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=")
            .unwrap()
            .try_into()
            .unwrap();
        let ring = KeyRing::new(&[(1, &key)]).unwrap();
        let token = "gAAAAAAdwJ6wAAECAwQFBgcICQoLDA0ODy021cpGVWKZ_eEwCGM4BLLF_5CV9dOPmrhuVUPgJobwOz7JcbmrR64jVmpU4IwqDA";
        assert_eq!(open_owned(&ring, token), Some((499_162_800, b"hello".to_vec(), 1)));
        let iv = std::array::from_fn(|at| at as u8);
        assert_eq!(seal(&ring, 499_162_800, iv, b"hello").unwrap(), token);
    }

    #[test]
    fn every_key_opens_and_the_highest_signs() {
        let all = ring(&[(0, 7), (3, 3), (5, 5), (4, 4)]);
        assert_eq!(all.primary(), Some(5));
        for (keys, index) in [([(0, 7)], 0), ([(3, 3)], 3), ([(5, 5)], 5)] {
            let token = seal(&ring(&keys), 1, [9; 16], b"payload").unwrap();
            assert_eq!(open_owned(&all, &token), Some((1, b"payload".to_vec(), index)));
        }
        let token = seal(&all, 1, [9; 16], b"payload").unwrap();
        assert_eq!(open_owned(&ring(&[(1, 5)]), &token).map(|(.., key)| key), Some(1));
        assert_eq!(open_owned(&ring(&[(1, 4)]), &token), None);
        assert!(matches!(KeyRing::new(&[]), Err(super::super::RingError::Empty)));
    }

    #[test]
    fn the_longest_token_is_opened() {
        // The token has 25 bytes before the payload, 44 blocks of 16 bytes (with the padding), and a tag of 32 bytes. Its text has 1,015 characters.
        let (ring, payload) = (ring(&[(1, 1)]), vec![7; 44 * 16]);
        let token = |length: usize| seal(&ring, 1, [9; 16], &payload[..length]).unwrap();
        let longest = token(payload.len() - 1);
        let opened = open_owned(&ring, &longest).map(|(_, payload, _)| payload.len());
        assert_eq!((longest.len(), opened), (1_015, Some(payload.len() - 1)));
        assert_eq!(open_owned(&ring, &token(payload.len())), None, "one block more");
    }

    #[test]
    fn a_receipt_is_no_token_and_a_token_no_receipt() {
        let all = ring(&[(0, 7), (3, 3)]);
        let receipts = all.receipts().unwrap();
        let (token, receipt) =
            (seal(&all, 1, [9; 16], b"x").unwrap(), seal(receipts, 1, [9; 16], b"x").unwrap());
        assert!(open_owned(&all, &token).is_some() && open_owned(receipts, &receipt).is_some());
        assert!(open_owned(&all, &receipt).is_none() && open_owned(receipts, &token).is_none());
        assert!(
            open_owned(ring(&[(1, 3)]).receipts().unwrap(), &receipt).is_some(),
            "the keys rotate together"
        );
        assert!(receipts.receipts().is_none());
    }

    #[test]
    fn what_was_signed_in_another_form_is_not_read() {
        let ring = ring(&[(1, 1)]);
        let signed = |version: u8, encrypted: &[u8]| {
            let mut token = vec![version; HEAD_BYTES];
            token.extend(encrypted);
            let tag = hmac::sign(&ring.keys[0].signing, &token);
            token.extend(tag.as_ref());
            URL_SAFE_NO_PAD.encode(token)
        };
        let good = URL_SAFE_NO_PAD.decode(seal(&ring, 1, [VERSION; 16], b"payload").unwrap()).unwrap();
        let block = &good[HEAD_BYTES..good.len() - TAG_BYTES];
        assert!(open_owned(&ring, &signed(VERSION, block)).is_some());
        let more = [block, &[0]].concat();
        for (version, encrypted) in
            [(VERSION + 1, block), (VERSION, &[]), (VERSION, &block[1..]), (VERSION, &more)]
        {
            assert_eq!(open_owned(&ring, &signed(version, encrypted)), None, "{version} {}", encrypted.len());
        }
    }

    #[test]
    fn the_longest_token_is_read_and_no_longer_one() {
        let ring = ring(&[(1, 1)]);
        // With the padding of the encryption, 703 bytes are 44 blocks, and the token has 1,015 characters. With one block more, the token is too
        // long.
        for (bytes, is_read) in [(703, true), (704, false)] {
            let payload = vec![7; bytes];
            let token = seal(&ring, 3, [9; IV_BYTES], &payload).unwrap();
            assert_eq!(open_owned(&ring, &token), is_read.then_some((3, payload, 1)), "{bytes}");
        }
    }

    #[test]
    fn debug_output_shows_the_numbers_of_the_keys_only() {
        assert_eq!(format!("{:?}", ring(&[(0, 7), (3, 3)])), "[3, 0]");
    }

    #[test]
    fn no_other_spelling_of_a_token_is_read() {
        let ring = ring(&[(1, 1)]);
        for length in 0..60 {
            let token = seal(&ring, 1_800_000_000, [3; 16], &vec![length as u8; length]).unwrap();
            assert!(open_owned(&ring, &token).is_some());
            for wrong in
                [format!("{token}="), format!("{token}=="), format!(" {token}"), format!("{token}\n")]
            {
                assert_eq!(open_owned(&ring, &wrong), None);
            }
            for at in 0..token.len() {
                for other in ["A", "B", "g", "-", "_", "+", "/", "=", "."] {
                    let mut wrong = token.clone();
                    wrong.replace_range(at..=at, other);
                    assert!(wrong == token || open_owned(&ring, &wrong).is_none(), "{token} {wrong}");
                }
                assert_eq!(open_owned(&ring, &token[..at]), None);
            }
        }
        assert_eq!(open_owned(&ring, &"A".repeat(TOKEN_CHARS_MAX + 4)), None);
    }
}
