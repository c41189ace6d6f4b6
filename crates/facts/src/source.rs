//! The interface of a source. A source passes views to its callers, and commits changes.

use crate::audit::Requester;
use crate::change::{Change, Effect};
use crate::error::{CommitError, SourceError};
use crate::revision::At;
use crate::view::View;

/// A store of facts.
pub trait Source: Send + Sync {
    /// The newest revision. The call reads no record, and takes only nanoseconds. A view that is opened after this call has this revision or a newer
    /// one. Never use the returned revision for a view that was opened before this call.
    fn at(&self) -> At;

    /// Takes a view of one revision and calls `look` with it, once.
    ///
    /// # Errors
    /// When the store cannot be read. In that case `look` was not called.
    fn with_view(&self, look: &mut dyn FnMut(&View<'_>)) -> Result<(), SourceError>;

    /// Commits the whole change and makes it durable, or changes nothing. Returns the revision of the change; a later view has this revision or a
    /// newer one. A change that writes nothing gets no new revision.
    ///
    /// # Errors
    /// If the call returns a [`CommitError`] other than [`CommitError::Unknown`], nothing was changed.
    fn commit(&self, change: &Change) -> Result<At, CommitError>;

    /// Commits each of these changes as [`Source::commit`] does, in this order. If a change fails, the changes after it are committed nevertheless. A
    /// store can make all changes durable at once, which takes less time than separate commits. Returns one result for each change.
    fn commit_each(&self, changes: &[Change]) -> Vec<Result<At, CommitError>> {
        changes.iter().map(|change| self.commit(change)).collect()
    }

    /// Raises the format of the store, because later changes may contain records of this format. A program that does not know the format then refuses
    /// the store. The format of a store never becomes lower.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn raise_format(&self, _format: u32) -> Result<(), SourceError> {
        Ok(())
    }

    /// Whether there is room for a change of this requester with this effect. Call this function before you change a file that people edit, if a
    /// change of the stored facts must follow. The requester of that later change is [`Requester::File`], which may use more space than this
    /// requester.
    ///
    /// # Errors
    /// [`CommitError::Full`] if the memory map of the store has no room. Another error if the disk is full, or if the store cannot be read.
    fn has_room_for(&self, _requester: Requester, _effect: Effect, _bytes: u64) -> Result<(), CommitError> {
        Ok(())
    }
}

/// The interface for reading facts. Each read is a short synchronous call with a view of one revision.
pub trait Read {
    /// The newest revision. The call reads no record, and takes only nanoseconds. A view that is opened after this call has this revision or a newer
    /// one.
    fn newest(&self) -> At;

    /// Runs `look` on a fresh view and returns its result.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn read<R>(&self, look: impl FnOnce(&View<'_>) -> R) -> Result<R, SourceError>;
}

impl<S: Source + ?Sized> Read for S {
    fn newest(&self) -> At {
        self.at()
    }

    fn read<R>(&self, look: impl FnOnce(&View<'_>) -> R) -> Result<R, SourceError> {
        let mut look = Some(look);
        let mut answer = None;
        self.with_view(&mut |view| {
            if let Some(look) = look.take() {
                answer = Some(look(view));
            }
        })?;
        answer.ok_or_else(|| {
            SourceError::Unavailable("internal error: the store opened no view of the facts".into())
        })
    }
}

/// A view shows a single revision, so its newest revision is its own revision.
impl Read for View<'_> {
    fn newest(&self) -> At {
        self.at()
    }

    fn read<R>(&self, look: impl FnOnce(&View<'_>) -> R) -> Result<R, SourceError> {
        Ok(look(self))
    }
}
