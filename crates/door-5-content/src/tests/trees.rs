//! Tests of the tree walk, and of the propagation of ACLs.

use super::{Scratch, code};
use crate::{
    Member, Met, Node, Outcome, Propagator, Refusal, TreeBudget, TreePath, TreeWalk, acl_write,
    propagate_acl, propagate_acl_beneath,
};
use enfilade_access::{
    Ace, AceFlags, AceType, NodeKind, PropagationBy, PropagationPermit, SecurityDescriptor, Subject,
};
use enfilade_facts::vocabulary::{AccessMask, Sid, StorePath};
use std::cell::Cell;

/// Everything that a tree walk in the order of names yields. The tree walk enters each directory except `but`.
fn met<P: TreePath>(top: P, node: Node, budget: &TreeBudget<'_>, but: &str) -> Vec<String> {
    let mut walk = TreeWalk::begin(budget);
    walk.enter_as_operator(top, node, ()).unwrap();
    walk.sort().unwrap();
    let mut met = Vec::new();
    while let Some((directory, next)) = walk.next() {
        met.push(match next {
            Met::Member(Member { path, name, node }) => {
                let told = format!("{path}");
                assert!(told.ends_with(name.as_str()), "{told}");
                if node.kind() == NodeKind::Directory && name != but {
                    walk.enter_as_operator(path, node, ()).unwrap();
                    walk.sort().unwrap();
                }
                told
            }
            Met::Leave(_) => format!("leave {}", directory.path),
            Met::TooLong(name) => format!("too long: {name}"),
            Met::Unserved => "not served".to_owned(),
            Met::Failed { what, path, why } => format!("{what:?} {path}: {why}"),
        });
    }
    met
}

#[test]
fn each_member_is_met_once_and_a_directory_is_left_after_what_is_in_it() {
    let scratch = Scratch::new();
    ["a/x", "a/b/y", "c", "d/z"].iter().for_each(|path| scratch.write(path, "four"));
    std::os::unix::fs::symlink("c", scratch.at("link")).unwrap();
    let budget = TreeBudget::unlimited();
    let all = met(String::new(), scratch.node(""), &budget, "d");
    assert_eq!(all, ["a", "a/b", "a/b/y", "leave a/b", "a/x", "leave a", "c", "d", "leave "]);

    let mut walk = TreeWalk::begin(&budget);
    walk.enter_as_operator(StorePath::root(), scratch.node(""), ()).unwrap();
    let (mut files, mut bytes) = (0, 0);
    while let Some((directory, entry)) = walk.next_unopened().unwrap() {
        match entry.kind {
            NodeKind::File => (files, bytes) = (files + 1, bytes + entry.bytes),
            NodeKind::Directory => walk.enter_unopened(&directory, &entry, ()).unwrap(),
        }
    }
    assert_eq!((files, bytes), (4, 16));
    assert_eq!(code(walk.enter_as_operator(StorePath::root(), scratch.node("c"), ())), "CT04");
}

#[test]
fn a_request_meets_no_path_that_is_too_long_and_the_operator_does() {
    let scratch = Scratch::new();
    let deep = vec!["d"; 66].join("/");
    scratch.directory(&deep);
    let budget = TreeBudget::unlimited();
    let by_request = met(StorePath::root(), scratch.node(""), &budget, "");
    assert_eq!((by_request.len(), by_request[64].as_str()), (64 + 1 + 65, "too long: d"));
    assert_eq!(met(String::new(), scratch.node(""), &budget, "").len(), 66 + 67);
}

#[test]
fn a_budget_ends_a_walk() {
    let scratch = Scratch::new();
    ["a/x", "b", "c"].iter().for_each(|path| scratch.write(path, ""));
    let time = "Budget /b: the tree was not processed to its end: the request takes longer than the limit `tree_seconds`";
    // The milliseconds by which the clock advances at each reading, and the number of members after which the client disconnects.
    for (millis, waits, expected) in [
        (1, 9, vec!["/a", "/a/x", "leave /a", "/b", "/c", "leave /"]),
        (400, 9, vec!["/a", "/a/x", "leave /a", time]),
        (1, 0, vec!["Budget /a: the tree was not processed to its end: the client disconnected"]),
    ] {
        let (now, asked) = (Cell::new(0), Cell::new(0));
        let clock = || {
            now.set(now.get() + millis);
            now.get()
        };
        let keep_going = || asked.replace(asked.get() + 1) < waits;
        let budget = TreeBudget::new(2, 1, clock, &keep_going);
        assert_eq!(met(StorePath::root(), scratch.node(""), &budget, ""), expected);
        assert_eq!(
            [budget.count(), budget.count(), budget.count()].map(code),
            ["granted", "granted", "CT17"]
        );
        budget.renew();
        assert_eq!(code(budget.count()), "granted");
    }
}

/// A propagator that refuses the path `but`, and records every outcome.
struct Told {
    but: &'static str,
    is_dry_run: bool,
    all: Vec<String>,
}

impl Propagator<String> for Told {
    type Refusal = Refusal;

    fn permit(&mut self, path: &String, subject: &Subject) -> Result<PropagationPermit, Refusal> {
        match path == self.but {
            true => Err(Refusal::Absent(path.clone())),
            false => Ok(PropagationPermit::new(PropagationBy::Operator(subject.object))),
        }
    }

    fn tell(&mut self, path: String, outcome: Outcome<Refusal>) {
        let outcome = match outcome {
            Outcome::Refused(why) => format!("Refused: {why}"),
            other => format!("{other:?}").split('(').next().unwrap_or_default().to_owned(),
        };
        self.all.push(format!("{path} {outcome}"));
    }

    fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }
}

fn entry(flags: u8, mask: u32) -> Ace {
    Ace { kind: AceType::Allow, flags: AceFlags(flags), mask: AccessMask(mask), sid: Sid::EVERYONE }
}

fn acl_of(scratch: &Scratch, path: &str) -> Option<Vec<Ace>> {
    scratch.node(path).subject().descriptor().unwrap().and_then(|descriptor| descriptor.dacl)
}

#[test]
fn an_acl_is_propagated_to_everything_that_is_not_protected_refused_or_damaged() {
    let scratch = Scratch::new();
    ["a/x", "p/x", "r/x", "damaged", "own"].iter().for_each(|path| scratch.write(path, ""));
    let everywhere = AceFlags::FILES | AceFlags::DIRECTORIES;
    let above = SecurityDescriptor {
        owner: Some(Sid::ADMINISTRATORS),
        dacl: Some(vec![entry(everywhere, 1)]),
        ..SecurityDescriptor::default()
    };
    let put = |path: &str, descriptor: &SecurityDescriptor| {
        acl_write::change(&scratch.node(path), &descriptor.to_ntacl().unwrap()).unwrap();
    };
    put("p", &SecurityDescriptor { is_protected: true, ..above.clone() });
    put("own", &SecurityDescriptor { dacl: Some(vec![entry(0, 2)]), ..above.clone() });
    acl_write::change(&scratch.node("damaged"), b"no acl").unwrap();
    let expected = [
        "a Changed",
        "a/x Changed",
        "damaged Damaged",
        "own Changed",
        "p Protected",
        "r Refused: `r` does not exist",
    ];
    let again =
        ["a Same", "a/x Same", "damaged Damaged", "own Same", "p Protected", "r Refused: `r` does not exist"];
    for (is_dry_run, expected) in [(true, expected), (false, expected), (false, again)] {
        let mut told = Told { but: "r", is_dry_run, all: Vec::new() };
        let (top, budget) = ((String::new(), scratch.node("")), TreeBudget::unlimited());
        propagate_acl_beneath(above.clone(), top, &budget, &mut told);
        told.all.sort();
        assert_eq!(told.all, expected);
        assert_eq!(acl_of(&scratch, "a/x").is_none(), is_dry_run);
    }
    let inherited = entry(AceFlags::INHERITED, 1);
    assert_eq!(acl_of(&scratch, "a/x"), Some(vec![inherited]));
    assert_eq!(acl_of(&scratch, "own"), Some(vec![entry(0, 2), inherited]));
    assert_eq!((acl_of(&scratch, "p/x"), acl_of(&scratch, "r/x")), (None, None));
}

#[test]
fn a_budget_ends_a_propagation_and_names_where() {
    let scratch = Scratch::new();
    ["a/1", "a/2", "a/3"].iter().for_each(|path| scratch.write(path, ""));
    let above = SecurityDescriptor {
        dacl: Some(vec![entry(AceFlags::FILES | AceFlags::DIRECTORIES, 1)]),
        ..SecurityDescriptor::default()
    };
    let asked = Cell::new(0);
    let twice = || asked.replace(asked.get() + 1) < 2;
    for (entries, keep_going) in [(2, &(|| true) as &dyn Fn() -> bool), (9, &twice)] {
        let mut told = Told { but: "none", is_dry_run: true, all: Vec::new() };
        let budget = TreeBudget::new(entries, 60, || 0, keep_going);
        propagate_acl(&above, ("a".to_owned(), scratch.node("a")), &budget, &mut told);
        assert_eq!(told.all.len(), 4, "{:?}", told.all);
        assert!(told.all[3].contains("was not processed to its end"), "{:?}", told.all);
    }
}
