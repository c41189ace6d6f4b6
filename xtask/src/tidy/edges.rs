//! Who may depend on whom, and which crate may know which library.

use super::{Finding, Source};

/// A crate of the house, and which others it may depend on.
const EDGES: [(&str, &[&str]); 11] = [
    ("enfilade-facts", &[]),
    ("enfilade-sources", &["facts"]),
    ("enfilade-tls", &["facts"]),
    ("enfilade-identity", &["facts"]),
    ("enfilade-datastore", &["facts", "identity"]),
    ("enfilade-access", &["facts", "identity", "datastore"]),
    ("enfilade-content", &["facts", "access"]),
    ("enfilade-passage", &["facts", "identity", "datastore", "access", "content"]),
    ("enfilade-admin", &["facts", "sources", "tls", "identity", "datastore", "access", "content"]),
    ("enfilade-faces", &["facts", "passage", "admin"]),
    // The binary, the testkit and the runner put the rest together.
    (
        "",
        &[
            "facts",
            "sources",
            "tls",
            "identity",
            "datastore",
            "access",
            "content",
            "passage",
            "admin",
            "faces",
            "testkit",
        ],
    ),
];

/// A library, the crates that may know it, and why it is there.
const LIBRARIES: [(&str, &[&str], &str); 33] = [
    ("anyhow", &["enfilade"], "errors of commands, which nobody matches on"),
    ("arc-swap", &["enfilade-facts"], "publishing an index without a lock"),
    ("argon2", &["enfilade-identity"], "password hashes"),
    ("aws-lc-rs", &["enfilade-identity"], "HMAC of generated secrets"),
    ("base64", &["enfilade-faces"], "HTTP Basic"),
    ("bcrypt", &["enfilade-identity"], "hashes of other systems"),
    ("bytes", &["enfilade-faces"], "bodies"),
    ("clap", &["enfilade"], "the command line"),
    ("clap_complete", &["enfilade"], "completions for shells"),
    ("clap_mangen", &["enfilade"], "manual pages"),
    (
        "getrandom",
        &["enfilade", "enfilade-admin", "enfilade-content", "enfilade-sources"],
        "random ids, secrets, names",
    ),
    ("heed", &["enfilade-sources"], "LMDB"),
    ("http-body-util", &["enfilade-faces"], "bodies"),
    ("httpdate", &["enfilade-faces"], "dates in headers"),
    ("hyper", &["enfilade-faces", "enfilade"], "HTTP"),
    ("hyper-util", &["enfilade"], "HTTP on tokio"),
    ("libc", &["enfilade-preload"], "standing before the C library"),
    ("quick-xml", &["enfilade-faces"], "WebDAV bodies"),
    ("rcgen", &["enfilade"], "the first certificate"),
    ("rustix", &["enfilade-sources", "enfilade-content", "enfilade"], "system calls without unsafe"),
    ("rustls", &["enfilade-tls"], "TLS"),
    ("serde", &["enfilade", "enfilade-facts", "enfilade-sources"], "the configuration; dumps"),
    (
        "serde_json",
        &["enfilade-faces", "enfilade", "enfilade-sources"],
        "answers and output; dumps, token.shadow",
    ),
    ("sha-crypt", &["enfilade-identity"], "hashes of other systems"),
    ("signal-hook", &["enfilade-sources"], "ending cleanly when a map is cut short"),
    ("siphasher", &["enfilade-facts"], "checksums and memo keys"),
    ("thiserror", &["*"], "errors"),
    ("tokio", &["enfilade-passage", "enfilade-faces", "enfilade", "enfilade-testkit"], "async"),
    ("tokio-rustls", &["enfilade"], "TLS on tokio"),
    ("toml", &["enfilade", "xtask"], "the configuration; manifests"),
    ("x509-parser", &["enfilade-tls"], "names and dates of certificates"),
    ("yescrypt", &["enfilade-identity"], "hashes of other systems"),
    ("zeroize", &["*"], "wiping secrets"),
];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources {
        let in_house = source.path.starts_with("crates/") || source.path.starts_with("xtask/");
        if in_house && source.path.ends_with("/Cargo.toml") {
            findings.extend(check_manifest(source));
        }
    }
}

fn check_manifest(source: &Source) -> Vec<Finding> {
    let manifest: toml::Table = match source.text.parse() {
        Ok(manifest) => manifest,
        Err(why) => return vec![source.finding(0, format!("the manifest cannot be read: {why}"))],
    };
    let name = manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
    let name = name.unwrap_or_default();
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    let mut findings = Vec::new();
    for dependency in dependencies.into_iter().flat_map(toml::Table::keys) {
        let what = match dependency.strip_prefix("enfilade-") {
            Some(other) => wrong_edge(name, other),
            None => wrong_library(name, dependency),
        };
        findings.extend(what.map(|what| source.finding(line_of(&source.text, dependency), what)));
    }
    let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace")).is_some();
    // LMDB is opened and files are mapped in the one, the other stands between a program and the C library.
    let has_reason =
        ["enfilade-sources", "enfilade-preload"].contains(&name) && source.text.contains("unsafe");
    if !(inherits || has_reason) {
        findings.push(source.finding(0, "the crate has no `[lints] workspace = true`"));
    }
    findings
}

fn wrong_edge(name: &str, other: &str) -> Option<String> {
    let known = EDGES.iter().find(|(this, _)| *this == name).or_else(|| EDGES.last());
    let allowed = known.map(|(_, allowed)| *allowed).unwrap_or_default();
    (!allowed.contains(&other)).then(|| {
        format!("`{name}` may not depend on `enfilade-{other}`: move the line to where it belongs (ARCHITECTURE.md)")
    })
}

fn wrong_library(name: &str, library: &str) -> Option<String> {
    match LIBRARIES.iter().find(|(known, ..)| *known == library) {
        None => Some(format!("say in xtask/src/tidy/edges.rs which crate may know `{library}`, and why")),
        Some((_, crates, _)) if crates.contains(&"*") || crates.contains(&name) => None,
        Some((_, crates, _)) => Some(format!(
            "`{name}` may not know `{library}`, only {} may: ask it through its own words",
            crates.join(", ")
        )),
    }
}

fn line_of(text: &str, dependency: &str) -> usize {
    text.lines().position(|line| line.starts_with(dependency)).map_or(0, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, dependency: &str, lints: &str) -> usize {
        let text = format!(
            "[package]\nname = \"{name}\"\n{lints}\n[dependencies]\n{dependency} = {{ workspace = true }}\n"
        );
        check_manifest(&Source { path: "crates/x/Cargo.toml".into(), text }).len()
    }

    #[test]
    fn edges_and_libraries() {
        let lints = "[lints]\nworkspace = true";
        for (name, dependency, count) in [
            ("enfilade-access", "enfilade-identity", 0),
            ("enfilade-identity", "enfilade-access", 1),
            ("enfilade-facts", "enfilade-sources", 1),
            ("enfilade-faces", "enfilade-access", 1),
            ("enfilade", "enfilade-access", 0),
            ("enfilade-sources", "heed", 0),
            ("enfilade-passage", "heed", 1),
            ("enfilade-facts", "thiserror", 0),
            ("enfilade-facts", "left-pad", 1),
        ] {
            assert_eq!(findings(name, dependency, lints), count, "{name} {dependency}");
        }
        assert_eq!(findings("enfilade-facts", "thiserror", ""), 1);
    }
}
