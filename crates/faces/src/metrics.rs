//! Counters, in Prometheus' text form. No names of people, tokens or paths in labels.

use enfilade_facts::vocabulary::DatastoreName;
use enfilade_passage::{DatastoreState, Entered, Event, House};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What the faces have done since the start.
#[derive(Debug, Default)]
pub struct Metrics {
    permitted: AtomicU64,
    refused: Mutex<BTreeMap<(&'static str, &'static str, &'static str), u64>>,
    /// Of each datastore, by code.
    refused_by_store: Mutex<BTreeMap<(String, &'static str), u64>>,
    /// What is amiss with each.
    amiss: Mutex<BTreeMap<DatastoreName, u64>>,
    bytes: AtomicU64,
    draining: AtomicBool,
    certificates: AtomicU64,
    bad_certificates: AtomicU64,
    /// When the first of the certificates ends, in seconds since the epoch.
    soonest_expiry: AtomicI64,
    handshakes_failed: AtomicU64,
    /// Of the last reload: 0 when there was none or it was whole, 1 when it failed.
    reload_failed: AtomicU64,
    connections: AtomicU64,
    files: Mutex<BTreeMap<&'static str, FileLook>>,
}

/// What the last look at a file people edit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLook {
    /// When it was, in seconds since the epoch.
    pub unix_seconds: i64,
    /// The newest revision of the facts at which nothing was wrong with the file; 0 when there was none since the start.
    pub good_revision: u64,
    /// How many things are wrong with it.
    pub problems: u64,
    /// The first of them that are in a line: its number, and the reason without anything that was quoted from the file.
    pub lines: Vec<(u32, String)>,
    /// Whether everything in it refuses.
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

    /// From now on `/readyz` says no.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Whether no more requests are taken.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// How many certificates are served, and when the first of them ends, in seconds since the epoch.
    pub fn set_certificates(&self, count: usize, soonest_expiry: i64) {
        self.certificates.store(count as u64, Ordering::Relaxed);
        self.soonest_expiry.store(soonest_expiry, Ordering::Relaxed);
    }

    /// A certificate could not be used when somebody came for it.
    pub fn handshake_failed(&self) {
        self.handshakes_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// How many certificates were left out.
    pub fn set_bad_certificates(&self, count: usize) {
        self.bad_certificates.store(count as u64, Ordering::Relaxed);
    }

    /// Whether the last reload was whole.
    pub fn reloaded(&self, is_whole: bool) {
        self.reload_failed.store(u64::from(!is_whole), Ordering::Relaxed);
    }

    /// What the last look at each file found.
    pub fn set_files(&self, looks: BTreeMap<&'static str, FileLook>) {
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = looks;
    }

    /// How many things are amiss with which datastore.
    pub fn set_amiss(&self, amiss: BTreeMap<DatastoreName, u64>) {
        *self.amiss.lock().unwrap_or_else(PoisonError::into_inner) = amiss;
    }

    /// How many connections are open.
    pub fn set_connections(&self, count: u64) {
        self.connections.store(count, Ordering::Relaxed);
    }

    /// All of them as text.
    pub fn render(&self, house: &House) -> String {
        let mut text = String::new();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let at = house.source().at();
        let info = format!("{{version=\"{}\",store=\"{}\"}}", env!("CARGO_PKG_VERSION"), at.store);
        metric(&mut text, "enfilade_info", "gauge", "the version, and which store of facts", [(info, 1)]);
        let permitted = (label("outcome", "permit"), read(&self.permitted));
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let total = (label("outcome", "refuse"), refused.values().sum());
        metric(&mut text, "enfilade_requests_total", "counter", "requests by outcome", [permitted, total]);
        let rows = refused.iter().map(|((door, code, fault), count)| {
            (format!("{{door=\"{door}\",code=\"{code}\",fault=\"{fault}\"}}"), *count)
        });
        metric(&mut text, "enfilade_refusals_total", "counter", "refusals by door, code and fault", rows);
        let bytes = [(String::new(), read(&self.bytes))];
        metric(&mut text, "enfilade_content_bytes_total", "counter", "bytes of content in and out", bytes);
        let not_shown = [(String::new(), house.names_not_shown())];
        let help = "file names left out of listings because they are not UTF-8, contain a backslash or a control character, or begin with .enfilade-; counted again at each reading";
        metric(&mut text, "enfilade_names_not_shown_total", "counter", help, not_shown);
        let connections = [(String::new(), read(&self.connections))];
        metric(&mut text, "enfilade_connections", "gauge", "open connections", connections);
        let count = [(String::new(), read(&self.certificates))];
        metric(&mut text, "enfilade_certificates", "gauge", "certificates that are served", count);
        let soonest = u64::try_from(self.soonest_expiry.load(Ordering::Relaxed)).unwrap_or(0);
        let help = "when the first certificate ends";
        let rows = [(String::new(), soonest)];
        metric(&mut text, "enfilade_certificate_expiry_timestamp_seconds", "gauge", help, rows);
        let failed = [(String::new(), read(&self.handshakes_failed))];
        let help = "handshakes that ended because a certificate cannot be used";
        metric(&mut text, "enfilade_handshakes_failed_total", "counter", help, failed);
        let bad = [(String::new(), read(&self.bad_certificates))];
        metric(&mut text, "enfilade_certificates_bad", "gauge", "certificates left out", bad);
        let reload = [(String::new(), read(&self.reload_failed))];
        metric(&mut text, "enfilade_reload_failed", "gauge", "1 when the last reload failed", reload);
        let gate = house.gate().counts();
        let rows = [
            (label("outcome", "computed"), gate.computed),
            (label("outcome", "shared"), gate.shared),
            (label("outcome", "turned_away"), gate.turned_away),
        ];
        metric(&mut text, "enfilade_hashes_total", "counter", "slow hashes at the gate", rows);
        let penalties = house.penalties().counts();
        let rows =
            [(label("outcome", "failed"), penalties.failed), (label("outcome", "barred"), penalties.barred)];
        metric(&mut text, "enfilade_failed_logins_total", "counter", "attempts to come in that failed", rows);
        // Where they cannot be read no token is judged either, and that is told elsewhere.
        let revocations = house.revocations().ok().map(|count| (String::new(), count));
        let help = "revocations that are not deleted yet, also of tokens that have expired";
        metric(&mut text, "enfilade_revocations", "gauge", help, revocations);
        self.render_files(&mut text);
        let revision = [(String::new(), at.revision.0)];
        metric(&mut text, "enfilade_facts_revision", "gauge", "the newest revision of the facts", revision);
        self.render_datastores(&mut text, house);
        text
    }

    fn render_datastores(&self, text: &mut String, house: &House) {
        let of_kind = |name: &DatastoreName, kind: &str, count| {
            (format!("{{datastore=\"{name}\",kind=\"{kind}\"}}"), count)
        };
        let inside = house.inside().into_iter().flat_map(|process| process.inside);
        let rows = inside.flat_map(|(name, active)| {
            [of_kind(&name, "read", active.readers), of_kind(&name, "write", active.writers)]
        });
        metric(text, "enfilade_active_operations", "gauge", "operations inside a datastore", rows);
        let rows = house.entered().into_iter().flat_map(|(name, entered)| {
            let Entered { lookups, reads, writes } = entered;
            let kinds = [("lookup", lookups), ("read", reads), ("write", writes)];
            kinds.map(|(kind, count)| of_kind(&name, kind, count))
        });
        let help = "how often a datastore was entered, whether it let in or not";
        metric(text, "enfilade_datastore_lookups_total", "counter", help, rows);
        let stores = house.datastores();
        let refused = self.refused_by_store.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_there = |name: &str| stores.binary_search_by(|store| store.name.as_str().cmp(name)).is_ok();
        let rows = refused
            .iter()
            .filter(|((name, _), _)| is_there(name))
            .map(|((name, code), count)| (format!("{{datastore=\"{name}\",code=\"{code}\"}}"), *count));
        let help = "requests that were refused, by datastore and code";
        metric(text, "enfilade_datastore_refusals_total", "counter", help, rows);
        let rows = stores.iter().map(|DatastoreState { name, maintenance, is_mounted }| {
            let mount = match is_mounted {
                None => "fixed",
                Some(true) => "mounted",
                Some(false) => "notmounted",
            };
            let maintenance = maintenance.as_deref().unwrap_or("none");
            (format!("{{datastore=\"{name}\",maintenance=\"{maintenance}\",mount=\"{mount}\"}}"), 1)
        });
        metric(text, "enfilade_datastore_info", "gauge", "the datastores, and how each is", rows);
        let amiss = self.amiss.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let rows = amiss.iter().map(|(name, count)| (label("datastore", name.as_str()), *count));
        metric(text, "enfilade_datastore_warnings", "gauge", "what `enfilade doctor` warns of", rows);
    }

    fn render_files(&self, text: &mut String) {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let rows = |value: fn(&FileLook) -> u64| {
            files.iter().map(move |(name, look)| (label("file", name), value(look))).collect::<Vec<_>>()
        };
        let looks = rows(|look| u64::try_from(look.unix_seconds).unwrap_or(0));
        let help = "when a file people edit was looked at last";
        metric(text, "enfilade_file_last_look_timestamp_seconds", "gauge", help, looks);
        let help = "the newest revision of the facts at which nothing was wrong with the file";
        metric(text, "enfilade_file_good_revision", "gauge", help, rows(|look| look.good_revision));
        let help = "how many things are wrong with the file";
        metric(text, "enfilade_file_problems", "gauge", help, rows(|look| look.problems));
        let lines = files.iter().flat_map(|(file, look)| {
            let row = |(line, reason): &(u32, String)| {
                let reason = reason.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
                (format!("{{file=\"{file}\",line=\"{line}\",reason=\"{reason}\"}}"), 1)
            };
            look.lines.iter().map(row).collect::<Vec<_>>()
        });
        let help = "1 for each line that cannot be read, the first of many";
        metric(text, "enfilade_file_problem", "gauge", help, lines);
        let help = "1 when everything in the file refuses";
        metric(text, "enfilade_file_refuses", "gauge", help, rows(|look| u64::from(look.refuses)));
    }
}

fn label(name: &str, value: &str) -> String {
    format!("{{{name}=\"{value}\"}}")
}

fn metric(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    rows: impl IntoIterator<Item = (String, u64)>,
) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in rows {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}
