//! The metrics, in Prometheus' text form. Labels contain no names of people or tokens, and no paths of files or requests.

mod acme;
mod datastores;
mod fleet;
mod history;
mod refusals;

pub use acme::AcmeState;
pub use fleet::FleetState;
pub use history::{HISTORY_MINUTES, Minute};
pub use refusals::RecentRefusal;

use crate::methods::METHODS;
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_passage::{Event, House};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name of the metric.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// A description of the thing that the metric counts or measures.
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
    REFUSALS = counter "enfilade_refusals_total" ["door", "code", "fault"] "refused requests, by the door that refused, the refusal code, and the fault: client (the client must act), operator (the operator must act), source (the facts or the content cannot be read or written)";
    RESPONSES = counter "enfilade_responses_total" ["method", "status"] "answers by method and class of the status, such as 4xx; none: the client ended the request before the answer";
    DURATION = histogram "enfilade_request_duration_seconds" ["face", "route"] "time from the head of a request to the last byte of its answer, including the delay of a failed login; accurate to 5 ms; route: the path in docs/routes.md or docs/keystone.md, none if there is no such route";
    DOOR_DURATION = histogram "enfilade_door_duration_seconds" ["door"] "time that a door takes; tls: a complete or failed handshake; identity: the check of a credential, including slow hashes and the delay of a failed login; content: doors 3 to 5 together, from the end of the check to the last byte of the answer";
    CONTENT_BYTES = counter "enfilade_content_bytes_total" ["direction"] "bytes of content: in (uploads) and out";
    NAMES_NOT_SHOWN = counter "enfilade_names_not_shown_total" [] "file names left out of listings because they are not UTF-8, contain a backslash or a control character, or begin with .enfilade-; each time the server reads a directory from the disk, it counts these names again";
    FORWARDED_IGNORED = counter "enfilade_forwarded_ignored_total" [] "requests whose Forwarded or X-Forwarded-… headers the server ignored; the server uses these headers only in requests from an address in [http] trusted_proxies, and in requests over a Unix socket if trusted_proxies contains unix";
    CONNECTIONS = gauge "enfilade_connections" [] "open connections";
    CERTIFICATES = gauge "enfilade_certificates" [] "certificates that are served";
    CERTIFICATE_EXPIRY = gauge "enfilade_certificate_expiry_timestamp_seconds" [] "earliest time at which a served certificate expires";
    HANDSHAKES_FAILED = counter "enfilade_handshakes_failed_total" ["reason"] "TLS handshakes that the server ended, by reason: unusable (the certificate cannot be used), unknown_name ([tls] strict_sni), client_certificate (the client sent no certificate, or one that is not trusted), proxy_header (the connection began with a PROXY header, but came from an address that is not in [tls] proxy_from), user (a process connected to the Unix socket for decisions, but its Linux user is not in [decisions] users), member (the client is not a registered server of the fleet)";
    PROXY_HEADERS_REFUSED = counter "enfilade_proxy_headers_refused_total" [] "connections from addresses in [tls] proxy_from that were closed because they did not begin with a usable PROXY header of version 2";
    ACME_OBTAINED = gauge "enfilade_acme_obtained_timestamp_seconds" [] "time at which the certificate of [tls] acme was last obtained; absent if no certificate was obtained";
    ACME_FAILED = gauge "enfilade_acme_failed" [] "1 if the certificate of [tls] acme has to be obtained or renewed, and the last attempt failed; absent without [tls] acme";
    ACME_NEXT = gauge "enfilade_acme_next_attempt_timestamp_seconds" [] "time of the next attempt after a failure; absent if the last attempt did not fail";
    CERTIFICATES_BAD = gauge "enfilade_certificates_bad" [] "certificate files that cannot be used; for each file, the log says whether the previous certificate of the file is still served";
    RELOAD_FAILED = gauge "enfilade_reload_failed" [] "1 if the configuration, the crt-list or the directory of certificates was refused when it was last read, after a signal or a change of a file; the earlier state stays in use";
    LOST_LINES = counter "enfilade_log_lines_lost_total" ["reason"] "lines of requests and warnings that are not in the log, by reason: write (standard error could not be written), queue (standard error was not read fast enough), limit (refusals beyond [limits] refusals_logged_per_second); lines of changes are never lost";
    TRACES = counter "enfilade_traces_total" ["outcome"] "traces of requests, by outcome: sent (the collector accepted the trace), lost (the queue was full, or the collector refused the trace); absent if [traces] otlp is not set";
    HASHES = counter "enfilade_hashes_total" ["outcome"] "slow password hashes, by outcome: computed, shared (the request waited for the hash that another request computed), turned_away (the queue was full, or the wait was too long; status 503)";
    FAILED_LOGINS = counter "enfilade_failed_logins_total" ["outcome"] "logins, by outcome: failed (the login failed), barred (refused, because the address of the client was blocked)";
    REVOCATIONS = gauge "enfilade_revocations" [] "stored revocations; a revocation of expired tokens counts until it is deleted";
    FILE_LAST_LOOK = gauge "enfilade_file_last_look_timestamp_seconds" ["file"] "time at which a server last read the edited file, or last found the file unchanged";
    FILE_GOOD_REVISION = gauge "enfilade_file_good_revision" ["file"] "newest revision of the facts at which the file had no problem";
    FILE_PROBLEMS = gauge "enfilade_file_problems" ["file"] "problems in the file";
    FILE_PROBLEM = gauge "enfilade_file_problem" ["file", "line", "reason"] "1 for each line that cannot be read; only the first lines if there are many";
    FILE_REFUSES = gauge "enfilade_file_refuses" ["file"] "1 if all records of the file are refused";
    BACKUP = gauge "enfilade_backup_timestamp_seconds" [] "time of the last complete scheduled backup; absent if no scheduled backup was completed";
    BACKUP_FAILED = gauge "enfilade_backup_failed" [] "1 if the last scheduled backup failed; absent if no backups are scheduled";
    REVISION = gauge "enfilade_facts_revision" [] "newest revision of the facts";
    FLEET_PROOF_AGE = gauge "enfilade_fleet_proof_age_seconds" [] "age of the proof that the facts are current: time since this server asked etcd for the newest change; at the age `fleet.proof_millis` the server refuses requests; absent without a proof, and without a fleet";
    FLEET_BEHIND = gauge "enfilade_fleet_changes_behind" [] "changes of the fleet that this server had not applied when it last asked etcd for the newest change";
    FLEET_REFUSED = counter "enfilade_fleet_refused_total" [] "reads of facts that were refused because this server had no proof that the facts are current";
    FLEET_ACKNOWLEDGED = counter "enfilade_fleet_acknowledged_total" [] "changes by this server that were acknowledged: no member grants any more what these changes forbid";
    FLEET_ACKNOWLEDGED_TIME = counter "enfilade_fleet_acknowledged_seconds_total" [] "time from the start of each change by this server to its acknowledgement, for all changes together";
    ACTIVE_OPERATIONS = gauge "enfilade_active_operations" ["datastore", "kind"] "operations active in a datastore";
    LOOKUPS = counter "enfilade_datastore_lookups_total" ["datastore", "kind"] "operations on a datastore, including operations that door 3 refused";
    DATASTORE_REFUSALS = counter "enfilade_datastore_refusals_total" ["datastore", "code"] "refusals by datastore and code";
    DATASTORES = gauge "enfilade_datastores" [] "number of datastores; metrics with the label datastore have samples only for the first 1,000 datastores by name";
    DATASTORE_INFO = gauge "enfilade_datastore_info" ["datastore", "maintenance", "mount"] "each datastore with its maintenance mode, and whether it is mounted";
    DATASTORE_WARNINGS = gauge "enfilade_datastore_warnings" ["datastore"] "warnings of `enfilade doctor` about the datastore";
    DATASTORE_DISK_SIZE = gauge "enfilade_datastore_disk_size_bytes" ["datastore"] "size of the file system with the directory of the datastore; read once a minute, absent while the file system does not answer or is not mounted";
    DATASTORE_DISK_AVAILABLE = gauge "enfilade_datastore_disk_available_bytes" ["datastore"] "free space that the server can use in the file system with the directory of the datastore";
    DATA_DISK_SIZE = gauge "enfilade_data_disk_size_bytes" [] "size of the file system with the data directory; read once a minute, absent while the file system does not answer";
    DATA_DISK_AVAILABLE = gauge "enfilade_data_disk_available_bytes" [] "free space that the server can use in the file system with the data directory";
    CONFINED = gauge "enfilade_confined" ["limit"] "1 if the kernel limits what the server may do: landlock (files and ports), seccomp (system calls); 0 if the kernel cannot limit the server, or [privileges] switches the limit off";
    CPU = counter "process_cpu_seconds_total" [] "time that the server used the processor";
    RESIDENT = gauge "process_resident_memory_bytes" [] "memory of the server that is in RAM";
    OPEN_FDS = gauge "process_open_fds" [] "open file descriptors";
    MAX_FDS = gauge "process_max_fds" [] "the limit of open file descriptors";
    STARTED = gauge "process_start_time_seconds" [] "time at which the server was started, in seconds since the epoch";
}

/// The upper bounds of the histogram buckets for the durations of requests, in microseconds.
const REQUEST_BUCKETS: Buckets = [
    5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
    30_000_000,
];
/// The upper bounds of the histogram buckets for the time that a door takes, in microseconds.
const DOOR_BUCKETS: Buckets =
    [10, 25, 100, 250, 1_000, 2_500, 10_000, 25_000, 100_000, 500_000, 2_500_000, 10_000_000];
/// The classes of statuses, by the first digit of the status. The class `none` means that the client ended the request before the answer.
const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// The reason why the server ended a handshake.
#[derive(Clone, Copy, Debug)]
pub enum HandshakeEnd {
    /// The certificate or its key cannot be used.
    Unusable,
    /// No certificate contains the requested server name.
    UnknownName,
    /// The client sent no certificate, or a certificate that is not trusted.
    ClientCertificate,
    /// The connection began with a PROXY header, but did not come from a load balancer that may send this header.
    ProxyHeader,
    /// A process connected to the Unix socket for decisions, but the user of the process may not ask for decisions.
    User,
    /// A process connected to the listener for members of the fleet, but the process is not a registered server.
    Member,
}

/// The labels of [`HandshakeEnd`], in the order of its variants.
const HANDSHAKE_REASONS: [&str; 6] =
    ["unusable", "unknown_name", "client_certificate", "proxy_header", "user", "member"];

/// The upper bounds of the buckets of a histogram, in microseconds.
type Buckets = [u64; 12];

/// The durations of one series of a histogram.
#[derive(Debug, Default)]
struct Durations {
    /// The number of durations in each bucket. A bucket counts the durations that are longer than the upper bound of the previous bucket, and not
    /// longer than its own upper bound.
    buckets: [AtomicU64; 12],
    longer: AtomicU64,
    micros: AtomicU64,
}

impl Durations {
    fn add(&self, buckets: &Buckets, micros: u64) {
        let bucket = buckets.iter().position(|most| micros <= *most);
        let count = bucket.and_then(|at| self.buckets.get(at)).unwrap_or(&self.longer);
        count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}

/// A door with measured times.
#[derive(Clone, Copy, Debug)]
pub enum TimedDoor {
    /// Door 1: a handshake.
    Tls,
    /// Door 2: the check of a credential.
    Identity,
    /// Doors 3 to 5 together, because a request calls each of these doors several times.
    Content,
}

/// The labels of the variants of [`TimedDoor`], in the order of the variants.
const TIMED_DOORS: [&str; 3] = ["tls", "identity", "content"];

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    /// The size of the file system.
    pub size: u64,
    /// The free space that the server can use.
    pub available: u64,
}

/// The maximum number of datastores with samples in the metrics. The number is limited because a monitoring system stores every sample for months.
pub const DATASTORES_SHOWN_MAX: usize = 1_000;

/// The resources that this process uses, as the kernel reports them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessUse {
    /// The processor time, in milliseconds.
    pub cpu_millis: u64,
    /// The memory of the process that is in RAM.
    pub resident_bytes: u64,
    /// The number of open file descriptors.
    pub open_fds: u64,
    /// The maximum number of open file descriptors; 0 if there is no limit.
    pub max_fds: u64,
    /// The time at which the process started, in milliseconds since the epoch.
    pub started_millis: u64,
}

/// The values of the metrics since the start of the process.
#[derive(Default)]
pub struct Metrics {
    permitted: AtomicU64,
    refused: Mutex<BTreeMap<(&'static str, &'static str, &'static str), u64>>,
    /// Refusals by datastore and code.
    refused_by_store: Mutex<BTreeMap<(String, &'static str), u64>>,
    /// The file systems of the data directory (`None`) and of datastores.
    disks: Mutex<BTreeMap<Option<DatastoreName>, Disk>>,
    /// The number of warnings about each datastore.
    amiss: Mutex<BTreeMap<DatastoreName, u64>>,
    responses: [[AtomicU64; CLASSES.len()]; METHODS.len() + 1],
    /// The durations of requests, for each pair of a face (the code of one protocol) and a route.
    durations: RwLock<BTreeMap<(&'static str, &'static str), Durations>>,
    door_durations: [Durations; TIMED_DOORS.len()],
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    process: Mutex<ProcessUse>,
    draining: AtomicBool,
    certificates: AtomicU64,
    bad_certificates: AtomicU64,
    /// The earliest time at which a certificate expires, in seconds since the epoch.
    soonest_expiry: AtomicI64,
    handshakes_failed: [AtomicU64; HANDSHAKE_REASONS.len()],
    /// 1 if the newest configuration or the newest state of the certificates was refused, otherwise 0.
    reload_failed: AtomicU64,
    forwarded_ignored: AtomicU64,
    proxy_headers_refused: AtomicU64,
    connections: AtomicU64,
    backup: Mutex<Option<Backup>>,
    acme: Mutex<Option<AcmeState>>,
    fleet: OnceLock<fleet::Ask>,
    confined: OnceLock<[(&'static str, bool); 2]>,
    files: Mutex<BTreeMap<&'static str, FileLook>>,
    lost_lines: Mutex<Vec<(&'static str, u64)>>,
    /// The number of requests with a trace that was sent, and the number of requests with a trace that was lost.
    traces: Mutex<Option<(u64, u64)>>,
    history: history::History,
    refusals: refusals::Refusals,
}

/// The state of scheduled backups.
#[derive(Clone, Copy, Debug)]
struct Backup {
    /// The time of the last complete backup, in seconds since the epoch.
    last: Option<i64>,
    has_failed: bool,
}

/// The result of the last look at a file that people edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLook {
    /// The time of the look, in seconds since the epoch.
    pub unix_seconds: i64,
    /// The newest revision of the facts at which the file had no problem; 0 if no such revision is known.
    pub good_revision: u64,
    /// The number of problems in the file.
    pub problems: u64,
    /// The first problems that concern a single line of the file. Each entry contains the number of the line, and the reason. The reason quotes no
    /// text from the file.
    pub lines: Vec<(u32, String)>,
    /// True if the server uses no record of the file, because the stale limit has passed, or because the file has always had a problem.
    pub refuses: bool,
}

impl Metrics {
    pub(crate) fn count(&self, event: &Event, is_of_store: bool) {
        let add = |counter: Option<&AtomicU64>, more| {
            counter.map(|counter| counter.fetch_add(more, Ordering::Relaxed))
        };
        let verb: &str = &event.verb;
        if event.face == "webdav" {
            let bytes = if verb == "PUT" { &self.bytes_in } else { &self.bytes_out };
            add(Some(bytes), event.bytes);
        }
        let method = METHODS.iter().position(|method| verb == *method).unwrap_or(METHODS.len());
        let class = usize::from(event.status / 100);
        add(self.responses.get(method).and_then(|classes| classes.get(class)), 1);
        self.request_took((named(event.face), named(event.route)), event.millis.saturating_mul(1_000));
        // The member that answered a passed-on request counts the request as permitted or refused. So this server does not count it again.
        if event.code.is_empty() && event.verdict == "passed" {
            return;
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

    fn request_took(&self, series: (&'static str, &'static str), micros: u64) {
        let known = self.durations.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(durations) = known.get(&series) {
            return durations.add(&REQUEST_BUCKETS, micros);
        }
        drop(known);
        let mut known = self.durations.write().unwrap_or_else(PoisonError::into_inner);
        known.entry(series).or_default().add(&REQUEST_BUCKETS, micros);
    }

    /// Counts the time that a door took.
    pub fn door_took(&self, door: TimedDoor, took: Duration) {
        if let Some(durations) = self.door_durations.get(door as usize) {
            durations.add(&DOOR_BUCKETS, u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// From now on, `/readyz` reports that the server is not ready.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Whether the server is stopping: it accepts no further requests, except on the operations listener.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Sets the number of served certificates, and the earliest time at which one of them expires, in seconds since the epoch.
    pub fn set_certificates(&self, count: usize, soonest_expiry: i64) {
        self.certificates.store(count as u64, Ordering::Relaxed);
        self.soonest_expiry.store(soonest_expiry, Ordering::Relaxed);
    }

    /// Counts a handshake that the server ended. Returns how many handshakes ended for this reason before.
    pub fn handshake_failed(&self, why: HandshakeEnd) -> u64 {
        let count = self.handshakes_failed.get(why as usize);
        count.map_or(0, |count| count.fetch_add(1, Ordering::Relaxed))
    }

    /// Sets the number of certificate files that cannot be used.
    pub fn set_bad_certificates(&self, count: usize) {
        self.bad_certificates.store(count as u64, Ordering::Relaxed);
    }

    /// Sets whether the newest configuration, or the newest state of the certificates, was refused.
    pub fn set_reload_failed(&self, has_failed: bool) {
        self.reload_failed.store(u64::from(has_failed), Ordering::Relaxed);
    }

    /// Sets the result of the last look at each file.
    pub fn set_files(&self, looks: BTreeMap<&'static str, FileLook>) {
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = looks;
    }

    /// Sets the time of the last complete scheduled backup, in seconds since the epoch, and whether a later scheduled backup failed.
    pub fn set_backup(&self, last: Option<i64>, has_failed: bool) {
        *self.backup.lock().unwrap_or_else(PoisonError::into_inner) = Some(Backup { last, has_failed });
    }

    /// Sets which limits on this process the kernel enforces.
    pub fn set_confinement(&self, limits: [(&'static str, bool); 2]) {
        let _ = self.confined.set(limits);
    }

    /// Sets the number of lines that are missing from the log, for each cause.
    pub fn set_lost_lines(&self, lost: Vec<(&'static str, u64)>) {
        *self.lost_lines.lock().unwrap_or_else(PoisonError::into_inner) = lost;
    }

    /// Sets the number of requests with a trace that was sent, and the number of requests with a trace that was lost.
    pub fn set_traces(&self, counts: Option<(u64, u64)>) {
        *self.traces.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }

    /// Sets the space of each file system: of the data directory (`None`), and of datastores.
    pub fn set_disks(&self, disks: BTreeMap<Option<DatastoreName>, Disk>) {
        *self.disks.lock().unwrap_or_else(PoisonError::into_inner) = disks;
    }

    /// Sets the number of warnings about each datastore.
    pub fn set_amiss(&self, amiss: BTreeMap<DatastoreName, u64>) {
        *self.amiss.lock().unwrap_or_else(PoisonError::into_inner) = amiss;
    }

    /// Counts a request with forwarded headers that were ignored.
    pub(crate) fn forwarded_ignored(&self) {
        self.forwarded_ignored.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection on which a load balancer sent no usable PROXY header. Returns how many such connections there were before.
    pub fn proxy_header_refused(&self) -> u64 {
        self.proxy_headers_refused.fetch_add(1, Ordering::Relaxed)
    }

    /// Sets the number of open connections.
    pub fn set_connections(&self, count: u64) {
        self.connections.store(count, Ordering::Relaxed);
    }

    /// Sets the resources that this process uses.
    pub fn set_process(&self, process: ProcessUse) {
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = process;
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
        self.render_answers(&mut text);
        CONTENT_BYTES.write(&mut text, [of("in", read(&self.bytes_in)), of("out", read(&self.bytes_out))]);
        NAMES_NOT_SHOWN.write(&mut text, [alone(house.names_not_shown())]);
        FORWARDED_IGNORED.write(&mut text, [alone(read(&self.forwarded_ignored))]);
        CONNECTIONS.write(&mut text, [alone(read(&self.connections))]);
        CERTIFICATES.write(&mut text, [alone(read(&self.certificates))]);
        let soonest = u64::try_from(self.soonest_expiry.load(Ordering::Relaxed)).unwrap_or(0);
        CERTIFICATE_EXPIRY.write(&mut text, [alone(soonest)]);
        let reasons = HANDSHAKE_REASONS.iter().zip(&self.handshakes_failed);
        HANDSHAKES_FAILED.write(&mut text, reasons.map(|(reason, count)| of(reason, read(count))));
        PROXY_HEADERS_REFUSED.write(&mut text, [alone(read(&self.proxy_headers_refused))]);
        self.render_acme(&mut text);
        CERTIFICATES_BAD.write(&mut text, [alone(read(&self.bad_certificates))]);
        RELOAD_FAILED.write(&mut text, [alone(read(&self.reload_failed))]);
        let lost = self.lost_lines.lock().unwrap_or_else(PoisonError::into_inner).clone();
        LOST_LINES.write(&mut text, lost.into_iter().map(|(reason, count)| of(reason, count)));
        let traces = *self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = traces.into_iter().flat_map(|(sent, lost)| [of("sent", sent), of("lost", lost)]);
        TRACES.write(&mut text, rows);
        let gate = house.gate().counts();
        let rows = [("computed", gate.computed), ("shared", gate.shared), ("turned_away", gate.turned_away)];
        HASHES.write(&mut text, rows.map(|(outcome, count)| of(outcome, count)));
        let penalties = house.penalties().counts();
        FAILED_LOGINS.write(&mut text, [of("failed", penalties.failed), of("barred", penalties.barred)]);
        // There is no sample if the revocations cannot be read. While they cannot be read, the server refuses every session, and other metrics count
        // these refusals.
        REVOCATIONS.write(&mut text, house.revocations().ok().map(alone));
        self.render_files(&mut text);
        let backup = *self.backup.lock().unwrap_or_else(PoisonError::into_inner);
        let last = backup.and_then(|backup| u64::try_from(backup.last?).ok());
        BACKUP.write(&mut text, last.map(alone));
        BACKUP_FAILED.write(&mut text, backup.map(|backup| alone(u64::from(backup.has_failed))));
        REVISION.write(&mut text, [alone(at.revision.0)]);
        self.render_fleet(&mut text);
        self.render_datastores(&mut text, house);
        self.render_process(&mut text);
        text
    }

    fn render_answers(&self, text: &mut String) {
        let methods = METHODS.iter().copied().chain(["other"]).zip(&self.responses);
        let rows = methods.flat_map(|(method, classes)| {
            let counts =
                CLASSES.iter().zip(classes).map(|(class, count)| (class, count.load(Ordering::Relaxed)));
            let some = counts.filter(|(_, count)| *count > 0);
            some.map(move |(class, count)| (vec![method.to_owned(), (*class).to_owned()], count))
        });
        RESPONSES.write(text, rows);
        DURATION.head(text);
        for ((face, route), durations) in &*self.durations.read().unwrap_or_else(PoisonError::into_inner) {
            DURATION.histogram(text, &[face, route], &REQUEST_BUCKETS, durations);
        }
        DOOR_DURATION.head(text);
        for (door, durations) in TIMED_DOORS.iter().zip(&self.door_durations) {
            DOOR_DURATION.histogram(text, &[door], &DOOR_BUCKETS, durations);
        }
    }

    fn render_process(&self, text: &mut String) {
        let process = *self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let confined = self.confined.get().into_iter().flatten();
        CONFINED.write(text, confined.map(|(limit, is_set)| of(limit, u64::from(*is_set))));
        CPU.write(text, [(Vec::new(), Seconds(process.cpu_millis * 1_000))]);
        RESIDENT.write(text, [alone(process.resident_bytes)]);
        OPEN_FDS.write(text, [alone(process.open_fds)]);
        MAX_FDS.write(text, Some(process.max_fds).filter(|most| *most > 0).map(alone));
        STARTED.write(text, [(Vec::new(), Seconds(process.started_millis * 1_000))]);
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

/// The value of a label. An empty value becomes `none`.
fn named(label: &'static str) -> &'static str {
    if label.is_empty() { "none" } else { label }
}

/// Microseconds, written as seconds.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0 / 1_000_000, self.0 % 1_000_000);
        match micros % 1_000 {
            0 => write!(f, "{seconds}.{:03}", micros / 1_000),
            _ => write!(f, "{seconds}.{micros:06}"),
        }
    }
}

/// The sample of a metric with one label.
fn of(value: &str, count: u64) -> Sample {
    (vec![value.to_owned()], count)
}

/// The sample of a metric without labels.
fn alone(count: u64) -> Sample {
    (Vec::new(), count)
}

impl Metric {
    /// Writes the samples of the metric in Prometheus' text form.
    fn write<V: Display>(&self, text: &mut String, samples: impl IntoIterator<Item = (Vec<String>, V)>) {
        let Metric { name, labels, .. } = self;
        self.head(text);
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

    fn head(&self, text: &mut String) {
        let Metric { name, kind, help, .. } = self;
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes one series of a histogram. The count of a bucket includes the counts of all lower buckets.
    fn histogram(&self, text: &mut String, values: &[&str], buckets: &Buckets, durations: &Durations) {
        let name = self.name;
        let pairs = self.labels.iter().zip(values).map(|(label, value)| format!("{label}=\"{value}\""));
        let pairs = pairs.collect::<Vec<_>>().join(",");
        let mut count = 0;
        for (most, bucket) in buckets.iter().zip(&durations.buckets) {
            count += bucket.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}_bucket{{{pairs},le=\"{}\"}} {count}", Seconds(*most));
        }
        count += durations.longer.load(Ordering::Relaxed);
        let sum = Seconds(durations.micros.load(Ordering::Relaxed));
        let _ = writeln!(text, "{name}_bucket{{{pairs},le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{{{pairs}}} {sum}\n{name}_count{{{pairs}}} {count}");
    }
}

#[cfg(test)]
mod tests;
