//! Lookups of datastores as Proxmox Backup Server does them. Versions up to 4.1 parse `datastore.cfg` for each lookup and again for each drop. Later
//! versions keep the parsed configuration while a shared generation number is unchanged. All versions lock a file for each lookup. They count active
//! operations in a JSON file for each store; this file is rewritten under a lock of its own when an operation begins or ends.
//!
//! The original was measured with Proxmox's own crates and 1,000 datastores in 115 kB, on a machine where a `$5$` hash took 1.99 ms. One lookup and
//! its drop took 2,944 µs and 116 system calls in version 4.1, and 115.8 µs and 106 system calls in later versions.

use crate::Failure;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The parsed file: for each section its properties as JSON values, and the digest of the file.
pub(crate) struct Parsed {
    sections: HashMap<String, Map<String, Value>>,
    digest: u64,
}

/// Whether a value is valid for its property. Proxmox checks each value against a schema.
fn fits(key: &str, value: &str) -> bool {
    let is_plain = |text: &str| text.chars().all(|c| !c.is_control());
    match key {
        "path" => value.len() <= 4096 && is_plain(value) && value.starts_with('/'),
        "comment" => value.len() <= 128 && is_plain(value),
        "keep-last" => value.parse::<u64>().is_ok_and(|count| count > 0),
        "gc-schedule" | "prune-schedule" | "verify-new" | "maintenance-mode" => is_plain(value),
        _ => false,
    }
}

fn parse(text: &str) -> Result<Parsed, Failure> {
    let mut sections = HashMap::new();
    let mut section: Option<(String, Map<String, Value>)> = None;
    for line in text.lines() {
        if line.trim().is_empty() {
            sections.extend(section.take());
        } else if let Some((_, properties)) = &mut section {
            let (key, value) = line.trim().split_once(char::is_whitespace).ok_or("syntax error")?;
            let value = value.trim();
            if !fits(key, value) || properties.contains_key(key) {
                return Err("a property does not fit".into());
            }
            properties.insert(key.to_owned(), Value::String(value.to_owned()));
        } else {
            let (kind, id) = line.split_once(':').ok_or("expected header")?;
            if kind.trim() != "datastore" {
                return Err("unknown section type".into());
            }
            section = Some((id.trim().to_owned(), Map::new()));
        }
    }
    sections.extend(section.take());
    // Proxmox computes SHA-256 here. This faster digest also reads all bytes.
    let digest = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    for properties in sections.values() {
        if !properties.contains_key("path") {
            return Err("property 'path' is missing".into());
        }
    }
    Ok(Parsed { sections, digest })
}

/// The files and the state in memory of a Proxmox Backup Server.
pub(crate) struct ServerFiles {
    config: PathBuf,
    run: PathBuf,
    generation: AtomicUsize,
    cached: Mutex<Option<(usize, Arc<Parsed>)>>,
    /// The count of active operations of each store in use.
    stores: Mutex<HashMap<String, Arc<AtomicUsize>>>,
}

/// An active operation. As in the original, its end can fail.
pub(crate) struct Operation<'p> {
    place: &'p ServerFiles,
    name: String,
    is_cached: bool,
}

/// Does the work of `getpwnam`, which the original calls to set the owner of each file.
fn owner() -> Result<u32, Failure> {
    let mut text = String::new();
    File::open("/etc/passwd")?.read_to_string(&mut text)?;
    let line = text.lines().find(|line| line.starts_with("backup:"));
    Ok(line.and_then(|line| line.split(':').nth(2)?.parse().ok()).unwrap_or(34))
}

/// Takes a file lock with a timeout. Like the original, it sets a timer for this.
fn lock(path: &Path) -> Result<File, Failure> {
    let owner = owner()?;
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    if rustix::process::geteuid().is_root() {
        fchown(&file, Some(owner), Some(owner))?;
    }
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let limit = Itimerspec { it_interval: zero, it_value: Timespec { tv_sec: 10, tv_nsec: 0 } };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &limit)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// The start time of a process. It distinguishes the process from a later one with the same id.
fn began(process: u32) -> Result<u64, Failure> {
    let mut text = String::new();
    File::open(format!("/proc/{process}/stat"))?.read_to_string(&mut text)?;
    let rest = text.rsplit(')').next().unwrap_or_default();
    Ok(rest.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or(0))
}

impl ServerFiles {
    pub(crate) fn new(place: &Path, run: &Path, stores: u64) -> Result<Self, Failure> {
        std::fs::create_dir_all(place)?;
        let run = run.join("active-operations");
        std::fs::create_dir_all(&run)?;
        let mut text = String::new();
        for n in 0..stores {
            text += &format!(
                "datastore: store-{n}\n\tcomment a datastore of tenant {n}\n\tgc-schedule daily\n\tpath /mnt/datastore/tenant/store-{n}\n\n"
            );
        }
        let config = place.join("datastore.cfg");
        std::fs::write(&config, text)?;
        Ok(ServerFiles {
            config,
            run,
            generation: AtomicUsize::new(1),
            cached: Mutex::default(),
            stores: Mutex::default(),
        })
    }

    fn read(&self) -> Result<Parsed, Failure> {
        parse(&std::fs::read_to_string(&self.config)?)
    }

    fn config(&self, is_cached: bool) -> Result<Arc<Parsed>, Failure> {
        if !is_cached {
            return Ok(Arc::new(self.read()?));
        }
        let generation = self.generation.load(Ordering::SeqCst);
        let mut cached = self.cached.lock();
        if let Some((of, parsed)) = &*cached
            && *of == generation
        {
            return Ok(Arc::clone(parsed));
        }
        let parsed = Arc::new(self.read()?);
        *cached = Some((generation, Arc::clone(&parsed)));
        Ok(parsed)
    }

    /// Looks a store up to write to it.
    pub(crate) fn look_up(&self, name: &str, is_cached: bool) -> Result<Operation<'_>, Failure> {
        let _config_lock = lock(&self.run.join("../.datastore.lck"))?;
        let parsed = self.config(is_cached)?;
        let section = parsed.sections.get(name).ok_or("no such datastore")?;
        if section.contains_key("maintenance-mode") || parsed.digest == 0 {
            return Err("in maintenance".into());
        }
        self.stores.lock().entry(name.to_owned()).or_default().fetch_add(1, Ordering::SeqCst);
        self.count(name, 1)?;
        Ok(Operation { place: self, name: name.to_owned(), is_cached })
    }

    /// Adds one to the count in the store's file, or subtracts one.
    fn count(&self, name: &str, by: i64) -> Result<(), Failure> {
        let path = self.run.join(name);
        let _lock = lock(&self.run.join(format!("{name}.lock")))?;
        let own = std::process::id();
        let own_began = began(own)?;
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let rows: Vec<Value> = if text.is_empty() { Vec::new() } else { serde_json::from_str(&text)? };
        let mut kept = Vec::new();
        let mut found = false;
        for mut row in rows {
            let process =
                row.get("pid").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
            let lives =
                began(process).is_ok_and(|began| row.get("starttime").and_then(Value::as_u64) == Some(began));
            if !lives {
                continue;
            }
            if process == own {
                found = true;
                if let Some(count) = row.pointer_mut("/active_operations/write") {
                    *count = json!(count.as_i64().unwrap_or(0) + by);
                }
            }
            kept.push(row);
        }
        if !found {
            kept.push(json!({ "pid": own, "starttime": own_began, "active_operations": { "read": 0, "write": by } }));
        }
        let next = self.run.join(format!("{name}.tmp"));
        let mut file = File::create(&next)?;
        file.write_all(&serde_json::to_vec(&kept)?)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o660))?;
        if rustix::process::geteuid().is_root() {
            fchown(&file, Some(34), Some(34))?;
        }
        Ok(std::fs::rename(next, path)?)
    }
}

impl Operation<'_> {
    /// Ends the operation.
    pub(crate) fn end(self) -> Result<(), Failure> {
        self.place.count(&self.name, -1)?;
        let left =
            self.place.stores.lock().get(&self.name).map_or(0, |count| count.fetch_sub(1, Ordering::SeqCst));
        if left == 1 {
            // After the last operation the original checks whether the store must be closed.
            let parsed = self.place.config(self.is_cached)?;
            if !parsed.sections.contains_key(&self.name) {
                self.place.stores.lock().remove(&self.name);
            }
        }
        Ok(())
    }
}
