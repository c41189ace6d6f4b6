//! The decision of door 3.

use crate::ask::{Ask, Phase};
use crate::fleet_place::FleetPlace;
use crate::permit::DatastorePermit;
use crate::refuse::Refusal;
use crate::view::Record;
use enfilade_facts::tables::FileFault;
use enfilade_facts::vocabulary::{DatastoreName, Maintenance, MaintenanceMode, OperationKind};
use enfilade_facts::{Clocks, Mounts};
use std::sync::Arc;

/// Judges whether the datastore exists and is open for this kind of operation, at the revision of `record` and at the time `now`. The ledger must
/// have counted the operation before this call (`docs/freshness.md`, rule 5).
///
/// # Errors
/// A [`Refusal`].
pub fn open(
    record: &Record,
    now: Clocks,
    (mounts, place): (&Mounts, &FleetPlace),
    ask: &Ask<'_>,
) -> Result<DatastorePermit, Refusal> {
    let name = ask.name;
    let known = record.store.as_ref().ok_or_else(|| Refusal::Unknown(name.clone()))?;
    if let Some(member) = known.elsewhere(place) {
        return Err(Refusal::Elsewhere { name: name.clone(), member: member.into_owned() });
    }
    let datastore = &known.datastore;
    let own_fault = if known.is_plain { None } else { datastore.fault.as_ref() };
    for fault in [record.file_fault.as_deref(), own_fault].into_iter().flatten() {
        check_fault(name, fault)?;
    }
    if !now.mirror.is_current() {
        let reason =
            "for longer than the stale limit, no server has been able to read the file; see `enfilade doctor`".to_owned();
        return Err(Refusal::Broken { name: name.clone(), line: 0, reason });
    }
    if !known.is_plain {
        if let Some(maintenance) = &datastore.maintenance {
            check_maintenance(name, maintenance, ask)?;
        }
        check_mounted(name, known.mount_point.as_deref(), mounts)?;
    }
    Ok(DatastorePermit { known: Arc::clone(known), kind: ask.kind, at: record.at, mirror: now.mirror })
}

/// Refuses the operation if `datastore.cfg` or the section of the datastore is broken, and the last valid records are no longer used. They are used
/// until the stale limit. After the stale limit, or if there never was a valid record, every operation is refused, because the intended content is
/// unknown.
fn check_fault(name: &DatastoreName, fault: &FileFault) -> Result<(), Refusal> {
    match fault.refuses {
        false => Ok(()),
        true => Err(Refusal::Broken { name: name.clone(), line: fault.line, reason: fault.reason.clone() }),
    }
}

/// Judges whether the maintenance mode permits the kind of operation, as in Proxmox Backup Server. Unknown modes are an exception: this server
/// refuses every operation in an unknown mode.
fn check_maintenance(name: &DatastoreName, maintenance: &Maintenance, ask: &Ask<'_>) -> Result<(), Refusal> {
    use MaintenanceMode::{Delete, Offline, ReadOnly, S3Refresh, Unknown, Unmount};
    use OperationKind::{Lookup, Read, Write};
    let inside = ask.phase == Phase::Inside;
    let open = match (&maintenance.mode, ask.kind) {
        (Unknown(mode), _) => {
            return Err(Refusal::UnknownMode { name: name.clone(), mode: mode.clone() });
        }
        (ReadOnly, Lookup | Read) => true,
        (ReadOnly, Write) => inside,
        (Offline | Unmount | S3Refresh, Lookup) => true,
        (Offline | Unmount | S3Refresh, Read | Write) => inside,
        (Delete, _) => inside,
    };
    if open {
        return Ok(());
    }
    Err(Refusal::Maintenance { name: name.clone(), kind: ask.kind, maintenance: maintenance.clone() })
}

fn check_mounted(name: &DatastoreName, point: Option<&str>, mounts: &Mounts) -> Result<(), Refusal> {
    match point.filter(|point| !mounts.is_mount_point(point)) {
        Some(point) => Err(Refusal::NotMounted { name: name.clone(), point: point.to_owned() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Known;
    use enfilade_facts::tables::{Datastore, DatastoreProfile};
    use enfilade_facts::{At, MirrorHealth, Revision, StoreId};

    fn name() -> DatastoreName {
        "tank".parse().unwrap()
    }

    #[test]
    fn operation_kind_by_maintenance_mode() {
        // A table of Proxmox: for each mode, whether a lookup, a read and a write are permitted.
        for (mode, expected) in [
            ("read-only", [true, true, false]),
            ("offline", [true, false, false]),
            ("unmount", [true, false, false]),
            ("s3-refresh", [true, false, false]),
            ("delete", [false, false, false]),
            ("offlin", [false, false, false]),
        ] {
            let maintenance = Maintenance::from_property(mode);
            let kinds = [OperationKind::Lookup, OperationKind::Read, OperationKind::Write];
            let entering = kinds.map(|kind| {
                let ask = Ask { name: &name(), kind, phase: Phase::Entering };
                check_maintenance(&name(), &maintenance, &ask).is_ok()
            });
            assert_eq!(entering, expected, "{mode}");
            let inside = kinds.map(|kind| {
                let ask = Ask { name: &name(), kind, phase: Phase::Inside };
                check_maintenance(&name(), &maintenance, &ask).is_ok()
            });
            assert_eq!(inside, [mode != "offlin"; 3], "{mode}, already inside");
        }
    }

    #[test]
    fn last_good_facts_serve_until_they_are_too_old() {
        let fault = |refuses| FileFault { line: 3, reason: "unknown property".into(), since: 1000, refuses };
        assert!(check_fault(&name(), &fault(false)).is_ok());
        assert!(check_fault(&name(), &fault(true)).is_err());
    }

    #[test]
    fn a_permit_holds_while_somebody_looks_at_the_file() {
        let known = Known::of(&name(), Datastore::default(), None);
        let at = At { store: StoreId(1), revision: Revision(5) };
        let record = Record { at, store: Some(Arc::new(known)), file_fault: None };
        let now = |mirror| Clocks { unix_seconds: 0, tick_millis: 0, mirror };
        let ask = Ask { name: &name(), kind: OperationKind::Read, phase: Phase::Entering };
        let open = |now| open(&record, now, (&Mounts::default(), &FleetPlace::Alone), &ask);
        let permit = open(now(MirrorHealth::Current)).unwrap();
        assert!(permit.holds(at, now(MirrorHealth::Current)));
        assert!(!permit.holds(at, now(MirrorHealth::Stale)), "no server reads the file any more");
        assert!(!permit.holds(At { revision: Revision(6), ..at }, now(MirrorHealth::Current)));
        assert!(open(now(MirrorHealth::Stale)).is_err());
    }

    #[test]
    fn a_removable_store_is_there_while_it_is_mounted() {
        let removable =
            Datastore { path: "backup".into(), backing_device: Some("0a1b".into()), ..Datastore::default() };
        assert_eq!(removable.root(&name()), "/mnt/datastore/tank/backup");
        let mounted =
            Mounts::new(["/".to_owned(), "/mnt/datastore/tank".to_owned(), "/mnt/share".to_owned()]);
        let check = |datastore: &Datastore, profile: Option<DatastoreProfile>, mounts: &Mounts| {
            let known = Known::of(&name(), datastore.clone(), profile);
            check_mounted(&name(), known.mount_point.as_deref(), mounts).is_ok()
        };
        assert!(check(&removable, None, &mounted));
        assert!(!check(&removable, None, &Mounts::default()));
        let fixed = Datastore { backing_device: None, path: "/tank".into(), ..removable };
        assert!(check(&fixed, None, &Mounts::default()));
        // When a network share is unmounted, its mount point is an empty directory.
        let share = |point: &str| {
            Some(DatastoreProfile { mounted_at: Some(point.to_owned()), ..DatastoreProfile::default() })
        };
        assert!(check(&fixed, share("/mnt/share"), &mounted));
        assert!(!check(&fixed, share("/mnt/other"), &mounted));
    }
}
