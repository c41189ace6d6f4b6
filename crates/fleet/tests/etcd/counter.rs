//! A number in the facts. The members add 1 to this number.

use enfilade_facts::tables::Domain;
use enfilade_facts::vocabulary::DomainId;
use enfilade_facts::{AuditRecord, Change, CommitError, Read as _, Source, SourceError, StoreId};

pub(crate) const STORE: StoreId = StoreId(7);

/// The time of the clock of proofs: the milliseconds since the machine started.
pub(crate) fn boot_clock() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap() * 1_000 + u64::try_from(now.tv_nsec).unwrap() / 1_000_000
}

pub(crate) fn change() -> Change {
    Change::new(AuditRecord { who: "a test".into(), what: "x".into(), unix_seconds: 7, request: None })
}

/// The id of the domain that has the number as its description.
pub(crate) fn id() -> DomainId {
    DomainId::from_bytes([1; 16])
}

/// The domain that has the number as its description, and the number. Before the first addition, they are `None` and 0.
pub(crate) fn number(source: &dyn Source) -> (Option<Domain>, u64) {
    granted(source).unwrap()
}

/// Like [`number`], but returns an error if the source does not show facts.
pub(crate) fn granted(source: &dyn Source) -> Result<(Option<Domain>, u64), SourceError> {
    let row = source.read(|view| view.get::<Domain>(&id()))??;
    let number = row.as_ref().and_then(|row| row.description.as_ref()?.parse().ok()).unwrap_or(0);
    Ok((row, number))
}

/// Adds 1 to the number, if no other member changed the number at the same time. Returns the new number.
pub(crate) fn add_one(source: &dyn Source) -> Result<u64, CommitError> {
    let (before, number) = granted(source)?;
    let mut next = Domain::new("local".parse().unwrap());
    next.description = Some((number + 1).to_string());
    source.commit(change().expect_unchanged(&id(), before.as_ref()).put(&id(), &next)).map(|_| number + 1)
}
