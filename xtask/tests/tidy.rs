//! The house keeps its own rules.

#[test]
fn the_house_is_tidy() {
    let findings = xtask::tidy::check(&xtask::root());
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "\n{}", lines.join("\n"));
}
