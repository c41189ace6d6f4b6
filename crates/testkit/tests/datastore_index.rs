//! The index of datastores is updated after each change. It keeps the handle of a datastore's content only while the path of the datastore stays the
//! same.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_datastore::{Ask, FleetPlace, Phase, Record, Stores};
use enfilade_facts::tables::{Datastore, DatastoreProfile, FileFault, FileName, Key, MirroredFile};
use enfilade_facts::vocabulary::{DatastoreName, Maintenance, OperationKind};
use enfilade_facts::{
    AuditRecord, Change, Clocks, Indexed, MirrorHealth, Mounts, Read, Refuse, Source, StoreId, Table,
};
use enfilade_sources::memory::Memory;
use std::sync::Arc;

struct Seen {
    is_there: bool,
    maintenance: Option<&'static str>,
    mount_point: Option<&'static str>,
    /// Whether the datastore needs a mount.
    is_removable: bool,
    /// Whether the handle of the datastore's content is kept.
    is_kept: bool,
}

#[test]
fn each_change_of_a_datastore_is_followed() {
    let facts = Memory::new(StoreId(1));
    let name: DatastoreName = "tank".parse().unwrap();
    let change = || {
        Change::new(AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 0, request: None })
    };
    let plain = || Datastore { path: "/tank".into(), ..Datastore::default() };
    let removable = || Datastore { path: "a".into(), backing_device: Some("0a1b".into()), ..plain() };
    let share = || DatastoreProfile { mounted_at: Some("/mnt/share".into()), ..DatastoreProfile::default() };
    let closed = || Datastore { maintenance: Some(Maintenance::from_property("offline")), ..plain() };
    let seen = |maintenance, mount_point: Option<&'static str>, is_kept| Seen {
        is_there: true,
        maintenance,
        mount_point,
        is_removable: mount_point.is_some(),
        is_kept,
    };
    let absent =
        Seen { is_there: false, maintenance: None, mount_point: None, is_removable: false, is_kept: false };
    let (profile, none) = (DatastoreProfile::default, None::<DatastoreProfile>);
    facts.commit(change().put(&name, &plain())).unwrap();
    let mut index = facts.read(Stores::<u8>::build).unwrap().unwrap();
    for (what, datastore, profile, expected) in [
        ("nothing", Some(plain()), none.clone(), seen(None, None, true)),
        ("in maintenance", Some(closed()), none.clone(), seen(Some("offline"), None, true)),
        ("open", Some(plain()), Some(profile()), seen(None, None, true)),
        ("on a share", Some(plain()), Some(share()), seen(None, Some("/mnt/share"), true)),
        (
            "at another path",
            Some(Datastore { path: "/other".into(), ..plain() }),
            Some(profile()),
            seen(None, None, false),
        ),
        ("on a device", Some(removable()), Some(profile()), seen(None, Some("/mnt/datastore/tank"), false)),
        ("deleted", None, Some(profile()), absent),
        ("made anew", Some(removable()), Some(profile()), seen(None, Some("/mnt/datastore/tank"), false)),
    ] {
        let mut of_step = change();
        match &datastore {
            Some(datastore) => of_step.put(&name, datastore),
            None => of_step.delete::<Datastore>(&name),
        };
        profile.iter().for_each(|profile| _ = of_step.put(&name, profile));
        facts.commit(&of_step).unwrap();
        let before = index.entrance(&name).map(|(_, handle)| Arc::clone(handle));
        facts
            .read(|view| {
                for table in [Table::Datastores, Table::DatastoreProfiles] {
                    index.update(view, table, &name.bytes()).unwrap();
                }
            })
            .unwrap();
        let record = index.record(&name, facts.at());
        assert_eq!(record.is_there(), expected.is_there, "{what}");
        assert_eq!(record.is_removable(), expected.is_removable, "{what}");
        assert_eq!(record.mount_point(), expected.mount_point, "{what}");
        let each: Vec<_> =
            index.each().map(|(_, known)| (known.maintenance(), known.mount_point())).collect();
        let told = expected.is_there.then_some((expected.maintenance, expected.mount_point));
        assert_eq!(each, told.into_iter().collect::<Vec<_>>(), "{what}");
        let now = index.entrance(&name).map(|(_, handle)| Arc::clone(handle));
        let is_kept = before.zip(now).is_some_and(|(before, now)| Arc::ptr_eq(&before, &now));
        assert_eq!(is_kept, expected.is_kept, "{what}");
    }
}

#[test]
fn a_file_that_is_not_believed_any_more_refuses_every_datastore() {
    let facts = Memory::new(StoreId(1));
    let name: DatastoreName = "tank".parse().unwrap();
    let change = || {
        Change::new(AuditRecord { who: "a test".into(), what: "test".into(), unix_seconds: 0, request: None })
    };
    let datastore = Datastore { path: "/tank".into(), ..Datastore::default() };
    facts.commit(change().put(&name, &datastore)).unwrap();
    let mut index = facts.read(Stores::<u8>::build).unwrap().unwrap();
    let fault = |refuses| Some(FileFault { line: 3, reason: "it is gone".into(), since: 0, refuses });
    for (what, fault, expected) in [
        ("no fault", None, None),
        ("a fault since a moment ago", fault(false), None),
        ("a fault for too long", fault(true), Some("DS05")),
        ("mended", None, None),
    ] {
        let (version, problems, since, good) = (None, Vec::new(), None, None);
        let file = MirroredFile { version, digest: [0; 16], fault, problems, problem_count: 0, since, good };
        facts.commit(change().put(&FileName::Datastores, &file)).unwrap();
        let read = facts
            .read(|view| {
                index.update(view, Table::Files, &FileName::Datastores.bytes()).unwrap();
                Record::on(view, &name).unwrap()
            })
            .unwrap();
        let built = facts.read(Stores::<u8>::build).unwrap().unwrap();
        let now = Clocks { unix_seconds: 0, tick_millis: 0, mirror: MirrorHealth::Current };
        let ask = Ask { name: &name, kind: OperationKind::Read, phase: Phase::Entering };
        for record in [index.record(&name, facts.at()), built.record(&name, facts.at()), read] {
            let answer =
                enfilade_datastore::open(&record, now, (&Mounts::default(), &FleetPlace::Alone), &ask);
            assert_eq!(answer.err().map(|refusal| refusal.code()), expected, "{what}");
        }
    }
}
