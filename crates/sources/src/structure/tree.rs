//! Checks the trees of a file: every page that can be reached from its newest commit.

use super::page::{self, Kind, Meta, PAGE_HEAD, Page, Record, Root};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The number of meta pages, which are the first pages of the file.
const METAS: u64 = 2;

/// The reason why the check ends early: damage, or an error of the disk.
enum Stop {
    Damaged(String),
    Failed(io::Error),
}

type Walked<T> = Result<T, Stop>;

fn damaged<T>(number: u64, why: &str) -> Walked<T> {
    Err(Stop::Damaged(format!("page {number} {why}")))
}

/// The tree and the level of a page.
#[derive(Clone, Copy)]
struct Place {
    what: What,
    /// The number of levels below the page.
    below: u16,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// The tree of free pages.
    Free,
    /// The main tree. Its entries are named trees, or records if the file has no named trees.
    Main,
    /// A tree of records.
    Records,
}

/// The trees of one commit.
pub(super) struct Trees<'f> {
    file: &'f File,
    meta: &'f Meta,
    /// The number of pages of the file. The number of the last page in the meta page can be greater, because LMDB may not have written free pages at
    /// the end yet.
    pages: u64,
    with_leaves: bool,
    /// A bit for each page, which is set when the page was reached.
    reached: Vec<u64>,
}

impl<'f> Trees<'f> {
    pub(super) fn new(file: &'f File, meta: &'f Meta, file_bytes: u64, with_leaves: bool) -> Self {
        let pages = file_bytes / meta.page_bytes;
        let words = usize::try_from(pages / 64 + 1).unwrap_or(usize::MAX);
        Trees { file, meta, pages, with_leaves, reached: vec![0; words] }
    }

    /// Checks every tree. Returns a description of the first damage.
    pub(super) fn check(mut self) -> io::Result<Result<(), String>> {
        match self.walk_all() {
            Ok(()) => Ok(Ok(())),
            Err(Stop::Damaged(why)) => Ok(Err(why)),
            Err(Stop::Failed(why)) => Err(why),
        }
    }

    fn walk_all(&mut self) -> Walked<()> {
        // LMDB reserves address space for all pages up to the last one. If the number of the last page is damaged, the pages could exceed the address
        // space.
        if self.pages.saturating_mul(2).saturating_add(1 << 24) < self.meta.last_page {
            return Err(Stop::Damaged(
                "the number of the last page, as stored in the meta page, is too large for the file".into(),
            ));
        }
        let (free, main) = (self.meta.free, self.meta.main);
        self.root(free, What::Free)?;
        self.root(main, What::Main)
    }

    fn root(&mut self, root: Root, what: What) -> Walked<()> {
        // The counters are only compared with the length of the file. They do not decide which pages LMDB reads, so a small error does no harm.
        if self.pages < root.counted {
            let why = format!(
                "a tree has {} pages according to its counters, but the file has only {}",
                root.counted, self.pages
            );
            return Err(Stop::Damaged(why));
        }
        match root.page {
            Some(page) => self.walk(page, Place { what, below: root.depth.saturating_sub(1) }),
            None => Ok(()),
        }
    }

    /// Checks a page and all pages below it. The recursion is at most as deep as the number of levels.
    fn walk(&mut self, number: u64, place: Place) -> Walked<()> {
        self.reach(number, 1)?;
        let is_leaf = place.below == 0;
        if is_leaf && place.what == What::Records && !self.with_leaves {
            return Ok(());
        }
        let bytes = self.read(number, self.page_bytes())?;
        match page::of_tree(&bytes, number, is_leaf, place.what == What::Free) {
            None => damaged(number, "has a wrong form"),
            Some(Page::Branch(below)) => {
                let place = Place { below: place.below - 1, ..place };
                below.into_iter().try_for_each(|page| self.walk(page, place))
            }
            Some(Page::Leaf(records)) => {
                records.into_iter().try_for_each(|record| self.record(number, &bytes, &record, place.what))
            }
        }
    }

    fn record(&mut self, number: u64, page: &[u8], record: &Record, what: What) -> Walked<()> {
        let value = page.get(record.value.clone()).unwrap_or_default();
        match (what, record.kind) {
            (What::Main, Kind::Tree) => match Root::read(value, 0) {
                Some(root) => self.root(root, What::Records),
                None => damaged(number, "describes a tree that cannot exist"),
            },
            (_, Kind::Tree) => damaged(number, "has a wrong form"),
            (What::Free, Kind::Inside) => self.free(number, value),
            (_, Kind::Inside) => Ok(()),
            (_, Kind::Big(bytes)) => {
                let first = page::u64_at(value, 0).unwrap_or_default();
                self.big(first, bytes)?;
                match what {
                    What::Free => {
                        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                        let whole = self.read(first, PAGE_HEAD.saturating_add(bytes))?;
                        self.free(number, whole.get(PAGE_HEAD..).unwrap_or_default())
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// Checks the pages of a large value.
    fn big(&mut self, first: u64, bytes: u64) -> Walked<()> {
        self.reach(first, 1)?;
        let head = self.read(first, PAGE_HEAD)?;
        match page::of_value(&head, first) {
            Some(pages) if bytes + PAGE_HEAD as u64 <= pages * self.meta.page_bytes => {
                self.reach(first + 1, pages - 1)
            }
            _ => damaged(first, "is not a valid first page of the large value that a record refers to"),
        }
    }

    /// Checks a record of free pages, and marks these pages as reached, except pages at the end that the file does not contain yet.
    fn free(&mut self, number: u64, value: &[u8]) -> Walked<()> {
        let Some(pages) = page::free_pages(value) else {
            return damaged(number, "has a wrong list of free pages");
        };
        pages.into_iter().try_for_each(|page| match page {
            beyond if self.pages <= beyond && beyond <= self.meta.last_page => Ok(()),
            page => self.reach(page, 1),
        })
    }

    /// Marks these pages as reached. Returns an error if a page was reached before, or does not exist.
    fn reach(&mut self, first: u64, count: u64) -> Walked<()> {
        let end = first.saturating_add(count);
        if first < METAS || self.pages.min(self.meta.last_page.saturating_add(1)) < end {
            return damaged(
                first,
                match count {
                    1 => "does not exist or is a meta page, but another page refers to it",
                    _ => "is the second page of a large value, but the value ends after the last page",
                },
            );
        }
        for number in first..end {
            let (word, bit) = (usize::try_from(number / 64).unwrap_or(usize::MAX), 1 << (number % 64));
            match self.reached.get_mut(word) {
                Some(word) if *word & bit == 0 => *word |= bit,
                _ => return damaged(number, "is used twice"),
            }
        }
        Ok(())
    }

    fn page_bytes(&self) -> usize {
        usize::try_from(self.meta.page_bytes).unwrap_or(usize::MAX)
    }

    /// Reads `bytes` bytes from the beginning of a page.
    fn read(&self, number: u64, bytes: usize) -> Walked<Vec<u8>> {
        let mut found = vec![0; bytes];
        match self.file.read_exact_at(&mut found, number * self.meta.page_bytes) {
            Ok(()) => Ok(found),
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => damaged(number, "is cut off"),
            Err(why) => Err(Stop::Failed(why)),
        }
    }
}
