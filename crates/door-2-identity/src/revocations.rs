//! What was revoked, in the process: one look is a handful of probes, however much there is. And at which revision anything
//! else changed: as long as nothing did, a session that stood needs no more than that look.

use crate::session::{Lent, Session};
use crate::view;
use enfilade_facts::tables::{Key, Revocation, Revoked, Table};
use enfilade_facts::{Index, IndexError, Indexed, Revision, SourceError, View};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A tree of two levels, so that a change copies a few kilobytes: with a million marks there are 15 in a part.
const FAN: usize = 256;

/// Since when everything that is revoked is.
#[derive(Clone)]
pub struct Revocations {
    top: Vec<Arc<[Part]>>,
    count: u64,
    /// The revision at which anything but revocations was changed last, as far as that was followed.
    others: Revision,
}

/// A few marks, and a filter that says of most others at once that they are not among them.
#[derive(Clone, Default)]
struct Part {
    filter: u128,
    marks: Arc<[(Revoked, i64)]>,
}

impl Part {
    fn get(&self, mark: &Revoked, place: &Place) -> Option<i64> {
        if self.filter & place.bit == 0 {
            return None;
        }
        self.marks.iter().find(|(known, _)| known == mark).map(|(_, before)| *before)
    }

    /// Whether it was there, and whether it is now.
    fn set(&mut self, mark: Revoked, before: Option<i64>) -> (bool, bool) {
        let others = self.marks.iter().filter(|(known, _)| *known != mark).copied();
        let marks: Arc<[_]> = others.chain(before.map(|before| (mark, before))).collect();
        let was = marks.len() < self.marks.len() + usize::from(before.is_some());
        self.filter = marks.iter().fold(0, |filter, (mark, _)| filter | Place::of(mark).bit);
        self.marks = marks;
        (was, before.is_some())
    }
}

/// Where a mark is. Ids are random, so any of their bytes choose well.
struct Place {
    top: usize,
    part: usize,
    bit: u128,
}

impl Place {
    fn of(mark: &Revoked) -> Self {
        match mark.bytes().as_slice() {
            [_, a, b, c, ..] => Place { top: usize::from(*a), part: usize::from(*b), bit: 1 << (c % 128) },
            _ => Place { top: 0, part: 0, bit: 1 },
        }
    }
}

/// What came of a look.
pub(crate) struct Look {
    /// By what the claim is revoked, if it is.
    pub(crate) by: Option<Revoked>,
    /// The revision at which anything but revocations was changed last; `None` where that is not known.
    pub(crate) others: Option<Revision>,
}

/// Whatever a session may be revoked by.
fn marks(session: &Session) -> Vec<Revoked> {
    let (claim, user_domain) = (&session.claim, session.user_domain);
    let scope_domain = session.scope_domain.filter(|domain| *domain != user_domain);
    let mut marks = vec![
        Revoked::Token(claim.audit.own),
        Revoked::Chain(claim.chain()),
        Revoked::User(claim.user),
        Revoked::Domain(user_domain),
    ];
    marks.extend(claim.scope.project().map(Revoked::Project));
    marks.extend(scope_domain.map(Revoked::Domain));
    if let (Some(Lent::Trust(id)), Some(trusted)) = (claim.lent, &session.trusted) {
        marks.extend([Revoked::Trust(id), Revoked::User(trusted.trust.trustor)]);
        marks.push(Revoked::Domain(trusted.trustor_domain));
    }
    marks
}

/// Looks for the first of the marks that was set when the token had been issued, or in that very second. Where the index has
/// gone on to a later revision than the view's, the view itself is asked: slower, and right.
pub(crate) fn look(
    view: &view::View<'_>,
    index: &Index<Revocations>,
    session: &Session,
) -> Result<Look, SourceError> {
    let (marks, issued_at) = (marks(session), session.claim.issued_at);
    let found = index.read(view.0, |revoked| Look {
        by: marks.iter().find(|mark| revoked.since(mark).is_some_and(|before| issued_at <= before)).copied(),
        others: Some(revoked.others),
    });
    match found {
        Ok(found) => Ok(found),
        Err(IndexError::Source(why)) => Err(why),
        Err(IndexError::Ahead) => {
            let mut by = None;
            for mark in marks {
                if view.0.get::<Revocation>(&mark)?.is_some_and(|row| issued_at <= row.issued_before) {
                    by = Some(mark);
                    break;
                }
            }
            Ok(Look { by, others: None })
        }
    }
}

impl Revocations {
    fn since(&self, mark: &Revoked) -> Option<i64> {
        let place = Place::of(mark);
        self.top.get(place.top)?.get(place.part)?.get(mark, &place)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn set(&mut self, mark: Revoked, before: Option<i64>) {
        let place = Place::of(&mark);
        let Some(parts) = self.top.get_mut(place.top) else { return };
        let Some(part) = Arc::make_mut(parts).get_mut(place.part) else { return };
        let (was, is) = part.set(mark, before);
        self.count = self.count + u64::from(is) - u64::from(was);
    }
}

impl Indexed for Revocations {
    const TABLES: &'static [Table] = &Table::ALL;

    fn build(view: &View<'_>) -> Result<Self, SourceError> {
        let parts: Arc<[Part]> = vec![Part::default(); FAN].into();
        let mut built = Revocations { top: vec![parts; FAN], count: 0, others: view.at().revision };
        view.scan::<Revocation>(&[], |mark, row| {
            built.set(mark, Some(row.issued_before));
            ControlFlow::Continue(())
        })?;
        Ok(built)
    }

    fn update(&mut self, view: &View<'_>, table: Table, key: &[u8]) -> Result<(), SourceError> {
        if table != Table::Revocations {
            self.others = view.at().revision;
            return Ok(());
        }
        // A key nobody can read is nobody's mark; the scan that finds it says so.
        let Some(mark) = Revoked::from_bytes(key) else { return Ok(()) };
        self.set(mark, view.get::<Revocation>(&mark)?.map(|row| row.issued_before));
        Ok(())
    }
}
