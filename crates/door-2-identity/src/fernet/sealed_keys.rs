//! Fernet keys, encrypted for the other members of a fleet. Each Fernet key is in a Fernet frame of its own. The frame is sealed with another key,
//! which is derived from the key of API tokens ([`HashKey`]). All members have the key of API tokens. The payload of a frame is
//! `id of the keys 8 | number of keys u32 | number of this key u32 | key 32`. So an attacker cannot mix frames of different sets of keys, and cannot
//! leave out a frame.

use super::frame::{NotOurs, Room, open, seal};
use super::{KEY_BYTES, KeyRing};
use crate::HashKey;
use zeroize::Zeroizing;

/// The number and the bytes of each key, in the order of the numbers.
pub type KeyList = Vec<(u32, Zeroizing<[u8; KEY_BYTES]>)>;

/// An identifier of a set of keys. Each set has a different identifier.
pub type KeysId = [u8; 8];

fn ring(by: &HashKey) -> Result<KeyRing, NotOurs> {
    let key = Zeroizing::new(by.derived(b"enfilade keys of sessions for members 1\0"));
    KeyRing::of(&[(1, &key)]).map_err(|_| NotOurs)
}

/// Encrypts keys for all members that have the key `by`. Each call of `iv` must return new random bytes. The result has one line for each key.
///
/// # Errors
/// When the encryption fails, or `iv` returns an error.
pub fn seal_keys<E>(
    by: &HashKey,
    id: KeysId,
    now: u64,
    keys: &[(u32, Zeroizing<[u8; KEY_BYTES]>)],
    mut iv: impl FnMut() -> Result<[u8; 16], E>,
) -> Result<String, E>
where
    E: From<NotOurs>,
{
    let ring = ring(by)?;
    let count = u32::try_from(keys.len()).map_err(|_| NotOurs)?;
    let mut lines = Vec::new();
    for (number, key) in keys {
        let mut payload = Zeroizing::new(Vec::with_capacity(48));
        payload.extend(id);
        payload.extend(count.to_be_bytes());
        payload.extend(number.to_be_bytes());
        payload.extend(key.iter());
        lines.push(seal(&ring, now, iv()?, &payload)?);
    }
    Ok(lines.join("\n"))
}

/// Decrypts a text that [`seal_keys`] made.
///
/// # Errors
/// [`NotOurs`] if the text was encrypted with another key, or a part of it is missing.
pub fn open_keys(by: &HashKey, sealed: &str) -> Result<(KeysId, KeyList), NotOurs> {
    let ring = ring(by)?;
    let (mut keys, mut of_all) = (KeyList::new(), None);
    for line in sealed.lines() {
        let mut room = Room::default();
        let payload = open(&ring, line, &mut room)?.payload;
        let (id, rest) = payload.split_first_chunk::<8>().ok_or(NotOurs)?;
        let (count, rest) = rest.split_first_chunk::<4>().ok_or(NotOurs)?;
        let (number, key) = rest.split_first_chunk::<4>().ok_or(NotOurs)?;
        let key = Zeroizing::new(<[u8; KEY_BYTES]>::try_from(key).map_err(|_| NotOurs)?);
        if *of_all.get_or_insert((*id, *count)) != (*id, *count) {
            return Err(NotOurs);
        }
        keys.push((u32::from_be_bytes(*number), key));
    }
    let (id, count) = of_all.ok_or(NotOurs)?;
    // Each number must occur once. Otherwise a repeated frame could take the place of a frame that was left out.
    let is_whole = keys.is_sorted_by(|(one, _), (next, _)| one < next);
    match is_whole && u32::try_from(keys.len()) == Ok(u32::from_be_bytes(count)) {
        true => Ok((id, keys)),
        false => Err(NotOurs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(by: u8, id: u8, numbers: &[u32]) -> String {
        let keys: KeyList =
            numbers.iter().map(|number| (*number, Zeroizing::new([*number as u8; 32]))).collect();
        let mut last = 0;
        let iv = || {
            last += 1;
            Ok::<_, NotOurs>([last; 16])
        };
        seal_keys(&HashKey::new(&[by; 32]), [id; 8], 1, &keys, iv).unwrap()
    }

    /// The numbers of the keys that a member with the key `by` reads; `None` if the text is refused.
    fn check(by: u8, sealed: &str) -> Option<(u8, Vec<u32>)> {
        let (id, keys) = open_keys(&HashKey::new(&[by; 32]), sealed).ok()?;
        assert!(keys.iter().all(|(number, key)| **key == [*number as u8; 32]));
        Some((id[0], keys.into_iter().map(|(number, _)| number).collect()))
    }

    #[test]
    fn only_members_read_the_keys_and_only_all_of_them() {
        let one = sealed(7, 1, &[0, 3, 4]);
        assert_eq!(check(7, &one), Some((1, vec![0, 3, 4])));
        assert_eq!(check(8, &one), None, "another fleet");
        let lines: Vec<&str> = one.lines().collect();
        let other = sealed(7, 2, &[0, 3, 4]);
        let others: Vec<&str> = other.lines().collect();
        for (what, text) in [
            ("nothing", String::new()),
            ("one is left out", [lines[0], lines[2]].join("\n")),
            ("one is repeated", [lines[0], lines[2], lines[2]].join("\n")),
            ("in another order", [lines[0], lines[2], lines[1]].join("\n")),
            ("one of older keys", [lines[0], others[1], lines[2]].join("\n")),
            ("one is cut off", one[..one.len() - 1].to_owned()),
            ("one is changed", one.replacen(lines[1], &lines[1].replace('g', "h"), 1)),
        ] {
            assert_ne!(text, one, "{what}: the case changes nothing");
            assert_eq!(check(7, &text), None, "{what}");
        }
    }

    #[test]
    fn the_text_does_not_show_the_keys() {
        use base64::Engine as _;
        let key = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode([3; 32]);
        assert!(!sealed(7, 1, &[0, 3]).contains(&key[1..40]));
    }
}
