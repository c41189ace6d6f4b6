//! Checks the two newest commits of a store without a high-water mark.
//!
//! LMDB stores the roots of its two newest commits, and uses the commit with the larger number. If one bit of a number is flipped, LMDB can use the
//! older commit. All records of this commit are sound, but one change is missing. Usually the high-water mark shows that a change is missing. If the
//! mark is missing, both commits are read. Their numbers must be consecutive, and the head in each commit must contain the number of that commit.

use super::map::open_map_of;
use enfilade_facts::Table;
use enfilade_facts::journal::Head;
use heed::types::Bytes;
use heed::{CommitOrAbort, EnvFlags};
use std::path::Path;

/// Describes the damage of the two newest commits of the store in this directory. `None` if there is no damage, or if other processes have the store
/// open.
pub(super) fn damage(path: &Path, map_bytes: usize) -> heed::Result<Option<String>> {
    let both = [EnvFlags::empty(), EnvFlags::PREV_SNAPSHOT].map(|flags| look(path, map_bytes, flags));
    let (newest, before) = match both {
        [Ok(newest), Ok(before)] => (newest, before),
        // LMDB can open the older commit only if no other process has the environment open.
        [_, Err(heed::Error::Io(why))] if why.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
        [Err(why), _] | [_, Err(why)] => return Err(why),
    };
    let follow = newest.number.checked_sub(1).is_none_or(|before_it| before_it == before.number);
    Ok([&newest, &before].into_iter().find_map(Commit::damage).or_else(|| {
        (!follow).then(|| format!("commit {} does not follow commit {}", newest.number, before.number))
    }))
}

struct Commit {
    number: u64,
    /// The head in this commit; `None` in the commit before the store was made.
    head: Option<Result<Head, String>>,
}

impl Commit {
    fn damage(&self) -> Option<String> {
        match self.head.as_ref()? {
            Ok(head) if head.commit == self.number => None,
            Ok(head) => {
                Some(format!("the head record is of commit {}, expected commit {}", head.commit, self.number))
            }
            Err(why) => Some(why.clone()),
        }
    }
}

fn look(path: &Path, map_bytes: usize, flags: EnvFlags) -> heed::Result<Commit> {
    let env = open_map_of(path, map_bytes, flags)?;
    let looked = env.open_databases_and_commit(env.read_txn()?, |opener, txn| {
        let table = opener.open_database::<Bytes, Bytes>(txn, Some(Table::Head.name()))?;
        let head = table.map(|table| {
            table.get(txn, Head::KEY).map(|stored| Head::open(stored).map_err(|why| why.to_string()))
        });
        let commit = Commit { number: txn.id() as u64, head: head.transpose()? };
        Ok::<_, heed::Error>(CommitOrAbort::<(), _>::Abort(commit))
    });
    env.prepare_for_closing().wait();
    match looked? {
        CommitOrAbort::Abort(commit) => Ok(commit),
        CommitOrAbort::Commit(()) => Err(heed::Error::EnvAlreadyOpened),
    }
}

#[cfg(test)]
mod tests {
    use crate::lmdb::map::MAP_BYTES;
    use crate::lmdb::{Lmdb, place};
    use crate::scratch::Scratch;
    use enfilade_facts::{Read, Source};
    use std::io::{BufRead, BufReader, Read as _, Write};
    use std::path::Path;
    use std::process::{Command, Stdio};

    const PLACE: &str = "ENFILADE_OPEN_PLACE";
    const IS_OPEN: &str = "the store is open";

    /// Opens the store at the path in an environment variable, and keeps it open until the standard input ends. The test below starts this test in a
    /// process of its own.
    #[test]
    fn another_process() {
        let Ok(place) = std::env::var(PLACE) else { return };
        let lmdb = Lmdb::open(Path::new(&place)).unwrap();
        std::io::stdout().write_all(IS_OPEN.as_bytes()).unwrap();
        std::io::stdout().write_all(b"\n").unwrap();
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        drop(lmdb);
    }

    #[test]
    fn while_another_process_has_the_store_open_it_is_believed_without_the_mark() {
        let scratch = Scratch::new();
        let path = scratch.path().join("facts");
        let at = crate::conformance::put_something(&Lmdb::open(&path).unwrap());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "lmdb::newest::tests::another_process", "--nocapture"]).env(PLACE, &path);
        let mut other = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(other.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains(IS_OPEN)), "the other process did not open it");
        std::fs::remove_file(path.join(place::HIGH_WATER)).unwrap();
        let opened = Lmdb::open(&path).map(|lmdb| lmdb.at());
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success());
        assert_eq!(opened.unwrap(), at);
        // If no other process has the store open, and the commits cannot be read, the function returns an error.
        let nowhere = scratch.path().join("nowhere");
        assert!(super::damage(&nowhere, MAP_BYTES[2]).is_err());
    }

    /// The offset in `data` of LMDB's number of this commit. The number is in the meta page of the commit.
    fn number_in(data: &[u8], commit: u64, page_bytes: usize) -> usize {
        let page = (commit as usize & 1) * page_bytes;
        let mut places = (page..page + 256).filter(|&at| data[at..at + 8] == commit.to_ne_bytes());
        let (first, last) = (places.next().unwrap(), places.next_back());
        last.unwrap_or(first)
    }

    #[test]
    fn a_flipped_number_of_the_newest_commit_does_not_lead_back_without_the_mark_either() {
        let scratch = Scratch::new();
        for changes in [70, 71] {
            let path = scratch.path().join(changes.to_string());
            let lmdb = Lmdb::open(&path).unwrap();
            for _ in 0..changes {
                crate::conformance::put_something(&lmdb);
            }
            let (at, commit) = (lmdb.at(), lmdb.read(|view| view.head()).unwrap().unwrap().commit);
            let page_bytes = lmdb.environment.page_bytes(&lmdb.environment.env.read_txn().unwrap()).unwrap();
            drop(lmdb);
            let file = path.join("data.mdb");
            let whole = std::fs::read(&file).unwrap();
            let number = number_in(&whole, commit, page_bytes as usize);
            let remove_mark = || std::fs::remove_file(path.join(place::HIGH_WATER)).unwrap();
            let mut refused = 0;
            for bit in 0..64 {
                let mut flipped = whole.clone();
                flipped[number + bit / 8] ^= 1 << (bit % 8);
                std::fs::write(&file, flipped).unwrap();
                let _ = std::fs::remove_file(path.join(place::HIGH_WATER));
                match Lmdb::open(&path) {
                    Err(_) => refused += 1,
                    Ok(lmdb) => {
                        assert!(lmdb.read(|view| view.at()).is_ok_and(|seen| seen == at), "bit {bit}")
                    }
                }
            }
            assert!(refused > 60, "{refused}");
            std::fs::write(&file, &whole).unwrap();
            drop(Lmdb::open(&path).unwrap());
            remove_mark();
            assert_eq!(Lmdb::open(&path).unwrap().at(), at);
        }
    }
}
