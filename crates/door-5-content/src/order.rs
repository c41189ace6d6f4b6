//! The order in which a page shows the entries of a directory: directories come before files, and both are sorted by name, without regard to case.
//! Only the names are read and compared. So the first entries of a large directory are found without reading the metadata of the other entries.

use crate::names::{Named, Names};
use enfilade_access::NodeKind;
use rustix::fs::FileType;

/// The place of an entry in the order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    is_file: bool,
    folded: String,
    name: String,
}

impl Rank {
    /// The place of an entry of this kind and name.
    pub fn of(kind: NodeKind, name: &str) -> Self {
        let mut folded = String::new();
        fold(name, &mut folded);
        Rank { is_file: kind == NodeKind::File, folded, name: name.to_owned() }
    }

    /// The name of the entry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of the entry.
    pub fn kind(&self) -> NodeKind {
        if self.is_file { NodeKind::File } else { NodeKind::Directory }
    }
}

/// The fields of a [`Rank`], with borrowed texts.
type Borrowed<'r> = (bool, &'r str, &'r str);

fn borrowed(rank: &Rank) -> Borrowed<'_> {
    (rank.is_file, &rank.folded, &rank.name)
}

fn fold(name: &str, folded: &mut String) {
    folded.clear();
    if name.is_ascii() {
        folded.push_str(name);
        folded.make_ascii_lowercase();
    } else {
        folded.extend(name.chars().flat_map(char::to_lowercase));
    }
}

/// Collects the first names of a directory in the order of [`Rank`]. The used memory does not grow with the size of the directory.
pub(crate) struct FirstNames<'r> {
    at_most: usize,
    after: Option<&'r Rank>,
    kept: Vec<(Rank, u64, FileType)>,
    /// A name after this place is not collected, because the collection already has enough names up to this place. `None` until `cut` discards names
    /// for the first time.
    bound: Option<Rank>,
    folded: String,
    has_more: bool,
}

impl<'r> FirstNames<'r> {
    /// Collects at most `at_most` names (at least one) after the place `after`.
    pub(crate) fn new(at_most: usize, after: Option<&'r Rank>) -> Self {
        let at_most = at_most.max(1);
        FirstNames { at_most, after, kept: Vec::new(), bound: None, folded: String::new(), has_more: false }
    }

    pub(crate) fn push(&mut self, named: Named<'_>) {
        let Named { name, inode, kind } = named;
        fold(name, &mut self.folded);
        let place = (kind != FileType::Directory, self.folded.as_str(), name);
        if self.after.is_some_and(|after| place <= borrowed(after)) {
            return;
        }
        if self.bound.as_ref().is_some_and(|bound| borrowed(bound) < place) {
            self.has_more = true;
            return;
        }
        let rank = Rank { is_file: place.0, folded: self.folded.clone(), name: name.to_owned() };
        self.kept.push((rank, inode, kind));
        if self.kept.len() >= self.at_most.saturating_mul(2) {
            self.cut();
        }
    }

    /// Keeps only the first `at_most` names, and discards the others.
    fn cut(&mut self) {
        if self.kept.len() > self.at_most {
            self.kept.select_nth_unstable_by(self.at_most - 1, |(one, ..), (other, ..)| one.cmp(other));
            self.kept.truncate(self.at_most);
            self.has_more = true;
            self.bound = self.kept.iter().map(|(rank, ..)| rank).max().cloned();
        }
    }

    /// The names in their order. If further names follow, also the place of the last returned name.
    pub(crate) fn finish(mut self) -> (Names, Option<Rank>) {
        self.cut();
        self.kept.sort_unstable_by(|(one, ..), (other, ..)| one.cmp(other));
        let mut names = Names::default();
        for (rank, inode, kind) in &self.kept {
            names.push(&rank.name, *inode, *kind);
        }
        let last = self.kept.pop().map(|(rank, ..)| rank);
        (names, last.filter(|_| self.has_more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(names: &[&str], at_most: usize, after: Option<&Rank>) -> (Vec<String>, Option<String>) {
        let mut kept = FirstNames::new(at_most, after);
        for name in names {
            let kind = if name.ends_with('/') { FileType::Directory } else { FileType::RegularFile };
            kept.push(Named { name, inode: 1, kind });
        }
        let (names, more) = kept.finish();
        let listed = names.some(0..names.len()).map(|named| named.name.to_owned()).collect();
        (listed, more.map(|rank| rank.name))
    }

    #[test]
    fn pages_together_have_every_name_once_and_in_order() {
        let names: Vec<String> = (0..1_000)
            .map(|n: u32| n.wrapping_mul(2_654_435_761))
            .map(|n| {
                format!("{}{n}{}", if n % 3 == 0 { "A" } else { "a" }, if n % 7 == 0 { "/" } else { "" })
            })
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let kind = |name: &str| if name.ends_with('/') { NodeKind::Directory } else { NodeKind::File };
        let mut expected = names.clone();
        expected.sort_by_key(|name| Rank::of(kind(name), name));
        for at_most in [1, 2, 7, 100, 999, 1_000, 5_000] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let (page, more) = first(&names, at_most, after.as_ref());
                assert!(page.len() <= at_most);
                found.extend(page);
                match more {
                    Some(last) => after = Some(Rank::of(kind(&last), &last)),
                    None => break,
                }
            }
            assert_eq!(found, expected, "{at_most}");
        }
    }

    #[test]
    fn directories_are_first_and_case_does_not_count() {
        let (names, more) = first(&["b", "a", "B", "Ä", "ä", "z/", "Y/"], 10, None);
        assert_eq!((names, more), (["Y/", "z/", "a", "B", "b", "Ä", "ä"].map(str::to_owned).to_vec(), None));
    }
}
