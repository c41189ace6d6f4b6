//! The naive reference: a tree as a map, and the effects of acts on it.

use crate::world::Dice;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    Alice,
    Bob,
}

/// The ACL of an entry. New entries in it inherit the same ACL, except in `Shut`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acl {
    /// Both actors may do everything.
    Both,
    /// Alice may do everything, and Bob does not see the entry. `OnlyBob` is the reverse.
    OnlyAlice,
    OnlyBob,
    /// Alice may read the entry, and Bob may do everything. `BobReads` is the reverse.
    AliceReads,
    BobReads,
    /// Both may do everything with the entry, but nothing with new entries in it.
    Shut,
    /// The ACL of new entries in `Shut`: neither user sees them.
    Neither,
    /// A malformed ACL.
    Hurt,
}

/// In a tree of 30 entries, each of the six ACLs in `OTHERS` occurs once on average, and `Both` occurs 24 times.
const THINGS: usize = 30;
const OTHERS: [Acl; 6] = [Acl::OnlyAlice, Acl::OnlyBob, Acl::AliceReads, Acl::BobReads, Acl::Shut, Acl::Hurt];

impl Acl {
    pub(crate) const EVERY: [Acl; 8] = [
        Acl::Both,
        Acl::OnlyAlice,
        Acl::OnlyBob,
        Acl::AliceReads,
        Acl::BobReads,
        Acl::Shut,
        Acl::Neither,
        Acl::Hurt,
    ];

    pub(crate) fn is_seen(self, by: Actor) -> bool {
        match self {
            Acl::Both | Acl::AliceReads | Acl::BobReads | Acl::Shut => true,
            Acl::OnlyAlice => by == Actor::Alice,
            Acl::OnlyBob => by == Actor::Bob,
            Acl::Neither | Acl::Hurt => false,
        }
    }

    /// Whether the actor may change and delete the entry, and create entries in it.
    pub(crate) fn is_free(self, by: Actor) -> bool {
        let only_reads = if by == Actor::Alice { Acl::AliceReads } else { Acl::BobReads };
        self.is_seen(by) && self != only_reads
    }

    fn handed_on(self) -> Acl {
        if self == Acl::Shut { Acl::Neither } else { self }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thing {
    pub(crate) acl: Acl,
    /// The content of a file; `None` for a directory.
    pub(crate) content: Option<String>,
    /// The owner of an exclusive lock on the entry.
    pub(crate) lock: Option<Actor>,
}

/// The entries by path. A path consists of names with slashes between them; the path of the root is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree(pub(crate) BTreeMap<String, Thing>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Delete(String),
    Move { from: String, to: String, overwrite: bool },
    Copy { from: String, to: String, overwrite: bool },
    Put(String),
    MakeDirectory(String),
    Lock(String),
}

/// `Err` means that the act was refused. `Ok` means that the act was done, except for these members.
pub(crate) type Outcome = Result<BTreeSet<String>, ()>;

/// The files on disk; directories have no content.
pub(crate) type Disk = BTreeMap<String, Option<String>>;

const DIRECTORIES: [&str; 5] = ["s", "s/d", "s/d/e", "t", "t/d"];
const FILES: [&str; 8] = ["s/1", "s/2", "s/d/3", "s/d/e/4", "t/5", "t/1", "t/d/6", "u"];
const NEW: [&str; 7] = ["n", "s/n", "s/d/n", "t/n", "t/d/n", "s/d/e/n", "t/d/m"];

pub(crate) fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Act {
    /// A random act. The second actor can also act on a single entry, for example with a PUT or a LOCK.
    pub(crate) fn random(dice: &mut Dice, tree: &Tree, is_second: bool) -> Act {
        let there: Vec<&String> = tree.0.keys().filter(|path| !path.is_empty()).collect();
        let some = |dice: &mut Dice| there[dice.below(there.len())].clone();
        let any = |dice: &mut Dice| match dice.below(4) {
            0 => NEW[dice.below(NEW.len())].to_owned(),
            1 => some(dice),
            _ => ["s", "t", "t/d", "n"][dice.below(4)].to_owned(),
        };
        let top = |dice: &mut Dice| match dice.below(5) {
            0 => some(dice),
            _ => ["s", "s", "s/d", "t", "t/d"][dice.below(5)].to_owned(),
        };
        let overwrite = dice.below(8) > 0;
        match dice.below(if is_second { 12 } else { 6 }) {
            0 | 1 => Act::Move { from: top(dice), to: any(dice), overwrite },
            2 | 3 => Act::Copy { from: top(dice), to: any(dice), overwrite },
            4 | 5 => Act::Delete(top(dice)),
            6..=8 => Act::Put(match dice.below(2) {
                0 => NEW[dice.below(NEW.len())].to_owned(),
                _ => some(dice),
            }),
            9 => Act::MakeDirectory(NEW[dice.below(NEW.len())].to_owned()),
            10 => Act::Lock(some(dice)),
            _ => Act::Move { from: some(dice), to: any(dice), overwrite },
        }
    }

    /// A MOVE of a directory by the first actor, and an act of the second actor that writes below this directory at the same time. In half of the
    /// cases the first actor does not see the new object. In these cases the MOVE must be undone, and the second actor has a next act, which uses the
    /// old name.
    pub(crate) fn around_a_move(dice: &mut Dice, tree: &mut Tree) -> Option<([Act; 2], Option<Act>)> {
        let directories: Vec<&str> = DIRECTORIES
            .into_iter()
            .filter(|path| tree.0.get(*path).is_some_and(|thing| thing.content.is_none()))
            .collect();
        let from = (*directories.get(dice.below(directories.len()))?).to_owned();
        let to = ["n", "n", "u", "t/n"][dice.below(4)].to_owned();
        let new = format!("{from}/n");
        let below: Vec<String> = tree.beneath(&from);
        let put = match dice.below(5) {
            0 => Act::MakeDirectory(new),
            1 => Act::Copy { from: "u".to_owned(), to: new, overwrite: true },
            2 => Act::Put(below.get(dice.below(below.len())).cloned().unwrap_or(new)),
            _ => Act::Put(new),
        };
        let is_hidden = dice.below(2) == 0;
        if is_hidden {
            for path in [vec![from.clone()], below].concat() {
                let thing = tree.0.get_mut(&path)?;
                (thing.lock, thing.acl) = (None, if path == from { Acl::Shut } else { Acl::Both });
            }
        }
        let then = is_hidden.then(|| Act::MakeDirectory(from.clone()));
        Some(([Act::Move { from, to, overwrite: true }, put], then))
    }

    /// The paths of the act.
    fn paths(&self) -> Vec<&str> {
        match self {
            Act::Delete(path) | Act::Put(path) | Act::MakeDirectory(path) | Act::Lock(path) => vec![path],
            Act::Move { from, to, .. } | Act::Copy { from, to, .. } => vec![from, to],
        }
    }

    /// Whether the act touches none of these paths.
    fn is_elsewhere(&self, paths: &[&str]) -> bool {
        let touches = |own: &&str| paths.iter().any(|path| is_within(own, path) || is_within(path, own));
        !self.paths().iter().any(touches)
    }

    /// Whether the act may remove content from a path, or move it to another path.
    fn takes_away(&self, path: &str) -> bool {
        match self {
            Act::Delete(gone) | Act::Put(gone) => is_within(path, gone),
            Act::Move { from, to, .. } => is_within(path, from) || is_within(path, to),
            Act::Copy { to, .. } => is_within(path, to),
            Act::MakeDirectory(_) | Act::Lock(_) => false,
        }
    }
}

impl Tree {
    pub(crate) fn random(dice: &mut Dice) -> Tree {
        let mut tree = Tree::default();
        tree.0.insert(String::new(), Thing { acl: Acl::Both, content: None, lock: None });
        let all = DIRECTORIES.iter().map(|path| (path, true)).chain(FILES.iter().map(|path| (path, false)));
        for (path, is_directory) in all {
            let is_there = tree.0.contains_key(parent(path)) && dice.below(6) > 0;
            if !is_there {
                continue;
            }
            let acl = OTHERS.get(dice.below(THINGS)).copied().unwrap_or(Acl::Both);
            let lock = match dice.below(24) {
                0 => Some(Actor::Bob),
                _ => None,
            };
            let lock = lock.filter(|who| acl.is_free(*who));
            let content = (!is_directory).then(|| format!("old {path}"));
            tree.0.insert((*path).to_owned(), Thing { acl, content, lock });
        }
        if tree.0.len() == 1 {
            tree.0.insert(
                "u".to_owned(),
                Thing { acl: Acl::Both, content: Some("old u".to_owned()), lock: None },
            );
        }
        tree
    }

    pub(crate) fn on_disk(&self) -> Disk {
        let things = self.0.iter().filter(|(path, _)| !path.is_empty());
        things.map(|(path, thing)| (path.clone(), thing.content.clone())).collect()
    }

    fn children<'t>(&'t self, path: &'t str) -> impl Iterator<Item = &'t String> {
        self.0.keys().filter(move |child| !child.is_empty() && *child != path && parent(child) == path)
    }

    fn beneath(&self, path: &str) -> Vec<String> {
        self.0.keys().filter(|child| is_within(child, path) && *child != path).cloned().collect()
    }

    /// Whether a lock prevents an entry from being created, replaced or removed. All locks have depth 0.
    fn is_locked(&self, path: &str, by: Actor) -> bool {
        // The requests contain no lock token, so a lock of the actor itself also prevents the change.
        let _ = by;
        let locked = |path: &str| self.0.get(path).is_some_and(|thing| thing.lock.is_some());
        locked(path) || locked(parent(path))
    }

    fn may_remove(&self, path: &str, by: Actor) -> bool {
        self.0[path].acl.is_free(by) && !self.is_locked(path, by)
    }

    fn may_all_go(&self, path: &str, by: Actor) -> bool {
        self.may_remove(path, by) && self.beneath(path).iter().all(|path| self.may_remove(path, by))
    }

    /// Whether an entry can be put at a path. If the path has an entry already, it must be possible to remove that entry.
    fn has_room(&self, to: &str, by: Actor, overwrite: bool) -> bool {
        let Some(directory) = self.0.get(parent(to)) else { return false };
        if directory.content.is_some() || !directory.acl.is_free(by) || self.is_locked(to, by) {
            return false;
        }
        !self.0.contains_key(to) || overwrite && self.may_all_go(to, by)
    }

    /// The outcome of an act, and the tree after it, if nobody else acts at the same time.
    pub(crate) fn after(&self, by: Actor, act: &Act) -> (Outcome, Tree) {
        let mut after = self.clone();
        let outcome = match act {
            Act::Delete(path) => match self.0.contains_key(path) && self.may_remove(path, by) {
                true => {
                    let mut left = BTreeSet::new();
                    after.delete(path, by, &mut left);
                    Ok(left)
                }
                false => Err(()),
            },
            Act::Move { from, to, overwrite } => {
                let may = self.0.contains_key(from)
                    && !is_within(to, from)
                    && !is_within(from, to)
                    && self.may_all_go(from, by)
                    && self.has_room(to, by, *overwrite);
                if may {
                    after.0.retain(|path, _| !is_within(path, to));
                    for path in [vec![from.clone()], self.beneath(from)].concat() {
                        let thing = after.0.remove(&path).unwrap();
                        after.0.insert(path.replacen(from, to, 1), Thing { lock: None, ..thing });
                    }
                }
                may.then(BTreeSet::new).ok_or(())
            }
            Act::Copy { from, to, overwrite } => {
                let source = self.0.get(from);
                let may = source.is_some_and(|thing| thing.acl.is_seen(by))
                    && from != to
                    && !is_within(from, to)
                    && !(is_within(to, from) && source.is_some_and(|thing| thing.content.is_none()))
                    && self.has_room(to, by, *overwrite);
                match may {
                    true => {
                        after.0.retain(|path, _| !is_within(path, to));
                        let mut left = BTreeSet::new();
                        let acl = self.0[parent(to)].acl.handed_on();
                        self.copy((from, by), (to, acl), &mut after, &mut left);
                        Ok(left)
                    }
                    false => Err(()),
                }
            }
            Act::Put(_) | Act::MakeDirectory(_) | Act::Lock(_) => Err(()),
        };
        (outcome, after)
    }

    /// Deletes a tree as far as the actor may. Returns whether the entry itself stays. Adds to `left` the members that the response must name.
    fn delete(&mut self, path: &str, by: Actor, left: &mut BTreeSet<String>) -> bool {
        let children: Vec<String> = self.children(path).cloned().collect();
        let mut stays = false;
        for child in children {
            if !self.0[&child].acl.is_seen(by) {
                stays = true;
            } else if !self.may_remove(&child, by) {
                left.insert(child);
                stays = true;
            } else {
                stays |= self.delete(&child, by, left);
            }
        }
        match stays {
            false => drop(self.0.remove(path)),
            true if !left.iter().any(|left| is_within(left, path)) => drop(left.insert(path.to_owned())),
            true => {}
        }
        stays
    }

    fn copy(
        &self,
        (from, by): (&str, Actor),
        (to, acl): (&str, Acl),
        after: &mut Tree,
        left: &mut BTreeSet<String>,
    ) {
        let content = self.0[from].content.clone();
        after.0.insert(to.to_owned(), Thing { acl, content, lock: None });
        for child in self.children(from).filter(|child| self.0[*child].acl.is_seen(by)) {
            match acl.is_free(by) {
                true => self.copy((child, by), (&child.replacen(from, to, 1), acl.handed_on()), after, left),
                false => drop(left.insert(child.clone())),
            }
        }
    }

    /// Checks the properties that are true for every order of steps.
    pub(crate) fn check(&self, acts: &[Act; 2], outcomes: &[Outcome; 2], now: &Disk, said: &str) {
        let said = || format!("{said}, and then {now:#?}");
        assert!(!now.keys().any(|path| path.contains(".enfilade-")), "a reserved name is left: {}", said());
        let is_done = |who: usize| outcomes[who].is_ok();
        let actors = [Actor::Alice, Actor::Bob];
        let mut known: Vec<(String, String, Acl)> = Vec::new();
        for (path, thing) in &self.0 {
            known.extend(thing.content.clone().map(|content| (path.clone(), content, thing.acl)));
        }
        if let (Act::Put(path), true) = (&acts[1], is_done(1)) {
            let of_directory = self.0.get(parent(path)).map_or(Acl::Neither, |thing| thing.acl.handed_on());
            let acl = self.0.get(path).map_or(of_directory, |thing| thing.acl);
            known.push((path.clone(), "new".to_owned(), acl));
        }
        for (path, content, acl) in &known {
            // An actor does not overwrite its own file.
            let may_take = |who: usize| {
                let is_own = who == 1 && content == "new";
                !is_own && is_done(who) && acl.is_free(actors[who]) && acts[who].takes_away(path)
            };
            // If the other actor removes the target directory of a MOVE before the MOVE ends, the MOVE is not acknowledged, although it moved the
            // entry: the entry is gone and cannot return.
            let is_lost_above = |who: usize| match &acts[who] {
                Act::Move { to, .. } => is_done(1 - who) && acts[1 - who].takes_away(parent(to)),
                _ => false,
            };
            let was_done = |who: usize| is_done(who) || is_lost_above(who);
            let goal = |who: usize| match &acts[who] {
                Act::Move { from, to, .. } if is_within(path, from) && acl.is_free(actors[who]) => {
                    Some(path.replacen(from, to, 1))
                }
                _ => None,
            };
            let moved_to = |who: usize| goal(who).filter(|_| was_done(who));
            // An actor may also remove an entry at the target of the other actor's MOVE, even if the MOVE was undone later: the entry was at the
            // target for a moment.
            let takes_moved = |who: usize| {
                let path = goal(1 - who);
                path.is_some_and(|path| {
                    is_done(who) && acl.is_free(actors[who]) && acts[who].takes_away(&path)
                })
            };
            if (0..2).any(takes_moved) {
                continue;
            }
            let mut may_be_at: Vec<String> = vec![path.clone()];
            may_be_at.extend((0..2).filter_map(moved_to));
            let is_somewhere = may_be_at.iter().any(|path| now.get(path) == Some(&Some(content.clone())));
            let may_be_gone = (0..2).any(may_take);
            assert!(is_somewhere || may_be_gone, "`{content}` of {path} is lost: {}", said());
        }
        for who in 0..2 {
            if let (Act::Put(path), Err(())) = (&acts[who], &outcomes[who]) {
                let is_new = |content: &Option<String>| content.as_deref() == Some("new");
                assert!(
                    !now.values().any(is_new),
                    "the upload of {path} was refused, and is there: {}",
                    said()
                );
            }
            if let (Act::MakeDirectory(path), Err(()), Act::Put(_) | Act::Delete(_)) =
                (&acts[who], &outcomes[who], &acts[1 - who])
            {
                assert!(!now.contains_key(path), "{path} was refused, and was made: {}", said());
            }
            if let (Act::MakeDirectory(path), Err(()), Act::Move { from, to, .. }) =
                (&acts[who], &outcomes[who], &acts[1 - who])
                && is_within(path, from)
                && NEW.contains(&path.as_str())
            {
                let places = [path.clone(), path.replacen(from, to, 1)];
                let is_made = places.iter().any(|place| place != to && now.contains_key(place));
                assert!(!is_made, "{path} was refused, and was made: {}", said());
            }
        }
        self.check_answers(acts, outcomes, now, &said);
    }

    /// If the second actor did not touch the paths of the first act, the answer to the first act is right for every member.
    fn check_answers(&self, acts: &[Act; 2], outcomes: &[Outcome; 2], now: &Disk, said: &dyn Fn() -> String) {
        let (by, other) = (Actor::Alice, &acts[1]);
        let Ok(left) = &outcomes[0] else { return };
        let is_told = |path: &str| left.iter().any(|left| is_within(path, left));
        match &acts[0] {
            Act::Copy { from, to, .. } if other.is_elsewhere(&[from, to]) => {
                for path in self.beneath(from) {
                    let mut way = path.as_str();
                    let mut is_seen = true;
                    while way != from {
                        is_seen &= self.0[way].acl.is_seen(by);
                        way = parent(way);
                    }
                    let copied = now.get(&path.replacen(from, to, 1));
                    let is_there = copied == Some(&self.0[&path].content);
                    assert!(
                        !is_seen || is_there || is_told(&path),
                        "{path} was not copied, and the answer does not name it: {}",
                        said()
                    );
                }
            }
            Act::Delete(path) if other.is_elsewhere(&[path]) => {
                let stays = now.keys().any(|now| is_within(now, path));
                assert_eq!(stays, !left.is_empty(), "{}", said());
            }
            Act::Move { from, to, .. } if other.is_elsewhere(&[from, to]) => {
                for path in [vec![from.clone()], self.beneath(from)].concat() {
                    assert_eq!(
                        now.get(&path.replacen(from, to, 1)),
                        Some(&self.0[&path].content),
                        "{}",
                        said()
                    );
                }
                assert!(!now.keys().any(|now| is_within(now, from)), "{}", said());
            }
            _ => {}
        }
    }
}
