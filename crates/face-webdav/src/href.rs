//! Writes paths as URLs. [`StorePath::from_url`](enfilade_facts::vocabulary::StorePath::from_url) reads such
//! URLs.

use super::{PREFIX, ResourcePath};
use enfilade_faces::percent;

/// The URL path of a resource; the path of a collection ends with a slash.
pub(crate) fn of(place: &ResourcePath, is_collection: bool) -> String {
    let mut url = format!("{PREFIX}{}", place.datastore);
    for name in place.path.names() {
        url.push('/');
        percent::push_name(&mut url, name);
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
            let place = ResourcePath {
                datastore: "tank".parse().unwrap(),
                path: StorePath::from_plain(text).unwrap(),
            };
            let url = of(&place, true);
            assert!(url.bytes().all(|b| b.is_ascii_graphic() && !b"&<>'\"?#".contains(&b)), "{url}");
            assert_eq!(ResourcePath::from_url(&url).unwrap().path, place.path, "{url}");
        }
    }
}
