//! Measures door 4 without the rest of the server: the cost to judge an entry for users in few groups and for users in many groups. The cost is
//! compared with the cost of two simple methods. For each entry of an ACL, these methods search the SIDs of the user. One method uses an unsorted
//! list, and the other method a sorted list.

use super::trees::{self, Acls};
use super::{User, facts, users};
use crate::Failure;
use crate::report::Report;
use crate::samples::{Estimate, Samples};
use crate::stopwatch::now;
use crate::stores::{self, TOKENS_EACH};
use enfilade_access::{
    AccessMemo, AceFlags, AceType, NodeKind, ObjectId, SecurityDescriptor, Sight, StoredAcl, Subject, Version,
};
use enfilade_facts::vocabulary::{AccessMask, AclDialect, DatastoreName, OperationKind, Sid, StorePath};
use enfilade_facts::{MemoSeed, Read as _, StoreId};
use enfilade_passage::House;
use enfilade_sources::memory::Memory;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const ENTRIES: u64 = 41_000;
const ROUNDS: usize = 5;
/// The number of rounds in which the memo of door 4 has the results of all entries. There are more of these rounds than of other rounds, because such
/// a round takes only two milliseconds.
const ROUNDS_OF_KNOWN: usize = 50;
const BATCH: usize = 1024;

/// A [`House`] with the trees of [`trees`]. The clock of the house does not advance.
fn house(acls: Acls, users: &[User]) -> Result<(Arc<House>, DatastoreName), Failure> {
    let memory = Memory::new(StoreId(7));
    let base = trees::directory(acls, &[])?;
    facts(&memory, users, &[(acls, &base)])?;
    Ok((stores::still_house(Arc::new(memory)), acls.name().parse()?))
}

/// All SIDs of a user, in an order in which a search finds matching groups late.
fn sids_of(user: &User) -> Vec<Sid> {
    let of_groups = (0..user.groups).rev().map(|n| Sid::of_unix_group(trees::PROJECT + n));
    [Sid::EVERYONE, Sid::NETWORK, Sid::AUTHENTICATED].into_iter().chain(of_groups).collect()
}

/// Evaluates an ACL by a simple method; `has` searches the SIDs of the user. For each entry, the method first checks whether the user has the SID of
/// the entry. Then it applies the rights of the entry.
fn is_visible(descriptor: &SecurityDescriptor, has: impl Fn(&Sid) -> bool) -> bool {
    let mut left = AccessMask::VISIBLE;
    let _owns = descriptor.owner.is_some_and(|owner| has(&owner));
    for ace in descriptor.dacl.iter().flatten() {
        if ace.flags.has(AceFlags::INHERIT_ONLY) || !has(&ace.sid) {
            continue;
        }
        match ace.kind {
            AceType::Allow => left = left & !ace.mask,
            AceType::Deny if !(left & ace.mask).is_empty() => return false,
            AceType::Deny | AceType::Audit => {}
        }
    }
    left.is_empty()
}

/// The time of `judge` for each entry, in nanoseconds. Fails if `judge` finds another number of visible entries than expected.
fn each(entries: u64, judge: impl Fn() -> usize) -> Result<Samples, Failure> {
    let mut samples = Samples::default();
    let expected = trees::SEEN as usize;
    for _ in 0..ROUNDS {
        let began = now();
        let seen = judge();
        samples.push(began.elapsed().as_nanos() as f64 / entries as f64);
        if seen != expected {
            return Err(format!("{seen} of {entries} entries may be seen, and not {expected}").into());
        }
    }
    Ok(samples)
}

/// Measures door 4 and both simple methods for each user. Returns the cost of door 4 to judge an entry if the memo has its result, for a user in 400
/// groups and few different ACLs, in nanoseconds.
pub(super) fn run(report: &mut Report, users: &[User]) -> Result<Estimate, Failure> {
    let mut of_known = Estimate::once(f64::NAN);
    for acls in Acls::BOTH {
        let (house, datastore) = house(acls, users)?;
        let blobs: Vec<Vec<u8>> = (0..ENTRIES)
            .map(|n| trees::acl_of(n, n % (ENTRIES / trees::SEEN) == 0, acls))
            .collect::<Result<_, _>>()?;
        let parsed: Vec<SecurityDescriptor> = blobs
            .iter()
            .map(|blob| SecurityDescriptor::from_ntacl(blob).map_err(|why| why.to_string()))
            .collect::<Result<_, _>>()?;
        let subjects: Vec<Subject> = (1..).zip(blobs).map(|(inode, blob)| subject(inode, blob)).collect();
        let unread: Vec<Subject> =
            subjects.iter().map(|subject| Subject { acl: StoredAcl::Unread, ..subject.clone() }).collect();
        for (n, user) in (0..).zip(users) {
            let sids = sids_of(user);
            let mut sorted = sids.clone();
            sorted.sort_unstable();
            let count = |has: &dyn Fn(&Sid) -> bool| parsed.iter().filter(|acl| is_visible(acl, has)).count();
            let groups = u64::from(user.groups);
            let of = |how: &str| format!("the door alone, {} ACLs, {how}", acls.name());
            let linear = each(ENTRIES, || count(&|sid| sids.contains(sid)))?;
            report.middle(&of("a search through all SIDs"), groups, &linear, "ns/entry");
            let binary = each(ENTRIES, || count(&|sid| sorted.binary_search(sid).is_ok()))?;
            report.middle(&of("a search in a sorted list"), groups, &binary, "ns/entry");
            let visit = stores::visit(&house, &stores::ask(n * TOKENS_EACH)?)?;
            let (permit, _inside) =
                house.look_up(&datastore, OperationKind::Read).map_err(|why| why.to_string())?;
            // Returns the time to judge the entries, and the number of visible entries.
            let see = |asked: &[Subject], memo: &AccessMemo| -> (Duration, usize) {
                let root = StorePath::root();
                let look = |view: &enfilade_facts::View<'_>| {
                    let mut spent = Duration::ZERO;
                    let mut sights = |batch: Vec<Subject>| {
                        let children: Vec<_> = batch.iter().map(|subject| ("entry", subject)).collect();
                        let (identity, began) = (visit.identity(), now());
                        let sights = enfilade_access::see(
                            view,
                            house.now(),
                            identity,
                            &permit,
                            &root,
                            &children,
                            memo,
                        );
                        spent += began.elapsed();
                        sights.unwrap_or_default()
                    };
                    let mut seen = 0;
                    for (asked, full) in asked.chunks(BATCH).zip(subjects.chunks(BATCH)) {
                        // The subjects are copied just before they are judged, because a listing also makes its subjects just before it judges them.
                        let first = sights(asked.to_vec());
                        // Entries that the memo has forgotten are judged again with their ACL.
                        let unread = first.iter().zip(full).filter(|(sight, _)| **sight == Sight::Unread);
                        let again: Vec<Subject> = unread.map(|(_, subject)| subject.clone()).collect();
                        let again = if again.is_empty() { Vec::new() } else { sights(again) };
                        seen += first.into_iter().chain(again).filter(|sight| *sight == Sight::Seen).count();
                    }
                    (spent, seen)
                };
                house.source().read(look).unwrap_or_default()
            };
            let fresh = || AccessMemo::new(MemoSeed([2; 16]), 32 << 20);
            let mut first = Samples::default();
            for _ in 0..ROUNDS {
                first.push(each_of(see(&subjects, &fresh()))?);
            }
            report.middle(&of("ours, read for the first time"), groups, &first, "ns/entry");
            let memo = fresh();
            see(&subjects, &memo);
            see(&unread, &memo);
            let mut known = Samples::default();
            for _ in 0..ROUNDS_OF_KNOWN {
                known.push(each_of(see(&unread, &memo))?);
            }
            let known = report.middle(&of("ours, known"), groups, &known, "ns/entry");
            of_known = if (acls, user.groups) == (Acls::Few, 400) { known } else { of_known };
        }
    }
    Ok(of_known)
}

/// The time for each entry, in nanoseconds.
fn each_of((spent, seen): (Duration, usize)) -> Result<f64, Failure> {
    match seen == trees::SEEN as usize {
        true => Ok(spent.as_nanos() as f64 / ENTRIES as f64),
        false => Err(format!("{seen} entries may be seen, and not the expected number").into()),
    }
}

fn subject(inode: u64, blob: Vec<u8>) -> Subject {
    Subject {
        object: ObjectId { device: 1, inode },
        kind: NodeKind::Directory,
        uid: 0,
        gid: 0,
        mode: 0o700,
        version: Some(Version::Stamped {
            acls: AclDialect::Ntacl,
            file_system: 1,
            clock: 0,
            changed: (1, 0),
        }),
        acl: StoredAcl::Ntacl(blob),
    }
}

/// The instructions to judge all entries of a tree: when the entries are new, and when the memo has their results.
pub(super) fn instructions(acls: Acls, tree: &str, groups: u32, place: &Path) -> Result<[f64; 2], Failure> {
    let out = place.join("callgrind");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--dump-before=*a_listing_begins*"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    let output = command
        .arg(std::env::current_exe()?)
        .args(["access-part", acls.name(), tree, &groups.to_string()])
        .output()?;
    if !output.status.success() {
        return Err(format!("under callgrind: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    // callgrind writes a file before each call of `a_listing_begins`, with the instructions since the previous file.
    let counted = |path: &Path| -> Option<f64> {
        let text = std::fs::read_to_string(path).ok()?;
        let _ = std::fs::remove_file(path);
        let total = text.lines().rev().find_map(|line| line.strip_prefix("totals: "))?;
        total.trim().parse().ok()
    };
    let part = |n: u32| counted(&place.join(format!("callgrind.{n}"))).unwrap_or(f64::NAN);
    let [_, first, _, again] = [1, 2, 3, 4].map(part);
    counted(&out);
    Ok([first, again])
}

/// Called before and after each listing, because callgrind writes its count before each call of this function.
#[inline(never)]
fn a_listing_begins(n: u32) {
    black_box(n);
}

/// One directory of a tree, with the entries to judge.
struct Directory {
    path: String,
    names: Vec<String>,
    subjects: Vec<Subject>,
}

/// Reads a tree by the standard library, because callgrind does not support `openat2`.
fn read(base: &Path, path: &str, into: &mut Vec<Directory>) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt as _;
    let mut directory = Directory { path: path.to_owned(), names: Vec::new(), subjects: Vec::new() };
    for entry in std::fs::read_dir(base.join(path))? {
        let entry = entry?;
        let (name, meta) = (entry.file_name().to_string_lossy().into_owned(), entry.metadata()?);
        let mut blob = vec![0; 4096];
        let length = rustix::fs::getxattr(entry.path(), "security.NTACL", &mut blob)?;
        blob.truncate(length);
        let kind = if meta.is_dir() { NodeKind::Directory } else { NodeKind::File };
        directory.subjects.push(Subject { kind, ..subject(meta.ino(), blob) });
        directory.names.push(name);
    }
    let beneath = directory.names.iter().zip(&directory.subjects);
    let beneath = beneath.filter(|(_, subject)| subject.kind == NodeKind::Directory);
    let beneath: Vec<String> = beneath.map(|(name, _)| format!("{path}/{name}")).collect();
    into.push(directory);
    beneath.iter().try_for_each(|path| read(base, path, into))
}

/// Runs in a separate process under callgrind. Judges all entries of a tree twice: when the entries are new, and when the memo has their results.
pub(crate) fn part(acls: &str, tree: &str, groups: u32) -> Result<(), Failure> {
    let acls = Acls::BOTH.into_iter().find(|known| known.name() == acls).ok_or("no such ACLs")?;
    let users = users();
    let user =
        users.iter().position(|user| user.groups == groups).ok_or("no user is in this number of groups")?;
    let (house, datastore) = house(acls, &users)?;
    let visit = stores::visit(&house, &stores::ask(user as u64 * TOKENS_EACH)?)?;
    let mut directories = Vec::new();
    read(&trees::directory(acls, &[])?, tree, &mut directories)?;
    let (permit, _inside) = house.look_up(&datastore, OperationKind::Read).map_err(|why| why.to_string())?;
    let memo = AccessMemo::new(MemoSeed([2; 16]), 32 << 20);
    let unread = |subject: &Subject| Subject { acl: StoredAcl::Unread, ..subject.clone() };
    let known: Vec<Vec<Subject>> =
        directories.iter().map(|one| one.subjects.iter().map(unread).collect()).collect();
    let path = |text: &str| StorePath::from_plain(text).map_err(|why| format!("{why:?}"));
    let paths: Vec<StorePath> = directories.iter().map(|one| path(&one.path)).collect::<Result<_, _>>()?;
    for n in 0..2 {
        let all: Vec<(&StorePath, Vec<(&str, &Subject)>)> = directories
            .iter()
            .zip(&known)
            .zip(&paths)
            .map(|((directory, known), path)| {
                let subjects = if n == 0 { &directory.subjects } else { known };
                (path, directory.names.iter().map(String::as_str).zip(subjects).collect())
            })
            .collect();
        let judge = |view: &enfilade_facts::View<'_>| -> Result<(), String> {
            for (path, children) in &all {
                for children in children.chunks(BATCH) {
                    let sights = enfilade_access::see(
                        view,
                        house.now(),
                        visit.identity(),
                        &permit,
                        path,
                        children,
                        &memo,
                    );
                    black_box(sights.map_err(|why| why.to_string())?);
                }
            }
            Ok(())
        };
        a_listing_begins(n);
        house.source().read(judge)??;
        a_listing_begins(2);
    }
    Ok(())
}
