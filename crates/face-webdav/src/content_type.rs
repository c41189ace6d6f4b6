//! The media type of a file. It depends on the extension of the file's name.

use mime_guess::MimeGuess;

/// The media type of a file with no extension, or with an unknown extension.
const UNKNOWN: &str = "application/octet-stream";

/// The media type of a file with this name.
pub(crate) fn of(name: &str) -> &'static str {
    let extension = name.rsplit_once('.').map(|(stem, extension)| (stem.is_empty(), extension));
    match extension {
        // A name such as `.profile` has a dot but no extension.
        Some((false, extension)) => MimeGuess::from_ext(extension).first_raw().unwrap_or(UNKNOWN),
        _ => UNKNOWN,
    }
}

/// Finds the media type of each name in a series of names. The last type is remembered, because most names of a directory have the same extension.
#[derive(Default)]
pub(crate) struct InTurn {
    ending: String,
    said: Option<&'static str>,
}

impl InTurn {
    pub(crate) fn of(&mut self, name: &str) -> &'static str {
        let ending = name.rfind('.').and_then(|dot| name.get(dot..)).unwrap_or_default();
        // If the ending is the whole name, as in `.profile`, the name has no extension.
        if ending.len() == name.len() {
            return of(name);
        }
        match self.said {
            Some(said) if ending == self.ending => said,
            _ => {
                ending.clone_into(&mut self.ending);
                self.said.insert(of(name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_the_end_of_the_name() {
        for (name, expected) in [
            ("a.txt", "text/plain"),
            ("A.JPG", "image/jpeg"),
            ("a.tar.gz", "application/gzip"),
            ("a.html", "text/html"),
            ("a.pdf", "application/pdf"),
            ("a", UNKNOWN),
            (".txt", UNKNOWN),
            ("a.", UNKNOWN),
            ("a.unheard-of", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(of(name), expected, "{name}");
            let mut in_turn = InTurn::default();
            for before in ["b.txt", ".txt", "", "x"] {
                in_turn.of(before);
                assert_eq!(in_turn.of(name), expected, "{name} after {before}");
            }
        }
    }
}
