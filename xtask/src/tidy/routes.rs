//! Every route needs a permit or stands in this short list (invariant E3).

use super::{Finding, Source};

/// Reviewed: what anybody may ask.
const PUBLIC: [&str; 5] = ["/.well-known/enfilade", "/metrics", "/livez", "/healthz", "/readyz"];

const TABLE: &str = "crates/faces/src/routes.rs";

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    match sources.iter().find(|source| source.path == TABLE) {
        Some(source) => findings.extend(check_table(source)),
        None => {
            findings.push(Finding { path: TABLE.into(), line: 0, what: "there is no table of routes".into() })
        }
    }
}

fn check_table(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for (number, line) in source.code() {
        if let Some(rest) = line.trim().strip_prefix("Route::public(\"") {
            let path = rest.split('"').next().unwrap_or_default();
            if !PUBLIC.contains(&path) {
                let what = format!(
                    "`{path}` needs no permit and is not in the reviewed list in xtask/src/tidy/routes.rs"
                );
                findings.push(source.finding(number, what));
            }
            seen.push(path.to_owned());
        } else if line.trim().starts_with("Route {") && !line.contains("need: Need::") {
            findings.push(source.finding(number, "a route is made by Route::guarded or Route::public"));
        }
    }
    let gone = PUBLIC.iter().filter(|path| !seen.iter().any(|seen| seen == *path));
    findings.extend(
        gone.map(|path| {
            source.finding(0, format!("`{path}` is reviewed as public but is no route any more"))
        }),
    );
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_route_has_to_be_reviewed() {
        let lines = PUBLIC.map(|path| format!("    Route::public(\"{path}\", Public::X),\n")).concat();
        let table = |text: String| check_table(&Source { path: TABLE.into(), text }).len();
        assert_eq!(table(lines.clone()), 0);
        assert_eq!(table(format!("{lines}    Route::public(\"/secrets\", Public::X),\n")), 1);
        assert_eq!(table(lines.replacen("/metrics", "/metric", 1)), 2);
    }
}
