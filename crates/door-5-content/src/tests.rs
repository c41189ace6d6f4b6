//! Tests on real directories. Only door 4 can make a permit. So these tests call the inner functions, which do not check a permit.

mod acls;
mod changes;
mod finding;
mod listing;
mod names;
mod racing;
mod trash;
mod trees;
mod uploads;

use crate::relocate::EntryRef;
use crate::{Blocking, Node, Refusal, Root, collection, relocate};
use enfilade_access::Inheritance;
use enfilade_facts::Refuse;
use enfilade_facts::vocabulary::{AclDialect, StorePath};
use std::path::{Path, PathBuf};

/// A temporary directory, which is removed with everything in it when the value is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        let name = format!("enfilade-content-{:016x}", getrandom::u64().unwrap());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::create_dir(path.join("root")).unwrap();
        Scratch(path)
    }

    /// A path inside the datastore.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.join("root").join(path)
    }

    /// A path in the temporary directory, outside the datastore.
    fn outside(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let at = self.at(path);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, content).unwrap();
    }

    pub(crate) fn directory(&self, path: &str) {
        std::fs::create_dir_all(self.at(path)).unwrap();
    }

    fn root(&self) -> Root {
        Root::open_own(self.at("").to_str().unwrap(), AclDialect::Ntacl).unwrap()
    }

    fn find(&self, path: &str) -> Result<Node, Refusal> {
        self.root().find(&StorePath::from_plain(path).unwrap(), Blocking)
    }

    pub(crate) fn node(&self, path: &str) -> Node {
        self.find(path).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Every name in a directory, including names that no listing shows.
pub(crate) fn names_on_disk(path: &Path) -> Vec<String> {
    let entries =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = entries.collect();
    names.sort();
    names
}

pub(crate) fn code<T>(result: Result<T, Refusal>) -> &'static str {
    match result {
        Ok(_) => "granted",
        Err(refusal) => refusal.code(),
    }
}

/// An inheritance with this ACL, and without an owner.
fn given(bytes: &[u8]) -> Inheritance {
    Inheritance { acl: bytes.to_vec(), owner: None }
}

/// [`collection::make`] with checks that always succeed.
fn make(directory: &Node, name: &str, from_start: &Inheritance) -> Result<Node, Refusal> {
    collection::make(directory, name, from_start, || Ok(()), || Ok(()))
}

fn remove(directory: &Node, name: &str, target: &Node) -> Result<(), Refusal> {
    collection::remove(directory, name, target, || Ok(()))
}

fn rename(target: &Node, from: EntryRef<'_>, to: EntryRef<'_>) -> Result<(), Refusal> {
    relocate::relocate(target, from, to, None, || Ok::<_, Refusal>(()), || Ok(()))
        .map(relocate::Relocated::complete)
}

fn bytes_of(node: &Node) -> Vec<u8> {
    let reader = crate::read::reader(node).unwrap();
    let mut bytes = vec![0; usize::try_from(reader.bytes()).unwrap() + 1];
    let count = reader.read_at(0, &mut bytes).unwrap();
    bytes.truncate(count);
    bytes
}
