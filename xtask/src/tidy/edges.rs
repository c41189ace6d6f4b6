//! Checks which crates a crate may depend on, and which libraries it may use.

use super::{Finding, Source};
use toml::{Table, Value};

/// A crate of this workspace, and the other crates of the workspace that it may depend on.
const EDGES: [(&str, &[&str]); 25] = [
    ("enfilade-facts", &[]),
    ("enfilade-sources", &["facts"]),
    ("enfilade-fleet", &["facts"]),
    ("enfilade-tls", &["facts"]),
    ("enfilade-identity", &["facts"]),
    ("enfilade-datastore", &["facts", "identity"]),
    ("enfilade-access", &["facts", "identity", "datastore"]),
    ("enfilade-xattrat", &[]),
    ("enfilade-privileged", &[]),
    ("enfilade-content", &["facts", "access", "privileged", "xattrat"]),
    ("enfilade-passage", &["facts", "identity", "datastore", "access", "content"]),
    ("enfilade-admin", &["facts", "sources", "tls", "identity", "datastore", "access", "content"]),
    ("enfilade-faces", &["facts", "passage", "admin"]),
    // No protocol depends on another protocol.
    ("enfilade-webdav", &["facts", "passage", "faces"]),
    ("enfilade-keystone", &["facts", "passage", "admin", "faces"]),
    ("enfilade-proxmox", &["facts", "passage", "admin", "faces"]),
    ("enfilade-operations", &["facts", "passage", "faces"]),
    ("enfilade-decision", &["facts", "passage", "admin", "faces"]),
    ("enfilade-console", &["facts", "passage", "admin", "faces"]),
    // The crates with `ALL` may use each crate of the list `ALL`.
    ("enfilade", &ALL),
    ("enfilade-testkit", &ALL),
    ("enfilade-bench", &ALL),
    ("enfilade-peers", &[]),
    ("enfilade-preload", &[]),
    ("xtask", &ALL),
];

const ALL: [&str; 19] = [
    "facts",
    "sources",
    "tls",
    "identity",
    "datastore",
    "access",
    "content",
    "passage",
    "privileged",
    "admin",
    "faces",
    "webdav",
    "keystone",
    "proxmox",
    "operations",
    "decision",
    "console",
    "fleet",
    "testkit",
];

/// The crate with the programs that were rebuilt for comparisons, and the only crate that may use it, even in tests. So no part of these programs
/// gets into the server.
const REBUILT: (&str, &str) = ("enfilade-peers", "enfilade-bench");

/// A library, the crates that may use it, and its purpose.
const LIBRARIES: [(&str, &[&str], &str); 69] = [
    ("anyhow", &["enfilade"], "errors of commands, which no code matches on"),
    ("arc-swap", &["enfilade-facts"], "publishing an index without a lock"),
    ("argon2", &["enfilade-identity"], "password hashes"),
    (
        "aws-lc-rs",
        &[
            "enfilade-webdav",
            "enfilade-keystone",
            "enfilade-identity",
            "enfilade-tls",
            "enfilade-sources",
            "enfilade-testkit",
        ],
        "HMAC of generated secrets; TLS tickets; encrypted keys and backups; digests of uploads; signed requests to other services",
    ),
    (
        "base64",
        &[
            "enfilade-faces",
            "enfilade-webdav",
            "enfilade-keystone",
            "enfilade-identity",
            "enfilade-sources",
            "enfilade-tls",
            "enfilade-decision",
        ],
        "HTTP Basic; digests; signed requests; Fernet tokens and keys; certificates as PEM",
    ),
    ("bcrypt", &["enfilade-identity"], "hashes of other systems"),
    ("bech32", &["enfilade-sources"], "the text of age keys"),
    (
        "bytes",
        &["enfilade", "enfilade-faces", "enfilade-webdav", "enfilade-keystone", "enfilade-console"],
        "bodies",
    ),
    ("cbc", &["enfilade-tls"], "encrypted keys"),
    ("clap", &["enfilade"], "the command line"),
    ("clap_complete", &["enfilade"], "completions for shells"),
    ("clap_mangen", &["enfilade"], "manual pages"),
    ("crc32fast", &["enfilade-console"], "checksums of zip archives"),
    ("data-encoding", &["enfilade-facts", "enfilade-sources"], "hexadecimal digits"),
    ("des", &["enfilade-tls"], "encrypted keys of older programs"),
    ("dashmap", &["enfilade-bench"], "what the memo is compared with"),
    (
        "fancy-regex",
        &["enfilade-admin"],
        "the operator's regular expression for passwords, with the look-ahead of Keystone's",
    ),
    (
        "getrandom",
        &["enfilade", "enfilade-admin", "enfilade-content", "enfilade-fleet", "enfilade-sources"],
        "random ids, secrets, names",
    ),
    ("heed", &["enfilade-sources"], "LMDB"),
    ("http", &["enfilade-fleet"], "the path of a call of gRPC"),
    ("http-body-util", &["enfilade", "enfilade-faces", "enfilade-webdav", "enfilade-bench"], "bodies"),
    ("httpdate", &["enfilade-webdav"], "dates in headers"),
    (
        "hyper",
        &[
            "enfilade-faces",
            "enfilade-webdav",
            "enfilade-keystone",
            "enfilade-proxmox",
            "enfilade-operations",
            "enfilade-decision",
            "enfilade-console",
            "enfilade",
            "enfilade-bench",
        ],
        "HTTP",
    ),
    ("hyper-util", &["enfilade"], "HTTP on tokio"),
    ("instant-acme", &["enfilade"], "orders at a certificate authority"),
    (
        "io-uring",
        &["enfilade-sources", "enfilade-bench"],
        "reading many files at once; the reading it is compared with",
    ),
    ("landlock", &["enfilade"], "the files and ports that a server may open"),
    (
        "libc",
        &["enfilade", "enfilade-preload", "enfilade-sources", "enfilade-xattrat"],
        "interposing the C library; system calls that no library wraps; handlers of signals",
    ),
    (
        "nix",
        &["enfilade-content", "enfilade-privileged", "enfilade-testkit", "enfilade-bench", "enfilade-peers"],
        "notifications of changes of files; stopping a worker at each of its system calls; the CPU clock of a process; the timer of a lock",
    ),
    ("papaya", &["enfilade-bench"], "what the memo is compared with"),
    ("parking_lot", &["enfilade-peers"], "the lock of a server that ours is compared with"),
    ("maud", &["enfilade-faces", "enfilade-decision", "enfilade-console"], "pages: every value is escaped"),
    ("memchr", &["enfilade"], "the lines of requests"),
    ("mime_guess", &["enfilade-webdav"], "what a file is, by its name"),
    ("percent-encoding", &["enfilade-facts"], "paths, queries and secrets in URLs"),
    ("proc-macro2", &["xtask"], "the position of a mutant"),
    ("prost", &["enfilade-decision", "enfilade-fleet"], "the messages of Envoy and etcd over gRPC"),
    ("pulldown-cmark", &["enfilade-console"], "the pages of the manual, from Markdown"),
    ("qrcodegen", &["enfilade-console"], "the QR code of a second factor"),
    ("quick-xml", &["enfilade-webdav"], "WebDAV bodies"),
    ("quick_cache", &["enfilade-bench"], "what the memo is compared with"),
    ("rc2", &["enfilade-tls"], "encrypted keys of older programs"),
    (
        "rcgen",
        &["enfilade", "enfilade-bench"],
        "the local CA and its certificates; certificates to measure with",
    ),
    (
        "rustix",
        &[
            "enfilade-sources",
            "enfilade-content",
            "enfilade-privileged",
            "enfilade",
            "enfilade-bench",
            "enfilade-peers",
            "enfilade-testkit",
        ],
        "system calls without unsafe",
    ),
    (
        "rustls",
        &["enfilade-tls", "enfilade-bench", "enfilade-peers"],
        "TLS; a client to measure with; SHA-256",
    ),
    ("scrypt", &["enfilade-sources"], "passphrases of backups"),
    ("seccompiler", &["enfilade"], "the system calls that a server may make"),
    (
        "serde",
        &["enfilade", "enfilade-facts", "enfilade-sources", "enfilade-decision"],
        "the configuration; dumps; questions in JSON",
    ),
    ("serde_yaml_ng", &["enfilade"], "clouds.yaml"),
    (
        "serde_json",
        &[
            "enfilade-identity",
            "enfilade-webdav",
            "enfilade-keystone",
            "enfilade-proxmox",
            "enfilade-operations",
            "enfilade-decision",
            "enfilade-console",
            "enfilade",
            "enfilade-sources",
            "enfilade-bench",
            "enfilade-peers",
            "xtask",
        ],
        "answers and output; dumps, token.shadow; what browsers say about passkeys; what cargo says",
    ),
    ("sha-crypt", &["enfilade-identity"], "hashes of other systems"),
    ("sha2", &["enfilade-facts"], "the digests of names in keys"),
    ("siphasher", &["enfilade-facts", "enfilade-fleet"], "checksums and memo keys"),
    ("smol_str", &["enfilade-facts"], "names without an allocation"),
    ("syn", &["xtask"], "expressions that mutants replace"),
    ("tar", &["enfilade-sources"], "a backup as one file"),
    ("thiserror", &["*"], "errors"),
    ("time", &["enfilade-facts"], "dates of the calendar"),
    (
        "tokio",
        &[
            "enfilade-passage",
            "enfilade-faces",
            "enfilade-webdav",
            "enfilade-keystone",
            "enfilade-proxmox",
            "enfilade-decision",
            "enfilade-console",
            "enfilade-fleet",
            "enfilade",
            "enfilade-testkit",
            "enfilade-bench",
        ],
        "async",
    ),
    ("tokio-rustls", &["enfilade", "enfilade-bench"], "TLS on tokio"),
    ("tokio-stream", &["enfilade-fleet"], "the requests of a watch of etcd"),
    ("tokio-util", &["enfilade"], "looking at what a connection reads"),
    ("toml", &["enfilade", "xtask"], "the configuration; manifests"),
    ("tonic", &["enfilade-fleet"], "gRPC to etcd"),
    ("tonic-prost", &["enfilade-fleet"], "messages of gRPC to etcd"),
    ("x509-parser", &["enfilade-tls"], "names and dates of certificates"),
    ("yescrypt", &["enfilade-identity", "enfilade-bench"], "hashes of other systems"),
    ("zeroizing-alloc", &["enfilade"], "wiping what libraries free"),
    ("zeroize", &["*"], "wiping secrets"),
];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources {
        if source.path.ends_with("/Cargo.toml") {
            findings.extend(check_manifest(source));
        } else if source.path == "Cargo.toml" {
            findings.extend(check_workspace(source));
        }
    }
}

fn check_manifest(source: &Source) -> Vec<Finding> {
    let manifest: Table = match source.text.parse() {
        Ok(manifest) => manifest,
        Err(why) => return vec![source.finding(0, format!("the manifest cannot be read: {why}"))],
    };
    let name = text_at(&manifest, "package", "name").unwrap_or_default();
    if !EDGES.iter().any(|(known, _)| *known == name) {
        let what = format!("say in xtask/src/tidy/edges.rs what `{name}` may depend on");
        return vec![source.finding(0, what)];
    }
    let mut findings = Vec::new();
    let mut report = |dependency: &str, what: String| {
        findings.push(source.finding(line_of(&source.text, dependency), what));
    };
    for (dependency, value) in built_with(&manifest) {
        let what = renamed(dependency, value).or_else(|| match dependency.strip_prefix("enfilade-") {
            Some(_) if dependency == REBUILT.0 => wrong_rebuilt(name, dependency),
            Some(other) => wrong_edge(name, other),
            None => wrong_library(name, dependency),
        });
        what.into_iter().for_each(|what| report(dependency, what));
    }
    // Tests may use any crate except the rebuilt programs. But the tests of `facts` may use no crate of the workspace, because most of these crates
    // depend on `facts`.
    for (dependency, value) in in_table(&manifest, "dev-dependencies") {
        let is_of_house = dependency.starts_with("enfilade") && name == "enfilade-facts";
        let edge = is_of_house
            .then(|| format!("`{name}` may not have the dev-dependency `{dependency}`: move the test there"));
        let rebuilt = || wrong_rebuilt(name, dependency);
        renamed(dependency, value)
            .or(edge)
            .or_else(rebuilt)
            .into_iter()
            .for_each(|what| report(dependency, what));
    }
    findings
}

/// Checks the dependencies in the workspace's manifest, because crates inherit them.
fn check_workspace(source: &Source) -> Vec<Finding> {
    let Ok(manifest) = source.text.parse::<Table>() else {
        return vec![source.finding(0, "the manifest cannot be read")];
    };
    let workspace = manifest.get("workspace").and_then(Value::as_table);
    let all = workspace.into_iter().flat_map(|workspace| in_table(workspace, "dependencies"));
    let wrong = all.filter_map(|(name, value)| Some((name, renamed(name, value)?)));
    wrong.map(|(name, what)| source.finding(line_of(&source.text, name), what)).collect()
}

/// The dependencies of a crate for all targets, including the dependencies of its build script.
fn built_with(manifest: &Table) -> Vec<(&str, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let all = std::iter::once(manifest).chain(tables);
    all.flat_map(|table| in_table(table, "dependencies").chain(in_table(table, "build-dependencies")))
        .collect()
}

fn in_table<'m>(manifest: &'m Table, name: &str) -> impl Iterator<Item = (&'m str, &'m Value)> {
    let table = manifest.get(name).and_then(Value::as_table);
    table.into_iter().flatten().map(|(dependency, value)| (dependency.as_str(), value))
}

fn text_at<'m>(manifest: &'m Table, table: &str, key: &str) -> Option<&'m str> {
    manifest.get(table)?.get(key)?.as_str()
}

fn renamed(dependency: &str, value: &Value) -> Option<String> {
    let package = value.get("package")?.as_str().filter(|package| *package != dependency)?;
    Some(format!(
        "`{dependency}` is `{package}`: use its own name, so that this rule sees which crates know it"
    ))
}

fn wrong_edge(name: &str, other: &str) -> Option<String> {
    let (_, allowed) = EDGES.iter().find(|(this, _)| *this == name)?;
    (!allowed.contains(&other)).then(|| {
        format!("`{name}` may not depend on `enfilade-{other}`: move the code that needs it to a crate that may (ARCHITECTURE.md)")
    })
}

fn wrong_rebuilt(name: &str, dependency: &str) -> Option<String> {
    let (rebuilt, only) = REBUILT;
    (dependency == rebuilt && name != only).then(|| {
        format!("`{name}` may not depend on `{rebuilt}`, which imitates other servers: only `{only}` may")
    })
}

fn wrong_library(name: &str, library: &str) -> Option<String> {
    match crates_that_know(library) {
        None => Some(format!("say in xtask/src/tidy/edges.rs which crate may know `{library}`, and why")),
        Some(crates) if crates.contains(&"*") || crates.contains(&name) => None,
        Some(crates) => Some(format!(
            "`{name}` may not know `{library}`, only {} may: use the functions of those crates",
            crates.join(", ")
        )),
    }
}

/// The crates of this workspace that may use the library; `*` means all of them.
pub(super) fn crates_that_know(library: &str) -> Option<&'static [&'static str]> {
    LIBRARIES.iter().find(|(known, ..)| *known == library).map(|(_, crates, _)| *crates)
}

/// The number of the line that begins with exactly this key, or with the header of its own table (`[dependencies.KEY]`); 0 if there is none.
pub(super) fn line_of(text: &str, key: &str) -> usize {
    let is_key = |line: &str| {
        line.strip_prefix(key).is_some_and(|rest| rest.starts_with([' ', '=', '.']))
            || line.starts_with('[') && line.trim_end().ends_with(&format!("dependencies.{key}]"))
    };
    text.lines().position(is_key).map_or(0, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, tables: &str) -> Vec<usize> {
        let text = format!("[package]\nname = \"{name}\"\n{tables}\n");
        check_manifest(&Source::new("crates/x/Cargo.toml", text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn edges_and_libraries() {
        for (name, dependency, count) in [
            ("enfilade-access", "enfilade-identity", 0),
            ("enfilade-identity", "enfilade-access", 1),
            ("enfilade-facts", "enfilade-sources", 1),
            ("enfilade-sources", "enfilade-admin", 1),
            ("enfilade-passage", "enfilade-sources", 1),
            ("enfilade-faces", "enfilade-access", 1),
            ("enfilade-webdav", "enfilade-keystone", 1),
            ("enfilade-faces", "enfilade-webdav", 1),
            ("enfilade-proxmox", "enfilade-faces", 0),
            ("enfilade-admin", "enfilade-passage", 1),
            ("enfilade", "enfilade-access", 0),
            ("enfilade-cellar", "enfilade-facts", 1),
            ("enfilade-bench", "enfilade-peers", 0),
            ("enfilade", "enfilade-peers", 1),
            ("enfilade-testkit", "enfilade-peers", 1),
            ("enfilade-peers", "enfilade-facts", 1),
            ("enfilade-sources", "heed", 0),
            ("enfilade-passage", "heed", 1),
            ("enfilade-facts", "thiserror", 0),
            ("enfilade-facts", "left-pad", 1),
        ] {
            let table = format!("[dependencies]\n{dependency} = {{ workspace = true }}");
            assert_eq!(found(name, &table).len(), count, "{name} {dependency}");
        }
    }

    #[test]
    fn no_way_round() {
        let name = "enfilade-passage";
        assert_eq!(found(name, "[build-dependencies]\nheed = \"0\""), [4]);
        assert_eq!(found(name, "[target.'cfg(unix)'.dependencies]\nheed = \"0\""), [4]);
        assert_eq!(found(name, "[dependencies.heed]\nversion = \"0\""), [3]);
        assert_eq!(found(name, "[dependencies]\ntokio = { package = \"heed\" }"), [4]);
        assert_eq!(found(name, "[dev-dependencies]\nheed = \"0\"\nenfilade-testkit = \"0\"").len(), 0);
        assert_eq!(found("enfilade-facts", "[dev-dependencies]\nenfilade-sources = \"0\""), [4]);
        assert_eq!(found(name, "[dev-dependencies]\nenfilade-peers = \"0\""), [4]);
        let workspace = "[workspace.dependencies]\ntokio-rustls = \"0\"\ntokio = { package = \"heed\" }\n";
        assert_eq!(check_workspace(&Source::new("Cargo.toml", workspace))[0].line, 3);
    }
}
