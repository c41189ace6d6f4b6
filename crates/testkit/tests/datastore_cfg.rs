//! Tests that two independent readers get the same result from `datastore.cfg`: the reader of the server, and a reader that is as strict as Proxmox.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use enfilade_sources::files::datastore_cfg;
use enfilade_sources::files::section_config::{self, Parsed, Section};
use enfilade_testkit::second_reader::{self, Datastores};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The result of the server's reader: the valid datastores, and the names of the broken sections, or `line N` for a broken line outside of sections.
fn ours(text: &str) -> (Datastores, Vec<String>) {
    let parsed = section_config::parse(text.as_bytes());
    let (mut stand, mut broken) = (Datastores::new(), Vec::new());
    for section in &parsed.sections {
        match datastore_cfg::read(section) {
            Ok((name, _)) => {
                stand.insert(name.to_string(), section.properties.iter().cloned().collect());
            }
            Err(_) => broken.push(section.id.clone()),
        }
    }
    broken.extend(parsed.errors.iter().map(|error| format!("line {}", error.line)));
    (stand, broken)
}

fn printed_by_us(datastores: &Datastores) -> String {
    let section = |(name, properties): (&String, &BTreeMap<String, String>)| {
        Section::new("datastore", name, properties.clone().into_iter().collect())
    };
    let mut parsed = Parsed::default();
    parsed.sections = datastores.iter().map(section).collect();
    String::from_utf8(section_config::print(&parsed).unwrap()).unwrap()
}

/// In each case, the malformed text is between two valid datastores.
#[test]
fn every_malformed_line_of_the_original_takes_its_own_section_alone() {
    let rows: [(&str, &str, &str, &[&str]); 13] = [
        ("a comment", "# comment\n", "line 4 - syntax error (expected header)", &["line 4"]),
        (
            "no blank line before the next",
            "datastore: bad\n\tpath /bad\ndatastore: next\n\tpath /next\n",
            "line 6 - syntax error (expected section properties)",
            &["bad"],
        ),
        (
            "a property without a value",
            "datastore: bad\n\tpath /bad\n\tcomment\n",
            "line 6 - syntax error (expected section properties)",
            &["bad"],
        ),
        (
            "a property twice",
            "datastore: bad\n\tpath /bad\n\tcomment a\n\tcomment b\n",
            "line 7 - duplicate property 'comment'",
            &["bad"],
        ),
        (
            "an unknown property",
            "datastore: bad\n\tpath /bad\n\tfoo 1\n",
            "line 6 - unknown property 'foo'",
            &["bad"],
        ),
        ("an unknown type", "s3: bad\n\tpath /bad\n", "line 4 - unknown section type 's3'", &["bad"]),
        (
            "no path",
            "datastore: bad\n\tcomment x\n",
            "line 6 - property 'path' is missing and it is not optional.",
            &["bad"],
        ),
        (
            "a header without a name",
            "datastore:\n\tpath /bad\n",
            "line 4 - syntax error (expected header)",
            &["line 4"],
        ),
        (
            "a header without a colon",
            "datastore bad\n\tpath /bad\n",
            "line 4 - syntax error (expected header)",
            &["line 4"],
        ),
        (
            "a header that begins with a digit",
            "1datastore: bad\n\tpath /bad\n",
            "line 4 - syntax error (expected header)",
            &["line 4"],
        ),
        (
            "a property before any header",
            "\tpath /bad\n",
            "line 4 - syntax error (expected header)",
            &["line 4"],
        ),
        // Proxmox accepts a repeated name without an error.
        (
            "the same name twice",
            "datastore: bad\n\tpath /bad\n\ndatastore: bad\n\tpath /other\n",
            "",
            &["bad", "bad"],
        ),
        ("an unknown mode", "datastore: bad\n\tpath /bad\n\tmaintenance-mode type=offlin\n", "", &[]),
    ];
    for (what, lines, theirs, broken) in rows {
        let text = format!("datastore: first\n\tpath /first\n\n{lines}\ndatastore: last\n\tpath /last\n");
        assert_eq!(second_reader::read(&text).err().unwrap_or_default(), theirs, "{what}");
        let (stand, found) = ours(&text);
        assert!(stand.contains_key("first") && stand.contains_key("last"), "{what}: {stand:?}");
        assert_eq!(found, broken, "{what}");
    }
    // An unknown maintenance mode is read without an error. A test of door 3 checks that such a mode closes the datastore.
    let typo = "datastore: bad\n\tpath /bad\n\tmaintenance-mode type=offlin\n";
    let section = &section_config::parse(typo.as_bytes()).sections[0];
    let mode = datastore_cfg::read(section).unwrap().1.maintenance.unwrap().mode;
    assert!(matches!(mode, enfilade_facts::vocabulary::MaintenanceMode::Unknown(_)));
}

#[test]
fn a_thousand_stores_written_by_us_are_read_by_the_other() {
    let store = |n: usize| {
        let mut properties = BTreeMap::from([("path".to_owned(), format!("/mnt/datastore/tenant-{n}"))]);
        let more = [
            ("comment", "two words"),
            ("gc-schedule", "daily"),
            ("maintenance-mode", "type=offline,message=a%20b"),
        ];
        properties
            .extend(more.iter().take(n % 4).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        (format!("store-{n}.lock"), properties)
    };
    let stores: Datastores = (0..1_000).map(store).collect();
    let text = printed_by_us(&stores);
    assert_eq!(second_reader::read(&text).unwrap(), stores);
    assert_eq!(ours(&text), (stores, vec![]));
}

fn datastores() -> impl Strategy<Value = Datastores> {
    let name = "[A-Za-z0-9_][A-Za-z0-9._-]{2,31}";
    let value = "[!-~]([ -~]{0,40}[!-~])?";
    let keys = prop::sample::select(vec![
        "comment",
        "gc-schedule",
        "prune-schedule",
        "keep-last",
        "verify-new",
        "notify",
        "tuning",
        "maintenance-mode",
        "notification-mode",
        "backend",
    ]);
    let properties = (
        prop::collection::btree_map(keys.prop_map(str::to_owned), value, 0..6),
        "/[a-z]{1,8}(/[a-z ]{0,6}[a-z])?",
    );
    let properties = properties.prop_map(|(mut properties, path)| {
        properties.insert("path".to_owned(), path);
        properties
    });
    prop::collection::btree_map(name, properties, 0..20)
}

proptest! {
    #[test]
    fn what_one_prints_the_other_reads(stores in datastores()) {
        let (by_us, by_them) = (printed_by_us(&stores), second_reader::print(&stores));
        prop_assert_eq!(&second_reader::read(&by_us).unwrap(), &stores);
        prop_assert_eq!(&second_reader::read(&by_them).unwrap(), &stores);
        prop_assert_eq!(&ours(&by_them), &(stores.clone(), vec![]));
        // A file that is read and printed again is the same, byte for byte.
        let again = section_config::print(&section_config::parse(by_us.as_bytes())).unwrap();
        prop_assert_eq!(String::from_utf8(again).unwrap(), by_us);
    }

    /// The server reads every file that the strict reader accepts, with the same result. Sections with the same name are an exception: the server
    /// rejects all of them.
    #[test]
    fn no_line_means_one_thing_here_and_another_there(lines in prop::collection::vec(
        prop::sample::select(vec![
            "datastore: one", "datastore: two", "datastore:three ", " \tpath /a", "\tpath /b", "  comment  x  y ", "\tcomment z", "",
            "  ", "# no", "s3: x", "\tpath", "one: two",
        ]), 0..14)) {
        let text = lines.join("\n");
        let (stand, _) = ours(&text);
        if let Ok(theirs) = second_reader::read(&text) {
            for (name, properties) in &stand {
                prop_assert_eq!(theirs.get(name), Some(properties));
            }
            let is_twice = |name: &String| text.matches(&format!(":{}", name)).count() + text.matches(&format!(": {name}")).count() > 1;
            for name in theirs.keys().filter(|name| !is_twice(name)) {
                prop_assert!(stand.contains_key(name), "{} {}", name, text);
            }
        }
    }
}
