//! The repository obeys its own rules.

#[test]
fn the_house_is_tidy() {
    let findings = xtask::tidy::check(&xtask::root());
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "\n{}", lines.join("\n"));
}

/// Checks a tree that breaks the rules against the expected findings. The test fails if `check` skips a rule, except the rule about retired words.
#[test]
fn every_rule_is_asked() {
    let root = std::env::temp_dir().join(format!("xtask-tidy-{}", std::process::id()));
    let later = ["FIX", "ME"].concat();
    let place = ["/ro", "ot/"].concat();
    let route = "const ROUTES: [Route; 1] = [\n    Route::public(\"/secrets\", x),\n];\n";
    let record = r#"{"bench":"try","commit":"abc1234","rows":[{"name":"asked","n":4,"value":38.2,"unit":"µs"}],"goals":[]}"#;
    let manifest = "[package]\nname = \"enfilade-facts\"\n[dependencies]\nenfilade-sources = \"0\"\nleft-pad = \"0\"\n\
                    [dev-dependencies]\nenfilade-testkit = \"0\"\n";
    for (path, text) in [
        ("Cargo.toml", "[workspace.dependencies]\ntokio = { package = \"heed\" }\n"),
        ("deny.toml", "[bans]\ndeny = [{ crate = \"heed\" }]\n"),
        ("ARCHITECTURE.md", &"\n".repeat(301)),
        ("crates/x/Cargo.toml", "[package]\nname = \"enfilade-x\"\n"),
        ("crates/facts/Cargo.toml", manifest),
        ("crates/facts/src/lib.rs", "use std::fs;\nmod cache;\n"),
        ("crates/facts/src/long.rs", &"// x\n".repeat(601)),
        ("crates/facts/src/function.rs", &format!("fn f() {{\n{}}}\n", "    x();\n".repeat(89))),
        ("crates/facts/src/words.rs", &format!("// {later}\n// {place}x\n")),
        ("crates/facts/src/util.rs", ""),
        ("crates/door-1-tls/src/permit.rs", "pub struct TlsPermit {\n    pub name: u8,\n}\n"),
        ("crates/door-2-identity/src/permit.rs", "#[derive(Default)]\npub struct IdentityPermit {\n}\n"),
        ("crates/door-3-datastore/src/other.rs", "x(DatastorePermit { a });\n"),
        ("crates/door-5-content/README.md", &"\n".repeat(13)),
        ("crates/admin/src/lib.rs", "//! x\nmod change_context;\nmod passwords;\n"),
        ("crates/admin/src/change_context.rs", "use crate::passwords::Password;\n"),
        ("crates/admin/src/passwords.rs", "use super::change_context::ChangeContext;\n"),
        ("crates/faces/src/routes.rs", "let r = Route { path };\n"),
        ("crates/face-webdav/src/routes.rs", route),
        ("bench/GOALS.md", "# Goals\n"),
        (
            "bench/REASONS.md",
            "| benchmark | goals | floor | Enfilade | why |\n|---|---|---|---|---|\n| try | `gone` | – | – | x |\n",
        ),
        ("bench/runs/2026-11-20-try.json", record),
        ("docs/x.md", "takes 37 µs<!-- figure 2026-11-20-try: row asked (4) -->, or 5 µs\n"),
    ] {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let lines: Vec<String> = xtask::tidy::check(&root).iter().map(ToString::to_string).collect();
    std::fs::remove_dir_all(&root).unwrap();
    let expected = [
        // edges
        "Cargo.toml:2: `tokio` is `heed`",
        "crates/x/Cargo.toml:0: say in xtask/src/tidy/edges.rs what",
        "crates/facts/Cargo.toml:4: `enfilade-facts` may not depend",
        "crates/facts/Cargo.toml:5: say in xtask/src/tidy/edges.rs which",
        "crates/facts/Cargo.toml:7: `enfilade-facts` may not have the dev-dependency",
        // deny
        "deny.toml:2: `heed` is known",
        // lints
        "crates/x/Cargo.toml:0: the crate has no lints",
        // names
        "crates/facts/src/util.rs:0: `util`",
        "crates/facts/src/lib.rs:2: `mod cache`",
        "crates/facts/src/lib.rs:1: a crate must begin",
        // words
        &format!("crates/facts/src/words.rs:1: `{later}`"),
        &format!("crates/facts/src/words.rs:2: `{place}`"),
        // sizes
        "crates/facts/src/long.rs:0: 601 lines",
        "crates/facts/src/function.rs:1: `f` is a function of 91 lines",
        // doors
        "crates/facts/src/lib.rs:1: `std::fs`",
        "crates/door-1-tls:0: there is no src/ask.rs",
        "crates/door-1-tls:0: `TlsPermit` is made in 0 places",
        "crates/door-1-tls/README.md:0: there is no such page",
        "crates/door-1-tls/src/permit.rs:2: a permit's fields must be private",
        "crates/door-2-identity/src/permit.rs:1: `Default`",
        "crates/door-3-datastore/src/other.rs:1: `DatastorePermit` is made here",
        "crates/door-5-content/README.md:0: 13 lines",
        // routes
        "crates/face-webdav/src/routes.rs:2: `/secrets` of ROUTES",
        "crates/faces/src/routes.rs:1: a route made by hand",
        "xtask/src/tidy/routes.rs:0: `/metrics` is no open route",
        // circles
        "crates/admin/src/change_context.rs:1: `change_context` -> `passwords` -> `change_context` is a circle of imports",
        // pages
        "README.md:0: the file is missing",
        "ARCHITECTURE.md:0: 301 lines",
        "ARCHITECTURE.md:0: `crates/facts` is not on the map",
        "docs/refusals.md:0:",
        // figures
        "docs/benchmarks.md:0: not what the records in bench/runs say",
        "bench/REASONS.md:0: `gone` of `try` holds in the newest record, or is not in it",
        "docs/x.md:1: `37 µs`: 2026-11-20-try says 38.2 µs",
        "docs/x.md:1: `5 µs`: a figure of speed needs its record",
    ];
    let missed: Vec<&str> =
        expected.into_iter().filter(|begin| !lines.iter().any(|line| line.starts_with(begin))).collect();
    assert!(missed.is_empty(), "not found: {missed:#?}\nfound: {lines:#?}");
}

/// Changes a record and commits the change. Tidy compares the record with the commit that added it.
#[test]
fn a_changed_record_is_found_after_it_was_committed() {
    let root = std::env::temp_dir().join(format!("xtask-tidy-record-{}", std::process::id()));
    let record = "bench/runs/2026-11-20-try.json";
    let table = "| benchmark | goals | floor | Enfilade | why |\n|---|---|---|---|---|\n";
    let git = |words: &[&str]| {
        let named = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
        let status = std::process::Command::new("git").args(named).args(words).current_dir(&root).status();
        assert!(status.unwrap().success(), "git {words:?}");
    };
    let commit = |value: u8| {
        let text = format!(
            "{{\"bench\":\"try\",\"commit\":\"abc1234\",\"rows\":[],\"goals\":[],\"value\":{value}}}"
        );
        std::fs::write(root.join(record), text).unwrap();
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "--message", "x"]);
    };
    let is_found = || {
        let findings = xtask::tidy::check(&root);
        findings.iter().any(|found| found.path == record && found.what.starts_with("the record differs"))
    };
    std::fs::create_dir_all(root.join("bench/runs")).unwrap();
    std::fs::write(root.join("bench/GOALS.md"), "# Goals\n").unwrap();
    std::fs::write(root.join("bench/REASONS.md"), table).unwrap();
    git(&["init", "--quiet"]);
    commit(1);
    assert!(!is_found());
    commit(2);
    assert!(is_found());
    commit(1);
    assert!(!is_found());
    std::fs::remove_dir_all(&root).unwrap();
}
