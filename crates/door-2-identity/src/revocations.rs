//! What was revoked, in the process: one look is a handful of probes, however much there is. And at which revision anything
//! else changed: as long as nothing did, a session that stood needs no more than that look.

use crate::session::{Methods, Session};
use crate::view;
use enfilade_facts::tables::{Key, Revocation, Revoked, Table};
use enfilade_facts::{Horizon, Index, IndexError, Indexed, Revision, SourceError, View};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A tree of two levels, so that a change copies a few kilobytes: with a million marks there are 15 in a part.
const FAN: usize = 256;

/// So many of the newest marks are known one by one: a session that was judged before them need not be looked for among all.
const NEWEST: usize = 8;

/// Since when everything that is revoked is.
#[derive(Clone)]
pub struct Revocations {
    top: Vec<Arc<Shelf>>,
    count: u64,
    /// The last second that a mark counts up to, or did: one that goes by time, and any.
    last: [i64; 2],
    /// Marks of tokens that end in this second or before it may have been purged.
    purged: i64,
    /// The newest marks, the last one last, each with the revision it was taken in at, which is not before the one it is of.
    newest: Vec<(Revision, Revoked)>,
    /// Every mark of a later revision than this is among the newest.
    forgotten: Revision,
    /// The revision at which anything but revocations was changed last, as far as that was followed.
    others: Revision,
}

/// The filters of its parts lie side by side: a look at something that is not there touches one line of memory, and with a
/// million marks all such lines together are a megabyte.
#[derive(Clone)]
struct Shelf {
    filters: [u128; FAN],
    parts: [Part; FAN],
}

/// A few marks, and since when each is.
type Part = Option<Arc<[(Revoked, i64)]>>;

/// Where a mark is: the filter of its part has both of its bits set. Ids are random, so any of their bytes choose well.
struct Place {
    top: usize,
    part: usize,
    bits: u128,
}

impl Place {
    #[inline]
    fn of(mark: &Revoked) -> Self {
        let [top, part, one, other, ..] = *mark.id();
        Place { top: top.into(), part: part.into(), bits: 1 << (one % 128) | 1 << (other % 128) }
    }
}

impl Shelf {
    fn get(&self, mark: &Revoked, place: &Place) -> Option<i64> {
        if self.filters.get(place.part)? & place.bits != place.bits {
            return None;
        }
        let marks = self.parts.get(place.part)?.as_ref()?;
        marks.iter().find(|(known, _)| known == mark).map(|(_, before)| *before)
    }

    /// Whether it was there before.
    fn set(&mut self, mark: Revoked, before: Option<i64>, place: &Place) -> Option<bool> {
        let (part, filter) = (self.parts.get_mut(place.part)?, self.filters.get_mut(place.part)?);
        let old = part.as_deref().unwrap_or_default();
        let others = old.iter().filter(|(known, _)| *known != mark).copied();
        let marks: Arc<[_]> = others.chain(before.map(|before| (mark, before))).collect();
        let was = marks.len() < old.len() + usize::from(before.is_some());
        *filter = marks.iter().fold(0, |filter, (mark, _)| filter | Place::of(mark).bits);
        *part = Some(marks);
        Some(was)
    }
}

/// What came of a look.
pub(crate) struct Look {
    /// By what the claim is revoked, if it is.
    pub(crate) by: Option<Revoked>,
    /// The revision at which anything but revocations was changed last; `None` where that is not known.
    pub(crate) others: Option<Revision>,
}

/// Whatever a session may be revoked by, beside what it rests on: see [`view::View::of_session`].
fn marks(session: &Session) -> impl Iterator<Item = Revoked> {
    let (claim, user_domain) = (&session.claim, session.user_domain);
    let scope_domain = session.scope_domain.filter(|domain| *domain != user_domain);
    let lenders = session.trusted.iter().flat_map(|trusted| &trusted.lenders);
    let by_trust = lenders.flat_map(|(user, domain)| [Revoked::User(*user), Revoked::Domain(*domain)]);
    let always = [
        Revoked::Token(claim.audit.own),
        Revoked::Chain(claim.chain()),
        Revoked::User(claim.user),
        Revoked::Domain(user_domain),
    ];
    let others = [
        claim.scope.project().map(Revoked::Project),
        scope_domain.map(Revoked::Domain),
        claim.trust().map(Revoked::Trust),
    ];
    always.into_iter().chain(others.into_iter().flatten()).chain(by_trust)
}

/// The last second of issue a mark is about. The chain of an EC2 key is the key: its next secret makes sessions of the same chain.
fn covers(session: &Session, mark: &Revoked, before: i64) -> i64 {
    let is_of_key = matches!(mark, Revoked::Chain(_)) && session.claim.methods == Methods::EC2_KEY;
    if mark.is_timeless() && !is_of_key { i64::MAX } else { before }
}

/// Whether a mark is about what was issued at this second.
pub(crate) fn is_set(
    facts: &View<'_>,
    index: &Index<Revocations>,
    mark: &Revoked,
    issued_at: i64,
) -> Result<bool, SourceError> {
    let before = match index.read(facts, |revoked| revoked.since(mark)) {
        Ok(before) => before,
        Err(IndexError::Source(why)) => return Err(why),
        Err(IndexError::Ahead) => facts.get::<Revocation>(mark)?.map(|row| row.issued_before),
    };
    Ok(before.is_some_and(|before| issued_at <= before))
}

/// What a new session is issued by.
pub(crate) struct Issuing {
    pub(crate) horizon: Horizon,
    /// The present second, or the first one that no mark counts up to which goes by time.
    pub(crate) first: i64,
    /// The same of every mark.
    pub(crate) later: i64,
}

/// What a session is issued by that is judged on this view. Where the index has gone on, the horizon is later than all marks.
pub(crate) fn issuing(
    facts: &View<'_>,
    index: &Index<Revocations>,
    now: i64,
) -> Result<Issuing, SourceError> {
    let after = |last: i64| now.max(last.saturating_add(1));
    match index.read(facts, |revoked| (revoked.since(&Revoked::Horizon), revoked.last)) {
        Ok((second, [of_time, of_any])) => {
            let horizon = Horizon::from_second(second);
            Ok(Issuing { horizon, first: after(of_time), later: after(of_any) })
        }
        Err(IndexError::Source(why)) => Err(why),
        Err(IndexError::Ahead) => {
            let horizon = Horizon::of(facts)?;
            let last = after(horizon.last_issue(now));
            Ok(Issuing { horizon, first: last, later: last })
        }
    }
}

/// Looks for the first of the marks that was set when the token had been issued, or in that very second. Where the index has
/// gone on to a later revision than the view's, the view itself is asked: slower, and right. `judged` is the revision at which
/// none of them was set, if there is one.
pub(crate) fn look(
    view: &view::View<'_>,
    index: &Index<Revocations>,
    session: &Session,
    judged: Option<Revision>,
) -> Result<Look, SourceError> {
    let issued_at = session.claim.issued_at;
    let found = index.read(view.facts, |revoked| {
        let later = judged.and_then(|judged| revoked.after(judged));
        let may_be = |mark: &Revoked| later.is_none_or(|later| later.iter().any(|(_, new)| new == mark));
        let is_set = |mark: &Revoked| {
            revoked.since(mark).is_some_and(|before| issued_at <= covers(session, mark, before))
        };
        let is_purged = session.claim.expires_at <= revoked.purged;
        let by = marks(session).find(|mark| may_be(mark) && is_set(mark));
        let by = by.or(is_purged.then_some(Revoked::Passed));
        Look { by, others: Some(revoked.others) }
    });
    match found {
        Ok(found) => Ok(found),
        Err(IndexError::Source(why)) => Err(why),
        Err(IndexError::Ahead) => {
            let purged = view.facts.get::<Revocation>(&Revoked::Passed)?;
            let is_purged = purged.is_some_and(|row| session.claim.expires_at <= row.issued_before);
            let mut by = is_purged.then_some(Revoked::Passed);
            for mark in marks(session) {
                let row = view.facts.get::<Revocation>(&mark)?;
                if row.is_some_and(|row| issued_at <= covers(session, &mark, row.issued_before)) {
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
        self.top.get(place.top)?.get(mark, &place)
    }

    /// The marks that were set after a revision; `None` where that is too long ago.
    fn after(&self, judged: Revision) -> Option<&[(Revision, Revoked)]> {
        let earlier = self.newest.partition_point(|(taken_in, _)| *taken_in <= judged);
        self.newest.get(earlier..).filter(|_| self.forgotten <= judged)
    }

    fn remember(&mut self, taken_in: Revision, mark: Revoked) {
        if self.newest.len() == NEWEST {
            self.forgotten = self.newest.remove(0).0;
        }
        self.newest.push((taken_in, mark));
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn set(&mut self, mark: Revoked, before: Option<i64>) {
        let place = Place::of(&mark);
        let Some(shelf) = self.top.get_mut(place.top) else { return };
        let Some(was) = Arc::make_mut(shelf).set(mark, before, &place) else { return };
        if !mark.is_mark() {
            if mark == Revoked::Passed {
                self.purged = before.unwrap_or(i64::MIN);
            }
            return;
        }
        let [of_time, of_any] = &mut self.last;
        let before_or_never = before.unwrap_or(i64::MIN);
        *of_any = before_or_never.max(*of_any);
        if !mark.is_timeless() {
            *of_time = before_or_never.max(*of_time);
        }
        self.count = self.count + u64::from(before.is_some()) - u64::from(was);
    }
}

impl Indexed for Revocations {
    const TABLES: &'static [Table] = &Table::ALL;

    fn build(view: &View<'_>) -> Result<Self, SourceError> {
        let empty = Arc::new(Shelf { filters: [0; FAN], parts: [const { None }; FAN] });
        let revision = view.at().revision;
        let (top, newest) = (vec![empty; FAN], Vec::new());
        let mut built = Revocations {
            top,
            count: 0,
            last: [i64::MIN; 2],
            purged: i64::MIN,
            newest,
            forgotten: revision,
            others: revision,
        };
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
        if mark.is_mark() {
            self.remember(view.at().revision, mark);
        }
        Ok(())
    }
}
