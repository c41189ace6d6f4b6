//! Sends a folder as a zip archive, while the client reads. The archive contains all files that the user may read. If a file cannot be read to its
//! end, or the folder has too many members, the response is cut short. So the client notices that the archive is not complete.

use super::content::{Sending, head};
use super::walk::Walk;
use super::zip_format::{Archive, Member};
use crate::click::Click;
use crate::failure;
use crate::place::Place;
use bytes::Bytes;
use enfilade_faces::{Answer, Body, Connection, Cut, Failure, Trace, blocking, blocking_failure};
use enfilade_facts::vocabulary::{DatastoreName, OperationKind, StorePath};
use enfilade_passage::{Blocking, Entry, Listing, NodeKind, Refusal, Turn, Visit};
use tokio::sync::mpsc;

/// The maximum memory for the archive's central directory, in bytes. This is enough for about 80,000 files. The central directory is sent after the
/// last file.
const DIRECTORY_BYTES_MAX: usize = 8 << 20;

pub(crate) async fn send(click: Click<'_>, place: Place) -> Answer {
    let mut click = click;
    click.trace.event.datastore = place.datastore.to_string();
    match open(&click.visit, &place).await {
        Ok(opened) => {
            let Click { trace, connection, visit, .. } = click;
            stream(opened, place, visit, (connection, trace))
        }
        Err(failure) => failure::page(click, failure),
    }
}

/// Opens a folder to send it.
///
/// # Errors
/// The refusal of a door.
pub(crate) async fn open(visit: &Visit, place: &Place) -> Result<(Turn, Listing), Failure> {
    // The central directory of the zip archive is in memory, like the names on the page of a folder. So an archive counts as one page of a folder.
    // The number of such pages that one user can get at the same time is limited.
    let turn = visit.share().page().await;
    let (visit, at) = (visit.clone(), place.clone());
    let listing = blocking_failure(visit.share(), move || {
        Ok(visit.enter(&at.datastore, OperationKind::Read, Blocking)?.list(at.path)?)
    });
    Ok((turn, listing.await?))
}

/// The response with an open folder as a zip archive.
pub(crate) fn stream(
    (turn, listing): (Turn, Listing),
    place: Place,
    visit: Visit,
    (connection, mut trace): (Connection, Trace),
) -> Answer {
    let (sender, pieces) = mpsc::channel(1);
    let answer =
        head("application/zip", "attachment", &format!("{}.zip", place.name()), Body::stream(pieces));
    trace.event.revision = listing.revision();
    trace.answered(&answer);
    let walk = Walk::begin(listing, place.path.clone());
    let (datastore, top, archive) = (place.datastore, place.path, Archive::default());
    let packing = Packing { visit, datastore, top, sender, connection, trace, archive };
    tokio::spawn(async move {
        let _turn = turn;
        packing.run(walk).await;
    });
    answer
}

/// An archive that is being sent.
struct Packing {
    visit: Visit,
    datastore: DatastoreName,
    /// The folder that the archive contains.
    top: StorePath,
    sender: mpsc::Sender<Result<Bytes, Cut>>,
    connection: Connection,
    trace: Trace,
    archive: Archive,
}

/// The error of an archive that is cut short.
struct CutShort;

impl Packing {
    async fn run(mut self, walk: Walk) {
        if self.pack(walk).await.is_err() {
            let _ = self.sender.send(Err(Cut)).await;
        }
    }

    /// Sends all members, and then the central directory of the archive.
    async fn pack(&mut self, mut walk: Walk) -> Result<(), CutShort> {
        loop {
            let next = blocking(self.visit.share(), move || {
                let members = walk.next()?;
                Ok::<_, Refusal>((walk, members))
            });
            let (back, members) = match next.await {
                Ok(next) => next,
                Err(failure) => {
                    self.trace.failed(&failure);
                    return Err(CutShort);
                }
            };
            walk = back;
            let Some(members) = members else { break };
            if walk.is_cut {
                return Err(self.too_large());
            }
            // It is possible that the client disconnected while there was nothing to send.
            if self.sender.is_closed() {
                return Err(CutShort);
            }
            for (path, entry) in members {
                self.member(&path, &entry).await?;
            }
        }
        let directory = std::mem::take(&mut self.archive).finish();
        self.put(directory).await
    }

    async fn member(&mut self, path: &StorePath, entry: &Entry) -> Result<(), CutShort> {
        let below = path.as_str().get(self.top.as_str().len()..).unwrap_or_default().trim_start_matches('/');
        let modified = entry.meta.modified.0;
        if entry.meta.kind == NodeKind::Directory {
            let mut bytes = self.begin(Member { name: format!("{below}/"), bytes: 0, modified })?;
            bytes.extend(self.archive.end(0));
            return self.put(bytes).await;
        }
        let (visit, datastore, at) = (self.visit.clone(), self.datastore.clone(), path.clone());
        let reading = blocking(self.visit.share(), move || {
            visit.enter(&datastore, OperationKind::Read, Blocking)?.read(&at, Blocking)
        });
        let reading = match reading.await {
            Ok(reading) => reading,
            // The user is permitted to see the file but not to read it, or the file was removed after its name was read. The archive leaves out the
            // file.
            Err(Failure::Refused(Refusal::Access(_) | Refusal::Content(_))) => return Ok(()),
            Err(failure) => {
                self.trace.failed(&failure);
                return Err(CutShort);
            }
        };
        let bytes = reading.meta().bytes;
        let begin = self.begin(Member { name: below.to_owned(), bytes, modified })?;
        self.put(begin).await?;
        let mut hasher = crc32fast::Hasher::new();
        let Packing { sender, connection, trace, .. } = self;
        let sending = Sending { sender, connection, trace };
        sending.send(reading, 0..bytes, |piece| hasher.update(piece)).await.ok_or(CutShort)?;
        let end = self.archive.end(hasher.finalize());
        self.put(end).await
    }

    /// The bytes before the content of a member, or an error if the central directory of the archive gets too large.
    fn begin(&mut self, member: Member) -> Result<Vec<u8>, CutShort> {
        let begin = self.archive.begin(member);
        match self.archive.directory_bytes() > DIRECTORY_BYTES_MAX {
            true => Err(self.too_large()),
            false => Ok(begin),
        }
    }

    fn too_large(&mut self) -> CutShort {
        self.trace
            .invalid("the folder has too many members for one zip archive; download its folders one by one");
        CutShort
    }

    async fn put(&mut self, bytes: Vec<u8>) -> Result<(), CutShort> {
        self.trace.event.bytes += bytes.len() as u64;
        self.sender.send(Ok(bytes.into())).await.map_err(|_| CutShort)
    }
}
