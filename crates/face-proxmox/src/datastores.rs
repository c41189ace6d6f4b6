//! `/config/datastore`, `/admin/datastore` and `/status/datastore-usage`.

use super::{ApiError, ApiResponse, Call, Outcome, digest};
use enfilade_admin::DatastoreEdit;
use enfilade_facts::Read;
use enfilade_facts::tables::Datastore;
use enfilade_facts::vocabulary::{DatastoreName, Privileges};
use enfilade_passage::{Active, AdminPermit};
use serde_json::{Map, Value, json};
use std::time::Duration;

type Row = (DatastoreName, Datastore);

/// Parameters of the call that are not properties of the datastore.
const ABOUT_THE_CALL: [&str; 6] =
    ["name", "delete", "digest", "reuse-datastore", "overwrite-in-use", "keep-job-configs"];

/// The properties that a change may delete (`DeletableProperty` in Proxmox Backup Server).
const DELETABLE: [&str; 17] = [
    "comment",
    "gc-schedule",
    "keep-daily",
    "keep-hourly",
    "keep-last",
    "keep-monthly",
    "keep-weekly",
    "keep-yearly",
    "maintenance-mode",
    "notification-mode",
    "notification-thresholds",
    "notify",
    "notify-user",
    "prune-schedule",
    "counter-reset-schedule",
    "tuning",
    "verify-new",
];

/// The maximum time to wait for the end of all operations, in seconds. The time is limited, because each waiting call occupies a thread.
const WAIT_SECONDS_MAX: u64 = 60;
const WAIT_TURN: Duration = Duration::from_millis(100);

fn rows(call: &Call) -> Result<Vec<Row>, ApiError> {
    Ok(call.faces.house().source().read(|view| view.list::<Datastore>(&[]))??)
}

fn row(call: &Call, name: &DatastoreName) -> Result<Datastore, ApiError> {
    let found = call.faces.house().source().read(|view| view.get::<Datastore>(name))??;
    found.ok_or_else(|| format!("no such datastore '{name}'").into())
}

/// The settings of a datastore as a JSON object.
fn shown((name, row): &Row) -> Value {
    let mut map = Map::new();
    map.insert("name".into(), name.as_str().into());
    map.insert("path".into(), row.path.as_str().into());
    let maintenance = row.maintenance.as_ref().map(enfilade_facts::vocabulary::Maintenance::to_property);
    for (key, value) in [
        ("comment", row.comment.clone()),
        ("maintenance-mode", maintenance),
        ("backing-device", row.backing_device.clone()),
    ] {
        map.extend(value.map(|value| (key.to_owned(), Value::String(value))));
    }
    map.extend(row.other.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))));
    Value::Object(map)
}

fn digest_of(rows: &[Row]) -> String {
    digest(&Value::Array(rows.iter().map(shown).collect()))
}

fn path(name: &DatastoreName) -> String {
    format!("/datastore/{name}")
}

/// The permit to read the state of a datastore. The caller needs the privilege `Datastore.Audit` or `Datastore.Backup`.
fn may_know(call: &mut Call, name: &DatastoreName) -> Result<AdminPermit, ApiError> {
    let may_see = call.permit(&path(name), Privileges::DATASTORE_AUDIT, None);
    may_see.or_else(|_| call.permit(&path(name), Privileges::DATASTORE_BACKUP, None))
}

/// `GET /config/datastore`.
pub(super) fn configs(call: &mut Call) -> Outcome {
    call.params.only(&[])?;
    let rows = rows(call)?;
    let digest = Some(digest_of(&rows));
    let seen =
        rows.iter().filter(|(name, _)| call.permit(&path(name), Privileges::DATASTORE_AUDIT, None).is_ok());
    Ok(ApiResponse { value: Value::Array(seen.map(shown).collect()), digest })
}

/// `POST /config/datastore`.
pub(super) fn create(call: &mut Call) -> Outcome {
    let permit = call.permit("/datastore", Privileges::DATASTORE_ALLOCATE, None)?;
    let name: DatastoreName = super::parsed(call.params.need("name")?)?;
    let path = call.params.need("path")?.to_owned();
    let mut properties = Vec::new();
    for key in call.params.keys().filter(|key| *key != "path" && !ABOUT_THE_CALL.contains(key)) {
        properties.push((key.to_owned(), call.params.need(key)?.to_owned()));
    }
    let edit = DatastoreEdit::Create { path, properties };
    call.change(&permit, |ctx| enfilade_admin::edit_datastore(ctx, &name, &edit))?;
    Ok(Value::Null.into())
}

/// `GET /config/datastore/{name}`.
pub(super) fn config(call: &mut Call) -> Outcome {
    let name: DatastoreName = call.parameter(0)?;
    call.permit(&path(&name), Privileges::DATASTORE_AUDIT, None)?;
    call.params.only(&[])?;
    let digest = Some(digest_of(&rows(call)?));
    let row = row(call, &name)?;
    Ok(ApiResponse { value: shown(&(name, row)), digest })
}

/// `PUT /config/datastore/{name}`.
pub(super) fn change(call: &mut Call) -> Outcome {
    let name: DatastoreName = call.parameter(0)?;
    let permit = call.permit(&path(&name), Privileges::DATASTORE_MODIFY, None)?;
    call.check_digest(&digest_of(&rows(call)?))?;
    let mut changes = Vec::new();
    for key in call.params.keys().filter(|key| !ABOUT_THE_CALL.contains(key)) {
        changes.push((key.to_owned(), Some(call.params.need(key)?.to_owned())));
    }
    for key in call.params.all("delete") {
        if !DELETABLE.contains(&key.as_str()) {
            let why = format!("parameter 'delete': value '{key}' is not defined in the enumeration.");
            return Err(why.into());
        }
        changes.push((key.clone(), None));
    }
    let edit = DatastoreEdit::Set(changes);
    call.change(&permit, |ctx| enfilade_admin::edit_datastore(ctx, &name, &edit))?;
    Ok(Value::Null.into())
}

/// `DELETE /config/datastore/{name}`.
pub(super) fn remove(call: &mut Call) -> Outcome {
    let name: DatastoreName = call.parameter(0)?;
    let permit = call.permit(&path(&name), Privileges::DATASTORE_ALLOCATE, None)?;
    call.params.only(&["digest", "keep-job-configs", "destroy-data"])?;
    call.check_digest(&digest_of(&rows(call)?))?;
    if call.params.flag("destroy-data")? == Some(true) {
        let why =
            "parameter 'destroy-data': this server does not delete content; remove the directory by hand";
        return Err(why.to_owned().into());
    }
    call.change(&permit, |ctx| enfilade_admin::edit_datastore(ctx, &name, &DatastoreEdit::Remove))?;
    Ok(Value::Null.into())
}

/// The mount status of a datastore, in Proxmox's words. A datastore that is not removable is `nonremovable`. `None` if only another member of the
/// fleet knows whether the datastore is mounted.
fn mount_status(call: &Call, name: &DatastoreName) -> Result<Option<&'static str>, ApiError> {
    let house = call.faces.house();
    Ok(match house.is_mounted(name)? {
        None => Some("nonremovable"),
        Some(_) if house.is_elsewhere(name)? => None,
        Some(true) => Some("mounted"),
        Some(false) => Some("notmounted"),
    })
}

/// `/admin/datastore`.
pub(super) fn stores(call: &mut Call) -> Outcome {
    let mut found = Vec::new();
    for row in rows(call)? {
        if may_know(call, &row.0).is_err() {
            continue;
        }
        found.push(json!({
            "store": row.0.as_str(), "comment": row.1.comment, "mount-status": mount_status(call, &row.0)?,
            "maintenance": row.1.maintenance.as_ref().map(enfilade_facts::vocabulary::Maintenance::to_property),
            "backend-type": "filesystem",
        }));
    }
    Ok(Value::Array(found).into())
}

/// `/admin/datastore/{store}/status`. A client without a sufficient privilege does not learn whether the datastore exists.
pub(super) fn status(call: &mut Call) -> Outcome {
    let name: DatastoreName = call.parameter(0)?;
    call.params.only(&["verbose"])?;
    let permit = may_know(call, &name)?;
    let usage = call.faces.house().usage(&permit, &name)?;
    Ok(json!({
        "total": usage.total, "used": usage.used, "avail": usage.available, "backend-type": "filesystem",
    })
    .into())
}

/// `/admin/datastore/{store}/active-operations`.
pub(super) fn active(call: &mut Call) -> Outcome {
    let name: DatastoreName = call.parameter(0)?;
    let permit = call.permit(&path(&name), Privileges::DATASTORE_AUDIT, None)?;
    call.params.only(&["verbose", "wait"])?;
    row(call, &name)?;
    let wait = match call.params.get("wait")? {
        None => 0,
        Some(text) => {
            text.parse::<u64>().ok().filter(|seconds| *seconds <= WAIT_SECONDS_MAX).ok_or_else(|| {
                ApiError::Text(format!("parameter 'wait': expected seconds, at most {WAIT_SECONDS_MAX}"))
            })?
        }
    };
    let house = call.faces.house();
    let end = house.now().tick_millis.saturating_add(wait * 1000);
    let inside = loop {
        let inside = house.active(&permit, &name)?;
        let is_empty = inside.iter().all(|(_, active)| active.readers + active.writers == 0);
        if is_empty || end <= house.now().tick_millis {
            break inside;
        }
        std::thread::park_timeout(WAIT_TURN);
    };
    let total = |count: fn(&Active) -> u64| inside.iter().map(|(_, active)| count(active)).sum::<u64>();
    let mut said = json!({ "read": total(|active| active.readers), "write": total(|active| active.writers) });
    if call.params.flag("verbose")? == Some(true) {
        let process = |(process, active): &(u32, Active)| json!({ "pid": process, "read": active.readers, "write": active.writers, "since": active.since });
        let processes = Value::Array(inside.iter().map(process).collect());
        said.as_object_mut()
            .into_iter()
            .for_each(|said| drop(said.insert("processes".into(), processes.clone())));
    }
    Ok(said.into())
}

/// `/status/datastore-usage`. If the usage of a datastore cannot be read, the entry of this datastore contains the error. This server cannot read the
/// usage if another member of the fleet serves the datastore.
pub(super) fn usage(call: &mut Call) -> Outcome {
    let mut found = Vec::new();
    for row in rows(call)? {
        let Ok(permit) = may_know(call, &row.0) else { continue };
        let mut item = json!({
            "store": row.0.as_str(), "mount-status": mount_status(call, &row.0)?, "backend-type": "filesystem",
        });
        let said = match call.faces.house().usage(&permit, &row.0) {
            Ok(usage) => json!({ "total": usage.total, "used": usage.used, "avail": usage.available }),
            Err(why) => json!({ "error": why.to_string() }),
        };
        if let (Value::Object(item), Value::Object(said)) = (&mut item, said) {
            item.extend(said);
        }
        found.push(item);
    }
    Ok(Value::Array(found).into())
}
