//! How many pages LMDB takes for records that are put in the order of their keys: each page is filled before the next one.

use enfilade_facts::Table;

/// The pages of an empty file: two meta pages, and the trees of tables and of free pages.
const PAGES_OF_NONE: u64 = 2 + 1 + 1;
/// The header of a page, in bytes (`PAGEHDRSZ` of LMDB).
const PAGE_HEAD: usize = 16;
/// The header of a node, and the offset of the node in its page, in bytes.
const NODE_HEAD: usize = 8 + 2;

/// The pages of a file, as it is written table by table.
pub(super) struct Pages {
    page_bytes: u64,
    /// The pages of the complete tables.
    done: u64,
    table: Table,
    tree: Tree,
}

impl Pages {
    /// The pages of an empty file. A page has this length, in bytes.
    pub(super) fn new(page_bytes: u64) -> Self {
        Pages { page_bytes, done: PAGES_OF_NONE, table: Table::Head, tree: Tree::new(page_bytes) }
    }

    /// Adds a record. Records come table by table.
    pub(super) fn put(&mut self, table: Table, key_bytes: usize, stored_bytes: usize) {
        if self.table != table {
            self.table = table;
            self.done += std::mem::replace(&mut self.tree, Tree::new(self.page_bytes)).pages();
        }
        self.tree.put(key_bytes, stored_bytes);
    }

    /// How long the file is, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        (self.done + self.tree.pages()) * self.page_bytes
    }
}

/// The pages of one table.
struct Tree {
    page_bytes: u64,
    /// The space of a page for nodes, in bytes.
    room: usize,
    /// For each level, from the leaves up: its pages, and the bytes left in the last of them.
    levels: Vec<(u64, usize)>,
    /// Pages of large values.
    others: u64,
}

impl Tree {
    fn new(page_bytes: u64) -> Self {
        let room = usize::try_from(page_bytes).unwrap_or(usize::MAX).saturating_sub(PAGE_HEAD);
        Tree { page_bytes, room, levels: Vec::new(), others: 0 }
    }

    /// The greatest node, in bytes: two nodes have to fit into a page. The value of a larger record is in pages of its own.
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

    /// Puts a node into the last page of a level, or into a new page, for which the level above gets a node.
    fn put_at(&mut self, level: usize, key_bytes: usize, inside: usize) {
        let bytes = NODE_HEAD + (key_bytes + inside).next_multiple_of(2);
        match self.levels.get_mut(level) {
            Some((_, left)) if bytes <= *left => *left -= bytes,
            Some((pages, left)) => {
                (*pages, *left) = (*pages + 1, self.room.saturating_sub(bytes));
                if self.levels.len() == level + 1 {
                    // The previous page was the root. The new root above it has a node for it, too.
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
        // The length of a page, the number of records (10 and 90 bytes, a node of 110), and the number of pages of the file.
        let cases = [
            (4096, 0, 4),
            (4096, 1, 4 + 1),
            // A page takes 37 nodes; several pages have a page above them.
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
        // A large value: 50,000 bytes and the head of its first page, and a node that points to it.
        for (page_bytes, pages) in [(4096, 4 + 1 + 13), (16384, 4 + 1 + 4), (32768, 4 + 1 + 2)] {
            let mut file = Pages::new(page_bytes);
            file.put(Table::Users, 10, 50_000);
            assert_eq!(file.bytes(), pages * page_bytes, "{page_bytes}");
        }
        // The largest record that stays in its node, and one byte more: the value takes a page of its own.
        for (page_bytes, stored_bytes, pages) in
            [(4096, 2020, 4 + 1), (4096, 2021, 4 + 1 + 1), (16384, 8164, 4 + 1), (16384, 8165, 4 + 1 + 1)]
        {
            let mut file = Pages::new(page_bytes);
            file.put(Table::Users, 10, stored_bytes);
            assert_eq!(file.bytes(), pages * page_bytes, "{page_bytes} {stored_bytes}");
        }
        // A page above the leaves takes 204 of them: 10 bytes for the first, 20 for each other.
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
