//! The index of revocations. A lookup takes only a few steps, even if there are millions of revocations. The index also stores the revision of the
//! last change that was not a revocation. If a session was judged after that change, a lookup alone decides whether the session is still valid.

use crate::session::{Methods, Session};
use enfilade_facts::limits::REVOCATIONS_INDEXED_MAX;
use enfilade_facts::tables::{Key, ReverseKey, Revocation, Revoked, Table};
use enfilade_facts::{Horizon, Index, IndexError, Indexed, LastMarks, Revision, SourceError, View};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The number of children of each node in the tree, which has two levels. With a million marks, each part of the tree contains about 15 marks, and a
/// change copies a few kilobytes.
const FAN: usize = 256;

/// The number of newest marks that are also kept in a list. If all marks since the last judgement of a session are in the list, the session is
/// compared with these marks alone.
const NEWEST: usize = 8;

/// The index of all revocation marks. Each mark is stored with a time in seconds: the mark ends sessions that were issued up to this time.
#[derive(Clone)]
pub struct Revocations {
    /// The tree of marks. It becomes `None` when there are more than `most` marks, and is built again when at most `most / 2` marks are left. While
    /// it is `None`, marks are read from the view, in which each mark is one record.
    top: Option<Vec<Arc<Shelf>>>,
    most: u64,
    count: u64,
    /// The latest second of issue that any mark covers, with and without timeless marks ([`LastMarks`]). This includes marks that are already
    /// deleted.
    last: LastMarks,
    horizon: Horizon,
    /// Marks of tokens that expire in this second or earlier may have been purged.
    purged: i64,
    /// The newest marks, from older to newer, each with the revision at which the index read the mark.
    newest: Vec<(Revision, Revoked)>,
    /// Every mark with a later revision than `forgotten` is in `newest`.
    forgotten: Revision,
    /// The revision of the last change other than a revocation, among the changes that the index has read.
    others: Revision,
}

/// A branch of the tree with its parts. The filters of the parts are adjacent, so the lookup of a mark that does not exist reads one cache line. All
/// filters together have a size of 1 MiB.
#[derive(Clone)]
struct Shelf {
    filters: [u128; FAN],
    parts: [Part; FAN],
}

/// A few sorted marks, each with the last second of issue that it covers.
type Part = Option<Arc<[Entry]>>;

/// The short form of a mark ([`Revoked::short`]).
type Mark = [u8; 17];

/// A mark with the last second of issue that it covers. The fields have no padding, because there can be millions of marks.
#[derive(Clone, Copy)]
struct Entry {
    mark: Mark,
    before: [u8; 8],
}

impl Entry {
    fn new(mark: Mark, before: i64) -> Self {
        Entry { mark, before: before.to_ne_bytes() }
    }
}

/// The place of a mark in the tree. `bits` has two bits set; in the filter of a part, the two bits of each mark in the part are set. Ids are random,
/// so each byte of an id distributes the marks well.
struct Place {
    top: usize,
    part: usize,
    bits: u128,
}

impl Place {
    #[inline]
    fn of(mark: &Mark) -> Self {
        let [_, top, part, one, other, ..] = *mark;
        Place { top: top.into(), part: part.into(), bits: 1 << (one % 128) | 1 << (other % 128) }
    }
}

impl Shelf {
    fn get(&self, mark: &Mark, place: &Place) -> Option<i64> {
        if self.filters.get(place.part)? & place.bits != place.bits {
            return None;
        }
        let marks = self.parts.get(place.part)?.as_ref()?;
        let found = marks.binary_search_by(|entry| entry.mark.cmp(mark)).ok()?;
        marks.get(found).map(|entry| i64::from_ne_bytes(entry.before))
    }

    /// Sets or removes a mark; returns whether it was set before.
    fn set(&mut self, mark: Mark, before: Option<i64>, place: &Place) -> Option<bool> {
        let old = self.parts.get(place.part)?.as_deref().unwrap_or_default();
        let (smaller, rest) = old.split_at(old.partition_point(|entry| entry.mark < mark));
        let larger = rest.iter().filter(|entry| entry.mark != mark);
        let new = before.map(|before| Entry::new(mark, before));
        let marks: Arc<[Entry]> = smaller.iter().chain(&new).chain(larger).copied().collect();
        let was = rest.first().is_some_and(|entry| entry.mark == mark);
        self.put(place.part, marks)?;
        Some(was)
    }

    /// Adds marks, and sorts the part. The marks can be unsorted, because the scan reads them in the order of their ids, and a long id is shortened
    /// to a digest.
    fn add(&mut self, part: usize, marks: &[Entry]) -> Option<()> {
        let old = self.parts.get(part)?.as_deref().unwrap_or_default();
        let mut marks: Arc<[Entry]> = old.iter().chain(marks).copied().collect();
        Arc::get_mut(&mut marks)?.sort_unstable_by_key(|entry| entry.mark);
        self.put(part, marks)
    }

    fn put(&mut self, part: usize, marks: Arc<[Entry]>) -> Option<()> {
        *self.filters.get_mut(part)? =
            marks.iter().fold(0, |filter, entry| filter | Place::of(&entry.mark).bits);
        *self.parts.get_mut(part)? = Some(marks);
        Some(())
    }
}

/// The text about the mark in the refusal of a revoked session.
pub(crate) fn what_by(by: &Revoked) -> &'static str {
    match by {
        Revoked::Token(_) => "the token itself was revoked",
        Revoked::Chain(_) => "the audit chain of the session was revoked",
        Revoked::User(_) => "all sessions of the user were ended",
        Revoked::Project(_) => "all sessions for the project were ended",
        Revoked::Domain(_) => "all sessions of the domain were ended",
        Revoked::Trust(_) => "all sessions of the trust were ended",
        Revoked::Consumer(_) => "all sessions of the OAuth consumer were ended",
        Revoked::AccessToken(_) => "all sessions of the OAuth access token were ended",
        Revoked::Credential(_) => "all sessions of the application credential were ended",
        Revoked::Group(_)
        | Revoked::Role(_)
        | Revoked::Link(_)
        | Revoked::Horizon
        | Revoked::Passed
        | Revoked::Last => "a group, role or role assignment that the session depends on was removed",
    }
}

/// The result of a lookup.
pub(crate) struct Look {
    /// The mark that revokes the session, if one does.
    pub(crate) by: Option<Revoked>,
    /// The number of seconds from the session's expiry to the time `purged`. Set only if the session expired so early that its marks may have been
    /// purged. The session is then refused as expired, even if the clock was set back.
    pub(crate) over: Option<i64>,
    /// The revision of the last change that was not a revocation; `None` if that revision is not known.
    pub(crate) others: Option<Revision>,
}

/// The marks of the session itself, its user, scope, trust and OAuth access token. The marks of the groups and roles that the session depends on can
/// also revoke the session. [`crate::view::View::of_session`] checks the marks of these groups and roles.
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
        claim.access_token().map(Revoked::AccessToken),
        session.access.as_ref().map(|access| Revoked::Consumer(access.consumer)),
    ];
    always.into_iter().chain(others.into_iter().flatten()).chain(by_trust)
}

/// The last second of issue that a mark covers: the mark ends the session if the session was issued in this second or earlier. `before` is the second
/// that is stored with the mark. A mark of a token, chain, trust, consumer or access token covers all seconds, also after `before`. The chain of an
/// EC2 key is an exception, because sessions that are issued for a new secret of the key have the same chain. A mark on this chain covers only the
/// seconds up to `before`.
fn covers(session: &Session, mark: &Revoked, before: i64) -> i64 {
    let is_of_key = matches!(mark, Revoked::Chain(_)) && session.claim.methods == Methods::EC2_KEY;
    if mark.is_timeless() && !is_of_key { i64::MAX } else { before }
}

/// The last issue time that a mark covers, in seconds since the epoch, read from the view.
fn since_by(facts: &View<'_>, mark: &Revoked) -> Result<Option<i64>, SourceError> {
    Ok(facts.get::<Revocation>(mark)?.map(|row| row.issued_before))
}

/// Whether a mark covers a session that was issued at this second.
pub(crate) fn is_set(
    facts: &View<'_>,
    index: &Index<Revocations>,
    mark: &Revoked,
    issued_at: i64,
) -> Result<bool, SourceError> {
    let before = match index.read(facts, |revoked| revoked.since(mark)) {
        Ok(Some(before)) => before,
        Err(IndexError::Source(why)) => return Err(why),
        Ok(None) | Err(IndexError::Ahead) => since_by(facts, mark)?,
    };
    Ok(before.is_some_and(|before| issued_at <= before))
}

/// The times that limit a new session.
pub(crate) struct Issuing {
    pub(crate) horizon: Horizon,
    /// The earliest issue time of a new session: `now`, or the second after the last mark that is not timeless (`Revoked::is_timeless`), if that is
    /// later.
    pub(crate) first: i64,
    /// Like `first`, but timeless marks also count: `now`, or the second after the last mark of any kind, if that is later.
    pub(crate) later: i64,
    /// A session that expires in this second or earlier is refused, because its marks may have been purged.
    pub(crate) purged: i64,
}

/// The times that limit a session which is judged on this view. If the index is ahead of the view, the marks in the index are not used. Instead, the
/// session must be issued after the horizon of the view: no mark of the view covers a time after the horizon, except timeless marks.
pub(crate) fn issuing(
    facts: &View<'_>,
    index: &Index<Revocations>,
    now: i64,
) -> Result<Issuing, SourceError> {
    let after = |last: i64| now.max(last.saturating_add(1));
    match index.read(facts, |revoked| (revoked.horizon, revoked.last, revoked.purged)) {
        Ok((horizon, last, purged)) => {
            Ok(Issuing { horizon, first: after(last.of_time), later: after(last.of_any), purged })
        }
        Err(IndexError::Source(why)) => Err(why),
        Err(IndexError::Ahead) => {
            let horizon = Horizon::of(facts)?;
            let last = after(horizon.last_issue(now));
            Ok(Issuing { horizon, first: last, later: last, purged: purged_by(facts)? })
        }
    }
}

/// Reads the time `purged` from the view: marks of tokens that expire at this time or earlier may have been purged.
fn purged_by(facts: &View<'_>) -> Result<i64, SourceError> {
    Ok(since_by(facts, &Revoked::Passed)?.unwrap_or(i64::MIN))
}

/// The number of seconds from the session's expiry to the time `purged`. `None` if the session expires later than `purged`.
fn over(session: &Session, purged: i64) -> Option<i64> {
    let ends = session.claim.expires_at;
    (ends <= purged).then(|| purged.saturating_sub(ends))
}

/// Finds the first mark that covers the time at which the session was issued. If there are too many marks for the index, or the index is ahead of the
/// view, the marks are read from the view, which is slower. `judged` is a revision at which no mark covered the session; `None` if no such revision
/// is known.
pub(crate) fn look(
    facts: &View<'_>,
    index: &Index<Revocations>,
    session: &Session,
    judged: Option<Revision>,
) -> Result<Look, SourceError> {
    let issued_at = session.claim.issued_at;
    let is_set = |mark: &Revoked, before: Option<i64>| {
        before.is_some_and(|before| issued_at <= covers(session, mark, before))
    };
    let found = index.read(facts, |revoked| {
        let later = judged.and_then(|judged| revoked.after(judged));
        let may_be = |mark: &Revoked| later.is_none_or(|later| later.iter().any(|(_, new)| new == mark));
        let mut by = None;
        let mut is_known = true;
        for mark in marks(session).filter(may_be) {
            match revoked.since(&mark) {
                Some(before) if is_set(&mark, before) => by = Some(mark),
                Some(_) => continue,
                None => is_known = false,
            }
            break;
        }
        (is_known, Look { by, over: over(session, revoked.purged), others: Some(revoked.others) })
    });
    let others = match found {
        Ok((true, found)) => return Ok(found),
        Ok((false, found)) => found.others,
        Err(IndexError::Source(why)) => return Err(why),
        Err(IndexError::Ahead) => None,
    };
    let (mut by, over) = (None, over(session, purged_by(facts)?));
    for mark in marks(session) {
        if is_set(&mark, since_by(facts, &mark)?) {
            by = Some(mark);
            break;
        }
    }
    Ok(Look { by, over, others })
}

impl Revocations {
    /// The last second of issue that a mark covers; `Some(None)` if the mark is not set. `None` means that the mark must be read from the view.
    fn since(&self, mark: &Revoked) -> Option<Option<i64>> {
        let mark = mark.short();
        let place = Place::of(&mark);
        self.top.as_ref().map(|top| top.get(place.top)?.get(&mark, &place))
    }

    /// The marks that were set after a revision; `None` if not all of them are in `newest` any more.
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

    /// How many marks are set.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The index of a view, with at most `most` marks.
    fn within(view: &View<'_>, most: u64) -> Result<Self, SourceError> {
        let revision = view.at().revision;
        let count = count(view)?;
        let known = LastMarks::of(view)?.filter(|last| last.is_complete);
        let mut built = Revocations {
            top: None,
            most,
            count,
            last: known.unwrap_or(LastMarks::NONE),
            horizon: Horizon::of(view)?,
            purged: since_by(view, &Revoked::Passed)?.unwrap_or(i64::MIN),
            newest: Vec::new(),
            forgotten: revision,
            others: revision,
        };
        if count > most && known.is_some() {
            return Ok(built);
        }
        let mut shelves = Shelves::new();
        view.scan::<Revocation>(&[], |mark, row| {
            if mark.is_mark() {
                built.last.take_in(&mark, row.issued_before);
                if count <= most {
                    shelves.add(Entry::new(mark.short(), row.issued_before));
                }
            }
            ControlFlow::Continue(())
        })?;
        built.top = (count <= most).then(|| shelves.finish());
        Ok(built)
    }

    fn set(&mut self, view: &View<'_>, mark: Revoked, before: Option<i64>) -> Result<(), SourceError> {
        match mark {
            Revoked::Horizon => self.horizon = Horizon::from_second(before),
            Revoked::Passed => self.purged = before.unwrap_or(i64::MIN),
            Revoked::Last => {}
            mark => {
                if let Some(before) = before {
                    self.last.take_in(&mark, before);
                }
                if let Some(top) = &mut self.top {
                    let mark = mark.short();
                    let place = Place::of(&mark);
                    let was = top
                        .get_mut(place.top)
                        .and_then(|shelf| Arc::make_mut(shelf).set(mark, before, &place));
                    self.count = self.count + u64::from(before.is_some()) - u64::from(was == Some(true));
                    if self.most < self.count {
                        self.top = None;
                    }
                } else {
                    self.count = count(view)?;
                    if self.count <= self.most / 2 {
                        *self = Self::within(view, self.most)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// How many marks the view has.
fn count(view: &View<'_>) -> Result<u64, SourceError> {
    let mut count = view.tally(Table::Revocations, &[])?.count;
    for none in [Revoked::Horizon, Revoked::Passed, Revoked::Last] {
        count = count.saturating_sub(view.get::<Revocation>(&none)?.is_some().into());
    }
    Ok(count)
}

/// A tree under construction. Marks are added in the order of their keys, so most marks of the same part follow each other. Each such run of marks is
/// added to the part at once.
struct Shelves {
    top: Vec<Shelf>,
    run: Vec<Entry>,
}

impl Shelves {
    fn new() -> Self {
        let empty = || Shelf { filters: [0; FAN], parts: [const { None }; FAN] };
        Shelves { top: std::iter::repeat_with(empty).take(FAN).collect(), run: Vec::new() }
    }

    fn add(&mut self, entry: Entry) {
        let place = |entry: &Entry| (Place::of(&entry.mark).top, Place::of(&entry.mark).part);
        if self.run.last().is_some_and(|last| place(last) != place(&entry)) {
            self.put_run();
        }
        self.run.push(entry);
    }

    fn put_run(&mut self) {
        if let Some(Place { top, part, .. }) = self.run.first().map(|entry| Place::of(&entry.mark)) {
            self.top.get_mut(top).and_then(|shelf| shelf.add(part, &self.run));
            self.run.clear();
        }
    }

    fn finish(mut self) -> Vec<Arc<Shelf>> {
        self.put_run();
        self.top.into_iter().map(Arc::new).collect()
    }
}

impl Indexed for Revocations {
    const TABLES: &'static [Table] = &Table::ALL;

    fn build(view: &View<'_>) -> Result<Self, SourceError> {
        Self::within(view, REVOCATIONS_INDEXED_MAX)
    }

    fn update(&mut self, view: &View<'_>, table: Table, key: &[u8]) -> Result<(), SourceError> {
        if table != Table::Revocations {
            let is_beside = table == Table::Reverse && ReverseKey::is_beside_a_mark(key);
            self.others = if is_beside { self.others } else { view.at().revision };
            return Ok(());
        }
        // A key that cannot be parsed is not a mark, so it is skipped. A scan of the table returns an error for such a key.
        let Some(mark) = Revoked::from_bytes(key) else { return Ok(()) };
        self.set(view, mark, since_by(view, &mark)?)?;
        if mark.is_mark() {
            self.remember(view.at().revision, mark);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
