use super::*;

fn source(path: &str, text: &str) -> Source {
    Source::new(path, text)
}

fn permits_of(sources: &[&Source]) -> usize {
    permits("d", "P", sources).len()
}

#[test]
fn a_permit_is_made_in_one_place() {
    let permit = source("d/src/permit.rs", "pub struct P {\n    pub(crate) a: u8,\n}\nimpl P {\n");
    let open = source("d/src/open.rs", "fn open() -> P {\n    // no P { here\n    Ok(P { a: 1 })\n}\n");
    assert_eq!(permits_of(&[&permit, &open]), 0);
    assert_eq!(permits_of(&[&permit]), 1);
    let other = source("d/src/other.rs", "    let p = P { a: 2 };\n    x => P { a: 3 },\n");
    assert_eq!(permits_of(&[&permit, &open, &other]), 4);
    let deeper = source("d/src/x/open.rs", "    Ok(P { a: 1 })\n");
    assert_eq!(permits_of(&[&permit, &deeper]), 2);
    let tests = source("d/src/view.rs", "#[cfg(test)]\nmod tests {\n    let p = P { a: 2 };\n}\n");
    assert_eq!(permits_of(&[&permit, &open, &tests]), 0);
    let forge =
        source("d/src/permit.rs", "impl P {\n    fn forge() -> Self {\n        Self { a: 1 }\n    }\n}\n");
    assert_eq!(permits_of(&[&forge, &open]), 3);
    let nothing = source("d/src/permit.rs", "#[derive(Clone, Default)]\nstruct P {\n    a: u8,\n}\n");
    assert_eq!(permits_of(&[&nothing, &open]), 1);
}

#[test]
fn a_permit_has_private_fields() {
    for (text, count) in [
        ("pub struct P {\n    pub(crate) a: u8,\n    b: u8,\n}\nimpl P {\n    pub fn a() {}\n}\n", 0),
        ("pub struct P {\n    pub a: u8,\n}\n", 1),
        ("pub struct P(pub u8, pub u8);\npub fn a() {}\n", 2),
        ("pub struct P(u8);\npub struct Q;\n", 0),
    ] {
        assert_eq!(public_fields(&source("d/src/permit.rs", text)).len(), count, "{text}");
    }
}

#[test]
fn doors_have_rooms() {
    let folder = "crates/door-3-datastore";
    let mut door: Vec<Source> =
        ROOMS.iter().map(|room| source(&format!("{folder}/src/{room}.rs"), "")).collect();
    let count = |door: &[Source], folder| rooms(folder, &door.iter().collect::<Vec<_>>()).len();
    assert_eq!(count(&door, folder), 0);
    door.pop();
    assert_eq!(count(&door, folder), 1);
    door.push(source(&format!("{folder}/src/lib.rs"), "//! no memo:\n"));
    assert_eq!(count(&door, folder), 1, "a reason is wanted");
    door.push(source(&format!("{folder}/src/lib.rs"), ""));
    door.remove(5);
    door.push(source(&format!("{folder}/src/lib.rs"), "//! no memo: one record.\n"));
    door.remove(5);
    assert_eq!(count(&door, folder), 0);
    let other = "crates/door-2-identity";
    let door: Vec<Source> = door.iter().map(|s| source(&s.path.replace(folder, other), &s.text)).collect();
    assert_eq!(count(&door, other), 1, "only two doors may do without");
}

#[test]
fn doors_have_a_page() {
    let short = source("d/README.md", &"x\n".repeat(12));
    let long = source("d/README.md", &"x\n".repeat(13));
    assert!(page("d", &[&short]).is_none());
    assert!(page("d", &[&long]).is_some());
    assert!(page("d", &[]).is_some());
    let mut findings = Vec::new();
    check(&[], &mut findings);
    assert_eq!(findings.iter().filter(|finding| finding.path.ends_with("README.md")).count(), 5);
}

#[test]
fn doors_and_facts_do_no_io() {
    for folder in ["crates/door-1-tls", "crates/door-4-access", "crates/facts"] {
        for word in OUTSIDE {
            let mut findings = Vec::new();
            let text = format!("let url = \"http://x\"; {word};\n// {word}\nlet s = \"{word}\";\n");
            check(&[source(&format!("{folder}/src/x.rs"), &text)], &mut findings);
            let lines: Vec<usize> =
                findings.iter().map(|finding| finding.line).filter(|line| *line != 0).collect();
            assert_eq!(lines, [1], "{folder} {word}");
        }
    }
    let list = source("crates/facts/src/x.rs", "use std::{\n    fmt,\n    fs::File,\n};\nfn env() {}\n");
    assert_eq!(outside(&list)[0].line, 3);
    assert_eq!(outside(&list).len(), 1);
    let after = source("crates/facts/src/x.rs", "#[cfg(test)]\nmod tests {\n    std::fs\n}\nuse std::fs;\n");
    assert_eq!(outside(&after)[0].line, 5);
    assert!(outside(&source("crates/facts/src/x.rs", "use std::{fmt, io};\nlet process = 1;\n")).is_empty());
}

#[test]
fn only_admin_changes_facts() {
    let text = "fn f() {\n    source.commit(&change);\n}\n#[cfg(test)]\nmod tests {\n    source.commit(&change);\n}\n";
    for (folder, lines) in
        [("crates/passage", vec![2]), ("crates/face-proxmox", vec![2]), ("crates/admin", vec![])]
    {
        let mut findings = Vec::new();
        check(&[source(&format!("{folder}/src/x.rs"), text)], &mut findings);
        let found: Vec<usize> =
            findings.iter().map(|finding| finding.line).filter(|line| *line != 0).collect();
        assert_eq!(found, lines, "{folder}");
    }
}
