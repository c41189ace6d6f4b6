//! Paths as URLs. The reading side is [`StorePath::from_url`](enfilade_facts::vocabulary::StorePath::from_url).

use super::{PREFIX, Place};
use std::fmt::Write as _;

/// Writes one name, percent-encoded (RFC 3986 §3.3: what a path segment may hold unencoded, without `'`, `&` and the
/// like, which would have to be escaped again in XML).
pub(crate) fn push_name(url: &mut String, name: &str) {
    // Mostly all of it is.
    if name.bytes().all(stays) {
        return url.push_str(name);
    }
    push_bytes(url, name.as_bytes());
}

/// The same of a name that no path spells; such a URL is refused.
pub(crate) fn push_bytes(url: &mut String, name: &[u8]) {
    for byte in name {
        match *byte {
            plain if stays(plain) => url.push(char::from(plain)),
            other => {
                let _ = write!(url, "%{other:02X}");
            }
        }
    }
}

/// What needs no escape in a path (RFC 3986 §3.3).
fn stays(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$()*+,;=:@".contains(&byte)
}

/// The URL path of a place; collections end with a slash.
pub(crate) fn of(place: &Place, is_collection: bool) -> String {
    let mut url = format!("{PREFIX}{}", place.datastore);
    for name in place.path.names() {
        url.push('/');
        push_name(&mut url, name);
    }
    if is_collection {
        url.push('/');
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::vocabulary::StorePath;

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["a/b c/ü&<'\".txt", "100%/x;y=z", "#?", ""] {
            let place =
                Place { datastore: "tank".parse().unwrap(), path: StorePath::from_plain(text).unwrap() };
            let url = of(&place, true);
            assert!(url.bytes().all(|b| b.is_ascii_graphic() && !b"&<>'\"?#".contains(&b)), "{url}");
            assert_eq!(Place::from_url(&url).unwrap().path, place.path, "{url}");
        }
    }
}
