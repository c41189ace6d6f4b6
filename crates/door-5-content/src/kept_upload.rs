//! Unfinished uploads, which a browser sends in pieces. The received bytes are kept in a directory of the server (`items.rs`) until the file is
//! complete. Then the file gets its name like any other upload ([`Upload::adopt`]). Until then the file has no ACL, and only the server's own Linux
//! user can open it.

use crate::beneath::open_beneath;
use crate::items::{self, ItemId, Place};
use crate::node::Node;
use crate::refuse::Refusal;
use crate::root::Root;
use crate::temporary::UPLOADS;
use crate::upload::Upload;
use enfilade_facts::codec::{Reader, Writer};
use enfilade_facts::vocabulary::{StorePath, UserId};
use rustix::fd::AsFd as _;
use rustix::fs::{FlockOperation, Mode, OFlags, fdatasync, flock};
use rustix::io::{self, Errno};

/// The name of the file in the directory of an item.
const DATA: &str = "data";
/// The first byte of a record: the number of the record's layout. Each layout has its own number.
const RECORD_LAYOUT: u8 = 1;

/// The content of the record of an unfinished upload. If a browser sends the same file to the same path again, the server makes an equal record. By
/// this record the server finds the unfinished upload, and the browser continues this upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadRecord {
    /// The path of the complete file.
    pub path: StorePath,
    /// The size of the whole file, in bytes.
    pub bytes: u64,
    /// When the file was modified on the machine of the user, in milliseconds since the epoch.
    pub modified_millis: i64,
}

impl UploadRecord {
    fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.u8(RECORD_LAYOUT).text(self.path.as_str()).u64(self.bytes).i64(self.modified_millis);
        to.into_bytes()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let layout = from.u8()?;
        let path = StorePath::from_plain(&from.text()?).ok()?;
        let record = UploadRecord { path, bytes: from.u64()?, modified_millis: from.i64()? };
        (layout == RECORD_LAYOUT && from.is_empty()).then_some(record)
    }
}

/// An unfinished upload that a request has opened. No other request can open it at the same time.
#[derive(Debug)]
pub struct KeptUpload {
    /// The path, the size and the time stamp of the file.
    pub record: UploadRecord,
    place: Place,
    data: Node,
    received: u64,
}

impl KeptUpload {
    /// How many bytes were received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Appends bytes.
    ///
    /// # Refuses
    /// [`Refusal::NoSpace`] when the disk is full, [`Refusal::Unmet`] when the file would become larger than announced.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        if self.record.bytes < self.received.saturating_add(bytes.len() as u64) {
            return Err(Refusal::Unmet);
        }
        let mut left = bytes;
        while !left.is_empty() {
            let written = io::retry_on_intr(|| io::pwrite(self.data.fd(), left, self.received));
            let written = written.map_err(|errno| Refusal::io(errno, "writing", DATA))?;
            left = left.get(written..).unwrap_or_default();
            self.received += written as u64;
        }
        Ok(())
    }

    /// Waits until the received bytes are on the disk.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the disk fails.
    pub fn sync(&self) -> Result<(), Refusal> {
        io::retry_on_intr(|| fdatasync(self.data.fd())).map_err(|errno| Refusal::io(errno, "syncing", DATA))
    }

    /// Removes the upload with its bytes.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when it cannot be removed.
    pub fn remove(self) -> Result<(), Refusal> {
        self.place.remove(&|| true)
    }
}

impl Upload {
    /// Discards the bytes that were written to this upload, and uses the bytes of an unfinished upload instead. The file gets the ACL and the owner
    /// of this upload.
    ///
    /// # Refuses
    /// [`Refusal::AclNotWritable`] when the ACL cannot be stored; [`Refusal::ChangedMeanwhile`] when the unfinished upload was removed.
    pub fn adopt(&mut self, kept: KeptUpload) -> Result<(), Refusal> {
        let KeptUpload { place, data, received, .. } = kept;
        self.prepare(&data)?;
        {
            let _turn = place.directory.turn().take();
            place.still_there()?;
            self.take_in((&place.directory, DATA), data, received)?;
        }
        place.forget()
    }
}

impl Root {
    /// Begins an upload in pieces. `seconds` is the present time, in seconds since the epoch.
    ///
    /// # Refuses
    /// [`Refusal::Io`] and [`Refusal::NoSpace`] when the directory of unfinished uploads cannot be written.
    pub fn begin_upload(&self, user: UserId, seconds: i64, record: &UploadRecord) -> Result<ItemId, Refusal> {
        let made = Place::make((self, UPLOADS), (user, seconds), &record.encode(), |directory| {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = open_beneath(directory.fd(), DATA, flags, Mode::RUSR | Mode::WUSR);
            made.map(drop).map_err(|errno| Refusal::io(errno, "making", DATA))
        });
        Ok(made?.id)
    }

    /// Opens an unfinished upload. At any time, at most one request works on an upload.
    ///
    /// # Refuses
    /// [`Refusal::Absent`] when there is no such upload, [`Refusal::Uploading`] when another request works on it.
    pub fn kept_upload(&self, id: ItemId) -> Result<KeptUpload, Refusal> {
        let absent = || Refusal::Absent(id.to_string());
        let place = Place::find((self, UPLOADS), id)?.ok_or_else(absent)?;
        let record = place.record()?.and_then(|bytes| UploadRecord::decode(&bytes)).ok_or_else(absent)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = open_beneath(place.directory.fd(), DATA, flags, Mode::empty());
        let opened = opened.map_err(|errno| Refusal::lookup(errno, &id.to_string()))?;
        if flock(opened.as_fd(), FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(Refusal::Uploading(record.path.to_string()));
        }
        let data = place.directory.describe_beneath(opened, DATA)?;
        let received = data.meta().bytes;
        Ok(KeptUpload { record, place, data, received })
    }

    /// At most `most` unfinished uploads of a user, in the order from the newest to the oldest. If the user has more than `most` unfinished uploads,
    /// the result contains the uploads that the file system listed first.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the directory of unfinished uploads cannot be read.
    pub fn upload_ids(&self, user: UserId, most: usize) -> Result<Vec<ItemId>, Refusal> {
        Ok(items::ids((self, UPLOADS), Some(user), most)?.0)
    }

    /// Removes the unfinished uploads that began before `before` (seconds since the epoch). Works like [`Root::expire_trash`], which removes items of
    /// the trash.
    ///
    /// # Refuses
    /// [`Refusal::Io`] when the directory of unfinished uploads cannot be read.
    pub fn expire_uploads(
        &self,
        (before, now): (u64, i64),
        keep_going: &dyn Fn() -> bool,
    ) -> Result<u64, Refusal> {
        items::expire((self, UPLOADS), (before, now), keep_going)
    }

    /// The number of received bytes of all unfinished uploads. The quota limits these bytes, too.
    pub(crate) fn kept_bytes(&self) -> Result<u64, Refusal> {
        let (ids, _) = items::ids((self, UPLOADS), None, usize::MAX)?;
        let mut bytes = 0_u64;
        for id in ids {
            let Some(place) = Place::find((self, UPLOADS), id)? else { continue };
            match place.directory.child(DATA) {
                Ok(data) => bytes = bytes.saturating_add(data.meta().bytes),
                Err(Refusal::Absent(_) | Refusal::Special(_)) => {}
                Err(why) => return Err(why),
            }
        }
        Ok(bytes)
    }
}
