//! Comparison with a real Samba: both servers give the same verdicts and listings, and ACLs that Samba writes have the same effect on this server.

use crate::curl::{PROPFIND_1, curl};
use crate::server::{Scratch, Server, write_acl};
use enfilade_access::{
    AccessMemo, Ace, AceFlags, AceType, NodeKind, ObjectId, Owner, SecurityDescriptor, StoredAcl, Subject,
    judge,
};
use enfilade_facts::tables::AccessRules;
use enfilade_facts::tables::{Assignment, AssignmentKey, Who};
use enfilade_facts::vocabulary::{AccessMask, AclDialect, Role, Sid, StorePath, UserId};
use enfilade_facts::{AuditRecord, Change, Clocks, MemoSeed, MirrorHealth, Read as _, Source as _, StoreId};
use enfilade_identity::{Principal, Reach, SetId, SidSet};
use enfilade_sources::memory::Memory;
use enfilade_testkit::{Samba, SambaUser};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

const CASES: u64 = 100_000;
const NOW: Clocks = Clocks { unix_seconds: 1_800_000_000, tick_millis: 1, mirror: MirrorHealth::Current };
/// The rights of files that Samba evaluates in an ACL.
const RIGHTS: [u32; 14] =
    [0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x40, 0x80, 0x100, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000];

/// A pseudo-random sequence, which is the same in every run.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn mask(&mut self, most: u64) -> AccessMask {
        let count = 1 + self.below(most);
        (0..count).fold(AccessMask::NONE, |mask, _| mask | AccessMask(self.one(&RIGHTS)))
    }

    fn entries(&mut self, sids: &[Sid], most: u64) -> Vec<Ace> {
        let count = self.below(most + 1);
        let kinds = [AceType::Allow, AceType::Allow, AceType::Deny, AceType::Audit];
        let flags =
            [0, 0, 0, AceFlags::FILES | AceFlags::DIRECTORIES, AceFlags::INHERIT_ONLY | AceFlags::FILES];
        let entry = |_| {
            let flags = self.one(&flags);
            let kind = self.one(&kinds);
            Ace { kind, flags: AceFlags(flags), mask: self.mask(10), sid: self.one(sids) }
        };
        (0..count).map(entry).collect()
    }
}

const JUDGE: &str = r"
import sys
from samba import NTSTATUSError
from samba.dcerpc import security, xattr
from samba.ndr import ndr_pack, ndr_unpack
from samba.security import access_check
for line in sys.stdin:
    blob, sids, mask = line.split()
    # These bindings keep nothing alive that only they point to.
    whole = ndr_unpack(xattr.NTACL, bytes.fromhex(blob))
    acl = ndr_unpack(security.descriptor, ndr_pack(whole.info))
    held = [security.dom_sid(sid) for sid in sids.split(',')]
    token = security.token()
    token.sids = held
    token.num_sids = len(held)
    try:
        access_check(acl, token, int(mask))
        print(1)
    except NTSTATUSError:
        print(0)
";

/// Tries 10^5 random combinations of an ACL, a user and a right. For the bytes of the ACL that Enfilade writes, Samba's access check gives the same
/// result as Enfilade.
#[test]
fn samba_judges_every_list_as_it_is_judged_here() {
    let own: Vec<Sid> = (0..4).map(|n| Sid::of_store([1, 2, 3], 1_000 + n)).collect();
    let sids = [own.as_slice(), &[Sid::EVERYONE, Sid::OWNER_RIGHTS, Sid::of_unix_group(7)]].concat();
    let memory = Memory::new(StoreId(1));
    let user = UserId::from_bytes([1; 16]);
    let mut change = Change::new(AuditRecord {
        who: "a test".into(),
        what: "role".into(),
        unix_seconds: 0,
        request: None,
    });
    let key = AssignmentKey { path: "/".parse().unwrap(), who: Who::User(user) };
    change.put(&key, &Assignment { roles: vec![(Role::DatastorePowerUser, true)], fault: None });
    memory.commit(&change).unwrap();
    let memo = AccessMemo::new(MemoSeed([1; 16]), 1 << 20);
    let mut sequence = Sequence(7);
    let (mut lines, mut verdicts) = (String::new(), Vec::new());
    for _ in 0..CASES {
        let holds = sequence.below(1 << own.len());
        let held = own.iter().enumerate().filter(|(n, _)| holds & 1 << n != 0).map(|(_, sid)| *sid);
        let held: Vec<Sid> = held.chain([Sid::EVERYONE, Sid::AUTHENTICATED]).collect();
        let descriptor = SecurityDescriptor {
            owner: Some(sequence.one(&own)),
            group: Some(sequence.one(&own)),
            dacl: (sequence.below(50) > 0).then(|| sequence.entries(&sids, 8)),
            is_protected: sequence.below(4) == 0,
        };
        let wanted = sequence.mask(3);
        let blob = descriptor.to_ntacl().unwrap();
        let hex: String = blob.iter().map(|byte| format!("{byte:02x}")).collect();
        let names: Vec<String> = held.iter().map(Sid::to_string).collect();
        writeln!(lines, "{hex} {} {}", names.join(","), wanted.0).unwrap();
        let principal = Principal {
            authid: "alice@local".parse().unwrap(),
            user,
            narrowed_to: None,
            link: None,
            reach: Reach::Everything,
            sid: own[0],
            groups: Vec::new(),
            sids: SidSet::new(held),
            uid: None,
            gids: Vec::new(),
            set: SetId(holds + 1),
        };
        let subject = Subject {
            object: ObjectId { device: 1, inode: 1 },
            kind: NodeKind::File,
            uid: 0,
            gid: 0,
            mode: 0,
            version: None,
            acl: StoredAcl::Ntacl(blob),
        };
        let (store, path) = ("tank".parse().unwrap(), StorePath::from_plain("file").unwrap());
        let rules = AccessRules::default();
        let judged =
            memory.read(|view| judge(view, NOW, &principal, (&store, &rules), &path, &subject, &memo));
        verdicts.push((judged.unwrap().unwrap().acl.covers(wanted), descriptor, wanted));
    }
    let mut python = Command::new("/usr/bin/python3")
        .args(["-c", JUDGE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = python.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = python.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let theirs: Vec<bool> = output.stdout.split(|b| *b == b'\n').map(|line| line == b"1").collect();
    assert_eq!(theirs.len() as u64, CASES + 1, "python3-samba is needed");
    let mut granted = 0;
    for ((ours, descriptor, wanted), theirs) in verdicts.iter().zip(theirs) {
        assert_eq!(*ours, theirs, "{wanted} of {descriptor:?}");
        granted += u64::from(theirs);
    }
    assert!(granted > CASES / 20 && granted < CASES / 2, "{granted}");
}

/// A script that sets an ACL through the modules of the share, like Samba for a client.
const WRITE: &str = r"
import os, sys
from samba.auth_util import system_session_unix
from samba.dcerpc import security
from samba.samba3 import param, smbd
share, sddl, path = sys.argv[1:]
param.get_context().load(os.environ['SMB_CONF_PATH'])
acl = security.descriptor.from_sddl(sddl, security.dom_sid('S-1-5-21-1-2-3'))
what = security.SECINFO_OWNER | security.SECINFO_GROUP | security.SECINFO_DACL
smbd.set_nt_acl(path, what, acl, system_session_unix(), service=share)
";

fn put(path: &Path, descriptor: &SecurityDescriptor) {
    write_acl(path, &descriptor.to_ntacl().unwrap());
}

/// Paths below the share that a user sees through SMB.
fn seen_by_samba(samba: &Samba, share: &str, user: &str) -> BTreeSet<String> {
    let mut client = samba.client(user);
    let output = client.args([&format!("//127.0.0.1/{share}"), "-c", "recurse; ls"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    let (mut seen, mut directory) = (BTreeSet::new(), String::new());
    for line in said.lines() {
        if let Some(path) = line.strip_prefix('\\') {
            directory = path.replace('\\', "/") + "/";
            continue;
        }
        // A line contains a name, attributes, size and date.
        let Some(name) = line.strip_prefix("  ").and_then(|line| line.split_whitespace().next()) else {
            continue;
        };
        if !matches!(name, "." | "..") {
            seen.insert(format!("{directory}{name}"));
        }
    }
    seen
}

/// Paths below the share that a user sees through WebDAV.
fn seen_here(server: &Server, share: &str, login: &str) -> BTreeSet<String> {
    let (mut seen, mut paths) = (BTreeSet::new(), vec![String::new()]);
    while let Some(path) = paths.pop() {
        let answer = curl(server, login, &format!("/dav/{share}/{path}"), &PROPFIND_1);
        // The user may see this directory, but not list it.
        if answer.status == 403 {
            continue;
        }
        assert_eq!(answer.status, 207, "{path}");
        for href in answer.text().split("<D:href>").skip(2).filter_map(|part| part.split('<').next()) {
            let below = href.strip_prefix(&format!("/dav/{share}/")).unwrap();
            seen.insert(below.trim_end_matches('/').to_owned());
            if below.ends_with('/') {
                paths.push(below.to_owned());
            }
        }
    }
    seen
}

/// The directory of a share.
fn place(server: &Server, share: &str) -> std::path::PathBuf {
    server.scratch.path().join(share)
}

/// Starts both servers with three users, who have the same uids on both servers.
fn both() -> (Server, Samba, [String; 3]) {
    let server = Server::start();
    // Samba accesses the files as the logged-in user.
    let dialects = [("share", AclDialect::Ntacl), ("numbers", AclDialect::Nfs4)];
    let places = dialects.map(|(name, acls)| (name, place(&server, name), acls));
    for (name, place, acls) in &places {
        std::fs::create_dir(place).unwrap();
        let create = ["datastore", "create", name, "--path", place.to_str().unwrap(), "--acls", acls.name()];
        server.cli(&create);
    }
    let mut logins = Vec::new();
    for (n, name) in ["ann", "ben", "eve"].into_iter().enumerate() {
        let user = format!("{name}@local");
        server.cli(&["user", "add", &user, "--uid", &(70_000 + n).to_string()]);
        server.cli(&["role", "assign", "--path", "/datastore", "--auth-id", &user, "DatastorePowerUser"]);
        logins.push(server.add_token(&format!("{user}!test")));
    }
    // ann is in the first two groups, ben in the last two, eve in no group.
    for gid in 30_000..30_003 {
        let group = format!("g{gid}@local");
        server.cli(&["group", "add", &group, "--gid", &gid.to_string()]);
        for (user, of) in [("ann@local", 30_000..30_002), ("ben@local", 30_001..30_003)] {
            if of.contains(&gid) {
                server.cli(&["group", "member", "add", &group, user]);
            }
        }
    }
    let user = |name: &str, gids: &[u32]| SambaUser { name: name.into(), gids: gids.to_vec() };
    let users = [user("ann", &[30_000, 30_001]), user("ben", &[30_001, 30_002]), user("eve", &[])];
    let shares = places.each_ref().map(|(name, place, acls)| (*name, place.as_path(), *acls));
    let samba = Samba::start(&server.scratch.path().join("samba"), &shares, &users).unwrap();
    (server, samba, logins.try_into().unwrap())
}

fn is_possible() -> bool {
    let attribute = write_acl(Scratch::new().path(), b"probe");
    let is_possible = attribute == "security.NTACL" && rustix::process::geteuid().is_root();
    if !is_possible {
        println!(
            "not asserted: smbd must change user, and the test must write `security.NTACL`: both need root"
        );
    }
    is_possible
}

#[test]
fn a_tree_shows_the_same_through_samba_and_what_samba_writes_is_obeyed() {
    if !is_possible() {
        return;
    }
    let (server, samba, logins) = both();
    let share = place(&server, "share");
    let mut sequence = Sequence(11);
    let people: Vec<Sid> = (0..3)
        .map(|n| Sid::of_unix_group(30_000 + n))
        .chain((0..3).map(|n| Sid::of_unix_user(70_000 + n)))
        .chain([Sid::EVERYONE, Sid::AUTHENTICATED, Sid::NETWORK, Sid::OWNER_RIGHTS])
        .collect();
    let open = Ace {
        kind: AceType::Allow,
        flags: AceFlags(AceFlags::FILES | AceFlags::DIRECTORIES),
        mask: AccessMask::ALL,
        sid: Sid::AUTHENTICATED,
    };
    let everybody = SecurityDescriptor {
        owner: Some(Sid::of_unix_user(0)),
        group: Some(Sid::of_unix_group(0)),
        dacl: Some(vec![open]),
        ..SecurityDescriptor::default()
    };
    put(&share, &everybody);
    let mut directories = vec![share.clone()];
    for n in 0..150 {
        let place = sequence.one(&directories.iter().map(std::path::PathBuf::as_path).collect::<Vec<_>>());
        let path = place.join(format!("e{n:03}"));
        if n % 6 == 0 {
            std::fs::create_dir(&path).unwrap();
        } else {
            std::fs::write(&path, "x").unwrap();
        }
        let read = |sid| Ace { mask: AccessMask(0x12_00a9), flags: AceFlags(0), sid, ..open };
        // Usually one entry grants reading to a user or group, and other entries may prevent this.
        let mut entries = sequence.entries(&people, 3);
        entries.push(read(sequence.one(&people)));
        entries.push(read(sequence.one(&people)));
        put(
            &path,
            &SecurityDescriptor {
                owner: Some(Sid::of_unix_user(70_000 + sequence.below(3) as u32)),
                dacl: (sequence.below(20) > 0).then_some(entries),
                ..everybody.clone()
            },
        );
        if n % 6 == 0 {
            directories.push(path);
        }
    }
    let mut sizes = BTreeSet::new();
    for (name, login) in ["ann", "ben", "eve"].into_iter().zip(&logins) {
        let (theirs, ours) = (seen_by_samba(&samba, "share", name), seen_here(&server, "share", login));
        assert_eq!(theirs, ours, "what {name} sees; left through Samba, right here");
        sizes.insert(ours.len());
    }
    assert!(sizes.len() > 1 && sizes.iter().all(|size| (10..140).contains(size)), "{sizes:?}");
    // Samba writes an ACL for a file of ann, in Samba's version of the attribute.
    let file = share.join("written");
    std::fs::write(&file, "x").unwrap();
    put(&file, &SecurityDescriptor { owner: Some(Sid::of_unix_user(70_000)), ..everybody });
    for (list, hidden_from) in [
        ("(D;;FA;;;S-1-22-2-30002)(A;;0x1200a9;;;AU)", &["ben"][..]),
        ("(A;;0x1200a9;;;S-1-22-1-70001)(A;;0x1200a9;;;S-1-22-2-30000)", &["eve"]),
        ("(A;;0x1200a8;;;WD)", &["ann", "ben", "eve"]),
        ("(A;OICI;0x1f01ff;;;WD)", &[]),
    ] {
        let sddl = format!("O:S-1-22-1-70000G:S-1-22-2-0D:{list}");
        let output =
            samba.tool("/usr/bin/python3").args(["-c", WRITE, "share", &sddl]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        for (name, login) in ["ann", "ben", "eve"].into_iter().zip(&logins) {
            let (theirs, ours) = (seen_by_samba(&samba, "share", name), seen_here(&server, "share", login));
            assert_eq!(ours.contains("written"), !hidden_from.contains(&name), "{name}: {list}");
            assert_eq!(theirs, ours, "what {name} sees after {list}");
        }
    }
    let mut version = [0; 4096];
    rustix::fs::getxattr(&file, "security.NTACL", &mut version).unwrap();
    assert_eq!(version[0], 3, "the version that Samba writes with `ignore system acls`");
}

/// Writes an NFSv4 ACL with entries for uids and gids of the machine.
fn put_numbers(path: &Path, entries: Vec<Ace>) {
    let of = std::fs::metadata(path).unwrap();
    let of = Owner { uid: of.uid(), gid: of.gid() };
    let descriptor = SecurityDescriptor { dacl: Some(entries), ..SecurityDescriptor::default() };
    let (blob, flags) = (descriptor.to_nfs4(of).unwrap(), rustix::fs::XattrFlags::empty());
    rustix::fs::setxattr(path, "security.nfs4acl_xdr", &blob, flags).unwrap();
}

#[test]
fn nfs4_acls_show_the_same_through_samba_both_ways() {
    if !is_possible() {
        return;
    }
    let (server, samba, logins) = both();
    let share = place(&server, "numbers");
    let mut sequence = Sequence(13);
    let people: Vec<Sid> = (0..3)
        .map(|n| Sid::of_unix_group(30_000 + n))
        .chain((0..3).map(|n| Sid::of_unix_user(70_000 + n)))
        .chain([Sid::EVERYONE])
        .collect();
    let read = |sid| Ace { kind: AceType::Allow, flags: AceFlags(0), mask: AccessMask(0x12_00a9), sid };
    let mut directories = vec![share.clone()];
    for n in 0..90_u32 {
        let place = sequence.one(&directories.iter().map(std::path::PathBuf::as_path).collect::<Vec<_>>());
        let path = place.join(format!("e{n:03}"));
        match n % 6 {
            0 => std::fs::create_dir(&path).unwrap(),
            _ => std::fs::write(&path, "x").unwrap(),
        }
        std::os::unix::fs::chown(&path, Some(70_000 + n % 3), Some(30_000 + n % 3)).unwrap();
        let mut entries = sequence.entries(&people, 3);
        entries.extend([read(sequence.one(&people)), read(sequence.one(&people))]);
        entries.retain(|ace| ace.kind != AceType::Audit);
        put_numbers(&path, entries);
        if n % 6 == 0 {
            directories.push(path);
        }
    }
    let same = |what: &str| -> [BTreeSet<String>; 3] {
        let names = ["ann", "ben", "eve"];
        [0, 1, 2].map(|n| {
            let (name, login) = (names[n], &logins[n]);
            let theirs = seen_by_samba(&samba, "numbers", name);
            let ours = seen_here(&server, "numbers", login);
            assert_eq!(theirs, ours, "what {name} sees {what}; left through Samba, right here");
            ours
        })
    };
    let seen = same("of a tree with ACLs written here");
    assert!(seen.iter().all(|seen| (10..85).contains(&seen.len())) && seen[0] != seen[2]);
    // Samba writes an NFSv4 ACL for a file of ann.
    let file = share.join("written");
    std::fs::write(&file, "x").unwrap();
    std::os::unix::fs::chown(&file, Some(70_000), Some(0)).unwrap();
    for (list, hidden_from) in [
        ("(D;;FA;;;S-1-22-2-30002)(A;;0x1200a9;;;WD)", &["ben"][..]),
        ("(A;;0x1200a9;;;S-1-22-1-70001)(A;;0x1200a9;;;S-1-22-2-30000)", &["eve"]),
        ("(A;;0x1f01ff;;;WD)", &[]),
    ] {
        let sddl = format!("O:S-1-22-1-70000G:S-1-22-2-0D:{list}");
        let mut python = samba.tool("/usr/bin/python3");
        let output = python.args(["-c", WRITE, "numbers", &sddl]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let seen = same(&format!("after {list}"));
        for (name, seen) in ["ann", "ben", "eve"].iter().zip(&seen) {
            assert_eq!(seen.contains("written"), !hidden_from.contains(name), "{name}: {list}");
        }
    }
    // A file that is created through WebDAV has its creator as the owner, and inherits from its directory.
    let handing = AceFlags(AceFlags::FILES | AceFlags::DIRECTORIES);
    let of_makers = Ace {
        flags: AceFlags(handing.0 | AceFlags::INHERIT_ONLY),
        sid: Sid::CREATOR_OWNER,
        mask: AccessMask::ALL,
        ..read(Sid::EVERYONE)
    };
    let of_group = Ace { flags: handing, ..read(Sid::of_unix_group(30_001)) };
    let everybody = Ace { mask: AccessMask::ALL, ..read(Sid::EVERYONE) };
    let shared = share.join("shared");
    std::fs::create_dir(&shared).unwrap();
    put_numbers(&shared, vec![of_makers, of_group, everybody]);
    let put = curl(&server, &logins[0], "/dav/numbers/shared/mine", &["-T", file.to_str().unwrap()]);
    assert_eq!(put.status, 201, "{}", put.text());
    let made = std::fs::metadata(shared.join("mine")).unwrap();
    assert_eq!((made.uid(), made.gid()), (70_000, std::fs::metadata(&shared).unwrap().gid()));
    let said = format!("{:?}", server.cli(&["acl", "get", "numbers", "/shared/mine"]));
    for line in ["owner S-1-22-1-70000", "allow S-1-22-1-70000 full", "allow S-1-22-2-30001 read"] {
        assert!(said.contains(line), "{line} in {said}");
    }
    let seen = same("of what was made here");
    assert_eq!(seen.map(|seen| seen.contains("shared/mine")), [true, true, false]);
}
