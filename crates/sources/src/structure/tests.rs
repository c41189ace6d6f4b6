use super::*;
use crate::check;
use crate::lmdb::Lmdb;
use crate::scratch::Scratch;
use enfilade_facts::Source;
use enfilade_facts::tables::Domain;
use enfilade_facts::vocabulary::DomainId;
use std::path::PathBuf;

const PAGE: usize = 4096;

/// Makes a store that has trees of two levels, large values and free pages. Returns the path of its file, and the bytes of the file.
fn store(scratch: &Scratch) -> (PathBuf, Vec<u8>) {
    let facts = scratch.path().join("facts");
    let lmdb = Lmdb::open(&facts).unwrap();
    for round in 0..3_u8 {
        let mut change = crate::conformance::change();
        for n in 0..120_u8 {
            let name = format!("x{n}").parse().unwrap();
            let description = Some("long ".repeat(40 + usize::from(n / 119) * 2_000));
            let domain = Domain { description, ..Domain::new(name) };
            change.put(&DomainId::from_bytes([n + round; 16]), &domain);
        }
        lmdb.commit(&change).unwrap();
    }
    drop(lmdb);
    let file = facts.join("data.mdb");
    let bytes = std::fs::read(&file).unwrap();
    (file, bytes)
}

fn found(file: &Path, bytes: &[u8]) -> Option<String> {
    std::fs::write(file, bytes).unwrap();
    damage(file, Depth::Complete).unwrap()
}

#[test]
fn a_sound_file_passes_and_a_page_that_is_not_missed_is_free_or_part_of_a_value() {
    let scratch = Scratch::new();
    let (file, whole) = store(&scratch);
    assert_eq!(found(&file, &whole), None);
    let pages = whole.len() / PAGE;
    let mut free = 0;
    for page in 0..pages {
        let mut bytes = whole.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0);
        if found(&file, &bytes).is_none() {
            let lmdb = Lmdb::open(file.parent().unwrap()).unwrap();
            let checked = lmdb.snapshot(|snapshot| check::check(snapshot, &mut |_, _| {})).unwrap().unwrap();
            // The pages of a large value after the first one contain only bytes of the value. Damage in them is found by the checksum of the record.
            let is_value = |problem: &String| problem.contains("checksum does not match");
            assert!(checked.problems.iter().all(is_value), "page {page}: {:?}", checked.problems);
            free += usize::from(checked.problems.is_empty());
        }
    }
    assert!(free > 2 && pages - free > 10, "{free} of {pages} pages can be filled with zeros unnoticed");
}

#[test]
fn a_file_that_is_cut_or_whose_pages_change_places_is_damaged() {
    let scratch = Scratch::new();
    let (file, whole) = store(&scratch);
    for length in [0, 1, PAGE, 2 * PAGE - 1, 2 * PAGE, 3 * PAGE, whole.len() / 2] {
        assert!(found(&file, &whole[..length]).is_some(), "{length}");
    }
    let reached = |page: usize| {
        let mut bytes = whole.clone();
        bytes[page * PAGE] ^= 1;
        found(&file, &bytes).is_some()
    };
    let used: Vec<usize> = (2..whole.len() / PAGE).filter(|page| reached(*page)).collect();
    for pair in used.windows(2) {
        let mut bytes = whole.clone();
        for n in 0..PAGE {
            bytes.swap(pair[0] * PAGE + n, pair[1] * PAGE + n);
        }
        assert!(found(&file, &bytes).is_some(), "{pair:?}");
    }
}

#[test]
fn a_number_that_leads_out_of_its_page_is_damage() {
    let scratch = Scratch::new();
    let (file, whole) = store(&scratch);
    let leaf = (2..whole.len() / PAGE).map(|page| page * PAGE).find(|at| {
        let mut bytes = whole.clone();
        bytes[*at] ^= 1;
        whole[at + 10] == 2 && found(&file, &bytes).is_some()
    });
    let leaf = leaf.unwrap();
    let node = leaf + usize::from(u16::from_ne_bytes([whole[leaf + 16], whole[leaf + 17]]));
    // Each case has the offset of a field, and a wrong value for it. The fields are: the page's flags, `lower` and `upper`, a node's offset, and the
    // node's value length, flags and key length.
    for (at, value) in [
        (leaf + 10, 0x12_u16),
        (leaf + 12, 15),
        (leaf + 12, 0xfff0),
        (leaf + 14, 0xfff0),
        (leaf + 16, 0xfff0),
        (node, 0xffff),
        (node + 2, 0xffff),
        (node + 4, 1),
        (node + 4, 4),
        (node + 6, 0xffff),
        (node + 6, 0),
    ] {
        let mut bytes = whole.clone();
        bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        assert!(found(&file, &bytes).is_some(), "{at} {value:x}");
    }
}

#[test]
fn a_tree_with_more_pages_than_the_file_is_damage() {
    let scratch = Scratch::new();
    let (file, whole) = store(&scratch);
    // In a meta page, the descriptions of the two trees begin after 24 bytes. The first 8 bytes of a description are not counters.
    for (tree, counter) in [(0, 8), (0, 16), (0, 24), (48, 8), (48, 16), (48, 24)] {
        for (count, is_damage) in [(1_u64 << 52, true), (u64::MAX, true), (0, false)] {
            let mut bytes = whole.clone();
            for meta in [0, PAGE] {
                let at = meta + page::PAGE_HEAD + 24 + tree + counter;
                bytes[at..at + 8].copy_from_slice(&count.to_ne_bytes());
            }
            assert_eq!(found(&file, &bytes).is_some(), is_damage, "{tree} {counter} {count}");
        }
    }
}

#[test]
fn a_file_is_checked_while_others_write() {
    let scratch = Scratch::new();
    let facts = scratch.path().join("facts");
    let lmdb = Lmdb::open(&facts).unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..300 {
                crate::conformance::put_something(&lmdb);
            }
            is_done.store(true, std::sync::atomic::Ordering::Release);
        });
        while !is_done.load(std::sync::atomic::Ordering::Acquire) {
            assert_eq!(damage(&facts.join("data.mdb"), Depth::Complete).unwrap(), None);
        }
        // A store must not be closed while a thread that has read it is still ending. The end of the scope waits only for the closure of the thread,
        // so the thread is joined here.
        writer.join().unwrap();
    });
}
