//! Counters, in Prometheus' text form. No names of people, tokens or paths in labels.

use enfilade_passage::{Event, House};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What the faces have done since the start.
#[derive(Debug, Default)]
pub struct Metrics {
    permitted: AtomicU64,
    refused: Mutex<BTreeMap<(&'static str, &'static str, &'static str), u64>>,
    bytes: AtomicU64,
    draining: AtomicBool,
    bad_certificates: AtomicU64,
    /// Of the last reload: 0 when there was none or it was whole, 1 when it failed.
    reload_failed: AtomicU64,
    connections: AtomicU64,
}

impl Metrics {
    pub(crate) fn count(&self, event: &Event) {
        self.bytes.fetch_add(event.bytes, Ordering::Relaxed);
        if event.code.is_empty() {
            self.permitted.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry((event.door, event.code, event.fault)).or_default() += 1;
    }

    /// From now on `/readyz` says no.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// How many certificates were left out.
    pub fn set_bad_certificates(&self, count: usize) {
        self.bad_certificates.store(count as u64, Ordering::Relaxed);
    }

    /// Whether the last reload was whole.
    pub fn reloaded(&self, is_whole: bool) {
        self.reload_failed.store(u64::from(!is_whole), Ordering::Relaxed);
    }

    /// How many connections are open.
    pub fn set_connections(&self, count: usize) {
        self.connections.store(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn render(&self, house: &House) -> String {
        let mut text = String::new();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        metric(
            &mut text,
            "enfilade_info",
            "gauge",
            "the version",
            [(label("version", env!("CARGO_PKG_VERSION")), 1)],
        );
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
        let connections = [(String::new(), read(&self.connections))];
        metric(&mut text, "enfilade_connections", "gauge", "open connections", connections);
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
        let revision = [(String::new(), house.source().at().revision.0)];
        metric(&mut text, "enfilade_facts_revision", "gauge", "the newest revision of the facts", revision);
        let rows = house.ledger().all().into_iter().flat_map(|(name, active)| {
            let row = |kind: &str, count| (format!("{{datastore=\"{name}\",kind=\"{kind}\"}}"), count);
            [row("read", active.readers), row("write", active.writers)]
        });
        // A name somebody asked for and that is no datastore is not worth a series.
        let rows = rows.filter(|(_, count)| *count > 0);
        metric(&mut text, "enfilade_active_operations", "gauge", "operations inside a datastore", rows);
        text
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
