//! Computes the number of pages that LMDB needs for records that are put in the order of their keys. If records are put in key order, LMDB fills each
//! page before it uses the next page.

use enfilade_facts::Table;

/// The pages of an empty file: two meta pages, and the trees of tables and of free pages.
const PAGES_OF_NONE: u64 = 2 + 1 + 1;
/// The header of a page, in bytes (`PAGEHDRSZ` of LMDB).
const PAGE_HEAD: usize = 16;
/// The length of the header of a node, plus the length of the node's offset in the page, in bytes.
const NODE_HEAD: usize = 8 + 2;

/// The number of pages of a file that is written table by table.
pub(super) struct Pages {
    page_bytes: u64,
    /// The number of pages of the tables that are complete.
    done: u64,
    table: Table,
    tree: Tree,
}

impl Pages {
    /// The pages of an empty file. Each page has the length `page_bytes`.
    pub(super) fn new(page_bytes: u64) -> Self {
        Pages { page_bytes, done: PAGES_OF_NONE, table: Table::Head, tree: Tree::new(page_bytes) }
    }

    /// Adds a record. All records of a table must be added before the records of the next table.
    pub(super) fn put(&mut self, table: Table, key_bytes: usize, stored_bytes: usize) {
        if self.table != table {
            self.table = table;
            self.done += std::mem::replace(&mut self.tree, Tree::new(self.page_bytes)).pages();
        }
        self.tree.put(key_bytes, stored_bytes);
    }

    /// The length of the file, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        (self.done + self.tree.pages()) * self.page_bytes
    }
}

/// The pages of one table.
struct Tree {
    page_bytes: u64,
    /// The space of a page for nodes, in bytes.
    room: usize,
    /// For each level of the tree, beginning with the leaves: the number of its pages, and the free bytes in the last page.
    levels: Vec<(u64, usize)>,
    /// The number of pages of large values.
    others: u64,
}

impl Tree {
    fn new(page_bytes: u64) -> Self {
        let room = usize::try_from(page_bytes).unwrap_or(usize::MAX).saturating_sub(PAGE_HEAD);
        Tree { page_bytes, room, levels: Vec::new(), others: 0 }
    }

    /// The greatest length of a node, in bytes: two nodes must fit into a page. If a record is larger, its value is stored in separate pages.
    fn node_bytes_max(&self) -> usize {
        ((self.room / 2) & !1) - 2
    }

    fn put(&mut self, key_bytes: usize, stored_bytes: usize) {
        let inside = match key_bytes + stored_bytes + NODE_HEAD - 2 {
            bytes if self.node_bytes_max() < bytes => {
                self.others += ((PAGE_HEAD + stored_bytes) as u64).div_ceil(self.page_bytes);
                size_of::<u64>()
            }
            _ => stored_bytes,
        };
        self.put_at(0, key_bytes, inside);
    }

    /// Puts a node into the last page of a level, or into a new page. For a new page, the level above gets a node.
    fn put_at(&mut self, level: usize, key_bytes: usize, inside: usize) {
        let bytes = NODE_HEAD + (key_bytes + inside).next_multiple_of(2);
        match self.levels.get_mut(level) {
            Some((_, left)) if bytes <= *left => *left -= bytes,
            Some((pages, left)) => {
                (*pages, *left) = (*pages + 1, self.room.saturating_sub(bytes));
                if self.levels.len() == level + 1 {
                    // The previous page was the root. The new root has one node for the previous page and one node for the new page.
                    self.levels.push((1, self.room - NODE_HEAD));
                }
                self.put_at(level + 1, key_bytes, 0);
            }
            None => self.levels.push((1, self.room.saturating_sub(bytes))),
        }
    }

    fn pages(&self) -> u64 {
        self.others + self.levels.iter().map(|(pages, _)| pages).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_as_large_as_they_are_said_to_be() {
        // Each case contains the length of a page, the number of records, and the number of pages of the file. A record has a key of 10 bytes and a
        // value of 90 bytes, and its node has 110 bytes.
        let cases = [
            (4096, 0, 4),
            (4096, 1, 4 + 1),
            // 37 nodes fit into a page. Two or more pages need a page above them.
            (4096, 37, 4 + 1),
            (4096, 38, 4 + 2 + 1),
            (4096, 148, 4 + 4 + 1),
            (16384, 148, 4 + 1),
            (16384, 149, 4 + 2 + 1),
        ];
        for (page_bytes, records, pages) in cases {
            let mut file = Pages::new(page_bytes);
            (0..records).for_each(|_| file.put(Table::Users, 10, 90));
            assert_eq!(file.bytes(), pages * page_bytes, "{page_bytes} {records}");
        }
        // A value of 50,000 bytes is stored in separate pages. The first of these pages has a header, and a node in a leaf contains the number of
        // this first page.
        for (page_bytes, pages) in [(4096, 4 + 1 + 13), (16384, 4 + 1 + 4), (32768, 4 + 1 + 2)] {
            let mut file = Pages::new(page_bytes);
            file.put(Table::Users, 10, 50_000);
            assert_eq!(file.bytes(), pages * page_bytes, "{page_bytes}");
        }
        // The largest record with its value in its node, and a record with one byte more. The value of the larger record needs a separate page.
        for (page_bytes, stored_bytes, pages) in
            [(4096, 2020, 4 + 1), (4096, 2021, 4 + 1 + 1), (16384, 8164, 4 + 1), (16384, 8165, 4 + 1 + 1)]
        {
            let mut file = Pages::new(page_bytes);
            file.put(Table::Users, 10, stored_bytes);
            assert_eq!(file.bytes(), pages * page_bytes, "{page_bytes} {stored_bytes}");
        }
        // 204 leaves fit under one page: the node of the first leaf has 10 bytes, and every other node has 20 bytes.
        for (leaves, above) in [(204, 1), (205, 2 + 1)] {
            let mut file = Pages::new(4096);
            (0..leaves * 37).for_each(|_| file.put(Table::Users, 10, 90));
            assert_eq!(file.bytes(), (4 + leaves + above) * 4096, "{leaves}");
        }
        // Each table has a tree of its own.
        let mut file = Pages::new(4096);
        [Table::Users, Table::Groups].iter().for_each(|table| file.put(*table, 10, 90));
        assert_eq!(file.bytes(), (4 + 2) * 4096);
    }
}
