//! Uploads in pieces: a browser sends a large file in several requests, and can continue the upload after a broken connection or a reload of the
//! page. Each piece needs the same right as an upload of the whole file. The file gets its name when it is complete.

use crate::reach::Inside as _;
use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::NodeKind;
use enfilade_content::{ItemId, KeptUpload, QuotaReservation, Refusal as Content, Touches, UploadRecord};
use enfilade_facts::vocabulary::StorePath;

/// The maximum number of unfinished uploads of one user in a datastore. If the user begins another upload, the server removes the oldest unfinished
/// upload.
pub const KEPT_UPLOADS_MAX: usize = 20;

/// How long an unfinished upload is kept, in days.
pub const KEPT_UPLOAD_DAYS: u64 = 7;

impl Stay {
    /// Checks that the user may store a file at a path, and that no lock prevents this. Returns whether the file would replace another file.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn may_store(&mut self, path: &StorePath) -> Result<bool, Refusal> {
        let (directory, name) = self.reach_parent(path).map_err(Refusal::of_parent(path))?;
        let target = self.present_or_taken(path, &directory, name, NodeKind::File)?;
        let touches = match &target {
            Some(target) => {
                self.may_overwrite(path, &directory, target)?;
                Touches::Content
            }
            None => {
                self.may_create(path, &directory, NodeKind::File).map_err(Refusal::of_parent(path))?;
                Touches::Entry
            }
        };
        self.unless_locked(path, touches, &[])?;
        Ok(target.is_some())
    }

    /// Begins an upload in pieces, or finds the unfinished upload of the same file to the same path. Returns its id and the number of bytes that were
    /// received. The caller must have called [`Stay::may_store`].
    ///
    /// # Errors
    /// [`Content::OverQuota`] if the file does not fit into the quota, [`Content::NoSpace`] if it is larger than the free space,
    /// [`Content::Uploading`] if another request works on the upload.
    pub fn keep_upload(&mut self, record: &UploadRecord) -> Result<(ItemId, u64), Refusal> {
        let user = self.principal().user;
        // A user can have more unfinished uploads than the maximum, if two requests begin an upload at the same time. So one more id is read.
        let ids = self.root.upload_ids(user, KEPT_UPLOADS_MAX + 1)?;
        for id in &ids {
            match self.root.kept_upload(*id) {
                Ok(kept) if kept.record == *record => {
                    self.fits_in_quota(record.bytes.saturating_sub(kept.received()))?;
                    return Ok((*id, kept.received()));
                }
                Err(why @ Content::Uploading(_)) if why.is_about(&record.path) => return Err(why.into()),
                Ok(_) | Err(_) => {}
            }
        }
        self.fits_in_quota(record.bytes)?;
        if self.root.usage()?.available < record.bytes {
            let what = format!("making room for `{}`", record.path);
            return Err(Content::NoSpace {
                what,
                errno: "the file is larger than the free space".to_owned(),
            }
            .into());
        }
        for old in ids.iter().skip(KEPT_UPLOADS_MAX - 1) {
            if let Ok(kept) = self.root.kept_upload(*old) {
                self.fill.freed(kept.received());
                // If an upload cannot be removed now, `House::expire_items` removes it later.
                let _ = kept.remove();
            }
        }
        Ok((self.root.begin_upload(user, self.now().unix_seconds, record)?, 0))
    }

    fn fits_in_quota(&mut self, bytes: u64) -> Result<(), Refusal> {
        match self.datastore.quota() {
            Some(quota) => Ok(self.fill.take(&self.root, quota, 0)?.fits(bytes)?),
            None => Ok(()),
        }
    }

    /// Opens the user's unfinished upload to a path, to append bytes.
    ///
    /// # Errors
    /// [`Content::Absent`] if the user has no such upload, [`Content::Uploading`] if another request works on it; the refusals of
    /// [`Stay::may_store`].
    pub fn go_on_uploading(mut self, path: &StorePath, id: Option<ItemId>) -> Result<KeptUploading, Refusal> {
        self.may_store(path)?;
        let absent = || Content::Absent(path.to_string());
        let id = id.filter(|id| id.user == self.principal().user).ok_or_else(absent)?;
        let kept = self.root.kept_upload(id)?;
        if kept.record.path != *path {
            return Err(absent().into());
        }
        let reservation =
            self.datastore.quota().map(|quota| self.fill.take(&self.root, quota, 0)).transpose()?;
        let begin = kept.received();
        Ok(KeptUploading { parts: Some((self, kept)), counted: Counted { reservation, begin, end: begin } })
    }
}

/// The begin and end of a piece in the file, in bytes, and its reserved quota. When this value is dropped, the bytes of the piece are counted in the
/// quota, because they stay on the disk.
struct Counted {
    reservation: Option<QuotaReservation>,
    begin: u64,
    end: u64,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bytes = self.end - self.begin;
        self.reservation.take().into_iter().for_each(|reservation| reservation.keep(bytes, 0));
    }
}

/// An unfinished upload that a request continues.
pub struct KeptUploading {
    /// `None` after [`KeptUploading::finish`] was called.
    parts: Option<(Stay, KeptUpload)>,
    counted: Counted,
}

impl KeptUploading {
    /// How many bytes of the file were received.
    pub fn received(&self) -> u64 {
        self.counted.end
    }

    /// Whether all bytes were received.
    pub fn is_complete(&self) -> bool {
        self.parts.as_ref().is_some_and(|(_, kept)| kept.received() == kept.record.bytes)
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// When the bytes cannot be written, the file would become larger than announced, or the visitor may no longer write the file.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let Some((stay, kept)) = &mut self.parts else { return Err(Content::Unmet.into()) };
        if !stay.unchanged() {
            let path = kept.record.path.clone();
            stay.may_store(&path)?;
        }
        let end = kept.received().saturating_add(bytes.len() as u64);
        if let Some(reservation) = &mut self.counted.reservation {
            reservation.grow_to(end - self.counted.begin)?;
        }
        let written = kept.write(bytes);
        self.counted.end = kept.received();
        Ok(written?)
    }

    /// Ends a piece: waits until its bytes are on the disk.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn pause(self) -> Result<(), Refusal> {
        match &self.parts {
            Some((_, kept)) => Ok(kept.sync()?),
            None => Ok(()),
        }
    }

    /// Gives the complete file its name. With `is_new_only`, no file is replaced. Returns whether a file was replaced.
    ///
    /// # Errors
    /// [`Content::Exists`] if another file has the name; the refusals of an upload. The received bytes are kept if the refusal comes before they
    /// became the content of the new file (in `Uploading::set_from`). A later refusal removes the received bytes.
    pub fn finish(mut self, is_new_only: bool) -> Result<bool, Refusal> {
        let Some((stay, kept)) = self.parts.take() else { return Err(Content::Unmet.into()) };
        drop(self);
        let mut uploading = stay.upload(kept.record.path.clone(), None)?;
        let replaces = uploading.existing().is_some();
        if replaces && is_new_only {
            return Err(Content::Exists(kept.record.path.name().to_owned()).into());
        }
        uploading.unless_locked(Vec::new())?;
        uploading.set_from(kept)?;
        uploading.finish()?;
        Ok(replaces)
    }
}
