//! The metrics about datastores, in Prometheus' text form.

use super::{
    ACTIVE_OPERATIONS, DATA_DISK_AVAILABLE, DATA_DISK_SIZE, DATASTORE_DISK_AVAILABLE, DATASTORE_DISK_SIZE,
    DATASTORE_INFO, DATASTORE_REFUSALS, DATASTORE_WARNINGS, DATASTORES, DATASTORES_SHOWN_MAX, Disk, LOOKUPS,
    Metrics, alone, of,
};
use enfilade_facts::vocabulary::DatastoreName;
use enfilade_passage::{DatastoreState, Entered, House};
use std::sync::PoisonError;

impl Metrics {
    /// Writes the samples of the metrics about datastores.
    pub(super) fn render_datastores(&self, text: &mut String, house: &House) {
        let of_kind =
            |name: &DatastoreName, kind: &str, count| (vec![name.to_string(), kind.to_owned()], count);
        let stores = house.datastores();
        let first = stores.get(..DATASTORES_SHOWN_MAX).unwrap_or(&stores);
        let is_shown = |name: &str| first.binary_search_by(|store| store.name.as_str().cmp(name)).is_ok();
        let inside = house.inside().into_iter().flat_map(|process| process.inside);
        let rows = inside.filter(|(name, _)| is_shown(name.as_str())).flat_map(|(name, active)| {
            [of_kind(&name, "read", active.readers), of_kind(&name, "write", active.writers)]
        });
        ACTIVE_OPERATIONS.write(text, rows);
        let entered = house.entered().into_iter().filter(|(name, _)| is_shown(name.as_str()));
        let rows = entered.flat_map(|(name, entered)| {
            let Entered { lookups, reads, writes } = entered;
            let kinds = [("lookup", lookups), ("read", reads), ("write", writes)];
            kinds.map(|(kind, count)| of_kind(&name, kind, count))
        });
        LOOKUPS.write(text, rows);
        let refused = self.refused_by_store.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let rows = refused.iter().filter(|((name, _), _)| is_shown(name));
        DATASTORE_REFUSALS
            .write(text, rows.map(|((name, code), count)| (vec![name.clone(), (*code).to_owned()], *count)));
        DATASTORES.write(text, [alone(stores.len() as u64)]);
        let rows = first.iter().map(|DatastoreState { name, maintenance, is_mounted }| {
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
        let rows = amiss.iter().filter(|(name, _)| is_shown(name.as_str()));
        DATASTORE_WARNINGS.write(text, rows.map(|(name, count)| of(name.as_str(), *count)));
        let disks = self.disks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let of_stores = |value: fn(&Disk) -> u64| {
            let named = disks.iter().filter_map(move |(name, disk)| Some((name.as_ref()?, value(disk))));
            named.filter(|(name, _)| is_shown(name.as_str())).map(|(name, bytes)| of(name.as_str(), bytes))
        };
        DATASTORE_DISK_SIZE.write(text, of_stores(|disk| disk.size));
        DATASTORE_DISK_AVAILABLE.write(text, of_stores(|disk| disk.available));
        let data = disks.get(&None);
        DATA_DISK_SIZE.write(text, data.map(|disk| alone(disk.size)));
        DATA_DISK_AVAILABLE.write(text, data.map(|disk| alone(disk.available)));
    }
}
