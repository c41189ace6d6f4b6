//! Reads and writes files in Proxmox's section-config grammar:
//!
//! ```text
//! type: id
//!     key value that may hold spaces
//!     key value
//!
//! type: id
//! ```
//! A line with a property begins with white space. A header line does not begin with white space. A blank line ends a section. There are no comments.
//! Proxmox rejects the whole file if a line has an error, so one bad line makes every section unavailable. In this parser, an error affects only its
//! section.

use super::file_set::{EditError, Locked};
use enfilade_facts::tables::FileName;
use enfilade_facts::vocabulary::excerpt;
use std::collections::HashMap;

/// An error in a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The number of the line, from 1; 0 if the error has no line.
    pub line: u32,
    /// The description of the error.
    pub reason: String,
}

/// One section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The type of the section.
    pub kind: String,
    /// The id of the section.
    pub id: String,
    /// The line of the section's header, from 1; 0 if the section was not read from a file.
    pub line: u32,
    /// The properties of the section, in order.
    pub properties: Vec<(String, String)>,
    /// The line numbers of the properties that were read from a file, in the order of the properties.
    pub lines: Vec<u32>,
    /// The first error in the section.
    pub error: Option<LineError>,
    /// The unchanged lines of the section, which are written back if the section has an error.
    raw: Vec<u8>,
    /// Whether a blank line or the end of the file follows the section in the file.
    is_ended: bool,
}

impl Section {
    /// A new section, not read from a file.
    pub fn new(kind: &str, id: &str, properties: Vec<(String, String)>) -> Self {
        Section {
            kind: kind.to_owned(),
            id: id.to_owned(),
            line: 0,
            lines: vec![0; properties.len()],
            properties,
            error: None,
            raw: Vec::new(),
            is_ended: true,
        }
    }

    /// Records an error, unless the section already has one.
    fn fail(&mut self, line: u32, reason: &str) {
        self.error.get_or_insert_with(|| LineError { line, reason: reason.to_owned() });
    }
}

/// A parsed file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The sections of the file, including those with an error.
    pub sections: Vec<Section>,
    /// Errors that belong to no section.
    pub errors: Vec<LineError>,
    /// Groups of lines outside all sections, each with the number of its first line. These lines are written back in the same place.
    stray: Vec<(u32, Vec<u8>)>,
}

/// The part of the file to which the previous line belongs: nothing, a section, or a group of lines outside all sections. `Nothing` means that the
/// previous line is blank, or that there is no previous line.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    Nothing,
    Section,
    Stray,
}

/// Parses the content of a file. Line ends of Windows and a byte-order mark are accepted.
pub fn parse(text: &[u8]) -> Parsed {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut parsed = Parsed::default();
    let mut within = Within::Nothing;
    for (index, raw) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let line = raw.strip_suffix(b"\n").unwrap_or(raw);
        let line = read_line(line.strip_suffix(b"\r").unwrap_or(line));
        let current = if within == Within::Section { parsed.sections.last_mut() } else { None };
        within = match (line, current) {
            (Line::Blank, _) => Within::Nothing,
            (Line::Header(kind, id), before) => {
                if let Some(before) = before {
                    // If a section header does not follow a blank line, Proxmox reads the header as a property. This parser begins a new section. The
                    // previous section was not ended by a blank line, and may be incomplete.
                    before.fail(number, "syntax error (expected section properties)");
                    before.is_ended = false;
                }
                let section = Section::new(&kind, &id, Vec::new());
                parsed.sections.push(Section { line: number, raw: raw.to_vec(), ..section });
                Within::Section
            }
            (Line::Property(key, value), Some(section)) => {
                section.raw.extend_from_slice(raw);
                section.properties.push((key, value));
                section.lines.push(number);
                within
            }
            (Line::Wrong(reason), Some(section)) => {
                section.raw.extend_from_slice(raw);
                section.fail(number, reason);
                within
            }
            (Line::Wrong(_) | Line::Property(..), None) => {
                stray_line(&mut parsed, within, number, raw);
                Within::Stray
            }
        };
    }
    mark_duplicates(&mut parsed.sections);
    parsed
}

/// Records a line outside all sections. Several such lines in a row are one error.
fn stray_line(parsed: &mut Parsed, within: Within, number: u32, raw: &[u8]) {
    match parsed.stray.last_mut() {
        Some((_, lines)) if within == Within::Stray => lines.extend_from_slice(raw),
        _ => {
            parsed.stray.push((number, raw.to_vec()));
            let reason = "syntax error (expected header)".to_owned();
            parsed.errors.push(LineError { line: number, reason });
        }
    }
}

enum Line {
    Blank,
    Header(String, String),
    Property(String, String),
    Wrong(&'static str),
}

fn read_line(line: &[u8]) -> Line {
    let Ok(text) = std::str::from_utf8(line) else { return Line::Wrong("the line is not UTF-8") };
    if text.trim().is_empty() {
        return Line::Blank;
    }
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Line::Wrong("the line contains a control character");
    }
    if text.starts_with(char::is_whitespace) {
        return match text.trim().split_once(char::is_whitespace) {
            Some((key, value)) => Line::Property(key.to_owned(), value.trim().to_owned()),
            None => Line::Wrong("syntax error (expected a property with a value)"),
        };
    }
    match text.split_once(':') {
        Some((kind, id)) if kind.starts_with(char::is_alphabetic) && !id.trim().is_empty() => {
            Line::Header(kind.trim().to_owned(), id.trim().to_owned())
        }
        _ => Line::Wrong("syntax error (expected section properties)"),
    }
}

/// Adds an error to sections with the same id. Proxmox silently uses the last section with the id, but it is unknown which section the author wants.
fn mark_duplicates(sections: &mut [Section]) {
    // For each id, the lines of its first two sections. The error of a section contains the line of the other section.
    let mut places: HashMap<&str, (u32, Option<u32>)> = HashMap::with_capacity(sections.len());
    for section in sections.iter() {
        let place = places.entry(&section.id).or_insert((section.line, None));
        if place.0 != section.line {
            place.1.get_or_insert(section.line);
        }
    }
    let twice: HashMap<String, (u32, u32)> = places
        .into_iter()
        .filter_map(|(id, (first, second))| Some((id.to_owned(), (first, second?))))
        .collect();
    for section in sections.iter_mut().filter(|_| !twice.is_empty()) {
        let Some((first, second)) = twice.get(&section.id) else { continue };
        let other = if *first == section.line { second } else { first };
        let reason = format!("another section `{}` is at line {other}", excerpt(&section.id));
        section.fail(section.line, &reason);
    }
}

/// The content of the file. Sections with an error, and lines outside all sections, are written back unchanged.
///
/// # Errors
/// When the parser would read the written text of a section or property as a different section or property.
pub fn print(parsed: &Parsed) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let mut stray = parsed.stray.iter().peekable();
    for section in &parsed.sections {
        while let Some((_, lines)) = stray.next_if(|(line, _)| *line < section.line) {
            print_lines(&mut text, lines);
            text.push(b'\n');
        }
        if section.error.is_some() {
            print_lines(&mut text, &section.raw);
        } else {
            print_section(&mut text, section)?;
        }
        // If the blank line after a section with an error is missing, the line is not added. With the blank line, the section could become valid,
        // although its author did not correct it.
        if section.is_ended || section.error.is_none() {
            text.push(b'\n');
        }
    }
    for (_, lines) in stray {
        print_lines(&mut text, lines);
        text.push(b'\n');
    }
    Ok(text)
}

/// Sets a property, or removes it if `value` is `None`.
pub fn set(section: &mut Section, key: &str, value: Option<String>) {
    match (section.properties.iter_mut().find(|(other, _)| other == key), value) {
        (Some((_, held)), Some(value)) => *held = value,
        (None, Some(value)) => section.properties.push((key.to_owned(), value)),
        (Some(_), None) => section.properties.retain(|(other, _)| other != key),
        (None, None) => {}
    }
}

/// Edits the sections of a file. The caller holds the lock of the file ([`Locked::rewrite`]). Sections with an error stay as they are, byte for byte.
///
/// # Errors
/// When the file cannot be read, a section cannot be printed, or `change` returns an error. In this case nothing is edited.
pub fn edit<E>(
    locked: &mut Locked<'_>,
    file: FileName,
    change: impl FnOnce(&mut Vec<Section>) -> Result<(), E>,
) -> Result<(), EditError<E>> {
    locked.rewrite(file, |bytes| {
        let mut parsed = parse(bytes);
        change(&mut parsed.sections).map_err(EditError::Refused)?;
        print(&parsed).map_err(EditError::File)
    })
}

fn print_lines(text: &mut Vec<u8>, lines: &[u8]) {
    text.extend_from_slice(lines);
    if !lines.ends_with(b"\n") {
        text.push(b'\n');
    }
}

fn print_section(text: &mut Vec<u8>, section: &Section) -> Result<(), String> {
    let Section { kind, id, properties, .. } = section;
    let header = format!("{kind}: {id}");
    if !matches!(read_line(header.as_bytes()), Line::Header(read, name) if read == *kind && name == *id) {
        return Err(format!(
            "`{}` cannot be the header of a section: when the file is read again, this line would have another meaning. Use another name",
            excerpt(&header)
        ));
    }
    print_lines(text, header.as_bytes());
    for (key, value) in properties {
        let line = format!("\t{key} {value}");
        if !matches!(read_line(line.as_bytes()), Line::Property(read, held) if read == *key && held == *value)
        {
            return Err(format!(
                "the value of `{}` is empty, begins or ends with a space, or contains a control character",
                excerpt(key)
            ));
        }
        print_lines(text, line.as_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Parses the text. The valid sections must have the ids `good`, and the errors must be `errors`, each in the form `line: reason`.
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
        check("datastore:\n\tpath /a\n", &[], &["1: syntax error (expected header)"]);
        check(
            "datastore: a1\n\tcomment a\0b\n\ndatastore: b1\n\tpath /b\n",
            &["b1"],
            &["2: the line contains a control character"],
        );
        check(
            "datastore: a1\n\tpath /a\n\ndatastore: a1\n\tpath /b\n\ndatastore: b1\n\tpath /c\n",
            &["b1"],
            &["1: another section `a1` is at line 4", "4: another section `a1` is at line 1"],
        );
        check("datastore: a1\n\tpath /a\n\n\tpath /b\n", &["a1"], &["4: syntax error (expected header)"]);
        check(
            "1tore: a1\n\n:a1\n",
            &[],
            &["1: syntax error (expected header)", "3: syntax error (expected header)"],
        );
        check(
            "datastore tank\n\tpath /a\n\tcomment x\n\ndatastore: b1\n\tpath /b\n",
            &["b1"],
            &["1: syntax error (expected header)"],
        );
        check("datastore: a1\n\u{a0}path\u{a0}/a\n\u{2003}\ndatastore: b1\n", &["a1", "b1"], &[]);
        check("datastore: a1\n\tcomment a\tb\n", &["a1"], &[]);
        check(
            "s3: a1\n\tpath /a\n\ndatastore: a1\n\tpath /b\n\ndatastore: a1\n",
            &[],
            &[
                "1: another section `a1` is at line 4",
                "4: another section `a1` is at line 1",
                "7: another section `a1` is at line 1",
            ],
        );
        let broken = parse(b"datastore: a1\n\tcomment \xff\n\ndatastore: b1\n\tpath /b\n");
        let error = LineError { line: 2, reason: "the line is not UTF-8".into() };
        assert_eq!(broken.sections.iter().map(|s| s.error.clone()).collect::<Vec<_>>(), [Some(error), None]);
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

    #[test]
    fn an_edit_keeps_what_it_does_not_understand() {
        let scratch = crate::scratch::Scratch::new();
        let set = crate::files::file_set::FileSet::new(scratch.path());
        let path = set.path(FileName::Datastores);
        let edit = |change: &dyn Fn(&mut Vec<Section>) -> Result<(), &'static str>| {
            let mut locked = set.lock(&[FileName::Datastores]).unwrap();
            super::edit(&mut locked, FileName::Datastores, change)?;
            locked.write().map_err(EditError::File)
        };
        edit(&|sections| {
            sections.push(Section::new("datastore", "tank", vec![("path".into(), "/tank".into())]));
            Ok(())
        })
        .unwrap();
        let mut text = std::fs::read(&path).unwrap();
        text.extend_from_slice(b"datastore: odd\n\tpath\n");
        std::fs::write(&path, &text).unwrap();
        edit(&|sections| {
            sections[0].properties.push(("comment".into(), "x".into()));
            Ok(())
        })
        .unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "datastore: tank\n\tpath /tank\n\tcomment x\n\ndatastore: odd\n\tpath\n\n");
        assert!(matches!(edit(&|_| Err("no")), Err(EditError::Refused("no"))));
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn editing_one_section_mends_and_moves_no_other() {
        let text = b"datastore: a1\n\tpath /a\ndatastore: b1\n\tpath /b\n\n# end of b1\n\ndatastore: c1\n\tpath /c\n\n";
        let mut parsed = parse(text);
        assert_eq!(print(&parsed).unwrap(), text);
        parsed.sections.remove(2);
        parsed.sections.push(Section::new("datastore", "d1", vec![("path".into(), "/d".into())]));
        assert_eq!(
            String::from_utf8(print(&parsed).unwrap()).unwrap(),
            "datastore: a1\n\tpath /a\ndatastore: b1\n\tpath /b\n\ndatastore: d1\n\tpath /d\n\n# end of b1\n\n"
        );
    }

    #[test]
    fn what_would_read_back_as_something_else_is_not_written() {
        let print = |kind: &str, id: &str, key: &str, value: &str| {
            let section = Section::new(kind, id, vec![(key.into(), value.into())]);
            print(&Parsed { sections: vec![section], ..Parsed::default() })
        };
        assert!(print("datastore", "a1", "comment", "two words").is_ok());
        for (kind, id, key, value) in [
            ("datastore", "a1\n\tpath /evil", "comment", "x"),
            ("datastore", "", "comment", "x"),
            ("data:store", "a1", "comment", "x"),
            ("datastore", "a1", "two words", "x"),
            ("datastore", "a1", "comment", ""),
            ("datastore", "a1", "comment", " x"),
            ("datastore", "a1", "comment", "x\n\npath /evil"),
            ("datastore", "a1", "comment", "x\r"),
        ] {
            assert!(print(kind, id, key, value).is_err(), "{id:?} {key:?} {value:?}");
        }
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
        fn what_was_printed_is_read_as_before(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..200),
                proptest::collection::vec(proptest::sample::select(b"aab:: \t\n\n\n\r#\0\xc3\xa4".to_vec()), 0..60),
            ]
        ) {
            let read = |parsed: &Parsed| -> Vec<_> {
                let of = |s: &Section| (s.kind.clone(), s.id.clone(), s.properties.clone(), s.error.is_some());
                parsed.sections.iter().map(of).collect()
            };
            let parsed = parse(&bytes);
            let printed = print(&parsed).unwrap();
            let again = parse(&printed);
            prop_assert_eq!(read(&again), read(&parsed));
            prop_assert_eq!(again.errors.len(), parsed.errors.len());
            prop_assert_eq!(print(&again).unwrap(), printed);
        }
    }
}
