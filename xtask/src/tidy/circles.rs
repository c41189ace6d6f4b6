//! Modules of one crate do not import each other in a circle: of two modules, one is lower.

use super::imports::{Graph, Modules};
use super::{Finding, Source};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// The circles that are left: crate, and its modules that are in one. This list only gets shorter; nothing else excuses a circle.
const LEFT: [(&str, &[&str]); 5] = [
    (
        "crates/door-5-content",
        &["abandoned", "acl", "collection", "list", "names", "node", "properties", "root", "temporary"],
    ),
    (
        "crates/faces",
        &[
            "body",
            "head",
            "keystone",
            "keystone::groups",
            "keystone::users",
            "operations",
            "proxmox",
            "proxmox::ticket",
            "respond",
            "serve",
            "trace",
            "unread",
            "webdav",
            "webdav::access_control",
            "webdav::get",
            "webdav::multistatus",
            "webdav::page",
            "webdav::parts",
            "webdav::propfind_request",
            "webdav::xml",
            "whoami",
        ],
    ),
    (
        "crates/facts",
        &[
            "change",
            "codec",
            "format",
            "horizon",
            "journal",
            "source",
            "tables",
            "tables::assignments",
            "tables::blobs",
            "tables::credentials",
            "tables::datastores",
            "tables::endings",
            "tables::files",
            "tables::grants",
            "tables::identities",
            "tables::log",
            "tables::memberships",
            "tables::projects",
            "tables::reverse",
            "tables::revocations",
            "tables::taking",
            "tables::trusts",
            "view",
        ],
    ),
    (
        "crates/passage",
        &[
            "holding",
            "house",
            "listing",
            "lock_owners",
            "sessions",
            "shares",
            "stores",
            "trees",
            "verbs",
            "walk",
        ],
    ),
    ("crates/sources", &["lmdb::environment", "lmdb::newest", "lmdb::reading"]),
];

const HERE: &str = "xtask/src/tidy/circles.rs";

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    findings.extend(circles(sources, &LEFT));
}

fn circles(sources: &[Source], left: &[(&str, &[&str])]) -> Vec<Finding> {
    let rust = sources.iter().filter(|source| source.is_rust());
    let by_path: HashMap<&str, &Source> = rust.map(|source| (source.path.as_str(), source)).collect();
    let mut findings = Vec::new();
    for source in sources {
        let root = ["/src/lib.rs", "/src/main.rs"].iter().find_map(|root| source.path.strip_suffix(root));
        let Some(folder) = root else { continue };
        let excused = left.iter().filter(|(krate, _)| *krate == folder).flat_map(|(_, modules)| *modules);
        let excused = excused.copied().collect();
        match Modules::read(source, &by_path) {
            Ok(modules) => findings.extend(in_crate(folder, &modules.graph(), &excused)),
            Err((path, why)) => {
                let what = format!("its imports cannot be read: {why}");
                findings.push(Finding { path, line: 0, what });
            }
        }
    }
    findings
}

fn in_crate(folder: &str, graph: &Graph, excused: &BTreeSet<&str>) -> Vec<Finding> {
    let circles: Vec<Vec<&str>> = graph.keys().filter_map(|module| shortest_circle(graph, module)).collect();
    let is_in_one = |module: &str| circles.iter().any(|circle| circle.contains(&module));
    let mut findings = Vec::new();
    let mut named: BTreeSet<&str> = BTreeSet::new();
    for circle in &circles {
        // A circle is found once for each of its modules.
        let is_new = circle.iter().any(|module| !named.contains(module));
        if is_new && circle.iter().any(|module| !excused.contains(module)) {
            findings.extend(finding(graph, circle));
            named.extend(circle);
        }
    }
    for module in excused.iter().filter(|module| !is_in_one(module)) {
        let what = format!("`{module}` of {folder} is in no circle of imports: take it out of LEFT");
        findings.push(Finding { path: HERE.to_owned(), line: 0, what });
    }
    findings
}

/// The shortest way over imports from the module to itself, without its end.
fn shortest_circle<'g>(graph: &'g Graph, module: &'g str) -> Option<Vec<&'g str>> {
    let mut came_from: HashMap<&str, &str> = HashMap::new();
    let mut next = VecDeque::from([module]);
    while let Some(here) = next.pop_front() {
        for to in graph.get(here)?.keys() {
            if to == module {
                let before = |here: &&str| came_from.get(here).copied();
                let mut circle: Vec<&str> = std::iter::successors(Some(here), before).collect();
                circle.reverse();
                return Some(circle);
            }
            if !came_from.contains_key(to.as_str()) {
                came_from.insert(to, here);
                next.push_back(to);
            }
        }
    }
    None
}

fn finding(graph: &Graph, circle: &[&str]) -> Option<Finding> {
    let (first, second) = (circle.first()?, circle.get(1)?);
    let edge = graph.get(*first)?.get(*second)?;
    let way = circle.iter().chain([first]).map(|module| format!("`{module}`"));
    let way = way.collect::<Vec<_>>().join(" -> ");
    let what = format!(
        "{way} is a circle of imports: decide which module is lower, and move what it needs of a higher one into a module below both, \
         or the function that needs both into the higher one"
    );
    Some(Finding { path: edge.path.clone(), line: edge.line, what })
}

#[cfg(test)]
mod tests;
