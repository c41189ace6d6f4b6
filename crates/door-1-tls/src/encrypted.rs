//! Decrypts keys and certificates that are encrypted with a passphrase: PBES2 (RFC 8018 §6.2) with PBKDF2 and AES or 3DES, and the older algorithms
//! of PKCS #12 (RFC 7292 appendix C) with 3DES or RC2.

use crate::leaf::{Der, tag};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey,
};
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use std::num::NonZeroU32;
use zeroize::Zeroizing;

/// The reason why encrypted content was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sealed {
    /// The passphrase is wrong, or the content is damaged.
    Wrong,
    /// An algorithm that is not supported, or parameters that cannot be parsed.
    Unsupported(&'static str),
}

type Opened = Result<Zeroizing<Vec<u8>>, Sealed>;

const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
const SCRYPT: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x04, 0x0b];
const HMAC_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x07];
const HMAC_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x09];
const HMAC_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x0a];
const HMAC_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x0b];
const AES_128_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x02];
const AES_192_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x16];
const AES_256_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x2a];
const DES_EDE3_CBC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x03, 0x07];
/// The next four constants are the object identifiers of pbeWithSHAAnd3-KeyTripleDES-CBC, pbeWithSHAAnd2-KeyTripleDES-CBC, pbeWithSHAAnd128BitRC2-CBC
/// and pbeWithSHAAnd40BitRC2-CBC.
const SHA_3DES: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x03];
const SHA_2DES: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x04];
const SHA_RC2_128: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x05];
const SHA_RC2_40: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x06];

/// The maximum number of iterations of a key derivation. A derivation with this number of iterations takes about ten seconds. OpenSSL uses 2,048, and
/// other programs use up to 1,000,000.
const ITERATIONS_MAX: u32 = 10_000_000;

const UNPARSED: Sealed = Sealed::Unsupported("the parameters of the encryption cannot be parsed");

/// Decrypts `content`. `algorithm` contains the bytes of an AlgorithmIdentifier after its tag and length.
pub(crate) fn decrypt(algorithm: &[u8], content: &[u8], passphrase: &str) -> Opened {
    let mut algorithm = Der(algorithm);
    let kind = algorithm.expect(tag::OID).ok_or(UNPARSED)?;
    let parameters = algorithm.expect(tag::SEQUENCE).ok_or(UNPARSED)?;
    let older = |key_bytes, open: fn(&[u8], &[u8], &[u8]) -> Opened| {
        let (salt, iterations) = salt_and_iterations(&mut Der(parameters)).ok_or(UNPARSED)?;
        let derive = |id, bytes| derive(passphrase, salt, iterations, id, bytes);
        open(&derive(KEY, key_bytes), &derive(IV, 8), content)
    };
    match kind {
        PBES2 => pbes2(parameters, content, passphrase),
        SHA_3DES => older(24, triple_des),
        SHA_2DES => older(16, |key, iv, content| triple_des(&two_keys(key), iv, content)),
        SHA_RC2_128 => older(16, rc2),
        SHA_RC2_40 => older(5, rc2),
        _ => Err(Sealed::Unsupported("the encryption algorithm is not supported")),
    }
}

fn salt_and_iterations<'d>(parameters: &mut Der<'d>) -> Option<(&'d [u8], NonZeroU32)> {
    let salt = parameters.expect(tag::OCTETS)?;
    let iterations = parameters.expect(tag::INTEGER)?;
    let number = iterations.iter().try_fold(0_u32, |n, byte| n.checked_mul(256)?.checked_add((*byte).into()));
    Some((salt, number.filter(|number| *number <= ITERATIONS_MAX).and_then(NonZeroU32::new)?))
}

fn pbes2(parameters: &[u8], content: &[u8], passphrase: &str) -> Opened {
    let mut parameters = Der(parameters);
    let mut derivation = Der(parameters.expect(tag::SEQUENCE).ok_or(UNPARSED)?);
    let mut scheme = Der(parameters.expect(tag::SEQUENCE).ok_or(UNPARSED)?);
    match derivation.expect(tag::OID) {
        Some(PBKDF2) => {}
        Some(SCRYPT) => {
            return Err(Sealed::Unsupported(
                "the encryption key is derived with scrypt, which is not supported",
            ));
        }
        _ => {
            return Err(Sealed::Unsupported(
                "the encryption key is derived with a function that is not supported",
            ));
        }
    }
    let mut terms = Der(derivation.expect(tag::SEQUENCE).ok_or(UNPARSED)?);
    let (salt, iterations) = salt_and_iterations(&mut terms).ok_or(UNPARSED)?;
    // The length of the key is skipped, because the cipher determines it.
    terms.next_if(tag::INTEGER);
    let prf = terms.next_if(tag::SEQUENCE).map(|prf| Der(prf).expect(tag::OID));
    let prf = match prf {
        None | Some(Some(HMAC_SHA1)) => pbkdf2::PBKDF2_HMAC_SHA1,
        Some(Some(HMAC_SHA256)) => pbkdf2::PBKDF2_HMAC_SHA256,
        Some(Some(HMAC_SHA384)) => pbkdf2::PBKDF2_HMAC_SHA384,
        Some(Some(HMAC_SHA512)) => pbkdf2::PBKDF2_HMAC_SHA512,
        Some(_) => {
            return Err(Sealed::Unsupported(
                "the encryption key is derived with a hash function that is not supported",
            ));
        }
    };
    let key = |bytes: usize| {
        let mut key = Zeroizing::new(vec![0; bytes]);
        pbkdf2::derive(prf, iterations, salt, passphrase.as_bytes(), &mut key);
        key
    };
    let cipher = scheme.expect(tag::OID).ok_or(UNPARSED)?;
    let iv = scheme.expect(tag::OCTETS).ok_or(UNPARSED)?;
    match cipher {
        AES_128_CBC => aes(&AES_128, &key(16), iv, content),
        AES_192_CBC => aes(&AES_192, &key(24), iv, content),
        AES_256_CBC => aes(&AES_256, &key(32), iv, content),
        DES_EDE3_CBC => triple_des(&key(24), iv, content),
        _ => Err(Sealed::Unsupported("the encryption cipher is not supported")),
    }
}

fn aes(algorithm: &'static Algorithm, key: &[u8], iv: &[u8], content: &[u8]) -> Opened {
    let iv: &[u8; 16] = iv.try_into().map_err(|_| UNPARSED)?;
    let key = UnboundCipherKey::new(algorithm, key).and_then(PaddedBlockDecryptingKey::cbc_pkcs7);
    let mut room = Zeroizing::new(content.to_vec());
    let context = DecryptionContext::Iv128(FixedLength::from(iv));
    let length = key.and_then(|key| Ok(key.decrypt(&mut room, context)?.len())).map_err(|_| Sealed::Wrong)?;
    room.truncate(length);
    Ok(room)
}

fn triple_des(key: &[u8], iv: &[u8], content: &[u8]) -> Opened {
    cbc_decrypt(cbc::Decryptor::<des::TdesEde3>::new_from_slices(key, iv).map_err(|_| UNPARSED)?, content)
}

fn rc2(key: &[u8], iv: &[u8], content: &[u8]) -> Opened {
    cbc_decrypt(cbc::Decryptor::<rc2::Rc2>::new_from_slices(key, iv).map_err(|_| UNPARSED)?, content)
}

fn cbc_decrypt(decryptor: impl BlockModeDecrypt, content: &[u8]) -> Opened {
    let mut room = Zeroizing::new(content.to_vec());
    let length = decryptor.decrypt_padded::<Pkcs7>(&mut room).map_err(|_| Sealed::Wrong)?.len();
    room.truncate(length);
    Ok(room)
}

/// Makes a key of 24 bytes for 3DES from a key of 16 bytes: the first 8 bytes are also the third part.
fn two_keys(key: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new([key, key.get(..8).unwrap_or_default()].concat())
}

/// The purposes of derived bytes (RFC 7292 appendix B.3): `KEY` for a key, and `IV` for an initialization vector.
const KEY: u8 = 1;
const IV: u8 = 2;

/// The length of a block of SHA-1, in bytes.
const BLOCK: usize = 64;

/// The key derivation of PKCS #12 (RFC 7292 appendix B.2) with SHA-1.
fn derive(passphrase: &str, salt: &[u8], iterations: NonZeroU32, id: u8, bytes: usize) -> Zeroizing<Vec<u8>> {
    let fill = |text: &[u8]| -> Vec<u8> {
        text.iter().copied().cycle().take(text.len().div_ceil(BLOCK) * BLOCK).collect()
    };
    // The passphrase in UTF-16 with big-endian byte order and a final zero.
    let text: Zeroizing<Vec<u8>> =
        Zeroizing::new(passphrase.encode_utf16().chain([0]).flat_map(u16::to_be_bytes).collect());
    let mut input = Zeroizing::new([fill(salt), fill(&text)].concat());
    let mut derived = Zeroizing::new(Vec::with_capacity(bytes + BLOCK));
    while derived.len() < bytes {
        let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        context.update(&[id; BLOCK]);
        context.update(&input);
        let mut block = context.finish();
        for _ in 1..iterations.get() {
            block = aws_lc_rs::digest::digest(&SHA1_FOR_LEGACY_USE_ONLY, block.as_ref());
        }
        derived.extend_from_slice(block.as_ref());
        let addend: Vec<u8> = block.as_ref().iter().copied().cycle().take(BLOCK).collect();
        input.chunks_mut(BLOCK).for_each(|chunk| add_and_one(chunk, &addend));
    }
    derived.truncate(bytes);
    derived
}

/// Adds `addend` and 1 to `number`. `addend` and `number` are big-endian and have the same length. The last carry is dropped.
fn add_and_one(number: &mut [u8], addend: &[u8]) {
    let mut carry = 1_u16;
    for (digit, other) in number.iter_mut().zip(addend).rev() {
        carry += u16::from(*digit) + u16::from(*other);
        *digit = carry as u8;
        carry >>= 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A known result from the tests of other implementations of PKCS #12 (Bouncy Castle, Go's `pkcs12`).
    #[test]
    fn the_derivation_of_pkcs12_has_the_known_results() {
        let thousand = NonZeroU32::new(1000).unwrap();
        let salt = [0xff; 8];
        let key = derive("sesame", &salt, NonZeroU32::new(2048).unwrap(), KEY, 24);
        assert_eq!(
            *key,
            [
                0x7c, 0xd9, 0xfd, 0x3e, 0x2b, 0x3b, 0xe7, 0x69, 0x1a, 0x44, 0xe3, 0xbe, 0xf0, 0xf9, 0xea,
                0x0f, 0xb9, 0xb8, 0x97, 0xd4, 0xe3, 0x25, 0xd9, 0xd1
            ]
        );
        assert_eq!(derive("sesame", &salt, thousand, IV, 8).len(), 8);
        assert_ne!(derive("sesame", &salt, thousand, IV, 8), derive("sesame", &salt, thousand, KEY, 8));
    }

    #[test]
    fn parameters_that_are_damaged_or_too_expensive_are_refused() {
        let sha_3des = |iterations: &[u8]| {
            let mut parameters = vec![tag::OCTETS, 1, 0, tag::INTEGER, iterations.len() as u8];
            parameters.extend(iterations);
            let mut algorithm = vec![tag::OID, 10];
            algorithm.extend(SHA_3DES);
            algorithm.extend([tag::SEQUENCE, parameters.len() as u8]);
            algorithm.extend(parameters);
            decrypt(&algorithm, &[0; 16], "x")
        };
        assert_eq!(sha_3des(&[1]), Err(Sealed::Wrong));
        assert_eq!(sha_3des(&[0]), Err(UNPARSED));
        assert_eq!(sha_3des(&[0x7f, 0xff, 0xff, 0xff]), Err(UNPARSED));
        assert_eq!(sha_3des(&[0x7f, 0xff, 0xff, 0xff, 0xff]), Err(UNPARSED));
        assert_eq!(decrypt(&[], &[], ""), Err(UNPARSED));
    }
}
