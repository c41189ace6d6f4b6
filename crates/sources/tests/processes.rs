//! A test in which several processes make one store at the same moment.

use enfilade_facts::tables::Domain;
use enfilade_facts::vocabulary::DomainId;
use enfilade_facts::{Read, Source};
use enfilade_sources::conformance::change as empty;
use enfilade_sources::lmdb::Lmdb;
use std::path::PathBuf;
use std::process::Command;

const PLACE: &str = "ENFILADE_TEST_STORE";
const PROCESSES: u8 = 6;
const COMMITS: u8 = 10;

/// The work of a child process, which runs only this test. An environment variable contains the directory.
#[test]
fn one_of_several_processes() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let lmdb = Lmdb::open(&place.join("facts")).unwrap();
    let process = std::process::id().to_be_bytes();
    for round in 0..COMMITS {
        let mut id = [round; 16];
        id[..4].copy_from_slice(&process);
        let domain = Domain::new("x1".parse().unwrap());
        let at = lmdb.commit(empty().put(&DomainId::from_bytes(id), &domain)).unwrap();
        assert!(at.revision <= lmdb.read(|view| view.at()).unwrap().revision);
    }
    std::fs::write(place.join(std::process::id().to_string()), lmdb.at().store.to_string()).unwrap();
}

#[test]
fn processes_that_open_it_first_at_once_agree_which_store_it_is() {
    let place = std::env::temp_dir().join(format!("enfilade-processes-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let child = |_| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "one_of_several_processes"]).env(PLACE, &place).spawn().unwrap()
    };
    let children: Vec<_> = (0..PROCESSES).map(child).collect();
    let stores: Vec<String> = children
        .into_iter()
        .map(|mut child| {
            assert!(child.wait().unwrap().success());
            std::fs::read_to_string(place.join(child.id().to_string())).unwrap()
        })
        .collect();
    let lmdb = Lmdb::open(&place.join("facts")).unwrap();
    assert!(stores.iter().all(|store| *store == lmdb.at().store.to_string()), "{stores:?}");
    let domains = lmdb.read(|view| view.list::<Domain>(&[])).unwrap().unwrap();
    assert_eq!(domains.len(), usize::from(PROCESSES) * usize::from(COMMITS));
    drop(lmdb);
    std::fs::remove_dir_all(&place).unwrap();
}
