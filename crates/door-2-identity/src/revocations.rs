//! What was revoked, in the process: one look is a handful of probes, however much there is.

use crate::session::Claim;
use crate::view;
use enfilade_facts::tables::{Key, Revocation, Revoked, Table};
use enfilade_facts::vocabulary::DomainId;
use enfilade_facts::{Index, IndexError, Indexed, SourceError, View};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// So many parts that a change copies few entries, and so few that cloning all of them is nothing.
const PARTS: usize = 1024;

/// Since when everything that is revoked is.
#[derive(Clone)]
pub struct Revocations {
    parts: Vec<Arc<HashMap<Revoked, i64>>>,
    count: u64,
}

/// Whatever a claim may be revoked by.
pub(crate) fn marks(claim: &Claim, user_domain: DomainId, scope_domain: Option<DomainId>) -> Vec<Revoked> {
    let scope_domain = scope_domain.filter(|domain| *domain != user_domain);
    let mut marks = vec![
        Revoked::Token(claim.audit.own),
        Revoked::Chain(claim.chain()),
        Revoked::User(claim.user),
        Revoked::Domain(user_domain),
    ];
    marks.extend(claim.scope.project().map(Revoked::Project));
    marks.extend(scope_domain.map(Revoked::Domain));
    marks
}

/// The first of the marks that was set when the token had been issued, or in that very second. Where the index has gone on
/// to a later revision than the view's, the view itself is asked: slower, and right.
pub(crate) fn revoked_by(
    view: &view::View<'_>,
    index: &Index<Revocations>,
    marks: &[Revoked],
    issued_at: i64,
) -> Result<Option<Revoked>, SourceError> {
    let found = index.read(view.0, |revoked| {
        marks.iter().find(|mark| revoked.since(mark).is_some_and(|before| issued_at <= before)).copied()
    });
    match found {
        Ok(found) => Ok(found),
        Err(IndexError::Source(why)) => Err(why),
        Err(IndexError::Ahead) => {
            for mark in marks {
                if view.0.get::<Revocation>(mark)?.is_some_and(|row| issued_at <= row.issued_before) {
                    return Ok(Some(*mark));
                }
            }
            Ok(None)
        }
    }
}

impl Revocations {
    fn since(&self, mark: &Revoked) -> Option<i64> {
        self.parts.get(part(&mark.bytes()))?.get(mark).copied()
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn set(&mut self, mark: Revoked, before: Option<i64>) {
        let Some(part) = self.parts.get_mut(part(&mark.bytes())) else { return };
        let part = Arc::make_mut(part);
        let old = match before {
            Some(before) => part.insert(mark, before),
            None => part.remove(&mark),
        };
        self.count = self.count + u64::from(before.is_some()) - u64::from(old.is_some());
    }
}

/// Ids are random, so any of their bytes choose well.
fn part(key: &[u8]) -> usize {
    match key {
        [_, a, b, ..] => usize::from(u16::from_be_bytes([*a, *b])) % PARTS,
        _ => 0,
    }
}

impl Indexed for Revocations {
    const TABLES: &'static [Table] = &[Table::Revocations];

    fn build(view: &View<'_>) -> Result<Self, SourceError> {
        let mut built = Revocations { parts: vec![Arc::default(); PARTS], count: 0 };
        view.scan::<Revocation>(&[], |mark, row| {
            built.set(mark, Some(row.issued_before));
            ControlFlow::Continue(())
        })?;
        Ok(built)
    }

    fn update(&mut self, view: &View<'_>, _: Table, key: &[u8]) -> Result<(), SourceError> {
        // A key nobody can read is nobody's mark; the scan that finds it says so.
        let Some(mark) = Revoked::from_bytes(key) else { return Ok(()) };
        self.set(mark, view.get::<Revocation>(&mark)?.map(|row| row.issued_before));
        Ok(())
    }
}
