//! A file or folder of a datastore, as the URLs of the console name it.

use enfilade_faces::RequestError;
use enfilade_faces::percent::push_name;
use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::{DatastoreName, StorePath, shell_word};

/// A file or folder of a datastore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) datastore: DatastoreName,
    pub(crate) path: StorePath,
    /// Whether the URL names a folder: the URL ends with a slash, or contains only the name of a datastore.
    pub(crate) is_folder: bool,
}

impl Place {
    /// Reads the part of a URL that begins with the name of a datastore.
    pub(crate) fn read(rest: &str, limits: &Limits) -> Result<Self, RequestError> {
        let (name, encoded) = rest.split_once('/').unwrap_or((rest, ""));
        // If the text cannot be the name of a datastore, the answer is the same as for an unknown datastore.
        let datastore = name.parse().map_err(|_| RequestError::NoRoute)?;
        let path = StorePath::from_url(encoded).map_err(RequestError::Path)?;
        path.keeps_to(limits).map_err(RequestError::Path)?;
        Ok(Place { datastore, is_folder: path.is_root() || rest.ends_with('/'), path })
    }

    /// The URL of the place in an area of the console, such as `files`. The URL of a folder ends with a slash.
    pub(crate) fn url(&self, area: &str) -> String {
        let mut url = format!("/console/{area}/{}", self.datastore);
        for name in self.path.names() {
            url.push('/');
            push_name(&mut url, name);
        }
        if self.is_folder {
            url.push('/');
        }
        url
    }

    /// The folder that contains this place; `None` for the root of a datastore.
    pub(crate) fn parent(&self) -> Option<Place> {
        let (path, _) = self.path.split()?;
        Some(Place { datastore: self.datastore.clone(), path, is_folder: true })
    }

    /// A file or folder in this folder.
    pub(crate) fn join(&self, name: &str, is_folder: bool) -> Result<Self, RequestError> {
        let path = self.path.join(name).map_err(RequestError::Path)?;
        Ok(Place { datastore: self.datastore.clone(), path, is_folder })
    }

    /// The name that the page shows for the place: the name of the file or folder, or the name of the
    /// datastore.
    pub(crate) fn name(&self) -> &str {
        if self.path.is_root() { self.datastore.as_str() } else { self.path.name() }
    }

    /// A curl command that accesses the place over WebDAV.
    pub(crate) fn curl(&self, user: &str, arguments: &str) -> String {
        let mut url = format!("https://HOST/dav/{}", self.datastore);
        for name in self.path.names() {
            url.push('/');
            push_name(&mut url, name);
        }
        if self.is_folder {
            url.push('/');
        }
        let (user, url) = (shell_word(&format!("{user}!TOKEN")), shell_word(&url));
        let arguments = if arguments.is_empty() { String::new() } else { format!(" {arguments}") };
        format!("curl --user {user}{arguments} {url}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["a/b c/ü&<'\".txt", "100%/x;y=z", "#?", "", "+ +", "javascript:alert(1)"] {
            for is_folder in [true, false] {
                let path = StorePath::from_plain(text).unwrap();
                let is_folder = is_folder || path.is_root();
                let place = Place { datastore: "tank".parse().unwrap(), path, is_folder };
                let url = place.url("files");
                assert!(url.bytes().all(|b| b.is_ascii_graphic() && !b"&<>'\"?#".contains(&b)), "{url}");
                let rest = url.strip_prefix("/console/files/").unwrap();
                assert_eq!(Place::read(rest, &Limits::default()).unwrap(), place, "{url}");
            }
        }
        for bad in ["", "x", "tank/../x", "tank//x", "tank/%00", "tank/a%2fb"] {
            assert!(Place::read(bad, &Limits::default()).is_err(), "{bad}");
        }
    }
}
