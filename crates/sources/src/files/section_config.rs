//! Proxmox's section-config grammar:
//!
//! ```text
//! type: id
//!     key value that may hold spaces
//!     key value
//!
//! type: id
//! ```
//! The original gives up the whole file at the first error, so one bad line takes every datastore down. Here an error
//! belongs to its section, and the others stand.

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong with it.
    pub reason: String,
}

/// One section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its type.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// The line of its header, from 1.
    pub line: u32,
    /// Its properties, in order.
    pub properties: Vec<(String, String)>,
    /// The line of each property, in the same order.
    pub lines: Vec<u32>,
    /// The first thing that is wrong with it.
    pub error: Option<LineError>,
    /// Its lines as they were, for writing back a section that cannot be read.
    raw: Vec<u8>,
}

impl Section {
    /// A new one.
    pub fn new(kind: &str, id: &str, properties: Vec<(String, String)>) -> Self {
        Section {
            kind: kind.to_owned(),
            id: id.to_owned(),
            line: 0,
            lines: vec![0; properties.len()],
            properties,
            error: None,
            raw: Vec::new(),
        }
    }

    fn fail(&mut self, line: u32, reason: &str) {
        self.error.get_or_insert_with(|| LineError { line, reason: reason.to_owned() });
    }
}

/// A parsed file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Its sections, broken ones included.
    pub sections: Vec<Section>,
    /// Errors that belong to no section.
    pub errors: Vec<LineError>,
    /// The lines that belong to no section, for writing them back.
    stray: Vec<u8>,
}

/// Parses a file. Line ends of Windows and a byte-order mark are forgiven.
pub fn parse(text: &[u8]) -> Parsed {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut parsed = Parsed::default();
    let mut open = false;
    for (index, raw) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let line = raw.strip_suffix(b"\n").unwrap_or(raw);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.iter().all(u8::is_ascii_whitespace) {
            open = false;
            continue;
        }
        let current = if open { parsed.sections.last_mut() } else { None };
        match (read_line(line), current) {
            (Line::Property(key, value), Some(section)) => {
                section.raw.extend_from_slice(raw);
                section.properties.push((key, value));
                section.lines.push(number);
            }
            (Line::Header(kind, id), None) => {
                let mut section = Section::new(&kind, &id, Vec::new());
                section.line = number;
                section.raw.extend_from_slice(raw);
                parsed.sections.push(section);
                open = true;
            }
            (Line::Header(kind, id), Some(section)) => {
                // The original reads on as if this were a property. A section that is plainly meant stands by itself,
                // but the one before it lacks its end, and nobody can say what else it lacks.
                section.fail(number, "syntax error (expected section properties)");
                let mut next = Section::new(&kind, &id, Vec::new());
                next.line = number;
                next.raw.extend_from_slice(raw);
                parsed.sections.push(next);
            }
            (Line::Wrong(reason), Some(section)) => {
                section.raw.extend_from_slice(raw);
                section.fail(number, reason);
            }
            (Line::Wrong(_) | Line::Property(..), None) => {
                parsed.stray.extend_from_slice(raw);
                let reason = "syntax error (expected header)".to_owned();
                parsed.errors.push(LineError { line: number, reason });
            }
        }
    }
    mark_duplicates(&mut parsed.sections);
    parsed
}

enum Line {
    Header(String, String),
    Property(String, String),
    Wrong(&'static str),
}

fn read_line(line: &[u8]) -> Line {
    let Ok(text) = std::str::from_utf8(line) else { return Line::Wrong("the line is not UTF-8") };
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Line::Wrong("the line holds a control character");
    }
    if text.starts_with([' ', '\t']) {
        return match text.trim().split_once([' ', '\t']) {
            Some((key, value)) => Line::Property(key.to_owned(), value.trim().to_owned()),
            None => Line::Wrong("syntax error (expected a property with a value)"),
        };
    }
    match text.split_once(':') {
        Some((kind, id)) if kind.starts_with(|c: char| c.is_ascii_alphabetic()) && !id.trim().is_empty() => {
            Line::Header(kind.trim().to_owned(), id.trim().to_owned())
        }
        _ => Line::Wrong("syntax error (expected section properties)"),
    }
}

/// The original takes the last of two sections with one id without a word; which one is meant nobody knows.
fn mark_duplicates(sections: &mut [Section]) {
    let ids: Vec<(String, u32)> = sections.iter().map(|section| (section.id.clone(), section.line)).collect();
    for section in sections {
        let other = ids.iter().find(|(id, line)| *id == section.id && *line != section.line);
        if let Some((_, line)) = other {
            let reason = format!("there is another section `{}` at line {line}", section.id);
            section.fail(section.line, &reason);
        }
    }
}

/// Writes a file. Sections that could not be read, and lines that belong to none, go back as they were.
///
/// # Errors
/// When a value cannot be written, because it would not be read back as the same.
pub fn print(parsed: &Parsed) -> Result<Vec<u8>, String> {
    let mut text = parsed.stray.clone();
    if !text.is_empty() {
        text.push(b'\n');
    }
    for section in &parsed.sections {
        if section.error.is_some() {
            text.extend_from_slice(&section.raw);
            if !section.raw.ends_with(b"\n") {
                text.push(b'\n');
            }
        } else {
            text.extend_from_slice(format!("{}: {}\n", section.kind, section.id).as_bytes());
            for (key, value) in &section.properties {
                if value.trim().is_empty() || value.trim() != value || value.chars().any(char::is_control) {
                    return Err(format!(
                        "the value of `{key}` is empty, begins or ends with a space, or holds a control character"
                    ));
                }
                text.extend_from_slice(format!("\t{key} {value}\n").as_bytes());
            }
        }
        text.push(b'\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rows of the original's grammar: input, sections that stand, and errors as `line: reason`.
    fn check(text: &str, good: &[&str], errors: &[&str]) {
        let parsed = parse(text.as_bytes());
        let standing: Vec<_> =
            parsed.sections.iter().filter(|s| s.error.is_none()).map(|s| s.id.as_str()).collect();
        let of_sections = parsed.sections.iter().filter_map(|section| section.error.as_ref());
        let mut found: Vec<_> =
            of_sections.chain(&parsed.errors).map(|e| format!("{}: {}", e.line, e.reason)).collect();
        found.sort();
        assert_eq!(
            (standing.as_slice(), found.as_slice()),
            (good, errors.iter().map(|e| (*e).to_owned()).collect::<Vec<_>>().as_slice()),
            "{text:?}"
        );
    }

    #[test]
    fn the_grammar_row_by_row() {
        check("datastore: a1\n\tpath /a\n\ndatastore: b1\n  path   /b c \n", &["a1", "b1"], &[]);
        check("datastore:a1\n\tpath /a\n   \t\ndatastore :  b1\n\tpath /b", &["a1", "b1"], &[]);
        check("\u{feff}datastore: a1\r\n\tpath /a\r\n\r\n", &["a1"], &[]);
        check("", &[], &[]);
        check(
            "datastore: a1\n\tpath /a\ndatastore: b1\n\tpath /b\n",
            &["b1"],
            &["3: syntax error (expected section properties)"],
        );
        check("# comment\n\ndatastore: a1\n\tpath /a\n", &["a1"], &["1: syntax error (expected header)"]);
        check(
            "datastore: a1\n# comment\n\tpath /a\n",
            &[],
            &["2: syntax error (expected section properties)"],
        );
        check("datastore: a1\n\tpath\n", &[], &["2: syntax error (expected a property with a value)"]);
        check("\tpath /a\n", &[], &["1: syntax error (expected header)"]);
        check(
            "datastore:\n\tpath /a\n",
            &[],
            &["1: syntax error (expected header)", "2: syntax error (expected header)"],
        );
        check(
            "datastore: a1\n\tcomment a\0b\n\ndatastore: b1\n\tpath /b\n",
            &["b1"],
            &["2: the line holds a control character"],
        );
        check(
            "datastore: a1\n\tpath /a\n\ndatastore: a1\n\tpath /b\n\ndatastore: b1\n\tpath /c\n",
            &["b1"],
            &["1: there is another section `a1` at line 4", "4: there is another section `a1` at line 1"],
        );
        let parsed = parse(b"datastore: b1\n  path   /b c \n");
        assert_eq!(parsed.sections[0].properties, [("path".to_owned(), "/b c".to_owned())]);
    }

    #[test]
    fn what_cannot_be_read_is_written_back_as_it_was() {
        let text = b"# comment\n\ndatastore: a1\n\tpath\n\tcomment \xff\n\ndatastore: b1\n\tpath /b\n";
        let mut parsed = parse(text);
        parsed.sections[1].properties.push(("comment".into(), "new".into()));
        let printed = print(&parsed).unwrap();
        assert_eq!(
            printed,
            b"# comment\n\ndatastore: a1\n\tpath\n\tcomment \xff\n\ndatastore: b1\n\tpath /b\n\tcomment new\n\n"
        );
    }

    proptest! {
        #[test]
        fn parse_after_print_is_identity(
            sections in proptest::collection::btree_map("[a-z][a-z0-9.-]{2,9}", proptest::collection::vec(("[a-z-]{1,9}", "[!-~]([ -~]{0,9}[!-~])?"), 0..4), 0..5)
        ) {
            let made: Vec<Section> =
                sections.into_iter().map(|(id, properties)| Section::new("datastore", &id, properties)).collect();
            let printed = print(&Parsed { sections: made.clone(), ..Parsed::default() }).unwrap();
            let read = parse(&printed);
            prop_assert!(read.errors.is_empty());
            let content = |sections: &[Section]| sections.iter().map(|s| (s.id.clone(), s.properties.clone())).collect::<Vec<_>>();
            prop_assert_eq!(content(&read.sections), content(&made));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let parsed = parse(&bytes);
            prop_assert!(print(&parsed).is_ok() || parsed.sections.iter().all(|s| s.error.is_none()));
        }
    }
}
