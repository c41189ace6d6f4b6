//! PROPFIND, streamed: memory does not grow with the directory; of a whole tree the paths that are still to come are kept.

use super::access_control::Control;
use super::content_type::{self, InTurn};
use super::multistatus::{self, Form, Live, More, Resource, multi_status, push_response, push_truncated};
use super::propfind_request::{self, Asked};
use super::{Call, ResourcePath, blocking, blocking_failure, end, href};
use bytes::Bytes;
use enfilade_faces::{
    Aim, Answer, Body, Cut, Failure, Incoming, RequestError, Trace, UNCOUNTED_BYTES, collect_xml, counted,
    percent,
};
use enfilade_facts::Clocks;
use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::{AccessMask, DatastoreName, OperationKind, Sid, StorePath};
use enfilade_passage::{
    Blocking, Cached, CachedOnly, Entry, Found, Listing, NodeKind, Patience, Refusal, Stay, Turn, Visit,
};
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Version};
use std::sync::Arc;
use tokio::sync::mpsc;

/// What more entries than these take, another thread is worth.
const CACHED_ENTRIES_MAX: usize = 16;
/// How many entries are looked at before door 4 is asked about all of them.
const BATCH_ENTRIES: usize = 1024;
/// So many of them, and then it is looked whether anybody still waits.
const BATCHES_MAX: usize = 16;
/// How much is written before it is sent, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// At so many bytes the rest of a batch waits until they are taken: a response may be a hundred times as large as most are.
const PIECE_BYTES: usize = 2 * CHUNK_BYTES;

/// What is held of a listing at once, in bytes: a piece that is sent, one that waits, one that is written, and the entries for it.
const HELD_BYTES: u32 = 4 * PIECE_BYTES as u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    Zero,
    One,
    Infinity,
}

pub(crate) async fn propfind<B: Incoming>(call: Call<B>) -> Answer {
    let Call { visit, place, request, mut trace, .. } = call;
    let (head, body) = request.into_parts();
    let outcome = async {
        let (depth, limits) = (depth(&head.headers)?, visit.limits());
        let asked = propfind_request::read(&collect_xml(body, &limits).await?, &limits)?;
        let form = Arc::new(Form::of(asked));
        // What is in memory is there sooner than another thread would be woken.
        let begun = match at_once(&visit, &place, &form, depth, &limits)? {
            Some(Looked::Whole(xml, revision))
                if head.version != Version::HTTP_2 || xml.len() <= UNCOUNTED_BYTES =>
            {
                return Ok((Looked::Whole(xml, revision), None));
            }
            begun => begun,
        };
        let (begun, held) = match visit.share().answer_now(HELD_BYTES) {
            Ok(held) => (begun, held),
            // Nothing is held while it waits, also not the datastore.
            Err(share) => {
                drop(begun);
                (None, share.answer(HELD_BYTES).await)
            }
        };
        let looked = blocking_failure(visit.share(), move || {
            let begun = match begun {
                Some(begun) => begun,
                None => begin(visit, &place, &form, depth, &limits, Blocking)?,
            };
            Ok(begun.go_on()?)
        });
        Ok((looked.await?, Some(Arc::new(held))))
    };
    match outcome.await {
        Err(failure) => end(trace, Err(failure), Aim::Target),
        Ok((Looked::Whole(xml, revision), held)) => {
            trace.event.revision = revision;
            let xml = match held.filter(|_| xml.len() > UNCOUNTED_BYTES) {
                Some(held) => counted(xml, held),
                None => xml.into(),
            };
            end(trace, Ok(multi_status(Body::from(xml))), Aim::Target)
        }
        Ok((Looked::Begun(running), held)) => {
            trace.event.revision = running.listing.revision();
            let (sender, chunks) = mpsc::channel(1);
            let answer = multi_status(Body::stream(chunks));
            trace.answered(&answer);
            tokio::spawn(stream(running, sender, trace, held));
            answer
        }
    }
}

pub(super) fn depth(headers: &HeaderMap) -> Result<Depth, RequestError> {
    match headers.get("depth").map(HeaderValue::as_bytes) {
        Some(b"0") => Ok(Depth::Zero),
        Some(b"1") => Ok(Depth::One),
        // No header means infinity (RFC 4918 §9.1).
        None => Ok(Depth::Infinity),
        Some(value) if value.eq_ignore_ascii_case(b"infinity") => Ok(Depth::Infinity),
        Some(_) => Err(RequestError::Header("Depth")),
    }
}

enum Looked {
    /// All of the answer, and the revision it was given at.
    Whole(String, u64),
    /// What was asked for, and what is in it is still to come, or most of it.
    Begun(Box<RunningListing>),
}

impl Looked {
    /// With the next entries.
    fn go_on(self) -> Result<Self, Refusal> {
        match self {
            Looked::Begun(mut running) => {
                let is_over = running.go_on()?;
                Ok(running.looked(is_over))
            }
            whole => Ok(whole),
        }
    }
}

/// A whole tree, one directory after the other.
struct Deep {
    datastore: DatastoreName,
    /// What the request is about.
    top: String,
    /// The directories still to come.
    left: Vec<StorePath>,
    /// How long may still be worked on it, in milliseconds. Waiting for the client does not count.
    millis_left: u64,
}

/// A directory, and the answer so far.
struct RunningListing {
    listing: Listing,
    /// What the hrefs of its entries begin with.
    base: String,
    /// The visitor.
    own: Sid,
    form: Arc<Form>,
    wants: Wants,
    /// With `Depth: infinity`.
    deep: Option<Deep>,
    /// Some entry may be locked.
    has_locks: bool,
    /// What is the same of each entry, to begin with.
    more: More,
    types: InTurn,
    xml: String,
    /// Those that were looked at and are not written yet, and of which it is known that they have no properties.
    entries: std::vec::IntoIter<Entry>,
    are_bare: std::vec::IntoIter<bool>,
    /// There is more than a listing shows.
    is_cut: bool,
    /// What an entry takes of it, about.
    entry_bytes: usize,
    entries_left: u64,
}

/// As much of an answer as there is without waiting for anything; nothing where even what is asked for would have to be waited for.
fn at_once(
    visit: &Visit,
    place: &ResourcePath,
    form: &Arc<Form>,
    depth: Depth,
    limits: &Limits,
) -> Result<Option<Looked>, Failure> {
    let wants = Wants::of(form.asked());
    // For these everything in a store may have to be counted, or everything in a directory opened.
    if wants.quota || wants.control || depth == Depth::Infinity {
        return Ok(None);
    }
    Ok(match begin(visit.clone(), place, form, depth, limits, CachedOnly)? {
        Cached::WouldWait => None,
        Cached::Ready(Looked::Begun(mut running)) => {
            let is_over = running.end_cached()?;
            Some(running.looked(is_over))
        }
        Cached::Ready(whole) => Some(whole),
    })
}

/// Says what was asked for, and begins to list what is in it.
fn begin<P: Patience>(
    visit: Visit,
    place: &ResourcePath,
    form: &Arc<Form>,
    depth: Depth,
    limits: &Limits,
    patience: P,
) -> Result<P::Of<Looked>, Failure> {
    P::and_then(visit.enter(&place.datastore, OperationKind::Read, patience)?, |mut stay| {
        P::and_then(stay.find(&place.path, AccessMask::NONE, patience)?, |found| {
            begin_with(stay, found, place.clone(), Arc::clone(form), depth, limits).map(P::ready)
        })
    })
}

/// The same of what was found.
fn begin_with(
    mut stay: Stay,
    found: Found,
    place: ResourcePath,
    form: Arc<Form>,
    depth: Depth,
    limits: &Limits,
) -> Result<Looked, Failure> {
    // Only a collection can be too deep (RFC 4918 §9.1): of a file it is said what it is.
    if depth == Depth::Infinity && limits.deep_listing_entries == 0 && found.kind() == NodeKind::Directory {
        return Err(RequestError::Depth.into());
    }
    let mut xml = form.begin();
    push_itself(&mut xml, &place, &found, &mut stay, &form)?;
    if depth == Depth::Zero || found.kind() == NodeKind::File {
        xml.push_str(multistatus::END);
        return Ok(Looked::Whole(xml, stay.revision().0));
    }
    let base = href::of(&place, true);
    let now = stay.now().unix_seconds;
    let (principal, own) = (principal(&stay), stay.principal().sid);
    let listing = stay.list_found(place.path, found)?;
    let wants = Wants::of(form.asked());
    let has_locks = wants.locks && listing.is_locked_anywhere()?;
    let more = More { now, principal: Some(principal), ..More::default() };
    let deep = (depth == Depth::Infinity).then(|| Deep {
        datastore: place.datastore,
        top: base.clone(),
        left: Vec::new(),
        millis_left: limits.deep_listing_seconds * 1000,
    });
    let most = if deep.is_some() { limits.deep_listing_entries } else { limits.listing_entries };
    Ok(Looked::Begun(Box::new(RunningListing {
        listing,
        base,
        own,
        form,
        wants,
        deep,
        has_locks,
        more,
        types: InTurn::default(),
        xml,
        entries: Vec::new().into_iter(),
        are_bare: Vec::new().into_iter(),
        is_cut: false,
        entry_bytes: 512,
        entries_left: most,
    })))
}

impl RunningListing {
    fn looked(self: Box<Self>, is_over: bool) -> Looked {
        match is_over {
            true => Looked::Whole(self.xml, self.listing.revision()),
            false => Looked::Begun(self),
        }
    }

    /// Of which entries it is known that there are no properties to be read, where these are asked for.
    fn are_bare(&self, entries: &[Entry]) -> Vec<bool> {
        if self.wants.properties { self.listing.are_bare(entries) } else { Vec::new() }
    }

    /// Takes up entries that were looked at.
    fn take_up(&mut self, mut entries: Vec<Entry>) {
        self.is_cut = entries.len() as u64 > self.entries_left;
        entries.truncate(usize::try_from(self.entries_left).unwrap_or(usize::MAX));
        self.entries_left -= entries.len() as u64;
        self.are_bare = self.are_bare(&entries).into_iter();
        self.entries = entries.into_iter();
    }

    /// Renders what was taken up, until a piece of the answer is full.
    fn render(&mut self) -> Result<(), Refusal> {
        // As much as the last ones took, and room to spare: growing in the middle would copy all of it.
        self.xml.reserve((self.entries.len() * self.entry_bytes).min(PIECE_BYTES));
        let (before, waited) = (self.xml.len(), self.entries.len());
        let mut path = String::new();
        while self.xml.len() < PIECE_BYTES
            && let Some(entry) = self.entries.next()
        {
            path.clear();
            path.push_str(&self.base);
            percent::push_name(&mut path, &entry.name);
            if entry.meta.kind == NodeKind::Directory {
                path.push('/');
                if let Some(deep) = &mut self.deep {
                    deep.left.extend(self.listing.path_of(&entry));
                }
            }
            if self.are_bare.next() == Some(false) {
                self.more.properties = self.listing.properties(&entry)?;
            }
            if self.wants.control
                && let Some(found) = self.listing.find(&entry, AccessMask::NONE)?
            {
                let own = (self.own, self.more.principal.clone().unwrap_or_default());
                let control = Control::of(&found, own, self.base.clone());
                (self.more.granted, self.more.control) = (Some(found.granted()), control);
            }
            if self.has_locks {
                self.more.locks = self.listing.shown_locks(&entry)?;
            }
            let Entry { name, meta, .. } = &entry;
            let resource = Resource {
                href: &path,
                name,
                kind: meta.kind,
                content_type: self.types.of(name),
                meta,
                more: &self.more,
            };
            push_response(&mut self.xml, &resource, &self.form);
            self.more.properties.clear();
            (self.more.granted, self.more.control) = (None, None);
        }
        let written = (waited - self.entries.len()).max(1);
        self.entry_bytes = (self.xml.len() - before) / written * 17 / 16 + 64;
        Ok(())
    }

    /// Renders all entries, where they are few and nothing has to be waited for; whether they are.
    fn end_cached(&mut self) -> Result<bool, Refusal> {
        let Cached::Ready(entries) = self.listing.all_cached(CACHED_ENTRIES_MAX)? else { return Ok(false) };
        if entries.len() as u64 > self.entries_left || self.are_bare(&entries).contains(&false) {
            return Ok(false);
        }
        self.take_up(entries);
        self.render()?;
        if self.entries.len() > 0 {
            return Ok(false);
        }
        self.xml.push_str(multistatus::END);
        Ok(true)
    }

    /// Renders the next entries; whether that was all.
    fn go_on(&mut self) -> Result<bool, Refusal> {
        let began = self.listing.now();
        if self.entries.len() > 0 {
            // They were judged before the client took what came before them.
            if !self.listing.is_unchanged() {
                let entries = std::mem::take(&mut self.entries).collect();
                let entries = self.listing.still_seen(entries)?;
                self.are_bare = self.are_bare(&entries).into_iter();
                self.entries = entries.into_iter();
            }
        } else {
            // No more than a few pieces take: what is not written yet waits for the client.
            let at_most = (4 * PIECE_BYTES / self.entry_bytes).clamp(BATCH_ENTRIES / 16, BATCH_ENTRIES);
            self.listing.next_batch(at_most)?.into_iter().for_each(|entries| self.take_up(entries));
        }
        self.render()?;
        if self.entries.len() > 0 {
            return Ok(false);
        }
        let is_over = self.is_cut || (self.listing.is_over()? && !self.descend()?);
        let is_late = !is_over && self.is_late(began);
        if self.is_cut || is_late {
            push_truncated(&mut self.xml, self.deep.as_ref().map_or(&self.base, |deep| &deep.top));
        }
        if is_over || is_late {
            self.xml.push_str(multistatus::END);
        }
        Ok(is_over || is_late)
    }

    /// Goes on with the next directory that is below; whether there is one.
    fn descend(&mut self) -> Result<bool, Refusal> {
        let Some(deep) = &mut self.deep else { return Ok(false) };
        while let Some(path) = deep.left.pop() {
            let place = ResourcePath { datastore: deep.datastore.clone(), path: path.clone() };
            if self.listing.go_on_in(path)? {
                self.base = href::of(&place, true);
                self.has_locks = self.wants.locks && self.listing.is_locked_anywhere()?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a whole tree took longer than it may.
    fn is_late(&mut self, began: Clocks) -> bool {
        let Some(deep) = &mut self.deep else { return false };
        let took = self.listing.now().tick_millis.saturating_sub(began.tick_millis);
        deep.millis_left = deep.millis_left.saturating_sub(took);
        deep.millis_left == 0
    }
}

/// What has to be looked up for what is asked, beyond the state of a file.
#[derive(Clone, Copy)]
struct Wants {
    properties: bool,
    locks: bool,
    quota: bool,
    /// Owner, ACL and privileges.
    control: bool,
}

impl Wants {
    fn of(asked: &Asked) -> Self {
        match asked {
            Asked::All => Wants { properties: true, locks: true, quota: false, control: false },
            Asked::Names => Wants { properties: true, locks: false, quota: false, control: false },
            Asked::Some(names) => {
                let lives: Vec<Option<Live>> = names.iter().map(Live::of).collect();
                let quota = [Some(Live::QuotaAvailable), Some(Live::QuotaUsed)];
                let control = [Some(Live::Owner), Some(Live::Acl), Some(Live::Privileges)];
                Wants {
                    properties: lives.contains(&None),
                    locks: lives.contains(&Some(Live::LockDiscovery)),
                    quota: lives.iter().any(|live| quota.contains(live)),
                    control: lives.iter().any(|live| control.contains(live)),
                }
            }
        }
    }
}

/// A URL that stands for the visitor.
fn principal(stay: &Stay) -> String {
    let mut url = String::from("/principals/");
    percent::push_name(&mut url, &stay.principal().authid.user.to_string());
    url
}

fn push_itself(
    xml: &mut String,
    place: &ResourcePath,
    found: &Found,
    stay: &mut Stay,
    form: &Form,
) -> Result<(), Refusal> {
    let (kind, meta, wants) = (found.kind(), found.node.meta(), Wants::of(form.asked()));
    let mut more = More {
        now: stay.now().unix_seconds,
        granted: Some(found.granted()),
        principal: Some(principal(stay)),
        ..More::default()
    };
    if wants.properties {
        more.properties = stay.properties(found)?;
    }
    if wants.locks {
        more.locks = stay.shown_locks(&place.path)?;
    }
    if wants.control {
        let parent = place.path.split().map_or_else(StorePath::root, |(parent, _)| parent);
        let parent = href::of(&ResourcePath { datastore: place.datastore.clone(), path: parent }, true);
        more.control = Control::of(found, (stay.principal().sid, principal(stay)), parent);
    }
    if wants.quota && kind == NodeKind::Directory {
        more.quota = stay.quota().ok();
    }
    let name = place.path.split().map_or_else(|| place.datastore.to_string(), |(_, name)| name.to_owned());
    let href = href::of(place, kind == NodeKind::Directory);
    let content_type = content_type::of(&name);
    push_response(xml, &Resource { href: &href, name: &name, kind, content_type, meta, more: &more }, form);
    Ok(())
}

/// Renders piece after piece, each when there is a place for it. The status went out with the first byte; whatever goes wrong now can only cut
/// the answer.
async fn stream(
    mut running: Box<RunningListing>,
    sender: mpsc::Sender<Result<Bytes, Cut>>,
    mut trace: Trace,
    held: Option<Arc<Turn>>,
) {
    let mut is_over = false;
    while !is_over {
        let Ok(place) = sender.reserve().await else { return };
        while !is_over && running.xml.len() < CHUNK_BYTES {
            if sender.is_closed() {
                return;
            }
            let batch = blocking(running.listing.share(), move || {
                // As many batches as a piece of the answer takes: most of a directory may be hidden.
                for _ in 0..BATCHES_MAX {
                    if is_over || running.xml.len() >= CHUNK_BYTES {
                        break;
                    }
                    is_over = running.go_on()?;
                }
                Ok((running, is_over))
            });
            match batch.await {
                Ok(further) => (running, is_over) = further,
                Err(failure) => {
                    trace.failed(&failure);
                    return place.send(Err(Cut));
                }
            }
        }
        let chunk = std::mem::take(&mut running.xml);
        trace.event.bytes += chunk.len() as u64;
        place.send(Ok(counted(chunk, held.clone())));
    }
}
