//! Every route needs a permit or stands in these short lists (invariant E3).

use super::rust_text::{functions, line_at, words};
use super::{Finding, Source};

const TABLE: &str = "crates/faces/src/routes.rs";

/// Reviewed: what anybody may ask, by the listener's table. The operations listener is not for the world.
const PUBLIC: [(&str, &[&str]); 2] = [
    ("MAIN", &["/.well-known/enfilade", "/page.css", "/page.js", "/api2/json/ping"]),
    ("OPERATIONS", &["/metrics", "/livez", "/healthz", "/readyz"]),
];

/// The table of the Identity API, and of it what nobody has to be known for.
const V3_TABLE: &str = "crates/faces/src/keystone/routes/table.rs";
const V3_PUBLIC: [(&str, &str); 3] =
    [("GET", ""), ("POST", "/auth/tokens"), ("POST", "/users/{user_id}/password")];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let Some(table) = sources.iter().find(|source| source.path == TABLE) else {
        let what = "there is no table of routes: every route stands in this file".into();
        findings.push(Finding { path: TABLE.into(), line: 0, what });
        return;
    };
    findings.extend(check_public(table));
    findings.extend(made_by_hand(table));
    findings.extend(check_login(table));
    findings.extend(sources.iter().filter(|source| source.path == V3_TABLE).flat_map(check_v3));
    let others = sources.iter().filter(|source| source.path.starts_with("crates/") && source.path != TABLE);
    for source in others.filter(|source| source.is_rust()) {
        let made = ["Route {", "Route::public(", "Route::guarded("];
        let lines = source
            .code_lines()
            .filter(|(_, line)| made.iter().any(|word| words(line, word).next().is_some()));
        let what = "a route outside the table: move it to crates/faces/src/routes.rs";
        findings.extend(lines.map(|(number, _)| source.finding(number, what)));
    }
}

/// The public routes of each table are those that were reviewed.
fn check_public(table: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for at in words(&table.code, "Route::public(") {
        let line = line_at(&table.code, at);
        let listener = listener_at(&table.code, at);
        let argument =
            table.text.get(at..).and_then(|call| call.split_once('(')).map_or("", |(_, rest)| rest);
        let path = argument.trim_start().strip_prefix('"').and_then(|path| path.split('"').next());
        let Some(path) = path else {
            findings.push(
                table.finding(line, "a public route's path is written out, so that it can be reviewed"),
            );
            continue;
        };
        if !PUBLIC.iter().any(|(name, paths)| *name == listener && paths.contains(&path)) {
            let what = format!(
                "`{path}` of {listener} needs no permit: make it guarded, or have it reviewed into xtask/src/tidy/routes.rs"
            );
            findings.push(table.finding(line, what));
        }
        seen.push((listener, path));
    }
    let reviewed = PUBLIC.iter().flat_map(|(name, paths)| paths.iter().map(move |path| (*name, *path)));
    let gone = reviewed.filter(|route| !seen.contains(route));
    let what =
        |path| format!("`{path}` is no public route any more: take it out of xtask/src/tidy/routes.rs");
    findings.extend(gone.map(|(_, path)| table.finding(0, what(path))));
    findings
}

/// There is one place beside the Identity API where one becomes known.
fn check_login(table: &Source) -> Vec<Finding> {
    let calls = words(&table.code, "Route::login(").filter(|at| {
        let call = table.text.get(*at..).unwrap_or_default();
        call.split('"').nth(1) != Some("/api2/json/access/ticket")
    });
    let what = "a place to log in at: have it reviewed into xtask/src/tidy/routes.rs";
    calls.map(|at| table.finding(line_at(&table.code, at), what)).collect()
}

/// What needs nobody in the Identity API was reviewed.
fn check_v3(table: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for at in words(&table.code, "nobody(") {
        let line = line_at(&table.code, at);
        let is_definition = table.code.get(..at).is_some_and(|before| before.ends_with("fn "));
        let call = table.text.get(at..).unwrap_or_default();
        let texts: Vec<&str> = call.split('"').skip(1).step_by(2).take(2).collect();
        let is_reviewed = matches!(texts.as_slice(), [method, path] if V3_PUBLIC.contains(&(method, path)));
        if !is_definition && !is_reviewed {
            let what = "a call that needs nobody: make it one for a session, or have it reviewed into xtask/src/tidy/routes.rs";
            findings.push(table.finding(line, what));
        }
    }
    findings
}

/// The name of the table, `const NAME`, that the offset is in.
fn listener_at(code: &str, at: usize) -> &str {
    let before = code.get(..at).unwrap_or(code);
    let table = before.rsplit_once("const ").map_or("", |(_, table)| table);
    table.split(':').next().filter(|_| !table.contains("];")).unwrap_or_default()
}

/// A route that none of the two functions made says nothing about what it needs.
fn made_by_hand(table: &Source) -> Vec<Finding> {
    let makers: Vec<_> = functions(&table.code)
        .into_iter()
        .filter(|f| ["guarded", "public", "login", "v3"].contains(&f.name))
        .collect();
    let literals = words(&table.code, "Route {").chain(words(&table.code, "Self {"));
    let by_hand = literals.filter(|at| {
        let before = table.code.get(..*at).unwrap_or_default().trim_end();
        let is_type = ["struct", "impl", "for", "->"].iter().any(|word| before.ends_with(word));
        !is_type && !makers.iter().any(|f| f.begin < *at && *at < f.end)
    });
    let what = "a route made by hand: make it with Route::guarded or Route::public";
    by_hand.map(|at| table.finding(line_at(&table.code, at), what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKERS: &str = "pub struct Route {\n}\nimpl Route {\n    const fn guarded() -> Self {\n        Route { a }\n    }\n    \
                          const fn public() -> Self {\n        Self { b }\n    }\n    fn matches(&self) {}\n}\n";

    fn tables() -> String {
        let table = |(name, paths): &(&str, &[&str])| {
            let lines = paths.iter().map(|path| format!("    Route::public(\"{path}\", Public::X),\n"));
            let lines = lines.collect::<String>();
            format!(
                "pub const {name}: [Route; 9] = [\n{lines}    Route::guarded(\"/dav/\", Guarded::X),\n];\n"
            )
        };
        format!("{MAKERS}{}", PUBLIC.iter().map(table).collect::<String>())
    }

    fn found(text: &str) -> usize {
        let mut findings = Vec::new();
        check(&[Source::new(TABLE, text)], &mut findings);
        findings.len()
    }

    #[test]
    fn a_public_route_has_to_be_reviewed() {
        let tables = tables();
        let with = |entry: &str| {
            found(&tables.replacen(
                "    Route::guarded(\"/dav/",
                &format!("{entry}    Route::guarded(\"/dav/"),
                1,
            ))
        };
        assert_eq!(found(&tables), 0);
        assert_eq!(with("    Route::public(\"/secrets\", Public::X),\n"), 1);
        assert_eq!(with("    Route::public(\n        \"/secrets\",\n        Public::X,\n    ),\n"), 1);
        assert_eq!(with("    Route::public(SECRETS, Public::X),\n"), 1);
        assert_eq!(with("    Route::public(\"/metrics\", Public::X),\n"), 1, "on the wrong listener");
        assert_eq!(with("    Route::login(\"/api2/json/access/ticket\"),\n"), 0);
        assert_eq!(with("    Route::login(\"/secrets\"),\n"), 1);
        assert_eq!(found(&tables.replacen("/metrics", "/metric", 1)), 2);
        assert_eq!(
            found(&format!("{tables}pub fn x() {{\n    Route::public(\"/metrics\", Public::X);\n}}\n")),
            1
        );
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
    fn a_route_is_made_in_the_table() {
        let tables = tables();
        assert_eq!(
            found(&format!("{tables}const X: Route = Route {{ path: \"/x\", need: Need::Public(Y) }};\n")),
            1
        );
        assert_eq!(
            found(&format!(
                "{tables}impl Route {{\n    fn x() -> Self {{\n        Self {{ a }}\n    }}\n}}\n"
            )),
            1
        );
        let mut findings = Vec::new();
        let other = Source::new(
            "crates/faces/src/serve.rs",
            "let r = Route { path, need };\nlet t = MyRoute { x };\n",
        );
        check(&[Source::new(TABLE, tables), other], &mut findings);
        assert_eq!(findings.len(), 1);
        check(&[], &mut findings);
        assert_eq!(findings.len(), 2, "no table");
    }
}
