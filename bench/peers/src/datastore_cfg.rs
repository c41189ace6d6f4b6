//! Lookups of datastores, as in Proxmox Backup Server. A lookup begins an operation. Versions up to 4.1 parse `datastore.cfg` for each lookup, and
//! again when the last active operation of a datastore ends (the drop of its handle). Later versions keep the parsed configuration while a shared
//! generation number is unchanged. All versions lock a file for each lookup, and count the active operations of each datastore in a JSON file. This
//! JSON file has a separate lock, and is rewritten when an operation begins or ends.
//!
//! The original is Proxmox Backup Server itself. The original was measured with Proxmox's own crates and a `datastore.cfg` of 115 kB with 1,000
//! datastores, on a machine where a `$5$` hash took 1.99 ms. One lookup and its drop took 2,944 µs and 116 system calls in version 4.1, and 115.8 µs
//! and 106 system calls in later versions.

use super::proxmox_files::{lock, replace};
use crate::Failure;
use parking_lot::Mutex;
use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The parsed `datastore.cfg`: for each section its properties as JSON values, and the digest of the file.
pub struct Parsed {
    sections: HashMap<String, Map<String, Value>>,
    digest: Vec<u8>,
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
                return Err("a property is not valid or occurs twice".into());
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
    for properties in sections.values() {
        if !properties.contains_key("path") {
            return Err("property 'path' is missing".into());
        }
    }
    Ok(Parsed { sections, digest: sha256(text.as_bytes())? })
}

/// The SHA-256 digest of the bytes of `datastore.cfg`. The original computes this digest, too. The hash function comes from a cipher suite of rustls.
fn sha256(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    match TLS13_AES_128_GCM_SHA256 {
        SupportedCipherSuite::Tls13(suite) => Ok(suite.common.hash_provider.hash(bytes).as_ref().to_vec()),
        SupportedCipherSuite::Tls12(_) => Err("the cipher suite has no SHA-256".into()),
    }
}

/// The files and the state in memory of a Proxmox Backup Server.
pub struct ServerFiles {
    config: PathBuf,
    run: PathBuf,
    /// How many bytes of `datastore.cfg` were read and parsed so far, in all lookups together.
    bytes: AtomicU64,
    generation: AtomicUsize,
    cached: Mutex<Option<(usize, Arc<Parsed>)>>,
    /// For each datastore that was looked up, the number of active operations of this process.
    stores: Mutex<HashMap<String, Arc<AtomicUsize>>>,
}

/// An active operation. [`Operation::end`] does the work that the original does when it drops the handle. This work can fail.
pub struct Operation<'p> {
    place: &'p ServerFiles,
    name: String,
    is_cached: bool,
}

/// The start time of a process. It distinguishes the process from a later process with the same id.
fn began(process: u32) -> Result<u64, Failure> {
    let text = String::from_utf8(std::fs::read(format!("/proc/{process}/stat"))?)?;
    let rest = text.rsplit(')').next().unwrap_or_default();
    Ok(rest.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or(0))
}

impl ServerFiles {
    /// Writes `datastore.cfg` with `stores` datastores into `place`, and makes the directory for the counts of active operations in `run`.
    ///
    /// # Errors
    /// If a file cannot be written, or a directory cannot be made.
    pub fn new(place: &Path, run: &Path, stores: u64) -> Result<Self, Failure> {
        std::fs::create_dir_all(place)?;
        let run = run.join("active-operations");
        std::fs::create_dir_all(&run)?;
        let mut text = String::new();
        for n in 0..stores {
            text += &format!(
                "datastore: store-{n}\n\tcomment a datastore for tenant {n}\n\tgc-schedule daily\n\tpath /mnt/datastore/tenant/store-{n}\n\n"
            );
        }
        let config = place.join("datastore.cfg");
        std::fs::write(&config, text)?;
        Ok(ServerFiles {
            config,
            run,
            bytes: AtomicU64::new(0),
            generation: AtomicUsize::new(1),
            cached: Mutex::default(),
            stores: Mutex::default(),
        })
    }

    fn read(&self) -> Result<Parsed, Failure> {
        let text = std::fs::read_to_string(&self.config)?;
        self.bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
        parse(&text)
    }

    /// The bytes of `datastore.cfg` that were read and parsed so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
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

    /// Looks up a datastore for a write. The lookup begins an operation. With `is_cached`, the parsed file is kept, as in versions after 4.1.
    pub fn look_up(&self, name: &str, is_cached: bool) -> Result<Operation<'_>, Failure> {
        let _locked = lock(&self.run.join("../.datastore.lck"))?;
        let parsed = self.config(is_cached)?;
        let section = parsed.sections.get(name).ok_or("no such datastore")?;
        if section.contains_key("maintenance-mode") || parsed.digest.is_empty() {
            return Err("in maintenance".into());
        }
        self.stores.lock().entry(name.to_owned()).or_default().fetch_add(1, Ordering::SeqCst);
        self.count(name, 1)?;
        Ok(Operation { place: self, name: name.to_owned(), is_cached })
    }

    /// Adds `by` (1 or -1) to the count of this process in the datastore's file. Removes the counts of processes that have ended.
    fn count(&self, name: &str, by: i64) -> Result<(), Failure> {
        let path = self.run.join(name);
        let locked = lock(&self.run.join(format!("{name}.lock")))?;
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
        replace(&path, &serde_json::to_vec(&kept)?, 0o660, locked.owner, false)
    }
}

impl Operation<'_> {
    /// Ends the operation.
    pub fn end(self) -> Result<(), Failure> {
        self.place.count(&self.name, -1)?;
        let left =
            self.place.stores.lock().get(&self.name).map_or(0, |count| count.fetch_sub(1, Ordering::SeqCst));
        if left == 1 {
            // After the last operation the original checks whether the datastore must be closed.
            let parsed = self.place.config(self.is_cached)?;
            if !parsed.sections.contains_key(&self.name) {
                self.place.stores.lock().remove(&self.name);
            }
        }
        Ok(())
    }
}
