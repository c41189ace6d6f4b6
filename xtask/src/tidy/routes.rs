//! Checks that every route needs a permit or is in one of these short lists (invariant E3).

use super::rust_text::{functions, line_at, words};
use super::{Finding, Source};

const HERE: &str = "xtask/src/tidy/routes.rs";

/// The only file that can construct a `Route`, because its fields are private.
const MAKERS: &str = "crates/faces/src/routes.rs";

/// A crate, and the name of one of its tables of routes.
type Table = (&'static str, &'static str);

/// The reviewed paths: they need no identity permit before their handler is called. The listener of `OPERATIONS` is not public.
const REVIEWED: [(Table, &[&str]); 8] = [
    (("crates/face-operations", "MAIN"), &["/.well-known/enfilade"]),
    (
        ("crates/face-operations", "OPERATIONS"),
        &["/metrics", "/livez", "/healthz", "/readyz", "/readyz/datastores"],
    ),
    (("crates/face-webdav", "ROUTES"), &["*", "/page.css", "/page.js"]),
    // The path `/access/ticket` is the login.
    (("crates/face-proxmox", "ROUTES"), &["/api2/json/ping", "/api2/json/access/ticket"]),
    // Only proxies and services that the operator named can ask for decisions (`knows_proxy`, `listen::decisions`). The handlers ask door 2 about the
    // visitor; for AuthZEN, the service has authenticated the user.
    (
        ("crates/face-decision", "ROUTES"),
        &[
            "/decide/nginx",
            "/decide/haproxy",
            "/decide/traefik",
            "/decide/caddy",
            "/decide/envoy",
            "/decide/envoy/",
            "/envoy.service.auth.v3.Authorization/Check",
            "/access/v1/evaluation",
            "/access/v1/evaluations",
            "/access/v1/search/subject",
            "/access/v1/search/resource",
            "/access/v1/search/action",
            "/.well-known/authzen-configuration",
            // The steps of signing in at an application's host. A code or a cookie is the credential.
            "/.enfilade/start",
            "/.enfilade/finish",
            "/.enfilade/sign-out",
        ],
    ),
    // The paths for signing in and out with a browser, and the keys for signed tokens.
    (
        ("crates/face-decision", "MAIN"),
        &["/.well-known/jwks.json", "/.enfilade/sign-in", "/.enfilade/sign-out"],
    ),
    // `/` and `/console` are redirects. Every page below `/console/` needs a session, except the page for signing in and the files that this page
    // loads. Every page below `/s/` needs the text of a link, which door 2 judges.
    (("crates/face-console", "ROUTES"), &["/", "/console", "/console/", "/s/"]),
    // Calls of the Identity API have a separate table.
    (("crates/face-keystone", "ROUTES"), &["/v3", "/v3/", "/"]),
];

/// The table of the Identity API, and its calls that need no session.
const V3_TABLE: &str = "crates/face-keystone/src/routes/table.rs";
const V3_PUBLIC: [(&str, &str); 6] = [
    ("GET", ""),
    ("POST", "/auth/tokens"),
    ("POST", "/users/{user_id}/password"),
    // Door 2 checks the signature of the consumer, like a login.
    ("POST", "/OS-OAUTH1/request_token"),
    ("POST", "/OS-OAUTH1/access_token"),
    ("POST", "/OS-OAUTH2/token"),
];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    match sources.iter().find(|source| source.path == MAKERS) {
        Some(makers) => findings.extend(made_by_hand(makers)),
        None => {
            let what = "the file is not there: routes are made in it".into();
            findings.push(Finding { path: MAKERS.into(), line: 0, what });
        }
    }
    findings.extend(sources.iter().filter(|source| source.path == V3_TABLE).flat_map(check_v3));
    let mut seen = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with("crates/") && source.path != MAKERS)
    {
        findings.extend(source.is_rust().then(|| check_open(source, &mut seen)).into_iter().flatten());
    }
    let reviewed = REVIEWED.iter().flat_map(|(table, paths)| paths.iter().map(move |path| (*table, *path)));
    for ((krate, table), path) in reviewed.filter(|route| !seen.contains(route)) {
        let what = format!("`{path}` is no open route of {table} in {krate} any more: take it out");
        findings.push(Finding { path: HERE.into(), line: 0, what });
    }
}

/// Checks that the routes that need no identity permit were reviewed.
fn check_open(source: &Source, seen: &mut Vec<(Table, &'static str)>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let code: Vec<usize> = source.code_lines().map(|(number, _)| number).collect();
    let all = ["Route::public(", "Route::own("].into_iter().flat_map(|maker| words(&source.code, maker));
    for at in all {
        let line = line_at(&source.code, at);
        if !code.contains(&line) {
            continue;
        }
        let argument =
            source.text.get(at..).and_then(|call| call.split_once('(')).map_or("", |(_, rest)| rest);
        let path = argument.trim_start().strip_prefix('"').and_then(|path| path.split('"').next());
        let Some(path) = path else {
            let what = "this route needs no permit: write its path as a string literal, so that the path can be compared with the reviewed list";
            findings.push(source.finding(line, what));
            continue;
        };
        let table = table_at(&source.code, at);
        let here = |reviewed: &Table| {
            reviewed.1 == table
                && source.path.strip_prefix(reviewed.0).is_some_and(|rest| rest.starts_with('/'))
        };
        let reviewed = REVIEWED.iter().filter(|(table, _)| here(table));
        let mut reviewed = reviewed.flat_map(|(table, paths)| paths.iter().map(move |path| (*table, *path)));
        match reviewed.find(|(_, one)| *one == path) {
            Some(route) => seen.push(route),
            None => {
                let what = format!(
                    "`{path}` of {table} needs no permit: make it guarded, or review it and add it to {HERE}"
                );
                findings.push(source.finding(line, what));
            }
        }
    }
    let renamed = source.code_lines().filter(|(_, line)| words(line, "Route as").next().is_some());
    let what = "`Route` has another name here, so this rule does not see its rows: use the name `Route`";
    findings.extend(renamed.map(|(number, _)| source.finding(number, what)));
    findings
}

/// Checks that the calls of the Identity API that need no session were reviewed.
fn check_v3(table: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for at in words(&table.code, "nobody(") {
        let line = line_at(&table.code, at);
        let is_definition = table.code.get(..at).is_some_and(|before| before.ends_with("fn "));
        let call = table.text.get(at..).unwrap_or_default();
        let texts: Vec<&str> = call.split('"').skip(1).step_by(2).take(2).collect();
        let is_reviewed = matches!(texts.as_slice(), [method, path] if V3_PUBLIC.contains(&(method, path)));
        if !is_definition && !is_reviewed {
            let what = "a call that needs no session: require a session, or review it and add it to xtask/src/tidy/routes.rs";
            findings.push(table.finding(line, what));
        }
    }
    findings
}

/// The name of the table, `const NAME`, that contains the offset.
fn table_at(code: &str, at: usize) -> &str {
    let before = code.get(..at).unwrap_or(code);
    let table = before.rsplit_once("const ").map_or("", |(_, table)| table);
    table.split(':').next().filter(|_| !table.contains("];")).unwrap_or_default()
}

/// Checks that routes are made only by the constructors of `Route`.
fn made_by_hand(makers: &Source) -> Vec<Finding> {
    let known: Vec<_> = functions(&makers.code)
        .into_iter()
        .filter(|f| {
            ["guarded", "public", "own", "only", "for_browsers", "of_datastore", "of_datastore_file", "says"]
                .contains(&f.name)
        })
        .collect();
    let literals = words(&makers.code, "Route {").chain(words(&makers.code, "Self {"));
    let by_hand = literals.filter(|at| {
        let before = makers.code.get(..*at).unwrap_or_default().trim_end();
        let is_type = ["struct", "impl", "for", "->"].iter().any(|word| before.ends_with(word));
        !is_type && !known.iter().any(|f| f.begin < *at && *at < f.end)
    });
    let what = "a route made by hand: make it with Route::guarded, Route::public or Route::own";
    by_hand.map(|at| makers.finding(line_at(&makers.code, at), what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE: &str = "pub struct Route {\n}\nimpl Route {\n    const fn guarded() -> Self {\n        Route { a }\n    }\n    \
                        const fn public() -> Self {\n        Self { b }\n    }\n    fn matches(&self) {}\n}\n";

    /// Sources in which all tables have their reviewed routes; the tables of `krate` also have the text `more`.
    fn tables(krate: &str, more: &str) -> Vec<Source> {
        let text = |(table, paths): &(Table, &[&str])| {
            let rows: String = paths
                .iter()
                .map(|path| format!("    Route::own(\n        \"{path}\",\n        x),\n"))
                .collect();
            let more = if table.0 == krate { more } else { "" };
            let name = table.1;
            (
                table.0,
                format!(
                    "pub const {name}: [Route; 9] = [\n{rows}{more}    Route::guarded(\"/dav/\", x),\n];\n"
                ),
            )
        };
        let mut sources = vec![Source::new(MAKERS, MADE)];
        for (number, (krate, text)) in REVIEWED.iter().map(text).enumerate() {
            sources.push(Source::new(format!("{krate}/src/a{number}.rs"), text));
        }
        sources
    }

    fn found(sources: &[Source]) -> Vec<String> {
        let mut findings = Vec::new();
        check(sources, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_route_without_a_permit_has_to_be_reviewed() {
        let with = |krate: &str, row: &str| found(&tables(krate, row)).len();
        assert_eq!(found(&tables("", "")), [""; 0]);
        for (row, count) in [
            ("    Route::public(\"/secrets\", x),\n", 1),
            ("    Route::own(\n        \"/secrets\",\n        x,\n    ),\n", 1),
            ("    Route::own(SECRETS, x),\n", 1),
            ("    Route::own(\"/metrics\", x),\n", 1),
            ("    Route::own(\"/page.css\", x),\n", 0),
            ("    Route::guarded(\"/secrets\", x),\n", 0),
        ] {
            assert_eq!(with("crates/face-webdav", row), count, "{row}");
        }
        let beyond = "pub fn x() {\n    Route::public(\"/page.css\", x);\n}\n";
        for (path, text, count) in [
            ("crates/face-webdav/src/x.rs", beyond, 1),
            ("crates/face-x/src/x.rs", "const ROUTES: [Route; 1] = [\n    Route::own(\"*\", x),\n];\n", 1),
            ("crates/face-x/src/x.rs", "use enfilade_faces::Route as R;\n", 1),
            ("crates/face-x/src/x.rs", "#[cfg(test)]\nmod tests {\n    Route::own(\"/x\", x);\n}\n", 0),
        ] {
            let mut sources = tables("", "");
            sources.push(Source::new(path, text));
            assert_eq!(found(&sources).len(), count, "{text}");
        }
        // All tables except the last one.
        let gone = found(&tables("", "").into_iter().take(REVIEWED.len()).collect::<Vec<_>>());
        assert_eq!(gone.len(), 3, "{gone:?}");
    }

    #[test]
    fn what_needs_nobody_in_the_identity_api_was_reviewed() {
        let found = |row: &str| {
            let text = format!("const fn nobody(\n    method: &str) {{}}\nconst V3: [R; 1] = [\n{row}\n];\n");
            check_v3(&Source::new(V3_TABLE, text)).len()
        };
        assert_eq!(found("    nobody(\n        \"POST\",\n        \"/auth/tokens\",\n        X),"), 0);
        assert_eq!(found("    nobody(\"GET\", \"\", X, \"version\"),"), 0);
        assert_eq!(found("    nobody(\"GET\", \"/auth/tokens\", X),"), 1);
        assert_eq!(found("    nobody(METHOD, PATH, X),"), 1);
    }

    #[test]
    fn a_route_is_made_by_its_functions() {
        let found = |more: &str| made_by_hand(&Source::new(MAKERS, format!("{MADE}{more}"))).len();
        assert_eq!(found(""), 0);
        assert_eq!(found("const X: Route = Route { path: \"/x\", need: Need::Public(Y) };\n"), 1);
        assert_eq!(found("impl Route {\n    fn x() -> Self {\n        Self { a }\n    }\n}\n"), 1);
        let mut findings = Vec::new();
        check(&[], &mut findings);
        assert!(findings.iter().any(|finding| finding.path == MAKERS), "{findings:?}");
    }
}
