//! PROPFIND. The response is streamed, so the memory does not grow with the size of a directory. For a listing of a whole tree, the server keeps only
//! the paths of the remaining directories.

use super::access_control::Control;
use super::content_type::{self, InTurn};
use super::multistatus::{self, Form, Live, More, Resource, multi_status, push_response, push_truncated};
use super::propfind_request::{self, Asked};
use super::{Call, ResourcePath, end, href};
use bytes::Bytes;
use enfilade_faces::{
    Aim, Answer, Body, Cut, Failure, RequestError, Trace, UNCOUNTED_BYTES, collect_xml, counted, percent,
};
use enfilade_faces::{blocking, blocking_failure};
use enfilade_facts::Clocks;
use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::{AccessMask, DatastoreName, OperationKind, Sid, StorePath};
use enfilade_passage::{
    Blocking, COLLECTION, Cached, CachedOnly, Entry, Found, Listing, NodeKind, Patience, Refusal, Stay, Turn,
    Visit,
};
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Version};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The maximum number of entries of a directory that the server lists at once, on the thread that received the request.
const CACHED_ENTRIES_MAX: usize = 16;
/// The maximum number of entries that door 4 checks in one call.
const BATCH_ENTRIES: usize = 1024;
/// After this many batches, the server checks whether the client has disconnected.
const BATCHES_MAX: usize = 16;
/// A piece of the response is sent when it has at least this size, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// The output limit in bytes. If the output has reached this size, the rest of the batch is written only after the channel has a free slot for the
/// next piece. This limit is necessary, because some entries are a hundred times as large as most other entries.
const PIECE_BYTES: usize = 2 * CHUNK_BYTES;

/// The maximum memory of a listing, in bytes. At the same time, one piece is being sent, one piece is in the queue, and one piece is being written.
/// The entries of a batch are also in memory.
const HELD_BYTES: u32 = 4 * PIECE_BYTES as u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    Zero,
    One,
    Infinity,
}

pub(crate) async fn propfind(call: Call) -> Answer {
    let Call { visit, place, request, mut trace, .. } = call;
    let (head, body) = request.into_parts();
    let outcome = async {
        let (depth, limits) = (depth(&head.headers)?, visit.limits());
        let asked = propfind_request::read(&collect_xml(body, &limits).await?, &limits)?;
        let form = Arc::new(Form::of(asked));
        // If the listing needs no disk, this thread serves it at once, because this is faster than waking another thread.
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
            // A request that waits here holds no memory, and does not count as an active operation on the datastore.
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
        // A request without the header has the depth infinity (RFC 4918 §9.1).
        None => Ok(Depth::Infinity),
        Some(value) if value.eq_ignore_ascii_case(b"infinity") => Ok(Depth::Infinity),
        Some(_) => Err(RequestError::Header("Depth")),
    }
}

enum Looked {
    /// The whole response, and its revision.
    Whole(String, u64),
    /// The beginning of the response. Further members follow.
    Begun(Box<RunningListing>),
}

impl Looked {
    /// Renders the next entries, if the response is not complete.
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

/// The listing of a whole tree, one directory at a time.
struct Deep {
    datastore: DatastoreName,
    /// The URL of the requested resource.
    top: String,
    /// The directories that are not listed yet.
    remaining: Vec<StorePath>,
    /// The remaining time, in milliseconds. Waiting for the client does not count.
    millis_left: u64,
}

/// A listing in progress: the directory, and the response until now.
struct RunningListing {
    listing: Listing,
    /// The prefix of the URLs of the directory's entries.
    base: String,
    /// The SID of the user.
    own: Sid,
    form: Arc<Form>,
    wants: Wants,
    /// The state of a listing of a whole tree, with `Depth: infinity`.
    deep: Option<Deep>,
    /// Whether entries can have locks.
    has_locks: bool,
    /// The properties that all entries share. While an entry is rendered, this value also contains the properties of the entry.
    more: More,
    types: InTurn,
    xml: String,
    /// The entries that the user may see and that are not written yet. `are_bare` says for each entry whether it certainly has no dead properties.
    entries: std::vec::IntoIter<Entry>,
    are_bare: std::vec::IntoIter<bool>,
    /// Whether the directory has more entries than a listing shows.
    is_cut: bool,
    /// An estimate of the size of an entry in the output, in bytes: a little more than the average size of the entries that were rendered last.
    entry_bytes: usize,
    entries_left: u64,
}

/// Renders the part of the response that needs no waiting. `None` if even the requested resource cannot be described without waiting, or if the
/// request can take long.
fn at_once(
    visit: &Visit,
    place: &ResourcePath,
    form: &Arc<Form>,
    depth: Depth,
    limits: &Limits,
) -> Result<Option<Looked>, Failure> {
    let wants = Wants::of(form.asked());
    // Requests for a quota, for ACLs or for a whole tree can take long. For a quota, the server may have to count the bytes of all files in the
    // datastore. For ACLs, the server must open every file of the directory. A tree has many directories.
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

/// Writes the description of the requested resource, and begins to list its members.
fn begin<P: Patience>(
    visit: Visit,
    place: &ResourcePath,
    form: &Arc<Form>,
    depth: Depth,
    limits: &Limits,
    patience: P,
) -> Result<P::Of<Looked>, Failure> {
    P::and_then(visit.enter(&place.datastore, OperationKind::Read, patience)?, |mut stay| {
        let begun = |stay: Stay, found: Option<Found>| {
            begin_with(stay, found, place.clone(), Arc::clone(form), depth, limits).map(P::ready)
        };
        match stay.find(&place.path, AccessMask::NONE, patience) {
            Ok(found) => P::and_then(found, |found| begun(stay, Some(found))),
            Err(why) if depth == Depth::Infinity => Err(why.into()),
            Err(why) => P::and_then(stay.leads_on(&place.path, why, patience)?, |()| begun(stay, None)),
        }
    })
}

/// The name of a resource. The root of a datastore has the name of the datastore.
fn name_of(place: &ResourcePath) -> &str {
    if place.path.is_root() { place.datastore.as_str() } else { place.path.name() }
}

/// Does the same as [`begin`], for a resource that was already found. If `found` is `None`, the user may not see the resource itself. It is shown as
/// a directory, only because it is on the way to an object that the user may see.
fn begin_with(
    mut stay: Stay,
    found: Option<Found>,
    place: ResourcePath,
    form: Arc<Form>,
    depth: Depth,
    limits: &Limits,
) -> Result<Looked, Failure> {
    // The limit `deep_listing_entries` applies only to collections (RFC 4918 §9.1), so a request for a file is always answered.
    let kind = found.as_ref().map_or(NodeKind::Directory, Found::kind);
    if depth == Depth::Infinity && limits.deep_listing_entries == 0 && kind == NodeKind::Directory {
        return Err(RequestError::Depth.into());
    }
    let mut xml = form.begin();
    push_itself(&mut xml, &place, found.as_ref(), &mut stay, &form)?;
    if depth == Depth::Zero || kind == NodeKind::File {
        xml.push_str(multistatus::END);
        return Ok(Looked::Whole(xml, stay.revision().0));
    }
    let base = href::of(&place, true);
    let now = stay.now().unix_seconds;
    let (principal, own) = (principal(&stay), stay.principal().sid);
    let listing = match found {
        Some(found) => stay.list_found(place.path, found)?,
        None => stay.list_ways(place.path),
    };
    let wants = Wants::of(form.asked());
    let has_locks = wants.locks && listing.is_locked_anywhere()?;
    let more = More { now, principal: Some(principal), ..More::default() };
    let deep = (depth == Depth::Infinity).then(|| Deep {
        datastore: place.datastore,
        top: base.clone(),
        remaining: Vec::new(),
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

    /// For each entry, whether the server knows that the entry has no dead properties. The list is empty if the request asks for no dead properties.
    fn are_bare(&self, entries: &[Entry]) -> Vec<bool> {
        if self.wants.properties { self.listing.are_bare(entries) } else { Vec::new() }
    }

    /// Takes the next batch of entries. The user may see all of these entries.
    fn take_up(&mut self, mut entries: Vec<Entry>) {
        self.is_cut = entries.len() as u64 > self.entries_left;
        entries.truncate(usize::try_from(self.entries_left).unwrap_or(usize::MAX));
        self.entries_left -= entries.len() as u64;
        self.are_bare = self.are_bare(&entries).into_iter();
        self.entries = entries.into_iter();
    }

    /// Renders the entries of the current batch until a piece of the response is full.
    fn render(&mut self) -> Result<(), Refusal> {
        // Reserves space for the entries, based on the average size of the previous entries. Otherwise the output would grow later, and all of its
        // bytes would be copied.
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
                    deep.remaining.extend(self.listing.path_of(&entry));
                }
            }
            if self.are_bare.next() == Some(false) {
                self.more.properties = self.listing.properties(&entry)?;
            }
            if self.wants.control {
                let found = self.listing.find(&entry, AccessMask::NONE)?;
                let own = (self.own, self.more.principal.clone().unwrap_or_default());
                self.more.control =
                    found.as_ref().and_then(|found| Control::of(found, own, self.base.clone()));
                self.more.granted = Some(found.as_ref().map_or(AccessMask::NONE, Found::granted));
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

    /// Renders all entries if three conditions are true: there are only a few entries, no entry can have a requested dead property, and no call has
    /// to wait. Returns whether all entries were rendered.
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

    /// Renders the next entries. Returns whether these were the last entries.
    fn go_on(&mut self) -> Result<bool, Refusal> {
        let began = self.listing.now();
        if self.entries.len() > 0 {
            // The rights to these entries were checked before the client read the previous piece. If the stored facts have changed since then, the
            // rights are checked again.
            if !self.listing.is_unchanged() {
                let entries = std::mem::take(&mut self.entries).collect();
                let entries = self.listing.still_seen(entries)?;
                self.are_bare = self.are_bare(&entries).into_iter();
                self.entries = entries.into_iter();
            }
        } else {
            // Takes only as many entries as fit into a few pieces, because entries that are not written yet stay in memory until the client reads.
            let at_most = (4 * PIECE_BYTES / self.entry_bytes).clamp(BATCH_ENTRIES / 16, BATCH_ENTRIES);
            self.listing.next_batch(at_most)?.into_iter().for_each(|entries| self.take_up(entries));
        }
        self.render()?;
        if self.entries.len() > 0 {
            return Ok(false);
        }
        let is_over = self.is_cut || (self.listing.is_over()? && !self.descend()?);
        let is_late = !is_over && self.is_late(began);
        if self.is_cut || is_late || (is_over && self.listing.is_cut()) {
            push_truncated(&mut self.xml, self.deep.as_ref().map_or(&self.base, |deep| &deep.top));
        }
        if is_over || is_late {
            self.xml.push_str(multistatus::END);
        }
        Ok(is_over || is_late)
    }

    /// Continues with the next directory of the tree. Returns `false` if no directory is left, or if the request is not for a whole tree.
    fn descend(&mut self) -> Result<bool, Refusal> {
        let Some(deep) = &mut self.deep else { return Ok(false) };
        while let Some(path) = deep.remaining.pop() {
            let place = ResourcePath { datastore: deep.datastore.clone(), path: path.clone() };
            if self.listing.go_on_in(path)? {
                self.base = href::of(&place, true);
                self.has_locks = self.wants.locks && self.listing.is_locked_anywhere()?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Subtracts the time since `began` from the remaining time of a listing of a whole tree. Returns whether no time remains.
    fn is_late(&mut self, began: Clocks) -> bool {
        let Some(deep) = &mut self.deep else { return false };
        let took = self.listing.now().tick_millis.saturating_sub(began.tick_millis);
        deep.millis_left = deep.millis_left.saturating_sub(took);
        deep.millis_left == 0
    }
}

/// The kinds of requested properties that need more than the metadata of a file.
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

/// The URL of the user.
fn principal(stay: &Stay) -> String {
    let mut url = String::from("/principals/");
    percent::push_name(&mut url, &stay.principal().authid.user.to_string());
    url
}

fn push_itself(
    xml: &mut String,
    place: &ResourcePath,
    found: Option<&Found>,
    stay: &mut Stay,
    form: &Form,
) -> Result<(), Refusal> {
    let meta = found.map_or(&COLLECTION, |found| found.node.meta());
    let mut more = match found {
        Some(found) => more_of(found, place, stay, Wants::of(form.asked()))?,
        // The directory is shown only because it is on the way to an object that the user may see. So nothing is known about the directory, not
        // even whether it exists.
        None => More { granted: Some(AccessMask::NONE), ..More::default() },
    };
    (more.now, more.principal) = (stay.now().unix_seconds, Some(principal(stay)));
    let (name, kind) = (name_of(place), meta.kind);
    let href = href::of(place, kind == NodeKind::Directory);
    let content_type = content_type::of(name);
    push_response(xml, &Resource { href: &href, name, kind, content_type, meta, more: &more }, form);
    Ok(())
}

fn more_of(found: &Found, place: &ResourcePath, stay: &mut Stay, wants: Wants) -> Result<More, Refusal> {
    let mut more = More { granted: Some(found.granted()), ..More::default() };
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
    if wants.quota && found.kind() == NodeKind::Directory {
        more.quota = stay.quota().ok();
    }
    Ok(more)
}

/// Renders the response piece by piece. Each piece is rendered only when the channel has a slot. The status was sent already, so after an error the
/// server can only cut the response short.
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
                // Reads batches until a piece of the response is full, because most entries of a directory can be hidden.
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
