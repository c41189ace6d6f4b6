//! A store with damaged pages can be restored from a backup, for any position of the damage.

use crate::command::{run, said, why};
use crate::server::Scratch;
use std::os::unix::fs::FileExt as _;

/// The length of the damage: about one bad sector and its neighbours.
const BYTES: usize = 3_000;
const PAGE: u64 = 4096;

#[test]
fn a_store_that_is_damaged_anywhere_is_restored() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let file = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    said(&data, &["init"]);
    for n in 0..40 {
        said(&data, &["group", "add", &format!("group{n}")]);
    }
    let backup = file("backup");
    said(&data, &["facts", "backup", &backup]);
    let groups = said(&data, &["group", "list"]);
    let sound = std::fs::read(data.join("facts/data.mdb")).unwrap();
    let pages = sound.len() as u64 / PAGE;
    for page in 0..pages {
        let store = std::fs::OpenOptions::new().write(true).open(data.join("facts/data.mdb")).unwrap();
        store.write_all_at(&[0xa5; BYTES], page * PAGE).unwrap();
        let output = run(&data, &["facts", "restore", &backup, "--set-aside", "--accept-rollback"], None);
        assert!(output.status.success(), "page {page} of {pages}: {} {}", output.status, why(&output));
        assert_eq!(said(&data, &["facts", "check"])[0]["sound"], true, "page {page}");
        assert_eq!(said(&data, &["group", "list"]), groups, "page {page}");
    }
}
