//! Modules of one crate must not import each other in a circle. The files of a door that decides must import each other only in one order.

use super::imports::{Graph, Modules};
use super::{Finding, Source};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// The files of a door that decides. A file imports only files that are earlier in this list (ARCHITECTURE.md, "Inside a door").
const ROOMS: [&str; 6] = ["ask", "refuse", "view", "permit", "memo", "open"];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let rust = sources.iter().filter(|source| source.is_rust());
    let by_path: HashMap<&str, &Source> = rust.map(|source| (source.path.as_str(), source)).collect();
    for source in sources {
        let root = ["/src/lib.rs", "/src/main.rs"].iter().find_map(|root| source.path.strip_suffix(root));
        let Some(folder) = root else { continue };
        match Modules::read(source, &by_path) {
            Ok(modules) => {
                let graph = modules.graph();
                findings.extend(in_crate(&graph));
                let is_door = folder.starts_with("crates/door-");
                findings.extend(is_door.then(|| out_of_order(&graph)).into_iter().flatten());
            }
            Err((path, why)) => {
                let what = format!("its imports cannot be read: {why}");
                findings.push(Finding { path, line: 0, what });
            }
        }
    }
}

fn in_crate(graph: &Graph) -> Vec<Finding> {
    let circles: Vec<Vec<&str>> =
        graph.keys().filter_map(|module| shortest_way(graph, module, module)).collect();
    let mut findings = Vec::new();
    let mut named: BTreeSet<&str> = BTreeSet::new();
    for circle in &circles {
        // `circles` contains each circle once for each of its modules. Each circle is reported only once.
        if circle.iter().any(|module| !named.contains(module)) {
            let Some(first) = circle.first() else { continue };
            findings.extend(finding(graph, circle, first, circle_of));
            named.extend(circle);
        }
    }
    findings
}

fn circle_of(way: String) -> String {
    format!(
        "{way} is a circle of imports: decide which module is the lower one; then move the code that it needs from a higher module into a \
         module below both, or move the function that needs both into the higher module"
    )
}

/// Finds files of a door that import a later file of the order, directly or through another module.
fn out_of_order(graph: &Graph) -> Vec<Finding> {
    let pairs = ROOMS.iter().enumerate().flat_map(|(index, room)| {
        let above = ROOMS.iter().skip(index + 1);
        above.filter_map(|above| Some((shortest_way(graph, room, above)?, *above)))
    });
    let what = |way: String, above| {
        format!(
            "{way}: `{above}` comes later in the order of a door's files ({}); move the code that is needed into an earlier file",
            ROOMS.join(", ")
        )
    };
    pairs.filter_map(|(way, above)| finding(graph, &way, above, |text| what(text, above))).collect()
}

/// The shortest chain of imports from one module to another or to itself, without the last module.
fn shortest_way<'g>(graph: &'g Graph, from: &'g str, end: &str) -> Option<Vec<&'g str>> {
    let mut came_from: HashMap<&str, &str> = HashMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(here) = next.pop_front() {
        for to in graph.get(here)?.keys() {
            if to == end {
                let before = |here: &&str| came_from.get(here).copied();
                let mut way: Vec<&str> = std::iter::successors(Some(here), before).collect();
                way.reverse();
                return Some(way);
            }
            if to != from && !came_from.contains_key(to.as_str()) {
                came_from.insert(to, here);
                next.push_back(to);
            }
        }
    }
    None
}

/// The finding about a chain of imports, at its first import.
fn finding(graph: &Graph, way: &[&str], end: &str, what: impl FnOnce(String) -> String) -> Option<Finding> {
    let first = way.first()?;
    let second = way.get(1).copied().unwrap_or(end);
    let edge = graph.get(*first)?.get(second)?;
    let names = way.iter().copied().chain([end]).map(|module| format!("`{module}`"));
    let text = names.collect::<Vec<_>>().join(" -> ");
    Some(Finding { path: edge.path.clone(), line: edge.line, what: what(text) })
}

#[cfg(test)]
mod tests;
