//! A path inside a datastore. Only this file turns texts into paths, so every [`StorePath`] is safe. A text that is not a valid path is refused, and
//! never repaired. Two programs could repair the text in different ways. Then one program would check a path, and the other program would use a
//! different path.

use super::percent_decoded;
use crate::limits::{self, Limits};
use std::fmt;
use std::str::FromStr;

/// Names with this prefix are reserved, for example for uploads in progress. No request can use them.
const RESERVED_PREFIX: &str = ".enfilade-";

/// A relative path with only checked names; empty for the datastore's root.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StorePath(String);

/// The reason why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathRefused {
    /// A `%` that is not followed by two hexadecimal digits.
    #[error("a `%` in the path is not followed by two hexadecimal digits")]
    Escape,
    /// The decoded path is not UTF-8.
    #[error("the path is not UTF-8")]
    Encoding,
    /// A slash, backslash, NUL or other control character inside a name.
    #[error("a name in the path contains a slash, a backslash or a control character")]
    Character,
    /// `.`, `..` or an empty name.
    #[error("the path contains `.`, `..` or an empty name")]
    Dots,
    /// The path is too long or too deep, or a name in it is too long.
    #[error("the path is too long, too deep, or a name in it is too long")]
    Length,
    /// A name that is reserved for the server's own files.
    #[error("names that start with `.enfilade-` are reserved")]
    Reserved,
    /// A `;` in the path of an application. Some applications ignore the text from `;` to the next slash, so they would open another path than the
    /// path that this server checked.
    #[error("the path contains `;`; encode `;` as %3B")]
    Parameters,
    /// The text does not have the form of a path with an optional query.
    #[error("expected a path that begins with `/`, with an optional query, without blanks and `#`")]
    Target,
    /// The text does not have the form of a URL with a host.
    #[error("expected a URL with `http` or `https` and a host, such as https://wiki.example.com/")]
    Url,
}

impl StorePath {
    /// The datastore's root.
    pub fn root() -> Self {
        Self::default()
    }

    /// Decodes the part of a URL path that follows the name of the datastore. This part is percent-encoded. One trailing slash is allowed, as in the
    /// URLs of collections.
    ///
    /// # Errors
    /// [`PathRefused`] for a text that is not a valid path.
    pub fn from_url(encoded: &str) -> Result<Self, PathRefused> {
        let encoded = encoded.strip_suffix('/').unwrap_or(encoded);
        if encoded.is_empty() {
            return Ok(Self::root());
        }
        if !encoded.contains('%') {
            return Self::from_names(encoded.split('/'));
        }
        let names = encoded.split('/').map(decode).collect::<Result<Vec<_>, _>>()?;
        Self::from_names(names.iter().map(String::as_str))
    }

    /// The path in the request target of an application, such as `/a/b?c=d`. The query is ignored.
    ///
    /// # Errors
    /// [`PathRefused`] for a text that is not a valid path, or that an application could read as another path.
    pub fn from_target(target: &str) -> Result<Self, PathRefused> {
        let path = target.split_once('?').map_or(target, |(path, _)| path);
        let is_graphic = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        let below_root = path.strip_prefix('/').filter(|_| target.bytes().all(is_graphic));
        let below_root = below_root.ok_or(PathRefused::Target)?;
        match below_root {
            "/" => Err(PathRefused::Dots),
            path if path.contains(';') => Err(PathRefused::Parameters),
            path => Self::from_url(path),
        }
    }

    /// The path for a plain text, as typed at a command line. One slash at the beginning and one slash at the end of the text are ignored.
    ///
    /// # Errors
    /// The errors of [`StorePath::from_url`].
    pub fn from_plain(text: &str) -> Result<Self, PathRefused> {
        let text = text.strip_prefix('/').unwrap_or(text);
        let text = text.strip_suffix('/').unwrap_or(text);
        if text.is_empty() {
            return Ok(Self::root());
        }
        Self::from_names(text.split('/'))
    }

    fn from_names<'n>(names: impl Iterator<Item = &'n str>) -> Result<Self, PathRefused> {
        let (mut path, mut depth) = (String::new(), 0);
        for name in names {
            check_entry_name(name)?;
            if depth > 0 {
                path.push('/');
            }
            path.push_str(name);
            depth += 1;
            check_length(path.len(), depth)?;
        }
        Ok(StorePath(path))
    }

    /// The path of `name` in this directory.
    ///
    /// # Errors
    /// When `name` is not allowed, or the path gets too long.
    pub fn join(&self, name: &str) -> Result<Self, PathRefused> {
        check_entry_name(name)?;
        let path = if self.is_root() { name.to_owned() } else { format!("{}/{name}", self.0) };
        check_length(path.len(), path.split('/').count())?;
        Ok(StorePath(path))
    }

    /// Checks the path against the limits that the operator set.
    ///
    /// # Errors
    /// [`PathRefused::Length`].
    pub fn keeps_to(&self, limits: &Limits) -> Result<(), PathRefused> {
        let fits = |length: usize, most: u64| length as u64 <= most;
        let all_fit = fits(self.0.len(), limits.path_bytes)
            && fits(self.names().count(), limits.path_parts)
            && self.names().all(|name| fits(name.len(), limits.name_bytes));
        if all_fit { Ok(()) } else { Err(PathRefused::Length) }
    }

    /// The longest name, in bytes, that an entry of this directory can have within the limits of a path.
    pub fn entry_bytes_max(&self) -> usize {
        match self.names().count() < limits::PATH_DEPTH_MAX {
            true => limits::PATH_BYTES_MAX.saturating_sub(self.0.len() + usize::from(!self.is_root())),
            false => 0,
        }
    }

    /// Whether the path is the datastore's root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path as text, without a leading slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names, outermost first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }

    /// The last name of the path; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// The path of the directory above, and the name in that directory; `None` for the root.
    pub fn split(&self) -> Option<(StorePath, &str)> {
        match self.0.rsplit_once('/') {
            Some((parent, name)) => Some((StorePath(parent.to_owned()), name)),
            None if self.is_root() => None,
            None => Some((Self::root(), &self.0)),
        }
    }
}

impl FromStr for StorePath {
    type Err = PathRefused;
    fn from_str(text: &str) -> Result<Self, PathRefused> {
        Self::from_plain(text)
    }
}

/// Checks the number of bytes and of names of a path.
fn check_length(bytes: usize, depth: usize) -> Result<(), PathRefused> {
    match bytes > limits::PATH_BYTES_MAX || depth > limits::PATH_DEPTH_MAX {
        true => Err(PathRefused::Length),
        false => Ok(()),
    }
}

fn is_of_fit_letters(name: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'/' && byte != b'\\';
    // Most names contain only these bytes. The fast check of bytes comes first, because this function runs for every name of a directory.
    name.bytes().all(is_plain) || !name.chars().any(|c| c == '/' || c == '\\' || c.is_control())
}

/// Whether an entry of a directory may have this name.
///
/// # Errors
/// [`PathRefused`] says what is wrong with the name.
pub fn check_entry_name(name: &str) -> Result<(), PathRefused> {
    match name {
        "" | "." | ".." => Err(PathRefused::Dots),
        name if name.len() > limits::NAME_BYTES_MAX => Err(PathRefused::Length),
        name if !is_of_fit_letters(name) => Err(PathRefused::Character),
        name if name.starts_with(RESERVED_PREFIX) => Err(PathRefused::Reserved),
        _ => Ok(()),
    }
}

/// Percent-decodes one name. An encoded slash becomes part of the name, and [`check_entry_name`] refuses this name.
fn decode(encoded: &str) -> Result<String, PathRefused> {
    let bytes = percent_decoded(encoded.as_bytes()).ok_or(PathRefused::Escape)?;
    String::from_utf8(bytes).map_err(|_| PathRefused::Encoding)
}

impl fmt::Display for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0)
    }
}

impl fmt::Debug for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_or_none() {
        for (url, path) in [
            ("", "/"),
            ("/", "/"),
            ("a/b.txt", "/a/b.txt"),
            ("a/b/", "/a/b"),
            ("%C3%A4%20b", "/ä b"),
            ("a;b", "/a;b"),
            ("100%25", "/100%"),
            ("...", "/..."),
        ] {
            assert_eq!(StorePath::from_url(url).map(|p| p.to_string()), Ok(path.to_owned()), "{url}");
        }
        for (url, why) in [
            ("..", PathRefused::Dots),
            ("a/../b", PathRefused::Dots),
            ("%2e%2e/b", PathRefused::Dots),
            ("a//b", PathRefused::Dots),
            ("a//", PathRefused::Dots),
            ("./a", PathRefused::Dots),
            ("..%2f..%2fetc", PathRefused::Character),
            ("a%5cb", PathRefused::Character),
            ("a\\b", PathRefused::Character),
            ("a%00b", PathRefused::Character),
            ("a%0ab", PathRefused::Character),
            ("%ff", PathRefused::Encoding),
            ("%c0%ae", PathRefused::Encoding),
            ("%zz", PathRefused::Escape),
            ("%2", PathRefused::Escape),
            ("%+1", PathRefused::Escape),
            (".enfilade-upload", PathRefused::Reserved),
        ] {
            assert_eq!(StorePath::from_url(url), Err(why), "{url}");
        }
        assert_eq!(StorePath::from_url(&"x".repeat(256)), Err(PathRefused::Length));
        assert_eq!(StorePath::from_url(&"x/".repeat(65)), Err(PathRefused::Length));
    }

    #[test]
    fn splits_into_parent_and_name() {
        let path = StorePath::from_plain("/a/b/c").unwrap();
        let (parent, name) = path.split().unwrap();
        assert_eq!((parent.to_string().as_str(), name), ("/a/b", "c"));
        assert!(StorePath::root().split().is_none());
    }

    #[test]
    fn a_name_that_fits_is_joined_and_no_other() {
        let deep = |depth: usize| StorePath::from_plain(&vec!["d"; depth].join("/")).unwrap();
        let long = |bytes: usize| {
            let path = vec!["d".repeat(250); bytes / 251].join("/");
            StorePath::from_plain(&path).unwrap()
        };
        for directory in [StorePath::root(), deep(63), deep(64), long(3_800), long(4_095)] {
            for name in [
                "a".to_owned(),
                "b".repeat(79),
                "c".repeat(255),
                "d".repeat(256),
                "e\u{85}".into(),
                "..".into(),
            ] {
                let fits = name.len() <= directory.entry_bytes_max() && check_entry_name(&name).is_ok();
                assert_eq!(directory.join(&name).is_ok(), fits, "{} + {}", directory.0.len(), name.len());
            }
        }
    }
}
