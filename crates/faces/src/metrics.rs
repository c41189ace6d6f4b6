//! Counters, in Prometheus' text form. Labels contain no names of people or tokens, and no paths.

use enfilade_facts::vocabulary::DatastoreName;
use enfilade_passage::{DatastoreState, Entered, Event, House};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts or measures.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($metric:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)+) => {
        $(const $metric: Metric = Metric {
            name: $name,
            kind: stringify!($kind),
            labels: &[$($label),*],
            help: $help,
        };)+

        /// Every metric, in the order of `/metrics` and of the reference.
        pub const METRICS: &[Metric] = &[$($metric),+];
    };
}

metrics! {
    INFO = gauge "enfilade_info" ["version", "store"] "version, and id of the store of facts";
    REQUESTS = counter "enfilade_requests_total" ["outcome"] "requests by outcome: permit, refuse";
    REFUSALS = counter "enfilade_refusals_total" ["door", "code", "fault"] "refusals by door, code and fault";
    CONTENT_BYTES = counter "enfilade_content_bytes_total" [] "bytes of content in and out";
    NAMES_NOT_SHOWN = counter "enfilade_names_not_shown_total" [] "file names left out of listings because they are not UTF-8, contain a backslash or a control character, or begin with .enfilade-; counted again at each reading";
    CONNECTIONS = gauge "enfilade_connections" [] "open connections";
    CERTIFICATES = gauge "enfilade_certificates" [] "certificates that are served";
    CERTIFICATE_EXPIRY = gauge "enfilade_certificate_expiry_timestamp_seconds" [] "time at which the first certificate expires";
    HANDSHAKES_FAILED = counter "enfilade_handshakes_failed_total" [] "handshakes that failed because a certificate cannot be used";
    CERTIFICATES_BAD = gauge "enfilade_certificates_bad" [] "certificates that are not served because they cannot be used";
    RELOAD_FAILED = gauge "enfilade_reload_failed" [] "1 if the last reload failed";
    HASHES = counter "enfilade_hashes_total" ["outcome"] "slow password hashes: computed, shared by several requests, turned_away";
    FAILED_LOGINS = counter "enfilade_failed_logins_total" ["outcome"] "logins that failed, and attempts from blocked addresses (barred)";
    REVOCATIONS = gauge "enfilade_revocations" [] "revocations that are not deleted yet, also of tokens that have expired";
    FILE_LAST_LOOK = gauge "enfilade_file_last_look_timestamp_seconds" ["file"] "time at which an edited file was read or found unchanged last";
    FILE_GOOD_REVISION = gauge "enfilade_file_good_revision" ["file"] "newest revision of the facts at which the file had no problem";
    FILE_PROBLEMS = gauge "enfilade_file_problems" ["file"] "problems in the file";
    FILE_PROBLEM = gauge "enfilade_file_problem" ["file", "line", "reason"] "1 for each line that cannot be read; only the first lines if there are many";
    FILE_REFUSES = gauge "enfilade_file_refuses" ["file"] "1 if all records of the file are refused";
    REVISION = gauge "enfilade_facts_revision" [] "newest revision of the facts";
    ACTIVE_OPERATIONS = gauge "enfilade_active_operations" ["datastore", "kind"] "operations active in a datastore";
    LOOKUPS = counter "enfilade_datastore_lookups_total" ["datastore", "kind"] "operations that entered a datastore or were refused by it";
    DATASTORE_REFUSALS = counter "enfilade_datastore_refusals_total" ["datastore", "code"] "refusals by datastore and code";
    DATASTORE_INFO = gauge "enfilade_datastore_info" ["datastore", "maintenance", "mount"] "each datastore with its maintenance mode, and whether it is mounted";
    DATASTORE_WARNINGS = gauge "enfilade_datastore_warnings" ["datastore"] "warnings of `enfilade doctor` about the datastore";
}

/// What the faces have done since the start.
#[derive(Debug, Default)]
pub struct Metrics {
    permitted: AtomicU64,
    refused: Mutex<BTreeMap<(&'static str, &'static str, &'static str), u64>>,
    /// Refusals by datastore and code.
    refused_by_store: Mutex<BTreeMap<(String, &'static str), u64>>,
    /// The number of warnings about each datastore.
    amiss: Mutex<BTreeMap<DatastoreName, u64>>,
    bytes: AtomicU64,
    draining: AtomicBool,
    certificates: AtomicU64,
    bad_certificates: AtomicU64,
    /// When the first certificate expires, in seconds since the epoch.
    soonest_expiry: AtomicI64,
    handshakes_failed: AtomicU64,
    /// 1 if the last reload failed; 0 if it succeeded or there was none.
    reload_failed: AtomicU64,
    connections: AtomicU64,
    files: Mutex<BTreeMap<&'static str, FileLook>>,
}

/// The result of the last look at a file that people edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLook {
    /// The time of the look, in seconds since the epoch.
    pub unix_seconds: i64,
    /// The newest revision of the facts at which the file had no problem; 0 if it always had one since the start.
    pub good_revision: u64,
    /// The number of problems in the file.
    pub problems: u64,
    /// The first problems that belong to a line: the line's number, and the reason without text quoted from the file.
    pub lines: Vec<(u32, String)>,
    /// Whether everything in the file is refused.
    pub refuses: bool,
}

impl Metrics {
    pub(crate) fn count(&self, event: &Event, is_of_store: bool) {
        if event.face == "webdav" {
            self.bytes.fetch_add(event.bytes, Ordering::Relaxed);
        }
        if event.code.is_empty() {
            self.permitted.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry((event.door, event.code, event.fault)).or_default() += 1;
        if is_of_store {
            let mut refused = self.refused_by_store.lock().unwrap_or_else(PoisonError::into_inner);
            *refused.entry((event.datastore.clone(), event.code)).or_default() += 1;
        }
    }

    /// From now on `/readyz` says that the server is not ready.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Whether the server takes no more requests.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Sets the number of served certificates, and when the first of them expires, in seconds since the epoch.
    pub fn set_certificates(&self, count: usize, soonest_expiry: i64) {
        self.certificates.store(count as u64, Ordering::Relaxed);
        self.soonest_expiry.store(soonest_expiry, Ordering::Relaxed);
    }

    /// Counts a handshake that failed because its certificate cannot be used.
    pub fn handshake_failed(&self) {
        self.handshakes_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the number of certificates that are not served because they cannot be used.
    pub fn set_bad_certificates(&self, count: usize) {
        self.bad_certificates.store(count as u64, Ordering::Relaxed);
    }

    /// Records whether the last reload succeeded.
    pub fn reloaded(&self, is_whole: bool) {
        self.reload_failed.store(u64::from(!is_whole), Ordering::Relaxed);
    }

    /// Sets the result of the last look at each file.
    pub fn set_files(&self, looks: BTreeMap<&'static str, FileLook>) {
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = looks;
    }

    /// Sets the number of warnings about each datastore.
    pub fn set_amiss(&self, amiss: BTreeMap<DatastoreName, u64>) {
        *self.amiss.lock().unwrap_or_else(PoisonError::into_inner) = amiss;
    }

    /// Sets the number of open connections.
    pub fn set_connections(&self, count: u64) {
        self.connections.store(count, Ordering::Relaxed);
    }

    /// All metrics as text.
    pub fn render(&self, house: &House) -> String {
        let mut text = String::new();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let at = house.source().at();
        INFO.write(&mut text, [(vec![env!("CARGO_PKG_VERSION").to_owned(), at.store.to_string()], 1)]);
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let total = refused.values().sum();
        REQUESTS.write(&mut text, [of("permit", read(&self.permitted)), of("refuse", total)]);
        let rows = refused.iter().map(|((door, code, fault), count)| {
            ([door, code, fault].map(|word| (*word).to_owned()).to_vec(), *count)
        });
        REFUSALS.write(&mut text, rows);
        CONTENT_BYTES.write(&mut text, [alone(read(&self.bytes))]);
        NAMES_NOT_SHOWN.write(&mut text, [alone(house.names_not_shown())]);
        CONNECTIONS.write(&mut text, [alone(read(&self.connections))]);
        CERTIFICATES.write(&mut text, [alone(read(&self.certificates))]);
        let soonest = u64::try_from(self.soonest_expiry.load(Ordering::Relaxed)).unwrap_or(0);
        CERTIFICATE_EXPIRY.write(&mut text, [alone(soonest)]);
        HANDSHAKES_FAILED.write(&mut text, [alone(read(&self.handshakes_failed))]);
        CERTIFICATES_BAD.write(&mut text, [alone(read(&self.bad_certificates))]);
        RELOAD_FAILED.write(&mut text, [alone(read(&self.reload_failed))]);
        let gate = house.gate().counts();
        let rows = [("computed", gate.computed), ("shared", gate.shared), ("turned_away", gate.turned_away)];
        HASHES.write(&mut text, rows.map(|(outcome, count)| of(outcome, count)));
        let penalties = house.penalties().counts();
        FAILED_LOGINS.write(&mut text, [of("failed", penalties.failed), of("barred", penalties.barred)]);
        // No sample if the revocations cannot be read: then each session is refused too, which other metrics show.
        REVOCATIONS.write(&mut text, house.revocations().ok().map(alone));
        self.render_files(&mut text);
        REVISION.write(&mut text, [alone(at.revision.0)]);
        self.render_datastores(&mut text, house);
        text
    }

    fn render_datastores(&self, text: &mut String, house: &House) {
        let of_kind =
            |name: &DatastoreName, kind: &str, count| (vec![name.to_string(), kind.to_owned()], count);
        let inside = house.inside().into_iter().flat_map(|process| process.inside);
        let rows = inside.flat_map(|(name, active)| {
            [of_kind(&name, "read", active.readers), of_kind(&name, "write", active.writers)]
        });
        ACTIVE_OPERATIONS.write(text, rows);
        let rows = house.entered().into_iter().flat_map(|(name, entered)| {
            let Entered { lookups, reads, writes } = entered;
            let kinds = [("lookup", lookups), ("read", reads), ("write", writes)];
            kinds.map(|(kind, count)| of_kind(&name, kind, count))
        });
        LOOKUPS.write(text, rows);
        let stores = house.datastores();
        let refused = self.refused_by_store.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let exists = |name: &str| stores.binary_search_by(|store| store.name.as_str().cmp(name)).is_ok();
        let rows = refused.iter().filter(|((name, _), _)| exists(name));
        DATASTORE_REFUSALS
            .write(text, rows.map(|((name, code), count)| (vec![name.clone(), (*code).to_owned()], *count)));
        let rows = stores.iter().map(|DatastoreState { name, maintenance, is_mounted }| {
            let mount = match is_mounted {
                None => "fixed",
                Some(true) => "mounted",
                Some(false) => "notmounted",
            };
            let maintenance = maintenance.as_deref().unwrap_or("none");
            (vec![name.to_string(), maintenance.to_owned(), mount.to_owned()], 1)
        });
        DATASTORE_INFO.write(text, rows);
        let amiss = self.amiss.lock().unwrap_or_else(PoisonError::into_inner).clone();
        DATASTORE_WARNINGS.write(text, amiss.iter().map(|(name, count)| of(name.as_str(), *count)));
    }

    fn render_files(&self, text: &mut String) {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let rows = |value: fn(&FileLook) -> u64| files.iter().map(move |(name, look)| of(name, value(look)));
        FILE_LAST_LOOK.write(text, rows(|look| u64::try_from(look.unix_seconds).unwrap_or(0)));
        FILE_GOOD_REVISION.write(text, rows(|look| look.good_revision));
        FILE_PROBLEMS.write(text, rows(|look| look.problems));
        let lines = files.iter().flat_map(|(file, look)| {
            look.lines
                .iter()
                .map(|(line, reason)| (vec![(*file).to_owned(), line.to_string(), reason.clone()], 1))
        });
        FILE_PROBLEM.write(text, lines);
        FILE_REFUSES.write(text, rows(|look| u64::from(look.refuses)));
    }
}

/// The values of the labels, and the value of the metric.
type Sample = (Vec<String>, u64);

/// The sample of a metric with one label.
fn of(value: &str, count: u64) -> Sample {
    (vec![value.to_owned()], count)
}

/// The sample of a metric without labels.
fn alone(count: u64) -> Sample {
    (Vec::new(), count)
}

impl Metric {
    /// Writes its samples in Prometheus' text form.
    fn write(&self, text: &mut String, samples: impl IntoIterator<Item = Sample>) {
        let Metric { name, kind, labels, help } = self;
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (values, count) in samples {
            debug_assert_eq!(values.len(), labels.len(), "{name}");
            let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
            let pairs =
                labels.iter().zip(&values).map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
            let pairs = pairs.collect::<Vec<_>>().join(",");
            let _ = match pairs.is_empty() {
                true => writeln!(text, "{name} {count}"),
                false => writeln!(text, "{name}{{{pairs}}} {count}"),
            };
        }
    }
}
