//! PROPFIND, Depth 0 and 1, streamed: memory does not grow with the directory.

use super::multistatus::{self, Resource, push_response, push_truncated};
use super::propfind_request::{self, Asked};
use super::{Call, Place, blocking, end, href};
use crate::body::{Body, Cut, collect};
use crate::respond::{Aim, Answer, Wire};
use crate::serve::Incoming;
use crate::trace::Trace;
use bytes::Bytes;
use enfilade_facts::limits::LISTING_ENTRIES_MAX;
use enfilade_facts::vocabulary::{AccessMask, OperationKind};
use enfilade_passage::{Listing, Stay};
use enfilade_passage::{Meta, NodeKind};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};
use tokio::sync::mpsc;

/// How many entries are looked at before door 4 is asked about all of them.
const BATCH_ENTRIES: usize = 1024;
/// How much is written before it is sent, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Zero,
    One,
}

pub(crate) async fn propfind<B: Incoming>(call: Call<B>) -> Answer {
    let Call { visit, place, request, mut trace, .. } = call;
    let (head, body) = request.into_parts();
    let outcome = async {
        let depth = depth(&head.headers)?;
        let asked = propfind_request::read(&collect(body).await?)?;
        let place_there = place.clone();
        let found = blocking(move || {
            let stay = visit.enter(&place_there.datastore, OperationKind::Read)?;
            look(stay, &place_there, depth)
        });
        Ok((found.await?, asked))
    };
    match outcome.await {
        Err(failure) => end(trace, Err(failure), Aim::Target),
        Ok((Looked::One(kind, meta, revision), asked)) => {
            trace.event.revision = revision;
            let mut xml = String::from(multistatus::BEGIN);
            push_itself(&mut xml, &place, kind, &meta, &asked);
            xml.push_str(multistatus::END);
            end(trace, Ok(multi_status(Body::from(xml))), Aim::Target)
        }
        Ok((Looked::Directory(listing), asked)) => {
            trace.event.revision = listing.revision();
            let (sender, chunks) = mpsc::channel(2);
            let answer = multi_status(Body::Stream(chunks));
            trace.answered(&answer);
            tokio::spawn(stream(*listing, place, asked, sender, trace));
            answer
        }
    }
}

fn depth(headers: &HeaderMap) -> Result<Depth, Wire> {
    match headers.get("depth").map(HeaderValue::as_bytes) {
        Some(b"0") => Ok(Depth::Zero),
        Some(b"1") => Ok(Depth::One),
        // No header means infinity (RFC 4918 §9.1).
        None => Err(Wire::Depth),
        Some(value) if value.eq_ignore_ascii_case(b"infinity") => Err(Wire::Depth),
        Some(_) => Err(Wire::Header("Depth")),
    }
}

enum Looked {
    One(NodeKind, Meta, u64),
    Directory(Box<Listing>),
}

fn look(mut stay: Stay, place: &Place, depth: Depth) -> Result<Looked, enfilade_passage::Refusal> {
    let found = stay.find(&place.path, AccessMask::VISIBLE)?;
    if depth == Depth::One && found.kind() == NodeKind::Directory {
        return Ok(Looked::Directory(Box::new(stay.list(place.path.clone())?)));
    }
    Ok(Looked::One(found.kind(), found.node.meta().clone(), stay.revision().0))
}

fn multi_status(body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::MULTI_STATUS;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=utf-8"));
    answer
}

fn push_itself(xml: &mut String, place: &Place, kind: NodeKind, meta: &Meta, asked: &Asked) {
    let name = place.path.split().map_or_else(|| place.datastore.to_string(), |(_, name)| name.to_owned());
    let href = href::of(place, kind == NodeKind::Directory);
    push_response(xml, &Resource { href: &href, name: &name, kind, meta }, asked);
}

/// Renders batch after batch. The status went out with the first byte; whatever goes wrong now can only cut the answer.
async fn stream(
    mut listing: Listing,
    place: Place,
    asked: Asked,
    sender: mpsc::Sender<Result<Bytes, Cut>>,
    mut trace: Trace,
) {
    let base = href::of(&place, true);
    let mut xml = String::from(multistatus::BEGIN);
    push_itself(&mut xml, &place, NodeKind::Directory, listing.meta(), &asked);
    let mut entries_left = LISTING_ENTRIES_MAX;
    loop {
        let (path, wanted) = (base.clone(), asked.clone());
        let batch = blocking(move || {
            let entries = listing.next_batch(BATCH_ENTRIES)?;
            let rendered = entries.map(|entries| render(&entries, &path, &wanted));
            Ok((listing, rendered))
        });
        let rendered = match batch.await {
            Ok((back, rendered)) => {
                listing = back;
                rendered
            }
            Err(failure) => {
                trace.failed(&failure);
                let _ = sender.send(Err(Cut)).await;
                return;
            }
        };
        let at_end = rendered.is_none();
        if let Some((text, count)) = rendered {
            entries_left = entries_left.saturating_sub(count);
            xml.push_str(&text);
            if entries_left == 0 {
                push_truncated(&mut xml, &base);
            }
        }
        let is_last = at_end || entries_left == 0;
        if is_last {
            xml.push_str(multistatus::END);
        }
        if is_last || xml.len() >= CHUNK_BYTES {
            let chunk = std::mem::take(&mut xml);
            trace.event.bytes += chunk.len() as u64;
            if sender.send(Ok(Bytes::from(chunk))).await.is_err() || is_last {
                return;
            }
        }
    }
}

fn render(entries: &[enfilade_passage::Entry], base: &str, asked: &Asked) -> (String, usize) {
    let mut xml = String::with_capacity(entries.len() * 512);
    let mut path = String::new();
    for entry in entries {
        path.clear();
        path.push_str(base);
        href::push_name(&mut path, &entry.name);
        if entry.meta.kind == NodeKind::Directory {
            path.push('/');
        }
        let resource = Resource { href: &path, name: &entry.name, kind: entry.meta.kind, meta: &entry.meta };
        push_response(&mut xml, &resource, asked);
    }
    (xml, entries.len())
}
