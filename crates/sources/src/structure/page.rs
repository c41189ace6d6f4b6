//! Parses and checks single pages of an LMDB file.

use std::ops::Range;

/// The number of bytes of a meta page that are used: the header of the page, and LMDB's `MDB_meta`.
pub(super) const META_BYTES: usize = PAGE_HEAD + 136;
/// The header of a page, in bytes (`PAGEHDRSZ`).
pub(super) const PAGE_HEAD: usize = 16;
/// The header of a node, in bytes (`NODESIZE`).
const NODE_HEAD: usize = 8;
/// A record that describes a tree, in bytes (`MDB_db`).
const TREE_BYTES: usize = 48;
/// The longest key, in bytes (`MDB_MAXKEYSIZE`).
const KEY_BYTES_MAX: usize = 511;
/// The page number that stands for the root of an empty tree (`P_INVALID`).
const NO_ROOT: u64 = u64::MAX;
/// The greatest number of levels of a tree (`CURSOR_STACK`).
const DEPTH_MAX: u16 = 32;

const MAGIC: u32 = 0xbeef_c0de;
const VERSION: u32 = 1;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const OVERFLOW: u16 = 4;
const META: u16 = 8;
/// A flag of the tree of free pages: its keys are numbers (`MDB_INTEGERKEY`).
const NUMBERS: u16 = 8;
/// A flag of a node: its value is in separate pages.
const BIG: u16 = 1;
/// A flag of a node: its value describes a tree.
const TREE: u16 = 2;

/// The description of a tree in a meta page or in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root {
    /// The number of the root page; `None` if the tree is empty.
    pub(super) page: Option<u64>,
    /// The number of levels of the tree.
    pub(super) depth: u16,
    /// The number of pages that the tree has according to LMDB's counters.
    pub(super) counted: u64,
}

impl Root {
    /// Reads `MDB_db`. Its fields, with their lengths in bytes: pad 4, flags 2, depth 2, counters of branches, leaves, pages of large values and
    /// records 8 each, root 8.
    pub(super) fn read(bytes: &[u8], flags: u16) -> Option<Self> {
        let (found, depth, root) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?, u64_at(bytes, 40)?);
        let page = (root != NO_ROOT).then_some(root);
        let is_sound = found == flags && depth <= DEPTH_MAX && page.is_some() == (depth > 0);
        let counters = [u64_at(bytes, 8)?, u64_at(bytes, 16)?, u64_at(bytes, 24)?];
        let counted = counters.into_iter().fold(0, u64::saturating_add);
        is_sound.then_some(Root { page, depth, counted })
    }
}

/// A meta page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    /// The length of a page, in bytes.
    pub(super) page_bytes: u64,
    /// LMDB's number of the commit.
    pub(super) commit: u64,
    /// The number of the last page in use.
    pub(super) last_page: u64,
    /// The tree of free pages.
    pub(super) free: Root,
    /// The main tree. Its entries are named trees, or records if the file has no named trees.
    pub(super) main: Root,
}

impl Meta {
    /// Reads the meta page with this number, 0 or 1.
    pub(super) fn read(bytes: &[u8], number: u64) -> Result<Self, String> {
        Self::find(bytes, number).ok_or_else(|| match bytes.len() {
            0 => format!("meta page {number} is missing: the file was cut short"),
            _ => format!("meta page {number} has a wrong form"),
        })
    }

    fn find(bytes: &[u8], number: u64) -> Option<Self> {
        let meta = bytes.get(PAGE_HEAD..META_BYTES)?;
        let [free, main] = [24, 24 + TREE_BYTES].map(|at| meta.get(at..at + TREE_BYTES));
        let page_bytes = u64::from(u32_at(free?, 0)?);
        let (last_page, commit) = (u64_at(meta, 120)?, u64_at(meta, 128)?);
        let is_sound = u64_at(bytes, 0)? == number
            && u16_at(bytes, 10)? == META
            && (u32_at(meta, 0)?, u32_at(meta, 4)?) == (MAGIC, VERSION)
            && page_bytes.is_power_of_two()
            && (512..=32_768).contains(&page_bytes)
            // Even commits are written to meta page 0, and odd commits to meta page 1. A new file has commit 0 in both meta pages.
            && (commit == 0 || commit % 2 == number);
        let (free, main) = (Root::read(free?, NUMBERS)?, Root::read(main?, 0)?);
        is_sound.then_some(Meta { page_bytes, commit, last_page, free, main })
    }
}

/// The content of a page of a tree.
pub(super) enum Page {
    /// The numbers of the pages below the branch.
    Branch(Vec<u64>),
    /// The records of the leaf.
    Leaf(Vec<Record>),
}

/// A record of a leaf.
pub(super) struct Record {
    /// The position of the value in the page.
    pub(super) value: Range<usize>,
    /// The kind of the value.
    pub(super) kind: Kind,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The value is in the page.
    Inside,
    /// The value is in separate pages, and has this length in bytes. The node contains the number of the first of these pages.
    Big(u64),
    /// The value describes a tree.
    Tree,
}

/// A node of a page.
struct Node<'p> {
    at: usize,
    end: usize,
    key: &'p [u8],
}

/// Parses a page of a tree; `None` if its form is wrong. The page must have the number `number`, and must be a leaf if `is_leaf` is true, otherwise a
/// branch. `is_free` is true for the tree of free pages. The keys of this tree are numbers.
pub(super) fn of_tree(page: &[u8], number: u64, is_leaf: bool, is_free: bool) -> Option<Page> {
    let kind = if is_leaf { LEAF } else { BRANCH };
    let (lower, upper) = (usize::from(u16_at(page, 12)?), usize::from(u16_at(page, 14)?));
    let is_sound = u64_at(page, 0)? == number
        && u16_at(page, 10)? == kind
        && lower.is_multiple_of(2)
        && lower <= upper
        && upper <= page.len();
    let count = lower.checked_sub(PAGE_HEAD)? / 2;
    // In the tree of free pages, a branch with only one node is valid, too (OpenLDAP's ITS#8336).
    let fewest = if is_leaf || is_free { 1 } else { 2 };
    if !is_sound || count < fewest {
        return None;
    }
    let offsets = (0..count).map(|index| u16_at(page, PAGE_HEAD + 2 * index).map(usize::from));
    let offsets = offsets.collect::<Option<Vec<_>>>()?;
    let (mut nodes, mut below, mut records) = (Vec::with_capacity(count), Vec::new(), Vec::new());
    for offset in offsets {
        let node = match is_leaf {
            true => {
                let (node, record) = leaf_node(page, offset)?;
                records.push(record);
                node
            }
            false => {
                let (low, high) = (u32_at(page, offset)?, u16_at(page, offset + 4)?);
                below.push(u64::from(low) | u64::from(high) << 32);
                let key = offset + NODE_HEAD..offset + NODE_HEAD + usize::from(u16_at(page, offset + 6)?);
                Node { at: offset, end: key.end, key: page.get(key)? }
            }
        };
        nodes.push(node);
    }
    // The first key of a branch is left out, because LMDB never uses it.
    let keys = nodes.iter().skip(usize::from(!is_leaf)).map(|node| node.key);
    let is_sorted = are_sorted(keys, is_free)?;
    (is_sorted && are_packed(nodes, upper, page.len())).then_some(match is_leaf {
        true => Page::Leaf(records),
        false => Page::Branch(below),
    })
}

fn leaf_node(page: &[u8], at: usize) -> Option<(Node<'_>, Record)> {
    let (bytes, flags) = (u32_at(page, at)?, u16_at(page, at + 4)?);
    let key = at + NODE_HEAD..at + NODE_HEAD + usize::from(u16_at(page, at + 6)?);
    let inside = usize::try_from(bytes).ok()?;
    let (kind, inside) = match flags {
        0 => (Kind::Inside, inside),
        BIG => (Kind::Big(u64::from(bytes)), size_of::<u64>()),
        TREE if inside == TREE_BYTES => (Kind::Tree, inside),
        _ => return None,
    };
    let value = key.end..key.end.checked_add(inside)?;
    page.get(value.clone())?;
    Some((Node { at, end: value.end, key: page.get(key)? }, Record { value, kind }))
}

/// Whether each key is greater than the previous key. Returns `None` if a key has a wrong length.
fn are_sorted<'p>(keys: impl Iterator<Item = &'p [u8]>, is_free: bool) -> Option<bool> {
    let mut before: Option<&[u8]> = None;
    for key in keys {
        let has_length = if is_free { key.len() == 8 } else { (1..=KEY_BYTES_MAX).contains(&key.len()) };
        if !has_length {
            return None;
        }
        let is_greater = before.is_none_or(|before| match is_free {
            true => u64_at(before, 0) < u64_at(key, 0),
            false => before < key,
        });
        if !is_greater {
            return Some(false);
        }
        before = Some(key);
    }
    Some(true)
}

/// Whether the nodes fill the page from `upper` to its end, without gaps and overlaps. This is checked because LMDB uses the lengths of the nodes to
/// move bytes.
fn are_packed(mut nodes: Vec<Node<'_>>, upper: usize, page_bytes: usize) -> bool {
    nodes.sort_unstable_by_key(|node| node.at);
    let mut end = upper;
    let follow = nodes.iter().all(|node| {
        let follows = node.at == end;
        end = node.end.next_multiple_of(2);
        follows
    });
    follow && end == page_bytes
}

/// The number of pages of the large value that begins in this page; `None` if no large value begins in this page.
pub(super) fn of_value(page: &[u8], number: u64) -> Option<u64> {
    let is_sound = u64_at(page, 0)? == number && u16_at(page, 10)? == OVERFLOW;
    u32_at(page, 12).filter(|pages| is_sound && *pages > 0).map(u64::from)
}

/// The page numbers in a record of the tree of free pages. The record contains their count, and then the numbers in descending order.
pub(super) fn free_pages(value: &[u8]) -> Option<Vec<u64>> {
    let count = usize::try_from(u64_at(value, 0)?).ok()?;
    let numbers = value.get(8..)?.as_chunks().0.get(..count)?;
    let numbers: Vec<u64> = numbers.iter().map(|number| u64::from_ne_bytes(*number)).collect();
    numbers.is_sorted_by(|before, next| next < before).then_some(numbers)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}
