//! The six trees that are listed, each with the same number of visible files.
//!
//! `largedir_N` has N directories next to each other with a file in each; 1,000 of the directories are visible. `hierarchy_N` has N visible
//! directories with 200 files each. The visible files are: in `hierarchy_200` five in each directory, in `hierarchy_500` 100 in each of ten
//! directories, in `hierarchy_500_spread` two in each directory.

use crate::Failure;
use crate::stopwatch::now;
use crate::stores::Sequence;
use enfilade_access::{Ace, AceFlags, AceType, SecurityDescriptor};
use enfilade_facts::vocabulary::{AccessMask, Sid};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The number of visible files in each tree.
pub(super) const SEEN: u64 = 1_000;
const SEEN_BYTES: usize = 25_000;
const HIDDEN_BYTES: usize = 100;
const IN_EACH: u64 = 200;

pub(super) const TREES: [&str; 6] = [
    "largedir_1000",
    "largedir_21000",
    "largedir_41000",
    "hierarchy_200",
    "hierarchy_500",
    "hierarchy_500_spread",
];

/// The number of different ACLs in a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Acls {
    /// 32 different ACLs on hidden entries, and 32 others on visible entries.
    Few,
    /// A different ACL on each object.
    Distinct,
}

impl Acls {
    pub(super) const BOTH: [Acls; 2] = [Acls::Few, Acls::Distinct];

    pub(super) fn name(self) -> &'static str {
        match self {
            Acls::Few => "few",
            Acls::Distinct => "distinct",
        }
    }

    /// Describes the ACLs of a tree. The description is a part of the field `workload` of goals.
    pub(super) fn told(self) -> String {
        match self {
            Acls::Few => {
                format!("Visible objects have {FEW} different ACLs, hidden objects have {FEW} others")
            }
            Acls::Distinct => "Each object has a different ACL".to_owned(),
        }
    }
}

/// The number of groups that ACLs name and that have no members.
const NOISE: u64 = 1_000;
const FEW: u64 = 32;
/// The rights to read, list and traverse.
const READ: AccessMask = AccessMask(0x12_00a9);

/// The number of the group with access to the visible entries. ACLs name the group by the SID that Samba uses for this number, so that Enfilade and
/// Samba interpret the ACLs in the same way.
pub(super) const PROJECT: u32 = 20_000;

fn acl(entries: impl Iterator<Item = Sid>) -> Result<Vec<u8>, Failure> {
    let flags = AceFlags(AceFlags::FILES | AceFlags::DIRECTORIES);
    let ace = |sid| Ace { kind: AceType::Allow, flags, mask: READ, sid };
    let descriptor = SecurityDescriptor {
        owner: Some(Sid::of_unix_user(0)),
        group: Some(Sid::of_unix_group(0)),
        dacl: Some(entries.map(ace).collect()),
        ..SecurityDescriptor::default()
    };
    Ok(descriptor.to_ntacl().map_err(|why| why.to_string())?)
}

/// An ACL of eight entries: seven for groups without members, and one for the group [`PROJECT`] if the object is visible.
pub(super) fn acl_of(n: u64, is_seen: bool, acls: Acls) -> Result<Vec<u8>, Failure> {
    let which = if acls == Acls::Few { n % FEW } else { n };
    let mut sequence = Sequence(which << 1 | u64::from(is_seen));
    let noise = |_| Sid::of_store([7, 7, 7], 5_000 + (sequence.next() % NOISE) as u32);
    let entries: Vec<Sid> = (0..8 - u64::from(is_seen)).map(noise).collect();
    acl(entries.into_iter().chain(is_seen.then(|| Sid::of_unix_group(PROJECT))))
}

/// An ACL with which all users see the object.
fn open() -> Result<Vec<u8>, Failure> {
    acl([Sid::AUTHENTICATED].into_iter())
}

/// The directory that contains the trees with these ACLs. Makes missing trees.
pub(super) fn directory(acls: Acls, trees: &[&str]) -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()?;
    let base = program.parent().and_then(Path::parent).ok_or("the program is in the root directory")?;
    let base = base.join("bench-trees").join(acls.name());
    std::fs::create_dir_all(&base)?;
    for tree in trees {
        let done = base.join(format!(".{tree}.done"));
        if !done.exists() {
            let place = base.join(tree);
            let _ = std::fs::remove_dir_all(&place);
            Maker::new(acls, tree).make(&place)?;
            std::fs::write(done, "")?;
        }
    }
    put(&base, &open()?)?;
    Ok(base)
}

/// Makes a directory with an ACL with which all users can list the directory. This directory contains the directory `chain`. Each directory of the
/// chain contains a file and the next directory. Returns the path of the lowest directory.
pub(super) fn chain(place: &Path, directories: usize) -> Result<String, Failure> {
    let mut maker = Maker::new(Acls::Distinct, "a chain");
    std::fs::create_dir_all(place)?;
    put(place, &open()?)?;
    let mut path = "chain".to_owned();
    for n in 0..directories {
        if n > 0 {
            path.push_str("/d");
        }
        maker.directory(&place.join(&path), true)?;
        maker.file(&place.join(&path).join("file"), true)?;
    }
    Ok(path)
}

fn put(path: &Path, acl: &[u8]) -> Result<(), Failure> {
    use rustix::fs::{XattrFlags, setxattr};
    setxattr(path, "security.NTACL", acl, XattrFlags::empty())
        .map_err(|why| format!("writing the ACL of `{}`: {why}; it takes root", path.display()).into())
}

struct Maker<'m> {
    acls: Acls,
    tree: &'m str,
    made: u64,
    told: std::time::Instant,
}

impl<'m> Maker<'m> {
    fn new(acls: Acls, tree: &'m str) -> Self {
        Maker { acls, tree, made: 0, told: now() }
    }

    fn acl(&mut self, is_seen: bool) -> Result<Vec<u8>, Failure> {
        self.made += 1;
        if self.told.elapsed() > Duration::from_secs(5) {
            eprintln!("making {} with {} ACLs: {} objects", self.tree, self.acls.name(), self.made);
            self.told = now();
        }
        acl_of(self.made, is_seen, self.acls)
    }

    fn file(&mut self, path: &Path, is_seen: bool) -> Result<(), Failure> {
        use std::io::Write as _;
        let bytes = vec![b'x'; if is_seen { SEEN_BYTES } else { HIDDEN_BYTES }];
        File::create_new(path)?.write_all(&bytes)?;
        let acl = self.acl(is_seen)?;
        put(path, &acl)
    }

    fn directory(&mut self, path: &Path, is_seen: bool) -> Result<(), Failure> {
        std::fs::create_dir(path)?;
        let acl = self.acl(is_seen)?;
        put(path, &acl)
    }

    fn make(&mut self, place: &Path) -> Result<(), Failure> {
        std::fs::create_dir(place)?;
        put(place, &open()?)?;
        let (kind, count) = self.tree.split_once('_').ok_or("no such tree")?;
        let (count, is_spread) = match count.strip_suffix("_spread") {
            Some(count) => (count, true),
            None => (count, false),
        };
        let count: u64 = count.parse()?;
        for n in 0..count {
            let directory = place.join(format!("d{n:05}"));
            if kind == "largedir" {
                let is_seen = n % (count / SEEN) == 0;
                self.directory(&directory, is_seen)?;
                self.file(&directory.join("file"), is_seen)?;
                continue;
            }
            std::fs::create_dir(&directory)?;
            put(&directory, &open()?)?;
            let seen = match (count, is_spread) {
                (200, _) => SEEN / count,
                (_, true) => SEEN / count,
                (_, false) if n < 10 => SEEN / 10,
                _ => 0,
            };
            for m in 0..IN_EACH {
                let is_seen = seen > 0 && m % (IN_EACH / seen) == 0;
                self.file(&directory.join(format!("f{m:03}")), is_seen)?;
            }
        }
        Ok(())
    }
}
