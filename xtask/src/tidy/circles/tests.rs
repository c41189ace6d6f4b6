use super::*;

fn findings(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    check(sources, &mut findings);
    findings.iter().map(ToString::to_string).collect()
}

/// The findings for a crate `c` with these files, each as the text `path:line: what`.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<Source> =
        files.iter().map(|(path, text)| Source::new(format!("c/src/{path}"), *text)).collect();
    findings(&sources)
}

/// The circle that is found in a crate whose root and modules `a` and `b` have these texts.
fn circle(root: &str, a: &str, b: &str) -> Option<String> {
    let root = format!("mod a;\nmod b;\n{root}");
    let found = found(&[("lib.rs", &root), ("a.rs", a), ("b.rs", b)]);
    let line = found.first()?;
    Some(line.split(" is a circle").next()?.to_owned())
}

#[test]
fn a_circle_is_named_as_a_path() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
        ("b.rs", "use crate::c::C;\n"),
        ("c.rs", "use super::a::A;\n"),
    ];
    let with = |a| found(&[&files[..], &[("a.rs", a)]].concat());
    assert_eq!(with("struct A;\n"), [""; 0]);
    let found = with("struct A;\n\nuse crate::b;\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("c/src/a.rs:3: `a` -> `b` -> `c` -> `a` is a circle of imports: "),
        "{found:?}"
    );
}

#[test]
fn an_import_is_found_however_it_is_written() {
    let expected = |line: usize| Some(format!("c/src/a.rs:{line}: `a` -> `b` -> `a`"));
    let (b, back) = ("pub struct B;\npub fn f() {}\nuse crate::a::A;\n", "pub struct A;\n");
    for (root, a, line) in [
        ("", "use crate::b::B;\n", 1),
        ("", "use super::b::B;\n", 1),
        ("", "use crate::{b::{B, f}};\n", 1),
        ("", "use super::{self as root, b};\n", 1),
        ("", "use crate::b as other;\n", 1),
        ("", "use crate::b::*;\n", 1),
        ("", "fn g(x: &crate::b::B) {}\n", 1),
        ("", "fn g() {\n    super::b::f();\n}\n", 2),
        ("", "fn g() {\n    assert!(x, crate::b::f());\n}\n", 2),
        ("", "fn g() {\n    use crate::b::f;\n}\n", 2),
        ("", "mod inner {\n    use super::super::b::B;\n}\n", 2),
        ("", "mod inner {\n    use crate::b::B;\n}\n", 2),
        // An item that the root re-exports belongs to the module that defines it.
        ("pub use b::B;\n", "use crate::B;\n", 1),
        ("use b::{B as C};\n", "use super::{C};\n", 1),
        ("pub use self::b::*;\n", "use crate::f;\n", 1),
        ("pub use b::B as C;\npub use C as D;\n", "use crate::D;\n", 1),
        ("pub use b::B;\n", "use super::*;\nfn g(x: B) {}\n", 2),
    ] {
        let a = format!("{a}{back}");
        assert_eq!(circle(root, &a, b), expected(line), "{root}{a}");
    }
}

#[test]
fn what_is_no_import_of_the_other_is_left_alone() {
    let b = "pub struct B;\nuse crate::a::A;\n";
    for (root, a) in [
        ("", "use ::b::B;\n"),
        ("", "use other::b::B;\n"),
        ("", "// use crate::b::B;\nconst B: &str = \"crate::b::B\";\n"),
        ("", "#[cfg(test)]\nuse crate::b::B;\n"),
        ("", "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n"),
        ("", "#[test]\nfn f() {\n    crate::b::f();\n}\n"),
        ("", "struct C {\n    #[cfg(test)]\n    b: crate::b::B,\n}\n"),
        ("", "impl C {\n    #[cfg(test)]\n    fn b() -> crate::b::B {}\n}\n"),
        ("", "pub(in crate::b) fn f() {}\n"),
        ("struct Own;\n", "use crate::Own;\n"),
        ("use other::B;\n", "use crate::B;\n"),
        // In these cases, the paths lead to items of the same file, or the names only look like names of modules.
        ("", "mod b {\n    pub struct B;\n}\nuse b::B;\n"),
        ("", "fn f(b: u8) {\n    b.c(b);\n}\n"),
    ] {
        assert_eq!(circle(root, a, b), None, "{root}{a}");
    }
    assert_eq!(circle("#[cfg(test)]\nmod c;\n", "use crate::c;\n", b), None);
}

#[test]
fn a_module_and_those_below_it_are_no_circle() {
    let files = [
        ("lib.rs", "mod a;\npub use a::A;\n"),
        ("a.rs", "mod d;\npub use d::D;\nuse crate::A;\nmod e;\n"),
        ("a/d.rs", "use super::A;\nuse crate::a;\n"),
    ];
    let with = |e| found(&[&files[..], &[("a/e.rs", e)]].concat());
    assert_eq!(with("use super::D;\n"), [""; 0]);
    let nested = [
        ("a/d.rs", "use super::e::E;\n"),
        ("lib.rs", "mod a;\n"),
        ("a.rs", "mod d;\nmod e;\npub use d::D;\n"),
    ];
    let found = found(&[&nested[..], &[("a/e.rs", "use crate::a::D;\n")]].concat());
    assert!(found[0].starts_with("c/src/a/d.rs:1: `a::d` -> `a::e` -> `a::d`"), "{found:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_a_finding() {
    let found = found(&[("main.rs", "mod a;\n"), ("a.rs", "use crate::{;\n")]);
    assert!(found[0].starts_with("c/src/a.rs:0: its imports cannot be read"), "{found:?}");
}

#[test]
fn the_rooms_of_a_door_stand_in_their_order() {
    let door = |folder: &str, view: &str| {
        let files = [
            ("lib.rs", "mod view;\nmod permit;\nmod part;\n"),
            ("view.rs", view),
            ("part.rs", "use crate::permit::P;\n"),
            ("permit.rs", "struct P;\n"),
        ];
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(format!("{folder}/src/{path}"), *text)).collect();
        findings(&sources)
    };
    for (view, way) in [("use crate::permit::P;\n", ""), ("use crate::part::X;\n", "`part` -> ")] {
        let found = door("crates/door-9", view);
        assert_eq!(found.len(), 1, "{found:?}");
        let begin = format!(
            "crates/door-9/src/view.rs:1: `view` -> {way}`permit`: `permit` comes later in the order"
        );
        assert!(found[0].starts_with(&begin), "{found:?}");
        assert_eq!(door("crates/x", view), [""; 0]);
    }
    assert_eq!(door("crates/door-9", "use crate::view::X;\n"), [""; 0]);
}
