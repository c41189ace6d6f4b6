//! The newest refusals, for the page "Refusals" of the console. The request log has more: up to `[limits] refusals_logged_per_second` in each second.

use super::Metrics;
use enfilade_facts::vocabulary::shortened;
use enfilade_passage::Event;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// The number of refusals of a door that are kept. Each door has a separate list, because many refusals by one door must not hide the refusals of
/// another door.
const KEPT_MAX: usize = 100;
/// The maximum length of a text that is kept, in bytes. Clients choose names and paths.
const TEXT_MAX: usize = 300;

/// A refusal.
#[derive(Clone, Debug)]
pub struct RecentRefusal {
    /// The time, in seconds since the epoch.
    pub unix_seconds: i64,
    /// The event. Long texts are cut.
    pub event: Event,
}

/// The newest refusals of each door.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<BTreeMap<&'static str, VecDeque<RecentRefusal>>>);

impl Metrics {
    /// Keeps a refusal for the console.
    pub(crate) fn keep(&self, event: &Event, unix_seconds: i64) {
        let event = Event {
            id: event.id,
            peer: event.peer.clone(),
            face: event.face,
            verb: shortened(&event.verb, TEXT_MAX).into(),
            authid: shortened(&event.authid, TEXT_MAX).into(),
            datastore: shortened(&event.datastore, TEXT_MAX).into_owned(),
            path: shortened(&event.path, TEXT_MAX).into_owned(),
            door: event.door,
            code: event.code,
            reason: shortened(&event.reason, TEXT_MAX).into_owned(),
            status: event.status,
            is_failed_login: event.is_failed_login,
            ..Event::default()
        };
        let mut doors = self.refusals.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = doors.entry(event.door).or_default();
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(RecentRefusal { unix_seconds, event });
    }

    /// The newest refusals of all doors, the newest first.
    pub fn recent_refusals(&self) -> Vec<RecentRefusal> {
        let doors = self.refusals.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<RecentRefusal> = doors.values().flatten().cloned().collect();
        drop(doors);
        // The sort is stable, so refusals of one door stay in their order within a second.
        all.reverse();
        all.sort_by_key(|refusal| std::cmp::Reverse(refusal.unix_seconds));
        all
    }

    /// The numbers of refusals since the start, by door and code.
    pub fn refusal_counts(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = BTreeMap::new();
        for ((door, code, _), count) in &*refused {
            *counts.entry((*door, *code)).or_default() += count;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(door: &'static str, path: &str) -> Event {
        Event { door, code: "AC01", path: path.to_owned(), ..Event::default() }
    }

    #[test]
    fn a_flood_of_one_door_does_not_hide_another_door() {
        let metrics = Metrics::default();
        metrics.keep(&refusal("access", "/first"), 1);
        for n in 0..KEPT_MAX as i64 * 3 {
            metrics.keep(&refusal("identity", &format!("/{n}")), 2 + n);
        }
        let all = metrics.recent_refusals();
        assert_eq!(all.len(), KEPT_MAX + 1);
        assert_eq!(all.first().map(|newest| newest.event.path.as_str()), Some("/299"));
        assert_eq!(all.last().map(|oldest| oldest.event.path.as_str()), Some("/first"));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let metrics = Metrics::default();
        metrics.keep(&refusal("access", &format!("/{}", "ä".repeat(TEXT_MAX))), 1);
        let path = metrics.recent_refusals().remove(0).event.path;
        assert!(path.len() <= TEXT_MAX + '…'.len_utf8() && path.starts_with("/ää"), "{path}");
    }
}
