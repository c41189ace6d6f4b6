//! Runs the real server on real directories.

use crate::reference::{Acl, Act, Actor, Disk, Outcome, Tree, is_within};
use enfilade_admin::NewAcl;
use enfilade_content::Locks;
use enfilade_facts::LockStore;
use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::{Authid, DatastoreName, OperationKind, StorePath};
use enfilade_passage::{Blocking, LockTerms, Placing, Refusal, Stay, Visit};
use enfilade_sources::locks::MemoryLocks;
use enfilade_testkit::{Remembering, TestHouse};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use std::sync::Arc;

/// Random numbers that are the same for the same seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, run: u64) -> Self {
        let of_run = run.wrapping_add(1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ of_run;
        Dice(mixed ^ mixed >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }
}

/// All rights except DELETE_CHILD, so that only the ACL of an entry decides whether the entry may be deleted.
const ALL: &str = "0x1f01bf";
const READ: &str = "0x1200a9";
const QUOTA: u64 = 1 << 30;

fn lines(acl: Acl) -> Vec<String> {
    let of = |who: &str, rights: &str, more: &str| format!("allow {who}@local {rights}{more}");
    let hands_on = " inherit=files,dirs";
    match acl {
        Acl::Both => vec![of("alice", ALL, hands_on), of("bob", ALL, hands_on)],
        Acl::OnlyAlice => vec![of("alice", ALL, hands_on)],
        Acl::OnlyBob => vec![of("bob", ALL, hands_on)],
        Acl::AliceReads => vec![of("alice", READ, hands_on), of("bob", ALL, hands_on)],
        Acl::BobReads => vec![of("bob", READ, hands_on), of("alice", ALL, hands_on)],
        Acl::Shut => vec![of("alice", ALL, ""), of("bob", ALL, ""), of("carol", ALL, hands_on)],
        Acl::Neither | Acl::Hurt => vec![of("carol", ALL, hands_on)],
    }
}

/// The two actors, which may act at the same time.
pub(crate) struct Actors {
    name: DatastoreName,
    visits: [Visit; 2],
}

pub(crate) struct World {
    house: TestHouse,
    locks: Arc<MemoryLocks>,
    name: DatastoreName,
    /// Each ACL as it is stored; `attribute` is the name of its extended attribute.
    acls: Vec<(Acl, Vec<u8>)>,
    attribute: &'static str,
    pub(crate) actors: Actors,
}

fn path(text: &str) -> StorePath {
    StorePath::from_plain(text).unwrap()
}

impl World {
    pub(crate) fn new() -> World {
        let locks = Arc::new(MemoryLocks::default());
        let mut house =
            TestHouse::with_locks(Remembering::AsServed, Arc::clone(&locks) as Arc<dyn LockStore>);
        let name: DatastoreName = "main".parse().unwrap();
        house.add_datastore(&name);
        enfilade_admin::edit_profile(&house.change_context(), &name, |profile| profile.quota = Some(QUOTA))
            .unwrap();
        let people = ["alice@local", "bob@local", "carol@local"].map(|who| who.parse::<Authid>().unwrap());
        for who in &people {
            house.add_user(&who.user, None);
            house.assign("/datastore/main", who, "DatastorePowerUser");
        }
        let place = house.content(&name).join("acl");
        std::fs::write(&place, "").unwrap();
        let (mut acls, mut attribute) = (Vec::new(), "");
        for acl in Acl::EVERY {
            let new = NewAcl::Lines(lines(acl));
            attribute = enfilade_admin::set_acl(&house.change_context(), &name, &path("acl"), &new).unwrap();
            let mut room = [0; 4096];
            let count = getxattr(&place, attribute, &mut room).unwrap();
            acls.push((acl, if acl == Acl::Hurt { b"nonsense".to_vec() } else { room[..count].to_vec() }));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let visits = [0, 1].map(|who| runtime.block_on(house.admit(&people[who])).unwrap());
        let actors = Actors { name: name.clone(), visits };
        // The first query counts the whole content. After that, each change updates the count.
        actors.stay(Actor::Alice).quota().unwrap();
        World { house, locks, name, acls, attribute, actors }
    }

    fn locks(&self) -> Locks<'_> {
        Locks::new(&*self.locks, self.house.clock.now().unix_seconds, Limits::default())
    }

    /// Replaces the content of the datastore with the tree.
    pub(crate) fn plant(&self, tree: &Tree) {
        let root = self.house.content(&self.name);
        for entry in std::fs::read_dir(&root).unwrap() {
            let path = entry.unwrap().path();
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.unwrap();
        }
        let old = self.locks().at_or_beneath(&self.name, &StorePath::root()).unwrap();
        self.locks().end(&old).unwrap();
        for (name, thing) in &tree.0 {
            let place = root.join(name);
            match &thing.content {
                Some(content) => std::fs::write(&place, content).unwrap(),
                None if name.is_empty() => {}
                None => std::fs::create_dir(&place).unwrap(),
            }
            let (_, acl) = self.acls.iter().find(|(acl, _)| *acl == thing.acl).unwrap();
            setxattr(&place, self.attribute, acl, XattrFlags::empty()).unwrap();
        }
        for (name, thing) in &tree.0 {
            if let Some(who) = thing.lock {
                self.actors.lock(who, name).unwrap();
            }
        }
        self.house.house.count_content();
    }

    pub(crate) fn on_disk(&self) -> Disk {
        let root = self.house.content(&self.name);
        let (mut disk, mut paths) = (Disk::new(), vec![String::new()]);
        while let Some(directory) = paths.pop() {
            for entry in std::fs::read_dir(root.join(&directory)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
                let place = root.join(&path);
                match place.is_dir() {
                    true => {
                        disk.insert(path.clone(), None);
                        paths.push(path);
                    }
                    false => drop(disk.insert(path, Some(std::fs::read_to_string(&place).unwrap()))),
                }
            }
        }
        disk
    }

    pub(crate) fn check_quota(&self, said: &str) {
        let (_, counted) = self.actors.stay(Actor::Alice).quota().unwrap();
        let bytes: usize = self.on_disk().values().flatten().map(String::len).sum();
        assert_eq!(counted, bytes as u64, "the quota differs from the bytes on disk: {said}");
    }

    /// Checks that an acknowledged lock exists, and that its entry has not moved, because no other user may remove the entry.
    pub(crate) fn check_locks(&self, acts: &[Act; 2], outcomes: &[Outcome; 2], now: &Disk, said: &str) {
        let (Act::Lock(name), Ok(_)) = (&acts[1], &outcomes[1]) else { return };
        // Alice may have moved or deleted the entry before the lock was taken, and may have moved another entry to its place.
        let locks = self.locks().covering(&self.name, &path(name)).unwrap();
        let is_on_it = locks.iter().any(|lock| lock.path == path(name));
        let is_there = now.contains_key(name);
        let was_before = matches!(&acts[0], Act::Copy { to, .. } if is_within(name, to));
        assert!(
            is_on_it && (is_there || was_before),
            "{name} was locked, and is not: {said}, and then {now:#?}"
        );
    }
}

impl Actors {
    fn stay(&self, who: Actor) -> Stay {
        self.visits[who as usize].clone().enter(&self.name, OperationKind::Write, Blocking).unwrap()
    }

    fn lock(&self, who: Actor, name: &str) -> Result<(), Refusal> {
        let terms = LockTerms { is_deep: false, is_exclusive: true, said: String::new(), seconds: 600 };
        self.stay(who).lock(&path(name), terms, &[]).map(drop)
    }

    pub(crate) fn act(&self, who: Actor, act: &Act) -> Outcome {
        let placing = |overwrite| Placing { overwrite, is_deep: true, tokens: &[], keep_going: &|| true };
        let mut stay = self.stay(who);
        let named = |left: Vec<enfilade_passage::FailedMember>| {
            left.iter().map(|left| left.path.as_str().to_owned()).collect()
        };
        let done = match act {
            Act::Delete(name) => stay.delete(&path(name), &[], &|| true),
            Act::Move { from, to, overwrite } => {
                stay.relocate(&path(from), &path(to), placing(*overwrite)).map(|placed| placed.failed)
            }
            Act::Copy { from, to, overwrite } => {
                stay.copy(&path(from), &path(to), placing(*overwrite)).map(|placed| placed.failed)
            }
            Act::Put(name) => stay.upload(path(name), None).and_then(|mut upload| {
                upload.unless_locked(Vec::new())?;
                upload.write(b"new")?;
                upload.finish().map(|_| Vec::new())
            }),
            Act::MakeDirectory(name) => stay.make_collection(&path(name), &[]).map(|()| Vec::new()),
            Act::Lock(name) => self.lock(who, name).map(|()| Vec::new()),
        };
        done.map(named).map_err(drop)
    }
}
